"""What processes of one deployment tell each other through the broker's database, beside messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ditto_tasks.admission import Admission, Gate
from ditto_tasks.belongings import CANVAS_TTL_MS, TASK, noting_script
from ditto_tasks.errors import Cancelled, DittoError, PublishError
from ditto_tasks.keys import Keys, stop_marks
from ditto_tasks.lua_running import ScriptClient, is_unknown_script
from ditto_tasks.redis_replies import clock_ms, text
from ditto_tasks.sharding import DEPLOYMENT_KEY

CANCEL_TTL_MS: Final = 86_400_000  # a task that has not started a day after its cancel will run


Command: TypeAlias = "tuple[str | bytes | int, ...]"


class Pipeline(Protocol):
    """Commands that go out together; `execute` gives their answers in order."""

    def get(self, key: str) -> object: ...
    def set(self, key: str, value: str | int, *, px: int | None = None, nx: bool = False) -> object: ...
    def execute_command(self, *command: str | bytes | int) -> object: ...
    def execute(self, raise_on_error: bool = True) -> list[object]: ...


class BrokerClient(ScriptClient, Protocol):
    """The part of a Redis client that those need to whom one is lent; kombu's channels give one."""

    def pipeline(self, *, transaction: bool) -> AbstractContextManager[Pipeline]: ...
    def get(self, key: str) -> bytes | str | None: ...
    def set(self, key: str, value: str, *, px: int) -> object: ...
    def delete(self, *names: str) -> object: ...
    def zrange(self, name: str, start: int, end: int) -> Sequence[bytes]: ...
    def zrem(self, name: str, *values: str) -> object: ...
    def xread(self, streams: Mapping[str, str], *, block: int) -> object: ...


@dataclass(frozen=True, slots=True)
class Coordination:
    """Keys `ditto:<deployment>:…`. `clients` lends a client of the broker's database.

    A worker has a `line` as well: what every task asks goes past a client's pool.
    """

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]
    line: Callable[[Sequence[Command]], list[object]] | None = None

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
                {"configured": self.deployment, "stored": owner},
            )
        if stored != count:
            raise PublishError(
                "SHARD_COUNT_MISMATCH",
                f"the deployment has {stored} shards, these settings say {count}",
                {"configured": count, "stored": stored},
            )

    def gate(self, call: Admission, *, max_depth: int) -> Gate:
        """What the call passes before it is published, or with its message."""
        return Gate(call, self._keys, max_depth)

    def admit(self, call: Admission, *, max_depth: int) -> None:
        """Let a call in that has no message yet: note whose it is, and refuse it if its shard is full."""
        if call.is_needed:
            with self.clients() as client:
                self.gate(call, max_depth=max_depth).check(client)

    def tenant(self, task_id: str) -> str | None:
        """The tenant that the sender of a task belonged to."""
        with self.clients() as client:
            stored = client.get(self._keys.tenant(task_id))
        return None if stored is None else text(stored)

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
        keys = self._keys
        asked: list[Command] = [("EXISTS", *stop_marks(keys, task_id, root_id))]
        if root_id != task_id:
            noted = keys.caused(root_id), CANVAS_TTL_MS, TASK + task_id
            asked.append(("EVALSHA", noting_script("note").sha1, 1, *noted))
        if deadline_ms is not None:
            asked.append(("TIME",))
        cancelled, *others = self._answers(asked)
        if cancelled:
            return Cancelled()
        if deadline_ms is not None and clock_ms(others[-1]) > deadline_ms:
            return Cancelled("TIMEOUT", "the deadline of the call has passed")
        return None

    def _answers(self, commands: Sequence[Command]) -> list[object]:
        """What the server answers to all of them, in one round trip; raises what it refuses."""
        answers = self._sent(commands)
        for place, answer in enumerate(answers):
            if is_unknown_script(answer):  # first use on this server; it keeps the script from now on
                _, _, *rest = commands[place]
                (answers[place],) = self._sent([("EVAL", noting_script("note").text, *rest)])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _sent(self, commands: Sequence[Command]) -> list[object]:
        """The answers, the server's errors among them."""
        if self.line is not None:
            return self.line(commands)
        with self.clients() as client, client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return pipe.execute(raise_on_error=False)

    @property
    def _keys(self) -> Keys:
        return Keys(self.deployment)
