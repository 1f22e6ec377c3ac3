"""Ditto agent nodes as Celery tasks."""
