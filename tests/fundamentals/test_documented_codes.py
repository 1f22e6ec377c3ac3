"""Every error code is a promise, so it stands in docs/tasks.md, docs/graphs.md or docs/operations.md."""

import ast
import re
from collections.abc import Iterator

import pytest
from support.source import ROOT

PACKAGE = ROOT / "ditto_tasks"
PAGES = ("tasks.md", "graphs.md", "operations.md")
CODE = re.compile(r"[A-Z]+(_[A-Z]+)+")
ONE_WORD = re.compile(r"[A-Z]{4,}")
RAISED = re.compile(r"(Error|Cancelled|DeadLettered|OutcomeUnknown)$")
# texts of this shape that are no codes of ours
OTHERS = {
    "API_KEY": "the end of a variable",
    "BASE_URL": "the end of a variable",
    "LC_ALL": "a variable of the system",
    "LOG_TTL_MS": "a constant of a script",
    "DEADLINE_EXCEEDED": "a provider's",
    "MAX_TOKENS": "a provider's",
    "PROHIBITED_CONTENT": "a provider's",
}


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in a piece of source."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def exported(tree: ast.Module) -> set[str]:
    """Names that a module lists because it exports them."""
    lists = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)]
    return {
        text
        for each in lists
        if "__all__" in ast.unparse(each) or "_HOMES" in ast.unparse(each)
        for text in texts(each)
    }


def codes_in(source: str) -> set[str]:
    """Codes of two words anywhere, and of one word where they are given to an error."""
    tree = ast.parse(source)
    found = {text for text in texts(tree) if CODE.fullmatch(text)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and RAISED.search(ast.unparse(call.func)):
            found |= {text for given in call.args[:1] for text in texts(given) if ONE_WORD.fullmatch(text)}
    return {code for code in found - exported(tree) if not code.startswith("DITTO_")}


def all_codes() -> set[str]:
    """The codes of the package."""
    files = PACKAGE.rglob("*.py")
    return {code for file in files for code in codes_in(file.read_text("utf-8"))} - OTHERS.keys()


def test_every_code_is_documented() -> None:
    """Each code that the package knows is a word of one of the three pages."""
    words = {word for page in PAGES for word in re.findall(r"\w+", (ROOT / "docs" / page).read_text("utf-8"))}
    assert sorted(all_codes() - words) == []


def test_the_list_of_other_texts_is_current() -> None:
    """What is said to be no code is still in the source."""
    assert [
        text for text in OTHERS if not any(text in file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    ] == []


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ('raise ContextError("STATE_CONFLICT", "text")', {"STATE_CONFLICT"}),
        ('raise MemoryError("CONFLICT", "text")', {"CONFLICT"}),
        ('CODES = {"NOT_JSON": 1}\n__all__ = ["MAX_DEPTH"]', {"NOT_JSON"}),
        ('raise InferError("A" if x else "ERASED", "DENIED")', {"ERASED"}),
        ('name = "DITTO_CONFIG"; kind = "CONTEXT"', set()),
    ],
)
def test_codes_are_found(source: str, codes: set[str]) -> None:
    """The search finds codes that are raised, chosen or listed, and no other texts."""
    assert codes_in(source) == codes
