"""Hidden Markov models side by side with hmmlearn: one program, numbers as JSON.

``python _markov_case.py`` prints seconds of one iteration of Baum-Welch (gaussian, two diagonal columns; and categorical, six
symbols), of the most likely path and of smoothing, from data to result, for 100,000 rows and five states. hmmlearn runs
with both of its implementations: ``log``, its default, and ``scaling``. Both sides start from the same parameters, and
the log likelihoods after the iterations are printed to show that they do the same. Times are the best of a few. What is
not installed is left out.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bayeslab.latents.chains.decoding import viterbi
from bayeslab.latents.chains.forward_backward import (
    HiddenChain,
    diagonal_gaussian_rows,
    smooth,
    symbol_counts,
    weighted_moments,
)

N_ROWS, N_STATES, N_SYMBOLS, N_STEPS = 100_000, 5, 6, 5


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the fastest of several runs."""
    out = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        out.append(time.perf_counter() - begun)
    return min(out)


def data() -> dict[str, np.ndarray]:
    """Rows of a chain that stays where it is on most of them, and where learning starts."""
    rng = np.random.default_rng(1)
    move = 0.3 * rng.dirichlet(np.ones(N_STATES), N_STATES) + 0.7 * np.eye(N_STATES)
    cumulative, uniforms, states = move.cumsum(1), rng.random(N_ROWS), np.zeros(N_ROWS, int)
    for t in range(1, N_ROWS):
        states[t] = min(np.searchsorted(cumulative[states[t - 1]], uniforms[t]), N_STATES - 1)
    emit = rng.dirichlet(np.ones(N_SYMBOLS), N_STATES)
    symbols = (rng.random(N_ROWS)[:, None] > emit.cumsum(1)[states]).sum(1)
    return {
        "values": rng.normal(size=(N_ROWS, 2)) + 2.0 * states[:, None],
        "symbols": np.minimum(symbols, N_SYMBOLS - 1),
        "start": np.full(N_STATES, 1 / N_STATES),
        "move": 0.5 / N_STATES + 0.5 * np.eye(N_STATES),
        "mean": np.repeat(np.linspace(-1, 9, N_STATES)[:, None], 2, 1),
        "variance": np.full((N_STATES, 2), 2.0),
        "emit": rng.dirichlet(np.full(N_SYMBOLS, 5), N_STATES),
    }


def ours(case: dict[str, np.ndarray]) -> dict[str, float]:
    def gaussian() -> float:
        start, move, mean, variance = (case[k] for k in ("start", "move", "mean", "variance"))
        for _ in range(N_STEPS):
            rows = diagonal_gaussian_rows(case["values"], mean, np.sqrt(variance))
            found = smooth(HiddenChain.of(start, move), rows)
            start = found.start_counts
            move = found.transition_counts / found.transition_counts.sum(1, keepdims=True)
            _, mean, variance = weighted_moments(found.posterior, case["values"])
        return float(found.log_evidence[0])

    def categorical() -> float:
        start, move, emit = (case[k] for k in ("start", "move", "emit"))
        for _ in range(N_STEPS):
            found = smooth(HiddenChain.of(start, move), np.log(emit.T)[case["symbols"]])
            start = found.start_counts
            move = found.transition_counts / found.transition_counts.sum(1, keepdims=True)
            counts = symbol_counts(found.posterior, case["symbols"], N_SYMBOLS)
            emit = counts / counts.sum(1, keepdims=True)
        return float(found.log_evidence[0])

    chain, deviation = HiddenChain.of(case["start"], case["move"]), np.sqrt(case["variance"])

    def rows() -> np.ndarray:
        return diagonal_gaussian_rows(case["values"], case["mean"], deviation)

    reached = {"gaussian log likelihood": gaussian(), "categorical log likelihood": categorical()}
    viterbi(chain, rows())
    return reached | {
        "gaussian iteration": best(gaussian) / N_STEPS,
        "categorical iteration": best(categorical) / N_STEPS,
        "viterbi": best(lambda: viterbi(chain, rows())),
        "smooth": best(lambda: smooth(chain, rows())),
    }


def hmmlearn(case: dict[str, np.ndarray], implementation: str) -> dict[str, float]:
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    shared = {"n_iter": N_STEPS, "tol": -np.inf, "init_params": "", "implementation": implementation}

    def begin(model: Any) -> Any:
        model.startprob_, model.transmat_ = case["start"], case["move"]
        return model

    def gaussian() -> Any:
        model = begin(GaussianHMM(N_STATES, covariance_type="diag", covars_prior=0, min_covar=0, **shared))
        model.means_, model.covars_ = case["mean"], case["variance"]
        return model

    def categorical() -> Any:
        model = begin(CategoricalHMM(N_STATES, n_features=N_SYMBOLS, **shared))
        model.emissionprob_ = case["emit"]
        return model

    values, symbols, fixed = case["values"], case["symbols"][:, None], gaussian()
    fixed.n_features = 2
    return {
        "gaussian log likelihood": gaussian().fit(values).monitor_.history[-1],
        "categorical log likelihood": categorical().fit(symbols).monitor_.history[-1],
        "gaussian iteration": best(lambda: gaussian().fit(values), 2) / N_STEPS,
        "categorical iteration": best(lambda: categorical().fit(symbols), 2) / N_STEPS,
        "viterbi": best(lambda: fixed.decode(values)),
        "smooth": best(lambda: fixed.predict_proba(values)),
    }


def main() -> None:
    case = data()
    out = {"bayeslab": ours(case)}
    try:
        for implementation in ("log", "scaling"):
            out[f"hmmlearn {implementation}"] = hmmlearn(case, implementation)
    except ImportError:
        print("hmmlearn is not installed", file=sys.stderr)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
