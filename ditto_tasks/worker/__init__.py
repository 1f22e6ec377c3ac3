"""What a worker does beside running tasks: shard leases, their channel, guarded decoding, dead letters."""
