"""Which functions an app's code file offers: read from its text, so that nothing of it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fogctl.config import source
from fogctl.errors import FogError

_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function can be called; `most` is None where it takes any number of arguments."""

    least: int
    most: int | None

    def takes(self, count: int) -> bool:
        """Whether it can be called with that many positional arguments."""
        return self.least <= count and (self.most is None or count <= self.most)


ANY = Signature(0, None)
"""Of a name that is imported or assigned: how it can be called shows only when it runs."""


@dataclass(frozen=True, slots=True)
class Code:
    """The names a code file defines at its top level."""

    functions: dict[str, Signature]
    imports_all: bool
    """`from … import *`: any name may be there."""

    def find(self, name: str) -> Signature | None:
        """How that function can be called; None if the file does not have it."""
        return self.functions.get(name, ANY if self.imports_all else None)


def read(path: Path) -> Code:
    """The names in a code file; FogError with file and line if it is not Python."""
    text = source.read_text(path, "Python file", _LARGEST_BYTES)
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        raise FogError(f"is not valid Python: {error.msg}", file=path, line=error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise FogError(f"is not valid Python: {error or type(error).__name__}", file=path) from None
    functions: dict[str, Signature] = {}
    imports_all = False
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef):
            # A decorator may change how it is called.
            functions[node.name] = ANY if node.decorator_list else _signature(node.args)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            functions.update({target.id: ANY for target in targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports_all = imports_all or any(alias.name == "*" for alias in node.names)
            functions.update({alias.asname or alias.name.split(".")[0]: ANY for alias in node.names})
    return Code(functions, imports_all)


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the file is loaded, also those inside `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            inner: list[ast.stmt] = [
                *node.body,
                *getattr(node, "orelse", []),
                *getattr(node, "finalbody", []),
            ]
            for handler in getattr(node, "handlers", []):
                inner += handler.body
            yield from _top_level(inner)


def _signature(arguments: ast.arguments) -> Signature:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed_by_name = sum(default is None for default in arguments.kw_defaults)
    if needed_by_name:  # a stage's function is called by position only
        return Signature(1, 0)
    return Signature(positional - len(arguments.defaults), None if arguments.vararg else positional)
