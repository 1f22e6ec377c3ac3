"""YAML and environment to one frozen Settings.

Behaviour comes from YAML files, connections and credentials from DITTO_* variables. No other package
module reads the environment, and a `.env` file is never read.
"""

from ditto_tasks.settings.checks import check_visibility_timeout
from ditto_tasks.settings.loading import (
    child_environment,
    default_settings,
    environment_variables,
    load_settings,
    unknown_variables,
)
from ditto_tasks.settings.snapshot import Provider, Settings

__all__ = [
    "Provider",
    "Settings",
    "check_visibility_timeout",
    "child_environment",
    "default_settings",
    "environment_variables",
    "load_settings",
    "unknown_variables",
]
