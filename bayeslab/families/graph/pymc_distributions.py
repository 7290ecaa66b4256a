"""Calls of PyMC's distributions, in a script."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, pymc_class
from bayeslab.families.graph.pymc_code import Printer
from bayeslab.families.graph.pymc_values import Code, filled, not_exported, with_keywords
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = ["DistributionPrinter"]

# Distributions that need more than a call with their parameters.
_SPECIAL = frozenset(
    ("LKJCorr", "CAR", "ICAR", "Interpolated", "AR", "GARCH11", "RandomWalk", "MvGaussianRandomWalk",
     "MvStudentTRandomWalk", "StickBreakingWeights", "OrderedMultinomial", "MatrixNormal", "Wishart")
)  # fmt: skip


class DistributionPrinter:
    """Writes distributions whose parameters are expressions.

    Parameters
    ----------
    printer
        Writes the parameters.
    length
        The expression of a dimension's length.
    """

    def __init__(self, printer: Printer, length: Callable[[str], ast.expr]) -> None:
        self.printer, self.length = printer, length
        #: Of the distributions written since it was emptied: how many first rows have none, by dimension.
        self.undefined: dict[str, int] = {}
        self._late: tuple[str, int] | None = None

    @contextmanager
    def later_rows(self, dim: str, rows: int) -> Iterator[None]:
        """Leave the first ``rows`` along a dimension out of the parameters."""
        self._late = (dim, rows) if rows else None
        try:
            yield
        finally:
            self._late = None

    def write(self, tree: ast.expr, dims: tuple[str, ...], name: str | None) -> ast.expr:
        """The call of a distribution: of a node, or, if ``name`` is None, of a component of another distribution."""
        assert isinstance(tree, ast.Call)
        word = str(call_name(tree))
        if word in ("Truncated", "Censored"):
            return self._bounded(word, tree, dims, name)
        if word == "Mixture":
            return self._mixture(tree, dims, name)
        if word == "StickBreaking":
            return self._stick_breaking(tree, dims, name)
        entry = DISTRIBUTIONS[word]
        plain = word not in MODIFIERS and word not in _SPECIAL and not entry.distributions and not entry.lengths
        if not plain or not _is_pymc_class(word):
            raise not_exported(f"the distribution {word}")
        batch = dims[: len(dims) - entry.support]
        core_dims = dims[len(dims) - entry.support :]
        keywords = []
        for key, value in bound_arguments(tree, word).items():
            if key in entry.fixed or key == "n_zerosum_axes":
                raise not_exported(f"the argument {key} of {word}")
            parameter = self.parameter(value, batch, core_dims, entry.core.get(key, 0), apart=key in entry.apart)
            keywords.append(ast.keyword(key, parameter))
        if word in ("OrderedLogistic", "OrderedProbit"):
            keywords.append(ast.keyword("compute_p", ast.Constant(False)))
        return _call(word, name, [], keywords)

    def parameter(
        self, tree: ast.expr, batch: tuple[str, ...], core_dims: tuple[str, ...], core: int, *, apart: bool
    ) -> ast.expr:
        """A parameter: batch dimensions first, then the dimensions of one value of the parameter."""
        code = self._late_rows(self.printer.print(tree))
        if core == 0:
            (code,) = self.printer.named([code], batch) if batch else [code]
            return self.printer.aligned(code, batch)
        rest = tuple(d for d in code.dims if d not in batch or d is None)
        if len(rest) < core:
            if core == 1 and core_dims and not rest and not code.dims and not apart:
                return filled(
                    "np.full(K, A)" if not code.random else "A * np.ones(K)",
                    K=self.length(core_dims[-1]),
                    A=code.tree,
                )
            raise not_exported(f"'{ast.unparse(tree)}', one value for a vector of parameters,")
        if None in code.dims:
            return code.tree
        head = tuple(d for d in batch if d in code.dims)
        return self.printer.aligned(code, (*(batch if head else ()), *rest))

    def _late_rows(self, code: Code) -> Code:
        for dim, rows in code.undefined.items():
            self.undefined[dim] = max(self.undefined.get(dim, 0), rows)
        if self._late is None or self._late[0] not in code.dims:
            return code
        dim, rows = self._late
        index = ", ".join([*[":"] * code.dims.index(dim), f"{rows}:"])
        return replace(code, tree=filled(f"A[{index}]", A=code.tree), undefined={})

    def _bounded(self, word: str, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        given = bound_arguments(tree, word)
        keywords = []
        for side in ("lower", "upper"):
            value = given.get(side, ast.Constant(None))
            none = isinstance(value, ast.Constant) and value.value is None
            bound = ast.Constant(None) if none else self.parameter(value, dims, (), 0, apart=False)
            keywords.append(ast.keyword(side, bound))
        return _call(word, name, [self.write(given["dist"], dims, None)], keywords)

    def _stick_breaking(self, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        """PyMC's stick-breaking weights: K is the number of breaks, one less than of weights; there is no discount."""
        given = bound_arguments(tree, "StickBreaking")
        if "discount" in given:
            raise not_exported("StickBreaking with a discount")
        breaks = filled("L - 1", L=self.length(dims[-1]))
        alpha = self.parameter(given["alpha"], dims[:-1], dims[-1:], 0, apart=False)
        return _call("StickBreakingWeights", name, [], [ast.keyword("alpha", alpha), ast.keyword("K", breaks)])

    def _mixture(self, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        given = bound_arguments(tree, "Mixture")
        weights, parts = self.printer.print(given["w"]), given["comp_dists"]
        several = isinstance(parts, ast.List | ast.Tuple)
        first = parts.elts[0] if isinstance(parts, ast.List | ast.Tuple) else parts
        word = str(call_name(first))
        support = DISTRIBUTIONS[word].support if word in DISTRIBUTIONS else 0
        batch = dims[: len(dims) - support]
        component_dims = [d for d in weights.dims if d not in batch or d is None]
        if len(component_dims) != 1 or support:
            raise not_exported("a Mixture of multivariate components, or with weights along no single dimension,")
        head = tuple(d for d in batch if d in weights.dims)
        w = (
            weights.tree
            if None in weights.dims
            else self.printer.aligned(weights, (*(batch if head else ()), component_dims[0]))
        )
        if several:
            assert isinstance(parts, ast.List | ast.Tuple)
            components: ast.expr = ast.List([self.write(part, dims, None) for part in parts.elts])
        else:
            component = component_dims[0]
            if component is None:
                raise not_exported("a Mixture whose weights have no named dimension")
            components = self.write(parts, (*batch, component), None)
            assert isinstance(components, ast.Call)
            shape = ast.Tuple([self.length(d) for d in (*batch, component)])
            components = with_keywords(components, shape=shape)
        return _call("Mixture", name, [], [ast.keyword("w", w), ast.keyword("comp_dists", components)])


def _call(word: str, name: str | None, arguments: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    """``pm.Normal("x", ...)``, or ``pm.Normal.dist(...)`` without a name."""
    func = filled(f"pm.{word}" if name is not None else f"pm.{word}.dist")
    return ast.Call(func, [*([ast.Constant(name)] if name is not None else []), *arguments], keywords)


def _is_pymc_class(word: str) -> bool:
    import pymc as pm

    made = vars(pm).get(word)
    return made is not None and pymc_class(word) is made
