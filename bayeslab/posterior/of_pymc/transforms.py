"""PyMC's transforms as transforms of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc.distributions.transforms as pmt
import pymc.logprob.transforms as logprob_transforms
from pytensor.graph.basic import Variable
from pytensor.tensor.type import TensorType

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import (
    CIRCULAR,
    LOG,
    LOG_ODDS,
    SIMPLEX,
    CholeskyPacked,
    Ordered,
    Transform,
    ZeroSum,
    interval,
)
from bayeslab.posterior.of_pymc.reader import Reader

__all__ = ["transform_of"]


def transform_of(reader: Reader, rv: Variable, transform: Any) -> Transform:
    """The transform of a random variable, given its parents."""
    maker = _KNOWN.get(type(transform))
    known = None if maker is None else maker(reader, rv, transform)
    return GraphTransform(reader, rv, transform) if known is None else known


@dataclass(frozen=True, eq=False)
class GraphTransform(Transform):
    """A transform that is read from PyMC's graphs.

    Attributes
    ----------
    reader : Reader
    rv : Variable
    made : pymc.logprob.transforms.Transform
    """

    reader: Reader
    rv: Any
    made: Any
    batched = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(self.made.name)

    def _applied(self, method: str, value: Var) -> Var:
        point = TensorType("float64", shape=(None,) * value.ndim)()
        reader = self.reader
        if value.builder is not reader.builder:
            reader = Reader(_builder_of(value), reader.handlers)
        reader.known[point] = value
        return reader.var(getattr(self.made, method)(point, *self.rv.owner.inputs))

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._applied("forward", self.reader.builder.constant(np.ones(shape))).shape

    def _parents(self) -> dict[Variable, Var]:
        values = {v: self.reader.value(v) for v in self.rv.owner.inputs}
        return {v: value for v, value in values.items() if isinstance(value, Var)}

    @property
    def inputs(self) -> tuple[Var, ...]:
        return tuple(self._parents().values())

    def at(self, inputs: Sequence[Var]) -> Transform:
        if not inputs:
            return self
        known = dict(zip(self._parents(), inputs, strict=True))
        return GraphTransform(Reader(_builder_of(inputs[0]), self.reader.handlers, known), self.rv, self.made)

    def backward(self, value: Var) -> Var:
        return self._applied("backward", value)

    def forward(self, x: Var) -> Var:
        return self._applied("forward", x)

    def log_jacobian(self, value: Var) -> Var:
        return self._applied("log_jac_det", value)


def _builder_of(value: Var) -> Builder:
    builder = value.builder
    assert isinstance(builder, Builder)
    return builder


def _interval(reader: Reader, rv: Variable, transform: Any) -> Transform | None:
    lower, upper = transform.args_fn(*rv.owner.inputs)
    infinite = reader.builder.constant(float("inf"))

    def end(value: Any, otherwise: Var) -> Var:
        if value is None:
            return otherwise
        return reader.var(value) if isinstance(value, Variable) else reader.builder.constant(value)

    try:
        return interval(end(lower, -infinite), end(upper, infinite))
    except NotLowered:  # bounds of which some are infinite
        return None


def _ordered(reader: Reader, rv: Variable, transform: Any) -> Transform | None:
    return Ordered(transform.positive) if transform.ascending else None


def _zero_sum(reader: Reader, rv: Variable, transform: Any) -> Transform | None:
    axes = sorted(axis if axis < 0 else axis - rv.type.ndim for axis in transform.zerosum_axes)
    return ZeroSum(len(axes)) if axes == list(range(-len(axes), 0)) else None


def _packed(reader: Reader, rv: Variable, transform: Any) -> Transform | None:
    places = reader.numbers(transform.diag_idxs)
    return CholeskyPacked(len(places)) if places is not None and rv.type.ndim == 1 else None


_KNOWN: Mapping[type, Callable[[Reader, Any, Any], Transform | None]] = {
    logprob_transforms.CircularTransform: lambda reader, rv, transform: CIRCULAR,
    logprob_transforms.IntervalTransform: _interval,
    pmt.Interval: _interval,
    logprob_transforms.LogOddsTransform: lambda reader, rv, transform: LOG_ODDS,
    logprob_transforms.LogTransform: lambda reader, rv, transform: LOG,
    logprob_transforms.SimplexTransform: lambda reader, rv, transform: SIMPLEX,
    pmt.CholeskyCovPacked: _packed,
    pmt.Ordered: _ordered,
    pmt.ZeroSumTransform: _zero_sum,
}
