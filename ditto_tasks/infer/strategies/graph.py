"""Graph of thoughts: several thoughts at each level, merged into one that the next level starts from."""

from ditto_tasks.infer.base import Problem, StrategyTools
from ditto_tasks.infer.prompts import FINISH_THOUGHT, NEXT_THOUGHT, continued, instructed
from ditto_tasks.infer.strategies.options import GraphOptions, read_options
from ditto_tasks.infer.values import Message


def graph_of_thoughts(problem: Problem, tools: StrategyTools) -> Message:
    """Merge ``breadth`` thoughts at each of ``depth`` levels."""
    options = read_options(GraphOptions, problem.options)
    asked = (instructed(NEXT_THOUGHT, objective=problem.objective), *problem.messages)
    merged = _level(asked, tools, options.breadth, 1)
    for level in range(2, options.depth + 1):
        merged = _level(continued(asked, merged, FINISH_THOUGHT), tools, options.breadth, level)
    return merged


def _level(root: tuple[Message, ...], tools: StrategyTools, breadth: int, level: int) -> Message:
    thoughts = [tools.sample(root, label=f"level {level}").message for _ in range(breadth)]
    return tools.deliberate(thoughts, mode="merge")[0]
