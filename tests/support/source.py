"""The package's own source as syntax trees, for the tests that hold its architecture."""

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "ditto_tasks"
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Import:
    """One imported module, wherever the statement stands (under TYPE_CHECKING too)."""

    module: str
    line: int
    in_function: bool


@dataclass(frozen=True)
class Source:
    """A Python file of this repository."""

    path: Path

    @property
    def name(self) -> str:
        """The path inside the repository, as messages show it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The dotted name; a package's `__init__` has the package's name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        """The file's text."""
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def code_lines(self) -> frozenset[int]:
        """Numbers of the lines that hold code: no blank line, comment or docstring."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(StringIO(self.text).readline):
            if token.type not in NOT_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        return frozenset(lines - self._docstring_lines())

    def _docstring_lines(self) -> set[int]:
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
                lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        return lines

    def functions(self) -> Iterator[Function]:
        """Every function and method, inner ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def length(self, function: Function) -> int:
        """Code lines of a function without its docstring."""
        last = function.end_lineno or function.lineno
        return len(self.code_lines.intersection(range(function.lineno, last + 1)))

    def imports(self) -> tuple[Import, ...]:
        """Every import by absolute name; `from a import b` gives `a.b` where that is a module of ours."""
        return self._found_imports

    @cached_property
    def _found_imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree, self, in_function=False))


def _imports(node: ast.AST, source: Source, *, in_function: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            names = _imported_from(child, source)
        yield from (Import(name, child.lineno, in_function) for name in names)  # type: ignore[attr-defined]  # an import has a line
        yield from _imports(
            child, source, in_function=in_function or isinstance(child, Function | ast.Lambda)
        )


def _imported_from(node: ast.ImportFrom, source: Source) -> list[str]:
    base = node.module or ""
    if node.level:
        package = source.module if source.path.name == "__init__.py" else source.module.rpartition(".")[0]
        parents = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parents, base] if base else parents)
    return sorted({_module_of(base, alias.name) for alias in node.names})


def _module_of(base: str, name: str) -> str:
    if base.split(".")[0] != PACKAGE:
        return base
    inner = ROOT.joinpath(*base.split("."), name)
    is_module = inner.with_suffix(".py").is_file() or (inner / "__init__.py").is_file()
    return f"{base}.{name}" if is_module else base


def sources(*folders: str) -> list[Source]:
    """All Python files under the given folders of the repository."""
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    return [Source(file) for file in files if "__pycache__" not in file.parts]
