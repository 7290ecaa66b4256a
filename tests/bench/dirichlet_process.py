"""Collapsed Gibbs sweeps of a Dirichlet process mixture beside scikit-learn's variational iterations, one core each.

``python dirichlet_process.py [N]`` prints CPU seconds of a sweep over N = 100,000 rows of two columns in 20 planted clusters,
those of an iteration of ``BayesianGaussianMixture`` with 20 components and full covariances, and their ratio; then how
chains from a single cluster find the planted ones. Both sides run in this process.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

from bayeslab.distributions.emissions import gaussian
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.latents.partitions.dirichlet_process import Moves, ProcessPrior, ProcessProblem, advance, start

SWEEPS, REPEATS = 5, 3


def planted(n: int, step: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in 20 clusters of a grid, and their clusters; ``step`` sets how far these are apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 20, n)
    centres = step * np.array([(i, j) for i in range(5) for j in range(4)]) + rng.normal(size=(20, 2))
    shapes = np.eye(2) + 0.4 * rng.normal(size=(20, 2, 2))
    return centres[labels] + np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(n, 2))), labels


def sweep_seconds(rows: np.ndarray, labels: np.ndarray) -> float:
    """Of a Gibbs sweep, at the planted clusters."""
    problem = ProcessProblem(gaussian(2).with_prior(rows, 1), rows, ProcessPrior((1.0, 1.0)))
    state = start(problem, 0, np.random.default_rng(0)) | {"labels": labels.astype(np.int32)}
    state, _ = advance(problem, state, np.zeros(1, bool), Moves(1, 0))
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        state, _ = advance(problem, state, np.zeros(SWEEPS, bool), Moves(1, 0))
        times.append((time.process_time() - begun) / SWEEPS)
    return min(times)


def iteration_seconds(rows: np.ndarray) -> float:
    """Of an iteration of the peer, what comes before the first taken off."""
    from sklearn.mixture import BayesianGaussianMixture
    from threadpoolctl import threadpool_limits

    def seconds(iterations: int) -> float:
        peer = BayesianGaussianMixture(
            n_components=20, max_iter=iterations, tol=0.0, init_params="random_from_data", random_state=0
        )
        begun = time.process_time()
        peer.fit(rows)
        return time.process_time() - begun

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return min((seconds(2 + SWEEPS) - seconds(2)) / SWEEPS for _ in range(REPEATS))


def found(rows: np.ndarray, labels: np.ndarray, seed: int, most: int = 100) -> tuple[int, float, float]:
    """Draws until the adjusted Rand index is 0.99, CPU seconds and the index, from one cluster."""
    problem = ProcessProblem(gaussian(2).with_prior(rows, 1), rows, ProcessPrior((1.0, 1.0)))
    state = start(problem, 0, np.random.default_rng(seed))
    seconds, index = 0.0, 0.0
    draws = 0
    while draws < most:
        draws += 1
        begun = time.process_time()
        state, _ = advance(problem, state, np.zeros(1, bool), search=np.ones(1, bool))
        seconds += time.process_time() - begun
        index = adjusted_rand_index(state["labels"], labels)
        if index >= 0.99:
            break
    return draws, seconds, index


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for word, step in (("apart", 12.0), ("overlapping", 3.0)):
        rows, labels = planted(n, step, 0)
        ours, theirs = sweep_seconds(rows, labels), iteration_seconds(rows)
        print(
            f"{n:,} rows in 20 clusters {word}: a Gibbs sweep {ours:.4f} s, an iteration of scikit-learn {theirs:.4f} s;"
        )
        print(f"  {theirs / ours:.1f} times")
    for seed in range(3):
        rows, labels = planted(n, 12.0, seed)
        draws, seconds, index = found(rows, labels, seed)
        print(
            f"from one cluster: adjusted Rand index {index:.4f} after {draws} sweeps with splits and merges, {seconds:.1f} s"
        )
