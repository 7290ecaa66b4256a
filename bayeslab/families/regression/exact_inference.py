"""Gaussian regressions in closed form: which ones have it, and their posterior by name."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.data.sines import Sines
from bayeslab.digits import spread_of
from bayeslab.distributions import SCALARS, Density, log_density
from bayeslab.errors import listed
from bayeslab.exact.coordinates import Observations
from bayeslab.exact.gaussian import GaussianModel, Posterior, Scale, empirical_bayes, integrate
from bayeslab.families.regression.nonlinear import NonLinear
from bayeslab.families.regression.pymc_graph import observations
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.posterior.answer import Plan

if TYPE_CHECKING:
    from bayeslab.families.regression.lowered import Lowered

__all__ = ["plan"]

_MOST = 3_000  # coefficients


class _NotExact(Exception):
    """The reason why a regression has no closed form."""


@dataclass(frozen=True, slots=True)
class _Normal:
    """A normal or (k infinite) flat prior: location, and scale k times a named scale; a fixed number if k is 0."""

    location: float
    k: float
    scale: str | None


@dataclass(frozen=True, slots=True)
class _Posed:
    """The model of the unknown coefficients.

    Attributes
    ----------
    proper : bool
        Whether all priors of coefficients are proper, so that there is an evidence.
    live : ndarray (R,)
        Which outputs are unknown; the model is of these.
    origin : ndarray (R,)
        The values of the known outputs.
    """

    model: GaussianModel
    proper: bool
    live: np.ndarray
    origin: np.ndarray


def plan(lowered: Lowered) -> Plan | str:
    """Plan of the closed form, or the reason why there is none."""
    try:
        return _Solver(lowered).plan()
    except _NotExact as reason:
        return str(reason)


class _Solver:
    def __init__(self, lowered: Lowered) -> None:
        self.lowered, self.nodes = lowered, lowered.nodes
        spec, design = lowered.spec, lowered.design
        if lowered.likelihood.distribution != "Normal":
            raise _NotExact(f"the likelihood is {spec.likelihood}, not gaussian")
        if lowered.link != "identity":
            raise _NotExact(f"the link is {lowered.link}")
        if isinstance(lowered.formula, NonLinear):
            raise _NotExact(f"the formula of {lowered.formula.response} is not linear in its parameters")
        if lowered.further:
            raise _NotExact(f"{listed(lowered.further)} has a formula, and so a value for each row")
        if spec.missing:
            raise _NotExact("a predictor has a model of its own")
        if lowered.limits is not None:
            raise _NotExact("the response is censored")
        if spec.shrinkage not in (None, "ridge"):
            raise _NotExact(f"the {spec.shrinkage} prior is not normal")
        if lowered.y is None:
            raise _NotExact("the data have no response")
        if len(design.groups) > 1:
            raise _NotExact("there are two group terms, and with the residual scale three scales")
        if design.rises:
            raise _NotExact("the steps of a monotonic effect are parameters, multiplied by its slope")
        for each in design.measured:
            raise _NotExact(f"the true values of {each.text} are parameters, multiplied by its slope")
        for several in design.members:
            raise _NotExact(f"rows have several groups in {several.title}")
        for area in design.areas:
            raise _NotExact(f"the covariance of {area.title} is not diagonal")
        for curve in design.curves:
            if isinstance(curve.basis, Sines):
                raise _NotExact(f"the covariance of {curve.title} depends on its length")
            if curve.by:
                raise _NotExact(f"the curves of {curve.title} have a scale for each level of {curve.by}")
        for group in design.groups:
            if group.student:
                raise _NotExact(f"the effects of {group.name} are Student t, not normal")
        if any(len(group.effects) > 1 for group in design.groups):
            raise _NotExact("group effects of more than one kind have more than two scales")
        size = 1 + len(design.names) + sum(len(g.labels) for g in design.groups)
        size += sum(curve.size for curve in design.curves)
        if size > _MOST:
            raise _NotExact(f"there are {size:,} coefficients")
        self.names = ["Intercept"] * design.intercept + design.names
        self.scales: dict[str, Scale | float] = {}

    def plan(self) -> Plan:
        coefficients = self._coefficients()
        self._scale("sigma")
        for prior in coefficients:
            if prior.scale is not None:
                self._scale(prior.scale)
        known = {"Intercept", "Intercept_centred", "sigma2", "precision", *self.scales}
        for name, text in self.nodes.items():
            if name not in known and "[" not in name and call_name(parse(text).tree) in SCALARS:
                raise _NotExact(f"'{name}' is a parameter of a prior that is not a scale")
        free = [name for name, scale in self.scales.items() if isinstance(scale, Scale)]
        if len(free) > 2:
            raise _NotExact(f"there are {len(free)} scales ({', '.join(free)}); at most two are integrated out")
        shown = f"quadrature over {' and '.join(free)}" if free else "no quadrature"
        posed = cache(lambda: self._posed(coefficients, free))
        return Plan(
            f"normal coefficients in closed form, {shown}",
            lambda: self._answer(posed(), free, integrate),
            (lambda: self._answer(posed(), free, empirical_bayes)) if free else None,
            probe=lambda: posed().model.probe(),
        )

    def _coefficients(self) -> list[_Normal]:
        design = self.lowered.design
        out = []
        if design.intercept:
            name = "Intercept" if self.lowered.centre is None else "Intercept_centred"
            out.append(self._normal(self.nodes[name], name))
        out += [self._normal(text, name) for text, name in zip(self.lowered.slopes, design.names, strict=True)]
        for group in design.groups:
            out += [_Normal(0.0, 1.0, f"sd_{group.name}")] * len(group.labels)
        for curve in design.curves:
            out += [_Normal(0.0, 1.0, f"sd_{curve.name}")] * curve.size
        return out

    def _normal(self, text: str, name: str) -> _Normal:
        tree = parse(text).tree
        if (number := _constant(tree)) is not None:
            return _Normal(number, 0.0, None)
        word = call_name(tree)
        if word == "Flat":
            return _Normal(0.0, np.inf, None)
        if word != "Normal" or not isinstance(tree, ast.Call):
            raise _NotExact(f"the prior of '{name}' is {text}, not normal")
        arguments = bound_arguments(tree, "Normal")
        if "tau" in arguments:
            raise _NotExact(f"the prior of '{name}' has a precision; write its scale")
        location = _constant(arguments.get("mu", ast.Constant(0)))
        if location is None:
            raise _NotExact(f"the location of the prior of '{name}' is not a number")
        k, scale = _scaled(arguments.get("sigma", ast.Constant(1)), name)
        return _Normal(location, k, scale)

    def _scale(self, name: str) -> None:
        """The prior of a scale: a number or a distribution, of the scale itself, its square or its inverse square."""
        if name in self.scales:
            return
        text = self.nodes.get(name)
        if text is None:
            raise _NotExact(f"'{name}' is not a scale with a prior of its own")
        if (number := _constant(parse(text).tree)) is not None:
            self.scales[name] = number
            return
        if name == "sigma" and "sigma2" in self.nodes:
            base, power = self._density("sigma2"), 2.0
        elif name == "sigma" and "precision" in self.nodes:
            base, power = self._density("precision"), -2.0
        else:
            base, power = self._density(name), 1.0
        density, lower, upper, proper = base
        if power != 1.0:
            if lower != 0 or np.isfinite(upper):
                raise _NotExact(f"the prior of {name} is cut off")
            inner = density

            def density(s: np.ndarray) -> np.ndarray:
                return inner(s**power) + np.log(abs(power)) + (power - 1) * np.log(s)

        if lower < 0 or (np.isfinite(upper) and lower != 0):
            raise _NotExact(f"the prior of '{name}' is not one of a scale")
        self.scales[name] = Scale(name, density, lower, upper, proper)

    def _density(self, name: str) -> Density:
        tree = parse(self.nodes[name]).tree
        word = call_name(tree)
        if word is None or word not in SCALARS or not isinstance(tree, ast.Call):
            raise _NotExact(f"the prior of '{name}' is {self.nodes[name]}")
        arguments = {key: _constant(value) for key, value in bound_arguments(tree, word).items()}
        if any(value is None for value in arguments.values()):
            raise _NotExact(f"the prior of '{name}' depends on other parameters")
        return log_density(word, {k: v for k, v in arguments.items() if v is not None})

    def _answer(self, posed: _Posed, free: list[str], method: Callable[[GaussianModel], Posterior]) -> _Answer:
        posterior = method(posed.model)
        if not posed.proper:
            posterior = replace(posterior, log_evidence=np.nan)
        return _Answer(self.lowered, posterior, free, posed.live, posed.origin)

    def _posed(self, coefficients: list[_Normal], free: list[str]) -> _Posed:
        """The model of the unknown coefficients."""
        held = np.array([p.k == 0 for p in coefficients])
        known = np.where(held, [p.location for p in coefficients], np.nan)
        outputs, origin = self._outputs(len(held))[:, ~held], self._outputs(len(held))[:, held] @ known[held]
        live = outputs.any(axis=1)
        loose = [p for p in coefficients if p.k != 0]
        model = self._model(loose, known, (outputs[live], origin[live]), free)
        return _Posed(model, all(np.isfinite(p.k) for p in loose), live, origin)

    def _model(
        self,
        coefficients: list[_Normal],
        known: np.ndarray,
        outputs: tuple[np.ndarray, np.ndarray],
        free: list[str],
    ) -> GaussianModel:
        lowered, size = self.lowered, len(coefficients)
        named = lowered.design.intercept + len(lowered.design.names)
        rows = [observations(lowered, None if np.isnan(known).all() else known[:named])]
        classes: list[str | None] = ["sigma"]
        for word in dict.fromkeys(p.scale for p in coefficients):
            k = np.array([p.k if p.scale == word else np.inf for p in coefficients])
            chosen = np.isfinite(k)
            if not chosen.any():
                continue
            location = np.array([p.location for p in coefficients])
            rows.append(Observations.normal(np.flatnonzero(chosen), location[chosen], k[chosen], size))
            classes.append(word)

        def factors(values: list[np.ndarray]) -> np.ndarray:
            known = dict(zip(free, values, strict=False))
            fixed = {name: scale for name, scale in self.scales.items() if not isinstance(scale, Scale)}
            one = np.ones_like(values[0])
            return np.stack([one if c is None else known[c] if c in known else one * fixed[c] for c in classes], axis=1)

        scales = [scale for name in free if isinstance(scale := self.scales[name], Scale)]
        parts = [[part] for part in rows]
        return GaussianModel.of(parts, factors, scales, self._guesses(free), *outputs)

    def _guesses(self, free: list[str]) -> list[float]:
        assert self.lowered.y is not None
        spread = spread_of(self.lowered.y, self.lowered.design.counts)
        return [spread if name == "sigma" else spread / 3 if name.startswith("sd_") else 1.0 for name in free]

    def _outputs(self, size: int) -> np.ndarray:
        """The raw intercept and the centred one, the slopes, the group effects, the coefficients of smooths."""
        wanted = np.eye(size)
        centre = self.lowered.centre
        if centre is not None:
            raw = wanted[0].copy()
            raw[1 : 1 + len(centre)] = -centre
            wanted = np.vstack([raw, wanted])
        return wanted


def _constant(tree: ast.expr) -> float | None:
    """The value of a numeric expression, with signs and arithmetic."""
    match tree:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = _constant(inner)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _constant(left), _constant(right)
            if a is None or b is None:
                return None
            return _arithmetic(a, op, b)
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner]):
            value = _constant(inner)
            return None if value is None or value < 0 else float(np.sqrt(value))
    return None


def _arithmetic(a: float, op: ast.operator, b: float) -> float | None:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b if b else None
        case ast.Pow():
            try:
                return math.pow(a, b)
            except (OverflowError, ValueError):  # not a number: evaluation reports it
                return None
    return None


def _scaled(tree: ast.expr, name: str) -> tuple[float, str | None]:
    """A scale as a number times at most one parameter."""
    number = _constant(tree)
    if number is not None:
        return number, None
    match tree:
        case ast.Name(id=scale):
            return 1.0, scale
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for one, other in ((left, right), (right, left)):
                factor = _constant(one)
                if factor is not None:
                    k, word = _scaled(other, name)
                    return factor * k, word
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            divisor = _constant(right)
            if divisor:
                k, word = _scaled(left, name)
                return k / divisor, word
    raise _NotExact(f"the scale of the prior of '{name}' is not a number times a parameter")


@dataclass(frozen=True, eq=False)
class _Answer:
    """The posterior by name.

    Attributes
    ----------
    live : ndarray (R,)
        Which outputs are unknown; the posterior is of these.
    origin : ndarray (R,)
        The values of the known outputs.
    """

    lowered: Lowered
    posterior: Posterior
    free: list[str]
    live: np.ndarray
    origin: np.ndarray

    @cached_property
    def _layout(self) -> dict[str, tuple[tuple[str, ...], slice | int]]:
        """Positions of each node among the outputs."""
        design, at = self.lowered.design, 0
        out: dict[str, tuple[tuple[str, ...], slice | int]] = {}
        if design.intercept:
            names = ["Intercept"] if self.lowered.centre is None else ["Intercept", "Intercept_centred"]
            for at, name in enumerate(names):
                out[name] = ((), at)
            at = len(names)
        if design.names:
            out["b"] = (("predictor",), slice(at, at + len(design.names)))
            at += len(design.names)
        for group in design.groups:
            out[f"u_{group.name}"] = ((group.name,), slice(at, at + len(group.labels)))
            at += len(group.labels)
        for curve in design.curves:
            out[f"u_{curve.name}"] = ((f"{curve.name}_wave",), slice(at, at + curve.size))
            at += curve.size
        return out

    @cached_property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        out = {name: dims for name, (dims, _) in self._layout.items()}
        return out | dict.fromkeys((*self.free, *_fixed(self.lowered), *self._powers), ())

    @property
    def _powers(self) -> dict[str, float]:
        """The parameters through which sigma was declared, as powers of it."""
        return {name: power for name, power in (("sigma2", 2.0), ("precision", -2.0)) if name in self.lowered.nodes}

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return self.lowered.data.labels

    @property
    def log_evidence(self) -> float:
        return self.posterior.log_evidence

    def _named(self, values: np.ndarray, scales: np.ndarray, *, spread: bool = False) -> dict[str, np.ndarray]:
        whole = np.zeros((*values.shape[:-1], len(self.live)))
        whole[..., ~self.live] = 0.0 if spread else self.origin[~self.live]
        whole[..., self.live] = values
        out = {name: whole[..., place] for name, (_, place) in self._layout.items()}
        return out | dict(zip(self.free, scales, strict=True))

    def mean(self) -> Mapping[str, np.ndarray]:
        return self._named(self.posterior.mean(), self.posterior.scale_moments()[0])

    def sd(self) -> Mapping[str, np.ndarray]:
        return self._named(np.sqrt(self.posterior.variance()), self.posterior.scale_moments()[1], spread=True)

    def quantile(self, probability: float) -> Mapping[str, np.ndarray]:
        scales = [self.posterior.scale_quantile(d, probability) for d in range(len(self.free))]
        return self._named(self.posterior.quantile(probability), np.array(scales))

    def draws(self, rng: np.random.Generator, n: int) -> Mapping[str, np.ndarray]:
        beta, scales = self.posterior.draws(rng, n)
        out = self._named(beta, np.array(scales).reshape(len(self.free), n))
        out |= {name: np.full(n, value) for name, value in _fixed(self.lowered).items()}
        return out | {name: out["sigma"] ** power for name, power in self._powers.items()}


def _fixed(lowered: Lowered) -> dict[str, float]:
    fixed: dict[str, float] = {}
    for name, text in lowered.nodes.items():
        value = _constant(parse(text).tree)
        if value is not None and "[" not in name:
            fixed[name] = value
    return fixed
