"""The four CONTEXT nodes on 256 items of 206 KB, models in and models out, against the standard library's
`json.loads` + `json.dumps` of the same bytes in the same run.

    python benchmarks/context_nodes.py [SESSIONS.jsonl]

With a file of chat sessions (one JSON object with `messages` a line) it prints what these cost as well.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ditto_tasks.context import Context, ContextItem, ContextNodes, parse_context
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import to_wire

ITEMS = 256
BYTES = 206_000
ROUNDS = 60
WORDS = re.findall(
    r"\w+",
    """order flight refund passenger baggage window cabin airport schedule delay voucher agent policy
    reservation upgrade économie price total status gate transfer confirm payment date seat""",
)
GOALS = {"select": 3.0, "compress": 1.5, "load": 1.5, "update": 1.5}


def build_context(*, items: int = ITEMS, size: int = BYTES, seed: int = 7) -> Context:
    """Messages, text parts and tool results in about the mix of a long agent session."""
    draw = random.Random(seed)  # noqa: S311 - a benchmark's text is no secret
    wire = [_item(draw, index, size // items - 150) for index in range(items)]
    return parse_context({"items": wire})


def _item(draw: random.Random, index: int, size: int) -> JsonObject:
    text = " ".join(draw.choices(WORDS, k=size // 8))
    kinds: tuple[JsonObject, ...] = (
        {"content": text},
        {"content": [{"type": "text", "text": text}]},
        {
            "content": {
                "rows": [{"id": n, "price": n / 4, "note": text[n * 90 : n * 90 + 80]} for n in range(8)]
            }
        },
    )
    metadata: JsonObject = {"role": "user", "priority": draw.randrange(5), "relevance": draw.random()}
    if index % 4 == 0:
        metadata["callId"] = f"call-{index // 8}"
    return {"id": f"item-{index}", **kinds[index % 3], "metadata": metadata}


def best_ms(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The fastest of many runs: what the code costs, without what the machine did meanwhile."""
    fastest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1000


def fresh(context: Context) -> Context:
    """The same items without what their models have remembered about themselves."""
    return Context(items=[to_wire(item) for item in context.items])


def measure(context: Context, *, warm: bool) -> dict[str, float]:
    nodes = ContextNodes()
    changed = ContextItem(id="item-3", content="x" * 1_000)
    runs: dict[str, Callable[[Context], object]] = {
        "select": lambda given: nodes.select(
            context=given, purpose="infer", query="refund baggage delay voucher upgrade", limit=32
        ),
        "compress": lambda given: nodes.compress(context=given, max_tokens=20_000, max_items=128),
        "load": lambda given: nodes.load(sources=given.items),
        "update": lambda given: nodes.update(context=given, add=[changed]),
    }
    if warm:
        return {name: best_ms(lambda run=run: run(context)) for name, run in runs.items()}
    return {name: _best_cold_ms(run, context) for name, run in runs.items()}


def _best_cold_ms(run: Callable[[Context], object], context: Context) -> float:
    copies = [fresh(context) for _ in range(ROUNDS)]
    return best_ms(lambda: run(copies.pop()), ROUNDS)


def run_sessions(file: Path) -> None:
    """Load, compress and select each session as it stands."""
    nodes = ContextNodes(policy={"maxInlineBytes": 1_000_000, "maxItems": 1_000})
    sessions = [json.loads(line)["messages"] for line in file.read_text("utf-8").splitlines()]
    texts = [json.dumps(messages) for messages in sessions]
    baseline_ms = best_ms(lambda: [json.dumps(json.loads(text)) for text in texts], 5)
    loaded = [nodes.load(sources=messages) for messages in sessions]
    runs: dict[str, Callable[[], object]] = {
        "load": lambda: [nodes.load(sources=messages) for messages in sessions],
        "select": lambda: [nodes.select(context=each, purpose="infer", query="refund") for each in loaded],
        "compress": lambda: [nodes.compress(context=each, max_tokens=4_000) for each in loaded],
    }
    items = sum(len(each.items) for each in loaded)
    print(f"{len(sessions)} sessions, {items} items, {baseline_ms:.1f} ms of JSON")
    for name, run in runs.items():
        taken_ms = best_ms(run, 5)
        print(f"  {name:9}{taken_ms:7.2f} ms  {taken_ms / baseline_ms:5.2f}x")


def main() -> None:
    context = build_context()
    text = json.dumps(to_wire(context), ensure_ascii=False)
    baseline_ms = best_ms(lambda: json.dumps(json.loads(text)))
    print(f"{len(context.items)} items, {len(text.encode()) / 1000:.0f} KB")
    print(f"json.loads + json.dumps: {baseline_ms:.2f} ms")
    print(f"wire to models: {best_ms(lambda: parse_context(json.loads(text))) / baseline_ms:.2f}x")
    for title, warm in (("models seen for the first time", False), ("models used before", True)):
        print(title)
        for name, taken_ms in measure(context, warm=warm).items():
            ratio = taken_ms / baseline_ms
            verdict = "met" if ratio <= GOALS[name] else "MISSED"
            print(f"  {name:9}{taken_ms:7.2f} ms  {ratio:5.2f}x  goal {GOALS[name]}x {verdict}")


if __name__ == "__main__":
    main()
    for argument in sys.argv[1:]:
        run_sessions(Path(argument))
