"""The one frozen value that the rest of the package gets."""

from collections.abc import Mapping
from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from ditto_tasks.json_values import FrozenDict, JsonObject
from ditto_tasks.settings.connections import Connections, FromEnvironment, Sandbox, Url
from ditto_tasks.settings.group import Group, Milliseconds
from ditto_tasks.settings.runtime import Runtime
from ditto_tasks.settings.workers import (
    ContextWorker,
    InferWorker,
    InteractionWorker,
    MemoryWorker,
    RetrievalWorker,
    Workers,
)


class ProviderTuning(Group):
    """Behaviour of a model provider, from the file."""

    # None is runtime.timeoutMs
    timeout_ms: Milliseconds | None = None


class ProviderConnection(FromEnvironment):
    """Connection of a model provider, from DITTO_SHARED_PROVIDER_<NAME>_…"""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = Field(alias="KIND")
    base_url: Url | None = Field(None, alias="BASE_URL")
    api_key: SecretStr | None = Field(None, alias="API_KEY")
    model: str | None = Field(None, alias="MODEL")


class Provider(BaseModel):
    """A model provider: where it is and how it is called."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)
    kind: str
    base_url: SecretStr | None = None
    api_key: SecretStr | None = None
    model: str | None = None
    timeout_ms: int | None = None


class SharedFile(Group):
    """The `shared` group of the file."""

    providers: dict[str, ProviderTuning] = Field(default_factory=dict)


class Document(Group):
    """All that a settings file can hold."""

    runtime: Runtime = Runtime()
    shared: SharedFile = SharedFile()
    workers: Workers = Workers()


def _frozen(providers: Mapping[str, Provider]) -> Mapping[str, Provider]:
    # FrozenDict is typed for JSON; that it refuses every change is what is wanted here
    return cast("Mapping[str, Provider]", FrozenDict(cast("JsonObject", providers)))


class Shared(BaseModel):
    """What several domains use."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)
    # by name; only those that DITTO_SHARED_PROVIDERS lists
    providers: Annotated[Mapping[str, Provider], AfterValidator(_frozen)] = _frozen({})
    sandbox: Sandbox = Sandbox()


class Settings(BaseModel):
    """The snapshot of file and environment; it never changes, and it never prints a credential."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    runtime: Runtime = Runtime()
    shared: Shared = Shared()
    context: ContextWorker = ContextWorker()
    memory: MemoryWorker = MemoryWorker()
    infer: InferWorker = InferWorker()
    interaction: InteractionWorker = InteractionWorker()
    retrieval: RetrievalWorker = RetrievalWorker()
    connections: Connections = Connections()
    extensions: tuple[str, ...] = ()

    @property
    def longest_task_ms(self) -> int:
        """The longest that one task may run; a broker must not redeliver it before."""
        mutation_ms = self.runtime.shards.mutation_timeout_ms
        trajectory_ms = self.infer.constraints.timeout_ms or 0
        providers_ms = (provider.timeout_ms or 0 for provider in self.shared.providers.values())
        tool_ms = self.interaction.tool.timeout_ms
        return max(self.runtime.timeout_ms, mutation_ms, trajectory_ms, tool_ms, *providers_ms)
