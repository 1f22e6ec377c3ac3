"""The four reasoning nodes: parse the input, ask within the call's limits, accept the answer."""

from collections.abc import Mapping
from typing import TypeVar

from ditto_tasks.errors import InferError
from ditto_tasks.infer.asking import Asker
from ditto_tasks.infer.base import Strategy
from ditto_tasks.infer.deliberation import accept_deliberation, check_selectable
from ditto_tasks.infer.models import (
    DeliberateInput,
    Deliberation,
    ReflectInput,
    Reflection,
    SampleInput,
    Trajectory,
    TrajectoryInput,
)
from ditto_tasks.infer.prompts import deliberate_messages, reflect_messages
from ditto_tasks.infer.reflection import accept_reflection
from ditto_tasks.infer.sampling import merge_generation
from ditto_tasks.infer.trajectory import find_strategy, run_trajectory
from ditto_tasks.infer.values import GenerationConfig, Sample
from ditto_tasks.models import NodeInput, WireModel, from_wire

InputModel = TypeVar("InputModel", bound=WireModel)


def parse(model: type[InputModel], given: NodeInput) -> InputModel:
    """Return the input as its model; raises InferError INVALID_INPUT with the path."""
    return from_wire(model, given, error=InferError)


def sample(given: NodeInput, asker: Asker) -> Sample:
    """One candidate answer."""
    ask = parse(SampleInput, given)
    return asker.ask(ask.messages, model=ask.model, generation=ask.generation, actions=ask.actions)


def reflect(given: NodeInput, asker: Asker) -> Reflection:
    """One assessment."""
    ask = parse(ReflectInput, given)
    answer = asker.ask(reflect_messages(ask), model=ask.model, generation=ask.generation)
    return accept_reflection(ask, answer)


def deliberate(given: NodeInput, asker: Asker) -> Deliberation:
    """One judgement over candidates."""
    ask = parse(DeliberateInput, given)
    mode = ask.mode or asker.defaults.deliberate_mode
    count = ask.select_count or asker.defaults.select_count
    check_selectable(ask, count)
    limit = GenerationConfig(max_tokens=asker.defaults.deliberate_max_tokens)
    answer = asker.ask(
        deliberate_messages(ask, mode, count),
        model=ask.model,
        generation=merge_generation(ask.generation, limit),
    )
    return accept_deliberation(ask, mode, count, answer)


def trajectory(given: NodeInput, asker: Asker, strategies: Mapping[str, Strategy]) -> Trajectory:
    """A strategy's way to a result."""
    ask = parse(TrajectoryInput, given)
    return run_trajectory(ask, find_strategy(strategies, ask.strategy.name), asker)
