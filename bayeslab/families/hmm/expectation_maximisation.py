"""Hidden Markov models as problems for EM: Baum-Welch, with priors, known parameters and missing cells.

References
----------
.. [1] Baum, Petrie, Soules, Weiss (1970). A maximization technique occurring in the statistical analysis of
   probabilistic functions of Markov chains. Annals of Mathematical Statistics 41, 164-171.
.. [2] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.exact.answer import EMPlan
from bayeslab.exact.emissions import dof_from_real, dof_to_real
from bayeslab.families.hmm.hidden import Hidden
from bayeslab.latents.chains.driven import LOG_ODDS

__all__ = ["HiddenProblem", "collapsed", "plan"]

type Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class HiddenProblem:
    """A model and its data, as EM sees them. Parameters are called as in the posterior."""

    hidden: Hidden
    prior: bool

    def expect(self, theta: Values) -> tuple[float, dict[str, Any]]:
        hidden = self.hidden
        try:
            log_emission = hidden.log_emission(theta)
            if np.isnan(log_emission).any():
                return -np.inf, {}
            found = hidden.law(theta, log_emission).expected()
        except (np.linalg.LinAlgError, ModelError):
            # A guess of an accelerated search may lie outside, or cut the chain in two.
            return -np.inf, {}
        value = float(found.log_evidence.sum())
        if not np.isfinite(value):
            return -np.inf, {}
        out: dict[str, Any] = dict(found.counts)
        posterior = found.posterior
        for k, part in enumerate(hidden.parts):
            if part.learned:
                rows = hidden.rows[:, list(part.at)]
                own = part.emission.statistics(rows, posterior, part.to_exact(theta))
                out |= {f"{k}.{name}": total for name, total in own.items()}
        return value, out

    def update(self, statistics: Mapping[str, Any], theta: Values) -> dict[str, np.ndarray]:
        out = self.hidden.chain.maximise(statistics, prior=self.prior, start=theta)
        for k, part in enumerate(self.hidden.parts):
            if part.learned:
                out |= part.fitted(_own(statistics, k), theta, prior=self.prior)
        return out

    def log_prior(self, theta: Values) -> float:
        if not self.prior:
            return 0.0
        own = sum(part.log_prior(theta) for part in self.hidden.parts if part.learned)
        return self.hidden.chain.log_prior(theta) + own

    def gradient(self, theta: Values, statistics: Mapping[str, Any]) -> np.ndarray:
        """Slope of log likelihood plus log prior in the coordinates of :meth:`flatten`.

        By Fisher's identity it is that of the expected complete log likelihood, which needs the totals only: central
        differences of it cost no pass over the data.
        """
        x = self.flatten(theta)
        step = 1e-3 * np.maximum(1.0, np.abs(x) / 10)
        out = np.empty(len(x))
        for i in range(len(x)):
            sides = []
            for place in (-2, -1, 1, 2):
                moved = x.copy()
                moved[i] += place * step[i]
                sides.append(self._height(self.unflatten(moved), statistics))
            # Of order four: errors of a wide step and of rounding are both small.
            out[i] = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * step[i])
        return out

    def _height(self, theta: Values, statistics: Mapping[str, Any]) -> float:
        """What has the slope of the log posterior where the totals come from."""
        value = self.hidden.chain.expected_log_density(statistics, theta) + self.log_prior(theta)
        for k, part in enumerate(self.hidden.parts):
            if part.learned:
                own = _own(statistics, k)
                value += float(part.emission.expected_log_likelihood(own, part.to_exact(theta)))
        return value

    # ------------------------------------------------------------------ coordinates for acceleration

    def flatten(self, theta: Values) -> np.ndarray:
        parts = [_free(self._coordinates(name), theta[name] / self._unit(name)) for name in self.hidden.learned]
        return np.concatenate([part.ravel() for part in parts])

    def unflatten(self, x: np.ndarray) -> dict[str, np.ndarray]:
        out, at = {}, 0
        for name in self.hidden.learned:
            shape = self._shape(name)
            size = int(np.prod(shape))
            value = _bound(self._coordinates(name), x[at : at + size].reshape(shape)) * self._unit(name)
            if name in LOG_ODDS:  # against staying, whichever of the equal coordinates a search came to
                own = np.arange(len(value))
                value = value - value[own, own][:, None]
            out[name] = value
            at += size
        for part in self.hidden.parts:
            out |= part.constrained(out)
        return out

    def _shape(self, name: str) -> tuple[int, ...]:
        hidden = self.hidden
        if name in hidden.chain.learned:
            return hidden.chain.shape(name)
        return next(part.shape(name) for part in hidden.parts if name in part.names)

    def _unit(self, name: str) -> Any:
        """What means are measured in, so that coordinates do not depend on the data's units."""
        return next((part.unit(name) for part in self.hidden.parts if name in part.names), 1.0)

    def _coordinates(self, name: str) -> str:
        """What values a search takes a parameter through."""
        return next((p.coordinates(name) for p in self.hidden.parts if name in p.names), None) or self.kind(name)

    def kind(self, name: str) -> str:
        """What values a parameter can have."""
        chain: Any = self.hidden.chain
        if name in chain.learned:
            return str(chain.kind(name))
        return next(part.kind(name) for part in self.hidden.parts if name in part.names)


def _own(statistics: Mapping[str, Any], k: int) -> dict[str, Any]:
    """The totals of part k."""
    return {name.partition(".")[2]: v for name, v in statistics.items() if name.startswith(f"{k}.")}


def collapsed(hidden: Hidden, values: Values) -> bool:
    """Whether a state has shrunk to a point, where the likelihood has no bound."""
    return any(part.collapsed(values) for part in hidden.parts if part.learned)


def _free(kind: str, value: np.ndarray) -> np.ndarray:
    """Any real numbers."""
    match kind:
        case "matrix":
            lower, at = np.linalg.cholesky(value), np.arange(value.shape[-1])
            lower[..., at, at] = np.log(lower[..., at, at])
            return lower
        case "simplex":
            # Zeros of a pattern stay: what is added to -700 is lost again in the exponential.
            return np.log(np.maximum(value, 1e-300))
        case "dof":
            return dof_to_real(value)
        case "positive":
            return np.log(np.maximum(value, 1e-300))
        case "unit":
            return np.log(np.maximum(value, 1e-300)) - np.log(np.maximum(1 - value, 1e-300))
    return value


def _bound(kind: str, x: np.ndarray) -> np.ndarray:
    match kind:
        case "matrix":
            lower, at = np.tril(x), np.arange(x.shape[-1])
            lower[..., at, at] = np.exp(np.clip(lower[..., at, at], -300.0, 300.0))
            return lower @ np.swapaxes(lower, -1, -2)
        case "simplex":
            p = np.exp(x - x.max(axis=-1, keepdims=True))
            p = np.where(p < 1e-290, 0.0, p)
            return p / p.sum(axis=-1, keepdims=True)
        case "dof":
            return dof_from_real(x)
        case "positive":
            return np.exp(np.clip(x, -690.0, 690.0))
        case "unit":
            return 1 / (1 + np.exp(-np.clip(x, -690.0, 690.0)))
    return x


def plan(hidden: Hidden) -> EMPlan | str:
    """How EM applies, or why not."""
    if not hidden.learned:
        return "everything is given, so that there is nothing to learn; `bayeslab decode` finds the states"
    if why := hidden.chain.no_em:
        return why
    written = [part.unknown_prior for part in hidden.parts if part.unknown_prior is not None]
    hidden.check_possible(hidden.guess(None))

    def problem(prior: bool) -> HiddenProblem:
        if prior and written:
            raise ModelError(
                f"EM does not know the density of the prior written for '{written[0]}': use method nuts or map",
                path=("model", "parameters", written[0]),
                code="not-a-distribution",
            )
        if prior and hidden.in_order and hidden.numbering is None:
            name = hidden.in_order[0]
            raise ModelError(
                f"EM puts states in order where nothing else tells them apart; here the order of '{name}' is one of"
                " several constraints: use method nuts or map",
                path=("model", "parameters", name),
                code="unsupported",
            )
        if (
            prior
            and hidden.chain.learned
            and min(_least(hidden.chain.concentration(n)) for n in hidden.chain.learned) < 1
        ):
            raise ModelError(
                "a Dirichlet prior with pseudocount below 1 has no mode: use pseudocount 1 or more",
                path=("model", "pseudocount"),
                code="no-mode",
            )
        return HiddenProblem(hidden, prior)

    def values(theta: Values) -> dict[str, np.ndarray]:
        return hidden.numbered(theta)

    def placed(theta: Values, given: Values) -> Values:
        for name, value in given.items():
            if name in hidden.chain.learned:
                _refuse_excluded(hidden, name, value)
        return {**theta, **given}

    own = hidden.chain
    simplices = [
        *(n for n in own.learned if own.kind(n) == "simplex"),
        *(n for p in hidden.parts for n in p.learned if p.kind(n) == "simplex"),
    ]
    bounds = dict.fromkeys((n for n in simplices if not _patterned(hidden, n)), (0.0, 1.0))
    return EMPlan(
        how=own.how,
        problem=problem,
        start=hidden.guess,
        values=values,
        dims=hidden.dims,
        placed=placed,
        labels=hidden.labels,
        kinds={name: HiddenProblem(hidden, False).kind(name) for name in hidden.learned},
        bounds=bounds,
        unbounded=lambda theta: collapsed(hidden, theta),
    )


def _refuse_excluded(hidden: Hidden, name: str, value: np.ndarray) -> None:
    """Starts have nothing where the chain has no way, and log odds of staying are against themselves."""
    path = ("inference", "initvals", name)
    if name in LOG_ODDS:
        at = np.arange(hidden.n_states)
        if np.any(value[at, at] != 0):
            raise OptionError(f"initvals: '{name}' is 0 from a state to itself", path=path, code="out-of-range")
    elif np.any(value[hidden.chain.concentration(name) <= 0] != 0):
        raise OptionError(f"initvals: '{name}' is 0 where the chain has no way", path=path, code="out-of-range")


def _least(concentration: np.ndarray) -> float:
    return float(concentration[concentration > 0].min())


def _patterned(hidden: Hidden, name: str) -> bool:
    """Where zeros are meant; and the first state of a single sequence is seldom in doubt."""
    if name == "initial" or name.startswith("initial_"):
        return hidden.sequences.n_sequences == 1 or bool((hidden.chain.concentration(name) <= 0).any())
    return name == "duration" or name.startswith("log_odds") or (name == "transition" and not hidden.chain.mask.all())
