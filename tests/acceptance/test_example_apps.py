"""The example applications as their users meet them: a browser, and clients over HTTP."""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.absent import absent
from support.browser import browser, find_chromium
from support.deployments import deployment
from support.polling import eventually
from support.web import server_sent, serving
from werkzeug.serving import make_server

from examples.fastapi_app.app import create as chat
from examples.flask_app.app import create as notes

QUESTION = "When does the night train to Kyoto leave?"
ITEMS = [{"id": "train", "content": "The night train to Kyoto leaves at nine."}]
WAIT_S = 30.0
ROOT = Path(__file__).parents[2]
ANN, BOB = ({"Authorization": f"Bearer {who}'s token"} for who in ("ann", "bob"))


@pytest.fixture(scope="module")
def running():
    queues = ("ditto.ctx", "ditto.context", "ditto.memory", "ditto.infer")
    with deployment() as deployed, deployed.worker(*queues):
        yield deployed


@pytest.fixture
def page(running):
    executable = find_chromium()
    if executable is None:
        absent("no Chromium on this machine (Debian: chromium)")
    with serving(chat(running.settings)) as url, browser(executable) as tab:
        tab.open(url)
        tab.wait("document.body?.dataset.ready")
        yield tab


def ask(page, question=QUESTION):
    page.evaluate(f"document.getElementById('question').value = {json.dumps(question)}")
    page.evaluate("document.getElementById('ask').requestSubmit()")


def texts(page, selector):
    return page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")


def test_the_chat_shows_progress_answer_budget_and_reasons(page):
    """In a real browser: live steps, the answer, a bar that fits its budget, and a reason for each item."""
    assert texts(page, "#problem") == [""]
    page.evaluate(
        "window.states = new Set(); new MutationObserver(() => document.querySelectorAll('.steps li')"
        ".forEach(e => states.add(e.dataset.state))).observe(document, {subtree: true, childList: true})"
    )
    ask(page)
    page.wait("document.querySelector('.answer')?.dataset.state === 'success'", WAIT_S)
    page.wait("!document.querySelector('[type=submit]').disabled")
    assert "nine" in texts(page, ".answer")[0]
    assert len(texts(page, ".steps li[data-state=finished]")) == 6
    assert "started" in page.evaluate("[...states]")
    meter = page.evaluate(
        "(({ariaValueNow: now, ariaValueMax: max}) => [now, max])(document.getElementById('meter'))"
    )
    assert 0 < int(meter[0]) <= int(meter[1])
    width = page.evaluate("document.querySelector('.parts').lastElementChild.getBoundingClientRect().right")
    assert width <= page.evaluate("document.getElementById('meter').getBoundingClientRect().right") + 1
    dropped = texts(page, "#items [data-verdict=dropped] .reason")
    assert dropped
    assert all("over the token budget: it needs" in reason for reason in dropped)
    assert page.said == []


def test_what_a_visitor_writes_is_shown_as_text(page):
    """Markup in a question is not run, and shown as it was written."""
    markup = "<img src=x onerror='document.title=1'> train?"
    ask(page, markup)
    page.wait("document.querySelector('.answer')?.dataset.state === 'success'", WAIT_S)
    page.wait("!document.querySelector('[type=submit]').disabled")
    assert texts(page, ".asked") == [markup]
    assert page.evaluate("document.images.length") == 0


def test_the_page_can_be_used_without_seeing_it(page):
    """Every control has a name, the log and the meter their roles, and the language is given."""
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node
    }
    assert {("textbox", "Your question"), ("button", "Ask"), ("log", "Messages")} <= named
    assert ("meter", "Tokens given to the model") in named
    assert all(name for role, name in named if role in ("button", "textbox", "link", "meter", "heading"))
    assert page.evaluate("document.documentElement.lang") == "en"


def test_the_page_loads_nothing_from_elsewhere(page):
    """All that the page fetched came from its own server, and it may fetch from no other."""
    fetched = page.evaluate("performance.getEntriesByType('resource').map(e => new URL(e.name).origin)")
    assert set(fetched) <= {page.evaluate("location.origin"), "null"}


@pytest.fixture
def django(running, tmp_path):
    command = [sys.executable, "-m", "uvicorn", "examples.django_app.asgi:application", "--port", "0"]
    tokens = json.dumps({"ann": "ann's token", "bob": "bob's token"})
    env = {**os.environ, **running.variables, "TENANT_TOKENS": tokens}
    log = tmp_path / "log"
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=written, stderr=written)
    try:
        found = eventually(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), WAIT_S)
        with httpx.Client(base_url=found[0], timeout=WAIT_S) as http:
            yield http
    finally:
        process.terminate()
        process.wait(WAIT_S)
        print(log.read_text())  # noqa: T201 -- pytest shows it beside a failure


def test_the_django_app_answers_and_streams(django):
    """A question is answered, its events are streamed, and only its tenant sees either."""
    http = django
    body = {"question": QUESTION, "init": ITEMS}
    assert http.post("/sessions/s/answer", json=body).status_code == 401
    task_id = http.post("/sessions/s/answer", json=body, headers=ANN).json()["id"]
    with http.stream("GET", f"/tasks/{task_id}/events", headers=ANN) as stream:
        last = list(server_sent(stream))[-1]
    assert "nine" in json.loads(last["data"])["result"]["message"]["content"]
    assert http.get(f"/tasks/{task_id}", headers=ANN).json() == json.loads(last["data"])
    assert http.get(f"/tasks/{task_id}", headers=BOB).status_code == 404
    assert http.post("/sessions/s/answer", json={}, headers=ANN).status_code == 422


@contextmanager
def flask_serving(app):
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(WAIT_S)
        server.server_close()


def test_the_flask_app_keeps_notes_and_answers(running):
    """Notes are kept by tenant, answers quote them, and refusals have their status."""
    app = notes(running.settings, {"ann": "ann's token", "bob": "bob's token"})
    with flask_serving(app) as url, httpx.Client(base_url=url, timeout=WAIT_S) as http:
        assert http.get("/sessions/f/notes").status_code == 401
        assert http.get("/sessions/f/notes", headers=ANN).status_code == 404
        assert http.post("/sessions/f/notes", json=ITEMS, headers=ANN).status_code == 201
        assert http.get("/sessions/f/notes", headers=ANN).json() == {"items": ITEMS}
        assert http.get("/sessions/f/notes", headers=BOB).status_code == 404
        assert http.post("/sessions/f/notes", json=[{"id": ""}], headers=ANN).status_code == 422
        answer = http.post("/sessions/f/answer", json={"question": QUESTION}, headers=ANN).json()
    app.extensions["ditto"].close()
    assert "nine" in answer["text"]
    assert "train" in answer["selected"]
