"""Chain of thought: one line of reasoning, reviewed round after round."""

from ditto_tasks.infer.base import Problem, StrategyTools
from ditto_tasks.infer.prompts import ONCE_MORE, STEP_BY_STEP, continued, instructed
from ditto_tasks.infer.strategies.options import ChainOptions, LongChainOptions, read_options
from ditto_tasks.infer.values import Message


def chain_of_thought(problem: Problem, tools: StrategyTools) -> Message:
    """Think, then review; 2 rounds unless told otherwise."""
    return _chain(problem, tools, read_options(ChainOptions, problem.options).rounds)


def long_chain_of_thought(problem: Problem, tools: StrategyTools) -> Message:
    """Think, then review; 4 rounds unless told otherwise."""
    return _chain(problem, tools, read_options(LongChainOptions, problem.options).rounds)


def _chain(problem: Problem, tools: StrategyTools, rounds: int) -> Message:
    asked = (instructed(STEP_BY_STEP, objective=problem.objective), *problem.messages)
    answer = tools.sample(asked, label="round 1").message
    for number in range(2, rounds + 1):
        answer = tools.sample(continued(asked, answer, ONCE_MORE), label=f"round {number}").message
    return answer
