"""Fixtures of tests of graphs and loops: a test file names those that it takes."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis

from ditto_tasks.client.sync import Ditto
from support.flows import FlowDeployment
from support.graphs import graph_deployment


@pytest.fixture(scope="module")
def running() -> Iterator[FlowDeployment]:
    """A deployment with a worker that knows the functions of tests."""
    with graph_deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def broker(running: FlowDeployment) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(running.server.redis_url(0), decode_responses=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(running: FlowDeployment) -> Iterator[Ditto]:
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def key() -> str:
    """Names a run to the functions that count or wait."""
    return f"k{uuid4().hex}"
