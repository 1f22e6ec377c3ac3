"""Methods of the clients against the node table: their keywords, their results, and what they send."""

import asyncio
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel, RootModel
from support.inputs import INPUTS

import ditto_tasks.client.context_methods as of_context
import ditto_tasks.client.infer_methods as of_infer
import ditto_tasks.client.interaction_methods as of_interaction
import ditto_tasks.client.memory_methods as of_memory
from ditto_tasks import AsyncDitto, Ditto, default_settings
from ditto_tasks.client.methods import DOMAINS, Method
from ditto_tasks.client.models import NodeReply, read_output, read_reply, read_stored
from ditto_tasks.client.protocol import Call, camel
from ditto_tasks.context import Context
from ditto_tasks.context import inputs as context_inputs
from ditto_tasks.context import models as context_models
from ditto_tasks.errors import ContextError, DittoError, MemoryError, ServiceError
from ditto_tasks.infer import models as infer_models
from ditto_tasks.infer import values as infer_values
from ditto_tasks.interaction import models as interaction_models
from ditto_tasks.interaction import values as interaction_values
from ditto_tasks.memory import models as memory_models
from ditto_tasks.memory.models import MemoryItem, QueryPage
from ditto_tasks.nodes import NODES
from ditto_tasks.retrieval import models as retrieval_models
from ditto_tasks.task import TaskOptions, parse_options

METHODS: Mapping[str, Method[..., Any]] = {
    method.node: method
    for domain in DOMAINS
    for method in vars(domain).values()
    if isinstance(method, Method)
}
NAMES = {
    method.node: (domain.__name__.removesuffix("Methods").lower(), name)
    for domain in DOMAINS
    for name, method in vars(domain).items()
    if isinstance(method, Method)
}
OF_PIPELINES = {"bind"}  # of a step, which has a predecessor
SCOPE = {"sessionId": "s"}
# what type checkers import and run time does not
TYPES = {
    of_context: (context_inputs, context_models),
    of_memory: (memory_models, retrieval_models),
    of_infer: (infer_models, infer_values),
    of_interaction: (interaction_models, interaction_values),
}


class Sent:
    """A client that keeps its calls."""

    def __init__(self) -> None:
        self.calls: list[Call[Any]] = []

    def send(self, call: Call[Any]) -> None:
        """Keep it."""
        self.calls.append(call)


def sent(node: str, **given: object) -> Call[Any]:
    """The call that the method of a node makes of keywords."""
    client, (domain, name) = Sent(), NAMES[node]
    (made,) = [each for each in DOMAINS if each.__name__.lower() == f"{domain}methods"]
    getattr(made(client), name)(**given)
    return client.calls[0]


def input_models(node: str) -> list[type[BaseModel]]:
    """The model of a node's input, or those that it is one of."""
    model = NODES[node].input_model
    assert model is not None
    return list(get_args(model.model_fields["root"].annotation)) if issubclass(model, RootModel) else [model]


def options_of(node: str) -> set[str]:
    """The options that a call of a node may carry, by the parser of the worker."""

    def known(name: str) -> bool:
        try:
            parse_options(NODES[node], {camel(name): getattr(TaskOptions(), name)})
        except DittoError as refused:
            return "an option that" not in refused.message
        return True

    return {name for name in TaskOptions.model_fields if known(name)}


def types_of(function: Any) -> dict[str, Any]:
    """The types of a declaration's keywords, and of its `return`."""
    module = next(each for each in TYPES if each.__name__ == function.__module__)
    names = {name: value for source in TYPES[module] for name, value in vars(source).items()}
    names |= vars(module)
    hints = get_type_hints(function, names)
    (unpacked,) = get_args(hints.pop("given"))
    return hints | get_type_hints(unpacked, None, names)


def literals(annotation: Any) -> set[object]:
    """The values that an annotation lists, outside of models."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return {value for part in get_args(annotation) for value in literals(part)}
    return set()


@pytest.mark.parametrize("node", NODES)
def test_keywords_are_the_fields_and_the_options_of_the_node(node: str) -> None:
    """Every field of the input has a keyword, so has every option, and there is no other keyword."""
    fields = {name for model in input_models(node) for name in model.model_fields}
    options = options_of(node) - OF_PIPELINES
    assert fields.isdisjoint(TaskOptions.model_fields)
    assert set(METHODS[node].signature.parameters) == fields | options | {"ditto"}


@pytest.mark.parametrize("node", NODES)
def test_keywords_are_required_where_the_model_requires_the_field(node: str) -> None:
    """No default is a field without which the input is refused."""
    given = METHODS[node].signature.parameters.values()
    needed = [
        {name for name, field in model.model_fields.items() if field.is_required()}
        for model in input_models(node)
    ]
    assert {each.name for each in given if each.default is each.empty} == set.intersection(*needed)


@pytest.mark.parametrize("node", NODES)
def test_keywords_list_the_values_that_the_models_list(node: str) -> None:
    """A Literal of a keyword, over all overloads, is that of the input's field or of the option."""
    listed: dict[str, set[object]] = {}
    for function in METHODS[node].declarations:
        for name, hint in types_of(function).items():
            listed.setdefault(name, set()).update(literals(hint))
    sources = [TaskOptions.model_fields, *(model.model_fields for model in input_models(node))]
    expected = {
        name: {value for fields in sources if name in fields for value in literals(fields[name].annotation)}
        for name in METHODS[node].signature.parameters
    }
    assert {name: listed[name] for name in expected} == expected


@pytest.mark.parametrize("node", [node for node in NODES if NODES[node].domain != "CONTEXT"])
def test_results_are_the_outputs_of_the_table(node: str) -> None:
    """The declared result is the output's model; around it a NodeResult where the node answers with one."""
    row = NODES[node]
    output: Any = row.output_model
    if row.lists_output:
        output = tuple[output, ...]
    elif issubclass(output, RootModel):
        output = output.model_fields["root"].annotation
    (declared,) = get_args(types_of(*METHODS[node].declarations)["return"])
    assert declared == (NodeReply[output] if row.returns_node_result else output)  # type: ignore[valid-type]  # made at run time


@pytest.fixture(params=[Ditto, AsyncDitto])
def client(request: pytest.FixtureRequest) -> Iterator[Ditto | AsyncDitto]:
    """Each client, with no server to send anything to."""
    opened = request.param(default_settings({}))
    yield opened
    if isinstance(opened, Ditto):
        opened.close()
    else:
        asyncio.run(opened.close())


def test_an_unknown_keyword_is_a_type_error_that_names_it(client: Ditto | AsyncDitto) -> None:
    """Of each method of both clients, before anything is sent: there is no server here."""
    for domain, name in NAMES.values():
        method = getattr(getattr(client, domain), name)
        with pytest.raises(TypeError, match=rf"\.{name}\(\) got an unexpected keyword argument 'ad'"):
            method(ad=[])


def test_a_keyword_of_another_node_is_unknown(client: Ditto | AsyncDitto) -> None:
    """Each node has its own."""
    with pytest.raises(TypeError, match="'on_missing'"):
        client.context.load(scope=SCOPE, on_missing="create")  # type: ignore[call-overload]  # of UPDATE
    with pytest.raises(TypeError, match="'retries'"):
        client.memory.get(ids=[], retries=1)  # type: ignore[call-arg]  # of INFER


@pytest.mark.parametrize("node", INPUTS)
def test_wire_names_and_python_names_make_the_same_call(node: str) -> None:
    """Each input with all of its fields becomes the node's wire input, from either form of the names."""
    names = {camel(name): name for name in METHODS[node].signature.parameters}
    wire = INPUTS[node]
    by_wire, by_name = sent(node, **wire), sent(node, **{names[key]: value for key, value in wire.items()})
    assert (by_wire.node, by_wire.wire) == (node, wire)
    assert (by_name.node, by_name.wire) == (node, wire)


def test_options_travel_apart_from_the_input() -> None:
    """By keyword or as a mapping, or some so and some so; None is as if it was not given."""
    call = sent(
        "CONTEXT.UPDATE",
        scope=SCOPE,
        add=[],
        on_missing="create",
        deadline_ms=None,
        ditto={"operation_id": "o", "bind": "b"},
    )
    options = {"operationId": "o", "bind": "b", "onMissing": "create"}
    assert call.wire == {"scope": SCOPE, "add": [], "ditto": options}
    assert "ditto" not in sent("CONTEXT.UPDATE", scope=SCOPE, operation_id=None).wire


def test_nothing_is_given_twice() -> None:
    """Neither by both forms of a name nor as a keyword and in `ditto`."""
    with pytest.raises(TypeError, match="two values for 'removeIds'"):
        sent("CONTEXT.UPDATE", remove_ids=[], removeIds=[])
    with pytest.raises(TypeError, match="given as a keyword and in 'ditto': reply"):
        sent("CONTEXT.UPDATE", reply="none", ditto={"reply": "context"})


def test_a_reply_is_read_by_what_was_asked() -> None:
    """Where a context was asked for by keyword there is one, or an error: its type has no None."""
    asked = sent("CONTEXT.UPDATE", scope=SCOPE, reply="context")
    assert asked.read({"items": []}) == Context(items=())
    with pytest.raises(ContextError, match="CONTEXT_NOT_FOUND"):
        asked.read(None)
    assert asked.read is read_stored
    assert sent("CONTEXT.UPDATE", scope=SCOPE, ditto={"reply": "context"}).read(None) is None
    assert sent("CONTEXT.COMPRESS", scope=SCOPE, reply="none").read(None) is None


def reply(node: str, **values: object) -> NodeReply[Any]:
    """What a node's result is read as."""
    return read_reply({"executionId": "e", "node": node, "status": "success", **values})


def test_a_reply_gives_its_output_as_the_models_of_the_table() -> None:
    """A list becomes a tuple; `output` is the JSON as before."""
    item = {"id": "m", "content": {"a": 1}}
    found = reply("MEMORY.GET", output=[item])
    assert found.value() == (MemoryItem(id="m", content={"a": 1}),)
    assert found.output == [item]
    assert reply("MEMORY.QUERY", output={"items": [item]}).value() == QueryPage(items=found.value())
    assert reply("INFER.CACHE.LOOKUP", output={"hit": False}).value() == infer_models.Lookup(hit=False)


def test_a_failed_reply_raises_its_error_when_its_value_is_asked_for() -> None:
    """As the error of the node's domain, with code and status."""
    error = {"code": "NOT_FOUND", "message": "no such record"}
    failed = reply("MEMORY.UPDATE", status="failed", error=error)
    with pytest.raises(MemoryError, match="NOT_FOUND: no such record") as caught:
        failed.value()
    assert caught.value.details == {"node": "MEMORY.UPDATE", "status": "failed"}


@pytest.mark.parametrize(
    ("node", "output"),
    [("MEMORY.GET", {"id": "m"}), ("MEMORY.QUERY", None), ("INTERACTION.OBSERVE", []), ("NO.NODE", {})],
)
def test_an_output_that_is_none_of_the_nodes_is_a_service_error(node: str, output: Any) -> None:
    """Whatever a worker of another version sent."""
    with pytest.raises(ServiceError):
        read_output(node, output)


def test_an_output_that_is_one_of_several_is_read_as_that_one() -> None:
    """A discovery is no wrapper around one."""
    discovery = read_output("INTERACTION.ACT.MCP", {"operation": "discover", "capabilities": []})
    assert discovery == interaction_models.Discovery(capabilities=())
