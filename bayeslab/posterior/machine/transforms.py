"""Unconstrained coordinates of parameters, with PyMC's names and formulas, in programs of the machine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import cumsum, logsumexp, softmax

__all__ = [
    "CIRCULAR",
    "LOG",
    "LOG_ODDS",
    "SIMPLEX",
    "Affine",
    "CholeskyPacked",
    "Interval",
    "Ordered",
    "OrderedBetween",
    "Transform",
    "ZeroSum",
    "interval",
]


class Transform(ABC):
    """A map between a parameter and its unconstrained coordinates.

    Attributes
    ----------
    name : str
        PyMC's name, which is part of the names of the coordinates.
    batched : bool
        Whether ``forward`` accepts arrays with axes before those of a parameter.
    """

    name: ClassVar[str]
    batched: ClassVar[bool] = True

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the coordinates of a parameter."""
        return shape

    @abstractmethod
    def backward(self, value: Var) -> Var:
        """The parameter at unconstrained coordinates."""

    @abstractmethod
    def forward(self, x: Var) -> Var:
        """The unconstrained coordinates of a parameter."""

    @property
    def inputs(self) -> tuple[Var, ...]:
        """Parameters that the map depends on."""
        return ()

    def at(self, inputs: Sequence[Var]) -> Transform:
        """The map at values of these parameters."""
        return self

    @abstractmethod
    def log_jacobian(self, value: Var) -> Var | None:
        """Log Jacobian determinants of ``backward``, to be summed; None for zero."""


def _map(op: str, *values: Any) -> Var:
    builder = next(value.builder for value in values if isinstance(value, Var))
    return builder.elementwise(op, *values)


class _Log(Transform):
    name = "log"

    def backward(self, value: Var) -> Var:
        return _map("exp", value)

    def forward(self, x: Var) -> Var:
        return _map("log", x)

    def log_jacobian(self, value: Var) -> Var:
        return value


class _LogOdds(Transform):
    name = "logodds"

    def backward(self, value: Var) -> Var:
        return _map("sigmoid", value)

    def forward(self, x: Var) -> Var:
        return _map("log", x / (1.0 - x))

    def log_jacobian(self, value: Var) -> Var:
        return -_map("softplus", -value) - _map("softplus", value)


class _Circular(Transform):
    name = "circular"

    def backward(self, value: Var) -> Var:
        return _map("arctan2", _map("sin", value), _map("cos", value))

    def forward(self, x: Var) -> Var:
        return x

    def log_jacobian(self, value: Var) -> None:
        return None


class _Simplex(Transform):
    name = "simplex"

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)

    def _logits(self, value: Var) -> Var:
        return value.builder.concatenate([value, -value.sum(-1)[..., None]], -1)

    def backward(self, value: Var) -> Var:
        return softmax(self._logits(value), -1)

    def forward(self, x: Var) -> Var:
        logs = _map("log", x)
        return logs[..., :-1] - logs.mean(-1)[..., None]

    def log_jacobian(self, value: Var) -> Var:
        n = value.shape[-1] + 1
        return math.log(n) - n * logsumexp(self._logits(value), -1)


LOG, LOG_ODDS, CIRCULAR, SIMPLEX = _Log(), _LogOdds(), _Circular(), _Simplex()


@dataclass(frozen=True, eq=False)
class Interval(Transform):
    """Between two ends, of which one may be None: not bounded there."""

    lower: Var | None
    upper: Var | None
    name: ClassVar[str] = "interval"

    @property
    def inputs(self) -> tuple[Var, ...]:
        return tuple(end for end in (self.lower, self.upper) if end is not None)

    def at(self, inputs: Sequence[Var]) -> Interval:
        ends = iter(inputs)
        return Interval(*(None if end is None else next(ends) for end in (self.lower, self.upper)))

    def backward(self, value: Var) -> Var:
        if self.lower is not None and self.upper is not None:
            share = _map("sigmoid", value)
            if self.lower.constant and not np.any(self.lower.value):
                return share * self.upper  # with all digits near zero, and the density of shares by their log odds
            return share * self.upper + (1.0 - share) * self.lower
        if self.lower is not None:
            return _map("exp", value) + self.lower
        return self.upper - _map("exp", value) if self.upper is not None else value

    def forward(self, x: Var) -> Var:
        below = None if self.lower is None else _map("log", x - self.lower)
        above = None if self.upper is None else _map("log", self.upper - x)
        if below is not None and above is not None:
            return below - above
        return below if below is not None else x if above is None else above

    def log_jacobian(self, value: Var) -> Var | None:
        if self.lower is not None and self.upper is not None:
            return _map("log", self.upper - self.lower) - 2.0 * _map("softplus", -value) - value
        return None if self.lower is None and self.upper is None else value


def interval(lower: Var, upper: Var) -> Interval:
    """The transform of an interval; ends that are infinite constants are none.

    Raises
    ------
    NotLowered
        Some elements are bounded and others are not.
    """

    def end(value: Var, sign: float) -> Var | None:
        if not value.constant:
            return value
        infinite = value.value == sign * np.inf
        if infinite.any() and not infinite.all():
            raise NotLowered("interval", "bounds of which some are infinite")
        return None if infinite.any() else value

    return Interval(end(lower, -1.0), end(upper, 1.0))


@dataclass(frozen=True)
class Ordered(Transform):
    """Increasing numbers along the last axis: the first, or its logarithm, and the logarithms of the gaps."""

    positive: bool = False
    name: ClassVar[str] = "ordered"

    def backward(self, value: Var) -> Var:
        if self.positive:
            return cumsum(_map("exp", value), -1)
        return cumsum(value.builder.concatenate([value[..., :1], _map("exp", value[..., 1:])], -1), -1)

    def forward(self, x: Var) -> Var:
        first = _map("log", x[..., :1]) if self.positive else x[..., :1]
        return x.builder.concatenate([first, _map("log", x[..., 1:] - x[..., :-1])], -1)

    def log_jacobian(self, value: Var) -> Var:
        return value if self.positive else value[..., 1:]


@dataclass(frozen=True, eq=False)
class OrderedBetween(Ordered):
    """Increasing numbers between two ends: their coordinates in the interval are ordered numbers."""

    within: Interval = Interval(None, None)
    name: ClassVar[str] = "chain"

    def backward(self, value: Var) -> Var:
        return self.within.backward(super().backward(value))

    def forward(self, x: Var) -> Var:
        return super().forward(self.within.forward(x))

    def log_jacobian(self, value: Var) -> Var:
        inside = self.within.log_jacobian(super().backward(value))
        gaps = super().log_jacobian(value)
        return gaps if inside is None else gaps.sum(-1) + inside.sum(-1)


@dataclass(frozen=True, eq=False)
class Affine(Transform):
    """x = centre + step u."""

    centre: Var
    step: Var
    name: ClassVar[str] = "scaled"

    def backward(self, value: Var) -> Var:
        return self.centre + self.step * value

    def forward(self, x: Var) -> Var:
        return (x - self.centre) / self.step

    def log_jacobian(self, value: Var) -> Var:
        return _map("log", self.step).broadcast_to(value.shape)


@dataclass(frozen=True)
class ZeroSum(Transform):
    """Numbers that sum to zero along the last axes."""

    axes: int
    name: ClassVar[str] = "zerosum"

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        n = len(shape) - self.axes
        return (*shape[:n], *(length - 1 for length in shape[n:]))

    def backward(self, value: Var) -> Var:
        for axis in range(value.ndim - self.axes, value.ndim):
            n = value.shape[axis] + 1.0
            key = (slice(None),) * axis + (None,)
            total = value.sum(axis)[key]
            norm = total * (1.0 / (math.sqrt(n) + n))
            value = value.builder.concatenate([value, norm - total * (1.0 / math.sqrt(n))], axis) - norm
        return value

    def forward(self, x: Var) -> Var:
        for axis in range(x.ndim - self.axes, x.ndim):
            n = float(x.shape[axis])
            lead = (slice(None),) * axis
            norm = x[(*lead, slice(-1, None))] * (-math.sqrt(n) / (math.sqrt(n) + n))
            x = x[(*lead, slice(None, -1))] + norm
        return x

    def log_jacobian(self, value: Var) -> None:
        return None


@dataclass(frozen=True)
class CholeskyPacked(Transform):
    """A Cholesky factor packed by rows, with the logarithm of its diagonal."""

    n: int
    name: ClassVar[str] = "cholesky-cov-packed"
    batched: ClassVar[bool] = False

    @property
    def diagonal(self) -> np.ndarray:
        """Positions of the diagonal."""
        return np.cumsum(np.arange(1, self.n + 1)) - 1

    def _replaced(self, value: Var, op: str) -> Var:
        """The vector with a function of its diagonal elements in their places."""
        changed, size = _map(op, value[self.diagonal]), value.shape[0]
        place = np.arange(size)
        place[self.diagonal] = size + np.arange(self.n)
        return value.builder.concatenate([value, changed])[place]

    def backward(self, value: Var) -> Var:
        return self._replaced(value, "exp")

    def forward(self, x: Var) -> Var:
        return self._replaced(x, "log")

    def log_jacobian(self, value: Var) -> Var:
        return value[self.diagonal]
