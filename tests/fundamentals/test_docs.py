"""The documents say what is so: their paths exist, their code runs, their tables are complete."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from support.keys import documented_keys

from ditto_tasks.cli import COMMANDS
from ditto_tasks.client.methods import DOMAINS, Method
from ditto_tasks.keys import Keys
from ditto_tasks.nodes import NODES, ORDINARY_QUEUES
from ditto_tasks.pipelines.bindings import BINDINGS
from ditto_tasks.pipelines.flow_models import INPUTS
from ditto_tasks.pipelines.models import AnswerOptions, FlowName
from ditto_tasks.sharding import shard_queue
from ditto_tasks.task import TaskOptions
from ditto_tasks.worker.keys import dead_key, inflight_key

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
EXPECTED = {
    *("architecture", "operations", "tasks", "extending", "decisions", "glossary", "benchmarks"),
    *("conversations", "web", "graphs"),
}
FOLDERS = "ditto_tasks|config|docs|docker|tests|examples|benchmarks|.ci"
README_LINES = 150

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=[path.name for path in DOCUMENTS])


def named_paths(document: Path) -> Iterator[str]:
    """Paths of this repository that stand between back quotes."""
    for quoted in re.findall(r"`([^`\n]+)`", document.read_text("utf-8")):
        yield from re.findall(rf"(?:^|[ =])((?:{FOLDERS})/[\w./-]*)", quoted)


def operations() -> str:
    """The text of docs/operations.md."""
    return (ROOT / "docs" / "operations.md").read_text("utf-8")


def test_every_document_is_there() -> None:
    """docs/ has the documents that the README names, and each is more than a heading."""
    sizes = {path.stem: len(path.read_text("utf-8")) for path in (ROOT / "docs").glob("*.md")}
    assert sizes.keys() >= EXPECTED
    assert min(sizes.values()) > 500


def test_the_readme_is_short() -> None:
    """README.md has at most 150 lines."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= README_LINES


@by_name
def test_paths_in_documents_exist(document: Path) -> None:
    """Every path of this repository that a document names exists."""
    assert [path for path in named_paths(document) if not (ROOT / path).exists()] == []


@by_name
def test_code_in_documents_runs(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a document run one after another, in one namespace."""
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": document.stem}
    blocks = re.findall(r"```python\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
    for number, block in enumerate(blocks, 1):
        code = compile(block, f"{document.name} block {number}", "exec")
        exec(code, namespace)  # noqa: S102 -- our own documents, run as their readers would


@by_name
def test_documents_name_no_place_of_one_machine(document: Path) -> None:
    """No document holds a path of a certain machine."""
    assert re.findall(r"(?:^|[\s`(])/(?:work|root|home|tmp)\b\S*", document.read_text("utf-8")) == []


def test_every_node_is_documented() -> None:
    """docs/tasks.md has a row for every node of the table, and for no other."""
    rows = re.findall(
        r"^\| `([A-Z]+\.[A-Z.]+)`", (ROOT / "docs" / "tasks.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(NODES)


def test_every_binding_and_option_is_documented() -> None:
    """docs/tasks.md has a row for every binding and every option of a task, and for no other."""
    text = (ROOT / "docs" / "tasks.md").read_text("utf-8")
    rows = {part: re.findall(r"^\| `([^`]+)` \|", body, re.MULTILINE) for part, body in sections(text)}
    assert sorted(rows["Bindings"]) == sorted(BINDINGS)
    assert sorted(rows["Options"]) == sorted(field.alias or "" for field in TaskOptions.model_fields.values())


def test_every_flow_and_option_of_an_answer_is_documented() -> None:
    """docs/tasks.md has a row for every flow, and names what `answer` takes."""
    part = dict(sections((ROOT / "docs" / "tasks.md").read_text("utf-8")))["Pipelines and flows"]
    assert [name for name in ("answer", *get_args(FlowName)) if f"\n| {name} |" not in part] == []
    assert (
        sorted(AnswerOptions.__annotations__.keys() - {"deadline_ms"} - set(re.findall(r"`(\w+)`", part)))
        == []
    )


def test_every_input_of_a_flow_is_documented() -> None:
    """The row of a flow in docs/tasks.md names every field of its input."""
    part = dict(sections((ROOT / "docs" / "tasks.md").read_text("utf-8")))["Pipelines and flows"]
    missing = {
        name: {field.alias or field_name for field_name, field in model.model_fields.items()}
        - {"context"}
        - set(re.findall(r"`(\w+)`", part.partition(f"\n| {name} |")[2].partition("\n")[0]))
        for name, model in INPUTS.items()
    }
    assert {name: fields for name, fields in missing.items() if fields} == {}


def test_every_method_of_a_client_is_documented() -> None:
    """docs/web.md has a row for each domain of a client, with its methods and no others."""
    text = (ROOT / "docs" / "web.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `client\.(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    for domain in DOMAINS:
        methods = [name for name, value in vars(domain).items() if isinstance(value, Method)]
        row = rows.pop(domain.__name__.removesuffix("Methods").lower())
        assert re.findall(r"`(\w+)`", row) == methods
    assert rows == {}


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The headings of the second level with what stands below each."""
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        yield heading, body


def test_every_queue_is_documented() -> None:
    """docs/operations.md has a row for every queue."""
    rows = re.findall(r"^\| `(ditto\.[\w.<>]+)` \|", operations(), re.MULTILINE)
    assert {*ORDINARY_QUEUES, "ditto.ctx.<shard>"} <= set(rows)


def test_every_command_is_documented() -> None:
    """docs/operations.md has a row for every command of `ditto`, and for no other."""
    assert sorted(re.findall(r"^\| `ditto (\w+)` \|", operations(), re.MULTILINE)) == sorted(COMMANDS)


def test_every_metric_is_documented() -> None:
    """docs/operations.md has a row for every metric, and for no other."""
    rows = re.findall(r"^\| `(ditto_\w+)` \|", operations(), re.MULTILINE)
    source = (ROOT / "ditto_tasks" / "metrics" / "exposition.py").read_text("utf-8")
    named = set(re.findall(r'\(\s*"(ditto_\w+)"', source))
    assert sorted(row.removesuffix("_total") for row in rows) == sorted(named)


def test_every_coordination_key_is_documented() -> None:
    """docs/operations.md has a row for each key that the workers' table of keys can name."""
    keys = Keys("blue")
    named = [keys.shard_count, keys.workers, keys.lease(3), keys.shard(3), keys.worker("host-1")]
    named += [shard_queue(3), inflight_key(3), dead_key(shard_queue(3)), *ORDINARY_QUEUES]
    named += [dead_key(queue) for queue in ORDINARY_QUEUES]
    rows = documented_keys()
    assert [name for name in named if not any(row.matches(name) for row in rows)] == []


def test_every_key_says_how_long_it_lives() -> None:
    """Each row of the table of keys has a TTL or says none and why."""
    rows = documented_keys()
    assert len(rows) > 10
    assert [row.name for row in rows if row.ttl in {"", "none"}] == []
