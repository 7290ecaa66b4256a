"""Values in a script of plain PyMC: Python code with the names of its axes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from bayeslab.errors import ModelError

__all__ = ["Code", "filled", "not_exported"]


def not_exported(what: str, *path: str) -> ModelError:
    """The error of what a script of plain PyMC does not say."""
    return ModelError(
        f"{what} has no plain PyMC in a script; bl.to_pymc builds the model in Python", path=path, code="unsupported"
    )


@dataclass(frozen=True)
class Code:
    """A value in the script.

    Attributes
    ----------
    tree : ast.expr
        The Python expression.
    dims : tuple of str or None
        Names of its axes; None for one without a name (of a literal list).
    random : bool
        Whether it depends on a random node.
    factor : str or None
        Of positions in the levels of a dimension, that dimension.
    labels : ast.expr or None
        Of a column of levels, the labels themselves, to be compared with one.
    undefined : mapping of str to int
        Rows at the start of a dimension that a ``lag`` leaves without a value.
    size : int or None
        Of a literal list, its length.
    given : bool
        Whether these are cells of a column, which as an index are labels.
    """

    tree: ast.expr
    dims: tuple[str | None, ...] = ()
    random: bool = False
    factor: str | None = None
    labels: ast.expr | None = None
    undefined: Mapping[str, int] = field(default_factory=dict)
    size: int | None = None
    given: bool = False

    @property
    def text(self) -> str:
        return ast.unparse(self.tree)


class _Filled(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self.parts[node.id]) if node.id in self.parts else node


def filled(template: str, **parts: ast.expr | str) -> ast.expr:
    """Code from a template in which names stand for code.

    >>> ast.unparse(filled("A * B", A="x + 1", B="y"))
    '(x + 1) * y'
    """
    trees = {name: ast.parse(part, mode="eval").body if isinstance(part, str) else part for name, part in parts.items()}
    tree = _Filled(trees).visit(ast.parse(template, mode="eval").body)
    assert isinstance(tree, ast.expr)
    return tree
