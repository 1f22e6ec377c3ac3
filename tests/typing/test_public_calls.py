"""Public calls have the types that their documentation promises."""

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
