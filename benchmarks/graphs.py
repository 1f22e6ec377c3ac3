"""Graphs against bare Celery, in one run. Ceilings: a node costs at most 1.5x a task that does nothing, in
1,000 nodes of 20 levels and one after another; a chord of 10 with 500 KB each takes by reference at most 0.4x
of what it takes by value.

    python -m benchmarks.graphs [--kills N]

With `--kills` workers are killed so often while graphs run instead, and everything must hold after that.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from celery import Celery, chord
from support import bare_app, graph_app
from support.graph_kills import kill_workers
from support.graphs import graph_deployment
from support.workers import WorkerProcess, environment

from ditto_tasks.client.sync import Ditto
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.settings import load_settings

ROUNDS: Final = 5
LEVELS, WIDTH = 20, 50
CHAIN: Final = 200
HEADER: Final = 10
SIZE: Final = 500_000
NODE_CEILING: Final = 1.5
REFERENCE_CEILING: Final = 0.4
WAIT_S: Final = 120.0
ARGS: Final = ("-P", "threads", "-c", "16")


def layers(levels: int, width: int) -> Graph:
    """Nodes that do nothing, each after two of the level before."""
    nodes = [
        GraphNode(
            f"l{level}n{at}",
            graph_app.NOTHING,
            dependencies=tuple(f"l{level - 1}n{(at + step) % width}" for step in range(min(2, width)))
            if level
            else (),
        )
        for level in range(levels)
        for at in range(width)
    ]
    return Graph("layers", nodes)


def gathering() -> Graph:
    """Ten large outputs and a node that takes them all."""
    made = [GraphNode(f"n{at}", graph_app.MAKE, input={"size": SIZE}) for at in range(HEADER)]
    last = GraphNode(
        "last", graph_app.MEASURE, dependencies=tuple(n.id for n in made), binding="bench.gather"
    )
    return Graph("gathering", [*made, last])


class Pair:
    """Both applications, each with a worker of its own on one server; measured in turns, in ms."""

    def __init__(self, client: Ditto, bare: Celery) -> None:
        self._client = client
        self._bare = bare
        self._layers, self._chain, self._gathering = layers(LEVELS, WIDTH), layers(CHAIN, 1), gathering()

    def wide_graph(self) -> float:
        return _ms(lambda: self._client.run(self._layers).get(WAIT_S)) / len(self._layers.nodes)

    def wide_bare(self) -> float:
        def drain() -> None:
            sent = [self._bare.send_task("bare.nothing") for _ in self._layers.nodes]
            for result in sent:
                result.get(timeout=WAIT_S)

        return _ms(drain) / len(self._layers.nodes)

    def chain_graph(self) -> float:
        return _ms(lambda: self._client.run(self._chain).get(WAIT_S)) / CHAIN

    def chain_bare(self) -> float:
        def one_after_another() -> None:
            for _ in range(CHAIN):
                self._bare.send_task("bare.nothing").get(timeout=WAIT_S)

        return _ms(one_after_another) / CHAIN

    def by_reference(self) -> float:
        def run() -> None:
            pending = self._client.run(self._gathering)
            self._client.result(pending.id).get(
                WAIT_S
            )  # the receipt: like a chord's caller, read the last only
            assert pending.outputs(["last"]) == {"last": HEADER * SIZE}

        return _ms(run)

    def by_value(self) -> float:
        header = [bare_app.make.s(SIZE) for _ in range(HEADER)]
        return _ms(lambda: chord(header, app=self._bare)(bare_app.measure.s()).get(timeout=WAIT_S))


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def ratio(name: str, ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """The median over rounds of ours to theirs, printed with the figures; one round more warms up."""
    pairs = [(ours(), theirs()) for _ in range(ROUNDS + 1)][1:]
    print(f"{name}:", "  ".join(f"{a:.2f}/{b:.2f}" for a, b in pairs))
    return statistics.median(a / b for a, b in pairs)


def measure() -> int:
    """1 if a ceiling was missed."""
    with EmbeddedServer() as server:
        variables = environment(server)
        ours = WorkerProcess(server, app=graph_app.NAME, args=ARGS, log_level="INFO", events=False)
        urls = {"DITTO_BROKER_URL": server.url(5), "DITTO_RESULT_BACKEND_URL": server.url(6)}
        theirs = WorkerProcess(
            server, app=bare_app.NAME, env=urls, args=ARGS, log_level="INFO", events=False, name="bare"
        )
        bare_app.app.conf.update(broker_url=server.url(5), result_backend=server.url(6))
        with ours, theirs, Ditto(load_settings(None, variables), nodes=graph_app.ROWS) as client:
            pair = Pair(client, bare_app.app)
            wide = ratio(f"{LEVELS} levels of {WIDTH}, ms a node", pair.wide_graph, pair.wide_bare)
            chain = ratio(f"{CHAIN} one after another, ms a node", pair.chain_graph, pair.chain_bare)
            reference = ratio(f"{HEADER} of {SIZE} bytes, ms", pair.by_reference, pair.by_value)
    print(f"a node {wide:.2f}x, one after another {chain:.2f}x a bare task (ceiling {NODE_CEILING}x)")
    print(f"by reference {reference:.2f}x of by value (ceiling {REFERENCE_CEILING}x)")
    return 0 if max(wide, chain) <= NODE_CEILING and reference <= REFERENCE_CEILING else 1


def kill(kills: int) -> int:
    """1 if something did not hold."""
    with graph_deployment() as deployed:
        outcome = kill_workers(deployed, kills=kills, runs=4, node_ms=150)
    print(
        f"{outcome.kills} kills: {outcome.runs} runs ended, {outcome.nodes} nodes settled once each, "
        f"{outcome.executions} executions of those that count"
    )
    print("\n".join(outcome.wrong) or "all outputs are those of the interpreter, nothing settled ran again")
    return 1 if outcome.wrong else 0


def main() -> int:
    """1 if a ceiling was missed or something did not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=0)
    kills = parser.parse_args().kills
    return kill(kills) if kills else measure()


if __name__ == "__main__":
    sys.exit(main())
