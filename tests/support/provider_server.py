"""A real HTTP server on loopback that answers as model providers do, and as badly as they sometimes do."""

import json
import select
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

DRIP_S = 0.02  # between the chunks of a slow body
GIVE_UP_S = 20.0  # a hanging answer that nobody cuts ends the test's server, not the test run


@dataclass(frozen=True)
class Reply:
    """One scripted answer. ``then`` says what follows the chunks: the end, a cut, or nothing at all."""

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    then: str = "end"  # or "cut" or "hang"
    pause_s: float = 0.0


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return json.loads(self.body)


# A minute of bytes: a client that waits for each of them is not cut within the time that tests give it.
DRIPPING = Reply((b" ",) * 3_000, pause_s=DRIP_S)
CUT_S = 20.0  # for the server to see that a client is gone, on a busy machine


def as_json(value: object, *, status: int = 200, **headers: str) -> Reply:
    """A JSON answer; underscores in header names stand for dashes."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    content = {"Content-Type": "application/json"}
    return Reply((json.dumps(value).encode(),), status=status, headers=content | named)


def as_events(
    events: Iterable[object], *, then: str = "end", done: bool = True, pause_s: float = 0.0
) -> Reply:
    """A stream of server-sent events, one chunk each; an event with a type is also named after it."""
    chunks = [_event(event) for event in events]
    if done and then == "end":
        chunks.append(b"data: [DONE]\n\n")
    return Reply(tuple(chunks), headers={"Content-Type": "text/event-stream"}, then=then, pause_s=pause_s)


def _event(event: object) -> bytes:
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def hang(*chunks: bytes) -> Reply:
    """Send what is given, then nothing, and keep the connection open."""
    return Reply(chunks, headers={"Content-Type": "application/json"}, then="hang")


class ProviderServer:
    """Serves its script in order; the last reply is served again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Received] = []
        self.client_closed = threading.Event()  # a client cut a hanging answer
        self._script = deque(replies)
        self._stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def then(self, *replies: Reply) -> None:
        """Replace the rest of the script."""
        self._script = deque(replies)

    def __enter__(self) -> "ProviderServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join(5)
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Record the request and give the next reply of the script."""
        length = int(request.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append(Received(request.path, headers, request.rfile.read(length)))
        reply = self._script.popleft() if len(self._script) > 1 else self._script[0]
        try:
            self._send(request, reply)
        except (BrokenPipeError, ConnectionResetError):
            self.client_closed.set()

    def _send(self, request: BaseHTTPRequestHandler, reply: Reply) -> None:
        request.close_connection = True
        request.send_response(reply.status)
        missing = 0 if reply.then == "end" else 1_000  # the client waits for bytes that never come
        length = sum(map(len, reply.chunks)) + missing
        for name, value in {**reply.headers, "Content-Length": str(length), "Connection": "close"}.items():
            request.send_header(name, value)
        request.end_headers()
        for chunk in reply.chunks:
            request.wfile.write(chunk)
            request.wfile.flush()
            self._stopping.wait(reply.pause_s)
        if reply.then == "hang":
            self._hold(request)

    def _hold(self, request: BaseHTTPRequestHandler) -> None:
        """Wait until the client closes its end."""
        waited = 0.0
        while waited < GIVE_UP_S and not self._stopping.is_set():
            readable, _, _ = select.select([request.connection], [], [], DRIP_S)
            if readable and not request.connection.recv(1):
                self.client_closed.set()
                return
            waited += DRIP_S


def _handler(server: ProviderServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            server.answer(self)

        do_GET = do_POST  # noqa: N815 - the name that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - overrides
            """Tests read the recorded requests instead."""

    return Handler


def chat_answer(
    content: object = "hello",
    *,
    finish: str | None = "stop",
    tool_calls: object = None,
    usage: object = None,
) -> Reply:
    """A whole chat-completions answer; without ``usage`` the provider reports none."""
    message: dict[str, object] = {"role": "assistant", "content": content}
    if tool_calls is not None:
        message["tool_calls"] = tool_calls
    answer: dict[str, object] = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    answer["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    if usage is not None:
        answer["usage"] = usage
    return as_json(answer)


def chat_chunk(delta: object, *, finish: str | None = None) -> dict[str, object]:
    """One chunk of a streamed chat completion."""
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def tool_call(call_id: str, name: str, arguments: str) -> dict[str, object]:
    """A tool call as chat completions write it; the arguments are JSON text."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message_answer(*blocks: object, stop: str | None = "end_turn", usage: object = None) -> Reply:
    """A whole Messages answer of content blocks."""
    answer: dict[str, object] = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
    answer |= {"content": list(blocks), "stop_reason": stop}
    return as_json(answer if usage is None else {**answer, "usage": usage})


def message_events(*deltas: object, stop: str | None = "end_turn") -> list[dict[str, object]]:
    """The events of a streamed message whose first block brings the deltas."""
    start = {"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 4}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return [
        {"type": "message_start", "message": start},
        block,
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
