"""As much of Qdrant's HTTP interface as a memory store asks for, on loopback, with answers that go wrong.

It keeps points and knows neither filters nor vectors: those are tested in local mode, and on a real server
where DITTO_TEST_QDRANT_URL names one.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = Any
ENDLESS = 64 * 1024 * 1024
DRIP_S = 0.05


class QdrantServer:
    """`fault` is what becomes of requests whose method and path match `faulty`: 500, cut, endless or drip."""

    def __init__(self) -> None:
        self.points: dict[str, Json] = {}
        self.fault, self.faulty = "", "never"
        self.sizes: list[int] = []  # of whole answers to reads of points
        self.unread = threading.Event()  # a client closed before the end of an answer
        self.stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"qdrant://127.0.0.1:{self._http.server_address[1]}/memories"

    def fail(self, fault: str, faulty: str = ".*") -> None:
        """From now on."""
        self.fault, self.faulty = fault, faulty

    def __enter__(self) -> "QdrantServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join(5)
        self._http.server_close()

    def answer(self, method: str, path: str, asked: Json) -> Json:
        """The result of one request."""
        place = path.partition("?")[0].removeprefix("/collections/memories")
        match (method, place):
            case ("GET", "/exists"):
                return {"exists": False}
            case ("PUT", ""):
                return True
            case ("PUT", "/points"):
                new = asked.get("update_mode") == "insert_only"
                for point in asked["points"]:
                    if not (new and point["id"] in self.points):
                        self.points[point["id"]] = point["payload"]
                return {"operation_id": 1, "status": "completed"}
            case ("POST", "/points/delete"):
                for each in asked.get("points", []):
                    self.points.pop(each, None)
                return {"operation_id": 1, "status": "completed"}
            case ("POST", "/points"):
                found = [each for each in asked["ids"] if each in self.points]
                return [{"id": each, "payload": self.points[each]} for each in found]
        memories = [name for name, payload in self.points.items() if payload["kind"] == "memory"]
        if place == "/points/scroll":
            return {"points": [{"id": each} for each in memories], "next_page_offset": None}
        assert place == "/points/query", (method, place)
        return {"points": [{"id": each, "version": 0, "score": 0.5} for each in memories]}


def _handler(server: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.close_connection = True
            faulty = re.fullmatch(server.faulty, f"{self.command} {self.path.partition('?')[0]}")
            if faulty and server.fault == "cut":
                server.answer(self.command, self.path, json.loads(body or b"{}"))
                return  # done, and nothing said
            if faulty and server.fault == "500":
                self.send(500, b'{"status": {"error": "canary"}}')
            elif faulty:
                self.send(200, None)
            else:
                result = server.answer(self.command, self.path, json.loads(body or b"{}"))
                answer = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
                self.send(200, answer)
                if self.path.partition("?")[0].endswith("/points") and self.command == "POST":
                    server.sizes.append(len(answer))

        do_GET = do_PUT = do_POST = serve  # noqa: N815 -- the library's names

        def send(self, status: int, answer: bytes | None) -> None:
            """Send an answer, or one that does not end."""
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.send_header("Content-Length", str(ENDLESS if answer is None else len(answer)))
                self.end_headers()
                self.wfile.write(answer or b"")
                while answer is None and not server.stopping.is_set():
                    self.wfile.write(b" " * (1 if server.fault == "drip" else 1024 * 1024))
                    self.wfile.flush()
                    server.stopping.wait(DRIP_S if server.fault == "drip" else 0)
            except OSError:
                server.unread.set()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    return Handler
