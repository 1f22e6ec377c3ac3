"""Pipelines: several nodes as one Celery canvas, with bindings between their steps."""
