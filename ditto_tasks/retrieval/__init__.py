"""RETRIEVAL: search of registered targets."""

from ditto_tasks.retrieval.base import EmbeddingProvider, Reranker, RetrievalProvider
from ditto_tasks.retrieval.bridges import (
    MemoryRetrieval,
    QueuedMemoryRetrieval,
    QueuedRetrievalMemory,
    RetrievalMemory,
)
from ditto_tasks.retrieval.models import (
    Candidate,
    CandidateSource,
    Found,
    Reranked,
    RetrievalQuery,
    RetrievalRequest,
    RetrievalTarget,
)
from ditto_tasks.retrieval.nodes import RetrievalNodes
from ditto_tasks.retrieval.providers.http_embedding import HttpEmbedding
from ditto_tasks.retrieval.providers.hybrid import Branch, HybridProvider
from ditto_tasks.retrieval.providers.rerank import CosineReranker, RerankProvider
from ditto_tasks.retrieval.providers.text import TextProvider
from ditto_tasks.retrieval.providers.vector import NativeVectorProvider, VectorProvider
from ditto_tasks.retrieval.rag import retrieval_rag_strategy
from ditto_tasks.retrieval.registry import Target, TargetRegistry

__all__ = [
    "Branch",
    "Candidate",
    "CandidateSource",
    "CosineReranker",
    "EmbeddingProvider",
    "Found",
    "HttpEmbedding",
    "HybridProvider",
    "MemoryRetrieval",
    "NativeVectorProvider",
    "QueuedMemoryRetrieval",
    "QueuedRetrievalMemory",
    "RerankProvider",
    "Reranked",
    "Reranker",
    "RetrievalMemory",
    "RetrievalNodes",
    "RetrievalProvider",
    "RetrievalQuery",
    "RetrievalRequest",
    "RetrievalTarget",
    "Target",
    "TargetRegistry",
    "TextProvider",
    "VectorProvider",
    "retrieval_rag_strategy",
]
