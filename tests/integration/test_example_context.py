"""examples/context.py: every example runs, and shows what it says."""

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "examples" / "context.py"


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_context", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ids(context):
    return [item.id for item in context.items]


EXPECTED = {
    "construct": lambda nodes: nodes.policy.max_items == 10,
    "load": lambda context: len(context.items) == 3 and context.items[1].id == "a",
    "select": lambda found: found.selected_item_ids == ("goal", "train"),
    "update": lambda context: ids(context) == ["goal", "train", "hotel", "memory:7"],
    "compress": lambda context: ids(context)[0] == "goal" and len(context.items) == 2,
    "execute": lambda context: len(context.items) == 3,
    "cached_calls": lambda context: ids(context)[-1] == "budget" and len(context.items) == 5,
    "redis_store_with_versions": lambda shown: len(shown[0]) == 36 and shown[1] == "STATE_CONFLICT",
    "custom_services": lambda found: found.selected_item_ids == ("weather", "hotel"),
    "rag": lambda found: found.selected_item_ids[0] == "hotel",
    "retrieval_provider_as_rag_strategy": lambda found: found.selected_item_ids == ("nara",),
    "context_to_infer": lambda text: "leaves at nine" in text and "[train]" in text,
    "memory_to_context_item": lambda context: ids(context)[-1].startswith("memory:"),
    "rag_and_skill_flows": lambda both: ids(both[1].context) == ["weather", "skill"],
    "errors": lambda codes: (
        codes == ["INVALID_INPUT", "UNKNOWN_NODE", "DUPLICATE_ITEM", "STATE_STORE_UNAVAILABLE"]
    ),
    "direct_strategies": lambda both: both[0][0] == "goal" and ids(both[1]) == ["goal"],
    "custom_node": lambda shown: shown[:2] == ("TEXT.COUNT", {"words": 3}),
    "context_to_memory_drafts": lambda drafts: (
        drafts == [{"content": "prefers a window", "metadata": {"contextItemId": "seat"}}]
    ),
    "tool_to_cached_context": lambda context: ids(context)[-1] == "observation:call-1",
    "local_store_queue_and_resolver": lambda context: context.items[0].content == "the key is under the mat",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_shows_what_it_says(examples, name):
    """Each example can be called without arguments and returns what its docstring promises."""
    shown = getattr(examples, name)()
    assert EXPECTED[name](shown), shown


def test_the_examples_use_public_names_only():
    """Whatever the examples import from this package stands in the `__all__` of where it comes from."""
    imports = [node for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if node.module and node.module.split(".")[0] == "ditto_tasks"]
    assert own
    for node in own:
        public = importlib.import_module(node.module).__all__
        assert [alias.name for alias in node.names if alias.name not in public] == []


def target(node):
    return node.target.id if isinstance(node, ast.AnnAssign) else node.targets[0].id


def test_importing_the_examples_runs_nothing():
    """The file consists of imports, definitions and two constants."""
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Expr, ast.Assign, ast.AnnAssign)
    body = ast.parse(FILE.read_text()).body
    assert [type(node).__name__ for node in body if not isinstance(node, allowed)] == []
    assert [target(node) for node in body if isinstance(node, ast.Assign | ast.AnnAssign)] == [
        "NOTES",
        "SCOPE",
    ]
