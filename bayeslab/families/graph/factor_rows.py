"""Jointly normal rows with the factor-analytic covariance W W' + diag(v): density from means and scatter.

The form is recognised in the graph, independently of the nodes' names. The kernel of factor analysis then needs no
Cholesky factor of the covariance and no pass over the rows.

References
----------
.. [1] Bartholomew, Knott, Moustaki (2011). Latent Variable Models and Factor Analysis, 3rd ed. Wiley. Chapter 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar.basic import Add, Mul
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from bayeslab.evidence import log_evidence
from bayeslab.latents.features.factor_analysis import Patterns

__all__ = ["factor_evidence"]

KERNEL = "bayeslab.latents.features.factor_kernels:factor_evidence"


def factor_evidence(drawn: Any, rows: np.ndarray) -> Any | None:
    """The log density of rows (n, D) with common mean and covariance; None if the form is another.

    Parameters
    ----------
    drawn : TensorVariable
        The random variable.
    """
    if type(drawn.owner.op).__name__ != "MvNormalRV" or rows.ndim != 2:
        return None
    mean, covariance = (_one(value) for value in drawn.owner.op.dist_params(drawn.owner))
    parts = None if mean is None or covariance is None else _parts(covariance)
    if parts is None:
        return None
    loading, variances = parts
    d, k = loading.type.shape
    if d is None or k is None or k >= d:
        return None
    flat = pt.concatenate([mean, loading.ravel(), pt.sqrt(pt.broadcast_to(variances, (d,)))])
    return log_evidence(KERNEL, pt.cast(flat, "float64"), np.array([d, k]), *Patterns.of(rows).arrays)


def _one(value: Any) -> Any | None:
    """A parameter without the axis of rows; None if it differs between rows."""
    if value.type.ndim and value.owner is not None and isinstance(value.owner.op, DimShuffle):
        (inner,) = value.owner.inputs
        if value.owner.op.new_order == ("x", *range(inner.type.ndim)):
            return inner
    return None


def _parts(covariance: Any) -> tuple[Any, Any] | None:
    """W and the variances of W W' + diag(variances), a vector or one number."""
    terms = _inputs(covariance, Add)
    if terms is None or len(terms) != 2:
        return None
    for product, rest in (terms, terms[::-1]):
        loading, variances = _square(product), _diagonal(rest)
        if loading is not None and variances is not None:
            return loading, variances
    return None


def _inputs(value: Any, kind: type) -> list[Any] | None:
    if (
        value.owner is None
        or not isinstance(value.owner.op, Elemwise)
        or not isinstance(value.owner.op.scalar_op, kind)
    ):
        return None
    return list(value.owner.inputs)


def _square(value: Any) -> Any | None:
    """W of W W'."""
    if value.owner is None or type(getattr(value.owner.op, "core_op", value.owner.op)).__name__ != "Dot":
        return None
    left, right = value.owner.inputs
    turned = right.owner is not None and isinstance(right.owner.op, DimShuffle) and right.owner.op.new_order == (1, 0)
    return left if turned and right.owner.inputs[0] is left else None


def _diagonal(value: Any) -> Any | None:
    """The variances of a diagonal matrix: of a product with a known identity."""
    factors = _inputs(value, Mul)
    if factors is None:
        return None
    for at, factor in enumerate(factors):
        known = getattr(factor, "data", None)
        if isinstance(known, np.ndarray) and known.ndim == 2 and np.array_equal(known, np.eye(len(known))):
            rest = [other for place, other in enumerate(factors) if place != at]
            # A vector along rows or columns of the identity, or one number.
            if len(rest) == 1 and True in rest[0].type.broadcastable:
                return rest[0].ravel()
    return None
