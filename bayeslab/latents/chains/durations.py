"""States with explicit durations: hidden semi-Markov models.

A sequence is divided into segments, each with a state and a duration d = 1, 2, ..., D; the last one may continue beyond
the sequence (:mod:`bayeslab.latents.chains.duration`, which EM and the graph use). Durations have a table for each
state, or

    poisson             d - 1 ~ Poisson(mu)
    negative_binomial   d - 1 ~ NegativeBinomial(mu, alpha), of mean mu and variance mu + mu² / alpha [2]_

truncated at D and renormalised; ``alpha`` 1 is the geometric law, that of an ordinary chain. For filtering, prediction
and paths the same model is a Markov chain of pairs (state, rows since the segment's start): a segment of age a
continues with probability S(a + 1) / S(a), S(a) = P(d ≥ a). Paths of pairs and segmentations correspond one to one.

References
----------
.. [1] Guédon (2003). Estimating hidden semi-Markov chains from discrete sequences. Journal of Computational and
   Graphical Statistics 12, 604-639.
.. [2] Bulla, Bulla (2006). Stylized facts of financial time series and hidden semi-Markov models. Computational
   Statistics & Data Analysis 51, 2192-2209.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from bayeslab.blas import one_blas_thread
from bayeslab.language.writer import Writer
from bayeslab.latents.chains import duration
from bayeslab.latents.chains.chain import Chain, dense_logs
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain
from bayeslab.latents.chains.segments import PairChain, SegmentLaw
from bayeslab.latents.chains.state_chain import ChainOver

__all__ = ["OF_DURATIONS", "DurationChain"]

# Names of the parameters of each law of durations.
OF_DURATIONS = {
    "table": ("duration",),
    "poisson": ("duration_mu",),
    "negative_binomial": ("duration_mu", "duration_alpha"),
}
# Search range of the M-step for mu (times the longest duration) and alpha.
_MU, _ALPHA = (1e-8, 50.0), (1e-3, 1e5)


@dataclass(frozen=True, eq=False)
class DurationChain(ChainOver):
    """A chain of segments; see :class:`bayeslab.latents.chains.state_chain.StateChain`.

    Attributes
    ----------
    base : Chain
        The chain of segments.
    longest : int
    word : str
        Name of the law of durations.
    pseudocount : float
        Pseudocount of rows of a table.
    given : mapping of str to ndarray
        Parameters of durations that are known: all of them, or none.
    """

    base: Chain
    longest: int
    word: str
    pseudocount: float
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    expanded = True
    full = False
    how = "Baum-Welch for segments: states and their durations are summed out by forward-backward"

    @property
    def symmetric(self) -> bool:
        everywhere = self.mask | np.eye(self.n_states, dtype=bool)
        same = all(np.ptp(value, axis=0).max() == 0 for value in self.given.values())
        return same and replace(self.base, mask=everywhere).symmetric

    @property
    def of_durations(self) -> tuple[str, ...]:
        """Names of the parameters of durations."""
        return OF_DURATIONS[self.word]

    @property
    def learned(self) -> tuple[str, ...]:
        return self.base.learned if self.given else (*self.base.learned, *self.of_durations)

    def kind(self, name: str) -> str:
        return "positive" if name in ("duration_mu", "duration_alpha") else "simplex"

    def dims(self, name: str) -> tuple[str, ...]:
        if name not in self.of_durations:
            return self.base.dims(name)
        return ("state", "length") if name == "duration" else ("state",)

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.of_durations:
            return self.base.shape(name)
        return (self.n_states, self.longest) if name == "duration" else (self.n_states,)

    @property
    def n_free(self) -> int:
        n_per_state = 0 if self.given else self.longest - 1 if self.word == "table" else len(self.of_durations)
        return self.base.n_free + self.n_states * n_per_state

    def labels(self) -> dict[str, np.ndarray]:
        return {"length": np.arange(1, self.longest + 1)} if self.word == "table" else {}

    @property
    def _rate(self) -> float:
        """Rate of the exponential prior of mu, whose mean is half the longest duration."""
        return 2 / self.longest

    def prior_text(self, name: str) -> str:
        texts = {
            "duration": f"Dirichlet, {self.pseudocount:g} at every length",
            "duration_mu": f"Gamma(1, {self._rate:.4g})",
            "duration_alpha": "Gamma(2, 0.1)",
        }
        return texts[name] if name in texts else self.base.prior_text(name)

    def concentration(self, name: str) -> np.ndarray:
        """Concentration of a Dirichlet prior."""
        if name not in self.of_durations:
            return self.base.concentration(name)
        return np.full(self.shape(name), self.pseudocount if name == "duration" else 1.0)

    # ------------------------------------------------------------------ computing

    def log_duration(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """log P(duration), (n_states, longest)."""
        values = {**values, **self.given}
        if self.word == "table":
            with np.errstate(divide="ignore"):
                return np.log(values["duration"])
        theta = np.stack([values[name] for name in self.of_durations], axis=-1)
        return np.asarray(
            special.log_softmax(np.stack([_weights(self.longest, parameters) for parameters in theta]), axis=1)
        )

    def segments(self, values: Mapping[str, np.ndarray]) -> duration.SemiMarkovChain:
        """The law of segments."""
        parameters = self.complete(values)
        with np.errstate(divide="ignore"):
            start, transition = np.log(parameters["initial"]), np.log(parameters["transition"])
        return duration.SemiMarkovChain(start, transition, self.log_duration(values))

    @cached_property
    def pairs(self) -> PairChain:
        """The chain of pairs (state, age)."""
        return PairChain(self.mask, self.longest)

    @property
    def edges(self) -> Edges:
        """Of the chain that is computed with."""
        return self.pairs.edges

    @property
    def last(self) -> np.ndarray:
        return self.pairs.last

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        return self.pairs.fold(posterior)

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        """The chain of pairs."""
        return self.pairs.hidden(self.segments(values))

    def law(self, values: Mapping[str, np.ndarray], log_density: np.ndarray, offsets: np.ndarray) -> SegmentLaw:
        return SegmentLaw(self.pairs, self.segments(values), log_density, offsets)

    # ------------------------------------------------------------------ learning

    def maximise(
        self, counts: Mapping[str, np.ndarray], *, prior: bool, start: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        out = self.base.maximise(counts, prior=prior)
        if self.given:
            return out
        duration_counts = counts["duration"]
        if self.word == "table":
            total = np.maximum(duration_counts + (self.pseudocount - 1 if prior else 0.0), 0.0)
            sums = total.sum(axis=1, keepdims=True)
            out["duration"] = np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), 1 / self.longest)
            return out
        before = self.start_values() if start is None else start
        theta = np.stack([before[name] for name in self.of_durations], axis=-1)
        estimates = np.stack([self._fitted(n, at, prior=prior) for n, at in zip(duration_counts, theta, strict=True)])
        return out | {name: estimates[:, q] for q, name in enumerate(self.of_durations)}

    def _fitted(self, counts: np.ndarray, before: np.ndarray, *, prior: bool) -> np.ndarray:
        """Parameters of one state's durations from their expected counts, never worse than the previous ones."""
        if counts.sum() <= 0 and not prior:
            return before
        bounds = [tuple(np.log([_MU[0], _MU[1] * self.longest])), tuple(np.log(_ALPHA))][: len(before)]

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            theta = np.exp(x)
            log_p = special.log_softmax(_weights(self.longest, theta))
            slope = (counts - counts.sum() * np.exp(log_p)) @ _slopes(self.longest, theta)
            value = float(counts @ log_p)
            if prior:
                value += self._log_prior(theta)
                slope = slope + np.array([-self._rate, 1 / theta[-1] - 0.1])[: len(theta)]
            return -value, -slope * theta

        x = np.clip(np.log(before), *np.transpose(bounds))
        with one_blas_thread():
            optimum = optimize.minimize(
                loss, x, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}
            )
        return np.exp(optimum.x) if optimum.fun <= loss(np.log(before))[0] else before

    def _log_prior(self, theta: np.ndarray) -> float:
        """Of one state's mu and alpha."""
        log_p = np.log(self._rate) - self._rate * theta[0]
        return float(log_p + (stats.gamma.logpdf(theta[1], 2, scale=10) if len(theta) > 1 else 0.0))

    def expected_log_density(self, counts: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> float:
        at, log_p = counts["duration"] > 0, self.log_duration(values)
        return self.base.expected_log_density(counts, values) + float(np.sum(counts["duration"][at] * log_p[at]))

    def log_prior(self, values: Mapping[str, np.ndarray]) -> float:
        total = self.base.log_prior(values)
        if self.given:
            return total
        if self.word == "table":
            with np.errstate(divide="ignore"):
                log_sum = np.log(values["duration"]).sum()
            return total + (float((self.pseudocount - 1) * log_sum) if self.pseudocount != 1 else 0.0)
        theta = np.stack([values[name] for name in self.of_durations], axis=-1)
        return total + sum(self._log_prior(parameters) for parameters in theta)

    def draw(self, rng: np.random.Generator, weight: float = 1.0) -> dict[str, np.ndarray]:
        out = self.base.draw(rng)
        if self.given:
            return out
        if self.word == "table":
            return out | {"duration": rng.dirichlet(np.ones(self.longest), self.n_states)}
        drawn = {
            "duration_mu": self.longest / 3 * rng.uniform(0.2, 2.0, self.n_states),
            "duration_alpha": rng.uniform(0.5, 5.0, self.n_states),
        }
        return out | {name: drawn[name] for name in self.of_durations}

    def start_values(self) -> dict[str, np.ndarray]:
        """Start values with vague durations."""
        k = self.n_states
        values = {
            "duration": np.full((k, self.longest), 1 / self.longest),
            "duration_mu": np.full(k, self.longest / 3),
            "duration_alpha": np.full(k, 2.0),
        }
        return self.base.start_values() | {name: values[name] for name in self.of_durations if name not in self.given}

    # ------------------------------------------------------------------ densities of graphs and programs

    def variables(self, writer: Writer, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        out = self.base.variables(writer, start)
        out |= {name: writer.constant(value) for name, value in self.given.items()}
        for name in () if self.given else self.of_durations:
            first, word = None if start is None else start[name], "Gamma"
            given: dict[str, Any] = {"alpha": 2.0, "beta": 0.1}
            if name == "duration":
                word, given = "Dirichlet", {"a": self.concentration(name)}
            elif name == "duration_mu":
                given = {"alpha": 1.0, "beta": self._rate}
            out[name] = writer.random(name, word, given, self.shape(name), dims=self.dims(name), start=first)
        return out

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        flat = [*dense_logs(writer, self.base, values), self._log_table(writer, values), log_density]
        return writer.evidence(duration.KERNEL, flat, offsets, np.array([self.n_states, self.longest, 1]))

    def _log_table(self, writer: Writer, values: Mapping[str, Any]) -> Any:
        if self.given:
            return self.log_duration({})
        if self.word == "table":
            return writer.log(values["duration"])
        d, mu = np.arange(float(self.longest)), values["duration_mu"][:, None]
        if self.word == "poisson":
            out = d * writer.log(mu) - special.gammaln(d + 1)
        else:
            alpha, gammaln = values["duration_alpha"][:, None], writer.ops.function("gammaln")
            out = gammaln(d + alpha) - special.gammaln(d + 1) + d * (writer.log(mu) - writer.log(mu + alpha))
        return out - writer.log_sum_exp(out, 1)


def _weights(longest: int, theta: np.ndarray) -> np.ndarray:
    """Unnormalised logarithms of the law of d - 1 = 0, ..., longest - 1 at (mu,) or (mu, alpha)."""
    d, mu = np.arange(longest), theta[0]
    if len(theta) == 1:
        return np.asarray(special.xlogy(d, mu) - special.gammaln(d + 1))
    alpha = theta[1]
    return np.asarray(special.gammaln(d + alpha) - special.gammaln(d + 1) + d * (np.log(mu) - np.log(mu + alpha)))


def _slopes(longest: int, theta: np.ndarray) -> np.ndarray:
    """Derivatives (longest, n_parameters) of :func:`_weights`."""
    d, mu = np.arange(longest), theta[0]
    if len(theta) == 1:
        return (d / mu)[:, None]
    alpha = theta[1]
    return np.column_stack([d * alpha / (mu * (mu + alpha)), special.psi(d + alpha) - d / (mu + alpha)])
