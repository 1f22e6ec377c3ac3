"""`ditto doctor`: asks every service and says what is wrong and what to do."""

from itertools import chain

import click

from ditto_tasks.cli.deployment_probes import deployment_findings
from ditto_tasks.cli.probes import Finding, findings
from ditto_tasks.settings import load_settings

COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


@click.command()
def doctor() -> None:
    """Ask every service; say what is wrong and what to do.

    The exit code is 1 if anything is wrong, and 0 if there are warnings only.
    """
    settings = load_settings()
    wrong = False
    for finding in chain(findings(settings), deployment_findings(settings)):
        _show(finding)
        wrong = wrong or finding.state == "wrong"
    if wrong:
        raise SystemExit(1)


def _show(finding: Finding) -> None:
    state = click.style(f"{finding.state:8}", fg=COLOURS[finding.state])
    click.echo(f"{state} {finding.subject}: {finding.text}")
    if finding.remedy:
        click.echo(f"{'':8} -> {finding.remedy}")
