"""The answering pipeline on real workers: what it stores, how it fails, and that it does so once."""

from uuid import uuid4

import pytest
from support.deployments import deployment
from support.polling import eventually

from ditto_tasks import errors
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import ContextError, InferError, NodeInputError, PipelineError
from ditto_tasks.pipelines.canvas import answer_canvas, answer_request
from ditto_tasks.pipelines.steps import step_id

WAIT_S = 30.0
TRUTH = "Every mutation of one session runs on one shard, in order."
GOAL = {"id": "goal", "content": "answer from memory", "metadata": {"currentGoal": True}}


@pytest.fixture(scope="module")
def running():
    with deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def client(running):
    with Ditto(running.settings) as opened:
        drafts = [{"key": "truth", "content": TRUTH}, {"key": "huge", "content": f"zeppelin {'x' * 300_000}"}]
        assert opened.memory.write(memories=drafts).get(WAIT_S).status == "success"
        yield opened


@pytest.fixture
def scope():
    return {"sessionId": str(uuid4())}


def stored(client, scope):
    """The ids of a scope's items with their roles."""
    context = client.context.load(scope=scope).get(WAIT_S)
    return {item.id: (item.metadata or {}).get("role") for item in context.items}


def version(client, scope):
    return client.context.load(scope=scope, ditto={"reply": "receipt"}).get(WAIT_S).version


def test_an_answer_names_what_was_found_selected_and_stored(client, scope):
    """Hits, selection and versions come back by ids; question and answer are stored with their roles."""
    searches = [{}, {"input": {"strategy": "substring", "query": "shard"}}]
    pending = client.answer(scope, "why does a mutation run on one shard?", init=[GOAL], searches=searches)
    answer = pending.get(WAIT_S)
    [hit] = {hit.item_id for search in answer.searches for hit in search.hits}
    assert TRUTH in answer.text
    assert set(answer.selected_item_ids) == {"goal", hit}
    assert answer.updated_version == answer.selected_version
    assert answer.stored_version == version(client, scope)
    assert answer.skipped == ()
    turn = {f"turn:{pending.id}:user": "user", f"turn:{pending.id}:assistant": "assistant"}
    assert stored(client, scope) == {"goal": None, hit: None, **turn}


def test_steps_are_tasks_with_ids_made_of_the_pipelines(client, scope):
    """Every step's own result can be read under the id that the answer names."""
    answer = client.answer(scope, "which shard?", init=[GOAL], remember=True).get(WAIT_S)
    assert answer.step_ids["sample"] == f"{answer.pipeline_id}.sample"
    for task_id in answer.step_ids.values():
        assert client.result(task_id).get(WAIT_S) is not None


def test_the_receipt_of_select_names_both_versions(client, scope):
    """What UPDATE wrote and what SELECT read, pinned or not."""
    for pin in (False, True):
        answer = client.answer(scope, "which shard?", init=[GOAL], pin=pin).get(WAIT_S)
        receipt = client.result(answer.step_ids["select"]).get(WAIT_S)
        assert (receipt["updatedVersion"], receipt["version"]) == (answer.updated_version,) * 2


def test_a_second_question_finds_the_session_as_it_is(client, scope):
    """`init` fills a session that is not there, and leaves one that is."""
    first = client.answer(scope, "which shard?", init=[GOAL])
    first.get(WAIT_S)
    second = client.answer(scope, "what runs in order?", init=[{"id": "other", "content": "x"}])
    second.get(WAIT_S)
    ids = stored(client, scope)
    assert {f"turn:{first.id}:user", f"turn:{second.id}:assistant"} <= ids.keys()
    assert "other" not in ids


def test_without_init_a_missing_session_is_not_created(client, scope):
    """The caller gets CONTEXT_NOT_FOUND as a ContextError, though it was raised behind a chord."""
    with pytest.raises(ContextError) as caught:
        client.answer(scope, "which shard?").get(WAIT_S)
    assert caught.value.code == "CONTEXT_NOT_FOUND"


def test_create_makes_a_missing_session_of_what_was_found(client, scope):
    """With `create` the first UPDATE writes against an absent state."""
    answer = client.answer(scope, "which shard?", create=True).get(WAIT_S)
    found = {hit.item_id for search in answer.searches for hit in search.hits}
    assert found
    assert {item for item in stored(client, scope) if not item.startswith("turn:")} == found


def test_a_required_item_that_is_not_selected_stops_before_inference(client, scope):
    """The pipeline fails with the missing ids, the model was not asked, and no turn is stored."""
    pending = client.answer(scope, "which shard?", init=[GOAL], require_ids=["goal", "contract"])
    with pytest.raises(PipelineError) as caught:
        pending.get(WAIT_S)
    assert caught.value.code == "REQUIRED_ITEM_NOT_SELECTED"
    assert caught.value.details == {"ids": ["contract"]}
    assert not [event for event in pending.events() if event.data == {"step": "sample", "status": "finished"}]
    assert not [item for item in stored(client, scope) if item.startswith("turn:")]


@pytest.mark.parametrize("options", [{}, {"store_turn": False}, {"store_turn": False, "remember": True}])
def test_a_failed_inference_fails_the_pipeline_and_writes_nothing(client, scope, options):
    """The failed NodeResult comes back as its typed error; context and memory stay as SELECT saw them."""
    model = {"provider": "nobody", "model": "none"}
    question = f"zebra {uuid4()} shard?"
    pending = client.answer(scope, question, init=[GOAL], model=model, **options)
    with pytest.raises(InferError) as caught:
        pending.get(WAIT_S)
    assert caught.value.code == "PROVIDER_NOT_FOUND"
    assert version(client, scope) == client.result(step_id(pending.id, "select")).get(WAIT_S)["version"]
    remembered = client.memory.search(query=question.split()[1], strategy="substring").get(WAIT_S)
    assert remembered.output == []


def test_memory_and_retrieval_are_searched_side_by_side(client, scope):
    """Both kinds of search enter the context under their own ids, and the answer reports both."""
    retrieval = {"node": "RETRIEVAL.SEARCH", "input": {"target": {"name": "memory"}}}
    answer = client.answer(scope, "which shard?", init=[GOAL], searches=[{}, retrieval]).get(WAIT_S)
    assert [search.node for search in answer.searches] == ["MEMORY.SEARCH", "RETRIEVAL.SEARCH"]
    found = {hit.item_id for search in answer.searches for hit in search.hits}
    assert any(identity.startswith("memory:") for identity in found)
    assert any(not identity.startswith("memory:") for identity in found)
    assert found <= stored(client, scope).keys()


def test_a_failed_search_fails_the_pipeline_with_its_own_error(client, scope):
    """The search's code reaches the caller as a MemoryError."""
    searches = [{}, {"input": {"strategy": "telepathy"}}]
    with pytest.raises(errors.MemoryError) as caught:
        client.answer(scope, "which shard?", init=[GOAL], searches=searches).get(WAIT_S)
    assert caught.value.code == "UNSUPPORTED_STRATEGY"


def test_a_failed_search_can_be_skipped_and_is_reported(client, scope):
    """With skip the other search's hits are used, and the answer says what was left out and why."""
    searches = [{"input": {"strategy": "telepathy"}}, {}]
    pending = client.answer(scope, "which shard?", init=[GOAL], searches=searches, on_search_failure="skip")
    answer = pending.get(WAIT_S)
    assert [(search.step, search.code) for search in answer.skipped] == [("search-0", "UNSUPPORTED_STRATEGY")]
    assert TRUTH in answer.text


def test_a_search_result_that_is_too_large_is_refused(client, scope):
    """Over 256 KiB the search fails with RESULT_TOO_LARGE instead of travelling on."""
    searches = [{"input": {"query": "zeppelin", "strategy": "substring"}}]
    with pytest.raises(errors.MemoryError) as caught:
        client.answer(scope, "zeppelin?", init=[GOAL], searches=searches).get(WAIT_S)
    assert caught.value.code == "RESULT_TOO_LARGE"


def test_a_pinned_selection_reads_what_update_wrote(client, scope):
    """With `pin` SELECT expects UPDATE's version, which stands here."""
    answer = client.answer(scope, "which shard?", init=[GOAL], pin=True).get(WAIT_S)
    assert answer.selected_version == answer.updated_version


def test_a_turn_can_be_remembered_without_being_stored(client, scope):
    """MEMORY.WRITE then gets question and answer from the sample, and the context no turn."""
    pending = client.answer(scope, "which shard?", init=[GOAL], store_turn=False, remember=True)
    answer = pending.get(WAIT_S)
    found = client.memory.get(ids=list(answer.memory_ids)).get(WAIT_S)
    assert [memory["content"] for memory in found.output] == ["which shard?", answer.text]
    assert not [item for item in stored(client, scope) if item.startswith("turn:")]


def test_sending_a_whole_pipeline_again_changes_nothing(client, scope):
    """A doubled delivery of every step leaves version, memories and answer as the first run left them."""
    options = {"init": [GOAL], "remember": True}
    pending = client.answer(scope, "which shard?", **options)
    answer = pending.get(WAIT_S)
    before = (version(client, scope), client.memory.query(limit=1000).get(WAIT_S).output)
    request = answer_request(scope, "which shard?", **options)
    deadline = client.app.records.load(pending.id).deadline_ms
    again = request.model_copy(update={"deadline_ms": deadline})
    answer_canvas(client.app, again, pending.id).apply_async().get(timeout=WAIT_S)
    assert (version(client, scope), client.memory.query(limit=1000).get(WAIT_S).output) == before
    assert pending.get(WAIT_S) == answer


def test_events_tell_each_step_and_the_end_in_order(client, scope):
    """A late subscriber hears all of it, and goes on after the event that it names."""
    pending = client.answer(scope, "which shard?", init=[GOAL])
    pending.get(WAIT_S)
    events = list(pending.events())
    told = [event.data["step"] for event in events if event.data.get("status") == "finished"]
    assert told == ["load", "search-0", "update", "select", "sample", "turn"]
    assert events[-1].data == {"status": "done"}
    assert list(pending.events(after=events[-2].id)) == events[-1:]


def test_a_finished_pipeline_is_not_looked_after_any_more(client, scope):
    """Once its caller was told, no shard's list holds the pipeline."""
    pending = client.answer(scope, "which shard?", init=[GOAL])
    pending.get(WAIT_S)
    shards = range(client.app.settings.runtime.shards.count)
    eventually(lambda: not any(pending.id in client.app.records.tracked(shard) for shard in shards), WAIT_S)


def test_nothing_is_sent_for_a_request_that_cannot_run(client, scope):
    """A wrong field is refused with its path, and no record is left."""
    with pytest.raises(NodeInputError) as caught:
        client.answer(scope, "which shard?", searches=[{"node": "CONTEXT.LOAD"}], pipeline_id="never")
    assert caught.value.details["path"].startswith("/searches/0/node")
    assert client.app.records.load("never") is None
