"""Public calls have the types that their documentation promises."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_public_calls_have_the_promised_types(tmp_path):
    """mypy in strict mode agrees with every assert_type, and with every call that must be refused."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    checked = subprocess.run(
        [*command, "tests/typing/public_calls.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_examples_are_typed(tmp_path):
    """mypy in strict mode finds nothing in the examples, copied to where a user would have them."""
    shutil.copy(ROOT / "examples" / "context.py", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    checked = subprocess.run(
        [*command, "context.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
