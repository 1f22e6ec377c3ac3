"""The bindings between the steps of a pipeline."""

import pytest

from ditto_tasks import errors
from ditto_tasks.errors import InferError, PipelineError
from ditto_tasks.pipelines.bindings import BINDINGS, bind

SCOPE = {"sessionId": "s"}


def found(*ids, node="MEMORY.SEARCH"):
    output = [{"memory": {"id": identity, "content": identity}, "score": 1.0} for identity in ids]
    return {"executionId": "x", "node": node, "status": "success", "output": output}


def failed(node, status="failed", code="BROKEN"):
    return {"executionId": "x", "node": node, "status": status, "error": {"code": code, "message": "no"}}


def apply(name, upstream, wire):
    return bind(name, upstream, wire, bindings=BINDINGS)


def test_an_unknown_binding_is_a_typed_error():
    """A name that no worker registered is refused, and the error says which."""
    with pytest.raises(PipelineError) as caught:
        apply("nobody->knows", None, {})
    assert caught.value.code == "UNKNOWN_BINDING"
    assert caught.value.details == {"binding": "nobody->knows"}


def test_searches_become_ingress_in_header_order_each_id_once():
    """Results keep the header's order; what two searches found enters once, where it was found first."""
    bound = apply("searches->context", [found("a", "b"), found("b", "c")], {"scope": SCOPE})
    assert bound["scope"] == SCOPE
    assert [item["id"] for item in bound["ingress"]] == ["memory:a", "memory:b", "memory:c"]


def test_memory_and_retrieval_results_mix():
    """Each search's results are mapped by the node that answered."""
    retrieved = {
        "executionId": "x",
        "node": "RETRIEVAL.SEARCH",
        "status": "success",
        "output": {"candidates": [{"id": "doc", "content": "t"}], "target": {"name": "n"}},
    }
    bound = apply("searches->context", [found("a"), retrieved], {"scope": SCOPE})
    assert [item["sourceNode"] for item in bound["ingress"]] == ["MEMORY.SEARCH", "RETRIEVAL.SEARCH"]


@pytest.mark.parametrize(
    ("node", "error"), [("MEMORY.SEARCH", errors.MemoryError), ("RETRIEVAL.SEARCH", errors.RetrievalError)]
)
def test_a_failed_search_fails_the_step_with_its_own_code(node, error):
    """By default a failed search ends the step as the error of its domain, code and all."""
    with pytest.raises(error) as caught:
        apply("searches->context", [found("a"), failed(node)], {"scope": SCOPE})
    assert caught.value.code == "BROKEN"
    assert caught.value.details == {"node": node, "status": "failed"}


def test_a_failed_search_is_skipped_on_request():
    """With skip, the other searches' results enter and the policy itself does not reach the node."""
    wire = {"scope": SCOPE, "onSearchFailure": "skip"}
    bound = apply("searches->context", [failed("MEMORY.SEARCH"), found("a")], wire)
    assert [item["id"] for item in bound["ingress"]] == ["memory:a"]
    assert "onSearchFailure" not in bound


def test_a_binding_for_one_kind_of_search_refuses_the_other():
    """memory->context takes MEMORY.SEARCH results only, alone or in a list."""
    assert apply("memory->context", found("a"), {"scope": SCOPE})["ingress"]
    with pytest.raises(PipelineError) as caught:
        apply("retrieval->context", [found("a")], {"scope": SCOPE})
    assert caught.value.code == "INVALID_UPSTREAM"


def test_pin_takes_the_version_that_update_wrote():
    """SELECT then reads that version or conflicts."""
    receipt = {"scope": SCOPE, "version": "v1", "items": 1}
    assert apply("update->select pinned", receipt, {"scope": SCOPE, "purpose": "infer"}) == {
        "scope": SCOPE,
        "purpose": "infer",
        "expectedVersion": "v1",
    }


SELECTION = {
    "purpose": "infer",
    "context": {"items": [{"id": "a", "content": "A"}]},
    "selectedItemIds": ["a"],
}


@pytest.mark.parametrize("upstream", [SELECTION, {"version": "v", "selection": SELECTION}])
def test_a_selection_becomes_messages_with_or_without_a_receipt(upstream):
    """The question and the required ids are for the binding; the node sees messages and its own keys."""
    wire = {"question": "why?", "requireIds": ["a"], "model": {"model": "m"}}
    bound = apply("context->infer", upstream, wire)
    assert bound.keys() == {"messages", "model"}
    assert [message["content"] for message in bound["messages"]] == ["A", "why?"]


def test_a_required_item_that_was_not_selected_stops_before_the_model():
    """The missing ids are named and no messages are made."""
    with pytest.raises(PipelineError) as caught:
        apply("context->infer", SELECTION, {"question": "q", "requireIds": ["a", "b"]})
    assert caught.value.code == "REQUIRED_ITEM_NOT_SELECTED"
    assert caught.value.details == {"ids": ["b"]}


TURN = {"scope": SCOPE, "add": [{"id": "turn:p:user", "content": "q"}, {"id": "turn:p:assistant"}]}
SAMPLED = {
    "executionId": "x",
    "node": "INFER.REASONING.SAMPLE",
    "status": "success",
    "output": {"message": {"role": "assistant", "content": "because"}, "finishReason": "stop"},
}


def test_the_answer_becomes_the_last_item_of_the_turn():
    """The question's item stays as it was sent; the answer's gets the model's content."""
    bound = apply("infer->context", SAMPLED, TURN)
    assert [item["content"] for item in bound["add"]] == ["q", "because"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "timeout"])
def test_a_failed_sample_is_raised_and_nothing_is_bound(status):
    """No sample that did not succeed reaches the context or memory; its own code is what the caller gets."""
    for name, wire in (("infer->context", TURN), ("infer->memory", {"memories": [{}]})):
        with pytest.raises(InferError) as caught:
            apply(name, failed("INFER.REASONING.SAMPLE", status, "MODEL_ERROR"), wire)
        assert caught.value.code == "MODEL_ERROR"


def test_items_of_a_context_are_remembered_by_id():
    """Of a whole context only the items asked for become drafts, in the order asked for."""
    context = {"items": [{"id": i, "content": i.upper()} for i in "abc"]}
    bound = apply("context->memory", context, {"itemIds": ["c", "a"]})
    assert [draft["content"] for draft in bound["memories"]] == ["C", "A"]
    assert bound.keys() == {"memories"}


def test_an_item_to_remember_that_is_gone_is_an_error():
    """A missing item is never turned into remembering less."""
    with pytest.raises(PipelineError) as caught:
        apply("context->memory", SELECTION, {"itemIds": ["a", "z"]})
    assert caught.value.code == "ITEM_NOT_STORED"


def test_bindings_leave_their_arguments_as_they_were():
    """A binding is pure: neither the upstream nor the input changes, so a second delivery binds the same."""
    wire = {"scope": SCOPE, "ingress": [{"id": "own", "content": 1, "sourceNode": "X"}]}
    upstream = [found("a")]
    before = repr((upstream, wire))
    first = apply("searches->context", upstream, wire)
    assert apply("searches->context", upstream, wire) == first
    assert repr((upstream, wire)) == before
    assert [item["id"] for item in first["ingress"]] == ["own", "memory:a"]
