"""Token counts without a vocabulary: rates a script, calibrated on the vocabulary that they stand for.

The rates come from a least-squares fit over interface texts in Chinese, Japanese, Korean and English, JSON,
hexadecimal and emoji, and a look at prose: paragraphs were within 10 % of the tokenizer in each of these.
A few words alone can be further off; for exact counts there is the `tokens` extra.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<mixed>(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]+)  # ids, hexadecimal
    | (?P<word>[A-Z]?[a-z]+|[A-Z]+(?![a-z])) | (?P<number>[0-9]+)
    | (?P<line>[^\S\n]*\n\s*|[ \t]{2,}) | (?P<space>\s)
    | (?P<han>[\u3400-\u9fff\uf900-\ufaff]+) | (?P<kana>[\u3040-\u30ff]+) | (?P<hangul>[\uac00-\ud7a3]+)
    | (?P<wide_mark>[\u3000-\u303f\uff00-\uffef]+) | (?P<joiner>[\u200d\ufe0f\u20e3])
    | (?P<tone>[\U0001f3fb-\U0001f3ff]) | (?P<flag>[\U0001f1e6-\U0001f1ff])
    | (?P<emoji>[\U0001f000-\U0001faff]|[\u2190-\u2bff]) | (?P<mark>[!-/:-@\[-`{-~]+)
    | (?P<letter>[\u0080-\u024f\u0370-\u04ff]+) | (?P<rare>[\U00010000-\U0010ffff]) | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_RUN: Final = re.compile(r"[A-Za-z]+|[0-9]+")
# Common characters that only traditional Chinese has: vocabularies know fewer words with them.
_TRADITIONAL: Final = frozenset(
    "們個這國學說對時會來為開關點還過發經無問題請輸檔變應處裡實際體號種類數據內網頁鏈結設資訊錯誤顯雙擊詳擁權帳戶電腦"
    "務員戰鐵門車長東書讀寫語論認識話機級線組織構產業場萬億兩聽買賣樂歡愛親媽寶貝頭臉腳髮鳥魚馬龍飛氣風雲陽陰遠進運連"
    "達擇條樣標註簡轉換圖層屬視單從與並將見覺觀於給紅綠紙終統維議證評試調談謝譯邊麼幾總嗎雖難離隨險須預領願飯館鄉醫錢錄鍵"
)
_BY_LENGTH: Final = frozenset({"han", "kana", "hangul", "wide_mark", "letter"})
_LONG_WORD: Final = 7  # letters; up to here nearly every English word is one token


@dataclass(frozen=True, slots=True)
class ScriptRates:
    """Tokens of each kind of piece; of scripts, tokens a character."""

    of: Mapping[str, float]

    def count(self, text: str) -> int:
        """The estimate, at least 1 for a text that is not empty. Takes any text."""
        found = _pieces(text)
        total = sum(self.of[kind] * amount for kind, amount in found.items())
        return math.ceil(total - 1e-9) if total else min(1, len(text))


def _pieces(text: str) -> Mapping[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for match in _PIECE.finditer(text):
        kind, piece = match.lastgroup or "other", match.group()
        if kind == "mixed":
            found["run"] += sum(map(_run_size, _RUN.findall(piece)))
        elif kind == "number":
            found["run"] += _run_size(piece)
        else:
            found[kind] += len(piece) if kind in _BY_LENGTH else 1
            if kind == "word":
                found["long_word"] += max(0, len(piece) - _LONG_WORD)
            elif kind == "mark":
                found["more_marks"] += len(piece) - 1
            elif kind == "han":
                found["traditional"] += sum(each in _TRADITIONAL for each in piece)
    return found


def _run_size(run: str) -> float:
    """Digits go by three; letters between digits make no words."""
    return -(-len(run) // 3) if run[0].isdigit() else max(1.0, len(run) * 0.53)


def _rates(**fitted: float) -> ScriptRates:
    alike = {
        "word": 1.0,
        "long_word": 0.045,
        "run": 1.0,
        "space": 0.0,
        "letter": 0.5,
        "rare": 3.0,
        "other": 2.0,
    }
    return ScriptRates(MappingProxyType({**alike, **fitted}))


O200K: Final = _rates(
    han=0.7, traditional=0.9, kana=0.66, hangul=0.685, wide_mark=0.25, joiner=1.29, tone=2.11, flag=1.58,
    emoji=1.73, mark=0.82, more_marks=0.44, line=1.09,
)  # fmt: skip
CL100K: Final = _rates(
    han=1.05, traditional=2.0, kana=0.98, hangul=1.19, wide_mark=0.34, joiner=2.17, tone=2.58, flag=1.91,
    emoji=2.57, mark=0.81, more_marks=0.46, line=1.1,
)  # fmt: skip
