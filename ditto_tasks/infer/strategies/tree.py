"""Tree of thoughts: several next steps at each level, of which the best few are carried on."""

from ditto_tasks.infer.base import Problem, StrategyTools
from ditto_tasks.infer.prompts import FINISH_THOUGHT, NEXT_THOUGHT, continued, instructed
from ditto_tasks.infer.strategies.options import TreeOptions, read_options
from ditto_tasks.infer.values import Message


def tree_of_thoughts(problem: Problem, tools: StrategyTools) -> Message:
    """Grow ``depth`` levels of ``breadth`` thoughts a beam, keep ``beamWidth``, end with the best one."""
    options = read_options(TreeOptions, problem.options)
    asked = (instructed(NEXT_THOUGHT, objective=problem.objective), *problem.messages)
    beams: list[Message] = []
    for level in range(1, options.depth + 1):
        roots = [continued(asked, beam, FINISH_THOUGHT) for beam in beams] or [asked]
        grown = [
            tools.sample(root, label=f"level {level}").message
            for root in roots
            for _ in range(options.breadth)
        ]
        width = 1 if level == options.depth else min(options.beam_width, len(grown))
        beams = tools.deliberate(grown, count=width)
    return beams[0]
