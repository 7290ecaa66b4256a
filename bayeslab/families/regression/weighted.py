"""The log density of one row in the model language, for weighted rows.

Distributions of the language have no weights. For a weight other than one, a potential adds (weight - 1) times the log
density of the row.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from bayeslab.errors import ModelError
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments

__all__ = ["log_density"]

# {y} is the response; other names are parameters of the distribution.
_TEXTS = {
    "Normal": "-0.5 * ((y - mu) / sigma) ** 2 - log(sigma) - 0.9189385332046728",
    "StudentT": (
        "gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * log(nu * 3.141592653589793) - log(sigma)"
        " - (nu + 1) / 2 * log1p(((y - mu) / sigma) ** 2 / nu)"
    ),
    "Bernoulli logit_p": "y * logit_p - softplus(logit_p)",
    "Bernoulli": "where(y == 1, log(p), log1p(-p))",
    "Binomial logit_p": ("gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1) + y * logit_p - n * softplus(logit_p)"),
    "Binomial": "gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1) + y * log(p) + (n - y) * log1p(-p)",
    "Poisson": "y * log(mu) - mu - gammaln(y + 1)",
    "NegativeBinomial": (
        "gammaln(y + alpha) - gammaln(alpha) - gammaln(y + 1) + alpha * log(alpha / (alpha + mu))"
        " + y * log(mu / (alpha + mu))"
    ),
    "Beta": (
        "gammaln(nu) - gammaln(mu * nu) - gammaln((1 - mu) * nu) + (mu * nu - 1) * log(y)"
        " + ((1 - mu) * nu - 1) * log1p(-y)"
    ),
    "Gamma": "alpha * log(beta) - gammaln(alpha) + (alpha - 1) * log(y) - beta * y",
}


def log_density(text: str, outcome: str, levels: tuple[str, ...]) -> str:
    """The log density of the response as an expression.

    Parameters
    ----------
    text
        The distribution's call in the node of the response.
    outcome
        Name of the response.
    levels
        Names of the levels of the response, or ().

    Raises
    ------
    ModelError
        The distribution has no short expression.
    """
    tree = parse(text).tree
    assert isinstance(tree, ast.Call)
    word = tree.func.id if isinstance(tree.func, ast.Name) else ""
    if word in ("OrderedLogistic", "OrderedProbit"):
        return _ordered(tree, word, outcome, levels)
    given = (
        {name: ast.unparse(value) for name, value in bound_arguments(tree, word).items()} if word != "Censored" else {}
    )
    template = _TEXTS.get(f"{word} logit_p" if "logit_p" in given else word)
    if template is None:
        raise ModelError(
            f"weights beside {word} cannot be said in the language: leave out `weights`, or repeat the rows",
            path=("model", "weights"),
            code="unsupported",
        )
    response = f"({outcome} == {levels[1]!r})" if levels else outcome
    return _Filled({**given, "y": response}).text(template)


def _ordered(tree: ast.Call, word: str, outcome: str, levels: tuple[str, ...]) -> str:
    """Difference of the distribution function at consecutive cutpoints, for each level."""
    given = {name: ast.unparse(value) for name, value in bound_arguments(tree, word).items()}
    inverse = "sigmoid" if word == "OrderedLogistic" else "Phi"
    eta, cut = given["eta"], [f"{given['cutpoints']}[{k}]" for k in range(len(levels) - 1)]
    each = [f"{inverse}({cut[0]} - {eta})"]
    for low, high in pairwise(cut):
        # Both links are symmetric: compute a difference in the right tail as one in the left tail, for precision.
        right = f"{inverse}({eta} - {low}) - {inverse}({eta} - {high})"
        left = f"{inverse}({high} - {eta}) - {inverse}({low} - {eta})"
        each.append(f"where(2 * {eta} < {low} + {high}, {right}, {left})")
    each.append(f"{inverse}({eta} - {cut[-1]})")
    out = f"log({each[-1]})"
    for level, text in zip(reversed(levels[:-1]), reversed(each[:-1]), strict=True):
        out = f"where({outcome} == {level!r}, log({text}), {out})"
    return out


class _Filled(ast.NodeTransformer):
    """Substitute expressions for names."""

    def __init__(self, parts: dict[str, str]) -> None:
        self.parts = {name: parse(text).tree for name, text in parts.items()}

    def text(self, template: str) -> str:
        return ast.unparse(self.visit(parse(template).tree))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.parts.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self.visit(argument) for argument in node.args]
        return node
