"""Nodes of ordered vectors and of correlation matrices."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.distribution_reader import DistributionReader
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import (
    Node,
    bound_arguments,
)

__all__ = ["correlations", "ordered"]


def ordered(
    reader: DistributionReader, node: Node, word: str, tree: ast.Call, observed: Any
) -> tuple[Any, dict[str, Any]] | None:
    """The variable of an ordered vector, and its registration; None if prior draws are sorted instead."""
    if observed is not None:
        raise ModelError(f"{word}(...) is for parameters; '{node.name}' is observed", code="misplaced")
    if not node.dims:
        raise ModelError(f"{word}(...) needs a dimension: {node.name}[k]", code="bad-dimensions")
    inner = bound_arguments(tree, word)["dist"]
    assert isinstance(inner, ast.Call)
    drawn = reader.distribution(inner, node.dims)
    shape = reader.lengths(node.dims)
    if word == "PositiveOrdered":
        from bayeslab.families.graph.tails import truncated

        drawn = truncated(reader.pm.Truncated.dist(drawn, lower=0, shape=shape))
    if reader.purpose == "simulate":
        if not _exchangeable(reader, inner, node.dims[-1]):
            raise ModelError(
                f"prior draws of {word}(...) need the same parameters for every element along '{node.dims[-1]}'",
                code="unsupported",
            )
        unsorted = reader.model.register_rv(drawn, f"_{node.name}_unordered", dims=node.dims)
        value = reader.pm.Deterministic(node.name, unsorted.sort(axis=-1), dims=node.dims)
        reader.terms[node.name] = Term(value, node.dims)
        return None
    transforms = reader.pm.distributions.transforms
    extra: dict[str, Any] = {"transform": transforms.ordered}
    if word == "PositiveOrdered":
        extra = {"transform": transforms.Ordered(positive=True), "default_transform": None}
    return drawn, {"initval": _spread(drawn, shape), **extra}


def _exchangeable(reader: DistributionReader, tree: ast.Call, dim: str) -> bool:
    values = [*tree.args, *(k.value for k in tree.keywords)]
    return all(dim not in reader.evaluator.eval(v).dims and None not in reader.evaluator.eval(v).dims for v in values)


def correlations(reader: DistributionReader, node: Node, word: str, tree: ast.Call) -> None:
    """Add a correlation matrix, or the Cholesky factor of a covariance matrix, with its derived variables."""
    pm = reader.pm
    if len(node.dims) != 2 or len(set(reader.lengths(node.dims))) != 1:
        raise ModelError(
            f"{word} is a square matrix: {node.name}[dim, dim2], with dim2 a twin of dim", code="bad-dimensions"
        )
    size = reader.lengths(node.dims)[0]
    given = bound_arguments(tree, word)
    if "n" in given and reader.literal(given["n"], "n") != size:
        raise ModelError(f"{word}(n={ast.unparse(given['n'])}) on a dimension of length {size}", code="wrong-length")
    if "eta" not in given:
        raise ModelError(f"{word}() needs 'eta'", code="wrong-arguments")
    eta = reader.evaluator.symbolic(reader.evaluator.eval(given["eta"]))
    if word == "LKJCorr":
        factor = _correlation_factor(reader, node.name, eta, size)
        reader.terms[node.name] = Term(pm.Deterministic(node.name, factor @ factor.T, dims=node.dims), node.dims)
        return
    if "sd_dist" not in given:
        raise ModelError(
            "LKJCholeskyCov() needs 'sd_dist', a positive distribution such as Exponential(1)",
            code="wrong-arguments",
        )
    inner = given["sd_dist"]
    assert isinstance(inner, ast.Call)
    deviations = reader.distribution(inner, node.dims[:1])
    for suffix in ("corr", "stds"):
        if f"{node.name}_{suffix}" in reader.nodes:
            raise ModelError(
                f"'{node.name}_{suffix}' is a result of '{node.name}'; rename the other node", code="name-clash"
            )
    if reader.purpose == "simulate":
        factor = _correlation_factor(reader, node.name, eta, size)
        stds = reader.model.register_rv(deviations, f"{node.name}_stds", dims=node.dims[:1])
        chol, corr = factor * stds[:, None], factor @ factor.T
    else:
        from bayeslab.families.graph.lkj import cholesky_covariance

        chol, corr, stds = cholesky_covariance(f"{node.name}_packed", eta, size, deviations)
        stds = pm.Deterministic(f"{node.name}_stds", stds, dims=node.dims[:1])
    reader.terms[node.name] = Term(pm.Deterministic(node.name, chol, dims=node.dims), node.dims)
    reader.terms[f"{node.name}_stds"] = Term(stds, node.dims[:1])
    corr = pm.Deterministic(f"{node.name}_corr", corr, dims=node.dims)
    reader.terms[f"{node.name}_corr"] = Term(corr, node.dims)


def _correlation_factor(reader: DistributionReader, name: str, eta: Any, size: int) -> Any:
    """Cholesky factor of a matrix with an LKJ distribution, from independent partial correlations.

    The partial correlation of two variables given those before both is a Beta on (-1, 1):
    Lewandowski, Kurowicka and Joe (2009), J. Multivariate Analysis 100, section 2.4 (a C-vine).

    PyMC 6.3 is not used here. Its ``LKJCorr`` is the factor, not the matrix, and its density lacks the Jacobian between
    them. Its draws, also those of ``LKJCholeskyCov``, use a shifted Beta parameter in the onion method from the third
    variable on, so that correlations are too small. The density of its ``LKJCholeskyCov`` is correct up to a constant,
    see :mod:`bayeslab.families.graph.lkj`.
    """
    import pytensor.tensor as pt

    rows, columns = np.tril_indices(size, -1)
    alpha = eta + (size - 2 - columns) / 2.0
    drawn = reader.pm.Beta.dist(alpha, alpha, shape=len(rows))
    unit = reader.model.register_rv(drawn, f"{name}_partial")
    partial = pt.zeros((size, size))[rows, columns].set(2.0 * unit - 1.0)
    # Variance not explained by the preceding variables.
    rest = pt.concatenate([pt.ones((size, 1)), pt.cumprod(1.0 - partial**2, axis=1)[:, :-1]], axis=1)
    return (partial + pt.eye(size)) * pt.sqrt(rest)


def _spread(drawn: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An increasing starting point for an ordered vector: typical order statistics of its prior."""
    import pytensor
    from pymc.pytensorf import compile as compile_pymc

    try:
        draw = compile_pymc([], drawn, mode=pytensor.compile.mode.Mode("py", "fast_compile"), random_seed=0)
        several = np.median(np.sort([draw() for _ in range(101)], axis=-1), axis=0)
    except (NotImplementedError, ValueError):
        # A prior without draws (Flat): equally spaced.
        several = np.broadcast_to(np.arange(1.0, shape[-1] + 1.0), shape).copy()
    gaps = np.diff(several, axis=-1)
    if np.any(gaps <= 0):
        several = several + np.arange(shape[-1]) * 1e-3
    return several
