"""Where the context of a scope lives, changed only by compare-and-set."""
