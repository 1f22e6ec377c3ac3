"""Names of the keys of one deployment, spelled here and nowhere else; docs/operations.md lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GRAPH_PARTS: Final = ("outputs", "ready", "flight")  # beside a run's record: a hash and two sorted sets


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys `ditto:<deployment>:…` of the broker's database; tombstones stand in the results' database too."""

    deployment: str

    @property
    def shard_count(self) -> str:
        """String: N, written once by the first process that needs it."""
        return self._named("shards:count")

    @property
    def workers(self) -> str:
        """Sorted set: owner id, scored by when it stops counting as alive (server's ms)."""
        return self._named("workers")

    @property
    def changes(self) -> str:
        """Pub/sub channel (no key): a worker joined or left, or a shard was released."""
        return self._named("changes")

    def lease(self, shard: int) -> str:
        """String with a TTL: the owner id."""
        return self._named(f"lease:{shard}")

    def shard(self, shard: int) -> str:
        """Hash {epoch, owner, moves, seq, started?, deaths?, tried?}: what outlives a lease."""
        return self._named(f"shard:{shard}")

    def worker(self, owner: str) -> str:
        """String with a TTL: the worker's last report of its health, as JSON."""
        return self._named(f"worker:{owner}")

    def cancel(self, task_id: str) -> str:
        """String: the task is to stop."""
        return self._named(f"cancel:{task_id}")

    def cancel_root(self, root_id: str) -> str:
        """String: every task of the canvas is to stop."""
        return self._named(f"cancel:root:{root_id}")

    def tenant(self, task_id: str) -> str:
        """String: the tenant that the sender of a task belonged to."""
        return self._named(f"tenant:{task_id}")

    def owned(self, owner: str) -> str:
        """Sorted set: what a session or tenant has, by its owner key."""
        return self._named(f"of:{owner}")

    def caused(self, root_id: str) -> str:
        """Sorted set: what a canvas has, by its root."""
        return self.owned(f"root:{root_id}")

    def erased(self, owner: str) -> str:
        """String: the tombstone of a session or tenant, by its owner key."""
        return self._named(f"erased:{owner}")

    def erased_root(self, root_id: str) -> str:
        """String: the tombstone of a canvas of theirs."""
        return self.erased(f"root:{root_id}")

    def events(self, task_id: str) -> str:
        """Stream: what a running task or pipeline says."""
        return self._named(f"events:{task_id}")

    def effect(self, digest: str) -> str:
        """Hash: the record of one external effect."""
        return self._named(f"effect:{digest}")

    def cached(self, kind: str, name: str) -> str:
        """Hash of an entry of INFER's cache, or sorted set of those of a tag, a namespace or an owner."""
        return self._named(f"infer-cache:{kind}:{name}")

    @property
    def output(self) -> str:
        """Stream: what INTERACTION.OUTPUT handed over."""
        return self._named("output")

    def pipeline(self, pipeline: str) -> str:
        """Hash: the record of a pipeline."""
        return self._named(f"pipeline:{pipeline}")

    def pipelines(self, shard: int) -> str:
        """Sorted set: the pipelines that a shard's owner looks after."""
        return self._named(f"pipelines:{shard}")

    def graph(self, run: str) -> str:
        """Hash: the record of a graph's run."""
        return self._named(f"graph:{run}")

    def graph_part(self, run: str, part: str) -> str:
        """What stands beside that record: one of GRAPH_PARTS."""
        return f"{self.graph(run)}:{part}"

    def graphs(self, shard: int) -> str:
        """Sorted set: the runs of graphs that a shard's owner looks after."""
        return self._named(f"graphs:{shard}")

    def loop(self, run: str) -> str:
        """Hash: the record of a loop's run."""
        return self._named(f"loop:{run}")

    def loops(self, shard: int) -> str:
        """Sorted set: the runs of loops that a shard's owner looks after."""
        return self._named(f"loops:{shard}")

    def resumes(self, run: str) -> str:
        """String in the results' database: how often a run was resumed; no older end of it is stored."""
        return self._named(f"resumes:{run}")

    def runs(self, owner: str | None) -> str:
        """Sorted set: the runs of a tenant, by its owner key, or of the whole deployment."""
        return self._named("runs" if owner is None else f"runs:{owner}")

    def trace(self, run: str) -> str:
        """String: the trace to which the tasks of a run belong."""
        return self._named(f"trace:{run}")

    def batch(self, run: str) -> str:
        """Hash: the rows of a batch run."""
        return self._named(f"batch:{run}")

    def batch_part(self, run: str, part: str) -> str:
        """What stands beside them: request (string) or news (list)."""
        return f"{self.batch(run)}:{part}"

    @property
    def metrics(self) -> str:
        """Hash: a count's name with its labels -> number."""
        return self._named("metrics")

    def _named(self, name: str) -> str:
        return f"ditto:{self.deployment}:{name}"


def stop_marks(keys: Keys, task_id: str, root_id: str) -> tuple[str, ...]:
    """The keys of which one exists if a task is not to run: it or its canvas was cancelled, or erased."""
    return keys.cancel(task_id), keys.cancel_root(root_id), keys.erased_root(root_id)
