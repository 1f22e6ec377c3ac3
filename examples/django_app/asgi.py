"""With a server and a worker running (`ditto up` shows the variables):
uvicorn examples.django_app.asgi:application
"""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_app.settings")
application = get_asgi_application()
