"""INFER: calls of models, reasoning over several of them, and a cache of what they said."""
