"""What a developer's machine may lack, and CI may not."""

import os
from typing import NoReturn

import pytest


def absent(what: str) -> NoReturn:
    """Skip what cannot be tested here. In CI it fails: a skipped promise would count as kept."""
    if os.environ.get("CI"):
        pytest.fail(f"CI has to have it: {what}", pytrace=False)
    pytest.skip(what)
