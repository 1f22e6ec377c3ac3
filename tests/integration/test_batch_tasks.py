"""`ditto compress` on a real worker: what is written, what is left alone, what the report says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.batches import (
    BUDGET,
    LARGE,
    SMALL,
    TTL_MS,
    ditto,
    hash_of,
    mixed,
    operations_of,
    raw_of,
    rows_in,
    seed,
    ttl_of,
)
from support.polling import eventually
from support.workers import Deployment, environment

CANARY = "canary-51f2"


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment() as running:
        yield running


@pytest.fixture
def env(deployment: Deployment) -> dict[str, str]:
    deployment.state.flushdb()
    return environment(deployment.server)


def compress(env: dict[str, str], folder: Path, *arguments: str, code: int = 0) -> dict[str, dict]:
    """The rows of a run, by scope hash."""
    report = folder / "report.jsonl"
    ditto(
        env,
        "compress",
        "--report",
        str(report),
        "--max-items",
        str(BUDGET),
        *arguments,
        cwd=folder,
        code=code,
    )
    rows = rows_in(report)
    assert len({row["scope"] for row in rows}) == len(rows)
    return {row["scope"]: row for row in rows}


def shard_calls(deployment: Deployment) -> int:
    """How many calls with compressions the worker has taken from shards."""
    lines = deployment.worker.logs().splitlines()
    return sum("Task BATCH.COMPRESS[" in line and line.endswith(" received") for line in lines)


def test_only_what_is_over_budget_is_written(
    deployment: Deployment, env: dict[str, str], tmp_path: Path
) -> None:
    """Sessions within budget keep their bytes and trouble no shard; the others get within; each has a row."""
    sizes = mixed("a:", 40)
    seed(deployment.state, sizes)
    before = {session: raw_of(deployment.state, session) for session in sizes}
    sent_before = shard_calls(deployment)
    rows = compress(env, tmp_path, "--tenant", "a")
    assert 0 < shard_calls(deployment) - sent_before <= list(sizes.values()).count(LARGE)
    assert rows.keys() == {hash_of(session) for session in sizes}
    for session, items in sizes.items():
        row, unwritten = rows[hash_of(session)], raw_of(deployment.state, session) == before[session]
        if items == SMALL:
            assert (row["status"], row["before"]["items"], unwritten) == ("unchanged", SMALL, True)
            assert operations_of(deployment.state, session) == 0
        else:
            assert (row["status"], row["after"]["items"], unwritten) == ("compressed", BUDGET, False)
            assert len(row["removedIds"]) == LARGE - BUDGET
            kept = json.loads(raw_of(deployment.state, session) or b"")["context"]["items"]
            assert not {item["id"] for item in kept} & set(row["removedIds"])


def test_a_prefix_is_literal(deployment: Deployment, env: dict[str, str], tmp_path: Path) -> None:
    """`*` in --match is a star and no pattern, and a tenant's name ends at its colon."""
    seed(deployment.state, {"a*:1": SMALL, "ab:1": SMALL, "a:1": SMALL})
    assert compress(env, tmp_path, "--match", "a*").keys() == {hash_of("a*:1")}
    assert compress(env, tmp_path, "--tenant", "a").keys() == {hash_of("a:1")}


def test_what_is_written_keeps_the_time_it_had_left(
    deployment: Deployment, env: dict[str, str], tmp_path: Path
) -> None:
    """A compression renews no time to live, in the record or the index, unless it is told to."""
    seed(deployment.state, {"a:old": LARGE, "a:new": LARGE})
    key = f"ditto:context:{hash_of('a:old')}"
    deployment.state.pexpire(key, TTL_MS // 2)
    assert compress(env, tmp_path, "--match", "a:old")[hash_of("a:old")]["status"] == "compressed"
    assert 0 < ttl_of(deployment.state, "a:old") <= TTL_MS // 2
    deployment.state.pexpire(f"ditto:context:{hash_of('a:new')}", TTL_MS // 2)
    compress(env, tmp_path, "--match", "a:new", "--renew-ttl")
    assert ttl_of(deployment.state, "a:new") > TTL_MS // 2


def test_a_dry_run_changes_nothing(deployment: Deployment, env: dict[str, str], tmp_path: Path) -> None:
    """A dry run says what would go, and leaves every record and operation log as they were."""
    seed(deployment.state, {"a:1": LARGE, "a:2": SMALL})
    before = {key: deployment.state.dump(key) for key in deployment.state.scan_iter()}
    rows = compress(env, tmp_path, "--match", "a:", "--dry-run")
    assert rows[hash_of("a:1")]["status"] == "would-compress"
    assert len(rows[hash_of("a:1")]["removedIds"]) == LARGE - BUDGET
    assert {key: deployment.state.dump(key) for key in deployment.state.scan_iter()} == before


def test_a_run_is_done_once(deployment: Deployment, env: dict[str, str], tmp_path: Path) -> None:
    """The same command under the same name sends nothing again and gives the whole report again."""
    seed(deployment.state, mixed("a:", 10))
    first = compress(env, tmp_path, "--match", "a:", "--run", "once")
    records = [raw_of(deployment.state, f"a:{number}") for number in range(10)]
    sent = deployment.worker.logs().count("Task BATCH.")
    assert compress(env, tmp_path, "--match", "a:", "--run", "once") == first
    assert deployment.worker.logs().count("Task BATCH.") == sent
    assert [raw_of(deployment.state, f"a:{number}") for number in range(10)] == records
    assert operations_of(deployment.state, "a:0") == 1
    shown = ditto(env, "compress", "--match", "b:", "--run", "once", cwd=tmp_path, code=1)
    assert "RUN_MISMATCH" in shown


def test_scopes_can_come_from_a_file_and_failures_have_rows(
    deployment: Deployment, env: dict[str, str], tmp_path: Path
) -> None:
    """A scope without a context, a corrupt one, and one of goals alone each fail with a code of their own."""
    seed(deployment.state, {"a:1": LARGE, "a:corrupt": LARGE})
    deployment.state.set(f"ditto:context:{hash_of('a:corrupt')}", b"{", px=60_000)
    goals = [{"id": f"g{n}", "content": "c", "metadata": {"currentGoal": True}} for n in range(BUDGET + 1)]
    deployment.call("CONTEXT.LOAD", scope={"sessionId": "a:goals"}, sources=goals)
    names = ["a:1", "a:gone", "a:corrupt", "a:goals"]
    listed = tmp_path / "scopes.jsonl"
    listed.write_text("".join(json.dumps({"sessionId": name}) + "\n" for name in names))
    rows = compress(env, tmp_path, "--scopes", str(listed), code=1)
    codes = {name: rows[hash_of(name)].get("code") for name in names}
    assert codes == {
        "a:1": None,
        "a:gone": "CONTEXT_NOT_FOUND",
        "a:corrupt": "INVALID_STATE",
        "a:goals": "BUDGET_UNSATISFIABLE",
    }


def test_age_is_that_of_the_last_write(deployment: Deployment, env: dict[str, str], tmp_path: Path) -> None:
    """--older-than leaves out what was written since, and is refused beyond the time to live."""
    seed(deployment.state, {"a:1": LARGE})
    assert compress(env, tmp_path, "--match", "a:", "--older-than", "30m") == {}
    assert len(compress(env, tmp_path, "--match", "a:", "--older-than", "1ms")) == 1
    shown = ditto(env, "compress", "--match", "a:", "--older-than", "2h", cwd=tmp_path, code=1)
    assert "AGE_OVER_TTL" in shown


def test_no_content_in_report_output_and_logs(
    deployment: Deployment, env: dict[str, str], tmp_path: Path
) -> None:
    """Content and session ids are in no report, output or log; ids only where they are asked for."""
    session = f"a:{CANARY}"
    seed(deployment.state, {session: LARGE}, text=f"{CANARY} text " * 20)
    report = tmp_path / "r.jsonl"
    options = ("--match", "a:", "--max-items", "5", "--report", str(report))
    shown = ditto(env, "compress", *options, cwd=tmp_path)
    assert rows_in(report)[0]["status"] == "compressed"
    assert CANARY not in shown + report.read_text() + deployment.worker.logs()
    assert CANARY.encode() not in b"".join(dump(deployment))
    ditto(env, "compress", *options, "--name-scopes", cwd=tmp_path)
    assert [row["name"] for row in rows_in(report)] == [{"sessionId": session}]


def test_a_worker_tells_a_run_of_the_calls_of_others(deployment: Deployment, env: dict[str, str]) -> None:
    """Right after a session's call the answer says so; calls of batch runs are no others."""
    seed(deployment.state, {"a:1": SMALL})

    def news() -> bytes:
        deployment.call("BATCH.SCAN", run="told", scopes=[{"sessionId": "a:1"}])
        return bytes(deployment.broker.lindex("ditto:default:batch:told:news", -1))

    deployment.call("CONTEXT.SELECT", scope={"sessionId": "a:1"}, purpose="infer")
    assert news().endswith(b" beside")
    eventually(lambda: not news().endswith(b" beside"), 20)


def dump(deployment: Deployment) -> Iterator[bytes]:
    """All values of the broker's database that batch runs write."""
    for key in deployment.broker.scan_iter(match="ditto:default:batch:*"):
        kind = deployment.broker.type(key)
        if kind == b"hash":
            yield from deployment.broker.hvals(key)
        elif kind == b"string":
            yield deployment.broker.get(key) or b""


def test_beat_can_start_a_run(deployment: Deployment, env: dict[str, str]) -> None:
    """BATCH.RUN compresses what its request names, and keeps the rows under its task id."""
    seed(deployment.state, mixed("a:", 10))
    answer = deployment.call("BATCH.RUN", match="a:", maxItems=BUDGET, task_id="nightly-1")
    assert answer == {"run": "nightly-1", "done": True}
    eventually(lambda: deployment.broker.hlen("ditto:default:batch:nightly-1") == 10)
    assert operations_of(deployment.state, "a:0") == 1
    assert operations_of(deployment.state, "a:1") == 0
