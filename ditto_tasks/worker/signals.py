"""What the shard machinery tells others. Receivers get keyword arguments, as with Celery's signals."""

from celery.utils.dispatch import Signal

# Sent about once a lease from a thread of its own: neither renewals nor messages wait for receivers.
# `sender` is the application, `shards` the frozenset of the shards that this worker holds.
on_shard_tick = Signal(name="on_shard_tick", providing_args=["shards"])
