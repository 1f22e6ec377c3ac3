"""Extensions and the dependencies that they feed."""

import multiprocessing
import os
import types

import pytest

from ditto_tasks.dependencies import Dependencies
from ditto_tasks.errors import SettingsError
from ditto_tasks.extensions import Extension, OpenExtensions, load_factory
from ditto_tasks.settings import Settings, default_settings

SETTINGS = default_settings()


class Estimator:
    def estimate(self, _content: object, _execution: object) -> int:
        return 7


def create(settings: Settings) -> Extension:
    return Extension(context={"token_estimator": Estimator()}, bindings={"b": lambda _upstream, wire: wire})


def test_a_factory_is_found_by_name() -> None:
    """`package.module:factory`, as DITTO_EXTENSIONS has it."""
    assert load_factory("ditto_tasks.extensions:load_factory") is load_factory


@pytest.mark.parametrize(
    "name", ["no.such.module:f", "ditto_tasks.extensions:nothing", "ditto_tasks.task:VERSION"]
)
def test_a_factory_that_is_not_there_is_a_settings_error(name: str) -> None:
    """It names the variable to look at."""
    with pytest.raises(SettingsError, match="EXTENSION_NOT_FOUND"):
        load_factory(name)


def test_later_extensions_win_and_all_are_closed() -> None:
    """Services are merged by name; close() runs in reverse order, for each."""
    closed: list[str] = []

    def factory(name: str, service: str) -> Extension:
        return Extension(memory={"store": service}, close=lambda: closed.append(name))

    opened = OpenExtensions(SETTINGS, [lambda _s: factory("a", "1"), lambda _s: factory("b", "2")])
    assert opened.services("memory") == {"store": "2"}
    opened.close()
    opened.close()
    assert closed == ["b", "a"]


def test_a_failing_factory_closes_what_was_opened() -> None:
    """Nothing stays open of an application that does not start."""
    closed: list[str] = []
    first = Extension(close=lambda: closed.append("first"))
    with pytest.raises(SettingsError, match="EXTENSION_INVALID"):
        OpenExtensions(SETTINGS, [lambda _s: first, lambda _s: types.SimpleNamespace()])  # type: ignore[list-item, return-value]  # wrong on purpose
    assert closed == ["first"]


def test_services_reach_their_domain_once() -> None:
    """A domain is opened on first use, with the services of all extensions, and only once."""
    calls: list[int] = []

    def counted(settings: Settings) -> Extension:
        calls.append(1)
        return create(settings)

    dependencies = Dependencies(SETTINGS, [counted])
    assert not calls
    assert isinstance(dependencies.context().services.token_estimator, Estimator)
    assert dependencies.context() is dependencies.context()
    assert (len(calls), set(dependencies.bindings())) == (1, {"b"})
    dependencies.close()


def test_an_unknown_service_is_refused() -> None:
    """A misspelt name would be ignored otherwise."""
    dependencies = Dependencies(SETTINGS, [lambda _s: Extension(context={"estimator": Estimator()})])
    with pytest.raises(SettingsError, match="estimator"):
        dependencies.context()


def test_a_forked_child_opens_its_own() -> None:
    """What the parent opened is not used by the child, nor closed by it."""
    fork = multiprocessing.get_context("fork")

    def factory(_settings: Settings) -> Extension:
        pids.put(os.getpid())
        return Extension()

    pids = fork.SimpleQueue()
    dependencies = Dependencies(SETTINGS, [factory])
    dependencies.context()
    child = fork.Process(target=dependencies.context)
    child.start()
    child.join(20)
    assert [pids.get(), pids.get()] == [os.getpid(), child.pid]
