"""States that emit a regression: of inputs, of the column's own past, or of both.

With inputs each state is a rule from x to y, and the model an input-output hidden Markov model [1]_. With a ``window``
of w the w values before are inputs too: an autoregression that changes regime [2]_. The first w rows of a sequence, and
rows that follow a missing value, have no complete past: they are conditioned on and say nothing of the state.

Inside, inputs and normal outcomes are standardised by the data of the fit, and the weak prior of
:class:`bayeslab.exact.emissions.Regression` is put on their coefficients there; results are in the data's units.

References
----------
.. [1] Bengio, Frasconi (1995). An input output HMM architecture. NIPS 7, 427-434.
.. [2] Hamilton (1989). A new approach to the economic analysis of nonstationary time series and the business cycle.
   Econometrica 57, 357-384.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import ModelError
from bayeslab.exact.emissions import Emission, Regression
from bayeslab.posterior.observed.part import StatePart

__all__ = ["Expert", "Standardised"]


@dataclass(frozen=True, eq=False)
class Standardised(Emission):
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

    @property
    def prior(self) -> float | None:
        return self.inner.prior

    def without_prior(self) -> Standardised:
        return replace(self, inner=replace(self.inner, prior=None))

    def rows(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.centre) / self.scale

    def check(self, rows: np.ndarray) -> None:
        self.inner.check(self.rows(rows))

    def log_density(self, parameters: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        unit = np.where(np.isnan(rows[:, -1:]), 0.0, np.log(self.scale[-1]))
        return self.inner.log_density(parameters, self.rows(rows)) - unit

    def statistics(self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Any = None) -> dict[str, Any]:
        return self.inner.statistics(self.rows(rows), responsibilities, parameters)

    def maximise(self, statistics: Any, parameters: Any = None) -> dict[str, Any]:
        return dict(self.inner.maximise(statistics, parameters))

    def expected_log_likelihood(self, statistics: Any, parameters: Any) -> float:
        """In standardised units: up to a constant."""
        return self.inner.expected_log_likelihood(statistics, parameters)

    def log_prior(self, parameters: Any) -> float:
        return self.inner.log_prior(parameters)

    def n_free(self, n_states: int) -> int:
        return self.inner.n_free(n_states)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Standardised:
        return replace(self, inner=self.inner.with_prior(self.rows(rows), n_states))

    def degenerate(self, parameters: Any, variances: np.ndarray) -> np.ndarray:
        return self.inner.degenerate(parameters, variances / self.scale[-1] ** 2)

    def sample(self, rng: np.random.Generator, parameters: Any, states: np.ndarray) -> np.ndarray:
        raise ModelError("outcomes need their inputs: see Expert.replicated", code="not-applicable")

    def features(self, rows: np.ndarray) -> np.ndarray:
        return self.inner.features(rows)[:, 1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class Expert(StatePart):
    """A column whose states are regressions; see :class:`bayeslab.posterior.observed.part.StatePart`.

    Attributes
    ----------
    inputs : tuple of str
        ``at`` has their positions after that of the ones, and last that of the outcome.
    """

    inputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return ("intercept", "slope", "sd") if self.word == "gaussian" else ("intercept", "slope")

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.n_states, len(self.inputs)) if name == "slope" else (self.n_states,)

    def dims(self, name: str, state: str) -> tuple[str, ...]:
        return (state, "input") if name == "slope" else (state,)

    def labels(self) -> dict[str, np.ndarray]:
        return {"input": np.array(self.inputs)}

    def position(self, column: str) -> int:
        return self.at[-1]

    @property
    def no_gibbs(self) -> str:
        return "regressions have no conjugate prior here; use nuts, map or em"

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        centre, scale, values = self.emission.centre, self.emission.scale, {**values, **self.known}
        slope = np.asarray(values["slope"], float)
        level = np.asarray(values["intercept"], float) + slope @ centre[1:-1] - centre[-1]
        out = {"coefficients": np.column_stack([level, slope * scale[1:-1]]) / scale[-1]}
        return out | ({"variance": (np.asarray(values["sd"]) / scale[-1]) ** 2} if self.word == "gaussian" else {})

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        centre, scale = self.emission.centre, self.emission.scale
        slope = theta["coefficients"][:, 1:] * scale[-1] / scale[1:-1]
        out = {"intercept": centre[-1] + scale[-1] * theta["coefficients"][:, 0] - slope @ centre[1:-1], "slope": slope}
        return out | ({"sd": scale[-1] * np.sqrt(theta["variance"])} if self.word == "gaussian" else {})

    def default_prior(self, name: str) -> str:
        if name == "sd":
            return f"{self.emission.scale[-1]:.4g} sqrt(InverseGamma(1, {0.01 * self.emission.inner.spread:.4g}))"
        spread = "10 sd" if self.word == "gaussian" else f"{1 / np.sqrt(self.emission.prior):.4g}"
        return f"Normal(0, {spread}) for standardised inputs"

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        each = [self.to_exact({n: values[n][i] for n in self.learned}) for i in range(len(values[self.learned[0]]))]
        behind = [name for name in ("coefficients", "variance") if not self.known and name in each[0]]
        return {f"_{name}": np.stack([own[name] for own in each]) for name in behind}

    # ------------------------------------------------------------------ EM

    def _best(self, statistics: Mapping[str, Any], values: Mapping[str, Any], prior: bool) -> dict[str, np.ndarray]:
        if not self.known:
            return super()._best(statistics, values, prior)
        # Standard deviations about known lines, or lines where standard deviations are known.
        inner = self.emission.inner
        if "slope" not in self.known:
            # What a ridge on coefficients in units of the sd finds does not depend on the sd.
            plain = inner if prior else replace(inner, prior=None)
            return self.from_exact({**plain.maximise(statistics), "variance": self.to_exact(values)["variance"]})
        exact = self.to_exact(values)
        residual, n = inner.residual(statistics, exact["coefficients"]), statistics["weight"]
        own = (inner.rate + 0.5 * residual) / (2 + 0.5 * n) if prior else residual / np.maximum(n, 1e-300)
        return self.from_exact({**exact, "variance": own})

    def log_prior(self, values: Mapping[str, Any]) -> float:
        if not self.known:
            return super().log_prior(values)
        inner, exact = self.emission.inner, self.to_exact(values)
        variance = exact["variance"]
        if "slope" in self.known:
            return float(-np.sum(2 * np.log(variance) + inner.rate / variance))
        return float(-0.5 * inner.prior * np.sum(exact["coefficients"] ** 2 / variance[:, None]))

    def replicated(
        self, rng: np.random.Generator, values: Mapping[str, Any], states: np.ndarray, rows: np.ndarray,
        cells: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Outcomes (n_rows, 1) at the inputs of the rows, NaN where these are not known."""
        rows = rows[:, list(self.at[:-1])]
        emission, known = self.emission, ~np.isnan(rows).any(axis=1)
        made = emission.inner.outcomes(rng, self.to_exact(values), states, np.where(np.isnan(rows), 0.0, emission.rows(
            np.column_stack([rows, np.zeros(len(rows))]))[:, :-1]))  # fmt: skip
        return np.where(known, emission.centre[-1] + emission.scale[-1] * made, np.nan)[:, None]

    # ------------------------------------------------------------------ PyMC

    def variables(self, state: str) -> dict[str, Any]:
        import pymc as pm
        import pytensor.tensor as pt

        emission = self.emission
        inner, centre, scale = emission.inner, emission.centre, emission.scale
        begin = self.to_exact(self.start) if self.start else {}
        out: dict[str, Any] = {name: pt.as_tensor_variable(value) for name, value in self.known.items()}
        spread: Any = 1.0
        if self.word == "gaussian":
            if "sd" not in self.known:
                own = {"initval": np.maximum(begin["variance"], 1e-10)} if begin else {}
                variance = pm.InverseGamma("_variance", 1.0, inner.rate, shape=self.n_states, **own)
                out["sd"] = pm.Deterministic("sd", scale[-1] * pt.sqrt(variance), dims=(state,))
            spread = (out["sd"] / scale[-1])[:, None]
        if "slope" in self.known:
            return out
        own = {"initval": begin["coefficients"]} if begin else {}
        shape = (self.n_states, inner.n_inputs)
        # The intercept among them is one of standardised inputs, so that all are of order one.
        b = pm.Normal("_coefficients", 0.0, spread / np.sqrt(cast(float, inner.prior)), shape=shape, **own)
        slope = b[:, 1:] * (scale[-1] / scale[1:-1])
        out["slope"] = pm.Deterministic("slope", slope, dims=(state, "input"))
        out["intercept"] = pm.Deterministic(
            "intercept", centre[-1] + scale[-1] * b[:, 0] - pt.dot(slope, centre[1:-1]), dims=(state,)
        )
        return out

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        """log p(outcome | state, inputs), (N, K)."""
        import pytensor.tensor as pt

        own = rows[:, list(self.at)]
        seen = ~np.isnan(own[:, -1])
        y = np.where(seen, own[:, -1], 0.0)[:, None]
        eta = values["intercept"] + pt.dot(own[:, 1:-1], values["slope"].T)
        if self.word == "gaussian":
            out = -0.5 * ((y - eta) / values["sd"]) ** 2 - pt.log(values["sd"]) - 0.5 * np.log(2 * np.pi)
        elif self.word == "bernoulli":
            out = y * eta - pt.softplus(eta)
        else:
            out = y * eta - pt.exp(eta) - gammaln(y + 1)
        return out if seen.all() else pt.where(seen[:, None], out, 0.0)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm
        import pytensor.tensor as pt

        if any(name.endswith("_before") for name in self.inputs):
            raise ModelError(
                "rows that depend on those before are not simulated; leave `window` out", code="not-applicable"
            )
        inputs = rows[:, list(self.at[1:-1])]
        eta = values["intercept"][states] + (values["slope"][states] * inputs).sum(axis=1)
        n = len(inputs)
        if self.word == "gaussian":
            return {self.columns[0]: pm.Normal.dist(eta, values["sd"][states], shape=n)}
        if self.word == "bernoulli":
            return {self.columns[0]: pm.Bernoulli.dist(p=pt.sigmoid(eta), shape=n)}
        return {self.columns[0]: pm.Poisson.dist(pt.exp(eta), shape=n)}
