"""Which Redis keys may live for ever: those that docs/operations.md says so of."""

import re
from dataclasses import dataclass
from pathlib import Path

import redis

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
HEADING = "## Redis keys"
PERMANENT = "none"


@dataclass(frozen=True)
class KeyRow:
    """A row of the table of keys: a name with `<placeholders>`, and the rest in words."""

    name: str
    database: str
    kind: str
    ttl: str

    def matches(self, key: str) -> bool:
        """Whether `key` is one of the keys that this row speaks of."""
        pieces = re.split(r"<[^>]+>", self.name)
        return re.fullmatch(".+".join(re.escape(piece) for piece in pieces), key, re.DOTALL) is not None


def documented_keys() -> list[KeyRow]:
    """The rows of the table of Redis keys in docs/operations.md."""
    section = OPERATIONS.read_text("utf-8").split(HEADING, 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [
        KeyRow(cells[0].strip(" `"), cells[1].strip(), cells[2].strip(), cells[3].strip()) for cells in rows
    ]


def keys_without_ttl(client: "redis.Redis") -> list[str]:
    """The keys of the client's database that would stay for ever though no document says so."""
    permanent = [row for row in documented_keys() if row.ttl.startswith(PERMANENT)]
    lasting = [key for key in client.scan_iter(count=1000) if client.ttl(key) == -1]
    names = [key.decode("utf-8", "replace") if isinstance(key, bytes) else key for key in lasting]
    return sorted(name for name in names if not any(row.matches(name) for row in permanent))
