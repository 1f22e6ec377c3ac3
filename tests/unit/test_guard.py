"""The guard in front of queues: whatever bytes it is given, kombu gets a message that it can take."""

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kombu.transport import redis as kombu_redis
from support.workers import BROKER_DB

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.worker.connection import GuardedConnection
from ditto_tasks.worker.guard import (
    REFUSED,
    SIZE,
    GuardedSentinelTransport,
    GuardedTransport,
    open_envelope,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda c: st.lists(c) | st.dictionaries(st.text(), c),
)
PARTS = ["body", "headers", "properties", "content-type", "content-encoding"]
HEADERS = [
    "id",
    "task",
    "ditto_v",
    "retries",
    "timelimit",
    "eta",
    "stamps",
    "stamped_headers",
    "root_id",
    "group",
]


def good() -> dict[str, Any]:
    return {
        "body": base64.b64encode(b"[[], {}, {}]").decode(),
        "content-type": "application/x-ditto+json",
        "content-encoding": "utf-8",
        "headers": {"id": "an-id", "task": "CONTEXT.LOAD", "ditto_v": 1},
        "properties": {
            "body_encoding": "base64",
            "delivery_tag": "t",
            "delivery_info": {"routing_key": "evil"},
        },
    }


def opened(envelope: object) -> dict[str, Any]:
    return open_envelope(json.dumps(envelope).encode(), "ditto.context")


def takes(message: dict[str, Any]) -> bool:
    """Whether kombu's own message class, and its restore, can take it."""
    channel = kombu_redis.Channel.__new__(kombu_redis.Channel)
    channel.closed = True  # never connected
    made = channel.Message(message, channel=channel)
    return not made.errors and made.delivery_info["routing_key"] == "ditto.context"


@given(st.binary())
def test_any_bytes_become_a_message_that_says_why_not(raw: bytes) -> None:
    """Nothing raises, and nothing of the bytes is kept but their number."""
    message = open_envelope(raw, "ditto.context")
    assert message["headers"][SIZE] == len(raw)
    assert takes(message)


@given(st.sampled_from(PARTS), JSON)
@example("body", "0")  # no base64, which kombu would raise on
@example("properties", {"delivery_info": None})
def test_any_part_may_be_anything(part: str, value: Any) -> None:
    """A message with one part replaced is either refused or can be taken."""
    assert takes(opened({**good(), part: value}))


@given(st.sampled_from(HEADERS), JSON)
def test_any_header_may_be_anything(header: str, value: Any) -> None:
    """The same for each header that Celery reads."""
    envelope = good()
    envelope["headers"][header] = value
    assert takes(opened(envelope))


def test_a_good_message_keeps_its_headers_and_body() -> None:
    """Tag and routing are the guard's own; the rest is the sender's."""
    message = opened(good())
    assert REFUSED not in message["headers"]
    assert message["headers"]["id"] == "an-id"
    assert message["body"] == good()["body"]
    assert message["properties"]["delivery_info"] == {
        "exchange": "",
        "routing_key": "ditto.context",
        "redelivered": False,
    }
    assert message["properties"]["delivery_tag"] != "t"


def test_a_restored_message_is_known_as_redelivered() -> None:
    """What kombu notes on restoring passes the guard."""
    envelope = good()
    envelope["properties"]["delivery_info"]["redelivered"] = True
    assert opened(envelope)["properties"]["delivery_info"]["redelivered"] is True


@pytest.mark.parametrize("header", ["ditto_epoch", "ditto_refuse"])
def test_what_only_a_shards_channel_may_say_is_dropped(header: str) -> None:
    """A message can't bring the lease that its call runs under, nor the code that it has to end with."""
    envelope = good()
    envelope["headers"][header] = "9"
    assert header not in opened(envelope)["headers"]


def test_a_late_acknowledgement_on_a_closed_channel_ends_no_worker(server: EmbeddedServer) -> None:
    """It is an error of the connection, which a consumer logs: the message comes again to somebody."""
    with GuardedConnection(server.url(BROKER_DB)) as connection:
        channel = connection.channel()
        channel.close()
        with pytest.raises(connection.connection_errors):
            channel.basic_ack("late")


def test_connections_use_guarded_transports() -> None:
    """For single servers, TLS, unix sockets and Sentinel; other transports are left as they are."""
    for url in ("redis://", "rediss://", "redis+socket:///tmp/s"):
        assert GuardedConnection(url).get_transport_cls() is GuardedTransport
    assert GuardedConnection("sentinel://").get_transport_cls() is GuardedSentinelTransport
    assert GuardedConnection("memory://").get_transport_cls() not in (
        GuardedTransport,
        GuardedSentinelTransport,
    )
