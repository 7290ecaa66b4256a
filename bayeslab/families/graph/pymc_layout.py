"""Lines of a script: a statement that is too long is broken into one line for each argument, item or term."""

from __future__ import annotations

import ast

__all__ = ["statement_lines"]

_WIDTH = 110


def statement_lines(head: str, tree: ast.expr, indent: str) -> list[str]:
    """The lines of a statement: one, or, if it is too long, one for each argument or item."""
    return _broken(head, tree, "", indent)


def _broken(head: str, tree: ast.expr, end: str, indent: str) -> list[str]:
    line = f"{head}{ast.unparse(tree)}{end}"
    inner, parts = f"{indent}    ", list[tuple[str, ast.expr]]()
    if isinstance(tree, ast.Call):
        opening, closing = f"{ast.unparse(tree.func)}(", ")"
        parts = [("", argument) for argument in tree.args]
        parts += [(f"{named.arg}=", named.value) for named in tree.keywords]
    elif isinstance(tree, ast.List):
        opening, closing = "[", "]"
        parts = [("", item) for item in tree.elts]
    elif isinstance(tree, ast.BinOp) and len(line) > _WIDTH and len(terms := _terms(tree)) > 1:
        first, *others = terms
        lines = [f"{inner}{ast.unparse(first[1])}", *(f"{inner}{sign} {ast.unparse(term)}" for sign, term in others)]
        return [f"{head}(", *lines, f"{indent}){end}"]
    elif isinstance(tree, ast.Subscript) and len(line) > _WIDTH and len(_terms(tree.value)) > 1:
        index = ast.unparse(ast.Subscript(ast.Name("x"), tree.slice))[1:]
        lines = _broken(head, tree.value, f"{index}{end}", indent)
        return lines if len(lines) > 1 else [line]
    if len(line) <= _WIDTH or not parts:
        return [line]
    broken = [part for name, value in parts for part in _broken(f"{inner}{name}", value, ",", inner)]
    return [f"{head}{opening}", *broken, f"{indent}{closing}{end}"]


def _terms(tree: ast.expr) -> list[tuple[str, ast.expr]]:
    """The terms of a sum with their signs."""
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Add | ast.Sub):
        return [("+", tree)]
    sign = "+" if isinstance(tree.op, ast.Add) else "-"
    if isinstance(tree.right, ast.BinOp) and isinstance(tree.right.op, ast.Add | ast.Sub):
        return [("+", tree)]  # the right side would need brackets
    return [*_terms(tree.left), (sign, tree.right)]
