"""A resolver whose references make a mutation suffer: wait:1.5, until:/path, die:/path, die-with:/path."""

import os
import signal
import threading
from pathlib import Path

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import ContextReference
from ditto_tasks.extensions import Extension
from ditto_tasks.settings import Settings
from support.polling import eventually

FACTORY = "support.resolver:open_resolver"
FOREVER_S = 600.0


class SufferingResolver:
    """Called in a thread of the worker's pool, within the mutation."""

    def resolve(self, reference: ContextReference, _execution: ContextExecution) -> str:
        kind, _, argument = reference.uri.partition(":")
        if kind == "wait":
            threading.Event().wait(float(argument))
        elif kind == "until":
            Path(f"{argument}.started").touch()
            eventually(Path(argument).exists, FOREVER_S)
        elif kind == "die" or (kind == "die-with" and Path(argument).exists()):
            with Path(argument).open("a") as deaths:
                deaths.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return kind


def open_resolver(_settings: Settings) -> Extension:
    """For DITTO_EXTENSIONS."""
    return Extension(context={"reference_resolver": SufferingResolver()})


def suffering(*uris: str) -> dict[str, object]:
    """The input of a LOAD that resolves these references."""
    return {"sources": [{"uri": uri} for uri in uris], "resolveReferences": True}
