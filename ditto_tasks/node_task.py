"""The Celery task of a node: from a delivery to a handler and back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar, cast

from celery import states
from celery.exceptions import Ignore, Reject, TaskPredicate
from celery.utils.log import get_logger

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import (
    Cancelled,
    DittoError,
    OutcomeUnknown,
    PipelineError,
    PublishError,
    ServiceError,
    StateBackendError,
    ending_of,
    raised,
)
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.nodes import CONTEXT, NodeType
from ditto_tasks.pipelines.bindings import BINDINGS, Binding, bind
from ditto_tasks.pipelines.graph_runs import Delivery, Settled
from ditto_tasks.pipelines.steps import step_of
from ditto_tasks.routing import is_scoped
from ditto_tasks.sending import BrokerError
from ditto_tasks.task import (
    NO_EPOCH,
    NO_OPTIONS,
    OPTIONS_KEY,
    Reply,
    TaskCall,
    TaskClient,
    TaskOptions,
    parse_options,
)
from ditto_tasks.worker.keys import (
    EPOCH_HEADER,
    FREE_HEADER,
    GRAPH_HEADER,
    REFUSE_HEADER,
    SCOPE_HEADER,
    TENANT_HEADER,
)
from ditto_tasks.worker.request import QuietTask

if TYPE_CHECKING:
    from ditto_tasks.celery import DittoCelery

logger = get_logger(__name__)

T = TypeVar("T")

STORE_IS_AWAY: Final = ("STATE_BACKEND_UNAVAILABLE", "STATE_OUTCOME_UNKNOWN")
FREE_FOR_S: Final = 0.1  # what a shard asked for a task that was about to start need not be asked again
CONTEXT_REPLY_S: Final = 300  # a whole context is large and can be loaded again, so it is kept 5 minutes only


class NodeTask(QuietTask):
    """One node type as a task: `(self, upstream=None, /, **wire)`."""

    abstract = True
    typing = False  # any wire key is a keyword, `self` too
    track_started = False  # by Celery, before every task; see worker/late_starts.py
    throws = (DittoError,)  # logged as one line: it says everything, and a traceback could hold more
    row: ClassVar[NodeType]

    @property
    def ditto(self) -> DittoCelery:
        return cast("DittoCelery", self.app)

    def __call__(self, /, *upstream: object, **wire: Any) -> object:  # Celery's own takes no wire key `self`
        request = self.request
        if request.called_directly:
            return self.run(*upstream, **wire)
        with self.ditto.late_starts.watching(partial(self._store_started, request)):
            return self.run(*upstream, **wire)

    def run(self, /, *upstream: object, **wire: Any) -> object:  # any JSON
        """Run the node's handler, as a step of its pipeline if it is one."""
        if self.request.get(GRAPH_HEADER):
            settled = self._graph_node()
            return Reply(self.row.name, settled.value, settled.size)
        reply = self._step(upstream, wire)
        return reply if self.request.called_directly else Reply(self.row.name, reply)

    def _store_started(self, request: Any) -> None:  # Celery's context of the call, in any thread
        if not (request.is_eager or request.ignore_result):
            about = {"pid": os.getpid(), "hostname": request.hostname}
            self.backend.store_result(request.id, about, states.STARTED, request=request)

    def _graph_node(self) -> Settled:
        run = self.request.root_id or ""
        step = step_of(self.request.id, run) or ""
        redelivered = bool((self.request.delivery_info or {}).get("redelivered"))
        delivery = Delivery(run, step, self.row.domain, redelivered)
        return self._recorded(
            lambda: self.ditto.graphs.run_node(delivery, lambda wire: self._answer((), wire, begun=True))
        )

    def _step(self, upstream: tuple[object, ...], wire: JsonObject) -> JsonValue:
        pipeline = self.request.root_id or ""
        step = step_of(self.request.id, pipeline)
        if step is None:
            return self._answer(upstream, wire)
        return self._recorded(
            lambda: self.ditto.runs.run_step(pipeline, step, lambda: self._answer(upstream, wire))
        )

    def _recorded(self, run: Callable[[], T]) -> T:
        try:
            return run()
        except BrokerError as exc:  # of the record, or of the message of a next step
            kind = exc.code
        except (DittoError, TaskPredicate):
            raise
        except Exception as exc:  # noqa: BLE001 -- the boundary: a driver's text may hold an address
            kind = type(exc).__name__
        raise StateBackendError("STATE_BACKEND_UNAVAILABLE", f"the pipeline's record met {kind}")

    def _answer(self, upstream: tuple[object, ...], wire: JsonObject, *, begun: bool = False) -> JsonValue:
        """The handler's result, or a failed NodeResult where the domain answers with those.

        What its run has just begun is not asked about a cancel or deadline again: both end the run.
        """
        try:
            return self._perform(upstream, wire, begun)
        except PipelineError:  # no answer of the node, but the end of its pipeline
            raise
        except DittoError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001 -- the boundary: raw errors may hold content or credentials
            logger.warning("%s met %s", self.row.name, raised(exc))
            error = ServiceError("SERVICE_ERROR", f"{self.row.name} met {type(exc).__name__}")
        if self.row.returns_node_result:
            return failed_result(self.row.name, self._id, error)
        ending = self._answer_of_shard(error) if self.request.get(EPOCH_HEADER) else error
        raise ending from None  # a raw error must not hang on it: the traceback would show its text

    def _answer_of_shard(self, error: DittoError) -> Exception:
        """What a shard's task ends with: its message may not leave its place while the store is away."""
        if error.code == "FENCED":
            return Ignore()  # the shard's new owner runs it again and stores the result
        if error.code not in STORE_IS_AWAY:
            return error
        if self.request.get(REFUSE_HEADER) is None:
            return Reject(error.code, requeue=True)  # back to the head; the worker pauses its shards
        redelivered = (self.request.delivery_info or {}).get("redelivered")
        return OutcomeUnknown() if redelivered and self.row.mutates else error

    def _perform(self, upstream: tuple[object, ...], wire: JsonObject, begun: bool) -> JsonValue:
        options = parse_options(self.row, wire.pop(OPTIONS_KEY)) if OPTIONS_KEY in wire else NO_OPTIONS
        call = self._call(self._bound(upstream, wire, options), options, upstream)
        if not (begun or self.row.recorded or is_scoped(self.row, wire)):  # those ask their records first
            call.stop_if_interrupted()
        return self.ditto.handler(self.row)(call)

    def _call(self, wire: JsonObject, options: TaskOptions, upstream: tuple[object, ...]) -> TaskCall:
        request, task_id = self.request, self._id
        root_id = request.root_id or task_id
        return TaskCall(
            node=self.row.name,
            wire=wire,
            options=options,
            task_id=task_id,
            root_id=root_id,
            epoch=request.get(EPOCH_HEADER) or NO_EPOCH,
            redelivered=bool((request.delivery_info or {}).get("redelivered")),
            dependencies=self.ditto.dependencies,
            owner=request.get(SCOPE_HEADER) or request.get(TENANT_HEADER) or "",
            refuse=_refusal(request.get(REFUSE_HEADER)),
            client=TaskClient(root_id, options.deadline_ms, partial(self._publish, root_id, task_id)),
            upstream=cast(JsonValue, upstream[0]) if options.bind else None,
            token=CancelToken(),
            interruption=partial(
                self._interruption, task_id, root_id, options.deadline_ms, request.get(FREE_HEADER)
            ),
            count=self.ditto.counts.add,
            beside=self.ditto.presence.within,
        )

    def _publish(self, root_id: str, parent_id: str, node: str, wire: JsonObject, task_id: str | None) -> str:
        own = {name: self.request.get(name) for name in (SCOPE_HEADER, TENANT_HEADER)}
        headers = {name: value for name, value in own.items() if value}
        sent = self.ditto.send_task(
            node, kwargs=wire, task_id=task_id, root_id=root_id, parent_id=parent_id, headers=headers
        )
        return str(sent.id)

    def _interruption(
        self, task_id: str, root_id: str, deadline_ms: int | None, free_s: float | None
    ) -> DittoError | None:
        if free_s is not None and deadline_ms is None and time.monotonic() - free_s < FREE_FOR_S:
            return None
        try:
            return self.ditto.coordination.interruption(task_id, root_id, deadline_ms)
        except Exception as exc:  # a driver's text may hold an address
            kind = type(exc).__name__
            raise StateBackendError(
                "STATE_BACKEND_UNAVAILABLE", f"the broker could not be asked for a cancel: {kind}"
            ) from exc

    def _bound(self, upstream: tuple[object, ...], wire: JsonObject, options: TaskOptions) -> JsonObject:
        if options.bind is None:
            return wire
        if len(upstream) != 1:
            raise self._invalid(f"/{OPTIONS_KEY}/bind", "a binding takes one predecessor's result")
        known = {**BINDINGS, **cast("Mapping[str, Binding]", self.ditto.dependencies.bindings())}
        bound = bind(options.bind, cast(JsonValue, upstream[0]), wire, bindings=known)
        if not isinstance(bound, Mapping) or bound.get("scope") != wire.get("scope"):
            raise self._invalid(f"/{OPTIONS_KEY}/bind", "a binding gives an object of the same scope")
        return dict(bound)

    @property
    def _id(self) -> str:
        return self.request.id or ""  # a direct call has none

    def _invalid(self, path: str, reason: str) -> DittoError:
        return self.row.input_error.invalid_input(path, reason)

    def delay(self, /, *args: Any, **kwargs: Any) -> Any:  # Celery's edge
        return self.apply_async(args, kwargs)

    def s(self, /, *args: Any, **kwargs: Any) -> Any:  # Celery's edge
        return self.signature(args, kwargs)

    def si(self, /, *args: Any, **kwargs: Any) -> Any:  # Celery's edge
        return self.signature(args, kwargs, immutable=True)

    def retry(self, *args: Any, **kwargs: Any) -> Any:  # Celery's edge
        """Refused for scoped calls: a retried message would go behind its successors."""
        if is_scoped(self.row, self.request.kwargs or {}):
            refuse_reordering("retry()")
        return super().retry(*args, **kwargs)

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:  # noqa: ARG002 -- Celery's form
        options = kwargs.get(OPTIONS_KEY)
        if isinstance(options, Mapping) and options.get("reply") == "context":
            self.ditto.shorten_result(task_id, CONTEXT_REPLY_S)

    @classmethod
    def on_bound(cls, app: Any) -> None:  # noqa: ARG003 -- Celery's signature
        row = cls.__dict__.get("row")
        if (
            row is not None
            and row.domain == CONTEXT
            and (getattr(cls, "autoretry_for", ()) or cls.rate_limit)
        ):
            refuse_reordering("autoretry_for and rate_limit")


def refuse_reordering(what: str) -> NoReturn:
    """Raise: a shard's calls run in the order in which they were sent."""
    raise PublishError("SHARD_OPTION_REFUSED", f"{what} would break the order of a scope's calls")


def failed_result(node: str, execution_id: str, error: DittoError) -> JsonObject:
    """The failed NodeResult for an error that a node did not turn into one itself."""
    status, code = ending_of(error.code), error.code
    if isinstance(error, Cancelled):
        code = f"RETRIEVAL_{error.code}" if node.startswith("RETRIEVAL.") else error.code
    return {
        "executionId": execution_id,
        "node": node,
        "status": status,
        "error": {"code": code, "message": error.message},
    }


def task_class(row: NodeType) -> type[NodeTask]:
    """A task class of its own for each node and app: Celery keeps the app's settings on the class."""
    name = row.name.title().replace(".", "")
    return type(f"{name}Task", (NodeTask,), {"name": row.name, "row": row})


def _refusal(code: str | None) -> str | None:
    """The code to refuse an operation with; if it is the absence of the store, the call is tried again."""
    return None if code in STORE_IS_AWAY else code
