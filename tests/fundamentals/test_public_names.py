"""Public names: all there, sorted, and imported only when asked for."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import ditto_tasks
import ditto_tasks.context

PACKAGES = (ditto_tasks, ditto_tasks.context)
SPECIFIED = re.findall(
    r"\w+",
    """ContextNodes AsyncContextNodes RedisContextStore InMemoryContextStore ContextStateStore RedisOptions
    ContextOperationQueue rag_strategy ContextExecution load_node select_node update_node compress_node
    default_select deterministic_compress is_protected scope_key
    CONTEXT_LOAD CONTEXT_SELECT CONTEXT_UPDATE CONTEXT_COMPRESS""",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_are_there(package: object) -> None:
    """Each name of __all__ can be had, and the list is in order without repeats."""
    names = package.__all__
    assert [name for name in names if not hasattr(package, name)] == []
    assert names == sorted(set(names), key=names.index)
    missing = "nonsense"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(package, missing)


def test_names_of_the_specification_are_exported() -> None:
    """The context package has every name that the specification lists for it."""
    assert [name for name in SPECIFIED if name not in ditto_tasks.context.__all__] == []


def test_importing_the_package_stays_light() -> None:
    """In a fresh interpreter neither Celery nor any driver is loaded by the import."""
    code = (
        "import sys, ditto_tasks, ditto_tasks.context\n"
        "heavy = {'celery', 'kombu', 'redis', 'sqlalchemy', 'qdrant_client', 'openai', 'flower'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
