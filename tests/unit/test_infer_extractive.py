"""The built-in provider: what it quotes, in which languages, and what it admits."""

import pytest

from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.passages import rank, sentences, terms
from ditto_tasks.infer.providers.extractive import ExtractiveProvider
from ditto_tasks.models import to_wire

NODES = InferNodes({"extractive": ExtractiveProvider()})


def ask(question: str, *items: tuple[str, str], **fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": text, "metadata": {"contextItemId": key}} for key, text in items]
    messages.append({"role": "user", "content": question})
    wire = to_wire(NODES.sample({"messages": messages, **fields}))
    assert isinstance(wire, dict)
    assert wire["status"] == "success", wire
    return wire["output"]


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("How long does a lease last?", "A lease lasts five seconds.", "Bananas are yellow."),
        ("租约多久到期", "租约五秒后到期。", "香蕉是黄色的。"),
        ("リースは何秒ですか", "リースは五秒です。", "バナナは黄色い。"),
        ("Сколько длится аренда?", "Аренды длятся пять секунд.", "Бананы желтые."),
        ("كم مدة الإيجار؟", "مدة الإيجار خمس ثوان.", "الموز أصفر."),
        ("पट्टा कितने सेकंड का है", "पट्टा पाँच सेकंड का है।", "केले पीले हैं।"),
        ("สัญญาเช่านานแค่ไหน", "สัญญาเช่านานห้าวินาที", "กล้วยสีเหลือง\n\n"),
        ("Wie lange gilt die Sperre?", "Die Sperren gelten fünf Sekunden.", "Bananen wachsen dort."),
    ],
)
def test_quotes_the_right_sentence(question: str, right: str, wrong: str) -> None:
    """Of two sentences the one that answers is quoted with its item's id, whatever the script."""
    output = ask(question, ("memory:0", wrong), ("memory:1", f"{wrong} {right}"))
    message = output["message"]
    assert f"“{right}” [memory:1]" in message["content"]
    assert wrong not in message["content"]
    assert message["metadata"]["citedItemIds"] == ["memory:1"]


def test_admits_that_no_model_answers() -> None:
    """Every answer says that no model is configured, and none reports usage."""
    for output in (ask("lease", ("a", "A lease.")), ask("lease", ("a", "Bananas.")), ask("lease")):
        assert output["message"]["content"].startswith("No model is configured")
        assert "usage" not in output


def test_nothing_relevant_is_said_plainly() -> None:
    """Without a matching sentence the answer quotes nothing and cites nothing."""
    message = ask("lease", ("a", "Bananas are yellow."))["message"]
    assert message["content"].endswith("holds no sentence about the question.")
    assert message["metadata"]["citedItemIds"] == []


def test_question_does_not_answer_itself() -> None:
    """The question, stored as an item of the context, is not quoted."""
    question = "How long does a lease last?"
    assert "“" not in ask(question, ("turn:1:user", question))["message"]["content"]


def test_token_budget_drops_quotes() -> None:
    """maxTokens bounds the answer, and a dropped quote is a length stop."""
    items = [(str(n), f"The lease number {n} lasts {n} seconds.") for n in range(5)]
    full, short = ask("lease seconds", *items), ask("lease seconds", *items, generation={"maxTokens": 45})
    assert (full["finishReason"], short["finishReason"]) == ("stop", "length")
    assert len(short["message"]["content"].encode()) <= 4 * 45


def test_non_text_content_is_searched_as_json() -> None:
    """A message of parts is searched by the text of its parts."""
    parts = [{"type": "text", "text": "A lease lasts five seconds."}, {"k": "v"}]
    messages = [
        {"role": "user", "content": parts, "metadata": {"contextItemId": "p"}},
        {"role": "user", "content": "lease seconds"},
    ]
    wire = to_wire(NODES.sample({"messages": messages}))
    assert "five seconds.” [p]" in wire["output"]["message"]["content"]


def test_sentences_join_wrapped_lines() -> None:
    """A hard-wrapped paragraph is one text; headings and list entries stand alone."""
    text = "# Title\nOne line\ngoes on. Next one!\n\n- entry\n* other\n\n你好。再见。"
    assert sentences(text) == [
        "# Title",
        "One line goes on.",
        "Next one!",
        "- entry",
        "* other",
        "你好。",
        "再见。",
    ]


def test_terms_join_inflected_forms() -> None:
    """Words that share their first letters are one term; case and width don't matter."""
    assert terms("Leases") == terms("ＬＥＡＳＥ") | terms("leases")
    assert terms("") == set()


def test_rank_is_stable() -> None:
    """Equal sentences of two sources count once, for the first; equal scores keep their order."""
    found = rank("lease", [("a", "The lease one."), ("b", "The lease one."), ("c", "The lease two.")])
    assert [item.source for item in found] == ["a", "c"]
