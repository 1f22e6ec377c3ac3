"""A session's notes over HTTP with the blocking client: each request has a thread, which may wait.

With a server and a worker running (`ditto up` shows the variables):
flask --app examples.flask_app.app:create run
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http import HTTPStatus

from flask import Flask, Response, abort, jsonify, request

from ditto_tasks import Ditto, DittoError, Settings, to_wire
from ditto_tasks.tenants import tenant_session
from ditto_tasks.web import refusal_of

WAIT_S = 10.0


def create(settings: Settings | None = None, tokens: Mapping[str, str] | None = None) -> Flask:
    """The application. `tokens` are the tenants' secrets, by tenant: with none nobody may do anything."""
    app, client = Flask(__name__), Ditto(settings)
    app.config["MAX_CONTENT_LENGTH"] = 64 * 1024
    app.extensions["ditto"] = client
    known = dict(tokens or {})

    def scope_of(session: str) -> dict[str, str]:
        """The scope of the caller's session of this name."""
        return {"sessionId": tenant_session(caller(known), session)}

    @app.errorhandler(DittoError)
    def refused(error: DittoError) -> tuple[Response, int, dict[str, str]]:
        refusal = refusal_of(error)
        return jsonify(refusal.body), refusal.status, dict(refusal.headers)

    @app.errorhandler(TimeoutError)
    def late(_error: TimeoutError) -> tuple[Response, int]:
        return jsonify(error={"code": "TIMEOUT"}), HTTPStatus.GATEWAY_TIMEOUT

    @app.get("/sessions/<session>/notes")
    def notes(session: str) -> Response:
        """All notes of a session."""
        return jsonify(to_wire(client.context.load(scope=scope_of(session)).get(WAIT_S)))

    @app.post("/sessions/<session>/notes")
    def add(session: str) -> tuple[Response, int]:
        """Add notes: the body is a list of items."""
        options = {"on_missing": "create"}
        pending = client.context.update(scope=scope_of(session), add=request.get_json(), ditto=options)
        return jsonify(to_wire(pending.get(WAIT_S))), HTTPStatus.CREATED

    @app.post("/sessions/<session>/answer")
    def answer(session: str) -> Response:
        """The answer to a question, waited for."""
        question = request.get_json().get("question", "")
        searches = [{"input": {"filter": {"namespace": caller(known)}}}]
        found = client.answer(scope_of(session), question, searches=searches).get(WAIT_S)
        return jsonify(text=found.text, selected=list(found.selected_item_ids))

    return app


def caller(tokens: Mapping[str, str]) -> str:
    """The tenant whose token the request has; 401 otherwise. Compared in constant time."""
    given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
    found = [tenant for tenant, token in tokens.items() if hmac.compare_digest(token.encode(), given)]
    if not found:
        abort(HTTPStatus.UNAUTHORIZED)
    return found[0]
