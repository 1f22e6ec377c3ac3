"""An MCP server on stdio, by hand, so that it can misbehave: `python mcp_server.py <behaviour>`."""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).resolve())
SCHEMA = {"type": "object"}


def tools(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"name": f"t{n}", "description": "d", "inputSchema": SCHEMA} for n in range(start, start + count)]


def listing(behaviour: str, cursor: str | None) -> dict[str, Any]:
    """The answer to tools/list."""
    page = int(cursor or 0)
    match behaviour:
        case "ten-thousand":
            return {"tools": tools(10_000)}
        case "same-cursor":
            return {"tools": tools(1), "nextCursor": "1"}
        case "endless-pages":
            return {"tools": [], "nextCursor": str(page + 1)}
        case "thousand-in-pages" if page < 9:
            return {"tools": tools(100, page * 100), "nextCursor": str(page + 1)}
        case "thousand-in-pages":
            return {"tools": tools(100, page * 100)}
        case "unreadable":
            return {"tools": [{"name": "", "inputSchema": SCHEMA}]}
        case "two-pages" if page == 0:
            return {"tools": tools(2), "nextCursor": "1"}
    return {"tools": tools(1, 2)}


def called(behaviour: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer to tools/call."""
    text = json.dumps(params.get("arguments"))
    match behaviour:
        case "is-error":
            return {"content": [{"type": "text", "text": "canary"}], "isError": True}
        case "dies":
            os._exit(3)
        case "hangs":
            threading.Event().wait(600)
        case "floods":
            return {"content": [{"type": "text", "text": "x" * 3_000_000}]}
        case "floods-50-mb":
            return {"content": [{"type": "text", "text": "x" * 50_000_000}]}
        case "nothing":
            return {"content": []}
        case "lies":
            return {"content": "not a list"}
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"got": params.get("arguments")},
    }


def answer(behaviour: str, message: dict[str, Any]) -> dict[str, Any] | None:
    """The response to one request, or None for a notification."""
    method, params = message.get("method"), message.get("params") or {}
    match method:
        case "initialize":
            capabilities: dict[str, Any] = (
                {"tools": {}, "prompts": {}} if behaviour == "two-pages" else {"tools": {}}
            )
            about = {"name": "s", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities,
            }
            return {"result": {**result, "serverInfo": about}}
        case "tools/list":
            return {"result": listing(behaviour, params.get("cursor"))}
        case "prompts/list":
            return {"result": {"prompts": [{"name": "p"}]}}
        case "tools/call":
            return {"result": called(behaviour, params)}
    return {"error": {"code": -32601, "message": "canary: no such method"}} if "id" in message else None


def main() -> None:
    behaviour = sys.argv[1]
    if behaviour == "stillborn":
        return
    if behaviour == "noisy":
        sys.stdout.write("this is not JSON canary\n" * 3)
    sys.stderr.write("canary on stderr\n")
    for line in sys.stdin:
        message = json.loads(line)
        response = answer(behaviour, message)
        if response is not None and "id" in message:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **response}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
