"""The page about conversations says what is true."""

import re

from support.source import ROOT

PAGE = ROOT / "docs" / "conversations.md"


def test_the_pages_code_runs() -> None:
    """The code blocks of docs/conversations.md run one after another, assertions included."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})  # noqa: S102 -- the page is ours
