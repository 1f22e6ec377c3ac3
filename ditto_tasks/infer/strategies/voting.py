"""Self-consistency: independent answers vote."""

from collections import Counter

from ditto_tasks.canonical import canonical_json
from ditto_tasks.errors import InferError
from ditto_tasks.infer.base import Problem, StrategyTools
from ditto_tasks.infer.prompts import said
from ditto_tasks.infer.strategies.options import VotingOptions, read_options
from ditto_tasks.infer.text import message_text
from ditto_tasks.infer.values import Message
from ditto_tasks.json_values import InvalidJson, decode


def self_consistency(problem: Problem, tools: StrategyTools) -> Message:
    """Return the answer given most often; a tie is NO_CONSENSUS."""
    options = read_options(VotingOptions, problem.options)
    goal = (said("system", f"Objective: {problem.objective}"),) if problem.objective else ()
    answers = [
        tools.sample((*goal, *problem.messages), label=f"vote {number}").message
        for number in range(1, options.candidates + 1)
    ]
    return winner(answers)


def winner(answers: list[Message]) -> Message:
    """Return the first message of the largest group of equal answers."""
    votes = Counter(normalized(message_text(answer)) for answer in answers)
    (best, count), *rest = votes.most_common(2)
    if rest and rest[0][1] == count:
        raise InferError("NO_CONSENSUS", "the answers do not agree")
    return next(answer for answer in answers if normalized(message_text(answer)) == best)


def normalized(text: str) -> str:
    """Return JSON in its canonical form, and other text with single spaces."""
    try:
        return canonical_json(decode(text))
    except InvalidJson:
        return " ".join(text.split())
