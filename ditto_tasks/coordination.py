"""What processes of one deployment tell each other through the broker's database, beside messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from ditto_tasks.belongings import CALL, CANVAS_TTL_MS, TASK, note_script, notes
from ditto_tasks.errors import Cancelled, ContextError, DittoError, PublishError
from ditto_tasks.keys import Keys
from ditto_tasks.redis_replies import clock_ms, text
from ditto_tasks.sharding import DEPLOYMENT_KEY
from ditto_tasks.tenants import owners_of

CANCEL_TTL_MS: Final = 86_400_000  # a task that has not started a day after its cancel will run


class Pipeline(Protocol):
    """Commands that go out together; `execute` gives their answers in order."""

    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...
    def exists(self, *keys: str) -> object: ...
    def get(self, key: str) -> object: ...
    def llen(self, key: str) -> object: ...
    def set(self, key: str, value: str | int, *, px: int | None = None, nx: bool = False) -> object: ...
    def time(self) -> object: ...
    def execute(self) -> list[object]: ...


class BrokerClient(Protocol):
    """The part of a Redis client that coordination needs; kombu's channels give one."""

    def pipeline(self, *, transaction: bool) -> AbstractContextManager[Pipeline]: ...
    def get(self, key: str) -> bytes | str | None: ...
    def set(self, key: str, value: str, *, px: int) -> object: ...
    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...
    def delete(self, *names: str) -> object: ...
    def zrange(self, name: str, start: int, end: int) -> Sequence[bytes]: ...
    def zrem(self, name: str, *values: str) -> object: ...
    def xread(self, streams: Mapping[str, str], *, block: int) -> object: ...


@dataclass(frozen=True, slots=True)
class Admission:
    """One call that is about to be published: whose it is, and for how long that is to be known."""

    task_id: str
    root_id: str
    shard_queue: str | None
    session: str | None
    tenant: str | None
    ttl_ms: int
    in_canvas: bool = False  # other tasks belong to it, whose effects are known for longer

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose records it makes."""
        return owners_of(self.session, self.tenant)


@dataclass(frozen=True, slots=True)
class Coordination:
    """Keys `ditto:<deployment>:…`. `clients` lends a client of the broker's database."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]

    def check_shard_count(self, count: int) -> None:
        """Fix whose shards these are and how many, for ever; or refuse what differs from what was fixed."""
        key = self._keys.shard_count
        with self.clients() as client, client.pipeline(transaction=False) as pipe:
            pipe.set(DEPLOYMENT_KEY, self.deployment, nx=True)
            pipe.set(key, count, nx=True)
            pipe.get(DEPLOYMENT_KEY)
            pipe.get(key)
            *_, found, counted = pipe.execute()
        owner, stored = text(found), int(text(counted))
        if owner != self.deployment:
            raise PublishError(
                "DEPLOYMENT_MISMATCH",
                f"the shards in this broker's database are those of {owner}, not of {self.deployment}",
                {"deployment": owner, "settings": self.deployment},
            )
        if stored != count:
            raise PublishError(
                "SHARD_COUNT_MISMATCH",
                f"the deployment has {stored} shards, these settings say {count}",
                {"deployment": stored, "settings": count},
            )

    def admit(self, call: Admission, *, max_depth: int) -> None:
        """Before a publish, in one round trip: note whose call it is, and refuse a shard that is full.

        The note comes first: an erasure that is not seen here has not read its lists, and will find it.
        """
        owners = call.owners
        if call.shard_queue is None and not owners:
            return
        with self.clients() as client, client.pipeline(transaction=False) as pipe:
            if call.tenant is not None:
                pipe.set(self._keys.tenant(call.task_id), call.tenant, px=call.ttl_ms)
            self._note_owners(pipe, call, owners)
            pipe.llen(call.shard_queue or "")
            pipe.exists(*(self._keys.erased(owner) for owner in owners or ("",)))
            *_, depth, erased = pipe.execute()
            if erased and call.tenant is not None:
                client.delete(self._keys.tenant(call.task_id))
        if erased:
            raise ContextError("ERASED", "the session or tenant was erased; late work is refused")
        if isinstance(depth, int) and depth >= max_depth:
            raise ContextError("QUEUE_FULL", "too many calls are waiting for this shard", {"depth": depth})

    def _note_owners(self, pipe: Pipeline, call: Admission, owners: tuple[str, ...]) -> None:
        ttl_ms = max(call.ttl_ms, CANVAS_TTL_MS) if call.in_canvas else call.ttl_ms
        for key, name in notes(self._keys, owners, CALL + call.root_id):
            pipe.eval(note_script(), 1, key, ttl_ms, name)
        self._note_task(pipe, call.task_id, call.root_id)

    def _note_task(self, pipe: Pipeline, task_id: str, root_id: str) -> None:
        if root_id != task_id:
            root = self._keys.caused(root_id)
            pipe.eval(note_script(), 1, root, CANVAS_TTL_MS, TASK + task_id)

    def tenant(self, task_id: str) -> str | None:
        """The tenant that the sender of a task belonged to."""
        with self.clients() as client:
            stored = client.get(self._keys.tenant(task_id))
        return None if stored is None else text(stored)

    def note_tenant(self, task_id: str, tenant: str, ttl_ms: int) -> None:
        """Know whose a task is for so long from now."""
        with self.clients() as client:
            client.set(self._keys.tenant(task_id), tenant, px=ttl_ms)

    def cancel(self, task_id: str) -> None:
        """Ask for a task to stop; it is asked before it runs and wherever it looks."""
        with self.clients() as client:
            client.set(self._keys.cancel(task_id), "1", px=CANCEL_TTL_MS)

    def cancel_all(self, root_id: str) -> None:
        """Ask for all tasks of a root to stop."""
        with self.clients() as client:
            client.set(self._keys.cancel_root(root_id), "1", px=CANCEL_TTL_MS)

    def withdraw_cancel(self, root_id: str) -> None:
        """Let tasks of a root run again that were asked to stop."""
        with self.clients() as client:
            client.delete(self._keys.cancel_root(root_id))

    def interruption(self, task_id: str, root_id: str, deadline_ms: int | None) -> DittoError | None:
        """Why a task should not go on, if so. Deadlines are compared with the server's clock.

        The task is noted as its root's: whoever erases that looks for its result.
        """
        with self.clients() as client, client.pipeline(transaction=False) as pipe:
            keys = self._keys
            pipe.exists(keys.cancel(task_id), keys.cancel_root(root_id), keys.erased_root(root_id))
            pipe.time()
            self._note_task(pipe, task_id, root_id)
            cancelled, clock, *_ = pipe.execute()
        if cancelled:
            return Cancelled()
        if deadline_ms is not None and clock_ms(clock) > deadline_ms:
            return Cancelled("TIMEOUT", "the deadline of the call has passed")
        return None

    @property
    def _keys(self) -> Keys:
        return Keys(self.deployment)
