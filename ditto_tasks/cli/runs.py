"""`ditto runs`: which runs there are, how one stands, and how to stop it or let it go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast, get_args

import click
from rich.console import Console
from rich.live import Live

from ditto_tasks.canonical import canonical_json
from ditto_tasks.celery import DittoCelery
from ditto_tasks.cli.deployment import open_deployment
from ditto_tasks.cli.durations import duration
from ditto_tasks.cli.run_drawing import drawn, listing
from ditto_tasks.client.controlling import cancel as cancel_run
from ditto_tasks.client.controlling import resume as resume_run
from ditto_tasks.client.controlling import view_of
from ditto_tasks.errors import DittoError, SettingsError
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.run_svg import draw
from ditto_tasks.pipelines.run_views import MAX_PAGE, RunReader, RunSummary, RunView, RunViewState
from ditto_tasks.tenants import is_tenant

FOLLOW_S: Final = 1.0
PAGE: Final = 200


@click.group()
def runs() -> None:
    """List, show, cancel and resume runs.

    Every answer, flow, graph and loop is one.
    """


@runs.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(get_args(RunViewState)), help="Repeat for several."
)
@click.option("--tenant", help="The runs of one tenant.")
@click.option("--limit", type=click.IntRange(1, MAX_PAGE), default=50, show_default=True)
@click.option("--cursor", help="Go on after a listing, with what it printed.")
@click.option("--json", "as_json", is_flag=True, help="One run as JSON a line.")
def list_runs(
    *, states: tuple[str, ...], tenant: str | None, limit: int, cursor: str | None, as_json: bool
) -> None:
    """Show runs, the newest first."""
    if tenant is not None and not is_tenant(tenant):
        raise click.BadParameter(
            "a tenant's name is letters, digits, '.', '_' and '-'", param_hint="--tenant"
        )
    wanted = cast("tuple[RunViewState, ...]", states)
    with _open() as app:
        found, more = _collected(app.run_records, tenant, wanted, limit, cursor)
    if as_json:
        for run in found:
            click.echo(canonical_json(to_wire(run)))
    else:
        Console().print(listing(found, int(time.time() * 1000)))
    if more is not None:
        click.echo(f"more with --cursor {more}", err=True)


def _collected(
    reader: RunReader, tenant: str | None, states: Sequence[RunViewState], limit: int, cursor: str | None
) -> tuple[list[RunSummary], str | None]:
    """As many runs as asked for: a page may hold fewer where states were chosen."""
    found: list[RunSummary] = []
    while True:
        page = reader.list(tenant=tenant, states=states, limit=min(limit - len(found), PAGE), cursor=cursor)
        found += page.runs
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found, cursor


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture of it, too.")
@click.option("--all", "everything", is_flag=True, help="Every node, however many there are.")
@click.option("--follow", is_flag=True, help="Show it until it ends; exit code 1 unless it is done then.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(*, run_id: str, svg: Path | None, everything: bool, follow: bool, as_json: bool) -> None:
    """Draw a run: its nodes with their states and times."""
    if follow and as_json:
        raise click.UsageError("--follow draws; it can't be combined with --json")
    with _open() as app:
        run = _followed(app, run_id, everything=everything) if follow else view_of(app, run_id)
    if svg is not None:
        _write(svg, draw(run))
    if as_json:
        click.echo(canonical_json(to_wire(run)))
    elif not follow:
        Console().print(drawn(run, everything=everything))
    if follow and run.state != "done":
        raise click.exceptions.Exit(1)


def _followed(app: DittoCelery, run_id: str, *, everything: bool) -> RunView:
    """Draw a run again and again until it has ended; how it ended."""
    run = view_of(app, run_id)
    with Live(drawn(run, everything=everything), auto_refresh=False, vertical_overflow="crop") as live:
        while run.state == "running":
            time.sleep(FOLLOW_S)
            run = view_of(app, run_id)
            live.update(drawn(run, everything=everything), refresh=True)
        live.vertical_overflow = "visible"
    return run


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as exc:
        raise SettingsError("FILE_NOT_WRITTEN", f"{path}: {exc.strerror}") from exc
    click.echo(f"wrote {path}", err=True)


@runs.command()
@click.argument("run_id", metavar="RUN")
def cancel(*, run_id: str) -> None:
    """Stop a run.

    Nothing new begins, what is at work is asked to end, and what was done stands.
    """
    with _open() as app:
        run = view_of(app, run_id)
        if run.state != "running":
            raise DittoError("RUN_NOT_RUNNING", f"the run is {run.state}")
        cancel_run(app, run)
    click.echo(f"{run_id} cancelled")


@runs.command()
@click.argument("run_id", metavar="RUN")
@click.option("--timeout", type=duration, help="Until its new deadline, such as 10m.")
def resume(*, run_id: str, timeout: int | None) -> None:
    """Let a graph or loop go on that failed or was cancelled.

    What was settled is not done again.
    """
    with _open() as app:
        resume_run(app, view_of(app, run_id), timeout)
    click.echo(f"{run_id} goes on")


@contextmanager
def _open() -> Iterator[DittoCelery]:
    with open_deployment() as deployment:
        yield deployment.app
