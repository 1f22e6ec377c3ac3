"""The least that Django needs: no database, no templates. A real project has its own settings."""

import json
import os
import secrets

SECRET_KEY = secrets.token_urlsafe(32)  # signs nothing here
TENANT_TOKENS = json.loads(os.environ.get("TENANT_TOKENS", "{}"))  # with none nobody may come in
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "examples.django_app.urls"
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"]
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024
USE_TZ = True
