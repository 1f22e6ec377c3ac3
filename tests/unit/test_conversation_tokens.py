"""Token estimators: offline vocabularies, calibrated rates, media by rule, and what usage teaches."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.contexts import item
from support.conversations import session

from ditto_tasks.context import ContextNodes, ContextServices
from ditto_tasks.context.conversations import read_openai, write_openai
from ditto_tasks.context.tokenizers import Correction, ModelEstimator
from ditto_tasks.context.tokenizers.media import ANTHROPIC_RULE, MediaRule
from ditto_tasks.context.tokenizers.splintr import Vocabulary
from ditto_tasks.errors import SettingsError

MODELS = [
    "gpt-4o",
    "gpt-4",
    "claude-sonnet-4-5",
    "meta/llama-3.1-8b",
    "qwen3",
    "deepseek-chat",
    "mistral-large",
]
TEXTS = {
    "Chinese": "今天的会议改到下午三点，请大家提前准备好各自的报告。这个项目已经进行了半年，我们需要"
    "讨论下一步的计划和预算。"
    "如果有人不能参加，请在中午之前告诉我。另外，新的办公室下个月就可以使用了，搬家的时间会另行通知。",
    "traditional": "今天的會議改到下午三點，請大家提前準備好各自的報告。這個計畫已經進行了半年，我們需要"
    "討論下一步的預算。"
    "如果有人不能參加，請在中午之前告訴我。另外，新的辦公室下個月就可以使用了。",
    "Japanese": "今日の会議は午後三時に変更になりました。皆さん、それぞれの報告書を準備しておいてくだ"
    "さい。このプロジェクトは半年前に"
    "始まり、次の計画と予算について話し合う必要があります。参加できない方は、正午までに私"
    "に知らせてください。",
    "Korean": "오늘 회의는 오후 세 시로 변경되었습니다. 여러분 각자의 보고서를 미리 준비해 주시기 "
    "바랍니다. 이 프로젝트는 반년 동안 "
    "진행되었으며, 다음 계획과 예산에 대해 논의해야 합니다. 참석할 수 없는 분은 정오까지 "
    "저에게 알려 주세요.",
    "emoji": "🎂🎈 👏🏻👏🏿 😎😡🥺 🇫🇷🇰🇷 👨‍🔬 ⚡🌍💡 🐼🍎🚗 ☕✔️ 🔥🎉 🙈🙉🙊 📚✏️ 🏆⚽",
    "JSON": json.dumps(
        [
            {"orderId": f"#W{n * 7919}", "total": n * 13.37, "items": [{"name": "lamp", "open": True}]}
            for n in range(20)
        ]
    ),
    "hexadecimal": "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(12)),
    "English": "The meeting was moved to three in the afternoon, so please prepare your reports in a"
    "dvance. " * 3,
}
PIXEL_ROWS = {"gpt-4o": (1024, 1024, 765), "claude-opus-4": (1000, 750, 1000)}


def png(width: int, height: int) -> str:
    """The beginning of a picture of this size, with a long tail that is no text."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    return base64.b64encode(head + b"\x08" * 60_000).decode()


@pytest.mark.parametrize("encoding", [("gpt-4o", "o200k_base"), ("gpt-4", "cl100k_base")])
@pytest.mark.parametrize("kind", TEXTS)
def test_calibrated_rates_are_within_a_tenth_of_the_tokenizer(kind: str, encoding: tuple[str, str]) -> None:
    """Without the vocabulary the estimate is with"
    "in 10 % of it, in every script, in JSON and in hexadecimal."""
    model, vocabulary = encoding
    exact = Vocabulary(vocabulary).count(TEXTS[kind])
    estimate = ModelEstimator(model, exact=False).estimate(TEXTS[kind]) - 3  # the message's frame
    assert abs(estimate - exact) <= exact * 0.1, (kind, estimate, exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "text", ["", "<|endoftext|>", "<|im_start|>system", "a\ud800b", "\udfff", "\0", "🇩", "\u200d" * 9]
)
def test_no_text_raises(text: str, model: str, exact: bool) -> None:
    """Special tokens are counted as text, lone surrogates as something, and nothing raises."""
    tokens = ModelEstimator(model, exact=exact).estimate(text)
    assert tokens >= ModelEstimator(model, exact=exact).estimate("")


@given(st.text(st.characters()), st.sampled_from([True, False]))
def test_any_text_has_a_count(text: str, exact: bool) -> None:
    """Any text, lone surrogates included, has a count that is not negative."""
    assert ModelEstimator("gpt-4o", exact=exact).estimate([{"type": "text", "text": text}, text]) >= 0


def test_long_texts_are_counted_in_pieces() -> None:
    """A long run without a break has about the count that its parts have."""
    part = Vocabulary("o200k_base").count("ab" * 8_192)
    assert abs(Vocabulary("o200k_base").count("ab" * 65_536) - 8 * part) <= 8


def test_special_tokens_are_text() -> None:
    """A special token spelled out in a text is several tokens, as the provider counts it."""
    assert Vocabulary("o200k_base").count("<|endoftext|>") > 1


@pytest.mark.parametrize("model", PIXEL_ROWS)
def test_images_cost_by_their_size_and_never_as_text(model: str) -> None:
    """The same picture costs what the provider documents, whatever its base64 is, in either form."""
    width, height, tokens = PIXEL_ROWS[model]
    estimator = ModelEstimator(model)
    frame = estimator.estimate([])
    data = png(width, height)
    theirs = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    ours = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    assert estimator.estimate([theirs]) - frame == tokens == estimator.estimate([ours]) - frame


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (MediaRule(), (512, 512), 255),
        (MediaRule(), (2048, 4096), 1105),
        (MediaRule(), (1, 1), 255),
        (ANTHROPIC_RULE, (200, 200), 54),
        (ANTHROPIC_RULE, (4000, 4000), 1600),
    ],
)
def test_the_documented_examples_of_image_sizes(rule: MediaRule, size: tuple[int, int], tokens: int) -> None:
    """The rules give the figures of the providers' own examples."""
    assert rule.image(*size) == tokens


def test_audio_costs_by_its_length() -> None:
    """Ten seconds of WAV are 100 tokens, as one a 100 ms; broken data has a count, too."""
    header = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0" + struct.pack("<II", 16_000, 32_000)
    data = base64.b64encode(header + b"\0" * (320_000 - len(header))).decode()
    estimator = ModelEstimator("gpt-4o-audio-preview")
    spoken = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    assert abs(estimator.estimate([spoken]) - estimator.estimate([]) - 100) <= 1
    assert estimator.estimate([{"type": "input_audio", "input_audio": {"data": "%%%"}}]) < 20


def test_calls_arguments_and_schemas_are_counted() -> None:
    """Longer arguments, more calls, more tools an"
    "d longer descriptions cost more; an image in a result does not cost as"
    " text."""
    estimator = ModelEstimator("gpt-4o")

    def call(arguments: str, times: int = 1) -> int:
        function = {"name": "find", "arguments": arguments}
        return estimator.estimate(
            {"content": None, "tool_calls": [{"id": "c", "function": function}] * times}
        )

    assert call("{}") < call('{"user": "mia_li_3668"}') < call('{"user": "mia_li_3668"}', 2)

    def tool(description: str, **properties: Any) -> int:
        parameters = {"type": "object", "properties": properties}
        function = {"name": "find", "description": description, "parameters": parameters}
        return estimator.count_request([], tools=[{"type": "function", "function": function}])

    plain = tool("Finds things.", kind={"type": "string", "enum": ["a", "b"]})
    nested = tool("Finds things.", kind={"type": "object", "properties": {"deep": {"type": "string"}}})
    assert estimator.count_request([]) < tool("Finds.") < plain < plain + 1
    assert nested > tool("Finds things.", kind={"type": "object"})
    shown = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "image", "source": {"type": "base64", "data": png(512, 512)}}],
    }
    assert ModelEstimator("claude").estimate([shown]) < 400


def test_a_whole_request_is_about_its_parts() -> None:
    """An exported list and the items that it is m"
    "ade of cost the same but for names and the answer's start."""
    context = ContextNodes().load(sources=read_openai(session(2)))
    estimator = ModelEstimator("gpt-4o")
    items = sum(estimator.estimate(each.content) for each in context.items)
    messages = write_openai(context).messages
    names = sum("name" in message for message in messages)
    assert estimator.count_request(messages) == items + names + 3


def test_usage_teaches_a_ratio_within_bounds() -> None:
    """Reports move the ratio towards what was rep"
    "orted, never out of 0.5 to 2, and nonsense teaches nothing."""
    correction = Correction()
    assert correction.ratio == 1.0
    assert correction.apply(7) == 7
    for _ in range(50):
        correction = correction.learned(1_000, 1_200)
    assert 1.18 < correction.ratio <= 1.2
    assert correction.apply(100) in (119, 120)
    assert correction.learned(0, 5) is correction is correction.learned(5, 0)
    for reported in (10**12, 1):
        wild = Correction()
        for _ in range(99):
            wild = wild.learned(1_000, reported)
        assert wild.ratio == (2.0 if reported > 1 else 0.5)
    for _ in range(10_000):
        correction = correction.learned(1_000, 800)
    assert 0.8 <= correction.ratio < 0.81


def test_an_estimator_learns_from_a_request() -> None:
    """An estimator that was told what requests cost comes closer to that, and stays a value."""
    messages = session(2)
    first = ModelEstimator("claude-sonnet-4-5")
    true = round(first.count_request(messages) * 1.15)
    taught = first
    for _ in range(20):
        taught = taught.learned(true, messages)
    assert abs(taught.count_request(messages) - true) <= true * 0.02
    assert first == ModelEstimator("claude-sonnet-4-5") != taught


def test_nodes_budget_with_it_and_by_bytes_without() -> None:
    """SELECT spends the estimator's tokens; the default stays four bytes a token."""
    picture = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(512, 512)[:40_000]}"}}]
    context = {"items": [item("picture", picture)]}
    services = ContextServices(token_estimator=ModelEstimator("gpt-4o"))
    asked = {"context": context, "purpose": "infer", "max_tokens": 300}
    assert len(ContextNodes(services=services).select(**asked).context.items) == 1  # type: ignore[arg-type]  # wire forms
    assert len(ContextNodes().select(**asked).context.items) == 0  # type: ignore[arg-type]  # as above
    assert len(ContextNodes().select(**{**asked, "max_tokens": 11_000}).context.items) == 1  # type: ignore[arg-type]  # as above


def test_an_unknown_model_is_refused() -> None:
    """A model without rules is a typed error that names it."""
    with pytest.raises(SettingsError, match="nonesuch"):
        ModelEstimator("nonesuch-9").estimate("x")
