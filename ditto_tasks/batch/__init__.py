"""Compressing many sessions: cheap reads find those over budget, and only these go through their shards."""
