"""`ditto compress`: brings many sessions within a budget, beside the interactive calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ditto_tasks.batch.models import CompressRequest
from ditto_tasks.batch.opening import OpenBatch
from ditto_tasks.batch.report import Report
from ditto_tasks.batch.running import CompressRun, left_over, open_run
from ditto_tasks.batch.selection import indexed_scopes, listed_scopes
from ditto_tasks.canonical import scope_key
from ditto_tasks.cli.choosing import open_sessions, prefix_of
from ditto_tasks.cli.durations import duration
from ditto_tasks.errors import SettingsError
from ditto_tasks.models import Scope, to_wire

STDOUT: Final = "-"
AT_WORK: Final = "compress"
GIVES_WAY: Final = "compress (others are at work)"
SCOPES_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--match", metavar="PREFIX", help="Sessions whose id starts with this; literally, no pattern.")
@click.option("--tenant", help="The sessions of one tenant.")
@click.option("--scopes", "listed", type=SCOPES_FILE, help="A file with one scope as JSON a line.")
@click.option("--max-items", type=click.IntRange(min=1), help="Within the policy's ceiling, which holds too.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="The same.")
@click.option("--older-than", "older_than_ms", type=duration, help="Not written for so long, such as 30m.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--renew-ttl", is_flag=True, help="Let what is written live as if its user had written it.")
@click.option("--run", "run_id", help="Name of the run. The same command under the same name resumes it.")
@click.option("--report", "report_file", metavar="FILE", help="ditto-compress-RUN.jsonl; - for stdout.")
@click.option("--name-scopes", is_flag=True, help="Put ids of scopes into the report beside their hashes.")
def compress(
    *,
    match: str | None,
    tenant: str | None,
    listed: Path | None,
    run_id: str | None,
    report_file: str | None,
    name_scopes: bool,
    **options: object,
) -> None:
    """Compress all chosen sessions that are over budget; exit code 1 if any failed.

    Interrupted, killed or cut off, the same command with --run goes on: each session is compressed once.
    """
    if sum(choice is not None for choice in (match, tenant, listed)) != 1:
        raise click.UsageError("choose by one of --match (an empty one for all), --tenant and --scopes")
    request = CompressRequest(match=prefix_of(match, tenant), **options)
    run = run_id or uuid4().hex
    click.echo(f"run {run}", err=True)
    with open_sessions() as (deployment, batch), _report(report_file, run) as report:
        scopes = _scopes(batch, request, listed)
        if name_scopes:
            report.names.update({scope_key(scope): to_wire(scope) for scope in scopes})
        rows = batch.rows(run)
        work = open_run(deployment.app, batch.settings, rows, run, request)
        report.write(rows.final())
        _pump(work, report, list(left_over(scopes, report.written)))
    _conclude(report)


def _scopes(batch: OpenBatch, request: CompressRequest, listed: Path | None) -> list[Scope]:
    if listed is not None:
        return list(listed_scopes(listed))
    ttl_ms = batch.settings.context.cache.ttl_ms
    return list(indexed_scopes(batch.index(), request, ttl_ms=ttl_ms))


def _pump(work: CompressRun, report: Report, left: list[Scope]) -> None:
    work.add(left)
    done = len(report.written)
    with _progress(done + len(left), done) as advance:
        while not work.is_done:
            advance(report.write(work.turn()), GIVES_WAY if work.pace.gives_way else AT_WORK)


class RateColumn(ProgressColumn):
    """Sessions a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.0f}/s", style="cyan")


@contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[int, str], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(AT_WORK, total=total, completed=done)
        yield lambda count, state: bar.update(task, advance=count, description=state)


@contextmanager
def _report(name: str | None, run: str) -> Iterator[Report]:
    if name == STDOUT:
        yield Report(sys.stdout.buffer)
        return
    path = Path(name or f"ditto-compress-{run}.jsonl")
    with _opened(path) as file:  # rows of an earlier try are written again: they are kept in Redis
        yield Report(file)
    click.echo(f"report {path}", err=True)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as exc:
        raise SettingsError("FILE_NOT_WRITTEN", f"{path}: {exc.strerror}; nothing was sent") from exc


def _conclude(report: Report) -> None:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(report.by_status.items()))
    summary = f"{len(report.written)} sessions: {counts or 'none'}; {report.tokens_saved} tokens less"
    click.echo(summary, err=True)
    if report.by_status["failed"]:
        raise SystemExit(1)
