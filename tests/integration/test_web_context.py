"""CONTEXT over HTTP: versions, refusals and limits, on a real server with a real worker."""

import re
from contextlib import closing
from http.client import HTTPConnection
from uuid import uuid4

import httpx
import pytest
from support.deployments import deployment
from support.web import ANN, BOB, application, browsing, serving

ITEM = {"id": "a", "content": "text"}
BODY_LIMIT = 20_000
WAIT_S = 20.0
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def running():
    with deployment() as deployed, deployed.worker("ditto.ctx", "ditto.context"):
        yield deployed


@pytest.fixture(scope="module")
def url(running):
    with serving(application(running.settings, max_body_bytes=BODY_LIMIT)) as address:
        yield address


@pytest.fixture
def ann(url):
    with browsing(url, ANN) as http:
        yield http


@pytest.fixture
def session(ann):
    path = f"/sessions/{uuid4()}"
    assert ann.post(f"{path}/context/load", json={"sources": [ITEM]}).status_code == 200
    return path


def refused(response):
    return response.status_code, response.json()["error"]["code"]


def test_nothing_answers_without_the_applications_consent(url, session):
    """Every route of the schema says 401 to a request that the application's dependency refuses."""
    with browsing(url) as stranger:
        paths = httpx.get(f"{url}/openapi.json").json()["paths"]
        routes = [(method, path) for path, methods in paths.items() for method in methods]
        assert len(routes) > 14  # of contexts, tasks, flows and runs
        for method, path in routes:
            address = re.sub(r"{\w+}", "x", path.removeprefix("/api"))
            assert stranger.request(method, address).status_code == 401, path
            assert stranger.request(method, address, content=b"{", headers=JSON).status_code == 401, path


def test_a_call_answers_its_result_and_the_version(ann, session):
    """UPDATE, SELECT and LOAD answer with the version in body and ETag, and without the tenant's prefix."""
    updated = ann.post(f"{session}/context/update", json={"add": [{"id": "b", "content": "more text"}]})
    read = ann.post(f"{session}/context/load", json={})
    selected = ann.post(f"{session}/context/select", json={"purpose": "infer", "query": "more", "limit": 1})
    assert updated.json()["items"] == 2
    assert [item["id"] for item in read.json()["context"]["items"]] == ["a", "b"]
    assert selected.json()["selection"]["selectedItemIds"] == ["b"]
    for answer in (updated, read, selected):
        assert answer.headers["ETag"] == f'"{answer.json()["version"]}"'
        assert answer.json()["scope"] == {"sessionId": session.removeprefix("/sessions/")}


def test_a_stale_version_is_a_conflict_that_names_the_current_one(ann, session):
    """If-Match with an old ETag is 409 STATE_CONFLICT with the version to go on from, and changes nothing."""
    old = ann.post(f"{session}/context/load", json={}).headers["ETag"]
    wrote = ann.post(
        f"{session}/context/update", json={"add": [{"id": "b", "content": 1}]}, headers={"If-Match": old}
    )
    late = ann.post(f"{session}/context/update", json={"removeIds": ["a"]}, headers={"If-Match": old})
    assert wrote.status_code == 200
    assert refused(late) == (409, "STATE_CONFLICT")
    assert late.json()["error"]["currentVersion"] == wrote.json()["version"]
    assert late.headers["ETag"] == wrote.headers["ETag"]
    assert ann.post(f"{session}/context/load", json={}).json()["items"] == 2


@pytest.mark.parametrize("value", ["*", "unquoted", 'W/"weak"', '"two", "versions"', '""'])
def test_an_if_match_that_is_no_version_is_refused(ann, session, value):
    """Anything but one strong ETag is 422 and names the header."""
    answer = ann.post(f"{session}/context/compress", json={"maxItems": 1}, headers={"If-Match": value})
    assert refused(answer) == (422, "INVALID_INPUT")
    assert (answer.json()["error"]["where"], answer.json()["error"]["path"]) == ("header", "If-Match")


def test_a_session_without_a_context_is_404(ann):
    """Reading and updating what is not there is CONTEXT_NOT_FOUND."""
    for node, body in (("load", {}), ("update", {"add": []}), ("select", {"purpose": "infer"})):
        assert refused(ann.post(f"/sessions/{uuid4()}/context/{node}", json=body)) == (
            404,
            "CONTEXT_NOT_FOUND",
        )


def test_another_tenants_session_of_the_same_name_is_another_one(ann, url, session):
    """Two tenants' sessions share nothing although their addresses are equal."""
    with browsing(url, BOB) as bob:
        assert refused(bob.post(f"{session}/context/load", json={})) == (404, "CONTEXT_NOT_FOUND")
    name = session.removeprefix("/sessions/")
    assert refused(ann.post(f"/sessions/bob:{name}/context/load", json={}))[0] == 404


@pytest.mark.parametrize(
    ("node", "body", "path"),
    [
        ("update", {"add": [{"id": "x", "content": 1}, {"content": 2}]}, "/add/1/id"),
        ("load", {"sources": [{"role": "nobody", "content": ""}]}, "/sources/0/role"),
        ("select", {"purpose": "fun"}, "/purpose"),
        ("select", {}, "/purpose"),
        ("compress", {"maxItems": -1}, "/maxItems"),
        ("update", {"scope": {"sessionId": "bob:x"}}, "/scope"),
        ("update", {"expectedVersion": "v"}, "/expectedVersion"),
        ("load", {"ditto": {"reply": "none"}}, "/ditto"),
        ("update", ["no object"], ""),
    ],
)
def test_invalid_bodies_name_the_field(ann, session, node, body, path):
    """422 with the JSON pointer of the field; the scope, the version and options are not the body's."""
    answer = ann.post(f"{session}/context/{node}", json=body)
    assert refused(answer) == (422, "INVALID_INPUT")
    assert (answer.json()["error"]["where"], answer.json()["error"]["path"]) == ("body", path)


def test_options_of_a_call_are_its_query(ann):
    """`onMissing=create` makes a context; an unknown option is 422 and names it."""
    path = f"/sessions/{uuid4()}/context"
    made = ann.post(f"{path}/update", params={"onMissing": "create"}, json={"add": [ITEM]})
    again = ann.post(f"{path}/load", params={"ifAbsent": "true"}, json={"sources": []})
    unknown = ann.post(f"{path}/update", params={"reply": "none"}, json={"add": [ITEM]})
    assert made.status_code == 200
    assert again.json()["version"] == made.json()["version"]
    assert refused(unknown) == (422, "INVALID_INPUT")
    assert (unknown.json()["error"]["where"], unknown.json()["error"]["path"]) == ("query", "/reply")


def test_ids_of_the_query_name_a_state_of_its_own(ann, session):
    """A turn's context is not the session's."""
    answer = ann.post(f"{session}/context/load", params={"turnId": "t"}, json={})
    assert refused(answer) == (404, "CONTEXT_NOT_FOUND")


@pytest.mark.parametrize("sent", [b"{", b"\xff", b'{"add": [NaN]}', b"[" * 5_000])
def test_what_is_no_json_is_422(ann, session, sent):
    """Broken, non-finite and bottomless bodies are refused in the one form of errors."""
    answer = ann.post(f"{session}/context/update", content=sent, headers=JSON)
    assert refused(answer) == (422, "INVALID_INPUT")


def test_a_body_of_another_type_is_422(ann, session):
    """JSON that does not say that it is JSON is not read: a foreign page can send that."""
    answer = ann.post(f"{session}/context/update", content=b"{}", headers={"Content-Type": "text/plain"})
    assert refused(answer) == (422, "INVALID_INPUT")


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_413(ann, session, chunked):
    """A body over the limit is refused, be its length announced or not."""
    content = b'{"add": [{"id": "x", "content": "' + b"x" * BODY_LIMIT + b'"}]}'
    sent = iter([content[:10_000], content[10_000:]]) if chunked else content
    assert refused(ann.post(f"{session}/context/update", content=sent, headers=JSON)) == (
        413,
        "BODY_TOO_LARGE",
    )


def test_a_large_body_is_refused_before_it_is_sent(url, session):
    """Whoever announces too much hears of it at once, and need not send it."""
    connection = HTTPConnection(url.removeprefix("http://").partition("/")[0], timeout=WAIT_S)
    with closing(connection):
        connection.putrequest("POST", f"/api{session}/context/update")
        for name, value in {**ANN, **JSON, "Content-Length": str(BODY_LIMIT + 1)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_nobody_between_keeps_an_answer(ann, session):
    """Results and refusals are one caller's: neither is stored by a proxy or a browser."""
    read = ann.post(f"{session}/context/load", json={})
    missing = ann.post(f"/sessions/{uuid4()}/context/load", json={})
    assert (read.status_code, missing.status_code) == (200, 404)
    assert [each.headers["Cache-Control"] for each in (read, missing)] == ["no-store"] * 2


def test_a_repeated_request_with_its_key_is_applied_once(ann, session):
    """The same Idempotency-Key answers the first result; with another body it is 409."""
    key, add = {"Idempotency-Key": str(uuid4())}, {"add": [{"id": "b", "content": 1}]}
    first = ann.post(f"{session}/context/update", json=add, headers=key)
    second = ann.post(f"{session}/context/update", json=add, headers=key)
    other = ann.post(f"{session}/context/update", json={"add": []}, headers=key)
    assert first.json()["version"] == second.json()["version"]
    assert (first.json()["replayed"], second.json()["replayed"]) == (False, True)
    assert refused(other) == (409, "OPERATION_MISMATCH")


def test_text_of_every_kind_comes_back_equal(ann, session):
    """Lone surrogates and non-ASCII text pass through the router unchanged."""
    content = b'{"add": [{"id": "\\ud800", "content": "\\udfff \xc3\xa9"}]}'
    assert ann.post(f"{session}/context/update", content=content, headers=JSON).status_code == 200
    read = ann.post(f"{session}/context/load", json={})
    assert b'"\\ud800"' in read.content
    assert "\\udfff é".encode() in read.content


def test_a_selection_says_why_items_were_dropped(ann):
    """With `explain` each item has a verdict and a reason, against the budget of the request."""
    path = f"/sessions/{uuid4()}/context"
    items = [{"id": "long", "content": "train " * 100}, {"id": "short", "content": "train"}]
    ann.post(f"{path}/load", json={"sources": items})
    asked = {"purpose": "infer", "query": "train", "maxTokens": 20}
    explained = ann.post(f"{path}/select", params={"explain": "true"}, json=asked).json()["explanation"]
    verdicts = {entry["id"]: (entry["verdict"], entry["reason"]) for entry in explained["entries"]}
    assert verdicts == {"long": ("dropped", "over the token budget"), "short": ("kept", "fits")}
