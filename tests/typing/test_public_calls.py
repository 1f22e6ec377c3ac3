"""Public calls have the types that their documentation promises."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(600)  # mypy from an empty cache, on a machine that may be busy


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What mypy learns of the package, once for both."""
    return tmp_path_factory.mktemp("mypy")


def test_public_calls_have_the_promised_types(cache):
    """mypy in strict mode agrees with every assert_type, and with every call that must be refused."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache)]
    checked = subprocess.run(
        [*command, "tests/typing/public_calls.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_examples_are_typed(tmp_path, cache):
    """mypy in strict mode finds nothing in the examples, copied to where a user would have them."""
    shutil.copy(ROOT / "examples" / "context.py", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache)]
    checked = subprocess.run(
        [*command, "context.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
