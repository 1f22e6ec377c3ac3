"""Settings files and environment become one frozen snapshot, or an error that names the key."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings, check_visibility_timeout, default_settings, load_settings

CONFIG = Path(__file__).parents[2] / "config"


def written(folder: Path, text: str, name: str = "ditto.yaml") -> Path:
    """A settings file that holds `text`."""
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def refusal(file: Path | None, env: dict[str, str] | None = None) -> SettingsError:
    """The error that loading raises."""
    with pytest.raises(SettingsError) as caught:
        load_settings(file, env or {})
    return caught.value


def path_of(error: SettingsError) -> object:
    """The path in the error's details, which its message has to hold too."""
    assert error.details is not None
    assert str(error.details["path"]) in error.message
    return error.details["path"]


def test_the_shipped_file_holds_the_defaults() -> None:
    """config/ditto.yaml gives exactly the built-in defaults."""
    assert load_settings(CONFIG / "ditto.yaml", {}) == default_settings()


def test_the_production_file_lies_over_the_defaults() -> None:
    """config/production.yaml changes what it names and leaves the rest."""
    settings = load_settings(CONFIG / "production.yaml", {})
    assert settings.context.cache.ttl_ms == 86_400_000
    assert settings.context.cache.key_prefix == default_settings().context.cache.key_prefix


BAD_KEYS = [
    ("surprise: 1", "surprise"),
    ("runtime: {surprise: 1}", "runtime.surprise"),
    ("runtime: {timeout_ms: 1}", "runtime.timeout_ms"),
    ("runtime: {timeoutMs: 0}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: 2147483648}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: '30'}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: true}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: 1.5}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: null}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: 10 10}", "runtime.timeoutMs"),
    ("runtime: {timeoutMs: '${TIMEOUT}'}", "runtime.timeoutMs"),
    ("runtime: 5", "runtime"),
    ("runtime: {shards: {count: 0}}", "runtime.shards.count"),
    ("runtime: {pipelines: {onSearchFailure: retry}}", "runtime.pipelines.onSearchFailure"),
    ("workers: {context: {policy: {maxItems: 1000001}}}", "workers.context.policy.maxItems"),
    ("workers: {context: {policy: {duplicate: ''}}}", "workers.context.policy.duplicate"),
    ("workers: {context: {concurrency: 0}}", "workers.context.concurrency"),
    ("workers: {memory: {queryLimit: 10001}}", "workers.memory.queryLimit"),
    ("workers: {infer: {generation: {temperature: 2.1}}}", "workers.infer.generation.temperature"),
    ("workers: {infer: {generation: {temperature: .nan}}}", "workers.infer.generation.temperature"),
    ("workers: {infer: {strategies: {long-cot: {rounds: 65}}}}", "workers.infer.strategies.long-cot.rounds"),
    ("workers: {interaction: {mcp: {servers: {a: {}}}}}", "workers.interaction.mcp.servers.a"),
    ("workers: {retrieval: {hybrid: {rrfK: -1}}}", "workers.retrieval.hybrid.rrfK"),
    ("shared: {providers: {main: {apiKey: secret}}}", "shared.providers.main.apiKey"),
    ("runtime: {maxTurns: 1, maxTurns: 2}", "runtime.maxTurns"),
    ("runtime: {maxTurns: 1}\nruntime: {}", "runtime"),
    ("runtime: &anchor {maxTurns: 1}", "runtime"),
    ("runtime: {maxTurns: *anchor}", "runtime.maxTurns"),
    ("runtime: {1: 2}", "runtime"),
    ("runtime: {maxTurns: 2026-01-01}", "runtime.maxTurns"),
    ("", "ditto.yaml"),
    ("# nothing but a comment", "ditto.yaml"),
    ("- a list", "ditto.yaml"),
    ("runtime: [", "ditto.yaml"),
    ("runtime: {}\n---\nruntime: {}", "ditto.yaml"),
    ("runtime: !!python/name:os.system {}", "runtime"),
]


@pytest.mark.parametrize(("text", "path"), BAD_KEYS, ids=[text[:40] for text, _ in BAD_KEYS])
def test_a_bad_file_stops_the_start_with_the_key(tmp_path: Path, text: str, path: str) -> None:
    """A key that is unknown, doubled, aliased or out of range is named by its path."""
    assert path_of(refusal(written(tmp_path, text))) == path


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    """A file that was named and is not there is an error, not the defaults."""
    assert path_of(refusal(tmp_path / "absent.yaml")) == "absent.yaml"
    assert path_of(refusal(None, {"DITTO_CONFIG": str(tmp_path / "absent.yaml")})) == "absent.yaml"


def test_a_file_of_other_bytes_stops_the_start(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused by name."""
    (tmp_path / "latin.yaml").write_bytes(b"runtime: {}  # caf\xe9")
    assert path_of(refusal(tmp_path / "latin.yaml")) == "latin.yaml"


def test_the_later_file_wins_key_by_key(tmp_path: Path) -> None:
    """Files of DITTO_CONFIG are laid over each other: mappings merge, everything else is replaced."""
    base = written(tmp_path, "runtime: {maxTurns: 1, shards: {count: 4, leaseMs: 900}}", "base.yaml")
    over = written(tmp_path, "runtime: {shards: {count: 8}}", "over.yaml")
    settings = load_settings(None, {"DITTO_CONFIG": f"{base}, {over}"})
    assert (settings.runtime.max_turns, settings.runtime.shards.count) == (1, 8)
    assert settings.runtime.shards.lease_ms == 900


def test_a_named_file_wins_over_the_environment(tmp_path: Path) -> None:
    """The `path` argument is read in place of DITTO_CONFIG."""
    named = written(tmp_path, "runtime: {maxTurns: 3}")
    assert load_settings(named, {"DITTO_CONFIG": "absent.yaml"}).runtime.max_turns == 3


def test_nothing_in_the_snapshot_can_be_assigned() -> None:
    """Settings are frozen at every level."""
    settings = default_settings()
    for group in (settings, settings.runtime, settings.runtime.shards, settings.connections, settings.shared):
        with pytest.raises(ValidationError):
            setattr(group, next(iter(type(group).model_fields)), None)


def test_the_provider_table_cannot_be_changed() -> None:
    """The mapping of providers refuses a new entry."""
    providers = default_settings().shared.providers
    with pytest.raises(TypeError):
        providers["other"] = None  # type: ignore[index]  # the very thing that must fail


def test_a_dotenv_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `.env` file in the working directory has no effect."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "DITTO_DEPLOYMENT=from-the-file", ".env")
    assert load_settings(None, {}).connections.deployment == "default"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `env` the variables of the process count."""
    monkeypatch.setenv("DITTO_DEPLOYMENT", "here")
    assert load_settings().connections.deployment == "here"


@pytest.mark.parametrize(("timeout_s", "enough"), [(60.0, False), (60.1, True)])
def test_the_broker_must_wait_for_twice_the_longest_task(timeout_s: float, enough: bool) -> None:
    """A visibility timeout up to twice the longest task is refused, a longer one is not."""
    settings: Settings = default_settings()
    assert settings.longest_task_ms == 30_000
    if enough:
        check_visibility_timeout(settings, timeout_s)
        return
    with pytest.raises(SettingsError, match="visibility_timeout"):
        check_visibility_timeout(settings, timeout_s)
