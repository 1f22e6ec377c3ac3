"""The client for event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from ditto_tasks.celery import DittoCelery
from ditto_tasks.client.answering import cancel_answer, start_answer, the_request
from ditto_tasks.client.connections import open_async
from ditto_tasks.client.hub import ResultHub
from ditto_tasks.client.methods import (
    AsyncSender,
    ContextMethods,
    InferMethods,
    InteractionMethods,
    MemoryMethods,
    RetrievalMethods,
)
from ditto_tasks.client.models import read_answer, read_json
from ditto_tasks.client.protocol import Call, Event, Finished, finished, node_call, outcome
from ditto_tasks.client.streams import BLOCK_MS, FIRST, Entries, events_key, events_of
from ditto_tasks.client.sync import Ditto
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.models import Answer, AnswerOptions
from ditto_tasks.settings import Settings
from ditto_tasks.task import OPTIONS_KEY

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
