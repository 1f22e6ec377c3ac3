"""`ditto demo`: the main pipeline over a folder of texts, on a private server and real workers."""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from ditto_tasks.cli.account import entered_context, hits_of, timeline, weigh
from ditto_tasks.cli.children import Children, StopRequest
from ditto_tasks.cli.demo_report import Account, print_account
from ditto_tasks.cli.patience import Patience, StoppedError
from ditto_tasks.cli.texts import Passage, passages_in, project_docs
from ditto_tasks.cli.up import (
    BROKER_DB,
    CONTEXT_DB,
    FLOWER_PORT,
    RESULT_DB,
    Stack,
    free_port,
    is_listening,
    start_flower,
)
from ditto_tasks.client.models import Receipt
from ditto_tasks.client.sync import Ditto
from ditto_tasks.context.models import ContextSelection
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.nodes import NodeType
from ditto_tasks.pipelines.canvas import answer_request
from ditto_tasks.pipelines.models import Answer, Search
from ditto_tasks.pipelines.outcomes import output_of
from ditto_tasks.pipelines.plan import steps_of
from ditto_tasks.routing import needs_shard, queue_of_shard
from ditto_tasks.settings import child_environment, load_settings

QUESTION: Final = "What happens when a worker dies in the middle of a task?"
BUDGET_TOKENS: Final = 400  # small enough that something does not fit, so that the account shows why
HITS: Final = 6
STRATEGIES: Final = ("keyword", "substring")
SCOPE: Final = Scope(session_id="demo")
GOAL: Final[JsonObject] = {
    "id": "goal",
    "content": "Answer from the documents, and name the items used.",
    "metadata": {"currentGoal": True, "role": "system"},
}
WORKERS: Final = {  # as compose.yaml has them: each domain on its own queue
    "context": "ditto.ctx,ditto.context",
    "general": "ditto.memory,ditto.retrieval,ditto.interaction",
    "infer": "ditto.infer",
}
WIDTH: Final = 100  # of what goes into a file or a pipe
BATCH: Final = 200  # memories of one MEMORY.WRITE: its message stays far below 4 MiB
READY_S: Final = 60.0  # a cold start of all processes on a busy machine
ANSWER_S: Final = 120.0


@click.command()
@click.option(
    "--docs",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of text files. Default: this project's own documents.",
)
@click.option("--question", default=QUESTION, show_default=True, help="What to ask about them.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=BUDGET_TOKENS,
    show_default=True,
    help="Tokens that may be selected.",
)
def demo(docs: Path | None, question: str, budget: int) -> None:
    """Answer a question about a folder of texts; show each step.

    It is a search of memory, an update of the context, a selection and an inference, all as Celery tasks on
    an embedded server. Nothing is left running, also after Ctrl-C.
    """
    stop_request = StopRequest().install()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        with ExitStack() as stack:
            _run(stack, stop_request, console, docs or project_docs(), question, budget)
    except StoppedError:
        console.print("Stopped.")
        raise SystemExit(130) from None


def _run(
    stack: ExitStack, stop_request: StopRequest, console: Console, docs: Path, question: str, budget: int
) -> None:
    passages = passages_in(docs)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ditto-demo-")))
    running = _stack(stack.enter_context(EmbeddedServer()), directory)
    client = stack.enter_context(Ditto(load_settings(None, child_environment(running.variables))))
    children = stack.enter_context(Children(stop_request))
    patience = Patience(stop_request, children, directory)
    _start(children, running)
    files = len({each.source for each in passages})
    console.print(
        f"[bold]Workers[/bold]: {', '.join(WORKERS)}   [bold]Documents[/bold]: {docs}, {files} files"
    )
    _ingest(client, patience, passages)
    patience.until(lambda: is_listening(running.flower_port), "Flower", READY_S)
    console.print(f"[bold]Flower[/bold] (while this runs): {running.flower_url}   {running.credential}")
    console.print(f"[bold]MEMORY.WRITE[/bold]: {len(passages)} passages")
    print_account(console, _ask(client, patience, question, budget))


def _stack(server: EmbeddedServer, directory: Path) -> Stack:
    variables = {
        "DITTO_BROKER_URL": server.url(BROKER_DB),
        "DITTO_RESULT_BACKEND_URL": server.url(RESULT_DB),
        "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(CONTEXT_DB),
        "DITTO_WORKER_MEMORY_URL": f"sqlite:///{directory / 'memory.sqlite3'}",
    }
    return Stack(directory, variables, free_port(FLOWER_PORT), f"ditto:{secrets.token_urlsafe(12)}")


def _start(children: Children, running: Stack) -> None:
    env = child_environment(running.variables)
    for name, queues in WORKERS.items():
        worker = ["-m", "celery", "-A", "ditto_tasks", "worker", "-n", f"{name}@%h", "-Q", queues, "-E"]
        children.start(name, worker, env, log=running.directory / f"{name}.log")
    start_flower(children, running, log=running.directory / "flower.log")


def _ingest(client: Ditto, patience: Patience, passages: Sequence[Passage]) -> None:
    batches = [passages[start : start + BATCH] for start in range(0, len(passages), BATCH)]
    written = [client.memory.write(memories=[each.draft() for each in batch]) for batch in batches]
    for pending in written:
        output_of(to_wire(patience.result(pending, "writing the memories", READY_S)))


def _ask(client: Ditto, patience: Patience, question: str, budget: int) -> Account:
    queries = (question, _longest_word(question))
    searches = [_search(strategy, query) for strategy, query in zip(STRATEGIES, queries, strict=True)]
    pending = client.answer(SCOPE, question, init=[GOAL], searches=searches, max_tokens=budget)
    answer = patience.result(pending, "the answer", ANSWER_S)
    found = [client.result(answer.step_ids[search.step]).get(READY_S) for search in answer.searches]
    updated = from_wire(Receipt, client.result(answer.step_ids["update"]).get(READY_S))
    selected = from_wire(Receipt, client.result(answer.step_ids["select"]).get(READY_S))
    context = entered_context(GOAL, found)
    return Account(
        question=question,
        budget=budget,
        hits=[hit for name, result in zip(STRATEGIES, found, strict=True) for hit in hits_of(name, result)],
        items=updated.items or 0,
        tokens=updated.tokens or 0,
        weighed=weigh(context, ContextSelection.parse(selected.selection), question, budget),
        steps=timeline(pending.events()),
        places=_places(client, answer, question, searches),
        answer=answer,
    )


def _search(strategy: str, query: str) -> Search:
    return Search(input={"query": query, "strategy": strategy, "limit": HITS})


def _longest_word(question: str) -> str:
    words: list[str] = re.findall(r"\w+", question)
    return max(words, key=len, default=question)


def _places(
    client: Ditto, answer: Answer, question: str, searches: Sequence[Search]
) -> dict[str, tuple[str, str]]:
    """The task id and the queue of each step."""
    nodes, shards = client.app.nodes, client.app.settings.runtime.shards.count
    request = answer_request(SCOPE, question, init=[GOAL], searches=searches)
    return {
        step.name: (answer.step_ids[step.name], _queue(nodes[step.node], step.wire, shards))
        for step in steps_of(request, answer.pipeline_id)
    }


def _queue(row: NodeType, wire: JsonObject, shards: int) -> str:
    return queue_of_shard(row, wire, shards) if needs_shard(row, wire) else row.queue
