"""DELIBERATE: one sample that selects among candidates or makes one answer of them. Pure."""

from ditto_tasks.errors import InferError
from ditto_tasks.infer.models import Candidate, DeliberateInput, Deliberation, DeliberationMode
from ditto_tasks.infer.prompts import said
from ditto_tasks.infer.structured import structured_answer
from ditto_tasks.infer.values import Sample
from ditto_tasks.models import NonEmptyText, Text, WireModel


class _Selection(WireModel):
    selected_ids: tuple[NonEmptyText, ...]
    rationale: Text | None = None


class _Verdict(WireModel):
    result: NonEmptyText | None
    rationale: Text | None = None


def check_selectable(given: DeliberateInput, count: int) -> None:
    """Refuse to ask for more candidates than there are."""
    if count > len(given.candidates):
        raise InferError.invalid_input("/selectCount", "exceeds the number of candidates")


def accept_deliberation(
    given: DeliberateInput, mode: DeliberationMode, count: int, sample: Sample
) -> Deliberation:
    """Return the deliberation; a selection keeps the first candidate's own message."""
    if mode != "select":
        return _accept_verdict(mode, sample)
    answer = structured_answer(_Selection, sample)
    chosen = select(given.candidates, answer.selected_ids, count)
    return Deliberation(
        mode=mode,
        result=chosen[0].result,
        selected_ids=answer.selected_ids,
        rationale=answer.rationale,
        usage=sample.usage,
    )


def select(candidates: tuple[Candidate, ...], ids: tuple[str, ...], count: int) -> list[Candidate]:
    """Return the candidates of exactly ``count`` different known ids, in the ids' order."""
    by_id = {candidate.id: candidate for candidate in candidates}
    if len(ids) != count or len(set(ids)) != count or not by_id.keys() >= set(ids):
        raise InferError(
            "INVALID_MODEL_OUTPUT", "the model did not select the number of candidates asked for"
        )
    return [by_id[key] for key in ids]


def _accept_verdict(mode: DeliberationMode, sample: Sample) -> Deliberation:
    answer = structured_answer(_Verdict, sample)
    if answer.result is None:
        code = "NO_CONSENSUS" if mode == "consensus" else "INVALID_MODEL_OUTPUT"
        raise InferError(code, "the candidates could not be made into one answer")
    result = said("assistant", answer.result)
    return Deliberation(mode=mode, result=result, rationale=answer.rationale, usage=sample.usage)
