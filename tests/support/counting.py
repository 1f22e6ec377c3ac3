"""A counter in Redis that a tool of a test notes its effects in."""

from ditto_tasks.state.redis import StateClient

TTL_S = 600


def count_call(client: StateClient, key: object) -> int:
    """Which call of `test:<key>` this is; one transaction, for the worker may be killed at any moment."""
    noted = client.pipeline(transaction=True).incr(f"test:{key}").expire(f"test:{key}", TTL_S)
    return int(noted.execute()[0])
