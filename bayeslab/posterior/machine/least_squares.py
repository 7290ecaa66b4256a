"""Normal rows whose means are linear in few parameters: their density from a triangle instead of all rows.

With coefficients c close to the best, and y - X c = e, the rows' squares about the means, ||y - X b||², are equal to
||q - R (b - c)||² + r². The triangle [[R, q], [0, r]] is that of the QR factorisation of [X, e] (Golub and Van Loan
2013, section 5.3). So rows far from zero keep their digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import Recorder, Var
from bayeslab.posterior.machine.equal_rows import written_out

__all__ = ["add_least_squares"]


@dataclass(frozen=True, eq=False)
class _Terms:
    """The mean of each row: known numbers (n,), and products of designs (n, k) and coefficients (k,)."""

    known: np.ndarray
    products: tuple[tuple[np.ndarray, Var], ...] = ()

    def scaled(self, factor: Any) -> _Terms:
        """The terms times known numbers, one or one for each row."""
        column = np.broadcast_to(factor, self.known.shape)[:, None]
        return _Terms(self.known * factor, tuple((design * column, b) for design, b in self.products))

    def times(self, scalar: Var) -> _Terms:
        """The terms times an unknown number."""
        products = [(design, b * scalar) for design, b in self.products]
        if self.known.any():
            products.insert(0, (self.known[:, None], scalar.reshape(1)))
        return _Terms(np.zeros_like(self.known), tuple(products))


def add_least_squares(builder: Recorder, args: list[Var]) -> bool:
    """Add the log density of normal rows to the total, if their means are linear in fewer numbers than half the rows.

    Parameters
    ----------
    args
        The rows, their means and the standard deviation.

    Returns
    -------
    bool
        Whether it was added.
    """
    y, mu, sigma = args
    shape = np.broadcast_shapes(*(arg.shape for arg in args))
    if builder.repeating or any(arg.summed for arg in args) or len(shape) != 1 or not y.constant or mu.constant:
        return False
    n, spread = shape[0], sigma.broadcast_to(shape)
    values = np.broadcast_to(y.value.astype(np.float64), shape)
    if any(spread.strides) or n < _LEAST or not np.isfinite(values).all():
        return False
    terms = _terms(mu.broadcast_to(shape), n)
    if terms is None:
        return False
    k = sum(design.shape[1] for design, _ in terms.products)
    rest = values - terms.known
    if not 0 < 2 * k <= n or not all(np.isfinite(each).all() for each in (rest, *(d for d, _ in terms.products))):
        return False
    design = np.concatenate([design for design, _ in terms.products], axis=1)
    close = np.linalg.lstsq(design, rest)[0]
    triangle = np.linalg.qr(np.column_stack([design, rest - design @ close]), mode="r")
    b = builder.concatenate([b for _, b in terms.products]) - close
    scale = spread[0]
    means = [builder.constant(triangle[:k, k]), builder.matmul(triangle[:k, :k], b), scale]
    builder.root("normal", [mean.broadcast_to((k,)) for mean in means], density=True)
    # The other rows, whose squares do not depend on the coefficients.
    others = [0.0, float(n - k), float(triangle[k, k] ** 2), 0.0]
    builder.root("normal.sums", [*map(builder.constant, others), scale], density=True)
    return True


# Fewer rows than this are left as they are.
_LEAST = 16


def _terms(var: Var, n: int) -> _Terms | None:
    """The terms of an array of n rows; None if it is not linear in few numbers."""
    if var.constant:
        return _Terms(np.broadcast_to(var.value.astype(np.float64), (n,)))
    if not any(var.strides):
        return _number(var, n)
    made = written_out(var).made
    if made is None:
        return None
    if made.op == "matmul":
        design, coefficients = made.inputs
        return _Terms(np.zeros(n), ((design.value, coefficients[:, 0]),)) if design.constant else None
    if made.op not in ("add", "subtract", "multiply", "divide", "negative"):
        return None
    left, right = made.inputs[0], made.inputs[-1]
    if made.op == "multiply" and not _factor(right):
        left, right = right, left
    terms = _terms(left, n)
    if terms is None:
        return None
    if made.op == "negative":
        return terms.scaled(-1.0)
    if made.op in ("multiply", "divide"):
        if not _factor(right):
            return None
        if made.op == "divide":
            right = right.builder.elementwise("reciprocal", right if right.constant else right[0])
        return terms.scaled(right.value) if right.constant else terms.times(right[0] if right.ndim else right)
    others = _terms(right, n)
    if others is None:
        return None
    others = others.scaled(-1.0) if made.op == "subtract" else others
    return _Terms(terms.known + others.known, terms.products + others.products)


_SUMS = ("add", "subtract", "negative")


def _number(var: Var, n: int) -> _Terms:
    """The terms of an unknown number for all rows; known numbers in its sum are kept apart, since they may be large."""
    made = var.buffer.made
    if made is not None and made.op in _SUMS and made.output is not None and made.output.size == 1:
        parts = [_terms(each.broadcast_to((n,)), n) for each in made.inputs]
        if made.op != "add" and parts[-1] is not None:
            parts[-1] = parts[-1].scaled(-1.0)
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and any(part.known.any() for part in known):
            return _Terms(sum((part.known for part in known), np.zeros(n)), sum((part.products for part in known), ()))
    return _Terms(np.zeros(n), ((np.ones((n, 1)), var[:1]),))


def _factor(var: Var) -> bool:
    """Whether an array is known, or one unknown number for all rows."""
    return var.constant or not any(var.strides)
