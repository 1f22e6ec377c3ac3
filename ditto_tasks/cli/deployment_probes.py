"""What `ditto doctor` asks of a whole deployment: settings that contradict each other, workers, shards."""

from collections.abc import Iterator
from typing import Final

from ditto_tasks.batch.selection import check_age
from ditto_tasks.cli.deployment import OpenDeployment, open_deployment
from ditto_tasks.cli.probes import Finding
from ditto_tasks.errors import DittoError
from ditto_tasks.settings import Settings
from ditto_tasks.state.addresses import ServerAddress, parse_address
from ditto_tasks.worker.dead_letters import letters
from ditto_tasks.worker.inspection import read_shard_count, read_shards, read_workers

_REMEDY: Final = "correct what is wrong above; docs/operations.md says what each code means"
STALE_MS: Final = 60_000  # a message that has waited for so long has nobody who serves it


def deployment_findings(settings: Settings) -> Iterator[Finding]:
    """All answers; of what runs, or why it can't be asked."""
    yield from _databases(settings)
    yield from _nightly(settings)
    try:
        with open_deployment() as deployment:
            yield from [
                *_shard_count(deployment),
                *_workers(deployment),
                *_shards(deployment),
                *_dead(deployment),
            ]
    except DittoError as error:
        text = f"cannot be looked into ({error.code}): {error.message}"
        yield Finding("deployment", "wrong", text, _REMEDY)


def _databases(settings: Settings) -> Iterator[Finding]:
    urls = {
        "DITTO_BROKER_URL": settings.connections.broker_url,
        "DITTO_RESULT_BACKEND_URL": settings.connections.result_backend_url,
        "DITTO_WORKER_CONTEXT_REDIS_URL": settings.connections.context_redis_url,
    }
    places: dict[object, str] = {}
    for name, url in urls.items():
        place = None if url is None else _place(url.get_secret_value())
        if place is not None and place in places:
            text = f"{name} and {places[place]} are the same database"
            yield Finding(
                "databases", "wrong", text, "give each a database of its own: results may be flushed"
            )
        if place is not None:
            places[place] = name


def _place(url: str) -> object:
    """Server and database, without credentials; None for a form that only Celery reads."""
    try:
        address: ServerAddress = parse_address(url)
    except DittoError:
        return None
    return (address.hosts, address.path, address.service, address.db)


def _nightly(settings: Settings) -> Iterator[Finding]:
    nightly = settings.runtime.batch.nightly
    if nightly is None:
        return
    try:
        check_age(nightly.older_than_ms, settings.context.cache.ttl_ms)
    except DittoError as exc:
        remedy = "lower runtime.batch.nightly.olderThanMs, or raise workers.context.cache.ttlMs"
        yield Finding("nightly run", "wrong", exc.message, remedy)
    else:
        yield Finding("nightly run", "ok", f"at {nightly.hour}:00, if `celery beat` runs")


def _shard_count(deployment: OpenDeployment) -> Iterator[Finding]:
    configured = deployment.app.settings.runtime.shards.count
    stored = read_shard_count(deployment.broker, deployment.keys)
    if stored not in (None, configured):
        text = f"the deployment has {stored} shards, runtime.shards.count is {configured}"
        yield Finding(
            "shards", "wrong", text, f"set it to {stored}; `ditto shards resize` changes the deployment"
        )


def _workers(deployment: OpenDeployment) -> Iterator[Finding]:
    workers = read_workers(deployment.broker, deployment.keys)
    if not any(worker.takes_shards for worker in workers):
        text = f"{len(workers)} run, none of them takes shards" if workers else "none runs"
        yield Finding("workers", "warning", text, "start one: celery -A ditto_tasks worker")
        return
    yield Finding(
        "workers", "ok", f"{len(workers)} run, {sum(worker.shards for worker in workers)} shards held"
    )


def _shards(deployment: OpenDeployment) -> Iterator[Finding]:
    rows = read_shards(deployment.broker, deployment.keys, deployment.shard_count)
    waiting = [row for row in rows if (row.oldest_ms or 0) > STALE_MS]
    if waiting:
        text = f"the oldest message of {len(waiting)} has waited for over {STALE_MS // 1000} s"
        yield Finding("shards", "warning", text, "`ditto shards --busy` shows what runs at their heads")


def _dead(deployment: OpenDeployment) -> Iterator[Finding]:
    count = sum(1 for _ in letters(deployment.broker, deployment.queues()))
    if count:
        yield Finding(
            "dead letters", "warning", f"{count} messages were given up on", "see `ditto dead list`"
        )
