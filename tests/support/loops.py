"""Event loops step by step."""

import types
from collections.abc import Generator


@types.coroutine
def one_turn() -> Generator[None, None, None]:
    """Let everything else of the loop that is ready run once."""
    yield
