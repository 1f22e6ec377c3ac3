"""The `runtime` group: what holds for tasks of every domain."""

from typing import Annotated, Literal

from pydantic import Field

from ditto_tasks.settings.group import Group, Milliseconds, Positive


class React(Group):
    """Bounds of the react flow beside its steps, which `runtime.maxTurns` bounds."""

    max_action_calls: Positive = 16
    max_total_tokens: Positive | None = None


class Shards(Group):
    """How scopes are spread over shard queues, and how long a worker may hold one."""

    # fixed for the life of a deployment: another count sends a scope to another queue
    count: Annotated[int, Field(ge=1, le=4096)] = 64
    lease_ms: Annotated[int, Field(ge=300, le=600_000)] = 5_000
    max_depth: Positive = 10_000
    mutation_timeout_ms: Milliseconds = 30_000
    outage_patience_ms: Milliseconds = 60_000


class Pipelines(Group):
    """What a pipeline does when its time is up or a search fails."""

    deadline_ms: Milliseconds = 600_000
    on_search_failure: Literal["fail", "skip"] = "fail"


class Results(Group):
    """How long results stay in the result backend."""

    expires_ms: Milliseconds = 3_600_000


class Nightly(Group):
    """A run that `celery beat` starts each night; the fields are the options of `ditto compress`."""

    hour: Annotated[int, Field(ge=0, le=23)] = 3  # by Celery's timezone, UTC unless set
    match: str = ""
    older_than_ms: Milliseconds | None = None
    max_items: Positive | None = None
    max_tokens: Positive | None = None


class Batch(Group):
    """How a batch run shares shards and cores with interactive calls."""

    chunk_ms: Milliseconds = 50
    max_outstanding: Positive = 512
    max_shards: Positive = 8
    max_scans: Positive = 4
    outstanding_beside_others: Positive = 1  # calls of a run, while a worker sees others' calls
    quiet_ms: Milliseconds = 5_000  # since it last saw one, before a run takes more again
    nightly: Nightly | None = None


class Runtime(Group):
    """The `runtime` group."""

    timeout_ms: Milliseconds = 30_000
    max_turns: Positive = 8
    graph_concurrency: Positive = 8
    loop_max_iterations: Positive = 32
    react: React = React()
    shards: Shards = Shards()
    pipelines: Pipelines = Pipelines()
    results: Results = Results()
    batch: Batch = Batch()
