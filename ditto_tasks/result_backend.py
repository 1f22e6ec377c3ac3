"""Celery's Redis result backends without subscriptions at publish, and with nothing stored for the erased.

Celery subscribes to each result when its task is sent, and once more for every member of a chord.
Publishers would hold connections that nobody reads; in workers, one subscription a step. And it reads a
result before it writes it: here one script does both, and asks for tombstones too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

from celery import states
from celery.backends import redis
from celery.exceptions import ChordError

from ditto_tasks.belongings import GROUP, noting_script
from ditto_tasks.errors import DittoError
from ditto_tasks.keys import Keys
from ditto_tasks.lines import Lines, ScriptCall
from ditto_tasks.lua_source import LuaScript, lua_script
from ditto_tasks.serialization import dumps
from ditto_tasks.state.operations import erased
from ditto_tasks.tenants import owners_of
from ditto_tasks.worker.keys import TENANT_HEADER

SCRIPTS: Final = "ditto_tasks"
SUCCESS_BEGINS: Final = dumps({"status": states.SUCCESS})[:-1]  # the first field that Celery writes
ERASED, RESUMED = -1, -2  # replies of store_result.lua
LASTING_S: Final = 86_400  # of a chord without a limit, for the list of what a canvas has
GROUP_PARTS: Final = ("", ".j", ".t", ".s", ".d", ".c")  # of a chord: all keys that Celery makes for it


def erased_result(task_id: str) -> bytes:
    """What stands for the result of an erased task, so that whoever waits for it hears."""
    error = erased()
    kind = type(error)
    result = {"exc_type": kind.__name__, "exc_message": error.args, "exc_module": kind.__module__}
    about: dict[str, object] = {"status": states.FAILURE, "result": result, "traceback": None, "children": []}
    return dumps({**about, "task_id": task_id})


class ExpectedEnds(logging.Filter):
    """A canvas that ends with one of our errors, as one that was cancelled, is one line of INFO."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        cause = error.__cause__ if isinstance(error, ChordError) else None
        if isinstance(cause, DittoError):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            record.msg, record.args, record.exc_info = (
                "A canvas ended before its last step: %s",
                (cause.code,),
                None,
            )
        return logging.getLogger(record.name).isEnabledFor(record.levelno)


_EXPECTED_ENDS: Final = ExpectedEnds()


class WaitingConsumer(redis.ResultConsumer):  # type: ignore[name-defined,misc]  # unknown to celery-types
    """Subscribes to a result when it is waited for, and not before."""

    def consume_from(self, task_id: str) -> None:
        """Do nothing where Celery would subscribe although nobody waits."""

    def on_wait_for_pending(self, result: Any, **kwargs: Any) -> None:  # a result, or a set of them
        """Subscribe, and then look at what is stored already, as Celery does."""
        for waited in _members(result):
            super().consume_from(waited.id)
        super().on_wait_for_pending(result, **kwargs)

    def stop(self) -> None:
        """Forget what was subscribed to: a result that goes later would connect again to unsubscribe."""
        self.subscribed_to.clear()
        super().stop()


class QuietRedisBackend(redis.RedisBackend):
    """Publishing costs no SUBSCRIBE, and a result one round trip."""

    ResultConsumer: Any = WaitingConsumer
    app: Any  # DittoCelery
    client: Any  # of redis-py
    expires: int | None
    failure_expires: int | None
    chord_expires: int | None

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self.result_consumer.stop()  # type: ignore[attr-defined]  # unknown to celery-types
        self.client.connection_pool.disconnect()

    def on_task_call(self, producer: object, task_id: str) -> None:
        """Do nothing where Celery would subscribe to the result."""

    def _create_client(self, **params: Any) -> Any:  # of redis-py
        """Known to the application, which closes its connections: Celery leaves them to the collector."""
        self.app.result_backends.add(self)
        return super()._create_client(**params)  # type: ignore[misc]  # unknown to celery-types

    def _set(self, key: str, value: bytes, expires: int | None = None) -> None:
        with self.client.pipeline() as pipe:  # without SETEX, of which redis-py warns
            pipe.set(key, value, ex=(self.expires if expires is None else expires) or None)
            pipe.publish(key, value)
            pipe.execute()

    def _store_result(
        self,
        task_id: str,
        result: object,
        state: str,
        traceback: object = None,
        request: Any = None,  # Celery's, of many classes
        resumes: int | str = "",  # of a run's end only
        **_options: object,
    ) -> int:
        """One round trip: a success that stands stays, and what belongs to the erased is not written."""
        meta = self._get_result_meta(  # type: ignore[attr-defined]  # unknown to celery-types
            result=result, state=state, traceback=traceback, request=request
        )
        expires = (self.failure_expires if state == states.FAILURE else None) or self.expires
        keys = [*self._end_keys(task_id), *self._tombstones(task_id, request)]
        value = self.encode({**meta, "task_id": task_id})
        kept = self._run(
            lua_script(SCRIPTS, "store_result"), keys, value, str(expires or ""), SUCCESS_BEGINS, str(resumes)
        )
        if kept == ERASED:
            if request is not None:
                request.erased = True  # `on_chord_part_return` asks
            self.set(keys[0], erased_result(task_id))
        return kept

    def store_end(self, run: str, result: object, state: str, resumes: int) -> bool:
        """Store how a run ended after so many resumes; False, and nothing is stored, if there were more."""
        encoded = self.encode_result(result, state)
        return self._store_result(run, encoded, state, resumes=resumes) != RESUMED

    def withdraw_end(self, run: str, resumes: int) -> None:
        """Remove the end that a run had before it was resumed so often; it is not stored any more, either."""
        self._run(
            lua_script(SCRIPTS, "withdraw_end"), self._end_keys(run), str(resumes), str(self.expires or "")
        )

    def _end_keys(self, task_id: str) -> list[str]:
        return [self.get_key_for_task(task_id), self._keys.resumes(task_id)]

    def on_chord_part_return(
        self, request: Any, state: str, result: Any, propagate: bool | None = None, **kwargs: Any
    ) -> None:
        """Add a result to its chord, unless it is of the erased; an erasure meanwhile finds the chord."""
        if getattr(request, "erased", False) or not request.group or not request.id:
            return
        logging.getLogger(redis.__name__).addFilter(_EXPECTED_ENDS)  # one that is there is not added again
        try:
            super().on_chord_part_return(request, state, result, propagate, **kwargs)
        finally:
            root = request.root_id or request.id
            keys = [self._keys.caused(root), self._keys.erased_root(root)]
            parts = [self.get_key_for_group(request.group, part) for part in GROUP_PARTS]
            lasting_ms = int(1000 * (self.chord_expires or LASTING_S))
            self._run(noting_script("keep_part"), [*keys, *parts], str(lasting_ms), GROUP + request.group)

    @property
    def _keys(self) -> Keys:
        return Keys(self.app.settings.connections.deployment)

    def _tombstones(self, task_id: str, request: Any) -> list[str]:
        """The tombstones that would stand against a task: of its canvas, its session and its tenant."""
        root = getattr(request, "root_id", None) or task_id
        scope = (getattr(request, "kwargs", None) or {}).get("scope")
        session = scope.get("sessionId") if isinstance(scope, Mapping) else None
        owners = owners_of(session, getattr(request, TENANT_HEADER, None))
        return [self._keys.erased_root(root), *(self._keys.erased(owner) for owner in owners)]

    def _run(self, script: LuaScript, keys: Sequence[str], *args: str | bytes) -> int:
        return cast(int, self.ensure(self._run_once, (script, keys, args)))

    def _run_once(self, script: LuaScript, keys: Sequence[str], args: Sequence[str | bytes]) -> object:
        (reply,) = self._lines.run(ScriptCall(*script).bind(keys, args))
        return reply

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.client)


class QuietSentinelBackend(QuietRedisBackend, redis.SentinelBackend):
    """The same behind Sentinel."""


def _members(result: Any) -> Iterable[Any]:  # Celery's results
    members = getattr(result, "results", None)
    return (result,) if members is None else (one for member in members for one in _members(member))
