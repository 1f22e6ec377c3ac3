"""Reads settings files: YAML without the parts in which a slip goes unseen.

Refused are duplicate keys, anchors and aliases, keys that are not text, and an empty file. Nothing is
interpolated: `${HOME}` in a file is the seven characters it looks like.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml

from ditto_tasks.errors import SettingsError

YAML_TAGS = "tag:yaml.org,2002:"
TEXT_TAG = f"{YAML_TAGS}str"
PLAIN_TAGS = {"null", "bool", "int", "float", "str", "seq", "map"}


class _Reader(yaml.SafeLoader):
    """A loader that knows the path of the key at which it stands."""

    path: tuple[str, ...] = ()

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        outer = self.path
        self.path = (*outer, *_step(index))
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it out
        if getattr(event, "anchor", None) is not None:
            raise invalid(".".join(self.path), "anchors and aliases are not allowed")
        node = super().compose_node(parent, index)  # type: ignore[arg-type]  # typeshed: index is int only
        self.path = outer
        return node


def _step(index: object) -> tuple[str, ...]:
    if isinstance(index, yaml.ScalarNode):
        return (str(index.value),)
    return () if index is None else (str(index),)


def invalid(path: str, reason: str) -> SettingsError:
    """The error for one bad key; the reason never holds the value: it may be a secret in the wrong place."""
    return SettingsError("INVALID_SETTINGS", f"{path or 'settings'}: {reason}", {"path": path})


def read_yaml(file: Path) -> Mapping[str, object]:
    """The mapping in `file`, or a SettingsError naming the key (or the file) that is wrong."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise invalid(file.name, f"cannot be read ({type(exc).__name__})") from exc
    try:
        return _parse(text, file.name)
    except yaml.YAMLError as exc:
        raise invalid(file.name, f"not valid YAML{_place(exc)}") from exc


def _parse(text: str, name: str) -> Mapping[str, object]:
    reader = _Reader(text)
    try:
        root = reader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise invalid(name, "holds no settings; it must be a mapping")
        return cast("Mapping[str, object]", _plain(reader, root, ()))
    finally:
        reader.dispose()


def _plain(reader: _Reader, node: yaml.Node, path: tuple[str, ...]) -> object:
    if node.tag.removeprefix(YAML_TAGS) not in PLAIN_TAGS:
        raise invalid(".".join(path), "is neither text, number, list nor mapping")
    if isinstance(node, yaml.MappingNode):
        return _mapping(reader, node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(reader, item, (*path, str(number))) for number, item in enumerate(node.value)]
    return reader.construct_object(node)


def _mapping(reader: _Reader, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in node.value:
        if key.tag != TEXT_TAG:
            raise invalid(".".join(path), f"the key at line {key.start_mark.line + 1} is not text")
        below = (*path, key.value)
        if key.value in result:
            raise invalid(".".join(below), "given twice")
        result[key.value] = _plain(reader, value, below)
    return result


def _place(exc: yaml.YAMLError) -> str:
    mark = getattr(exc, "problem_mark", None)
    return f", line {mark.line + 1}" if mark is not None else ""
