"""Truncated and censored distributions of single numbers in programs of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, maths
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.laws import Law, Scalar, beside
from bayeslab.posterior.machine.transforms import Transform, interval

__all__ = ["Censored", "Truncated"]


def _check(word: str, base: Law) -> Scalar:
    """The distribution inside, which needs tails."""
    if not isinstance(base, Scalar) or not hasattr(maths(base.word), "log_survival"):
        raise NotLowered(word, "of a distribution without tail probabilities")
    return base


def _bounded(end: Var, sign: float) -> bool:
    return not (end.constant and np.all(end.value == sign * np.inf))


def _cells(value: Var, shape: tuple[int, ...], where: np.ndarray) -> Var:
    """The cells of a parameter where a mask is true, as a vector; a number stays one."""
    return value if value.ndim == 0 else value.broadcast_to(shape)[np.nonzero(where)]


@dataclass(frozen=True, eq=False)
class _Wrapped(Law):
    """A distribution of single numbers between two ends.

    Attributes
    ----------
    base : Scalar
    lower, upper : Var
    """

    base: Scalar
    lower: Var
    upper: Var

    @property
    def discrete(self) -> bool:
        """Whether values are integers."""
        return DISTRIBUTIONS[self.base.word].discrete

    def tail(self, tail: str, x: Any) -> Var:
        """``log_cumulative`` or ``log_survival`` of the distribution inside."""
        return self.builder.log_density(f"{self.base.name}:{tail}", x, *self.base.parameters)

    def rows(self, where: np.ndarray) -> Law:
        base, shape = self.base.rows(where), (int(np.sum(where)),)
        lower, upper = (_cells(end, self.shape, where) for end in (self.lower, self.upper))
        return replace(self, base=base, shape=shape, lower=lower, upper=upper)


@dataclass(frozen=True, eq=False)
class Truncated(_Wrapped):
    """A distribution restricted to an interval."""

    @classmethod
    def of(cls, base: Law, lower: Var, upper: Var) -> Law:
        """The truncated distribution; for a normal one, ``TruncatedNormal``."""
        if isinstance(base, Scalar) and base.word == "Normal":
            return replace(base, word="TruncatedNormal", parameters=(*base.parameters, lower, upper))
        return cls(base.builder, base.shape, _check("Truncated", base), lower, upper)

    def _log_mass(self) -> Var | None:
        first, last = (self.lower - 1.0 if self.discrete else self.lower), self.upper
        above, below = _bounded(self.lower, -1.0), _bounded(self.upper, 1.0)
        if not above:
            return self.tail("log_cumulative", last) if below else None
        if not below:
            return self.tail("log_survival", first)
        low, high = self.tail("log_cumulative", first), self.tail("log_survival", last)
        under, over = self.tail("log_cumulative", last), self.tail("log_survival", first)
        # The difference of the two smaller probabilities loses no accuracy.
        elementwise = self.builder.elementwise
        left = elementwise("less", under, over)
        big, small = elementwise("where", left, under, over), elementwise("where", left, low, high)
        none = elementwise("equal", small, -np.inf)
        gap = elementwise("where", none, -1.0, small - big)
        return big + elementwise("where", none, 0.0, elementwise("log1mexp", gap))

    def log_density(self, x: Var) -> Var:
        x = x.broadcast_to(self.shape)
        out, mass = self.base.log_density(x), self._log_mass()
        if mass is not None:
            out = out - mass
        less = self.builder.elementwise
        outside = less("logical_or", less("less", x, self.lower), less("greater", x, self.upper))
        if outside.constant and not np.any(outside.value):
            return out
        return less("where", outside, -np.inf, out)

    def transform(self) -> Transform | None:
        return None if self.discrete else interval(self.lower, self.upper)

    def start(self) -> Var:
        each = self.builder.elementwise
        lower, upper = self.lower, self.upper
        if not _bounded(upper, 1.0):
            other = lower + 1.0 if _bounded(lower, -1.0) else lower
        else:
            other = (upper - lower) / 2.0 if _bounded(lower, -1.0) else upper - 1.0
        inside = self.base.start()
        fits = each("logical_and", each("greater_equal", inside, lower), each("less_equal", inside, upper))
        return each("where", fits, inside, other).broadcast_to(self.shape)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (*self.base.parameters, self.lower, self.upper)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return self._within(rng, self.shape, inputs)

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        return self._within(rng, (n, *self.shape), [beside(value, len(self.shape)) for value in inputs])

    def _within(self, rng: np.random.Generator, size: tuple[int, ...], inputs: Sequence[np.ndarray]) -> np.ndarray:
        """Draws of the base distribution by rejection of values outside the interval."""
        *parameters, lower, upper = inputs
        functions = maths(self.base.word)
        if functions is None:
            raise NotImplementedError
        draw: Callable[..., Any] = functions.draw
        out = np.asarray(draw(rng, size, *parameters), dtype=np.float64)
        for _ in range(1000):
            outside = (out < lower) | (out > upper)
            if not outside.any():
                return out
            out = np.where(outside, draw(rng, size, *parameters), out)
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Censored(_Wrapped):
    """A distribution whose values beyond an end are recorded as the end."""

    @classmethod
    def of(cls, base: Law, lower: Var, upper: Var) -> Law:
        """The censored distribution."""
        return cls(base.builder, base.shape, _check("Censored", base), lower, upper)

    def _at_ends(self, x: Var) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cells at the lower end, at the upper end, and beyond them."""
        if not (x.constant and self.lower.constant and self.upper.constant):
            raise NotLowered("Censored", "with values or bounds that depend on parameters")
        values, low, high = np.broadcast_arrays(np.zeros(self.shape), self.lower.value, self.upper.value)
        values = np.broadcast_to(x.value, self.shape)
        return values == low, values == high, (values < low) | (values > high)

    def _parts(self, x: Var) -> list[tuple[str, Any, np.ndarray]]:
        """Kernels, their values and the cells that they are for."""
        at_lower, at_upper, beyond = self._at_ends(x)
        if beyond.any():
            raise NotLowered("Censored", "values beyond the bounds")
        # A discrete variable that equals the bound is censored, too.
        last = x - 1.0 if self.discrete else x
        name, within = self.base.name, ~(at_lower | at_upper)
        return [
            (name, x, within),
            (f"{name}:log_survival", last, at_upper & ~at_lower),
            (f"{name}:log_cumulative", x, at_lower),
        ]

    def add(self, x: Var, where: np.ndarray | None = None, weight: np.ndarray | None = None) -> None:
        x = x.broadcast_to(self.shape)
        for name, value, cells in self._parts(x):
            kept = cells if where is None else cells & where
            if kept.any():
                self.builder.density(name, value, *self.base.parameters, where=kept, weight=weight)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (*self.base.parameters, self.lower, self.upper)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        *parameters, lower, upper = inputs
        return np.clip(self.base.draw(rng, parameters), lower, upper)

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        *parameters, lower, upper = inputs
        ends = (beside(end, len(self.shape)) for end in (lower, upper))
        return np.clip(self.base.draws(rng, parameters, n), *ends)

    def log_density(self, x: Var) -> Var:
        x, out = x.broadcast_to(self.shape), None
        for name, value, cells in self._parts(x):
            if cells.any():
                part = self.builder.log_density(name, value, *self.base.parameters).broadcast_to(self.shape)
                out = part if out is None else self.builder.elementwise("where", cells, part, out)
        assert out is not None
        return out
