"""Connections and credentials come from DITTO_* variables, and never show."""

import re
from pathlib import Path

import pytest

from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import default_settings, environment_variables, load_settings

EXAMPLE = Path(__file__).parents[2] / "config" / "env.example"
SECRET = "hunter2-canary"


def secret_environment() -> dict[str, str]:
    """An environment in which every variable that can hold a credential holds one."""
    return {
        "DITTO_BROKER_URL": f"redis://user:{SECRET}@host/0",
        "DITTO_RESULT_BACKEND_URL": f"redis://user:{SECRET}@host/1",
        "DITTO_WORKER_CONTEXT_REDIS_URL": f"redis://user:{SECRET}@host/2",
        "DITTO_WORKER_MEMORY_URL": f"postgresql://user:{SECRET}@host/db",
        "DITTO_WORKER_MEMORY_QDRANT_API_KEY": SECRET,
        "DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL": f"https://user:{SECRET}@host/v1",
        "DITTO_WORKER_RETRIEVAL_EMBEDDING_API_KEY": SECRET,
        "DITTO_WORKER_INTERACTION_BRAVE_SEARCH_API_KEY": SECRET,
        "DITTO_WORKER_INTERACTION_WEBHOOK_URL": f"https://host/hook?token={SECRET}",
        "DITTO_FLOWER_BASIC_AUTH": f"admin:{SECRET}",
        "DITTO_SHARED_PROVIDERS": "main",
        "DITTO_SHARED_PROVIDER_MAIN_KIND": "openai",
        "DITTO_SHARED_PROVIDER_MAIN_BASE_URL": f"https://user:{SECRET}@host/v1",
        "DITTO_SHARED_PROVIDER_MAIN_API_KEY": SECRET,
    }


def test_no_form_of_the_snapshot_shows_a_credential() -> None:
    """repr, str and JSON of settings that hold credentials have none of them in."""
    settings = default_settings(secret_environment())
    shown = repr(settings) + str(settings) + settings.model_dump_json()
    assert SECRET not in shown


def test_a_credential_can_be_read_on_purpose() -> None:
    """The value is there for the one who opens the connection."""
    url = default_settings(secret_environment()).connections.broker_url
    assert url is not None
    assert SECRET in url.get_secret_value()


def test_providers_are_those_listed() -> None:
    """DITTO_SHARED_PROVIDERS names the providers; variables of others are not read."""
    env = {
        "DITTO_SHARED_PROVIDERS": "fast, in-house.gpu",
        "DITTO_SHARED_PROVIDER_FAST_KIND": "openai",
        "DITTO_SHARED_PROVIDER_IN_HOUSE_GPU_KIND": "anthropic",
        "DITTO_SHARED_PROVIDER_IN_HOUSE_GPU_MODEL": "large",
        "DITTO_SHARED_PROVIDER_OTHER_KIND": "google",
    }
    providers = default_settings(env).shared.providers
    assert {name: provider.kind for name, provider in providers.items()} == {
        "fast": "openai",
        "in-house.gpu": "anthropic",
    }
    assert providers["in-house.gpu"].model == "large"


def test_the_file_tunes_a_listed_provider(tmp_path: Path) -> None:
    """A provider has its connection from the environment and its timeout from the file."""
    file = tmp_path / "ditto.yaml"
    file.write_text("shared: {providers: {main: {timeoutMs: 90000}, unlisted: {timeoutMs: 1}}}")
    settings = load_settings(file, secret_environment())
    assert settings.shared.providers["main"].timeout_ms == 90_000
    assert list(settings.shared.providers) == ["main"]
    assert settings.longest_task_ms == 90_000


def test_everything_is_denied_by_default() -> None:
    """With no variable set, tools may do nothing."""
    assert not any(dict(default_settings().shared.sandbox).values())


def test_the_sandbox_reads_names_and_switches() -> None:
    """Lists are separated by commas, switches are true or false."""
    env = {"DITTO_SHARED_SANDBOX_ALLOW_TOOLS": "grep, ls,", "DITTO_SHARED_SANDBOX_ALLOW_READ": "true"}
    sandbox = default_settings(env).shared.sandbox
    assert (sandbox.tools, sandbox.read, sandbox.write) == (("grep", "ls"), True, False)


def test_an_empty_variable_counts_as_unset() -> None:
    """Compose passes unset variables on as empty ones."""
    empty = dict.fromkeys(environment_variables(), "")
    assert default_settings(empty) == default_settings()


BAD_VARIABLES = [
    ({"DITTO_BROKER_URL": f"{SECRET}:6379"}, "DITTO_BROKER_URL"),
    ({"DITTO_DEPLOYMENT": f"a b {SECRET}"}, "DITTO_DEPLOYMENT"),
    ({"DITTO_EXTENSIONS": f"{SECRET}"}, "DITTO_EXTENSIONS.0"),
    ({"DITTO_SHARED_SANDBOX_ALLOW_READ": SECRET}, "DITTO_SHARED_SANDBOX_ALLOW_READ"),
    ({"DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS": SECRET}, "DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS"),
    ({"DITTO_SHARED_PROVIDERS": "main"}, "DITTO_SHARED_PROVIDER_MAIN_KIND"),
    ({"DITTO_WORKER_INFER_MODEL_PROVIDER": SECRET}, "DITTO_WORKER_INFER_MODEL_PROVIDER"),
    (
        {"DITTO_WORKER_MEMORY_URL": "sqlite:///a", "DITTO_WORKER_MEMORY_QDRANT_URL": f"http://{SECRET}"},
        "DITTO_WORKER_MEMORY_QDRANT_URL",
    ),
    (
        {
            "DITTO_BROKER_URL": f"redis://:{SECRET}@h/0",
            "DITTO_WORKER_CONTEXT_REDIS_URL": f"redis://:{SECRET}@h/0",
        },
        "DITTO_WORKER_CONTEXT_REDIS_URL",
    ),
]


@pytest.mark.parametrize(("env", "path"), BAD_VARIABLES, ids=[path for _, path in BAD_VARIABLES])
def test_a_bad_variable_is_named_and_not_shown(env: dict[str, str], path: str) -> None:
    """The error has the variable's name as its path and nothing of its value."""
    with pytest.raises(SettingsError) as caught:
        default_settings(env)
    assert caught.value.details == {"path": path}
    assert SECRET not in repr(caught.value)


TEXTS = [
    ({"DITTO_EXTENSIONS": "nosuch"}, "must be module:function, as in my_package.ditto:extension"),
    ({"DITTO_BROKER_URL": "localhost:6379"}, "must be a URL such as redis://host:6379/0"),
    ({"DITTO_BROKER_URL": "http://x"}, "must start with redis://, rediss://, redis+socket://"),
]


@pytest.mark.parametrize(("env", "reason"), TEXTS, ids=[reason for _, reason in TEXTS])
def test_a_bad_variable_is_told_what_it_needs(env: dict[str, str], reason: str) -> None:
    """In words, without a pattern and without what pydantic puts before them."""
    with pytest.raises(SettingsError) as caught:
        default_settings(env)
    (name,) = env
    path = f"{name}.0" if name == "DITTO_EXTENSIONS" else name
    assert caught.value.message.startswith(f"{path}: {reason}")


@pytest.mark.parametrize(
    "url",
    ["redis://h", "rediss://h/1", "redis+socket:///s?virtual_host=0", "redis+sentinel://h/main/0"],
)
def test_every_kind_of_broker_is_taken(url: str) -> None:
    """Those of which docs/operations.md tells."""
    assert default_settings({"DITTO_BROKER_URL": url}).connections.broker_url is not None


def test_a_file_may_be_named_by_text(tmp_path: Path) -> None:
    """As well as by a Path."""
    file = tmp_path / "ditto.yaml"
    file.write_text("runtime:\n  maxTurns: 3\n", "utf-8")
    assert load_settings(str(file), {}).runtime.max_turns == 3


def test_the_example_lists_what_is_read() -> None:
    """config/env.example names every variable that the code reads, and no other."""
    listed = re.findall(r"^(?:# )?(DITTO_[A-Z_<>]+)=", EXAMPLE.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(environment_variables())


def test_the_example_can_be_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values in config/env.example load."""
    pairs = re.findall(r"^(DITTO_\w+)=(.*)$", EXAMPLE.read_text("utf-8"), re.MULTILINE)
    monkeypatch.chdir(EXAMPLE.parents[1])
    assert load_settings(None, dict(pairs)).context.cache.operation_ids == 1024
