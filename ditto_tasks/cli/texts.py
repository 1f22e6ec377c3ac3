"""Text files as memories: found in a folder, cut into passages that can be quoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from ditto_tasks.json_values import JsonObject

SUFFIXES: Final = frozenset({".md", ".txt", ".rst", ".text", ".adoc", ".org"})
MAX_FILE_BYTES: Final = 2 * 1024 * 1024  # larger ones are data rather than text to be read
PASSAGE_CHARACTERS: Final = 900  # a few paragraphs: enough to answer from, small enough to select among


class Passage(NamedTuple):
    """Part of a file, under the heading it stands below."""

    source: str
    number: int
    heading: str
    text: str

    def draft(self) -> JsonObject:
        """The MEMORY draft. Its key makes reading the same folder twice find what is there already."""
        metadata: JsonObject = {"source": self.source, "heading": self.heading, "kind": "passage"}
        return {"key": f"{self.source}#{self.number}", "content": self.text, "metadata": metadata}


def project_docs() -> Path:
    """The documents of the checkout that this package is run from."""
    docs = Path(__file__).parents[2] / "docs"
    if not docs.is_dir():
        raise click.UsageError("this installation has no docs folder; name one with --docs")
    return docs


def passages_in(folder: Path) -> list[Passage]:
    """The passages of all text files below a folder, in the order of their paths."""
    found = [passage for path in sorted(folder.rglob("*")) for passage in _passages_of(folder, path)]
    if not found:
        raise click.UsageError(f"no text ({', '.join(sorted(SUFFIXES))}) in {folder}")
    return found


def _passages_of(folder: Path, path: Path) -> Iterator[Passage]:
    if path.suffix.lower() not in SUFFIXES or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
        return
    source = path.relative_to(folder).as_posix()
    text = path.read_text("utf-8", "replace")
    for number, (heading, body) in enumerate(split_text(text)):
        yield Passage(source, number, heading, body)


def split_text(text: str) -> Iterator[tuple[str, str]]:
    """Passages with their headings: whole paragraphs, a new passage at every heading."""
    heading, gathered = "", ""
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        first, *rest = paragraph.strip("\n").split("\n")
        starts = first.startswith("#")
        too_long = len(gathered) + len(paragraph) > PASSAGE_CHARACTERS
        if gathered and (starts or too_long):
            yield heading, gathered
            gathered = ""
        if starts:
            heading, paragraph = first.lstrip("# ").strip(), "\n".join(rest)
        gathered = f"{gathered}\n\n{paragraph}".strip()
    if gathered:
        yield heading, gathered
