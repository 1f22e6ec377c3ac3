"""Where the cache of INFER is kept."""
