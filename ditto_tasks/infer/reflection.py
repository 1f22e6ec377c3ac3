"""REFLECT: one sample whose JSON answer is an assessment. Pure."""

from typing import Annotated

from pydantic import Field

from ditto_tasks.errors import InferError
from ditto_tasks.infer.models import Assessment, Issue, ReflectInput, Reflection
from ditto_tasks.infer.prompts import said
from ditto_tasks.infer.structured import structured_answer
from ditto_tasks.infer.values import Sample
from ditto_tasks.models import NonEmptyText, WireModel

MAX_ISSUES = 1_000  # far more than a person reads


class _ReflectAnswer(WireModel):
    assessment: Assessment
    issues: Annotated[tuple[Issue, ...], Field(max_length=MAX_ISSUES)] = ()
    revised_result: NonEmptyText | None = None


def accept_reflection(given: ReflectInput, sample: Sample) -> Reflection:
    """Return the reflection; verify needs a verdict and revise a result."""
    answer = structured_answer(_ReflectAnswer, sample)
    if given.mode == "verify" and answer.assessment.passed is None:
        raise InferError("INVALID_MODEL_OUTPUT", "the model's verification has no verdict")
    if given.mode == "revise" and answer.revised_result is None:
        raise InferError("INVALID_MODEL_OUTPUT", "the model's revision has no result")
    revised = None if answer.revised_result is None else said("assistant", answer.revised_result)
    return Reflection(
        assessment=answer.assessment, issues=answer.issues, revised_result=revised, usage=sample.usage
    )
