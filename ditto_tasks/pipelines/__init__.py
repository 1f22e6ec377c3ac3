"""Pipelines: answering and flows as Celery tasks, steps bound to their predecessors; flows in process."""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.pipelines.bindings import BINDINGS, Binding, bind
    from ditto_tasks.pipelines.canvas import answer, answer_request
    from ditto_tasks.pipelines.checking import check
    from ditto_tasks.pipelines.flow_models import (
        McpFlowResult,
        RagFlowResult,
        SkillFlowResult,
        Summarized,
        ToolFlowResult,
    )
    from ditto_tasks.pipelines.flows import rag_flow, skill_flow
    from ditto_tasks.pipelines.graph_functions import graph_function
    from ditto_tasks.pipelines.graph_plan import run_graph
    from ditto_tasks.pipelines.graphs import Graph, GraphNode
    from ditto_tasks.pipelines.loops import Loop, run_loop
    from ditto_tasks.pipelines.mappings import (
        context_to_memory,
        context_to_messages,
        memory_to_context,
        observation_to_context,
        retrieval_to_context,
    )
    from ditto_tasks.pipelines.models import Answer, AnswerOptions, AnswerRequest, Search
    from ditto_tasks.pipelines.outcomes import output_of
    from ditto_tasks.pipelines.react import ReactResult

__all__ = [
    "BINDINGS",
    "Answer",
    "AnswerOptions",
    "AnswerRequest",
    "Binding",
    "Graph",
    "GraphNode",
    "Loop",
    "McpFlowResult",
    "RagFlowResult",
    "ReactResult",
    "Search",
    "SkillFlowResult",
    "Summarized",
    "ToolFlowResult",
    "answer",
    "answer_request",
    "bind",
    "check",
    "context_to_memory",
    "context_to_messages",
    "graph_function",
    "memory_to_context",
    "observation_to_context",
    "output_of",
    "rag_flow",
    "retrieval_to_context",
    "run_graph",
    "run_loop",
    "skill_flow",
]

_HOMES: Final = {
    "BINDINGS": "ditto_tasks.pipelines.bindings",
    "Answer": "ditto_tasks.pipelines.models",
    "AnswerOptions": "ditto_tasks.pipelines.models",
    "AnswerRequest": "ditto_tasks.pipelines.models",
    "Binding": "ditto_tasks.pipelines.bindings",
    "Graph": "ditto_tasks.pipelines.graphs",
    "GraphNode": "ditto_tasks.pipelines.graphs",
    "Loop": "ditto_tasks.pipelines.loops",
    "McpFlowResult": "ditto_tasks.pipelines.flow_models",
    "RagFlowResult": "ditto_tasks.pipelines.flow_models",
    "ReactResult": "ditto_tasks.pipelines.react",
    "Search": "ditto_tasks.pipelines.models",
    "SkillFlowResult": "ditto_tasks.pipelines.flow_models",
    "Summarized": "ditto_tasks.pipelines.flow_models",
    "ToolFlowResult": "ditto_tasks.pipelines.flow_models",
    "answer": "ditto_tasks.pipelines.canvas",
    "answer_request": "ditto_tasks.pipelines.canvas",
    "bind": "ditto_tasks.pipelines.bindings",
    "check": "ditto_tasks.pipelines.checking",
    "context_to_memory": "ditto_tasks.pipelines.mappings",
    "context_to_messages": "ditto_tasks.pipelines.mappings",
    "graph_function": "ditto_tasks.pipelines.graph_functions",
    "memory_to_context": "ditto_tasks.pipelines.mappings",
    "observation_to_context": "ditto_tasks.pipelines.mappings",
    "output_of": "ditto_tasks.pipelines.outcomes",
    "rag_flow": "ditto_tasks.pipelines.flows",
    "retrieval_to_context": "ditto_tasks.pipelines.mappings",
    "run_graph": "ditto_tasks.pipelines.graph_plan",
    "run_loop": "ditto_tasks.pipelines.loops",
    "skill_flow": "ditto_tasks.pipelines.flows",
}

__getattr__ = lazy_exports(__name__, _HOMES)
