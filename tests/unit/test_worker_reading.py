"""What is read of brokers, messages, dead letters and workers' reports without running anything."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_tasks.cli.health import trouble_of
from ditto_tasks.errors import SettingsError
from ditto_tasks.state.addresses import parse_address
from ditto_tasks.worker.addresses import broker_address, celery_address
from ditto_tasks.worker.dead_letters import read_letter
from ditto_tasks.worker.inspection import WorkerReport, deadline_ms, sent_ms


@dataclass
class Conf:
    """Celery's settings of a broker."""

    broker_url: str
    broker_transport_options: dict[str, Any] = field(default_factory=dict)


def message(*, headers: object = None, body: object = None) -> bytes:
    """A message as kombu leaves it in a list."""
    encoded = base64.b64encode(json.dumps(body).encode()).decode()
    return json.dumps({"headers": headers, "body": encoded}).encode()


def test_a_plain_broker_url_is_used_as_it_is() -> None:
    """Only Sentinel's list of URLs needs another form."""
    assert broker_address(Conf("rediss://:secret@host:1/2")) == "rediss://:secret@host:1/2"


def test_sentinels_become_one_address() -> None:
    """Celery's list of Sentinels, its master's name and database are one address that clients understand."""
    conf = Conf("sentinel://:pw@a:1/3;sentinel://:pw@b:2/3", {"master_name": "main"})
    address = parse_address(broker_address(conf))
    assert (address.kind, address.service, address.db) == ("sentinel", "main", 3)
    assert (address.hosts, address.password) == ((("a", 1), ("b", 2)), "pw")


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:1,b:2/main/3",
        "redis+sentinel://:p%40w@a:1/main/0",
        "redis+sentinel://u:pw@a:1,b:26379/main/3?sentinel_username=w&sentinel_password=s%26",
    ],
)
def test_an_address_that_celery_is_given_comes_back(url: str) -> None:
    """Workers and Celery mean the same Sentinels, service, database and credentials."""
    told = celery_address(url)
    assert told.url.startswith("sentinel://")
    assert parse_address(broker_address(Conf(told.url, dict(told.options)))) == parse_address(url)


def test_celery_gets_other_addresses_as_they_are() -> None:
    """Only Sentinel's form differs; with TLS it is refused, as Celery would leave it out."""
    assert celery_address("rediss://h/1") == ("rediss://h/1", {})
    with pytest.raises(SettingsError, match="UNSUPPORTED_URL"):
        celery_address("rediss+sentinel://a/main/0")


def test_the_time_of_sending_comes_from_a_header() -> None:
    """A message without that header, or with another kind of value, has no known age."""
    assert sent_ms(message(headers={"ditto_sent": 7})) == 7
    assert sent_ms(message(headers={"ditto_sent": "7"})) is None
    assert sent_ms(message()) is None


def test_the_deadline_comes_from_the_options_in_the_body() -> None:
    """deadlineMs of a call is read where the task reads it."""
    assert deadline_ms(message(body=[[], {"ditto": {"deadlineMs": 5}}, {}])) == 5
    assert deadline_ms(message(body=[[], {"ditto": {}}, {}])) is None
    assert deadline_ms(message(body=[[], {"ditto": {"deadlineMs": "5"}}, {}])) is None


@given(st.binary(max_size=200))
def test_garbage_has_no_age_and_no_deadline(raw: bytes) -> None:
    """Whatever stands in a queue, looking at it raises nothing."""
    assert sent_ms(raw) is None
    assert deadline_ms(raw) is None


@given(st.binary(max_size=200))
def test_a_garbage_dead_letter_is_shown(raw: bytes) -> None:
    """An entry that nobody can read is listed all the same, and can't be sent again."""
    letter = read_letter("q", raw)
    assert (letter.raw, letter.message) == (raw, None)


def test_a_dead_letter_without_a_task_id_has_a_name() -> None:
    """It is called by its queue and size, so that a command can name it."""
    assert read_letter("q", b'{"code": "NOT_JSON", "size": 9, "taskId": null}').id == "q/9"


@pytest.mark.parametrize(
    ("changed", "troubles"),
    [
        ({}, 0),
        ({"shards": 0}, 1),
        ({"shards": 0, "takes_shards": False}, 0),
        ({"loop_age_ms": 6_000}, 1),
        ({"loop_age_ms": 6_000, "shards": 0}, 2),
    ],
)
def test_a_worker_is_healthy_if_its_loop_ticks_and_it_holds_shards(
    changed: dict[str, Any], troubles: int
) -> None:
    """A worker that takes no shards needs none; a loop that stands still is trouble for all."""
    sound = {"owner": "o", "hostname": "w@h", "host": "h", "pid": 1, "takes_shards": True, "shards": 4}
    report = WorkerReport(**{**sound, "loop_age_ms": 900, "paused": False, **changed})
    assert len(list(trouble_of(report))) == troubles
