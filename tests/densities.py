"""Log densities of PyMC models in tests: of parameters as they are named, with the gradient, at any point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.replace import clone_replace

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source

__all__ = ["Density", "agree", "agree_by_name", "machines_agree", "value_at"]

# Graphs are evaluated a few times: compiling them would take longer.
_MODE = Mode("py", "fast_compile")


@dataclass(frozen=True)
class Density:
    """The log density of a model's free parameters on their own scale, without Jacobians of transforms."""

    model: pm.Model
    names: tuple[str, ...]
    function: Any

    @classmethod
    def of(cls, model: pm.Model) -> Density:
        whole = model.logp(jacobian=False)
        given, inner = {}, {}
        for rv in model.free_RVs:
            value, transform = model.rvs_to_values[rv], model.rvs_to_transforms[rv]
            kind = value.type if transform is None else rv.type
            x = pt.tensor(rv.name, dtype=kind.dtype, shape=kind.shape)
            inner[rv.name] = x
            given[value] = x if transform is None else transform.forward(x, *rv.owner.inputs)
        whole = clone_replace(whole, given, rebuild_strict=False)
        slopes = pytensor.grad(whole, list(inner.values()), disconnected_inputs="ignore")
        function = pytensor.function(list(inner.values()), [whole, *slopes], mode=_MODE, on_unused_input="ignore")
        return cls(model, tuple(inner), function)

    def at(self, point: Mapping[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        """The log density and its gradient."""
        value, *slopes = self.function(*(point[name] for name in self.names))
        return float(value), dict(zip(self.names, slopes, strict=True))

    def points(self, rng: np.random.Generator, count: int, spread: float = 0.3) -> list[dict[str, np.ndarray]]:
        """Points about where chains start, spread on the scale without bounds."""
        start, symbols, outputs = self.model.initial_point(), [], []
        for rv in self.model.free_RVs:
            value, transform = self.model.rvs_to_values[rv], self.model.rvs_to_transforms[rv]
            symbols.append(value)
            outputs.append(value if transform is None else transform.backward(value, *rv.owner.inputs))
        function = pytensor.function(symbols, outputs, mode=_MODE, on_unused_input="ignore")
        out = []
        for _ in range(count):
            moved = [start[s.name] + spread * rng.normal(size=np.shape(start[s.name])) for s in symbols]
            out.append(dict(zip(self.names, function(*moved), strict=True)))
        return out


def agree(
    first: pm.Model,
    second: pm.Model,
    seed: int = 1,
    count: int = 3,
    rtol: float = 1e-9,
    constant: float = np.inf,
    names: Mapping[str, str] | None = None,
    gradient_rtol: float | None = None,
) -> None:
    """That two models have the same parameters, the same differences of log densities, and the same gradients.

    Their log densities differ by at most ``constant``, relative to their size. ``names`` are those that parameters of
    the second have in the first, where they differ. Gradients agree to ``gradient_rtol``, by default ``rtol``.
    """
    one, other = Density.of(first), Density.of(second)
    called = {name: (names or {}).get(name, name) for name in other.names}
    assert set(one.names) == set(called.values())
    at = []
    for point in one.points(np.random.default_rng(seed), count):
        value, slopes = other.at({name: point[own] for name, own in called.items()})
        at.append((one.at(point), (value, {called[name]: slope for name, slope in slopes.items()})))
    sizes = [max(1.0, abs(a[0])) for a, _ in at]
    offsets = np.array([a[0] - b[0] for a, b in at])
    assert np.all(np.abs(offsets - offsets[0]) <= rtol * np.array(sizes)), offsets
    assert np.all(np.abs(offsets) <= constant * np.array(sizes)), offsets
    for (_, mine), (_, theirs) in at:
        for name, slope in mine.items():
            size = max(1.0, float(np.abs(slope).max(initial=0.0)))
            exact = rtol if gradient_rtol is None else gradient_rtol
            np.testing.assert_allclose(theirs[name], slope, rtol=exact, atol=exact * size, err_msg=name)


def agree_by_name(
    short: pm.Model,
    whole: pm.Model,
    maps: Mapping[str, Callable[[Mapping[str, Any]], Any]] | None = None,
    *,
    seed: int = 1,
    count: int = 3,
    rtol: float = 1e-9,
    constant: float = np.inf,
) -> None:
    """That two models with other coordinates have the same density of the parameters that have names.

    Coordinates v of the second follow from those of the first, u, through the named parameters, and the density of u is
    that of v times the size of dv/du.

    Parameters
    ----------
    maps
        A free parameter of the second from the variables of the first by name; without one it is the variable of its
        name.
    """
    named = dict(zip(short.named_vars, short.replace_rvs_by_values(list(short.named_vars.values())), strict=True))
    moved = {}
    for rv in whole.free_RVs:
        value, transform = whole.rvs_to_values[rv], whole.rvs_to_transforms[rv]
        own = (maps or {}).get(rv.name, lambda given, name=rv.name: given[name])(named)
        moved[value] = own if transform is None else transform.forward(own, *rv.owner.inputs)
    other = clone_replace(whole.logp(), moved, rebuild_strict=False)
    flat = pt.concatenate([value.ravel() for value in moved.values()])
    turn = pt.concatenate([pt.atleast_2d(j) for j in _jacobians(flat, short.value_vars)], axis=1)
    outputs = [short.logp(), other, turn]
    function = pytensor.function(short.value_vars, outputs, mode=_MODE, on_unused_input="ignore")
    rng, start, offsets, sizes = np.random.default_rng(seed), short.initial_point(), [], []
    for _ in range(count):
        at = [start[v.name] + 0.3 * rng.normal(size=np.shape(start[v.name])) for v in short.value_vars]
        mine, theirs, matrix = function(*at)
        assert matrix.shape[0] == matrix.shape[1], "the two models have other numbers of parameters"
        offsets.append(float(mine) - float(theirs) - float(np.linalg.slogdet(matrix)[1]))
        sizes.append(max(1.0, abs(float(mine))))
    assert np.all(np.abs(np.array(offsets) - offsets[0]) <= rtol * np.array(sizes)), offsets
    assert np.all(np.abs(np.array(offsets)) <= constant * np.array(sizes)), offsets


def _jacobians(flat: Any, wrt: list[Any]) -> list[Any]:
    """Of a vector by each of some variables, (n, size)."""
    found = pytensor.gradient.jacobian(flat, wrt, disconnected_inputs="ignore")
    return [j.reshape((flat.shape[0], -1)) for j in found]


def machines_agree(
    first: bl.Model, second: bl.Model, data: Any, *, constant: float = np.inf, rtol: float = 1e-8, spread: float = 0.4
) -> None:
    """That two models have the same differences of log densities, and the same gradients, as programs of the machine.

    Their log densities differ by at most ``constant``, relative to their size. Points are ``spread`` about zero on the
    scale without bounds.
    """
    one, other = (MachineDensity(Source(m).posterior(data).machine_model(), _no_graph) for m in (first, second))
    rng, offsets, value = np.random.default_rng(1), list[float](), 0.0
    for _ in range(5):
        point = {key: spread * rng.standard_normal(shape) for key, shape in zip(one.names, one.shapes, strict=True)}
        (value, gradient), (expected, slopes) = one(one.flat(point)), other(other.flat(point))
        offsets.append(value - expected)
        assert abs(value - expected) <= constant * max(1, abs(value))
        mine, theirs = one.split(gradient), other.split(slopes)
        for key in one.names:
            np.testing.assert_allclose(mine[key], theirs[key], rtol=rtol, atol=rtol * np.abs(gradient).max())
    np.testing.assert_allclose(offsets, offsets[0], rtol=0, atol=1e-9 * max(1, abs(value)))


def value_at(of: MachineDensity, point: Mapping[str, Any]) -> float:
    """The log density without Jacobians, at parameters on their own scale; of a factor, at its lower triangle."""
    flat, turned = {}, 0.0
    for name, shape in zip(of.names, of.shapes, strict=True):
        if name.startswith("_chol"):
            packed = np.array(point[name.removesuffix("_packed_cholesky-cov-packed__")], float)
            diagonal = np.cumsum(np.arange(1, 1 + round((np.sqrt(8 * len(packed) + 1) - 1) / 2))) - 1
            packed[diagonal] = np.log(packed[diagonal])
            flat[name], turned = packed, turned + packed[diagonal].sum()
        elif name.endswith("_log__"):
            flat[name] = np.log(np.asarray(point[name.removesuffix("_log__")], float)).reshape(shape)
            turned += flat[name].sum()
        else:
            flat[name] = np.asarray(point[name], float).reshape(shape)
    return float(of(of.flat(flat))[0] - turned)


def _no_graph() -> Any:
    raise AssertionError("the machine knows the whole model")
