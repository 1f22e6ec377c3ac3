"""The real Flower beside a real worker: who gets in, what is shown, and that no content is."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.batches import ditto
from support.flower import FlowerProcess, metric
from support.polling import eventually
from support.workers import Deployment, environment

from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import DittoError
from ditto_tasks.settings import load_settings

CANARY = "canary-5f1e"
CREDENTIAL = f"admin:{CANARY}"
SCOPE = {"sessionId": f"{CANARY}:session"}
ITEM = {"id": f"{CANARY}-id", "content": f"{CANARY} text", "metadata": {CANARY: CANARY}}

EXTENSION = f"""
import fcntl
from pathlib import Path
from ditto_tasks.extensions import Extension

class Selector:
    def select(self, request, execution):
        with Path(__file__).with_name("gate").open() as gate:
            fcntl.flock(gate, fcntl.LOCK_SH)  # waits for the test that holds it
        raise RuntimeError("{CANARY} from a service")

def create(settings):
    return Extension(context={{"selector": Selector()}})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("flower")
    (made / "gated_extension.py").write_text(EXTENSION, "utf-8")
    (made / "gate").touch()
    return made


@pytest.fixture(scope="module")
def deployment(folder: Path) -> Iterator[Deployment]:
    root, tests = Path(__file__).parents[2], Path(__file__).parents[1]
    env = {
        "DITTO_EXTENSIONS": "gated_extension:create",
        "DITTO_WORKER_MEMORY_URL": f"sqlite:///{folder / 'memory.sqlite3'}",
        "DITTO_SHARED_PROVIDERS": "main",
        "DITTO_SHARED_PROVIDER_MAIN_KIND": "openai",
        "DITTO_SHARED_PROVIDER_MAIN_API_KEY": CANARY,
        "DITTO_WORKER_INFER_MODEL_PROVIDER": "extractive",
        "DITTO_WORKER_INTERACTION_BRAVE_SEARCH_API_KEY": CANARY,
        "PYTHONPATH": os.pathsep.join(map(str, (root, tests, folder))),
    }
    with Deployment(env=env, log_level="INFO") as running:
        yield running


@pytest.fixture(scope="module")
def flower(deployment: Deployment, folder: Path) -> Iterator[FlowerProcess]:
    with FlowerProcess(folder, environment(deployment.server), credential=CREDENTIAL) as running:
        eventually(lambda: running.get("/api/workers?refresh=1").json(), 30)
        yield running


@pytest.fixture
def client(deployment: Deployment, flower: FlowerProcess) -> Iterator[Ditto]:
    """A client whose tasks Flower sees from their start."""
    with Ditto(load_settings(None, environment(deployment.server))) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/workers", "/tasks", "/broker", "/metrics", "/api/tasks", "/api/workers"]
)
@pytest.mark.parametrize("credential", [None, "admin:wrong"])
def test_nobody_gets_in_without_the_credential(
    flower: FlowerProcess, path: str, credential: str | None
) -> None:
    """Pages, metrics and API answer 401 to a visitor without the credential, or with another one."""
    assert flower.get(path, credential=credential).status == 401
    assert flower.get(path).status == 200


def test_flower_refuses_to_start_without_a_credential(deployment: Deployment, folder: Path) -> None:
    """The process ends at once and names the variable."""
    flower = FlowerProcess(folder, environment(deployment.server))
    assert flower.launch().wait(60) != 0
    assert "DITTO_FLOWER_BASIC_AUTH" in flower.log()


def test_flower_is_open_where_the_settings_say_so(deployment: Deployment, folder: Path) -> None:
    """With DITTO_FLOWER_WITHOUT_AUTH=true pages are shown to everybody, and still nothing can be changed."""
    env = environment(deployment.server, DITTO_FLOWER_WITHOUT_AUTH="true")
    with FlowerProcess(folder, env) as flower:
        assert flower.get("/workers").status == 200
        assert flower.get("/api/worker/shutdown/any", method="POST").status in (401, 403)


@pytest.mark.parametrize("route", ["apply", "async-apply", "send-task", "result", "abort"])
def test_there_is_no_route_to_create_tasks_or_read_results(flower: FlowerProcess, route: str) -> None:
    """With the credential, too, such a route is not there."""
    method = "GET" if route == "result" else "POST"
    assert flower.get(f"/api/task/{route}/CONTEXT.LOAD", method=method).status == 404


@pytest.mark.parametrize("route", ["worker/shutdown", "worker/pool/grow", "task/revoke", "task/rate-limit"])
def test_nothing_can_be_changed(flower: FlowerProcess, route: str) -> None:
    """Routes that change workers or tasks answer 403."""
    assert flower.get(f"/api/{route}/any", method="POST").status == 403


def test_a_pipeline_is_visible_step_by_step(flower: FlowerProcess, client: Ditto) -> None:
    """Each step of a pipeline is listed under its id with node and state, and counted in the metrics."""
    pending = client.answer(SCOPE, f"What is {CANARY}?", init=[ITEM])
    steps = pending.get(60).step_ids
    eventually(lambda: _states(flower, steps.values()) == {"SUCCESS"}, 20)
    shown = {flower.tasks()[task]["name"] for task in steps.values()}
    assert {"CONTEXT.UPDATE", "CONTEXT.SELECT", "INFER.REASONING.SAMPLE"} <= shown
    text = flower.get("/metrics").text
    assert metric(text, "flower_events_total", type="task-succeeded", task="CONTEXT.SELECT") >= 1


def test_a_batch_is_counted_and_shows_no_scope(
    flower: FlowerProcess, client: Ditto, deployment: Deployment, folder: Path
) -> None:
    """A batch run's calls are counted by Flower, and no page names a session of it."""
    items = [{**ITEM, "id": f"{CANARY}-{number}"} for number in range(4)]
    for number in range(3):
        client.context.load(scope={"sessionId": f"{CANARY}:batch-{number}"}, sources=items).get(60)
    options = ("--match", f"{CANARY}:batch-", "--max-items", "2", "--report", str(folder / "report.jsonl"))
    ditto(environment(deployment.server), "compress", *options, cwd=folder, code=0)
    for task in ("BATCH.SCAN", "BATCH.COMPRESS"):
        eventually(lambda task=task: _succeeded(flower, task) >= 1, 20)
    assert [path for path, text in flower.everything().items() if CANARY in text] == []


def _succeeded(flower: FlowerProcess, task: str) -> float:
    return metric(flower.get("/metrics").text, "flower_events_total", type="task-succeeded", task=task)


def _states(flower: FlowerProcess, ids: Iterable[str]) -> set[str]:
    known = flower.tasks()
    return {known.get(task, {}).get("state", "unseen") for task in ids}


def test_no_page_shows_content(
    flower: FlowerProcess, client: Ditto, deployment: Deployment, folder: Path
) -> None:
    """No message, scope id, key, credential or error text is on any page, while tasks run and after."""
    client.answer(SCOPE, f"What is {CANARY}?", init=[ITEM]).get(60)
    client.memory.write(memories=[{"content": CANARY, "metadata": {CANARY: CANARY}}]).get(60)
    client.invoke("INTERACTION.ACT.TOOL", {"name": CANARY, "arguments": {CANARY: CANARY}})
    with pytest.raises(DittoError):
        client.context.update(scope=SCOPE, add=[ITEM], expectedVersion=CANARY).get(60)
    with closed(folder / "gate"):
        ids = [_gated(client, consistency) for consistency in ("any", "session")]
        eventually(lambda: _states(flower, ids) == {"STARTED"}, 20)
        eventually(lambda: all(task in flower.worker_pages() for task in ids), 20)
        running = flower.everything()
        inspected = repr(
            [deployment.app.control.inspect().active(), deployment.app.control.inspect().reserved()]
        )
    eventually(lambda: _states(flower, ids) == {"FAILURE"}, 20)
    for pages in (running, flower.everything()):
        assert [path for path, text in pages.items() if CANARY in text] == []
    assert ids[0] in inspected
    assert CANARY not in inspected + flower.log() + deployment.worker.logs()


def _gated(client: Ditto, consistency: str) -> str:
    """The id of a task that runs until the gate opens."""
    strategy, options = {"kind": "provider", "name": "any"}, {"consistency": consistency}
    return client.context.select(
        scope=SCOPE, purpose="infer", query=CANARY, strategy=strategy, ditto=options
    ).id


@contextmanager
def closed(gate: Path) -> Iterator[None]:
    """Tasks of the extension's selector wait inside of the block."""
    with gate.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
