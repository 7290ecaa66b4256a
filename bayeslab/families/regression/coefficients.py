"""Writer of the coefficients of one linear predictor: slopes, group effects, smooths, and their priors.

References
----------
.. [1] Piironen, Vehtari (2017). Sparsity information and regularization in the horseshoe and other
   shrinkage priors. Electronic Journal of Statistics 11.
.. [2] Zhang, Naughton, Bondell, Reich (2022). Bayesian regression using a prior on the model fit: the R2-D2 shrinkage
   prior. Journal of the American Statistical Association 117.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bayeslab.data.dataset import Column
from bayeslab.data.design import Design, Group
from bayeslab.data.sines import Sines
from bayeslab.digits import located, spread_of
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError, ModelError
from bayeslab.families.regression.formulas import Names
from bayeslab.families.regression.joint_effects import JointEffects
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name

__all__ = ["Coefficients", "Joint", "Parts", "Shrinkage", "numbered", "problem", "rounded"]


def problem(message: str, *path: str, code: str) -> ModelError:
    """An error of the model, with its place."""
    return ModelError(message, path=("model", *path), code=code)


def _plain(labels: np.ndarray) -> list[Any]:
    """Labels as numbers and words of Python."""
    return [x.item() if hasattr(x, "item") else x for x in labels]


def rounded(value: float) -> str:
    """A number of a default prior, to six digits."""
    return repr(float(f"{value:.6g}"))


def numbered(parameters: Sequence[str]) -> re.Pattern[str]:
    """Names of the vectors of slopes by kind of prior."""
    ends = "".join(f"|_{parameter}" for parameter in parameters)
    return re.compile(rf"(prior_location|prior_scale|prior_unit|predictor|pick)({ends[1:]})?_\d+")


@dataclass(frozen=True, eq=False)
class Parts:
    """What is written so far: nodes, columns that their priors need, dimensions."""

    nodes: dict[str, str] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    dims: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """A joint prior of the slopes.

    Attributes
    ----------
    kind : {"ridge", "lasso", "horseshoe", "r2d2"}
    sd : float
        The scale of the linear predictor.
    noise : str
        The scale of the rows about their means, in the model language.
    prior : str or None
        The prior of :attr:`parameter`; None for the default.
    """

    kind: str
    sd: float
    noise: str
    prior: str | None

    #: The parameter by which all slopes are shrunk, by kind.
    PARAMETERS: ClassVar = {"ridge": "tau", "lasso": "tau", "horseshoe": "tau", "r2d2": "R2"}

    @property
    def joint(self) -> bool:
        """Whether it is a prior of all slopes, none of which can have another."""
        return self.kind in ("horseshoe", "r2d2")


@dataclass(frozen=True, eq=False)
class Joint:
    """Group effects of several formulas that share an id and so are correlated.

    Attributes
    ----------
    name : str
        The grouping factor in names of parameters.
    id : str
    members : list of (Coefficients, Group)
        The terms, each with the coefficients of its formula.
    """

    name: str
    id: str
    members: list[tuple[Coefficients, Group]]

    @property
    def effects(self) -> list[str]:
        """The effects of all formulas: ``1`` and ``x`` of the predicted quantity, ``sigma:1`` of another parameter."""
        return [
            f"{of.names.parameter}:{effect}" if of.names.parameter else effect
            for of, group in self.members
            for effect in group.effects
        ]

    @property
    def label(self) -> str:
        """The joint effects in names of parameters."""
        return f"{self.name}_{self.id}"

    def write(self, parts: Parts, eta: str) -> None:
        """Write the sds, the correlations and the effects.

        Parameters
        ----------
        eta
            The number of the LKJ prior.
        """
        parts.dims[self.name] = _plain(next(group.labels for _, group in self.members))
        sds = [sd for of, group in self.members for sd in of.joint_sds(group)]
        joint, at = JointEffects(self.name, self.id, self.effects, sds), 0
        parts.dims.update(joint.dims())
        parts.nodes.update(joint.nodes(eta))
        for of, group in self.members:
            label, count = of.names.group(group.name), len(group.effects)
            inside = f", {label}_effect" if count > 1 else ""
            parts.nodes[f"u_{label}[{self.name}{inside}]"] = joint.part(at, count, f"{label}_effect")
            at += count


class Coefficients:
    """The slopes, group effects and smooths of one linear predictor.

    Parameters
    ----------
    parts
        Where they are written.
    priors
        Priors by name: of predictors, terms, ``b``, ``sd_g``, ``sd``, ``corr_g``.
    unit
        The scale of default priors: of the slope of a predictor with sd 1, and of the sd of groups.
    contrasts
        The dimension of categories of the coefficients, or "".
    row
        The dimension of the rows.
    shared
        Priors of parameters that several linear predictors share.
    """

    def __init__(
        self,
        parts: Parts,
        names: Names,
        design: Design,
        priors: Mapping[str, str],
        unit: float,
        *,
        response: str,
        row: str,
        shared: Mapping[str, str],
        contrasts: str = "",
        shrinkage: Shrinkage | None = None,
    ) -> None:
        self.row, self.shared = row, shared
        self.nodes, self.columns, self.dims = parts.nodes, parts.columns, parts.dims
        self.names, self.design, self.priors, self.unit = names, design, priors, unit
        self.response, self.shrinkage = response, shrinkage
        self._tail = f", {contrasts}" if contrasts else ""
        self.texts: list[str] = []

    def slopes(self) -> list[str]:
        """Write the slopes; their sum as a term of the linear predictor, or nothing without predictors."""
        names = self.design.names
        if not names:
            return []
        self.dims[self.names.of("predictor")] = list(names)
        spread = np.array([spread_of(column, self.design.counts) for column in self.design.matrix.T])
        # For any prior: sizes that the data imply.
        self._check_squares(range(len(names)), self.unit / spread)
        priors = [self.prior_of(k) for k in range(len(names))]
        if self.shrinkage is not None:
            self._shrunk(self.shrinkage, priors, spread)
        self.texts = [text or f"Normal(0, {rounded(self.unit / s)})" for text, s in zip(priors, spread, strict=True)]
        if self.shrinkage is None or not self.shrinkage.joint:
            self._written()
        return [f"{self.names.of('design')} @ {self.names.of('b')}"]

    def all(self) -> list[str]:
        """Write everything; the terms of the linear predictor."""
        return [
            *self.slopes(),
            *self.groups(),
            *self.rises(),
            *self.measured(),
            *self.curves(),
            *self.areas(),
            *self.members(),
        ]

    def prior_of(self, k: int) -> str | None:
        """The prior of a column: its own, its term's, or that of all slopes."""
        name = self.design.names[k]
        term = next((t for t, (start, stop) in self.design.terms.items() if start <= k < stop), name)
        return self.priors.get(name) or self.priors.get(term) or self.priors.get("b")

    def _check_squares(self, columns: Sequence[int], scales: np.ndarray) -> None:
        """Refuse slopes so small that their variances underflow, given the scale of each.

        Columns that would make them too large are refused elsewhere.
        """
        small = (scales > 0) & (scales < _LEAST_SLOPE)
        if np.any(small):
            at = int(np.flatnonzero(small)[0])
            name = self.design.names[columns[at]]
            raise DataError(
                f"the slope of '{name}' is of the size {scales[at]:g}; sizes from {_LEAST_SLOPE:g} can be computed"
                f" with: measure '{name}' or '{self.response}' in another unit, in data.derive",
                code="out-of-range",
            )

    def _shrunk(self, shrinkage: Shrinkage, priors: list[str | None], spread: np.ndarray) -> None:
        if shrinkage.joint:
            if any(priors):
                raise problem(
                    f"shrinkage: {shrinkage.kind} is a prior of all slopes; leave out their own priors",
                    "priors",
                    code="conflict",
                )
            write = self._horseshoe if shrinkage.kind == "horseshoe" else self._r2d2
            write(shrinkage, spread)
            return
        if all(priors):
            raise problem(
                f"every slope has a prior of its own, so that shrinkage: {shrinkage.kind} shrinks none: leave out"
                f" shrinkage, or {'priors.b' if 'b' in self.priors else 'the priors of some slopes'}",
                "shrinkage",
                code="conflict",
            )
        self.nodes["tau"] = shrinkage.prior or "HalfCauchy(1)"
        kind = "Normal" if shrinkage.kind == "ridge" else "Laplace"
        for k, text in enumerate(priors):
            priors[k] = text or f"{kind}(0, tau * {rounded(shrinkage.sd / spread[k])})"

    def _horseshoe(self, shrinkage: Shrinkage, spread: np.ndarray) -> None:
        """The regularised horseshoe [1]_, a third of the slopes (at most ten) expected to matter."""
        p, n = len(spread), self.design.total
        expected = max(1.0, min(10.0, p / 3))
        share = expected / max(p - expected, 1.0) / np.sqrt(n) / shrinkage.sd
        unit = shrinkage.sd / spread
        self.columns["unit"] = Column(unit, ("predictor",))
        self.nodes |= {
            "tau": shrinkage.prior or f"HalfCauchy({rounded(share)} * {shrinkage.noise})",
            "_slab": "InverseGamma(2, 8)",
            f"_local[predictor{self._tail}]": "HalfCauchy(1)",
            f"_raw[predictor{self._tail}]": "Normal(0, 1)",
            f"b[predictor{self._tail}]": (
                "unit * _raw * tau * _local * sqrt(_slab / (_slab + tau ** 2 * _local ** 2))"
            ),
        }

    def _r2d2(self, shrinkage: Shrinkage, spread: np.ndarray) -> None:
        """The R2-D2 prior [2]_: of the share of explained variance, which a Dirichlet divides among the slopes."""
        self.columns["unit"] = Column(1.0 / spread, ("predictor",))
        several = len(spread) > 1
        if several:
            self.nodes["_share[predictor]"] = "Dirichlet(0.5)"
        self.nodes |= {
            "R2": shrinkage.prior or "Beta(1, 1)",
            "tau": f"{shrinkage.noise} * sqrt(R2 / (1 - R2))",
            f"_raw[predictor{self._tail}]": "Normal(0, 1)",
            f"b[predictor{self._tail}]": f"unit * _raw * tau{' * sqrt(_share)' if several else ''}",
        }

    def _written(self) -> None:
        """The slopes as one vector, or assembled from one vector for each kind of prior."""
        kinds: dict[str, list[int]] = {}
        for k, text in enumerate(self.texts):
            kinds.setdefault(_kind(text), []).append(k)
        of, tail = self.names.of, self._tail
        for number, (kind, columns) in enumerate(kinds.items(), 1):
            alone = len(kinds) == 1
            name, dim = (of("b"), of("predictor")) if alone else (f"_{of('b')}_{number}", f"{of('predictor')}_{number}")
            end = "" if alone else f"_{number}"
            location, scale, unit = (f"{of(word)}{end}" for word in ("prior_location", "prior_scale", "prior_unit"))
            if kind == _NORMAL_OF_NUMBERS:
                numbers = np.array([_plain_normal(self.texts[k]) for k in columns])
                self._check_squares(columns, numbers[:, 1])
                self.columns[location] = Column(numbers[:, 0], (dim,))
                self.columns[scale] = Column(numbers[:, 1], (dim,))
                kind = f"Normal({location}, {scale})"
            elif kind.endswith("* unit)"):
                numbers = np.array([float(_SHRUNK.match(self.texts[k])[2]) for k in columns])  # type: ignore[index]
                self.columns[unit] = Column(numbers, (dim,))
                kind = kind.replace("unit", unit)
            self.nodes[f"{name}[{dim}{tail}]"] = kind
            if not alone:
                self.dims[dim] = [self.design.names[k] for k in columns]
                self.columns[f"{of('pick')}_{number}"] = Column(
                    np.eye(len(self.texts))[:, columns], (of("predictor"), dim)
                )
        if len(kinds) > 1:
            parts = [f"{of('pick')}_{number} @ _{of('b')}_{number}" for number in range(1, len(kinds) + 1)]
            self.nodes[f"{of('b')}[{of('predictor')}{tail}]"] = " + ".join(parts)

    def groups(self) -> list[str]:
        """Write the group effects; the terms they add to the linear predictor."""
        out = []
        for group in self.design.groups:
            label = self.names.group(group.name)
            self.dims[group.name] = _plain(group.labels)
            scale = self._scales(group)
            prior = self._prior_of_sd(group.name)
            u = f"u_{label}[{group.name}]"
            if group.id:
                one = "" if group.effects == ["1"] else f" * design_{label}"
                out.append(f"{u}{one}" if len(group.effects) == 1 else f"sum({u} * design_{label}, {label}_effect)")
                continue
            if group.student:
                self.nodes[f"nu_{label}"] = self.priors.get(f"nu_{group.name}", "Gamma(2, 0.1)")
            mixed = ""
            if group.student and len(group.effects) > 1:
                # Effects of one group have one scale, so that they are multivariate Student t.
                self.nodes[f"_mix_{label}[{group.name}]"] = f"InverseGamma(0.5 * nu_{label}, 0.5 * nu_{label})"
                mixed = f"sqrt(_mix_{label}) * "
            if len(group.effects) == 1:
                self.nodes[f"sd_{label}"] = prior or f"HalfStudentT(3, {scale[0]})"
                self.nodes[f"_raw_{label}[{group.name}]"] = (
                    f"StudentT(nu_{label}, 0, 1)" if group.student else "Normal(0, 1)"
                )
                self.nodes[u] = f"sd_{label} * _raw_{label}"
                out.append(u + ("" if group.effects == ["1"] else f" * design_{label}"))
                continue
            self.dims[f"{label}_effect"] = list(group.effects)
            if group.correlated:
                self._correlated(group.name, label, prior, scale, mixed)
            else:
                effect = f"{label}_effect"
                self.columns[f"scale_{label}"] = Column(np.array([float(s) for s in scale]), (effect,))
                self.nodes[f"sd_{label}[{effect}]"] = prior or f"HalfStudentT(3, scale_{label})"
                self.nodes[f"_raw_{label}[{group.name}, {effect}]"] = "Normal(0, 1)"
                self.nodes[f"u_{label}[{group.name}, {effect}]"] = f"{mixed}sd_{label} * _raw_{label}"
            out.append(f"sum({u} * design_{label}, {label}_effect)")
        return out

    def joint_sds(self, group: Group) -> list[str]:
        """Write the sds of group effects that are correlated with those of other formulas; the sd of each effect."""
        label, effect = self.names.group(group.name), f"{self.names.group(group.name)}_effect"
        prior, scale = self._prior_of_sd(group.name), self._scales(group)
        if len(group.effects) == 1:
            self.nodes[f"sd_{label}"] = prior or f"HalfStudentT(3, {scale[0]})"
            return [f"sd_{label}"]
        self.dims[effect] = list(group.effects)
        if prior is None:
            self.columns[f"scale_{label}"] = Column(np.array([float(s) for s in scale]), (effect,))
        self.nodes[f"sd_{label}[{effect}]"] = prior or f"HalfStudentT(3, scale_{label})"
        return [f"sd_{label}[{each!r}]" for each in group.effects]

    def _prior_of_sd(self, name: str) -> str | None:
        """The prior that is written for the sd of effects, or for all sds."""
        return self.priors.get(f"sd_{name}", self.priors.get("sd"))

    def _scales(self, group: Group) -> list[str]:
        """The scale of the default prior of the sd of each effect."""
        return [
            rounded(self.unit / (1 if effect == "1" else spread_of(column, self.design.counts)))
            for effect, column in zip(group.effects, group.columns.T, strict=True)
        ]

    def rises(self) -> list[str]:
        """Write the simplexes of monotonic effects; the terms they add to the linear predictor."""
        out = []
        for rise in self.design.rises:
            label, of = self.names.group(rise.name), self.names.group(rise.of)
            step, count = f"{of}_step", len(rise.labels)
            self.dims[step] = list(rise.labels)
            prior = self.priors.get(f"simplex_{rise.name}", self.priors.get("simplex", "Dirichlet(1)"))
            self.nodes[f"simplex_{label}[{step}]"] = prior
            rest = "" if rise.name == rise.of else f"rest_{label} * "
            slope = f"{self.names.of('b')}[{self.design.names[rise.column]!r}]"
            out.append(f"{rest}{count} * (steps_{of} @ simplex_{label}) * {slope}")
        return out

    def measured(self) -> list[str]:
        """Write the true values of predictors measured with error; the terms they add to the linear predictor.

        Several formulas share them. They are written given the measurements, whose density has no true values left.
        """
        out = []
        for each in self.design.measured:
            mean, sd, raw, x = f"mean_{each.of}", f"sd_{each.of}", f"_raw_{each.of}[{self.row}]", each.predictor
            error, spread = f"error_{each.of}", spread_of(each.x)
            usual = f"Normal({located(float(each.x.mean()), spread)}, {rounded(2.5 * spread)})"
            self.nodes[mean] = self.shared.get(mean, usual)
            self.nodes[sd] = self.shared.get(sd, f"Exponential({rounded(1 / spread)})")
            self.nodes[f"{x}[{self.row}]"] = f"Normal({mean}, sqrt({sd} ** 2 + {error} ** 2))"
            self.nodes[raw] = "Normal(0, 1)"
            self.nodes[f"true_{each.of}[{self.row}]"] = (
                f"{x} + ({mean} - {x}) * {error} ** 2 / ({error} ** 2 + {sd} ** 2)"
                f" + {sd} * {error} / sqrt({error} ** 2 + {sd} ** 2) * _raw_{each.of}"
            )
            rest = "" if each.alone else f"rest_{self.names.group(each.name)} * "
            out.append(f"{rest}true_{each.of} * {self.names.of('b')}[{self.design.names[each.column]!r}]")
        return out

    def curves(self) -> list[str]:
        """Write the coefficients of Gaussian processes and of the bending parts of smooths; the terms they add."""
        out = []
        for curve in self.design.curves:
            label = self.names.group(curve.name)
            wave, by = f"{label}_wave", f"[{curve.by}]" if curve.by else ""
            inside = f"{curve.by}, {wave}" if curve.by else wave
            self.dims[wave] = list(range(1, curve.waves.shape[1] + 1))
            if curve.by:
                self.dims[curve.by] = _plain(curve.labels)
            # Of a process, sd and length are known together only: a large sd and a large length are a straight line.
            usual = (
                f"HalfNormal({rounded(0.6 * self.unit)})" if curve.process else f"HalfStudentT(3, {rounded(self.unit)})"
            )
            prior = self.priors.get(f"sd_{curve.name}", usual)
            self.nodes[f"sd_{label}{by}"] = prior
            self.nodes[f"_raw_{label}[{inside}]"] = "Normal(0, 1)"
            size = f"sd_{label}"
            if isinstance(curve.basis, Sines):
                self.columns[f"frequency_{label}"] = Column(curve.basis.frequencies, (wave,))
                usual = f"InverseGamma(3, {rounded(0.5 * curve.basis.range)})"
                self.nodes[f"length_{label}{by}"] = self.priors.get(f"length_{curve.name}", usual)
                # The square root of the spectral density; the number is that of 2 pi.
                size += f" * sqrt({ROOT_2PI!r} * length_{label})"
                size += f" * exp(-0.25 * (length_{label} * frequency_{label}) ** 2)"
            u, waves = curve.coefficients(label), f"waves_{label}"
            self.nodes[f"{u}[{inside}]"] = f"{size} * _raw_{label}"
            u += by
            out.append(f"sum({u} * {waves}, {wave})" if curve.by else f"{waves} @ {u}")
        return out

    def areas(self) -> list[str]:
        """Write the effects of areas that have neighbours; the terms they add to the linear predictor."""
        out = []
        for area in self.design.areas:
            label, factor = self.names.group(area.name), area.factor
            twin, sd, u = f"{label}_with", f"sd_{label}", f"u_{label}[{factor}]"
            self.dims[factor] = _plain(area.labels)
            self.dims[twin] = factor
            self.nodes[sd] = self._prior_of_sd(area.name) or f"HalfStudentT(3, {rounded(self.unit)})"
            if area.kind == "car":
                self.columns[f"neighbours_{label}"] = Column(area.neighbours.matrix, (factor, twin))
                self.nodes[f"alpha_{label}"] = self.priors.get(f"alpha_{area.name}", "Beta(1, 1)")
                self.nodes[f"_raw_{label}[{factor}]"] = f"CAR(0, neighbours_{label}, alpha_{label}, 1)"
                self.nodes[u] = f"{sd} * _raw_{label}"
                out.append(u)
                continue
            self.columns[f"factor_{label}"] = Column(area.neighbours.factor, (factor, twin))
            shared = f"factor_{label} @ _raw_{label}"
            if area.kind == "bym2":
                rho = f"rho_{label}"
                self.nodes[rho] = self.priors.get(f"rho_{area.name}", "Beta(1, 1)")
                self.nodes[f"_alone_{label}[{factor}]"] = "Normal(0, 1)"
                shared = f"sqrt({rho}) * ({shared}) + sqrt(1 - {rho}) * _alone_{label}"
            self.nodes[f"_raw_{label}[{twin}]"] = "Normal(0, 1)"
            self.nodes[u] = f"{sd} * ({shared})"
            out.append(u)
        return out

    def members(self) -> list[str]:
        """Write the effects of groups of which a row has several; the terms they add to the linear predictor."""
        out = []
        for several in self.design.members:
            label, dim = self.names.group(several.name), several.name
            sd, u, count = f"sd_{label}", f"u_{label}", len(several.factors)
            self.dims[dim] = several.labels.tolist()
            self.nodes[sd] = self._prior_of_sd(several.name) or f"HalfStudentT(3, {rounded(self.unit)})"
            self.nodes[f"_raw_{label}[{dim}]"] = "Normal(0, 1)"
            self.nodes[f"{u}[{dim}]"] = f"{sd} * _raw_{label}"
            parts = [f"{u}[member_{label}_{k}]" for k in range(1, count + 1)]
            if several.columns:
                out += [f"weight_{label}_{k} * {part}" for k, part in enumerate(parts, 1)]
            else:
                out.append(f"({' + '.join(parts)}) / {count}")
        return out

    def _correlated(self, name: str, label: str, prior: str | None, scale: list[str], mixed: str) -> None:
        effect = f"{label}_effect"
        twin = f"{effect}_2"
        self.dims[twin] = effect
        eta = self.priors.get(f"corr_{name}", "2")
        sds = prior or f"HalfStudentT(3, [{', '.join(scale)}])"
        self.dims[f"{effect}_with"] = effect
        rows = f"_chol_{label} / sd_{label}"
        effects, lengths = f"dot(_raw_{label}, _chol_{label}, {twin})", f"sqrt(sum(_chol_{label} ** 2, {twin}))"
        sd = {f"sd_{label}[{effect}]": lengths}
        if prior is not None and call_name(parse(prior).tree) not in DISTRIBUTIONS:
            # LKJCholeskyCov has no known sds: its sds are independent of its correlations and are divided out.
            sds, rows, effects = "LogNormal(0, 0.1)", f"_chol_{label} / _length_{label}", f"sd_{label} * {effects}"
            effects += f" / _length_{label}"
            sd = {f"_length_{label}[{effect}]": lengths, f"sd_{label}": prior}
        self.nodes |= {
            f"_chol_{label}[{effect}, {twin}]": f"LKJCholeskyCov(eta={eta}, sd_dist={sds})",
            f"_raw_{label}[{name}, {twin}]": "Normal(0, 1)",
            f"u_{label}[{name}, {effect}]": f"{mixed}{effects}",
            **sd,
            f"corr_{label}[{effect}, {effect}_with]": f"dot({rows}, rename({rows}, {effect}, {effect}_with), {twin})",
        }


ROOT_2PI = float(np.sqrt(2 * np.pi))
# Squares of smaller slopes underflow.
_LEAST_SLOPE = 1e-152
_NORMAL = re.compile(r"Normal\(\s*([-+.\deE]+)\s*,\s*([-+.\deE]+)\s*\)\Z")
_SHRUNK = re.compile(r"(Normal|Laplace)\(0, tau \* ([\d.e+-]+)\)\Z")
# Kind of normal priors that differ only in their numbers.
_NORMAL_OF_NUMBERS = "Normal(number, number)"


def _kind(text: str) -> str:
    """Whether priors differ only in numbers, so that they form one vector."""
    shrunk = _SHRUNK.match(text)
    return _NORMAL_OF_NUMBERS if _plain_normal(text) else f"{shrunk[1]}(0, tau * unit)" if shrunk else text


def _plain_normal(text: str) -> tuple[float, float] | None:
    """Location and scale of ``Normal(number, number)``."""
    match = _NORMAL.match(text.strip())
    try:
        return (float(match[1]), float(match[2])) if match else None
    except ValueError:
        return None
