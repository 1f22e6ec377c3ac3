"""The tool web_search over a provider port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from ditto_tasks.interaction.base import ActionCall, Tool, ToolError, ToolOutput
from ditto_tasks.json_values import JsonObject, JsonValue

MAX_QUERY, MAX_WORDS = 600, 75
MIN_LIMIT, MAX_LIMIT = 5, 20
MAX_TITLE, MAX_SNIPPET = 256, 2_048
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY},
        "limit": {"type": "integer", "minimum": MIN_LIMIT, "maximum": MAX_LIMIT},
    },
    "required": ["query"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Found:
    """One hit of a web search, as the provider gave it."""

    title: str
    url: str
    snippet: str


class WebSearchProvider(Protocol):
    """Searches the web; raises ToolError or anything else when it can't."""

    @property
    def name(self) -> str:
        """The network service that must be permitted."""
        ...

    def search(self, query: str, *, limit: int, call: ActionCall) -> Sequence[Found]:
        """Return the best hits first."""
        ...


def web_search_tool(provider: WebSearchProvider) -> Tool:
    """Return the tool; it needs the network permission of its provider's name."""
    return Tool(
        name="web_search",
        description="Search the web.",
        input_schema=SCHEMA,
        run=lambda arguments, call: search(provider, arguments, call),
        needs=frozenset({f"network:{provider.name}"}),
        read_only=True,
        cancelled_code="WEB_SEARCH_CANCELLED",
    )


def search(provider: WebSearchProvider, arguments: JsonObject, call: ActionCall) -> ToolOutput:
    """Return the usable hits; fails as WEB_SEARCH_FAILED or WEB_SEARCH_CANCELLED."""
    query, limit = str(arguments["query"]), arguments.get("limit", MIN_LIMIT)
    if not query.strip() or len(query.split()) > MAX_WORDS:
        raise ToolError("INVALID_ARGUMENTS", f"/query: has 1 to {MAX_WORDS} words")
    try:
        hits = provider.search(query, limit=int(str(limit)), call=call)
        results: list[JsonValue] = [_wire(hit) for hit in hits if is_safe_url(hit.url)][: int(str(limit))]
    except Exception as error:
        if call.token.cancelled:
            raise ToolError("WEB_SEARCH_CANCELLED", "the search was cancelled", status="cancelled") from error
        status = error.status if isinstance(error, ToolError) else "failed"
        raise ToolError("WEB_SEARCH_FAILED", "the search failed", status=status, retryable=True) from error
    return ToolOutput(structured_content={"results": results})


def _wire(hit: Found) -> JsonValue:
    return {"title": hit.title[:MAX_TITLE], "url": hit.url, "snippet": hit.snippet[:MAX_SNIPPET]}


def is_safe_url(url: str) -> bool:
    """Whether it is http(s) with a host and without credentials."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
