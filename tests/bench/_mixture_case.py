"""Gaussian mixture EM, seconds an iteration, against scikit-learn from the same start at equal likelihood."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import gaussian
from bayeslab.distributions.emissions.components import normalise
from bayeslab.posterior.mixtures.problem import MixtureProblem

N_ROWS, N_COMPONENTS, ITERATIONS, REPEATS = 100_000, 5, 20, 3


def planted(d: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows, and means to start from."""
    rng = np.random.default_rng(d)
    means = rng.normal(0, 2, (N_COMPONENTS, d))
    rows = means[rng.integers(0, N_COMPONENTS, N_ROWS)] + rng.normal(size=(N_ROWS, d))
    return rows, {"weights": np.full(N_COMPONENTS, 1 / N_COMPONENTS), "mean": means + 0.5}


def ours(rows: np.ndarray, start: dict[str, np.ndarray], covariance: Any, iterations: int) -> tuple[float, float]:
    """Seconds, and the log likelihood after so many iterations."""
    d = rows.shape[1]
    unit = np.stack([np.eye(d)] * N_COMPONENTS) if covariance == "full" else np.ones((N_COMPONENTS, d))
    theta: Any = {**start, "covariance" if covariance == "full" else "variance": unit}
    problem = MixtureProblem.of(gaussian(d, covariance), rows, N_COMPONENTS)
    begun = time.perf_counter()
    for _ in range(iterations):
        _, statistics = problem.expect(theta)
        theta = problem.update(statistics, theta)
    seconds = time.perf_counter() - begun
    return seconds, problem.expect(theta)[0]


def theirs(rows: np.ndarray, start: dict[str, np.ndarray], covariance: str, iterations: int) -> tuple[float, float]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    d = rows.shape[1]
    unit = np.stack([np.eye(d)] * N_COMPONENTS) if covariance == "full" else np.ones((N_COMPONENTS, d))
    model = GaussianMixture(
        N_COMPONENTS,
        covariance_type={"full": "full", "diagonal": "diag"}[covariance],
        weights_init=start["weights"],
        means_init=start["mean"],
        precisions_init=unit,
        # A hair, as zero would need none of its checks: the likelihoods agree to many digits.
        reg_covar=1e-12,
        max_iter=iterations,
        tol=0.0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        begun = time.perf_counter()
        model.fit(rows)
        seconds = time.perf_counter() - begun
    return seconds, float(model.score(rows) * len(rows))


def per_iteration(run: Any, *arguments: Any) -> tuple[float, float]:
    """Best of several, what comes before the first iteration taken off."""
    run(*arguments, 2)
    times = []
    for _ in range(REPEATS):
        few, _ = run(*arguments, 2)
        many, value = run(*arguments, 2 + ITERATIONS)
        times.append((many - few) / ITERATIONS)
    return min(times), value


def cases() -> list[dict[str, Any]]:
    """One row a case: seconds an iteration, their ratio (theirs / ours), and both log likelihoods."""
    out = []
    for d in (2, 10):
        rows, start = planted(d)
        for covariance in ("full", "diagonal"):
            mine, value = per_iteration(ours, rows, start, covariance)
            other, expected = per_iteration(theirs, rows, start, covariance)
            out.append(
                {
                    "case": f"gaussian mixture, {covariance}, N = {N_ROWS:,}, K = {N_COMPONENTS}, d = {d}",
                    "ours": mine,
                    "scikit-learn": other,
                    "ratio": other / mine,
                    "log_likelihood": value,
                    "their_log_likelihood": expected,
                }
            )
    return out


def normalise_seconds() -> float:
    """Seconds of `normalise` for N = 1,000,000 rows, K = 5."""
    logs = np.random.default_rng(0).normal(size=(1_000_000, 5))
    normalise(np.zeros(5), logs[:10])
    begun = time.perf_counter()
    normalise(np.zeros(5), logs)
    return time.perf_counter() - begun


if __name__ == "__main__":
    for case in cases():
        print(
            f"{case['case']}: {1e3 * case['ours']:.2f} ms against {1e3 * case['scikit-learn']:.1f} ms,"
            f" ratio {case['ratio']:.1f}; log likelihood {case['log_likelihood']:.4f}"
            f" against {case['their_log_likelihood']:.4f}"
        )
    print(f"normalise, N = 1,000,000, K = 5: {1e3 * normalise_seconds():.0f} ms")
