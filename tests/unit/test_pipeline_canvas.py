"""The canvas of an answer, what is checked before it is sent, and what is left of it after some steps."""

import pytest

from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import create_app
from ditto_tasks.errors import ContextError, NodeInputError, PipelineError, PublishError
from ditto_tasks.pipelines import answer, check
from ditto_tasks.pipelines.canvas import Whose, answer_canvas, answer_request
from ditto_tasks.pipelines.checking import tasks_of
from ditto_tasks.pipelines.plan import remainder, stages_of, steps_of
from ditto_tasks.settings import load_settings

SCOPE = {"sessionId": "s"}
SECRET = "content of a source that belongs to LOAD only"


@pytest.fixture(scope="module")
def app():
    return create_app(load_settings(None, {}))


def canvas_of(app, **options):
    return answer(app, SCOPE, "why?", pipeline_id="p", **options)


def names(canvas):
    return [task["task"] for task in tasks_of(canvas)]


def test_the_whole_chain_stands_in_its_order(app):
    """LOAD, then searches into UPDATE, SELECT, SAMPLE, the turn's UPDATE and MEMORY.WRITE."""
    canvas = canvas_of(app, init=[{"id": "a", "content": 1}], searches=[{}, {}], remember=True)
    assert names(canvas) == [
        "CONTEXT.LOAD",
        "MEMORY.SEARCH",
        "MEMORY.SEARCH",
        "CONTEXT.UPDATE",
        "CONTEXT.SELECT",
        "INFER.REASONING.SAMPLE",
        "CONTEXT.UPDATE",
        "MEMORY.WRITE",
    ]
    check(canvas)


def test_one_search_is_still_an_explicit_chord(app):
    """Celery would unpack a group of one, and the body would get a scalar: here it is a flat chord."""
    canvas = canvas_of(app)
    chord = canvas["kwargs"]["tasks"][0]
    assert chord["task"] == "celery.chord"
    header = chord["kwargs"]["header"]
    members = header if isinstance(header, list) else header["kwargs"]["tasks"]
    assert [member["task"] for member in members] == ["MEMORY.SEARCH"]


def test_optional_steps_are_left_out(app):
    """Without init, turn and memory there are search, update, select and sample."""
    assert len(names(canvas_of(app, store_turn=False))) == 4


def test_every_task_knows_its_pipeline_and_its_errback(app):
    """Ids follow from the pipeline's id, the root is the pipeline, and each failure reaches the errback."""
    for task in tasks_of(canvas_of(app, init=[], searches=[{}, {}], remember=True)):
        assert task["options"]["task_id"].startswith("p.")
        assert task["options"]["root_id"] == "p"
        assert [errback["task"] for errback in task["options"]["link_error"]] == ["ditto.pipeline.failed"]
    ids = [task["options"]["task_id"] for task in tasks_of(canvas_of(app, searches=[{}, {}]))]
    assert len(set(ids)) == len(ids)


def test_every_task_says_whose_it_is(app):
    """Scope and tenant stand in the headers of each, also of nodes whose input knows no scope."""
    scope = {"sessionId": "acme:s"}
    headers = {"ditto_scope": scope_key(scope), "ditto_tenant": "acme"}
    assert all(task["options"]["headers"] == headers for task in tasks_of(answer(app, scope, "why?")))
    assert Whose("p", None).headers == {}


def test_only_load_carries_the_contents_of_sources(app):
    """What is loaded is in LOAD's own arguments; all other signatures hold references."""
    tasks = list(tasks_of(canvas_of(app, init=[{"id": "a", "content": SECRET}])))
    assert [task["task"] for task in tasks if SECRET in repr(task["kwargs"])] == ["CONTEXT.LOAD"]


def test_creating_and_pinning_are_options_of_their_steps(app):
    """`init` and `create` let UPDATE write against nothing; `pin` binds SELECT to UPDATE's version."""
    for options in ({"init": []}, {"create": True}):
        update = next(t for t in tasks_of(canvas_of(app, **options)) if t["task"] == "CONTEXT.UPDATE")
        assert update["kwargs"]["ditto"]["onMissing"] == "create"
    by_name = {task["options"]["task_id"]: task for task in tasks_of(canvas_of(app, pin=True))}
    assert by_name["p.update"]["kwargs"]["ditto"]["onMissing"] == "fail"
    assert by_name["p.select"]["kwargs"]["ditto"]["bind"] == "update->select pinned"
    assert not by_name["p.select"]["immutable"]


def test_the_deadline_reaches_every_step(app):
    """Each task carries the deadline that the pipeline has."""
    tasks = tasks_of(canvas_of(app, deadline_ms=1234))
    assert {task["kwargs"]["ditto"]["deadlineMs"] for task in tasks} == {1234}


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"searches": []}, "/searches"),
        ({"searches": [{"node": "INFER.REASONING.SAMPLE"}]}, "/searches/0/node"),
        ({"on_search_failure": "ignore"}, "/on_search_failure"),
        ({"wishes": 3}, "/wishes"),
        ({"require_ids": [""]}, "/require_ids/0"),
    ],
)
def test_a_wrong_field_is_named(options, path):
    """The request is refused before anything is built, with the field's path."""
    with pytest.raises(NodeInputError) as caught:
        answer_request(SCOPE, "why?", **options)
    assert caught.value.details["path"].replace("onSearchFailure", "on_search_failure") == path


@pytest.mark.parametrize(
    ("canvas", "error", "code"),
    [
        (lambda app: app.signature("CONTEXT.UPDATE", kwargs={"scope": {}}), ContextError, "INVALID_INPUT"),
        (lambda app: app.signature("CONTEXT.FORGET"), PipelineError, "UNKNOWN_NODE"),
        (
            lambda app: app.signature("CONTEXT.UPDATE", kwargs={"scope": SCOPE, "ditto": {"wish": 1}}),
            ContextError,
            "INVALID_INPUT",
        ),
        (
            lambda app: app.signature("MEMORY.SEARCH", kwargs={"query": float("nan")}),
            NodeInputError,
            "INVALID_INPUT",
        ),
        (
            lambda app: app.signature("CONTEXT.UPDATE", kwargs={"scope": SCOPE}, countdown=5),
            PublishError,
            "SHARD_OPTION_REFUSED",
        ),
        (
            lambda app: app.signature("MEMORY.SEARCH", kwargs={"query": "x" * 5_000_000}),
            PublishError,
            "MESSAGE_TOO_LARGE",
        ),
    ],
)
def test_check_finds_what_could_not_be_published_anywhere_in_a_canvas(app, canvas, error, code):
    """A bad task is found at the end of a chain whose first tasks are fine."""
    good = app.signature("MEMORY.SEARCH", kwargs={"query": "q"})
    with pytest.raises(error) as caught:
        check(good | good | canvas(app))
    assert caught.value.code == code


def test_what_is_left_begins_at_the_first_unfinished_stage():
    """A finished predecessor's result is handed to the step after it."""
    stages = stages_of(answer_request(SCOPE, "why?", init=[]), "p")
    results = {"load": {"version": "1"}, "search-0": {"node": "s"}, "update": {"version": "2"}}
    left = remainder(stages, results)
    assert [stage[-1].name for stage in left.stages] == ["select", "sample", "turn"]
    assert left.upstream == {"version": "2"}


def test_finished_searches_are_not_asked_again():
    """With all searches done, UPDATE gets what they found; with one missing, the chord is sent again."""
    stages = stages_of(answer_request(SCOPE, "why?", searches=[{}, {}]), "p")
    left = remainder(stages, {"search-0": [0], "search-1": [1]})
    assert [step.name for step in left.stages[0]] == ["update"]
    assert left.upstream == [[0], [1]]
    again = remainder(stages, {"search-1": [1]})
    assert [step.name for step in again.stages[0]] == ["search-0", "search-1", "update"]


def test_of_a_finished_pipeline_the_last_step_is_left():
    """Sending it again makes it announce the end again."""
    stages = stages_of(answer_request(SCOPE, "why?", store_turn=False), "p")
    done = {step.name: {} for step in steps_of(answer_request(SCOPE, "why?", store_turn=False), "p")}
    assert [stage[-1].name for stage in remainder(stages, done).stages] == ["sample"]


def test_the_rest_of_a_canvas_carries_the_missed_result(app):
    """The first task of the rest gets its predecessor's result as its own argument, and only that."""
    request = answer_request(SCOPE, "why?", store_turn=False)
    canvas = answer_canvas(app, request, "p", {"search-0": {}, "update": {}, "select": {"picked": 1}})
    [sample] = list(tasks_of(canvas))
    assert sample["args"] == ({"picked": 1},)
    assert sample["immutable"]
