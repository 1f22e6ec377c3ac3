"""`ditto erase` in tests, and who still says a word."""

import redis
from click.testing import CliRunner

from ditto_tasks.cli import celery_group
from ditto_tasks.embedded import EmbeddedServer
from support.deployments import Deployment
from support.workers import BROKER_DB, CONTEXT_DB, RESULT_DB

DATABASES = (BROKER_DB, RESULT_DB, CONTEXT_DB)


def values(client: "redis.Redis", key: bytes) -> list[object]:
    """All that a key holds, whatever its type."""
    readers = {
        b"string": lambda: [client.get(key)],
        b"hash": lambda: [client.hgetall(key)],
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: [client.smembers(key)],
        b"zset": lambda: client.zrange(key, 0, -1),
        b"stream": lambda: client.xrange(key),
        b"none": list,
    }
    return list(readers[client.type(key)]())


def holding(server: EmbeddedServer, word: str) -> list[str]:
    """The keys of all databases whose name or value has a word in it, in no order."""
    found: list[str] = []
    for db in DATABASES:
        with redis.Redis.from_url(server.redis_url(db)) as client:
            keys = [key for key in client.scan_iter() if word in repr((key, values(client, key)))]
            found += [f"{db} {key.decode('utf-8', 'replace')}" for key in keys]
    return found


def erase(running: Deployment, *arguments: str) -> dict[str, tuple[int, int]]:
    """kind -> (before, after) of the proof that the command prints."""
    shown = CliRunner().invoke(celery_group, ["erase", *arguments], env=dict(running.variables))
    assert shown.exit_code == 0, shown.output
    rows = [line.rsplit(maxsplit=3) for line in shown.stdout.splitlines()]
    return {kind: (int(before), int(after)) for kind, before, _, after in rows}
