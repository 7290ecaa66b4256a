"""Gibbs steps where components differ in the prior of their weights only: numberings have their probabilities."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bayeslab as bl

X = np.array([0.2, 0.4, 3.1, 2.7, 0.3, 2.9, 3.3])


def _evidence(x):
    """Of rows with mean N(1.5, variance / 0.4) and variance InverseGamma(1.5, 0.25)."""
    n = len(x)
    if not n:
        return 0.0
    mean, kappa, nu = x.mean(), 0.4 + n, 3 + n
    scale = 0.5 + ((x - mean) ** 2).sum() + 0.4 * n / kappa * (mean - 1.5) ** 2
    halves = gammaln(nu / 2) - gammaln(1.5) + 1.5 * np.log(0.5) - 0.5 * nu * np.log(scale)
    return halves - 0.5 * n * np.log(np.pi) + 0.5 * np.log(0.4 / kappa)


def _first(prior):
    """P(row in the first component), over all labels."""
    labels = np.array(list(itertools.product([0, 1], repeat=len(X))))
    logs = []
    for z in labels:
        counts = np.bincount(z, minlength=2)
        logs.append(np.sum(gammaln(prior + counts) - gammaln(prior)) + sum(_evidence(X[z == k]) for k in (0, 1)))
    return np.exp(np.array(logs) - logsumexp(logs)) @ (labels == 0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("prior", [[2.0, 1.0], [1.0, 4.0]])
def test_numberings_have_their_probabilities(prior):
    model = {
        "family": "mixture", "columns": ["x"], "components": 2,
        "priors": {"components": {"mean": 1.5, "rows": 0.4, "dof": 3, "scale": 0.5}, "weights": f"Dirichlet({prior})"},
    }  # fmt: skip
    fit = bl.fit(
        bl.Model(name="m", data={"rows": "row"}, model=model), {"x": X}, method="gibbs", draws=4000, seed=1, runs=None
    )
    found = fit.clusters()["probability"].to_numpy()[:, 0]
    # Half of the swaps are accepted at least: a thousand independent numberings.
    assert found == pytest.approx(_first(np.array(prior)), abs=5 * 0.5 / np.sqrt(1000))
