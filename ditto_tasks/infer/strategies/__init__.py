"""The trajectory strategies by the names that requests use."""

from collections.abc import Mapping
from types import MappingProxyType

from ditto_tasks.infer.base import Strategy
from ditto_tasks.infer.strategies.chain import chain_of_thought, long_chain_of_thought
from ditto_tasks.infer.strategies.graph import graph_of_thoughts
from ditto_tasks.infer.strategies.tree import tree_of_thoughts
from ditto_tasks.infer.strategies.voting import self_consistency

BUILT_IN: Mapping[str, Strategy] = MappingProxyType(
    {
        "cot": chain_of_thought,
        "long-cot": long_chain_of_thought,
        "tot": tree_of_thoughts,
        "got": graph_of_thoughts,
        "self-consistency": self_consistency,
    }
)
