"""`ditto shards`: who serves which shard, what waits, and the rare operations on them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Column, Table

from ditto_tasks.cli.deployment import OpenDeployment, open_deployment
from ditto_tasks.errors import DittoError
from ditto_tasks.worker.dead_letters import purge as purge_shard
from ditto_tasks.worker.inspection import ShardRow, read_shards
from ditto_tasks.worker.resizing import resize_shards

POLL_S: Final = 0.2


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--busy", is_flag=True, help="Only shards in which something waits, runs or is dead.")
@click.pass_context
def shards(context: click.Context, *, as_json: bool, busy: bool) -> None:
    """Show who owns each shard and what waits in it."""
    if context.invoked_subcommand is not None:
        return
    with open_deployment() as deployment:
        rows = _rows(deployment)
    shown = [row for row in rows if not busy or row.depth or row.head_scope or row.dead]
    if as_json:
        for row in shown:
            click.echo(json.dumps(asdict(row)))
    else:
        Console().print(_table(shown))


@shards.command()
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), default=60.0, show_default=True)
def drain(*, timeout_s: float) -> None:
    """Wait until no message waits or runs in any shard. Stop the senders first."""
    deadline_s = time.monotonic() + timeout_s
    with open_deployment() as deployment:
        while left := [row for row in _rows(deployment) if row.depth or row.head_scope]:
            if time.monotonic() > deadline_s:
                waiting = sum(row.depth for row in left)
                raise DittoError("NOT_DRAINED", f"{len(left)} shards are busy, {waiting} messages wait")
            time.sleep(POLL_S)
    click.echo("all shards are empty")


@shards.command()
@click.argument("count", type=click.IntRange(1, 4096))
def resize(*, count: int) -> None:
    """Give the deployment COUNT shards, if none holds a message.

    Workers that run with another count stop by themselves. Change runtime.shards.count, then start
    workers and senders anew.
    """
    with open_deployment() as deployment:
        before = deployment.shard_count
        resize_shards(deployment.broker, deployment.keys, before, count)
    click.echo(f"{before} -> {count} shards; set runtime.shards.count, then restart workers and senders")


@shards.command()
@click.argument("shard", type=click.IntRange(min=0))
@click.confirmation_option(prompt="Drop all messages that wait in this shard?")
def purge(*, shard: int) -> None:
    """Drop what waits in SHARD; its callers get the error PURGED."""
    with open_deployment() as deployment:
        deployment.check_shard(shard)
        dropped = purge_shard(deployment.app, deployment.broker, shard)
    click.echo(f"{dropped} messages dropped")


def _rows(deployment: OpenDeployment) -> list[ShardRow]:
    return read_shards(deployment.broker, deployment.keys, deployment.shard_count)


def _table(rows: list[ShardRow]) -> Table:
    owner = Column("owner", overflow="fold")
    table = Table("shard", owner, "epoch", "waiting", "running", "head's scope", "oldest", "deaths", "dead")
    for row in rows:
        table.add_row(
            str(row.shard),
            row.owner or "-",
            str(row.epoch),
            str(row.depth),
            _seconds(row.running_ms),
            (row.head_scope or "-").removeprefix("scope:")[:12],
            _seconds(row.oldest_ms),
            str(row.deaths),
            str(row.dead),
        )
    return table


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.1f} s"
