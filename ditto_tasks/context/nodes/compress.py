"""CONTEXT.COMPRESS: a strategy shortens, and its result is checked whoever made it."""

from __future__ import annotations

from ditto_tasks.context.base import ContextCompressor, ContextExecution
from ditto_tasks.context.compression import Budget, check_compressed, compress_steps
from ditto_tasks.context.inputs import CompressInput
from ditto_tasks.context.items import check_inline
from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.context.named import the_compressor
from ditto_tasks.context.steps import SteppedCompressor, Steps
from ditto_tasks.errors import ContextError


def compress_node_steps(request: CompressInput, execution: ContextExecution) -> Steps[Context]:
    if execution.recorder is not None:
        execution.recorder.begin(request, execution)
    compressor = the_compressor(execution.services, request.strategy)
    if compressor is None:
        result = yield from compress_steps(request, execution)
        for item in result.items:
            check_inline(item, execution.policy)
    else:
        result = yield from _injected(compressor, request, execution)
    yield from check_compressed(result, request, execution)
    for item in result.items:
        check_inline(item, execution.policy)
    return result


def _injected(
    compressor: ContextCompressor, request: CompressInput, execution: ContextExecution
) -> Steps[Context]:
    budget = Budget.of(request, execution)
    values: dict[str, object] = {"context": request.context, "max_items": budget.items}
    if request.strategy is not None:
        values["strategy"] = request.strategy
    if budget.tokens is not None:
        values["max_tokens"] = budget.tokens
    tightened = CompressInput.assemble(values)
    if isinstance(compressor, SteppedCompressor):
        return (yield from compressor.steps(tightened, execution))
    answer = yield lambda: compressor.compress(tightened, execution)
    try:
        return parse_context(answer)
    except ContextError as problem:
        raise ContextError("INVALID_PROVIDER_OUTPUT", f"not a context: {problem.message}") from None
