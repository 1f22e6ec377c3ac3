"""A deployment for tests of flows: a scripted model, tools that act, and what such a model streams."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.settings import Settings, load_settings
from support.flows_extension import NAME, TOOLS
from support.mcp_server import SCRIPT
from support.provider_server import ProviderServer, Reply, as_events, chat_chunk, hang
from support.workers import WorkerProcess, environment

YAML = """
runtime: {{maxTurns: 5, shards: {{leaseMs: 1000}}}}
workers: {{interaction: {{mcp: {{servers: {{files: {{command: ["{python}", "{script}", "good"]}}}}}}}}}}
"""


@dataclass(frozen=True)
class FlowDeployment:
    """Where a client, workers and the model meet."""

    server: EmbeddedServer
    provider: ProviderServer
    variables: Mapping[str, str]
    settings: Settings

    def worker(self, name: str = "w1") -> WorkerProcess:
        """A worker of everything, not yet started."""
        return WorkerProcess(self.server, env=self.variables, name=name)


@contextmanager
def flow_deployment(*, memory: bool = False) -> Iterator[FlowDeployment]:
    """A deployment without workers, and without memories unless asked for."""
    with EmbeddedServer() as server, ProviderServer(hang()) as provider, TemporaryDirectory() as folder:
        config = Path(folder) / "ditto.yaml"
        config.write_text(YAML.format(python=sys.executable, script=SCRIPT))
        variables = environment(
            server,
            DITTO_CONFIG=str(config),
            DITTO_EXTENSIONS=NAME,
            **({"DITTO_WORKER_MEMORY_URL": f"sqlite:///{folder}/memory.db"} if memory else {}),
            DITTO_SHARED_PROVIDERS="main",
            DITTO_SHARED_PROVIDER_MAIN_KIND="openai",
            DITTO_SHARED_PROVIDER_MAIN_BASE_URL=provider.url,
            DITTO_SHARED_PROVIDER_MAIN_API_KEY="k",
            DITTO_SHARED_PROVIDER_MAIN_MODEL="m",
            DITTO_SHARED_SANDBOX_ALLOW_TOOLS=",".join(TOOLS),
            DITTO_SHARED_SANDBOX_ALLOW_MCP="files",
        )
        yield FlowDeployment(server, provider, variables, load_settings(None, variables))


def says(*parts: str, tokens: int = 3, pause_s: float = 0.0) -> Reply:
    """The model's answer, streamed in these parts."""
    return _streamed([{"content": part} for part in parts], "stop", tokens, pause_s)


def wants(*calls: tuple[str, str, object], tokens: int = 3) -> Reply:
    """The model asks for calls: id (made unique), name, arguments."""
    asked = [
        {
            "index": at,
            "id": f"{key}.{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (key, name, given) in enumerate(calls)
    ]
    return _streamed([{"tool_calls": asked}], "tool_calls", tokens, 0.0)


def _streamed(deltas: list[object], finish: str, tokens: int, pause_s: float) -> Reply:
    usage = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "total_tokens": tokens}
    last = {"choices": [], "usage": usage}
    chunks = [*(chat_chunk(delta) for delta in deltas), chat_chunk({}, finish=finish), last]
    return as_events(chunks, pause_s=pause_s)
