"""Input and output of RETRIEVAL.SEARCH."""

from dataclasses import dataclass, field

from ditto_tasks.models import Count, Finite, Json, JsonMap, NonEmptyText, WireModel


class RetrievalQuery(WireModel):
    """What is looked for: text, a vector, or whatever the strategy takes."""

    content: Json
    metadata: JsonMap | None = None


class RetrievalTarget(WireModel):
    """Where to look, by the name under which it was registered."""

    name: NonEmptyText
    type: NonEmptyText | None = None
    namespace: NonEmptyText | None = None
    metadata: JsonMap | None = None


class RetrievalInput(WireModel):
    """Input of RETRIEVAL.SEARCH."""

    query: RetrievalQuery
    target: RetrievalTarget
    strategy: NonEmptyText | None = None
    filter: JsonMap | None = None
    limit: Count | None = None
    options: JsonMap | None = None


class CandidateSource(WireModel):
    """Where a candidate comes from, when that is not the target asked or not the candidate's id."""

    target: NonEmptyText | None = None
    ref: NonEmptyText | None = None


class Candidate(WireModel):
    """One thing that was found; ``score`` is the provider's own, higher is better."""

    id: NonEmptyText | None = None
    content: Json
    score: Finite | None = None
    source: CandidateSource | None = None
    metadata: JsonMap | None = None


class RetrievalOutput(WireModel):
    """Output of RETRIEVAL.SEARCH."""

    candidates: tuple[Candidate, ...]
    strategy: NonEmptyText | None = None
    target: RetrievalTarget
    metadata: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A search as a provider sees it: every default filled in."""

    query: RetrievalQuery
    target: RetrievalTarget
    strategy: str
    limit: int
    filter: JsonMap | None = None
    options: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a provider found, best first, and what it has to say about the search."""

    candidates: tuple[Candidate, ...]
    metadata: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class Reranked:
    """The new place of a candidate: its index among those given, and its new score."""

    index: int
    score: float | None = None
