"""Opening INFER and INTERACTION from settings: what is configured, what is refused, what is not imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from ditto_tasks.errors import SettingsError
from ditto_tasks.infer.opening import open_infer
from ditto_tasks.interaction.base import Tool
from ditto_tasks.interaction.opening import open_interaction
from ditto_tasks.settings import Settings, default_settings, load_settings

HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def settings(tmp_path: Path, yaml: str = "", **env: str) -> Settings:
    if not yaml:
        return default_settings(env)
    path = tmp_path / "ditto.yaml"
    path.write_text(yaml)
    return load_settings(path, env)


def test_base_install_needs_no_client_library() -> None:
    """Workers that only have the base install open both domains, and import no provider's client."""
    code = """
import sys
import ditto_tasks.infer.tasks, ditto_tasks.interaction.tasks
from ditto_tasks.infer.opening import open_infer
from ditto_tasks.interaction.opening import open_interaction
from ditto_tasks.settings import default_settings
nodes = open_infer(default_settings({}), {})
nodes.sample({"messages": [{"role": "user", "content": "hi"}]})
nodes.close()
open_interaction(default_settings({}), {}).close()
print([name for name in ("openai", "anthropic", "mcp", "httpx", "httpx2") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_defaults_come_from_the_settings(tmp_path: Path) -> None:
    """Timeouts, generation, constraints and strategies of the file are the worker's defaults."""
    yaml = """
runtime: {timeoutMs: 1000}
shared: {providers: {main: {timeoutMs: 90000}}}
workers:
  infer:
    generation: {temperature: 0.5}
    constraints: {maxSteps: 3}
    strategies: {cot: {rounds: 1}}
    deliberate: {maxTokens: 7}
"""
    env = {"DITTO_SHARED_PROVIDERS": "main", "DITTO_SHARED_PROVIDER_MAIN_KIND": "extractive"}
    nodes = open_infer(settings(tmp_path, yaml, **env), {})
    given = {**HELLO, "strategy": {"name": "cot"}}
    trajectory = nodes.trajectory(given)
    assert trajectory.status == "success"
    assert len(trajectory.output["steps"]) == 1
    defaults = nodes._defaults
    assert (defaults.timeout_ms, defaults.longest_ms) == (1_000, 90_000)
    assert (defaults.generation.temperature, defaults.constraints.max_steps) == (0.5, 3)
    assert defaults.deliberate_max_tokens == 7


def test_configured_providers() -> None:
    """A provider of each kind opens with its own settings; an unknown kind is refused by its variable."""
    env = {
        "DITTO_SHARED_PROVIDERS": "a, b.c",
        "DITTO_SHARED_PROVIDER_A_KIND": "openai",
        "DITTO_SHARED_PROVIDER_A_MODEL": "m",
        "DITTO_SHARED_PROVIDER_B_C_KIND": "anthropic",
        "DITTO_SHARED_PROVIDER_B_C_API_KEY": "k",
    }
    nodes = open_infer(default_settings(env), {})
    assert sorted(nodes._providers) == ["a", "b.c", "extractive"]
    nodes.close()
    env["DITTO_SHARED_PROVIDER_B_C_KIND"] = "oracle"
    with pytest.raises(SettingsError, match="DITTO_SHARED_PROVIDER_B_C_KIND"):
        open_infer(default_settings(env), {})


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind whose client library is not installed names the extra to install."""
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "ditto_tasks.infer.providers.openai_compatible", raising=False)
    env = {"DITTO_SHARED_PROVIDERS": "a", "DITTO_SHARED_PROVIDER_A_KIND": "openai"}
    with pytest.raises(SettingsError, match=r"ditto-tasks\[openai\]"):
        open_infer(default_settings(env), {})


def test_everything_is_denied_by_default() -> None:
    """Without settings no tool exists and nothing is permitted."""
    nodes = open_interaction(default_settings({}), {})
    assert nodes.registry.tools() == []
    assert nodes._actions.permissions.tools == frozenset()


def test_commands_need_a_workspace(tmp_path: Path) -> None:
    """The commands are refused without a folder, and are there with one."""
    on = "workers: {interaction: {commands: {enabled: true}}}"
    with pytest.raises(SettingsError, match="workspace"):
        open_interaction(settings(tmp_path, on), {})
    with pytest.raises(SettingsError, match="workspace"):
        open_interaction(
            settings(tmp_path, on.replace("{commands", "{workspace: /no/such/folder, commands")), {}
        )
    given = on.replace("{commands", f"{{workspace: {tmp_path}, commands")
    assert len(open_interaction(settings(tmp_path, given), {}).registry.tools()) == 14


def test_web_search_with_a_key() -> None:
    """With Brave's key there is web_search; an application's provider and tools come beside or instead."""
    env = {"DITTO_WORKER_INTERACTION_BRAVE_SEARCH_API_KEY": "k"}
    assert [tool.name for tool in open_interaction(default_settings(env), {}).registry.tools()] == [
        "web_search"
    ]
    own = Tool(name="own", description="", input_schema={}, run=lambda *_: "")
    nodes = open_interaction(default_settings({}), {"tools": [own]})
    assert [tool.name for tool in nodes.registry.tools()] == ["own"]
