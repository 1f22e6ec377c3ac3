"""The one choke point of publishing, against a real server; no worker runs."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import chain
from celery.exceptions import TimeoutError as CeleryTimeoutError
from support.polling import eventually
from support.workers import client_app

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError, PublishError
from ditto_tasks.nodes import NodeType
from ditto_tasks.routing import shard_queue_of
from ditto_tasks.settings import default_settings

SCOPE = {"sessionId": "acme:one"}
QUEUE = shard_queue_of(SCOPE, 64)


@pytest.fixture(scope="module")
def private_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def broker(private_server: EmbeddedServer) -> Iterator["redis.Redis"]:
    client = redis.Redis.from_url(private_server.redis_url(0), decode_responses=True)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def app(private_server: EmbeddedServer, broker: "redis.Redis") -> Iterator[DittoCelery]:
    made = client_app(private_server)
    yield made
    made.close()


def configured(server: EmbeddedServer, tmp_path: Path, **shards: int) -> DittoCelery:
    lines = "".join(f"    {name}: {value}\n" for name, value in shards.items())
    path = tmp_path / "ditto.yaml"
    path.write_text(f"runtime:\n  shards:\n{lines}", "utf-8")
    return client_app(server, DITTO_CONFIG=str(path))


def test_calls_are_sent_after_workers_were_asked(app: DittoCelery, broker: "redis.Redis") -> None:
    """Whoever waits for replies of workers leaves a connection behind whose next reply is not a call's."""
    app.control.ping(timeout=0.1)
    ids = [app.send_task("CONTEXT.LOAD", kwargs={"sources": [], "scope": SCOPE}).id for _ in range(3)]
    sent = [json.loads(raw)["headers"]["id"] for raw in broker.lrange(QUEUE, 0, -1)]
    assert sent == ids[::-1]


def test_the_broker_is_asked_after_workers_were(app: DittoCelery, broker: "redis.Redis") -> None:
    """The same of what is asked of the broker itself: each question gets its own reply."""
    app.control.ping(timeout=0.1)
    broker.set("ditto:default:tenant:theirs", "acme")
    assert [app.coordination.tenant(task) for task in ("theirs", "nobody's", "theirs")] == [
        "acme",
        None,
        "acme",
    ]


def test_a_closed_application_has_no_connection_to_the_results(
    private_server: EmbeddedServer, broker: "redis.Redis"
) -> None:
    """Neither that of a look at a result nor that of a wait; unclosed, each ends in a warning some time."""

    def connected() -> int:
        return sum(each["db"] == "1" for each in broker.client_list())

    before = connected()
    with client_app(private_server) as opened:
        pending = opened.send_task("MEMORY.QUERY")
        assert pending.state == "PENDING"
        with pytest.raises(CeleryTimeoutError):
            pending.get(timeout=0.05)
        assert connected() > before + 1
    eventually(lambda: connected() == before)


def test_a_publish_is_one_entry_of_the_shards_list(app: DittoCelery, broker: "redis.Redis") -> None:
    """No exchange, no binding: the message is in the queue, with its headers and a hidden body."""
    app.send_task("CONTEXT.UPDATE", kwargs={"scope": SCOPE, "add": []})
    message = json.loads(broker.lindex(QUEUE, 0) or "")
    assert (message["headers"]["ditto_v"], message["content-type"]) == (1, "application/x-ditto+json")
    assert message["headers"]["ditto_scope"].startswith("scope:")
    assert not list(broker.scan_iter("_kombu*"))
    assert broker.llen(QUEUE) == 1


def test_signatures_of_unregistered_tasks_pass_the_same_checks(app: DittoCelery) -> None:
    """Whatever the way to a publish, content is checked and order kept."""
    with pytest.raises(ContextError):
        app.signature("CONTEXT.UPDATE", kwargs={"scope": SCOPE, "add": [float("nan")]}).apply_async()
    with pytest.raises(PublishError):
        app.tasks["CONTEXT.UPDATE"].apply_async(kwargs={"scope": SCOPE}, countdown=5)
    with pytest.raises(PublishError):
        chain(app.signature("CONTEXT.UPDATE", kwargs={"scope": SCOPE}, immutable=True)).apply_async(expires=5)


def test_a_full_shard_refuses_and_others_do_not(
    private_server: EmbeddedServer, broker: "redis.Redis", tmp_path: Path
) -> None:
    """QUEUE_FULL once maxDepth calls wait, for this shard only."""
    app = configured(private_server, tmp_path, maxDepth=2)
    for _ in range(2):
        app.send_task("CONTEXT.UPDATE", kwargs={"scope": SCOPE})
    with pytest.raises(ContextError) as caught:
        app.send_task("CONTEXT.UPDATE", kwargs={"scope": SCOPE})
    assert caught.value.code == "QUEUE_FULL"
    app.send_task("CONTEXT.UPDATE", kwargs={"scope": {"sessionId": "another"}})
    assert broker.llen(QUEUE) == 2


def test_another_number_of_shards_is_refused(
    app: DittoCelery, private_server: EmbeddedServer, broker: "redis.Redis", tmp_path: Path
) -> None:
    """The first publish fixes N for the deployment; a sender with other settings publishes nothing."""
    app.send_task("CONTEXT.UPDATE", kwargs={"scope": SCOPE})
    assert broker.get("ditto:default:shards:count") == "64"
    with pytest.raises(PublishError) as caught:
        configured(private_server, tmp_path, count=8).send_task("CONTEXT.UPDATE", kwargs={"scope": SCOPE})
    assert caught.value.details == {"stored": 64, "configured": 8}


def test_the_tenant_of_a_task_is_kept(app: DittoCelery, broker: "redis.Redis") -> None:
    """Known for as long as the result can be; tasks of no tenant have none."""
    sent = app.send_task("CONTEXT.LOAD", kwargs={"scope": SCOPE})
    assert app.coordination.tenant(sent.id) == "acme"
    assert 0 < broker.pttl(f"ditto:default:tenant:{sent.id}") <= 4_200_000
    assert (
        app.coordination.tenant(app.send_task("CONTEXT.LOAD", kwargs={"scope": {"sessionId": "x"}}).id)
        is None
    )


def test_retry_is_refused_on_scoped_tasks(app: DittoCelery) -> None:
    """A retried message would go behind its successors; a call on no scope may be retried."""
    task = app.tasks["CONTEXT.UPDATE"]
    task.push_request(id=str(uuid.uuid4()), kwargs={"scope": SCOPE}, called_directly=False)
    try:
        with pytest.raises(PublishError, match="retry"):
            task.retry(countdown=0)
    finally:
        task.pop_request()


@pytest.mark.parametrize("option", [{"autoretry_for": (OSError,)}, {"rate_limit": "1/s"}])
def test_autoretry_and_rate_limits_are_refused_at_registration(option: dict[str, object]) -> None:
    """A class that asks for them on a CONTEXT node can't be registered."""
    app = create_app(default_settings())
    base = type(app.tasks["CONTEXT.UPDATE"])
    bad = type("Bad", (base,), {**option, "name": "CONTEXT.OTHER", "row": base.row})
    with pytest.raises(PublishError):
        app.register_task(bad())


def test_celerys_own_tasks_and_plain_ones_can_be_sent(app: DittoCelery, broker: "redis.Redis") -> None:
    """They carry the version as well, or the guard would refuse them."""
    app.signature("celery.chord_unlock", args=("id", {"task": "x"})).apply_async()
    app.signature("noop").apply_async()
    versions = [json.loads(raw)["headers"]["ditto_v"] for raw in broker.lrange("ditto.context", 0, -1)]
    assert versions == [1, 1]


def test_custom_nodes_join_the_table(private_server: EmbeddedServer, broker: "redis.Redis") -> None:
    """A node of an application is registered and routed like the others."""
    settings = client_app(private_server).settings
    app = create_app(settings, nodes=[NodeType("BILLING.QUOTE", "BILLING", handlers="billing.tasks")])
    app.send_task("BILLING.QUOTE", kwargs={"amount": 1})
    assert "BILLING.QUOTE" in app.tasks
    assert broker.llen("ditto.context") == 1


def test_commands_of_a_channel_share_a_client_as_long_as_its_pool_lives(app: DittoCelery) -> None:
    """A channel makes no client for each command, and never gives one whose pool is gone."""
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
        channel._disconnect_pools()
        with channel.conn_or_acquire() as renewed:
            assert renewed is not first
            assert renewed.ping()
