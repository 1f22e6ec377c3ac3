"""Web search by Brave's API."""

from __future__ import annotations

from collections.abc import Sequence
from html import unescape
from typing import Final
from urllib.parse import urlencode

from ditto_tasks.interaction.base import ActionCall, ToolError
from ditto_tasks.interaction.http_requests import request
from ditto_tasks.interaction.web_search import Found
from ditto_tasks.json_values import InvalidJson, JsonValue, decode

ENDPOINT: Final = "https://api.search.brave.com/res/v1/web/search"


class BraveSearch:
    """Implements WebSearchProvider."""

    name = "brave"

    def __init__(self, api_key: str, *, endpoint: str = ENDPOINT) -> None:
        self._api_key = api_key
        self._endpoint = endpoint

    def search(self, query: str, *, limit: int, call: ActionCall) -> Sequence[Found]:
        """Ask once."""
        url = f"{self._endpoint}?{urlencode({'q': query, 'count': limit})}"
        headers = {"X-Subscription-Token": self._api_key, "Accept": "application/json"}
        answer = request("GET", url, call, headers=headers)
        if answer.status != 200:
            raise ToolError("WEB_SEARCH_FAILED", f"the search answered with HTTP status {answer.status}")
        try:
            return found_in(decode(answer.body))
        except InvalidJson as error:
            raise ToolError("WEB_SEARCH_FAILED", "the search's answer is not JSON") from error


def found_in(answer: JsonValue) -> list[Found]:
    """Return the hits of an answer; entries without a title or an address are left out."""
    web = answer.get("web") if isinstance(answer, dict) else None
    results = web.get("results") if isinstance(web, dict) else None
    if not isinstance(results, list):
        # Brave leaves "web" out when it found nothing
        if isinstance(answer, dict) and web is None:
            return []
        raise ToolError("WEB_SEARCH_FAILED", "the search's answer has no results")
    return [hit for item in results if (hit := _hit(item)) is not None]


def _hit(item: JsonValue) -> Found | None:
    fields = [item.get(key) for key in ("title", "url", "description")] if isinstance(item, dict) else []
    title, url, snippet = fields or (None, None, None)
    if not isinstance(title, str) or not isinstance(url, str):
        return None
    return Found(unescape(title), url, unescape(snippet) if isinstance(snippet, str) else "")
