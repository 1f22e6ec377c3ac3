"""Connections and credentials, which come from the environment only.

The variable names stand in one place, as the aliases of the fields below.
"""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

FACTORY: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
BROKER_SCHEMES: Final = (
    "redis",
    "rediss",
    "redis+socket",
    "redis+sentinel",
    "rediss+sentinel",  # known, and refused by name where it is used
    "sentinel",  # Celery's own
)


def _split(value: object) -> object:
    """A comma-separated list as a tuple; anything else is left to the field's own check."""
    if not isinstance(value, str):
        return value
    return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)


def _require_url(value: object) -> object:
    if isinstance(value, str) and "://" not in value:
        raise ValueError("must be a URL such as redis://host:6379/0")
    return value


def _require_broker(value: object) -> object:
    if isinstance(value, str) and value.partition("://")[0] not in BROKER_SCHEMES:
        raise ValueError("must start with redis://, rediss://, redis+socket:// or redis+sentinel://")
    return value


def _require_factory(value: str) -> str:
    if FACTORY.fullmatch(value) is None:
        raise ValueError("must be module:function, as in my_package.ditto:extension")
    return value


Url = Annotated[SecretStr, BeforeValidator(_require_url)]
BrokerUrl = Annotated[SecretStr, BeforeValidator(_require_broker), BeforeValidator(_require_url)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
TableName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Factory = Annotated[str, AfterValidator(_require_factory)]
Dimensions = Annotated[int, Field(ge=1, le=65_536)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Identifiers = Annotated[tuple[Identifier, ...], BeforeValidator(_split)]
Factories = Annotated[tuple[Factory, ...], BeforeValidator(_split)]


class FromEnvironment(BaseModel):
    """A frozen group whose fields are environment variables; each alias is the variable's name."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, hide_input_in_errors=True)

    @classmethod
    def variables(cls) -> tuple[str, ...]:
        """The names of all variables that this group reads."""
        return tuple(str(field.alias) for field in cls.model_fields.values())


class Connections(FromEnvironment):
    """Where the services are, and the keys to them."""

    deployment: Identifier = Field("default", alias="DITTO_DEPLOYMENT")
    broker_url: BrokerUrl | None = Field(None, alias="DITTO_BROKER_URL")
    result_backend_url: Url | None = Field(None, alias="DITTO_RESULT_BACKEND_URL")
    context_redis_url: Url | None = Field(None, alias="DITTO_WORKER_CONTEXT_REDIS_URL")
    memory_url: Url | None = Field(None, alias="DITTO_WORKER_MEMORY_URL")
    memory_postgres_url: Url | None = Field(None, alias="DITTO_WORKER_MEMORY_POSTGRES_URL")
    memory_postgres_table: TableName | None = Field(None, alias="DITTO_WORKER_MEMORY_POSTGRES_TABLE")
    memory_qdrant_url: Url | None = Field(None, alias="DITTO_WORKER_MEMORY_QDRANT_URL")
    memory_qdrant_collection: Identifier | None = Field(None, alias="DITTO_WORKER_MEMORY_QDRANT_COLLECTION")
    memory_qdrant_api_key: SecretStr | None = Field(None, alias="DITTO_WORKER_MEMORY_QDRANT_API_KEY")
    memory_embedding_dimensions: Dimensions | None = Field(
        None, alias="DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS"
    )
    infer_model: str | None = Field(None, alias="DITTO_WORKER_INFER_MODEL")
    infer_model_provider: str | None = Field(None, alias="DITTO_WORKER_INFER_MODEL_PROVIDER")
    embedding_base_url: Url | None = Field(None, alias="DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL")
    embedding_model: str | None = Field(None, alias="DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL")
    embedding_api_key: SecretStr | None = Field(None, alias="DITTO_WORKER_RETRIEVAL_EMBEDDING_API_KEY")
    brave_search_api_key: SecretStr | None = Field(
        None, alias="DITTO_WORKER_INTERACTION_BRAVE_SEARCH_API_KEY"
    )
    # where OUTPUT is posted; the address may hold a token
    webhook_url: Url | None = Field(None, alias="DITTO_WORKER_INTERACTION_WEBHOOK_URL")
    # "user:password" of the Flower pages
    flower_basic_auth: SecretStr | None = Field(None, alias="DITTO_FLOWER_BASIC_AUTH")
    # Flower for whoever reaches its port; never set beside a credential
    flower_without_auth: bool = Field(False, alias="DITTO_FLOWER_WITHOUT_AUTH")
    # "user:password" of `ditto metrics`
    metrics_basic_auth: SecretStr | None = Field(None, alias="DITTO_METRICS_BASIC_AUTH")
    # what workers write their logs as
    log_format: Literal["text", "json"] = Field("text", alias="DITTO_LOG_FORMAT")
    # spans by OpenTelemetry, for the provider that the process has set
    otel: bool = Field(False, alias="DITTO_OTEL")


class Sandbox(FromEnvironment):
    """What tools may do. Everything is denied until a name or a switch allows it."""

    network: Names = Field((), alias="DITTO_SHARED_SANDBOX_ALLOW_NETWORK")
    tools: Names = Field((), alias="DITTO_SHARED_SANDBOX_ALLOW_TOOLS")
    mcp: Names = Field((), alias="DITTO_SHARED_SANDBOX_ALLOW_MCP")
    read: bool = Field(False, alias="DITTO_SHARED_SANDBOX_ALLOW_READ")
    write: bool = Field(False, alias="DITTO_SHARED_SANDBOX_ALLOW_WRITE")
    execute: bool = Field(False, alias="DITTO_SHARED_SANDBOX_ALLOW_EXECUTE")


class Startup(FromEnvironment):
    """What is read before everything else."""

    # settings files, the later winning over the earlier key by key
    config: Names = Field((), alias="DITTO_CONFIG")
    # a folder of files named as variables; see credentials.py
    credentials: str | None = Field(None, alias="DITTO_CREDENTIALS")
    extensions: Factories = Field((), alias="DITTO_EXTENSIONS")
    providers: Identifiers = Field((), alias="DITTO_SHARED_PROVIDERS")
