"""An application's own Celery is left alone by ours, in the same process too."""

import subprocess
import sys

PROGRAM = """
from celery import Celery, current_app, shared_task
from ditto_tasks import AsyncDitto, Ditto, create_app, default_settings

mine = Celery("mine", broker="memory://")
settings = default_settings({"DITTO_BROKER_URL": "redis://127.0.0.1:1/0"})

@shared_task(name="add")
def add(a, b):
    return a + b

create_app(settings)
AsyncDitto(settings).blocking.app
assert Ditto(settings).app.conf.broker_url != mine.conf.broker_url
assert current_app._get_current_object() is mine
assert add.app is mine
assert "add" in mine.tasks
"""


def test_the_current_application_stays_the_callers() -> None:
    """None of our applications becomes Celery's current one, so shared tasks go where they went."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
