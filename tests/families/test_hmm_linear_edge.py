"""Continuous states whose likelihood is highest at the edge: the verdict says so, and only then."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl

RNG = np.random.default_rng(0)
WALK, NOISE = np.cumsum(RNG.normal(size=60)), RNG.normal(size=60)


def at_edge(y, name):
    """Whether the density of the differences, normal with variances 2 n² + l² and covariances -n², is highest there."""
    apart = np.diff(y)
    moves, noise = np.eye(len(apart)), 2 * np.eye(len(apart)) - np.eye(len(apart), k=1) - np.eye(len(apart), k=-1)
    kept, tried = (moves, noise) if name == "noise_sd" else (noise, moves)

    def highest(share):
        # The scale of a normal density is maximised in closed form.
        shape = kept + share * tried
        scale = apart @ np.linalg.solve(shape, apart) / len(apart)
        return stats.multivariate_normal.logpdf(apart, cov=scale * shape)

    return max(highest(s) for s in np.geomspace(1e-4, 10, 40)) < highest(0.0)


LONG = pytest.mark.slow(why="statistical")


@pytest.mark.parametrize(
    ("y", "there"),
    [
        pytest.param(WALK, ("noise_sd",), marks=LONG, id="walk"),
        pytest.param(5 + NOISE, ("level_sd",), marks=LONG, id="noise"),
        pytest.param(WALK + NOISE, (), id="both"),
    ],
)
def test_a_vanishing_spread_is_named(y, there):
    assert tuple(name for name in ("level_sd", "noise_sd") if at_edge(y, name)) == there
    model = bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": "continuous"})
    fit = bl.fit(model, {"y": y}, "em", seed=1, restarts=2, progress=False, runs=None, prior="ignore")
    assert tuple(f.where for f in fit.verdict.findings if f.check == "boundary") == there
    with_priors = bl.fit(model, {"y": y}, "em", seed=1, restarts=1, progress=False, runs=None)
    assert not [f for f in with_priors.verdict.findings if f.check == "boundary"]
