"""Inputs of the four nodes. With a `scope` the state's context takes the place of `context`."""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias, get_args

from pydantic import ConfigDict

from ditto_tasks.context.checks import (
    Fields,
    an_array,
    an_object,
    content,
    count,
    nonempty,
    optional_nonempty,
    optional_object,
    refuse,
)
from ditto_tasks.context.models import (
    Context,
    ContextItem,
    ContextReference,
    IngressEntry,
    Purpose,
    Source,
    parse_ids,
    parse_items,
    parse_purpose,
    parse_source,
)
from ditto_tasks.context.values import ContextValue, given
from ditto_tasks.models import Json, JsonMap, Scope

StrategyKind: TypeAlias = Literal["default", "rag", "provider"]
STRATEGY_KINDS: Final = get_args(StrategyKind)


class SelectStrategy(ContextValue):
    """Who ranks the candidates of SELECT: the built-in score, the RAG strategy, or the selector."""

    model_config = ConfigDict(extra="ignore")

    kind: StrategyKind
    corpus: ContextReference | None = None
    name: str | None = None
    options: JsonMap | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        kind = fields.get("kind")
        if not isinstance(kind, str) or kind not in STRATEGY_KINDS:
            raise refuse(path + "/kind", f"must be one of {', '.join(STRATEGY_KINDS)}")
        values: dict[str, object] = {"kind": kind}
        if kind == "rag" and "corpus" in fields:
            values["corpus"] = ContextReference.parse(fields["corpus"], path + "/corpus")
        if kind == "provider":
            values["name"] = nonempty(fields, "name", path)
        if kind != "default" and "options" in fields:
            values["options"] = optional_object(fields, "options", path)
        return cls.assemble(values)


class NodeInput(ContextValue):
    """What the inputs have in common: a scope, and the version that the state must have."""

    model_config = ConfigDict(extra="ignore")

    scope: Scope | None = None
    expected_version: str | None = None


class LoadInput(NodeInput):
    """CONTEXT.LOAD: items, messages and references become a context; a scope alone reads the state."""

    sources: tuple[Source, ...] | None = None
    resolve_references: bool | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        check_resolve_references(fields)
        sources = None
        if "sources" in fields or "scope" not in fields:
            entries = an_array(fields.get("sources"), "/sources")
            sources = tuple(parse_source(each, f"/sources/{at}") for at, each in enumerate(entries))
        values = given(sources=sources, resolve_references=fields.get("resolveReferences"))
        return cls.assemble({**_scope_fields(fields), **values})


class SelectInput(NodeInput):
    """CONTEXT.SELECT: the best items for a purpose, within a count and a token budget."""

    context: Context | None = None
    purpose: Purpose
    query: Json | None = None
    limit: int | None = None
    max_tokens: int | None = None
    strategy: SelectStrategy | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values = {**_scope_fields(fields), **_context_field(fields), "purpose": parse_purpose(fields)}
        if "query" in fields:
            values["query"] = content(fields, "query", "")
        values |= given(limit=count(fields, "limit"), max_tokens=count(fields, "maxTokens"))
        if "strategy" in fields:
            values["strategy"] = SelectStrategy.parse(fields["strategy"], "/strategy")
        return cls.assemble(values)


class UpdateInput(NodeInput):
    """CONTEXT.UPDATE: removals, then items, then what other nodes hand in."""

    context: Context | None = None
    add: tuple[ContextItem, ...] | None = None
    ingress: tuple[IngressEntry, ...] | None = None
    remove_ids: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values = {**_scope_fields(fields), **_context_field(fields)}
        if "add" in fields:
            values["add"] = parse_items(fields["add"], "/add")
        if "ingress" in fields:
            entries = enumerate(an_array(fields["ingress"], "/ingress"))
            values["ingress"] = tuple(IngressEntry.parse(each, f"/ingress/{at}") for at, each in entries)
        if "removeIds" in fields:
            values["remove_ids"] = parse_ids(fields["removeIds"], "/removeIds")
        return cls.assemble(values)


class CompressInput(NodeInput):
    """CONTEXT.COMPRESS: the least worth keeping goes until both budgets hold."""

    context: Context | None = None
    max_tokens: int | None = None
    max_items: int | None = None
    strategy: SelectStrategy | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values = {**_scope_fields(fields), **_context_field(fields)}
        values |= given(max_tokens=count(fields, "maxTokens"), max_items=count(fields, "maxItems"))
        values |= given(strategy=_compress_strategy(fields))
        return cls.assemble(values)


def check_resolve_references(fields: Fields) -> None:
    """Resolving is a yes or no, and means nothing without sources."""
    if "resolveReferences" not in fields:
        return
    if not isinstance(fields["resolveReferences"], bool):
        raise refuse("/resolveReferences", "must be true or false")
    if fields["resolveReferences"] and "sources" not in fields:
        raise refuse("/resolveReferences", "needs sources")


def _compress_strategy(fields: Fields) -> SelectStrategy | None:
    """The compressor's name, a field of this package; another shape of it is ignored as extra fields are."""
    strategy = fields.get("strategy")
    if isinstance(strategy, SelectStrategy):
        return strategy
    if isinstance(strategy, dict) and strategy.get("kind") == "provider":
        return SelectStrategy.parse(strategy, "/strategy")
    return None


def _scope_fields(fields: Fields) -> dict[str, object]:
    if "scope" not in fields:
        return {}
    version = optional_nonempty(fields, "expectedVersion", "")
    return given(scope=Scope.parse(fields["scope"]), expected_version=version)


def _context_field(fields: Fields) -> dict[str, object]:
    if "context" in fields or "scope" not in fields:
        return {"context": Context.parse(fields.get("context"), "/context")}
    return {}
