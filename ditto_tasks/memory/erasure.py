"""Whom an erasure is about, and which memories are theirs: names are taken literally, by their beginning."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ditto_tasks.errors import MemoryError
from ditto_tasks.tenants import MARK, is_tenant, tenant_in

TOMBSTONE_KEEP_MS: Final = 7 * 24 * 3_600_000  # no queue redelivers a message after a week
MAX_NAME_CHARS: Final = 200  # of a name in an index; longer ones are hashed
REVISION_MARK: Final = "/"  # between a conversation and its revision, in keys of archives


@dataclass(frozen=True, slots=True)
class Subject:
    """A session by its id, or a tenant with all of its sessions.

    A session's memories are those of the namespace of its id, and those whose key begins with its id and a
    slash; an id may have slashes itself. A tenant's are those of the namespace of its name, of namespaces
    that begin with its name and a colon, and those with such keys.
    """

    kind: Literal["session", "tenant"]
    name: str

    @property
    def key_prefix(self) -> str:
        """How the keys of its memories begin, whatever their namespace."""
        return self.name + (MARK if self.kind == "tenant" else REVISION_MARK)

    @property
    def namespace_prefix(self) -> str | None:
        """How further namespaces of it begin."""
        return self.key_prefix if self.kind == "tenant" else None

    @property
    def tombstone(self) -> str:
        """The name under which its erasure is noted."""
        if len(self.name) <= MAX_NAME_CHARS:
            return f"{self.kind} {self.name}"
        return f"{self.kind} sha256:{hashlib.sha256(self.name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def subjects_of(namespace: str, keys: Iterable[str]) -> frozenset[str]:
    """The tombstones that would stand against memories of a namespace under these keys."""
    named = [*([namespace] if namespace else []), *keys]
    sessions = {session for key in named[bool(namespace) :] for session in _sessions_of(key)}
    tenants = {tenant for name in named if (tenant := tenant_in(name)) is not None}
    if namespace:
        sessions.add(namespace)
    if is_tenant(namespace):
        tenants.add(namespace)
    return frozenset(
        [Subject("session", name).tombstone for name in sessions]
        + [Subject("tenant", name).tombstone for name in tenants]
    )


def _sessions_of(key: str) -> Iterator[str]:
    """Every id that, with a slash, is how the key begins."""
    for at, character in enumerate(key):
        if character == REVISION_MARK and at > 0:
            yield key[:at]


def erased() -> MemoryError:
    """The refusal of a write that comes after its session or tenant was erased."""
    return MemoryError("ERASED", "the session or tenant was erased; late writes are refused")
