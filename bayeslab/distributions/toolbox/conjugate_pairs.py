"""Closed forms of beta and gamma priors of a single parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from bayeslab import special
from bayeslab.distributions.toolbox.contract import Array
from bayeslab.distributions.toolbox.logarithms import ratio, safe_log

__all__ = ["PAIRS", "Pair"]

type Both = tuple[Array, Array]


class Pair(ABC):
    """A family of priors with two parameters (a, b), whose log density is a weighted sum of f(θ) and g(θ).

    Items with the log density a f(θ) + b g(θ) + c add their sums of a and b to those of the prior.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    # Support of the parameter.
    kind: ClassVar[str]
    # (a, b) of the uniform prior, if it is proper.
    uniform: ClassVar[tuple[float, float] | None]

    @abstractmethod
    def logs(self, theta: Array) -> Both:
        """f(θ) and g(θ)."""

    @abstractmethod
    def exponents(self, a: Array, b: Array) -> Both:
        """The coefficients of f and g in the log density of the prior."""

    @abstractmethod
    def expected_logs(self, a: Array, b: Array) -> Both:
        """E f(θ) and E g(θ)."""

    @abstractmethod
    def log_normaliser(self, a: Array, b: Array) -> Array:
        """Log integral of the exponential of the prior's weighted sum."""

    @abstractmethod
    def most_likely(self, a: Array, b: Array) -> Array:
        """The maximum of a f(θ) + b g(θ); some value if a and b are zero."""

    @abstractmethod
    def mode(self, a: Array, b: Array) -> Array:
        """The mode of the prior (a, b)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, a: Array, b: Array) -> Array:
        """Independent draws of the prior (a, b)."""

    def log_density(self, theta: Array, a: Array, b: Array) -> Array:
        """Log density of the prior (a, b), up to a constant; 0 log 0 is 0."""
        (f, g), (up, down) = self.logs(theta), self.exponents(a, b)
        return up * f + down * g


class _Beta(Pair):
    """Beta(a, b) for a probability: a successes and b failures, f = log θ and g = log(1 - θ)."""

    name = "Beta"
    parameter = "probability"
    kind = "unit"
    uniform = (1.0, 1.0)

    def logs(self, theta: Array) -> Both:
        return safe_log(theta), safe_log(1 - theta)

    def exponents(self, a: Array, b: Array) -> Both:
        return np.asarray(a) - 1, np.asarray(b) - 1

    def expected_logs(self, a: Array, b: Array) -> Both:
        return special.digamma(a) - special.digamma(a + b), special.digamma(b) - special.digamma(a + b)

    def log_normaliser(self, a: Array, b: Array) -> Array:
        return special.betaln(a, b)

    def most_likely(self, a: Array, b: Array) -> Array:
        return ratio(a, a + b, 0.5)

    def mode(self, a: Array, b: Array) -> Array:
        return self.most_likely(np.maximum(a - 1, 0.0), np.maximum(b - 1, 0.0))

    def draw(self, rng: np.random.Generator, a: Array, b: Array) -> Array:
        return rng.beta(a, b)


class _Gamma(Pair):
    """Gamma(a, b) for a rate: a events in a time b, f = log θ and g = -θ."""

    name = "Gamma"
    parameter = "rate"
    kind = "positive"
    uniform = None

    def logs(self, theta: Array) -> Both:
        return safe_log(theta), -theta

    def exponents(self, a: Array, b: Array) -> Both:
        return np.asarray(a) - 1, np.asarray(b)

    def expected_logs(self, a: Array, b: Array) -> Both:
        return special.digamma(a) - np.log(b), -a / b

    def log_normaliser(self, a: Array, b: Array) -> Array:
        return special.gammaln(a) - a * np.log(b)

    def most_likely(self, a: Array, b: Array) -> Array:
        # Events in zero time have an infinite rate.
        return np.where(a > 0, ratio(a, b, np.inf), np.where(b > 0, 0.0, 1.0))

    def mode(self, a: Array, b: Array) -> Array:
        return np.maximum(a - 1, 0.0) / b

    def draw(self, rng: np.random.Generator, a: Array, b: Array) -> Array:
        return rng.gamma(a) / b


# By PyMC's name of the prior.
PAIRS: Mapping[str, Pair] = {pair.name: pair for pair in (_Beta(), _Gamma())}
