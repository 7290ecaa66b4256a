"""Splits the function of one number into what does not change along a loop and what does.

Of ``fused(x, mu, sigma)`` with one ``sigma`` for all x, log(sigma) is computed once, before the loop. The compiler
cannot move it: it does not know that the special functions have no effects.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import Any

from bayeslab.posterior.machine.kernels.compiled_python import compiled_source

__all__ = ["split"]


def split(function: Callable[..., Any], fixed: Collection[str]) -> tuple[Any, Any, int]:
    """Compiled ``prepare(*fixed) -> numbers`` and ``item(*arguments, *numbers)``, and how many numbers there are.

    Parameters
    ----------
    function
        A function in plain Python without effects.
    fixed
        Names of arguments that do not change along the loop, in the function's order.

    Returns
    -------
    prepare, item, count
        ``prepare`` is None if ``count`` is 0.
    """
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    arguments = [argument.arg for argument in tree.args.args]
    hoister = _Hoister(tree, set(fixed), set(arguments))
    body = hoister.statements(tree.body)
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    numbers = [name for name in hoister.fixed if name in used and name not in arguments]
    name = tree.name
    item = ast.unparse(_function(f"{name}_item", [*arguments, *numbers], body))
    if not numbers:
        return None, compiled_source(item, f"{name}_item", function), 0
    result = ast.parse(f"return ({', '.join(numbers)},)").body
    prepare = ast.unparse(_function(f"{name}_prepare", [a for a in arguments if a in fixed], hoister.before + result))
    return (
        compiled_source(prepare, f"{name}_prepare", function),
        compiled_source(item, f"{name}_item", function),
        len(numbers),
    )


def _function(name: str, arguments: list[str], body: list[ast.stmt]) -> ast.Module:
    (head,) = ast.parse(f"def {name}({', '.join(arguments)}):\n    pass").body
    assert isinstance(head, ast.FunctionDef)
    head.body = body
    return ast.fix_missing_locations(ast.Module([head], []))


class _Hoister(ast.NodeTransformer):
    """Moves what depends on fixed arguments alone to the statements ``before`` the loop."""

    def __init__(self, tree: ast.FunctionDef, fixed: set[str], arguments: set[str]) -> None:
        stores = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        # Names with one value: others may hold another one later.
        self.single = {name for name in stores if stores.count(name) == 1} - arguments
        self.locals = set(stores) | arguments
        self.fixed: dict[str, None] = dict.fromkeys(sorted(fixed))
        self.before: list[ast.stmt] = []
        self.known: dict[str, str] = {}

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out = []
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # the docstring
            if isinstance(statement, ast.Assign) and self._moves(statement.value):
                names = [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                if all(name in self.single for name in names):
                    self.before.append(statement)
                    self.fixed.update(dict.fromkeys(names))
                    continue
            out.append(self.visit(statement))
        return out

    def visit_If(self, node: ast.If) -> ast.If:
        node.test = self.visit(node.test)
        node.body, node.orelse = self.statements(node.body), self.statements(node.orelse)
        return node

    def _moves(self, node: ast.expr) -> bool:
        """Whether an expression depends on fixed names, and on no others that change."""
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & self.locals
        return bool(names) and names <= self.fixed.keys()

    def visit(self, node: ast.AST) -> Any:
        numeric = isinstance(node, ast.Call | ast.BinOp) or (
            isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        )
        if numeric and self._moves(node):  # type: ignore[arg-type]
            text = ast.unparse(node)
            if text not in self.known:
                name = self.known[text] = f"fixed_{len(self.known)}"
                self.before.append(ast.parse(f"{name} = {text}").body[0])
                self.fixed[name] = None
            return ast.Name(self.known[text], ast.Load())
        return super().visit(node)
