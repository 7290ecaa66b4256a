"""Starts of searches for the parameters of a mixture: guesses of the rows' components.

References
----------
.. [1] Arthur, Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA, 1027-1035.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from bayeslab.distributions.emissions import Parameters
from bayeslab.distributions.toolbox.logarithms import log_sum
from bayeslab.latents.labels.k_means import distances, k_means, seeds
from bayeslab.posterior.mixtures.problem import MixtureProblem

__all__ = [
    "Start",
    "by_chance",
    "by_clump",
    "by_rows",
    "by_seeds",
    "permitted",
    "start",
    "start_from_labels",
    "start_in_turn",
    "starting_labels",
]

Start = Literal["k_means", "k_means++", "random"]
_IN_TURN: tuple[Start, ...] = ("k_means", "random", "k_means++")
# Minimum variance of a component of a start, as a share of the rows' variance.
_NARROWEST = 1e-4


def start_in_turn(k: int) -> Start:
    """The kind of start of the k-th of several searches."""
    return _IN_TURN[k % len(_IN_TURN)]


def starting_labels(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> np.ndarray:
    """A first guess of the rows' components, (N, K): see :class:`bayeslab.posterior.mixtures.search.MixtureOptions`."""
    k, n_rows = problem.n_components, len(problem.rows)
    if kind == "random":
        return permitted(problem, rng.dirichlet(np.ones(k), n_rows))
    points = problem.emission.features(problem.rows)
    centres = points[seeds(points, k, rng)]
    if problem.latent.allowed is not None:
        # Known labels identify the components.
        known = problem.latent.allowed.sum(axis=1) == 1
        for j in np.flatnonzero(problem.latent.allowed[known].any(axis=0)):
            centres[j] = points[known & problem.latent.allowed[:, j]].mean(axis=0)
    if kind == "k_means":
        labels = k_means(points, k, rng, centres=centres, max_iterations=20).labels
    else:
        labels = distances(points, centres).argmin(axis=1)
    return permitted(problem, 0.9 * np.eye(k)[labels] + 0.1 / k)


def permitted(problem: MixtureProblem, guess: np.ndarray) -> np.ndarray:
    """The guess restricted to the allowed components; uniform over these if it has none of them."""
    if problem.latent.allowed is None:
        return guess
    guess = np.where(problem.latent.allowed, guess + 1e-12, 0.0)
    return guess / guess.sum(axis=1, keepdims=True)


def start(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> Parameters:
    return problem.update(problem.statistics(starting_labels(problem, kind, rng)))


def start_from_labels(problem: MixtureProblem, labels: np.ndarray) -> Parameters:
    """Parameters from a guess of the rows' components: codes (N,), or probabilities (N, K).

    The guess gets a weight of nine tenths, so that no component starts without variance.
    """
    k = problem.n_components
    sure = np.eye(k)[labels] if labels.ndim == 1 else labels
    return problem.update(problem.statistics(permitted(problem, 0.9 * sure + 0.1 / k)))


def by_seeds(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    return starting_labels(problem, "k_means++", rng)


def by_chance(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    return starting_labels(problem, "random", rng)


def by_rows(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    """Starts around random rows, with random widths of the components."""
    points = problem.emission.features(problem.rows)
    n, k = len(points), problem.n_components
    distance = distances(points, points[rng.choice(n, k, replace=n < k)])
    whole = max(float(np.var(points, axis=0).mean()), 1e-300)
    width = whole * np.exp(rng.uniform(np.log(_NARROWEST), 0.0, k))
    log_density = -0.5 * distance / width - 0.5 * points.shape[1] * np.log(width)
    shares = np.exp(log_density - log_sum(log_density, axis=1, keepdims=True))
    return np.asarray(0.99 * shares + 0.01 / k)


def by_clump(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    """A start with the nearest neighbours of a row in a dense region as one component, and seeds for the others."""
    points = problem.emission.features(problem.rows)
    n, k = len(points), problem.n_components
    size = min(n, int(np.exp(rng.uniform(np.log(points.shape[1] + 2), np.log(max(n / 4, points.shape[1] + 3))))))
    around = points[rng.choice(n, min(n, 10), replace=False)]
    distance = distances(around, points)
    reach = np.partition(distance, size - 1, axis=1)[:, size - 1]
    clump = np.argsort(distance[int(reach.argmin())], kind="stable")[:size]
    labels = np.zeros(n, dtype=int)
    rest = np.setdiff1d(np.arange(n), clump)
    if k > 1 and len(rest) >= k - 1:
        centres = points[rest][seeds(points[rest], k - 1, rng)]
        labels[rest] = 1 + distances(points[rest], centres).argmin(axis=1)
    # Little weight for other rows: a tenth of them would widen a clump to the whole.
    return np.asarray(0.999 * np.eye(k)[labels] + 0.001 / k)
