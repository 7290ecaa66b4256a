"""Writer of the nodes of a regression.

References
----------
.. [1] Piironen, Vehtari (2017). Sparsity information and regularization in the horseshoe and other
   shrinkage priors. Electronic Journal of Statistics 11.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.data.dataset import Column
from bayeslab.data.design import Design
from bayeslab.digits import constant, located, spread_of
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families.regression.likelihoods import INVERSE_LINKS, likelihood
from bayeslab.families.regression.lowered import link_of
from bayeslab.families.regression.rows import Rows
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula
from bayeslab.language.nodes import call_name

__all__ = ["Writer", "problem"]


def problem(message: str, *path: str, code: str) -> ModelError:
    """An error of the model, with its place."""
    return ModelError(message, path=("model", *path), code=code)


class Writer:
    """The nodes of a regression, with the data columns its priors need."""

    def __init__(
        self, spec: Regression, formula: Formula, design: Design, rows: Rows, dim: str, without_response: str
    ) -> None:
        self.spec, self.formula, self.design, self.rows, self.dim = spec, formula, design, rows, dim
        self.without_response = without_response
        self.likelihood, self.link = likelihood(spec.likelihood), link_of(spec)
        self.nodes: dict[str, str] = {}
        self.columns: dict[str, Column] = {}
        self.dims: dict[str, Any] = {}
        self.priors = {name: str(text) for name, text in spec.priors.items()}
        self._fix()
        self.centre: np.ndarray | None = None
        self.slopes: list[str] = []
        self._check_names()
        self.sd = self._response_sd()
        self._auxiliary()
        self._check_scale()
        self._hyper()
        eta = " + ".join([*self._intercept(), *self._slopes(), *self._groups(), *self._rest()]) or "0"
        self._outcome(eta)

    def _fix(self) -> None:
        """Treat parameters that the likelihood gives as numbers like priors that are numbers."""
        for name, number in self.likelihood.fixed.items():
            twice = {name, "sigma2", "precision"} if name == "sigma" else {name}
            for word in sorted(twice & self.priors.keys()):
                raise problem(
                    f"'{name}' is {number:g} in the likelihood, and has a prior besides: leave out one",
                    "priors",
                    word,
                    code="conflict",
                )
            self.priors[name] = repr(number)

    def _check_names(self) -> None:
        """Check that every prior belongs to a parameter, a column, or a name that another prior uses."""
        groups = {f"{word}_{group.name}" for group in self.design.groups for word in ("sd", "corr")}
        used = {name for text in (*self.priors.values(), *self.spec.missing.values()) for name in parse(text).names}
        columns = {*self.design.names, *self.design.terms}
        parameters = {"Intercept", "b", *self.likelihood.auxiliary, *groups}
        parameters |= {"sigma2", "precision"} if "sigma" in self.likelihood.auxiliary else set()
        parameters |= {"cutpoints"} if self.likelihood.levels == "ordered" else set()
        parameters |= {"tau"} if self.spec.shrinkage else set()
        parameters |= {"sd"} if groups else set()
        allowed = parameters | columns
        self.hyper = [name for name in self.priors if name in used - allowed]
        for name in self.priors:
            if name not in allowed and name not in self.hyper:
                raise problem(
                    f"'{name}' is not a parameter of this regression{hint(name, allowed)}",
                    "priors",
                    name,
                    code="unknown-parameter",
                )
            value = self.priors[name]
            if name in allowed - {"Intercept", "b"} - columns:
                self._check_number(name, value)
        for name in sorted(self.priors.keys() & parameters & columns):
            if name != "Intercept" or self.design.intercept:
                raise problem(
                    f"'{name}' is a predictor and a parameter of this regression: rename the column under data.rename",
                    "priors",
                    name,
                    code="name-clash",
                )
        self._check_given(self._parts())

    def _check_number(self, name: str, text: str) -> None:
        """Refuse a fixed value outside the parameter's domain."""
        try:
            value = float(text)
        except ValueError:
            return
        if name in self.likelihood.auxiliary:
            why = self.likelihood.refused(name, value)
        else:
            why = "" if value > 0 else f"'{name}' is positive; it cannot be fixed at {value:g}"
        if why:
            raise problem(why, "priors", name, code="out-of-range")

    def _parts(self) -> set[str]:
        """Names of the model's nodes, columns and dimensions."""
        out = {"Intercept", "Intercept_centred", "b", "predictor", "design", "design_mean"}
        out |= {"b_location", "b_scale", "b_unit", *self.likelihood.auxiliary}
        out |= {"sigma2", "precision"} & self.priors.keys()
        out |= {"trials"} if self.rows.trials is not None else set()
        out |= {"lower", "upper"} if self.rows.limits is not None else set()
        out |= {"offset"} if self.design.offset is not None else set()
        out |= {"tau", "unit"} if self.spec.shrinkage else set()
        out |= {"cutpoint", "cutpoints"} if self.likelihood.levels == "ordered" else set()
        if self.likelihood.levels == "categorical":
            out |= {"contrasts", "response_level", "response_contrast"}
        out |= {f"{name}_slopes" for name in self.spec.missing}
        for group in self.design.groups:
            out |= {f"{word}_{group.name}" for word in ("u", "sd", "corr", "scale", "design")}
            out |= {f"{group.name}_effect{end}" for end in ("", "_2", "_with")}
        return out

    def _check_given(self, parts: set[str]) -> None:
        """Refuse names in the formula or the priors that would replace a part of the model."""
        fixed = {"design", "b", "sigma", "offset", "trials", "lower", "upper", "contrasts", "Intercept", "predictor"}
        if self.formula.outcome in fixed | parts or _NUMBERED.fullmatch(self.formula.outcome):
            raise problem(
                f"the response is called '{self.formula.outcome}', like a part of the model; rename it",
                "formula",
                code="name-clash",
            )
        named = [("a grouping factor", "formula", group.name) for group in self.design.groups]
        named += [("a predictor with a model of its own", "missing", name) for name in self.spec.missing]
        named += [("a parameter of a prior", "priors", name) for name in self.hyper]
        for role, place, name in named:
            if name in parts or _NUMBERED.fullmatch(name):
                raise problem(
                    f"{role} is called '{name}', like a part of the model; rename it", place, code="name-clash"
                )

    def _check_scale(self) -> None:
        """Refuse a constant response if the spread of the response scales a default prior."""
        y = self.rows.y
        if y is None or not constant(y):
            return
        lacking: list[str] = []
        if self._in_unit():
            lacking += ["Intercept"] if self.design.intercept and "Intercept" not in self.priors else []
            lacking += ["b"] if any(self._prior_of(k) is None for k in range(len(self.design.names))) else []
        written = {*self.priors, *(["sigma"] if {"sigma2", "precision"} & self.priors.keys() else [])}
        lacking += [name for name, text in self.likelihood.auxiliary.items() if _scaled(text) and name not in written]
        groups = [f"sd_{group.name}" for group in self.design.groups if self._in_unit()]
        lacking += [name for name in groups if name not in written and "sd" not in written]
        if lacking:
            raise DataError(
                f"the response '{self.formula.response}' is constant ({y[0]:g}), and the default priors of"
                f" {listed(lacking)} are scaled to how it varies: write these priors, or give a response that varies",
                code="constant",
            )

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
                f" with: measure '{name}' or '{self.formula.response}' in another unit, in data.derive",
                code="out-of-range",
            )

    @property
    def _dims_of_categories(self) -> str:
        return ", response_contrast" if self.likelihood.levels == "categorical" else ""

    def _in_unit(self) -> bool:
        """Whether the linear predictor has the response's unit, or would have it under another link."""
        return self.likelihood.located or (
            self.link == "identity" and self.likelihood.response.working in ("log", "logit")
        )

    def _response_sd(self) -> float:
        """The scale of the linear predictor."""
        if not self._in_unit() or self.link != "identity":
            return 1.0
        if self.rows.y is None:
            wanted = set(self.likelihood.auxiliary) | {"b"} | ({"Intercept"} if self.design.intercept else set())
            lacking = wanted - self.priors.keys()
            if lacking:
                raise DataError(
                    f"the default priors of {listed(sorted(lacking))} are scaled to the response: give its data, or"
                    f" write these priors; {self.without_response}",
                    path=("model", "formula"),
                    code="no-data",
                )
            return 1.0
        return spread_of(self.likelihood.working(self.rows.y))

    def _noise_sd(self) -> float:
        """The scale of default priors of parameters in the response's unit, for any link."""
        scaled = [name for name, text in self.likelihood.auxiliary.items() if _scaled(text)]
        if not scaled:
            return self.sd
        if self.rows.y is not None:
            return spread_of(self.likelihood.working(self.rows.y))
        written = {*self.priors, *(["sigma"] if {"sigma2", "precision"} & self.priors.keys() else [])}
        if lacking := [name for name in scaled if name not in written]:
            raise DataError(
                f"the default priors of {listed(lacking)} are scaled to the response: give its data, or write these"
                f" priors; {self.without_response}",
                code="no-data",
            )
        return 1.0

    def _auxiliary(self) -> None:
        spread = self._noise_sd()
        scales = {"rate": _number(1 / spread), "sd": _number(spread)}
        for name, default in self.likelihood.auxiliary.items():
            if name == "sigma" and self.priors.keys() & {"sigma2", "precision"} and (fixed := self._fixed_sigma()):
                self.nodes[name] = fixed
            elif name == "sigma" and "sigma2" in self.priors:
                self.nodes |= {"sigma2": self.priors["sigma2"], "sigma": "sqrt(sigma2)"}
            elif name == "sigma" and "precision" in self.priors:
                self.nodes |= {"precision": self.priors["precision"], "sigma": "1 / sqrt(precision)"}
            else:
                self.nodes[name] = self.priors.get(name, default.format(**scales))

    def _fixed_sigma(self) -> str | None:
        """The standard deviation implied by a number for ``sigma2`` or ``precision``."""
        for name, power in (("sigma2", 0.5), ("precision", -0.5)):
            with contextlib.suppress(ValueError):
                if name in self.priors and (number := float(self.priors[name])) > 0:
                    self.nodes[name] = self.priors[name]
                    return repr(number**power)
        return None

    def _hyper(self) -> None:
        for name in self.hyper:
            self.nodes[name] = self.priors[name]

    def _intercept(self) -> list[str]:
        if self.likelihood.levels == "ordered":
            count = len(self.rows.levels)
            if count < 2:
                raise DataError(
                    f"an ordered response has at least two levels; '{self.formula.response}' has {count}",
                    code="too-few",
                )
            self.dims["cutpoint"] = [
                f"{a}|{b}" for a, b in zip(self.rows.levels[:-1], self.rows.levels[1:], strict=True)
            ]
            self.nodes["cutpoints[cutpoint]"] = self.priors.get("cutpoints", "Ordered(Normal(0, 2.5))")
            return []
        if self.likelihood.levels == "categorical":
            if len(self.rows.levels) < 2:
                raise DataError(
                    f"a categorical response has at least two levels; given: {listed(self.rows.levels)}", code="too-few"
                )
            self.dims |= {"response_level": list(self.rows.levels), "response_contrast": list(self.rows.levels[1:])}
        if not self.design.intercept:
            return []
        shape = f"[{self._dims_of_categories.removeprefix(', ')}]" if self._dims_of_categories else ""
        prior = self.priors.get("Intercept")
        if not self.design.names or (prior is not None and not prior.replace(" ", "").startswith("Flat(")):
            self.nodes[f"Intercept{shape}"] = prior or self._about_middle()
            return ["Intercept"]
        self.centre = self.design.means[0]
        self.columns["design_mean"] = Column(self.centre, ("predictor",))
        self.nodes[f"Intercept_centred{shape}"] = prior or self._about_middle()
        self.nodes[f"Intercept{shape}"] = "Intercept_centred - dot(design_mean, b)"
        return ["Intercept_centred"]

    def _about_middle(self) -> str:
        """The default prior of the intercept; its centre is rounded relative to its width."""
        return f"Normal({located(self._middle(), self.sd)}, {_number(2.5 * self.sd)})"

    def _middle(self) -> float:
        """The linear predictor of the mean response."""
        if self.rows.y is None or not self.likelihood.response.working:
            return 0.0
        y = self.likelihood.working(self.rows.y)
        match self.link:
            case "identity" if self.likelihood.response.working == "angle":
                return float(np.arctan2(np.sin(y).mean(), np.cos(y).mean()))
            case "identity":
                return float(np.mean(y))
            case "log":
                return float(np.log(max(float(np.mean(y)), 0.5 / len(y))))
            case _:
                return 0.0

    def _slopes(self) -> list[str]:
        names = self.design.names
        if not names:
            return []
        self.dims["predictor"] = list(names)
        spread = np.array([spread_of(column) for column in self.design.matrix.T])
        # For any prior: sizes that the data imply.
        self._check_squares(range(len(names)), 2.5 * self.sd / spread)
        priors = [self._prior_of(k) for k in range(len(names))]
        if self.spec.shrinkage:
            self._shrunk(priors, spread)
        self.slopes = [
            text or f"Normal(0, {_number(2.5 * self.sd / s)})" for text, s in zip(priors, spread, strict=True)
        ]
        if self.spec.shrinkage != "horseshoe":
            self._written()
        return ["design @ b"]

    def _prior_of(self, k: int) -> str | None:
        """The prior of a column: its own, its term's, or that of all slopes."""
        name = self.design.names[k]
        term = next((t for t, (start, stop) in self.design.terms.items() if start <= k < stop), name)
        return self.priors.get(name) or self.priors.get(term) or self.priors.get("b")

    def _shrunk(self, priors: list[str | None], spread: np.ndarray) -> None:
        if self.spec.shrinkage == "horseshoe":
            if any(priors):
                raise problem(
                    "the horseshoe is a prior of all slopes; leave out their own priors", "priors", code="conflict"
                )
            self._horseshoe(spread)
            return
        if all(priors):
            name = self.spec.shrinkage
            raise problem(
                f"every slope has a prior of its own, so that shrinkage: {name} shrinks none: leave out shrinkage, or"
                f" {'priors.b' if 'b' in self.priors else 'the priors of some slopes'}",
                "shrinkage",
                code="conflict",
            )
        self.nodes["tau"] = self.priors.get("tau", "HalfCauchy(1)")
        kind = "Normal" if self.spec.shrinkage == "ridge" else "Laplace"
        for k, text in enumerate(priors):
            priors[k] = text or f"{kind}(0, tau * {_number(self.sd / spread[k])})"

    def _horseshoe(self, spread: np.ndarray) -> None:
        """The regularised horseshoe [1]_, a third of the slopes (at most ten) expected to matter."""
        p, n = len(spread), self.design.n
        expected = max(1.0, min(10.0, p / 3))
        noise = "sigma" if "sigma" in self.likelihood.auxiliary and self.link == "identity" else "2"
        share = expected / max(p - expected, 1.0) / np.sqrt(n) / self.sd
        unit = self.sd / spread
        self.columns["unit"] = Column(unit, ("predictor",))
        self.nodes |= {
            "tau": self.priors.get("tau", f"HalfCauchy({_number(share)} * {noise})"),
            "_slab": "InverseGamma(2, 8)",
            f"_local[predictor{self._dims_of_categories}]": "HalfCauchy(1)",
            f"_raw[predictor{self._dims_of_categories}]": "Normal(0, 1)",
            f"b[predictor{self._dims_of_categories}]": (
                "unit * _raw * tau * _local * sqrt(_slab / (_slab + tau ** 2 * _local ** 2))"
            ),
        }

    def _written(self) -> None:
        """The slopes as one vector, or assembled from one vector for each kind of prior."""
        kinds: dict[str, list[int]] = {}
        for k, text in enumerate(self.slopes):
            kinds.setdefault(_kind(text), []).append(k)
        tail = self._dims_of_categories
        for number, (kind, columns) in enumerate(kinds.items(), 1):
            alone = len(kinds) == 1
            name, dim = ("b", "predictor") if alone else (f"_b_{number}", f"predictor_{number}")
            end = "" if alone else f"_{number}"
            if kind == _NORMAL_OF_NUMBERS:
                numbers = np.array([_plain_normal(self.slopes[k]) for k in columns])
                self._check_squares(columns, numbers[:, 1])
                self.columns[f"b_location{end}"] = Column(numbers[:, 0], (dim,))
                self.columns[f"b_scale{end}"] = Column(numbers[:, 1], (dim,))
                kind = f"Normal(b_location{end}, b_scale{end})"
            elif kind.endswith("* unit)"):
                numbers = np.array([float(_SHRUNK.match(self.slopes[k])[2]) for k in columns])  # type: ignore[index]
                self.columns[f"b_unit{end}"] = Column(numbers, (dim,))
                kind = kind.replace("unit", f"b_unit{end}")
            self.nodes[f"{name}[{dim}{tail}]"] = kind
            if not alone:
                self.dims[dim] = [self.design.names[k] for k in columns]
                self.columns[f"pick_{number}"] = Column(np.eye(len(self.slopes))[:, columns], ("predictor", dim))
        if len(kinds) > 1:
            parts = [f"pick_{number} @ _b_{number}" for number in range(1, len(kinds) + 1)]
            self.nodes[f"b[predictor{tail}]"] = " + ".join(parts)

    def _groups(self) -> list[str]:
        out = []
        for group in self.design.groups:
            name, effect = group.name, f"{group.name}_effect"
            if self.likelihood.levels == "categorical":
                raise problem(
                    "group effects in a categorical regression are not there; write the model as a graph",
                    "formula",
                    code="unsupported",
                )
            self.dims[name] = [x.item() if hasattr(x, "item") else x for x in group.labels]
            scale = [
                _number(2.5 * self.sd / (1 if e == "1" else spread_of(c)))
                for e, c in zip(group.effects, group.columns.T, strict=True)
            ]
            prior = self.priors.get(f"sd_{name}", self.priors.get("sd"))
            if len(group.effects) == 1:
                self.nodes[f"sd_{name}"] = prior or f"HalfStudentT(3, {scale[0]})"
                self.nodes[f"_raw_{name}[{name}]"] = "Normal(0, 1)"
                self.nodes[f"u_{name}[{name}]"] = f"sd_{name} * _raw_{name}"
                out.append(f"u_{name}[{name}]" + ("" if group.effects == ["1"] else f" * design_{name}"))
                continue
            self.dims[effect] = list(group.effects)
            if group.correlated:
                twin = f"{effect}_2"
                self.dims[twin] = effect
                eta = self.priors.get(f"corr_{name}", "2")
                sds = prior or f"HalfStudentT(3, [{', '.join(scale)}])"
                self.dims[f"{effect}_with"] = effect
                rows = f"_chol_{name} / sd_{name}"
                effects, lengths = f"dot(_raw_{name}, _chol_{name}, {twin})", f"sqrt(sum(_chol_{name} ** 2, {twin}))"
                sd = {f"sd_{name}[{effect}]": lengths}
                if prior is not None and call_name(parse(prior).tree) not in DISTRIBUTIONS:
                    # LKJCholeskyCov has no known sds: its sds are independent of its correlations and are divided out.
                    sds, rows, effects = "LogNormal(0, 0.1)", f"_chol_{name} / _length_{name}", f"sd_{name} * {effects}"
                    effects += f" / _length_{name}"
                    sd = {f"_length_{name}[{effect}]": lengths, f"sd_{name}": prior}
                self.nodes |= {
                    f"_chol_{name}[{effect}, {twin}]": f"LKJCholeskyCov(eta={eta}, sd_dist={sds})",
                    f"_raw_{name}[{name}, {twin}]": "Normal(0, 1)",
                    f"u_{name}[{name}, {effect}]": effects,
                    **sd,
                    f"corr_{name}[{effect}, {effect}_with]": (
                        f"dot({rows}, rename({rows}, {effect}, {effect}_with), {twin})"
                    ),
                }
            else:
                self.columns[f"scale_{name}"] = Column(np.array([float(s) for s in scale]), (effect,))
                self.nodes[f"sd_{name}[{effect}]"] = prior or f"HalfStudentT(3, scale_{name})"
                self.nodes[f"_raw_{name}[{name}, {effect}]"] = "Normal(0, 1)"
                self.nodes[f"u_{name}[{name}, {effect}]"] = f"sd_{name} * _raw_{name}"
            out.append(f"sum(u_{name}[{name}] * design_{name}, {effect})")
        return out

    def _rest(self) -> list[str]:
        for name, text in self.spec.missing.items():
            self.nodes[f"{name}[{self.dim}]"] = text
        out = [f"{name} * ({name}_slopes @ b)" for name in self.spec.missing]
        return [*out, "offset"] if self.design.offset is not None else out

    def _outcome(self, eta: str) -> None:
        if self.likelihood.levels == "categorical":
            eta = f"dot({eta}, contrasts, response_contrast)"
        text = self.likelihood.special.get(self.link, self.likelihood.text)
        mu = INVERSE_LINKS[self.link].format(eta=f"({eta})") if self.link != "identity" else eta
        mu = f"({mu})" if self.link == "cloglog" else mu
        text = text.format(mu=mu, eta=eta, trials="trials")
        if self.rows.limits is not None:
            text = f"Censored({text}, lower=lower, upper=upper)"
        self.nodes[f"{self.formula.outcome}[{self.dim}]"] = text


def _number(value: float) -> str:
    return repr(float(f"{value:.6g}"))


def _scaled(text: str) -> bool:
    """Whether a default prior is scaled to the response."""
    return "{rate}" in text or "{sd}" in text


# Names of the vectors of slopes by kind of prior.
# Squares of smaller slopes underflow.
_LEAST_SLOPE = 1e-152
_NUMBERED = re.compile(r"(b_location|b_scale|b_unit|predictor|pick)_\d+")
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
