"""Images, audio and documents by the providers' documented rules: what they cost has nothing to do with
how long their base64 is.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Final

from ditto_tasks.json_values import JsonObject, JsonValue

_HEAD: Final = 65_536  # base64 characters that are looked at for a picture's size
_MP3_BYTES_A_SECOND: Final = 16_000  # 128 kbit/s
_PDF_PAGE: Final = 2_250  # tokens; documented as 1,500 to 3,000 a page
_PDF_PAGE_BYTES: Final = 50_000


@dataclass(frozen=True, slots=True)
class MediaRule:
    """How a provider charges. Tiles: `base` and so much a 512-pixel tile; else a token for `pixels`."""

    base: int = 85
    tile: int = 170
    pixels: int | None = None
    unknown: int = 765  # of a picture whose size is not in the request: as one of 1024 x 1024
    audio_a_second: int = 10

    def image(self, width: int, height: int) -> int:
        if self.pixels is not None:
            shrink = min(1.0, 1568 / max(width, height))
            return min(1_600, math.ceil(width * shrink * height * shrink / self.pixels))
        shrink = min(1.0, 2048 / max(width, height))
        width, height = math.ceil(width * shrink), math.ceil(height * shrink)
        shrink = min(1.0, 768 / min(width, height))
        tiles = math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)
        return self.base + self.tile * tiles


ANTHROPIC_RULE: Final = MediaRule(pixels=750, unknown=1_600)


def media_tokens(block: JsonObject, rule: MediaRule) -> int | None:
    """Tokens of a block that is an image, audio or document; None for any other."""
    match block:
        case {"type": "image_url", "image_url": {"detail": "low"}} if rule.pixels is None:
            return rule.base
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _image(_after_comma(url), rule)
        case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
            return _image(data, rule)
        case {"type": "image"} | {"type": "image_url"}:
            return rule.unknown
        case {"type": "input_audio", "input_audio": {"data": str(data)}}:
            return math.ceil(_seconds(data) * rule.audio_a_second)
        case {"type": "document" | "file" | "input_file"}:
            return _document(block)
    return None


def _after_comma(url: str) -> str:
    return url.partition(",")[2] if url.startswith("data:") else ""


def _image(data: str, rule: MediaRule) -> int:
    size = image_size(_head(data))
    return rule.unknown if size is None else rule.image(*size)


def _head(data: str) -> bytes:
    """The first bytes of base64; of what is none, nothing."""
    usable = data[: min(len(data), _HEAD) // 4 * 4]
    try:
        return base64.b64decode(usable)
    except ValueError:
        return b""


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG, GIF or JPEG, or None."""
    size: tuple[int, int] | None = None
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        size = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    elif data[:4] == b"GIF8" and len(data) >= 10:
        size = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    elif data[:2] == b"\xff\xd8":
        size = _jpeg_size(data)
    return size if size is not None and all(size) else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """From the first start-of-frame segment."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + max(length, 2)
    return None


def _seconds(data: str) -> float:
    """Of a WAV by its header's byte rate, else as an MP3 of 128 kbit/s."""
    head, size = _head(data), len(data) * 3 / 4
    rate = int.from_bytes(head[28:32], "little") if head[:4] == b"RIFF" and len(head) >= 32 else 0
    return size / (rate or _MP3_BYTES_A_SECOND)


def _document(block: JsonObject) -> int | None:
    """A PDF by its size in pages; a document that is text has no cost of its own."""
    source, file = block.get("source"), block.get("file")
    data: JsonValue = None
    if isinstance(source, dict) and source.get("type") == "base64":
        data = source.get("data")
    elif isinstance(file, dict):
        data = file.get("file_data")
    elif isinstance(source, dict) and source.get("type") in ("text", "content"):
        return None
    pages = math.ceil(len(data) * 3 / 4 / _PDF_PAGE_BYTES) if isinstance(data, str) else 1
    return max(1, pages) * _PDF_PAGE
