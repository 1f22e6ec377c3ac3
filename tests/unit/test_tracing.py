"""Tracing is asked for, costs nothing where it is not, and says which extra it needs."""

import subprocess
import sys

import pytest

from ditto_tasks.celery import create_app
from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import load_settings


def test_without_the_variable_opentelemetry_is_not_imported() -> None:
    """An application of the default settings has a tracer that does nothing."""
    script = (
        "import sys\nfrom ditto_tasks.celery import create_app\n"
        "from ditto_tasks.settings import load_settings\n"
        "create_app(load_settings(None, {})); print('opentelemetry' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_without_the_extra_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """DITTO_OTEL=true where OpenTelemetry is not installed is an error of the settings."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "ditto_tasks.open_telemetry", raising=False)
    with pytest.raises(SettingsError, match=r"DITTO_OTEL: needs ditto-tasks\[otel\]") as caught:
        create_app(load_settings(None, {"DITTO_OTEL": "true"}))
    assert caught.value.code == "MISSING_EXTRA"


def test_the_variable_is_a_truth_value() -> None:
    """Anything else is refused by its name."""
    with pytest.raises(SettingsError, match="DITTO_OTEL"):
        load_settings(None, {"DITTO_OTEL": "perhaps"})
