"""Python code of a value in a plain PyMC script, with the names of the value's axes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from bayeslab.errors import ModelError

__all__ = ["Axis", "Code", "filled", "not_exported", "with_keywords"]


def not_exported(what: str, *path: str) -> ModelError:
    """The error of a part of a model that cannot be written in a plain PyMC script."""
    return ModelError(
        f"{what} cannot be exported to a plain PyMC script; bl.to_pymc builds the PyMC model in Python",
        path=path,
        code="unsupported",
    )


@dataclass(frozen=True)
class Code:
    """A value in the script.

    Attributes
    ----------
    tree : ast.expr
        The Python expression.
    dims : tuple of str or None
        Names of its axes; None for an axis without a name (of a literal list).
    random : bool
        Whether it depends on a random node.
    factor : str or None
        The dimension whose levels the value codes; None if the value is no factor.
    labels : ast.expr or None
        The labels of a column of levels, for comparisons with a label.
    undefined : mapping of str to int
        By dimension, the number of first rows that a ``lag`` leaves undefined.
    size : int or None
        Length of a literal list.
    given : bool
        Whether the value is a column of the data, whose cells are labels when they index.
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


@dataclass(frozen=True)
class Axis:
    """An axis of values along the states of a discrete node that is summed out.

    Attributes
    ----------
    node : str
        The discrete node.
    dims : tuple of str
        Dimensions whose cells have such a value each: those of the node, or of the rows that index it.
    cells : ast.expr or None
        The index of the node's cell for each of them; None if it is the cell at the same place.
    lag : int
        Number of cells back along the last dimension.
    """

    node: str
    dims: tuple[str, ...]
    cells: ast.expr | None = None
    lag: int = 0


class _Filled(ast.NodeTransformer):
    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self.parts[node.id]) if node.id in self.parts else node


def filled(template: str, **parts: ast.expr | str) -> ast.expr:
    """A template with code put in place of names.

    >>> ast.unparse(filled("A * B", A="x + 1", B="y"))
    '(x + 1) * y'
    """
    trees = {name: ast.parse(part, mode="eval").body if isinstance(part, str) else part for name, part in parts.items()}
    tree = _Filled(trees).visit(ast.parse(template, mode="eval").body)
    assert isinstance(tree, ast.expr)
    return tree


def with_keywords(call: ast.expr, **extra: ast.expr | None) -> ast.Call:
    """A call with more keywords; those that are None are left out."""
    assert isinstance(call, ast.Call)
    more = [ast.keyword(name, value) for name, value in extra.items() if value is not None]
    return ast.Call(call.func, call.args, [*call.keywords, *more])
