"""Clients: submit nodes and pipelines, and wait for their results."""
