"""Conversations under every budget and limit: lists that a provider would refuse (ceiling: none), and the
time of the `conversation` strategy on 60 messages against the default's (ceiling: 2 times).

    python -m benchmarks.conversations [--sessions FILE] [--step 100] [--cross]

FILE has one JSON object with `messages` (OpenAI chat format) a line; without it 60 sessions are generated.
Each is cut as it is and with runs of calls merged into parallel ones. A budget that what must stay does not
fit in is refused with BUDGET_TOO_SMALL and counted apart; each is cut also with the system prompt optional.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the providers' rules and the generator are the tests'

from support.conversations import in_parallel, session  # noqa: E402 -- as above
from support.provider_rules import anthropic_faults, openai_faults  # noqa: E402 -- as above

from ditto_tasks.context import Context, ContextError, ContextNodes, ContextServices  # noqa: E402
from ditto_tasks.context.conversations import (  # noqa: E402
    ConversationCompressor,
    ConversationSelector,
    read_anthropic,
    read_openai,
    write_anthropic,
    write_openai,
)

NODES = ContextNodes(
    policy={"maxItems": 256, "maxInlineBytes": 1_000_000},
    services=ContextServices(selector=ConversationSelector(), compressor=ConversationCompressor()),
)
CEILING = 2.0  # times the default strategy's time
Message = dict[str, Any]
Cut = tuple[str, dict[str, int]]


def sessions(path: Path | None) -> list[list[Message]]:
    if path is None:
        return [session(seed, messages=12 + seed % 50, system_words=250) for seed in range(60)]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["messages"] for line in lines]


def budgets(step: int, *, cross: bool) -> Iterator[dict[str, int]]:
    tokens, limits = range(400, 4001, step), range(1, 41)
    yield from ({"max_tokens": each} for each in tokens)
    yield from ({"limit": each} for each in limits)
    if cross:
        yield from ({"max_tokens": size, "limit": count} for size in tokens for count in limits)


def cut(context: Context, budget: dict[str, int], system: str) -> Iterator[tuple[str, Context]]:
    """What SELECT and COMPRESS leave of a context; nothing where they refuse the budget."""
    strategy = {"kind": "provider", "name": "conversation", "options": {"system": system}}
    selection = NODES.select(context=context, purpose="infer", strategy=strategy, **budget)  # type: ignore[arg-type]  # two kinds of budget
    yield "select", selection.context
    sizes = {{"limit": "max_items"}.get(key, key): value for key, value in budget.items()}
    yield "compress", NODES.compress(context=context, strategy=strategy, **sizes)  # type: ignore[arg-type]  # as above


def faults(left: Context, budget: dict[str, int]) -> list[str]:
    """What is wrong with the provider lists of what was left."""
    openai, anthropic = write_openai(left).messages, write_anthropic(left)
    found = [f"openai {fault}" for fault in openai_faults(openai)]
    found += [f"anthropic {each}" for each in anthropic_faults(anthropic.messages, anthropic.system)]
    tokens = sum(-(-item.inline_bytes // 4) for item in left.items)
    if tokens > budget.get("max_tokens", tokens) or len(left.items) > budget.get("limit", 256):
        found.append(f"over budget: {tokens} tokens, {len(left.items)} items")
    if all(message["role"] in ("system", "developer") for message in openai):
        found.append("nothing but the system message")
    return found


def round_trip_faults(messages: list[Message], context: Context) -> list[str]:
    back = write_openai(context)
    found = [] if back.messages == messages or back.renames else ["openai round trip"]
    first = write_anthropic(context)
    again = write_anthropic(NODES.load(sources=read_anthropic(first.messages, system=first.system)))
    if (again.messages, again.system) != (first.messages, first.system):
        found.append("anthropic round trip")
    return found


def grid(listed: Iterable[list[Message]], step: int, *, cross: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for messages in listed:
        context = NODES.load(sources=read_openai(messages))
        problems = round_trip_faults(messages, context)
        for budget in budgets(step, cross=cross):
            for system in ("keep", "drop"):
                try:
                    for node, left in cut(context, budget, system):
                        counts[f"{node} lists (each for both providers)"] += 1
                        problems += faults(left, budget)
                except ContextError as problem:
                    if problem.code != "BUDGET_TOO_SMALL":
                        problems.append(str(problem))
                    counts[f"refused with {problem.code}, system={system}"] += 1
        counts["INVALID"] += len(problems)
        for problem in problems[:3]:
            print("  ", problem)
    return counts


def ratio(rounds: int = 400) -> float:
    """The conversation strategy's time over the default's on 60 messages and 1,000 tokens, in turns."""
    context = NODES.load(sources=read_openai(session(3, messages=60)[:60]))
    times: dict[str, list[float]] = {"default": [], "provider": []}
    for _ in range(rounds):
        for kind, taken in times.items():
            start = time.perf_counter()
            strategy = {"kind": kind, "name": "conversation"}
            NODES.select(context=context, purpose="infer", max_tokens=1000, strategy=strategy)
            taken.append(time.perf_counter() - start)
    default, ours = (sorted(taken)[rounds // 4] for taken in times.values())  # the quieter rounds
    print(f"SELECT of 60 messages: default {default * 1e6:.0f} us, conversation {ours * 1e6:.0f} us")
    return ours / default


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=Path)
    parser.add_argument("--step", type=int, default=100)
    parser.add_argument("--cross", action="store_true", help="every budget with every limit as well")
    asked = parser.parse_args()
    listed = sessions(asked.sessions)
    invalid = 0
    for name, shaped in (("serial", listed), ("parallel", [in_parallel(each) for each in listed])):
        counts = grid(shaped, asked.step, cross=asked.cross)
        invalid += counts["INVALID"]
        print(f"{name}, {len(shaped)} sessions: {dict(sorted(counts.items()))}")
    measured = ratio()
    print(f"invalid lists: {invalid} (ceiling 0); ratio {measured:.2f} (ceiling {CEILING})")
    return 1 if invalid or measured > CEILING else 0


if __name__ == "__main__":
    sys.exit(main())
