"""Strategies of RETRIEVAL."""
