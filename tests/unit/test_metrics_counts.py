"""What an ended task adds to the counts, and how counts reach Redis."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from support.keys import documented_keys
from support.polling import eventually
from support.workers import BROKER_DB, client_app

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.keys import Keys
from ditto_tasks.metrics.counts import Counts
from ditto_tasks.metrics.exposition import COUNTS, families
from ditto_tasks.metrics.observing import LATENCY_MS, Ended, counts_of, model_label
from ditto_tasks.pipelines.outcomes import raised_result

KEY = Keys("default").metrics


def ended(node: str, value: JsonValue = None, error: Exception | None = None, took_ms: int = 70) -> Ended:
    return Ended(node, value, error, took_ms, "m1")


def sample(**output: JsonValue) -> JsonValue:
    return {"status": "success", "output": {"message": {}, **output}}


def test_a_flows_step_that_raised_counts_as_failed() -> None:
    """Its task ends with the error as a value, for the flow goes on from it."""
    counted = counts_of(ended("CONTEXT.UPDATE", raised_result(ContextError("STATE_CONFLICT", "m"))))
    assert counted == {"calls|CONTEXT.UPDATE|failed": 1, "conflicts|CONTEXT.UPDATE": 1}


def test_a_sample_counts_tokens_latency_and_its_end_by_model() -> None:
    """Tokens as reported, the bucket of its duration and the finish reason, each with the model."""
    usage: JsonValue = {"inputTokens": 10, "outputTokens": 3}
    counted = counts_of(ended("INFER.REASONING.SAMPLE", sample(finishReason="stop", usage=usage)))
    assert counted == {
        "calls|INFER.REASONING.SAMPLE|success": 1,
        "infer_calls|m1": 1,
        "infer_latency|m1|100": 1,
        "infer_latency_sum|m1": 70,
        "infer_finish|m1|stop": 1,
        "infer_tokens|m1|input": 10,
        "infer_tokens|m1|output": 3,
    }


def test_invalid_outputs_are_counted_and_other_failures_name_no_model() -> None:
    """An invalid output counts against its model; of a model that was not reached only `other` is known."""
    invalid: JsonValue = {"status": "failed", "error": {"code": "INVALID_MODEL_OUTPUT", "message": ""}}
    missing: JsonValue = {"status": "failed", "error": {"code": "PROVIDER_NOT_FOUND", "message": ""}}
    assert counts_of(ended("INFER.REASONING.SAMPLE", invalid))["infer_invalid|m1"] == 1
    assert "infer_calls|other" in counts_of(ended("INFER.REASONING.SAMPLE", missing))


@pytest.mark.parametrize("name", [None, "", "a b", "x" * 65, "m|n", 'a"b', "é"])
def test_odd_models_share_a_label(name: str | None) -> None:
    """A label never holds free text."""
    assert model_label(name) == "other"


def test_conflicts_replays_and_unknown_outcomes_are_counted() -> None:
    """Each by its node."""
    conflict = counts_of(ended("CONTEXT.UPDATE", error=ContextError("STATE_CONFLICT", "m")))
    assert conflict == {"calls|CONTEXT.UPDATE|failed": 1, "conflicts|CONTEXT.UPDATE": 1}
    assert counts_of(ended("CONTEXT.UPDATE", {"replayed": True}))["replays|CONTEXT.UPDATE"] == 1
    unknown = counts_of(ended("CONTEXT.UPDATE", error=ContextError("STATE_OUTCOME_UNKNOWN", "m")))
    assert unknown["unknown_outcomes|CONTEXT.UPDATE"] == 1


def test_selections_and_candidates_are_counted() -> None:
    """A selection counts its items, in a receipt too; a search its candidates."""
    whole: JsonValue = {"selectedItemIds": ["a", "b"]}
    for value in (whole, {"selection": whole}):
        assert counts_of(ended("CONTEXT.SELECT", value))["selected_items"] == 2
    found: JsonValue = {"status": "success", "output": {"candidates": [1, 2, 3]}}
    assert counts_of(ended("RETRIEVAL.SEARCH", found))["retrieval_candidates"] == 3


def test_every_count_has_a_metric() -> None:
    """Whatever is counted is shown, with its labels, and a histogram's buckets add up."""
    stored = {"|".join([name, *("x" for _ in row.labels)]): 2 for name, row in COUNTS.items()}
    latency = {"infer_latency|m|50": 1, f"infer_latency|m|{LATENCY_MS[-1]}": 2, "infer_latency|m|inf": 4}
    shown = {family.name: family.samples for family in families({**stored, **latency, "unheard|of": 1})}
    assert shown.keys() == {row.metric for row in COUNTS.values()} | {"ditto_infer_latency_seconds"}
    assert all(samples for samples in shown.values())
    buckets = [each.value for each in shown["ditto_infer_latency_seconds"] if each.name.endswith("_bucket")]
    assert (buckets[0], buckets[-2], buckets[-1]) == (1, 3, 7)


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    client = redis.Redis.from_url(server.redis_url(BROKER_DB))
    yield client
    client.close()


def test_counts_of_many_threads_reach_redis(server: EmbeddedServer, broker: "redis.Redis") -> None:
    """Nothing is lost between threads, and what is counted is there within seconds, with a TTL."""
    counts = client_app(server).counts
    threads = [
        threading.Thread(target=lambda: [counts.add("selections") for _ in range(500)]) for _ in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: broker.hget(KEY, "selections") == b"2000")
    assert broker.ttl(KEY) > 0
    assert any(row.matches(KEY) for row in documented_keys())


def test_an_unreachable_server_loses_no_counts(broker: "redis.Redis") -> None:
    """What could not be sent is sent with what comes next."""
    reachable = False

    @contextmanager
    def clients() -> Iterator["redis.Redis"]:
        if not reachable:
            raise ConnectionError
        yield broker

    counts = Counts("default", clients)
    counts.add("selections", 2)
    counts.flush()
    reachable = True
    counts.add("selections")
    counts.flush()
    assert broker.hgetall(KEY) == {b"selections": b"3"}


def test_counts_go_by_a_digest(server: EmbeddedServer, broker: "redis.Redis") -> None:
    """The script's text goes over the wire once a server, and again to one that lost it."""
    counts = client_app(server).counts
    for _ in range(2):
        broker.config_resetstat()
        counts.add("selections")
        counts.flush()
    assert "cmdstat_eval" not in broker.info("commandstats")
    broker.script_flush()
    counts.add("selections")
    counts.flush()
    assert broker.hget(KEY, "selections") == b"3"
