"""The `workers` groups: the behaviour of each domain."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ditto_tasks.settings.group import Domain, Group, Limit, Milliseconds, PolicyCount, Positive

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Breadth = Annotated[int, Field(ge=1, le=16)]
Rounds = Annotated[int, Field(ge=1, le=64)]


class Policy(Group):
    """Ceilings of a context; a request can only tighten them."""

    max_inline_bytes: PolicyCount = 65_536
    max_items: PolicyCount = 256
    max_tokens: PolicyCount | None = None
    duplicate: Literal["replace", "keep-first", "reject"] = "replace"
    missing_removal: Literal["ignore", "reject"] = "ignore"


class Cache(Group):
    """How contexts are kept in Redis."""

    ttl_ms: Milliseconds = 3_600_000
    key_prefix: Annotated[str, Field(min_length=1)] = "ditto:context:"
    operation_ids: Positive = 32


class LocalCache(Group):
    """How contexts are kept in the memory of one process, for a program that opens such a store."""

    ttl_ms: Milliseconds = 3_600_000
    max_entries: Positive = 1_000


class Queue(Group):
    """The operation queue of in-process calls, for a program that opens one."""

    max_pending: Positive = 1_024


class ContextWorker(Domain):
    """The `workers.context` group."""

    policy: Policy = Policy()
    cache: Cache = Cache()
    local_cache: LocalCache = LocalCache()
    queue: Queue = Queue()


class MemoryWorker(Domain):
    """The `workers.memory` group."""

    query_limit: Limit = 100
    search_limit: Limit = 10


class Generation(Group):
    """Sampling parameters for requests that name none; None leaves the choice to the provider."""

    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Probability | None = None
    top_k: Positive | None = None
    max_tokens: Positive | None = None
    # YAML has lists only, so the tuple is built from one
    stop: Annotated[tuple[str, ...], Field(strict=False)] = ()
    seed: int | None = None


class Constraints(Group):
    """Budgets of a trajectory."""

    max_steps: Positive = 16
    max_total_tokens: Positive | None = None
    timeout_ms: Milliseconds | None = None


class ChainOfThought(Group):
    """Rounds of `cot`."""

    rounds: Rounds = 2


class LongChainOfThought(Group):
    """Rounds of `long-cot`."""

    rounds: Rounds = 4


class TreeOfThoughts(Group):
    """Shape of `tot`."""

    breadth: Breadth = 3
    depth: Breadth = 2
    beam_width: Breadth = 2


class GraphOfThoughts(Group):
    """Shape of `got`."""

    breadth: Breadth = 3
    depth: Breadth = 2


class SelfConsistency(Group):
    """Votes of `self-consistency`."""

    candidates: Rounds = 3


class Strategies(Group):
    """Defaults of the trajectory strategies, keyed by the names that requests use."""

    cot: ChainOfThought = ChainOfThought()
    long_cot: LongChainOfThought = Field(default=LongChainOfThought(), alias="long-cot")
    tot: TreeOfThoughts = TreeOfThoughts()
    got: GraphOfThoughts = GraphOfThoughts()
    self_consistency: SelfConsistency = Field(default=SelfConsistency(), alias="self-consistency")


class Deliberate(Group):
    """Defaults of REASONING.DELIBERATE."""

    mode: Literal["select", "merge", "consensus", "debate"] = "select"
    select_count: Positive = 1
    max_tokens: Positive = 4_096


class InferCache(Group):
    """The in-memory cache of INFER.CACHE.*; the one in Redis is bounded by TTLs."""

    max_entries: Positive = 1_000


class InferWorker(Domain):
    """The `workers.infer` group."""

    generation: Generation = Generation()
    constraints: Constraints = Constraints()
    strategies: Strategies = Strategies()
    deliberate: Deliberate = Deliberate()
    cache: InferCache = InferCache()


class McpServer(Group):
    """An MCP server: a command to start, or the URL of one that runs. Credentials are not for this file."""

    command: Annotated[tuple[str, ...], Field(strict=False)] = ()
    url: Annotated[str, Field(pattern=r"^https?://[^@]+$")] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either command or url")
        return self


class Mcp(Group):
    """The MCP servers by name; the sandbox must allow each as well."""

    servers: dict[str, McpServer] = Field(default_factory=dict)


class Tool(Group):
    """Bounds of one tool call."""

    timeout_ms: Milliseconds = 30_000
    max_output_bytes: Positive = 1_048_576


class Commands(Group):
    """The built-in read-only commands."""

    enabled: bool = False


class InteractionWorker(Domain):
    """The `workers.interaction` group."""

    # the folder that the commands may read; none means that there is none to read
    workspace: Annotated[str, Field(min_length=1)] | None = None
    mcp: Mcp = Mcp()
    tool: Tool = Tool()
    commands: Commands = Commands()


class Embedding(Group):
    """How texts are sent to the embedding service."""

    batch_size: Annotated[int, Field(ge=1, le=2_048)] = 64
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = None


class Hybrid(Group):
    """Reciprocal rank fusion, for an extension that makes a HybridProvider."""

    candidate_limit: Limit = 100
    rrf_k: Positive = 60


class Rerank(Group):
    """The pool that a reranker sees, for an extension that makes a RerankProvider."""

    candidate_limit: Limit = 100


class RetrievalWorker(Domain):
    """The `workers.retrieval` group."""

    search_limit: Limit = 10
    embedding: Embedding = Embedding()
    hybrid: Hybrid = Hybrid()
    rerank: Rerank = Rerank()


class Workers(Group):
    """The `workers` group."""

    context: ContextWorker = ContextWorker()
    memory: MemoryWorker = MemoryWorker()
    infer: InferWorker = InferWorker()
    interaction: InteractionWorker = InteractionWorker()
    retrieval: RetrievalWorker = RetrievalWorker()
