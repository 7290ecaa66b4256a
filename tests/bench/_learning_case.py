"""Learning tables of the alarm network, side by side with pyAgrum and pgmpy: one program, numbers as JSON.

``python _learning_case.py ALARM.bif`` prints seconds of each; what a peer does not offer, or one that is not installed,
is left out. Times are the best of a few; the peers' start from a pandas DataFrame of state names (their input), ours
both from that and from integer codes.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def best(work: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the fastest of several runs."""
    out = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        out.append(time.perf_counter() - begun)
    return min(out)


def codes_of(frame: Any, states: dict[str, tuple[str, ...]]) -> np.ndarray:
    """A table of state names as codes."""
    import pandas as pd

    out = np.empty((len(states), len(frame)), np.int8)
    for i, (v, own) in enumerate(states.items()):
        found, words = pd.factorize(frame[v])
        out[i] = np.array([*map(own.index, words), -1], np.int8)[found]
    return out.T


def frame_of(codes: np.ndarray, states: dict[str, tuple[str, ...]]) -> Any:
    import pandas as pd

    columns = {}
    for i, (v, s) in enumerate(states.items()):
        names = np.array([*s, None], dtype=object)
        columns[v] = names[codes[:, i]]
    return pd.DataFrame(columns)


def complete(network: Any, codes: np.ndarray, frame: Any, file: str) -> dict[str, float]:
    """Maximum-likelihood tables of 100,000 complete rows."""
    from bayeslab.latents.networks.learning import maximum_likelihood

    small = np.asfortranarray(codes.astype(np.int8))
    states, parents = network.states, network.parents
    maximum_likelihood(small, states, parents)
    out = {
        "bayeslab from codes": best(lambda: maximum_likelihood(small, states, parents), 5),
        "conversion of names to codes": best(lambda: codes_of(frame, states)),
        "bayeslab from names": best(lambda: maximum_likelihood(codes_of(frame, states), states, parents)),
    }
    try:
        from pgmpy.estimators import MaximumLikelihoodEstimator
        from pgmpy.models import DiscreteBayesianNetwork
    except ImportError:
        pass
    else:
        edges = [(p, v) for v, above in parents.items() for p in above]
        names = {v: list(s) for v, s in states.items()}

        def pgmpy() -> Any:
            model = DiscreteBayesianNetwork(edges)
            return MaximumLikelihoodEstimator(model, frame, state_names=names).get_parameters(n_jobs=1)

        out["pgmpy"] = best(pgmpy)
    try:
        import pyagrum as gum
    except ImportError:
        pass
    else:
        template = gum.loadBN(file)
        out["pyAgrum"] = best(lambda: gum.BNLearner(frame, template).learnParameters(template.dag()), 2)
    return out


def hidden(network: Any, codes: np.ndarray, file: str, variable: str, iterations: int = 10) -> dict[str, float]:
    """Seconds an iteration of EM, 2,000 rows with one variable never seen."""
    given = codes[:2000].copy()
    given[:, list(network.states).index(variable)] = -1
    out = ours(network, given, iterations)
    frame = frame_of(given, network.states)
    try:
        import pyagrum as gum
    except ImportError:
        pass
    else:
        out["pyAgrum"] = by_pyagrum(gum, file, frame.fillna("?"), 2)
    try:
        from pgmpy.estimators import ExpectationMaximization
        from pgmpy.models import DiscreteBayesianNetwork
    except ImportError:
        return out
    names = {v: list(s) for v, s in network.states.items()}
    model = DiscreteBayesianNetwork([(p, v) for v, above in network.parents.items() for p in above], latents={variable})
    estimator = ExpectationMaximization(model, frame.drop(columns=variable), state_names=names)
    cards = {variable: len(network.states[variable])}
    out["pgmpy"] = best(
        lambda: estimator.get_parameters(latent_card=cards, max_iter=1, n_jobs=1, show_progress=False), 1
    )
    return out


def missing(network: Any, codes: np.ndarray, file: str, share: float = 0.2, iterations: int = 10) -> dict[str, float]:
    """Seconds an iteration of EM, 10,000 rows with a share of all cells missing."""
    given = codes[:10_000].copy()
    given[np.random.default_rng(1).random(given.shape) < share] = -1
    return ours(network, given, iterations)


def ours(network: Any, given: np.ndarray, iterations: int) -> dict[str, float]:
    """Also the whole of it, set-up included, to convergence."""
    from bayeslab.latents.expectation_maximisation import maximise
    from bayeslab.latents.networks.learning import TableProblem

    start = TableProblem.of(network, given).start(np.random.default_rng(0))
    setup = best(lambda: TableProblem.of(network, given))
    problem = TableProblem.of(network, given)
    maximise(problem, start, max_iterations=2)
    steps = best(lambda: maximise(problem, start, max_iterations=iterations, tolerance=0.0), 2)
    begun = time.perf_counter()
    end = maximise(problem, start, variant="accelerated", tolerance=1e-4, max_iterations=2000)
    whole = time.perf_counter() - begun
    return {
        "bayeslab": steps / (iterations + 1),
        "bayeslab set-up": setup,
        "bayeslab accelerated, to the end": whole,
        "bayeslab accelerated, passes": end.evaluations,
    }


def by_pyagrum(gum: Any, file: str, frame: Any, iterations: int) -> float:
    """The slope between two numbers of iterations: set-up does not count."""
    template = gum.loadBN(file)

    def run(n: int) -> float:
        learner = gum.BNLearner(frame, template, ["?"])
        learner.useSmoothingPrior(1e-3)  # without a prior it refuses a parent that is never seen
        learner.useEM(1e-12)
        learner.EMsetMaxIter(n)
        begun = time.perf_counter()
        learner.learnParameters(template.dag())
        return time.perf_counter() - begun

    few, more = run(1), run(1 + iterations)
    return (more - few) / iterations


def main(file: str) -> dict[str, dict[str, float]]:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from bayeslab.formats.network_files import read_network
    from bayeslab.latents.networks.sampling import forward_sample

    network = read_network(file)
    codes = forward_sample(network, 100_000, np.random.default_rng(0)).astype(np.int64)
    return {
        "tables from 100,000 rows": complete(network, codes, frame_of(codes, network.states), file),
        "EM, LVFAILURE hidden, 2,000 rows": hidden(network, codes, file, "LVFAILURE"),
        "EM, 20 % missing, 10,000 rows": missing(network, codes, file),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1]), indent=1))
