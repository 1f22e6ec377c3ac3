"""Short flows in process: two or three CONTEXT calls that always go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context import Context, ContextNodes
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Json, to_wire
from ditto_tasks.pipelines.flow_models import RagFlowResult, SkillFlowResult


class RagArguments(TypedDict, total=False):
    """What SELECT takes beside its context and strategy."""

    query: Json
    limit: int
    max_tokens: int


def rag_flow(
    nodes: ContextNodes,
    context: Context | JsonObject,
    *,
    call: CancelToken | None = None,
    corpus: JsonObject | None = None,
    options: JsonObject | None = None,
    **arguments: Unpack[RagArguments],
) -> RagFlowResult:
    """SELECT for inference by the RAG strategy."""
    given = {"kind": "rag", "corpus": corpus, "options": options}
    strategy = {name: value for name, value in given.items() if value is not None}
    output = nodes.select(call=call, context=context, purpose="infer", strategy=strategy, **arguments)
    return RagFlowResult(output, output.context)


def skill_flow(
    nodes: ContextNodes,
    sources: Sequence[object],
    context: Context | JsonObject | None = None,
    *,
    call: CancelToken | None = None,
) -> SkillFlowResult:
    """LOAD the sources, then UPDATE a context with them if one is given."""
    output = nodes.load({"sources": to_wire(list(sources))}, call=call)
    if context is None:
        return SkillFlowResult(output, output)
    return SkillFlowResult(output, nodes.update(context=context, add=output.items, call=call))
