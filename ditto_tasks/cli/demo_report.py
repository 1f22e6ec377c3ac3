"""The demo's account on the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from ditto_tasks.cli.account import Hit, Ran, Weighed
from ditto_tasks.pipelines.models import Answer

SHOWN_CHARACTERS: Final = 200  # more than a line of any terminal shows


@dataclass(frozen=True, slots=True)
class Account:
    """All that is shown of a run."""

    question: str
    budget: int
    hits: list[Hit]
    items: int
    tokens: int
    weighed: list[Weighed]
    steps: list[Ran]
    places: dict[str, tuple[str, str]]  # step -> task id, queue
    answer: Answer


def print_account(console: Console, account: Account) -> None:
    """What was found, what entered the context, what was selected and why, the answer, the tasks."""
    console.print()
    console.print(f"[bold]Question[/bold]: {escape(account.question)}")
    console.print(_hits(account))
    console.print(
        f"[bold]CONTEXT.UPDATE[/bold]: {account.items} items, {account.tokens} tokens in the context "
        f"(version {account.answer.updated_version})"
    )
    console.print(_selection(account))
    console.print(_sum(account))
    console.print(Panel(escape(account.answer.text), title="Answer", border_style="green"))
    console.print(_steps(account))


def _hits(account: Account) -> Table:
    table = _table("MEMORY.SEARCH: hits", "search", "score", "item", "from", "text")
    for hit in account.hits:
        score = "-" if hit.score is None else f"{hit.score:.3g}"
        table.add_row(*map(escape, (hit.search, score, _short_id(hit.item_id), hit.source, _start(hit.text))))
    return table


def _selection(account: Account) -> Table:
    title = f"CONTEXT.SELECT: best first, each taken if it fits into {account.budget} tokens"
    table = _table(title, "item", "words", "tokens", "sum", "", "text")
    for row in account.weighed:
        total = row.used_before + row.tokens
        verdict = "[green]selected[/green]" if row.selected else f"[red]{total} > {account.budget}[/red]"
        arithmetic = f"{row.used_before} + {row.tokens} = {total}"
        words = f"{row.shared_words:.0%}"
        table.add_row(
            escape(_short_id(row.item_id)),
            words,
            str(row.tokens),
            arithmetic,
            verdict,
            escape(_start(row.text)),
        )
    return table


def _sum(account: Account) -> str:
    taken = [row.tokens for row in account.weighed if row.selected]
    left_out = len(account.weighed) - len(taken)
    return (
        f"{' + '.join(map(str, taken)) or '0'} = {sum(taken)} of {account.budget} tokens; "
        f"{len(taken)} items selected, {left_out} left out"
    )


def _steps(account: Account) -> Table:
    table = _table("Tasks", "step", "task id", "queue", "began", "took")
    for row in account.steps:
        task_id, queue = account.places[row.step]
        table.add_row(row.step, escape(task_id), queue, f"+{row.began_ms} ms", f"{row.took_ms} ms")
    return table


def _table(title: str, *columns: str) -> Table:
    flexible = {"from": 2, "text": 3}  # shares of what the others leave; cut there, whole in the documents
    expand = not flexible.keys().isdisjoint(columns)
    table = Table(title=title, title_justify="left", title_style="bold", expand=expand)
    for column in columns:
        right = column in {"score", "words", "tokens", "began", "took"}
        table.add_column(
            column,
            justify="right" if right else "left",
            overflow="ellipsis",
            no_wrap=True,
            ratio=flexible.get(column),
        )
    return table


def _short_id(item_id: str) -> str:
    kind, colon, rest = item_id.partition(":")
    return f"{kind}:…{rest[-8:]}" if colon and len(rest) > 12 else item_id


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"
