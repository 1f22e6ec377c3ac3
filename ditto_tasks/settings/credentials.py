"""Variables from files: a folder whose files are named as variables, the way secret mounts look.

A credential in a file is in no process list, no container's description and no shell history.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ditto_tasks.settings.yaml import invalid

FOLDER_VARIABLE: Final = "DITTO_CREDENTIALS"
PREFIX: Final = "DITTO_"


def with_credentials(env: Mapping[str, str]) -> Mapping[str, str]:
    """`env`, and under it the files of the folder that DITTO_CREDENTIALS names; what is set in `env` wins."""
    folder = env.get(FOLDER_VARIABLE)
    if not folder:
        return env
    given = {name: value for name, value in env.items() if value}
    return {**_read_folder(Path(folder)), **given}


def _read_folder(folder: Path) -> dict[str, str]:
    try:
        files = [file for file in folder.iterdir() if file.name.startswith(PREFIX)]
        return {file.name: file.read_text("utf-8").strip() for file in files}
    except (OSError, UnicodeDecodeError) as exc:
        raise invalid(FOLDER_VARIABLE, f"the folder cannot be read ({type(exc).__name__})") from exc
