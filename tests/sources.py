"""The project's source files as trees, for tests of what the code may and may not say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["import_nodes", "nodes", "parsed"]


def parsed(path: Path) -> ast.Module:
    """The tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def nodes(path: Path) -> Iterator[ast.AST]:
    """All nodes of a file's tree."""
    return ast.walk(parsed(path))


@cache
def import_nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The imports of a file, wherever they stand; read once a process."""
    return tuple(node for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom))
