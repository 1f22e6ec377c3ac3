"""A batch run whose command and worker are killed at points where they hurt."""

import os
import signal
from pathlib import Path

from support.batches import (
    BUDGET,
    LARGE,
    hash_of,
    mixed,
    operations_of,
    raw_of,
    rows_in,
    seed,
    start_ditto,
)
from support.fleet import Fleet
from support.polling import eventually

SESSIONS = 200
RUN = "killed"
TIMEOUT_S = 60.0


def test_each_scope_is_compressed_once_though_command_and_worker_are_killed(tmp_path: Path) -> None:
    """Killed -9 once and its worker twice, a run of 200 sessions ends with 200 rows, each compressed once."""
    with Fleet(lease_ms=1_000) as fleet:
        sizes = mixed("a:", SESSIONS)
        seed(fleet.state, sizes)
        before = {session: raw_of(fleet.state, session) for session in sizes}
        worker = fleet.start("w1")
        report = tmp_path / "report.jsonl"
        arguments = ("compress", "--match", "a:", "--max-items", str(BUDGET), "--run", RUN)
        arguments += ("--report", str(report))

        def rows_done() -> int:
            return int(fleet.broker.hlen(f"ditto:default:batch:{RUN}"))

        with start_ditto(fleet.env, *arguments, cwd=tmp_path) as command:
            eventually(lambda: rows_done() > SESSIONS * 0.2, TIMEOUT_S)
            worker.kill()
            worker = fleet.start("w2")
            eventually(lambda: rows_done() > SESSIONS * 0.4, TIMEOUT_S)
            os.kill(command.pid, signal.SIGKILL)
            command.communicate()
        assert len(rows_in(report)) < SESSIONS
        with start_ditto(fleet.env, *arguments, cwd=tmp_path) as command:
            eventually(lambda: rows_done() > SESSIONS * 0.6, TIMEOUT_S)
            worker.kill()
            fleet.start("w3")
            _, errors = command.communicate(timeout=TIMEOUT_S)
        assert command.returncode == 0, errors
        rows = {row["scope"]: row for row in rows_in(report)}
        assert (len(rows), len(rows_in(report))) == (SESSIONS, SESSIONS)
        for session, items in sizes.items():
            row = rows[hash_of(session)]
            assert row["before"]["items"] == items, row
            if items == LARGE:
                assert (row["status"], len(row["removedIds"])) == ("compressed", LARGE - BUDGET)
                assert operations_of(fleet.state, session) == 1, row
            else:
                assert row["status"] == "unchanged"
                assert raw_of(fleet.state, session) == before[session]
