"""Workers killed at random while graphs run, and what must hold after that."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import redis

from ditto_tasks.client.sync import Ditto, PendingRun
from ditto_tasks.pipelines.graph_plan import run_graph
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from support.flows import FlowDeployment
from support.graphs import constant, execute, load
from support.graphs_extension import RAN
from support.polling import eventually
from support.workers import WorkerProcess

WORKERS = 2
WAIT_S = 300.0
LEVELS, WIDTH = 6, 5


@dataclass
class Outcome:
    """What was seen; `wrong` says what must not be."""

    kills: int = 0
    runs: int = 0
    nodes: int = 0
    executions: int = 0
    wrong: list[str] = field(default_factory=list)


def working_graph(levels: int = LEVELS, width: int = WIDTH) -> Graph:
    """Levels of nodes that take time and tell that they ran, each known by its dependencies."""
    nodes: list[GraphNode] = [constant(f"l0n{at}", str(at)) for at in range(width)]
    for level in range(1, levels):
        for at in range(width):
            before = f"l{level - 1}n{at}", f"l{level - 1}n{(at + 1) % width}"
            nodes.append(load(f"l{level}n{at}", *before, binding="test.work"))
    return Graph("killed", nodes)


def kill_workers(deployed: FlowDeployment, *, kills: int, runs: int, node_ms: int, seed: int = 1) -> Outcome:
    """Kill a worker again and again while runs go on, start another each time, and look at all runs."""
    chance, outcome = random.Random(seed), Outcome()  # noqa: S311 -- a test's dice
    graph = working_graph()
    workers = [deployed.worker(f"w{number}").start() for number in range(WORKERS)]
    try:
        with Ditto(deployed.settings) as client:
            started = list(_started(client, graph, runs, node_ms))
            while outcome.kills < kills:
                _let_some_nodes_end(client, started, chance)
                outcome.kills += 1
                victim = chance.randrange(WORKERS)
                workers[victim].kill()
                workers[victim].close()
                workers[victim] = deployed.worker(f"r{outcome.kills}").start()
                if all(client.app.run_records.load(run.id).state != "running" for run, _ in started):
                    started += _started(client, graph, runs, node_ms)
            for run, asked in started:
                _judge(client, deployed, graph, run, asked, outcome)
    finally:
        _close(workers)
    return outcome


def _started(
    client: Ditto, graph: Graph, runs: int, node_ms: int
) -> Iterator[tuple[PendingRun, dict[str, object]]]:
    for _ in range(runs):
        asked: dict[str, object] = {"key": uuid4().hex, "ms": node_ms, "seed": "s"}
        yield client.run(graph, asked), asked


def _let_some_nodes_end(
    client: Ditto, started: list[tuple[PendingRun, dict[str, object]]], chance: random.Random
) -> None:
    """Wait until so many nodes more have settled that a kill hits work at another place each time."""

    def settled() -> int:
        return sum(client.app.run_records.load(run.id).settled for run, _ in started)

    wanted = settled() + chance.randint(1, 8)
    most = len(started) * LEVELS * WIDTH
    eventually(lambda: settled() >= min(wanted, most), 60)


def _judge(
    client: Ditto,
    deployed: FlowDeployment,
    graph: Graph,
    run: PendingRun,
    asked: dict[str, object],
    outcome: Outcome,
) -> None:
    outputs = run.get(WAIT_S)
    if outputs != run_graph(graph, asked, execute):
        outcome.wrong.append(f"{run.id}: other outputs than in process")
    view = client.app.run_records.load(run.id)
    ended = {",".join(node.dependencies): node.ended_ms for node in view.nodes}
    with redis.Redis.from_url(deployed.server.redis_url(0), decode_responses=True) as broker:
        ran = [entry.rsplit(" ", 1) for entry in broker.lrange(f"{RAN}{asked['key']}", 0, -1)]
    outcome.runs += 1
    outcome.nodes += len(view.nodes)
    outcome.executions += len(ran)
    late = [node for node, at in ran if int(at) > (ended[node] or 0)]
    outcome.wrong += [f"{run.id}: a node after {node} ran after it had settled" for node in late]


def _close(workers: list[WorkerProcess]) -> None:
    for worker in workers:
        worker.close()
