"""A conversation comes back after its cache expired, a store failed, or its process died."""

import json
import os
import sqlite3
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from uuid import UUID

import pytest
import redis
from support.polling import eventually

from ditto_tasks.context import ContextNodes, ContextServices, ContextStateStore, StoredContext, scope_key
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError, DittoError, PipelineError, StateBackendError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import CancelToken, Scope, to_wire
from ditto_tasks.pipelines.agent_storage import MEMORY_FILE, AgentStorage, open_agent_storage
from ditto_tasks.pipelines.conversations import Conversation, messages_of
from ditto_tasks.settings import Settings, load_settings

NAMESPACE = UUID("6f1c1f0e-0000-4000-8000-000000000001")
DIED = 41


class FileLedger:
    """Notes in a file; with `dies` the process ends at an acknowledgement."""

    def __init__(self, file: Path, *, dies: bool = False) -> None:
        self._file = file
        self._dies = dies

    def notes(self) -> dict[str, object]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}

    def journal(self, namespace: str, revision: str, turn: JsonObject) -> None:
        self._note({f"{namespace}/{revision}": turn})

    def acknowledge(self, namespace: str, revision: str) -> None:
        if self._dies:
            os._exit(DIED)
        self._note({namespace: revision})

    def acknowledged(self, namespace: str) -> str | None:
        return self.notes().get(namespace)

    def _note(self, more: dict[str, object]) -> None:
        self._file.write_text(json.dumps({**self.notes(), **more}))


def turn(number: int, role: str = "user") -> JsonObject:
    """A message of the conversation."""
    return {"id": f"t{number}", "role": role, "content": f"message {number}"}


def archive(*turns: JsonObject) -> JsonObject:
    """An archive of these turns."""
    return {"turns": list(turns), "interpretation": {"goal": "talk"}, "artifact": {"uri": "urn:a"}}


def conversation(storage: AgentStorage, directory: Path, *, dies: bool = False) -> Conversation:
    """The conversation over a storage, its ledger beside the memory file."""
    ledger = FileLedger(directory / "ledger.json", dies=dies)
    return Conversation(NAMESPACE, contexts=storage.contexts, memories=storage.memories, ledger=ledger)


def state_key(revision: str) -> str:
    """The Redis key of a revision's working set."""
    return f"ditto:context:{scope_key({'sessionId': str(NAMESPACE), 'turnId': revision})}"


def archived(directory: Path) -> dict[str, list[str]]:
    """Key -> ids of the archived turns, read from the database itself."""
    with sqlite3.connect(directory / MEMORY_FILE) as connection:
        rows = connection.execute("SELECT memory_key, content FROM memories").fetchall()
    connection.close()
    return {key: [each["id"] for each in json.loads(content)["turns"]] for key, content in rows}


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    """Settings of an agent whose contexts are on the test's server."""
    return load_settings(None, {"DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(2)})


def test_a_turn_is_archived_and_gone_on_from(
    settings: Settings, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """After a delivered turn the next one begins with its messages, in their roles, from the cache."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        first = talk.recover(turn(1), next_revision="1")
        assert (first.revision, first.archive, first.rebuilt) == (None, None, False)
        talk.archive("1", archive(turn(1), turn(2, "assistant")))
        second = talk.recover(turn(3), next_revision="2")
    assert (second.revision, second.rebuilt) == ("1", False)
    assert to_wire(second.archive) == archive(turn(1), turn(2, "assistant"))
    assert messages_of(second.context) == [
        {"role": role, "content": f"message {number}", "metadata": {"contextItemId": f"t{number}"}}
        for number, role in [(1, "user"), (2, "assistant"), (3, "user")]
    ]
    stored = json.loads(redis_client.get(state_key("1")))
    assert [item["id"] for item in stored["context"]["items"]] == ["t1", "t2", "t3"]
    assert 0 < redis_client.pttl(state_key("1")) <= 3_600_000
    assert archived(tmp_path) == {f"{NAMESPACE}/1": ["t1", "t2"]}


def test_an_expired_cache_is_rebuilt(settings: Settings, redis_client: "redis.Redis", tmp_path: Path) -> None:
    """When Redis has forgotten the working set it is rebuilt from memory, with a TTL of its own."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        talk.recover(turn(1), next_revision="1")
        talk.archive("1", archive(turn(1), turn(2, "assistant")))
        redis_client.pexpire(state_key("1"), 1)
        eventually(lambda: not redis_client.exists(state_key("1")))
        recovered = talk.recover(turn(3), next_revision="2")
    assert recovered.rebuilt
    assert [item.id for item in recovered.context.items] == ["t1", "t2", "t3"]
    assert 3_500_000 < redis_client.pttl(state_key("1")) <= 3_600_000


def test_a_failing_state_store_is_no_reason_to_rebuild(
    settings: Settings, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A record that can't be read surfaces before any inference and stays as it was; the input is noted."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        talk.archive("1", archive(turn(1)))
        redis_client.set(state_key("1"), b"corrupt", px=60_000)
        with pytest.raises(DittoError, match="INVALID_STATE"):
            talk.recover(turn(3), next_revision="2")
    assert redis_client.get(state_key("1")) == b"corrupt"
    assert FileLedger(tmp_path / "ledger.json").notes()[f"{NAMESPACE}/2"] == turn(3)


class FailsOnce:
    """A state store whose first read fails, as of a server that is just starting."""

    def __init__(self, store: ContextStateStore, failure: Exception) -> None:
        self._store = store
        self._failure = failure
        self._failed = False

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        if not self._failed:
            self._failed = True
            raise self._failure
        return self._store.get(scope, call)

    def compare_and_set(self, *arguments: object) -> StoredContext:
        return self._store.compare_and_set(*arguments)


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionError(),
        StateBackendError("STATE_BACKEND_UNAVAILABLE", "down"),
        ContextError("STATE_STORE_UNAVAILABLE", "none"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_only_absence_permits_a_rebuild(
    settings: Settings, redis_client: "redis.Redis", tmp_path: Path, failure: Exception
) -> None:
    """A state store that fails for a moment surfaces; the working set that it holds is not replaced."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        talk.archive("1", archive(turn(1)))
        before = redis_client.get(state_key("1"))
        services = ContextServices(state_store=FailsOnce(storage.contexts.services.state_store, failure))
        failing = replace(storage, contexts=ContextNodes(services=services))
        with pytest.raises(type(failure)):
            conversation(failing, tmp_path).recover(turn(3), next_revision="2")
    assert redis_client.get(state_key("1")) == before


def test_a_failing_memory_surfaces(settings: Settings, redis_client: "redis.Redis", tmp_path: Path) -> None:
    """A memory that can't be read, or lacks what was acknowledged, fails the turn; the cache stays."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        talk.archive("1", archive(turn(1)))
        before = redis_client.get(state_key("1"))
        (item,) = storage.memories.query({}).output["items"]
        storage.memories.delete({"ids": [item["id"]]})
        with pytest.raises(PipelineError, match="ARCHIVE_MISSING"):
            talk.recover(turn(3), next_revision="2")
    (tmp_path / MEMORY_FILE).write_bytes(b"no database" * 100)
    broken = pytest.raises(PipelineError, match="MEMORY_BACKEND_ERROR")
    with open_agent_storage(tmp_path, settings) as storage, broken:
        conversation(storage, tmp_path).recover(turn(3), next_revision="2")
    assert redis_client.get(state_key("1")) == before


def test_a_failure_after_delivery_goes_back_one_revision(
    settings: Settings, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A turn that couldn't be archived isn't acknowledged: the conversation goes on from the one before."""
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        talk.archive("1", archive(turn(1)))
        talk.recover(turn(2), next_revision="2")
        storage.memories.write({"memories": [{"key": talk.key("2"), "content": "somebody else's"}]})
        with pytest.raises(PipelineError, match="CONFLICT"):
            talk.archive("2", archive(turn(1), turn(2)))
        recovered = talk.recover(turn(3), next_revision="3")
    assert recovered.revision == "1"
    assert not redis_client.exists(state_key("2"))


def archive_and_die(directory: Path, settings: Settings) -> None:
    """Die after MEMORY.WRITE and before the acknowledgement."""
    with open_agent_storage(directory, settings) as storage:
        conversation(storage, directory, dies=True).archive("2", archive(turn(1), turn(2)))


def test_death_after_the_commit_loses_and_doubles_nothing(
    settings: Settings, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """After a death between write and acknowledgement the turn is archived again, as the same record."""
    with open_agent_storage(tmp_path, settings) as storage:
        conversation(storage, tmp_path).archive("1", archive(turn(1)))
    child = get_context("spawn").Process(target=archive_and_die, args=(tmp_path, settings))
    child.start()
    child.join(30)
    assert child.exitcode == DIED
    assert archived(tmp_path) == {f"{NAMESPACE}/1": ["t1"], f"{NAMESPACE}/2": ["t1", "t2"]}
    assert not redis_client.exists(state_key("2"))
    with open_agent_storage(tmp_path, settings) as storage:
        talk = conversation(storage, tmp_path)
        assert talk.recover(turn(2), next_revision="2").revision == "1"
        talk.archive("2", archive(turn(1), turn(2)))
        assert talk.recover(turn(3), next_revision="3").revision == "2"
    assert archived(tmp_path) == {f"{NAMESPACE}/1": ["t1"], f"{NAMESPACE}/2": ["t1", "t2"]}


def test_storage_closes_only_what_it_opened(tmp_path: Path) -> None:
    """Without a Redis URL the storage runs a server of its own, whose data is there the next time."""
    settings = load_settings(None, {})
    with open_agent_storage(tmp_path, settings) as storage:
        conversation(storage, tmp_path).archive("1", archive(turn(1)))
    with open_agent_storage(tmp_path, settings) as storage:
        recovered = conversation(storage, tmp_path).recover(turn(2), next_revision="2")
    assert not recovered.rebuilt
    assert [item.id for item in recovered.context.items] == ["t1", "t2"]
