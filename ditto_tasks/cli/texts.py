"""Text files as memories: found in a folder, cut into passages that can be quoted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

from ditto_tasks.json_values import JsonObject

SUFFIXES: Final = frozenset({".md", ".txt", ".rst", ".text", ".adoc", ".org"})
MAX_FILE_BYTES: Final = 2 * 1024 * 1024  # larger ones are data rather than text to be read
PASSAGE_CHARACTERS: Final = 600  # a few paragraphs: enough to answer from, small enough to select among
_TABLE = re.compile(r"\|.*\n\|[ :|-]+(\n|$)")  # a Markdown table's head, and the rule below it


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
    for paragraph in _paragraphs(text.replace("\r\n", "\n")):
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


def _paragraphs(text: str) -> Iterator[str]:
    """What blank lines separate, and the rows of tables: read alone, a cell has to say what it is."""
    for block in text.split("\n\n"):
        table = block.strip("\n")
        if not _TABLE.match(table):
            yield block
            continue
        head, _, *rows = map(_cells, table.split("\n"))
        for row in rows:
            yield "; ".join(
                f"{name}: {cell}" if name else cell for name, cell in zip(head, row, strict=False)
            )


def _cells(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]
