"""A column with a regression in every state: on inputs, on the column's own past, or on both.

With inputs each state is a regression of y on x: a hidden Markov model of them is an input-output model [1]_, a mixture
of them a mixture of experts. With a ``window`` of w the previous w values are inputs too: a regime-switching
autoregression [2]_. Rows without a complete past are conditioned on and do not inform the state.

Internally inputs and normal outcomes are standardised by the data of the fit, and their coefficients have the weak
prior of :class:`bayeslab.distributions.emissions.Regression`; results are in the data's units. In the natural style
rows are in the data's units as well, and the lines of states (``intercept`` and ``slope``) may be known. In the
whitened style rows are standardised, and ``coefficients`` have a dimension of terms.

References
----------
.. [1] Bengio, Frasconi (1995). An input output HMM architecture. NIPS 7, 427-434.
.. [2] Hamilton (1989). A new approach to the economic analysis of nonstationary time series and the business cycle.
   Econometrica 57, 357-384.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.emissions import Regression, WrappedEmission
from bayeslab.errors import ModelError
from bayeslab.language.writer import PYMC, Writer
from bayeslab.posterior.observed.part import StatePart

__all__ = ["RegressionPart", "Standardised"]


@dataclass(frozen=True, eq=False)
class Standardised(WrappedEmission):
    """A regression on rows (1, inputs, outcome), with parameters in standardised units.

    Attributes
    ----------
    inner : Regression
    centre, scale : ndarray (n_columns,)
        0 and 1 for the column of ones, and for outcomes that are not normal.
    """

    inner: Regression
    centre: np.ndarray
    scale: np.ndarray

    def rows(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.centre) / self.scale

    def check(self, rows: np.ndarray) -> None:
        self.inner.check(self.rows(rows))

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        unit = np.where(np.isnan(rows[:, -1:]), 0.0, np.log(self.scale[-1]))
        return self.inner.log_density(parameters, self.rows(rows)) - unit

    def statistics(self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Any = None) -> dict[str, Any]:
        return self.inner.statistics(self.rows(rows), responsibilities, parameters)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Standardised:
        return replace(self, inner=self.inner.with_prior(self.rows(rows), n_states))

    def degenerate(self, parameters: Any, variances: np.ndarray) -> np.ndarray:
        return self.inner.degenerate(parameters, variances / self.scale[-1] ** 2)

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        raise ModelError("outcomes need their inputs: see RegressionPart.sample", code="not-applicable")

    def features(self, rows: np.ndarray) -> np.ndarray:
        return self.inner.features(rows)[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionPart(StatePart):
    """A column whose states are regressions; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    emission : Standardised or Regression
        The emission of rows in the data's units, or of standardised rows. ``at`` has the positions of the column of
        ones if there is an intercept, of the inputs, and last of the outcome.
    inputs : tuple of str
    intercept : bool
    centre, scale : ndarray (n_inputs,)
        Internally inputs are (x - centre) / scale.
    middle, outcome_unit : float
        Internally normal outcomes are (y - middle) / outcome_unit.
    """

    inputs: tuple[str, ...]
    intercept: bool = True
    centre: np.ndarray
    scale: np.ndarray
    middle: float = 0.0
    outcome_unit: float = 1.0

    @property
    def regression(self) -> Regression:
        """The emission of standardised rows."""
        inner = self.emission.inner if isinstance(self.emission, Standardised) else self.emission
        assert isinstance(inner, Regression)
        return inner

    @property
    def normal(self) -> bool:
        return self.regression.outcome == "gaussian"

    @property
    def discrete(self) -> bool:
        return not self.normal

    @property
    def terms(self) -> tuple[str, ...]:
        return (*(("Intercept",) if self.intercept else ()), *self.inputs)

    @property
    def names(self) -> tuple[str, ...]:
        lines = ("coefficients",) if self.style.whitened else ("intercept", "slope")
        return (*lines, *(("sd",) if self.normal else ()))

    def shape(self, name: str) -> tuple[int, ...]:
        sizes = {"slope": len(self.inputs), "coefficients": len(self.terms)}
        return (self.n_states, sizes[name]) if name in sizes else (self.n_states,)

    def dims(self, name: str) -> tuple[str, ...]:
        along = {"slope": ("input",), "coefficients": ("term",)}
        return (self.style.state, *along.get(name, ()))

    def labels(self) -> dict[str, np.ndarray]:
        return {"term": np.array(self.terms)} if self.style.whitened else {"input": np.array(self.inputs)}

    def position(self, column: str) -> int:
        return self.at[-1]

    @property
    def orders(self) -> tuple[str, ...]:
        return (*self.columns, *self.terms)

    def place(self, values: Mapping[str, Any], column: str) -> np.ndarray:
        at = self.terms.index(column) if column in self.terms else 0
        return np.asarray(values["coefficients"])[..., at]

    @property
    def no_gibbs(self) -> str:
        return "regressions have no conjugate prior here; use nuts, map or em"

    def to_emission(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        values = {name: np.asarray(value, float) for name, value in {**values, **self.known}.items()}
        if self.style.whitened:
            first = 1 if self.intercept else 0
            level, slope = values["coefficients"][:, :first], values["coefficients"][:, first:]
        else:
            level, slope = values["intercept"][:, None], values["slope"]
        if self.intercept:
            level = level + (slope @ self.centre)[:, None] - self.middle
        out = {"coefficients": np.column_stack([level, slope * self.scale]) / self.outcome_unit}
        return out | ({"variance": (values["sd"] / self.outcome_unit) ** 2} if self.normal else {})

    def from_emission(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        out = self._lines(theta["coefficients"], np.concatenate)
        return out | ({"sd": self.outcome_unit * np.sqrt(theta["variance"])} if self.normal else {})

    def _lines(self, inner: Any, concatenate: Any) -> dict[str, Any]:
        """Lines in the data's units from standardised coefficients; for arrays or variables."""
        first = 1 if self.intercept else 0
        slope = inner[:, first:] * (self.outcome_unit / self.scale)
        if not self.intercept:
            return {"coefficients": slope}
        level = self.middle + self.outcome_unit * inner[:, 0] - (slope * self.centre).sum(axis=1)
        if self.style.whitened:
            return {"coefficients": concatenate([level[:, None], slope], axis=1)}
        return {"slope": slope, "intercept": level}

    def default_prior(self, name: str) -> str:
        rate, prior = self.regression.rate, self.regression.prior
        assert prior is not None
        if self.style.whitened:
            if name == "sd":
                return f"sd² ~ InverseGamma(1, {rate:.4g})"
            return f"Normal(0, {prior**-0.5:.3g}{' sd' if self.normal else ''}) on standardised inputs"
        if name == "sd":
            return f"{self.outcome_unit:.4g} sqrt(InverseGamma(1, {rate:.4g}))"
        spread = "10 sd" if self.normal else f"{1 / np.sqrt(prior):.4g}"
        return f"Normal(0, {spread}) for standardised inputs"

    def prior_words(self) -> dict[str, str]:
        # Parameters on which the prior of coefficients depends come first.
        words = super().prior_words()
        return dict(reversed(words.items())) if self.style.whitened else words

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        each = [self.to_emission({n: values[n][i] for n in self.learned}) for i in range(len(values[self.learned[0]]))]
        behind = [name for name in ("coefficients", "variance") if not self.known and name in each[0]]
        return {f"_{name}": np.stack([theta[name] for theta in each]) for name in behind}

    # ------------------------------------------------------------------ EM

    def maximised(self, statistics: Mapping[str, Any], values: Mapping[str, Any], prior: bool) -> dict[str, np.ndarray]:
        if not self.known:
            return super().maximised(statistics, values, prior)
        # Standard deviations about known lines, or lines given known standard deviations.
        inner, statistics = self.regression, dict(statistics)
        if "slope" not in self.known:
            # The estimate with a ridge on coefficients in units of the sd does not depend on the sd.
            plain = inner if prior else replace(inner, prior=None)
            return self.from_emission({**plain.maximise(statistics), "variance": self.to_emission(values)["variance"]})
        exact = self.to_emission(values)
        residual, n = inner.residual(statistics, exact["coefficients"]), statistics["weight"]
        variance = (inner.rate + 0.5 * residual) / (2 + 0.5 * n) if prior else residual / np.maximum(n, 1e-300)
        return self.from_emission({**exact, "variance": variance})

    def log_prior(self, values: Mapping[str, Any]) -> float:
        if not self.known:
            return super().log_prior(values)
        inner, exact = self.regression, self.to_emission(values)
        variance = exact["variance"]
        if "slope" in self.known:
            return float(-np.sum(2 * np.log(variance) + inner.rate / variance))
        assert inner.prior is not None
        return float(-0.5 * inner.prior * np.sum(exact["coefficients"] ** 2 / variance[:, None]))

    # ------------------------------------------------------------------ predictions

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], states: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        if isinstance(self.emission, Standardised):
            given = self.emission.rows(np.column_stack([given, np.zeros(len(given))]))[:, :-1]
        made = self.regression.outcomes(rng, theta, states, given)
        return (self.middle + self.outcome_unit * made)[:, None]

    def replicated(
        self, rng: np.random.Generator, values: Mapping[str, Any], states: np.ndarray, rows: np.ndarray,
        cells: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Outcomes (n_rows, 1) at the inputs of the rows, NaN if inputs are missing."""
        given = rows[:, list(self.at[:-1])]
        lost = np.isnan(given)
        made = self.sample(rng, self.to_emission(values), states, np.where(lost, 0.0, given))
        return np.where(lost.any(axis=1)[:, None], np.nan, made)

    # ------------------------------------------------------------------ PyMC

    def variables(self, writer: Writer) -> dict[str, Any]:
        inner, begin = self.regression, self.to_emission(self.start) if self.start else {}
        assert inner.prior is not None
        out: dict[str, Any] = {name: writer.constant(value) for name, value in self.known.items()}
        spread: Any = 1.0
        if self.normal:
            if "sd" not in self.known:
                first = np.maximum(begin["variance"], 1e-10 * inner.spread) if begin else None
                given = {"alpha": 1.0, "beta": inner.rate}
                variance = writer.random("_variance", "InverseGamma", given, (self.n_states,), start=first)
                out["sd"] = writer.computed("sd", self.outcome_unit * writer.sqrt(variance), self.dims("sd"))
            spread = (out["sd"] / self.outcome_unit)[:, None]
        if "slope" in self.known:
            return out
        # The intercept refers to standardised inputs, so that all coefficients are of order one.
        shape = (self.n_states, len(self.terms))
        given = {"mu": 0.0, "sigma": spread * inner.prior**-0.5}
        b = writer.random("_coefficients", "Normal", given, shape, start=begin.get("coefficients"))
        out["_coefficients"] = b
        for name, value in self._lines(b, writer.joined).items():
            out[name] = writer.computed(name, value, self.dims(name))
        return out

    def _level(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray, states: Any = None) -> Any:
        """The linear predictor (n_rows, n_states); or (n_rows,), given the rows' states."""
        given, level = rows[:, list(self.at[:-1])], writer.constant(np.zeros(self.n_states))
        if self.style.whitened:
            lines = values["_coefficients"]
        else:
            given, level, lines = given[:, 1:], values["intercept"], values["slope"]
        if states is None:
            return level + writer.dot(given, lines.T)
        return level[states] + (lines[states] * given).sum(axis=-1)

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(outcome | state, inputs), (N, K)."""
        there = ~np.isnan(rows[:, self.at[-1]])
        y = np.where(there, rows[:, self.at[-1]], 0.0)[:, None]
        eta = self._level(writer, values, rows)
        if self.normal:
            sd = values["sd"] / self.outcome_unit if self.style.whitened else values["sd"]
            z = (y - eta) / sd
            out = -0.5 * z**2 - writer.log(sd) - HALF_LOG_2PI
        elif self.regression.outcome == "bernoulli":
            out = y * eta - writer.ops.function("softplus")(eta)
        else:
            out = y * eta - writer.exp(eta) - gammaln(y + 1)
        return writer.observed(there, out)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm
        import pytensor.tensor as pt

        if any(name.endswith("_before") for name in self.inputs) and not self.style.whitened:
            raise ModelError(
                "rows that depend on those before are not simulated; leave `window` out", code="not-applicable"
            )
        eta, n = self._level(PYMC, values, rows, states), len(rows)
        if self.normal:
            eta = self.middle + self.outcome_unit * eta if self.style.whitened else eta
            return {self.columns[0]: pm.Normal.dist(eta, values["sd"][states], shape=n)}
        if self.regression.outcome == "bernoulli":
            return {self.columns[0]: pm.Bernoulli.dist(p=pt.sigmoid(eta), shape=n)}
        return {self.columns[0]: pm.Poisson.dist(pt.exp(eta), shape=n)}
