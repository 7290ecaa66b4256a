"""Gibbs steps where states differ in given probabilities of the chain only: numberings have their probabilities."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bayeslab as bl

X = np.array([0.1, 0.2, 3.0, 3.2, 2.9, 0.0, 0.3])


def _evidence(x, mean, spread):
    """Of rows of a state under the weak prior: mean N(mean, variance / 0.01), variance InverseGamma(1.5, spread / 2)."""
    n = len(x)
    if not n:
        return 0.0
    own, kappa, nu = x.mean(), 0.01 + n, 3 + n
    scale = spread + ((x - own) ** 2).sum() + 0.01 * n / kappa * (own - mean) ** 2
    halves = gammaln(nu / 2) - gammaln(1.5) + 1.5 * np.log(spread) - 0.5 * nu * np.log(scale)
    return halves - 0.5 * n * np.log(np.pi) + 0.5 * np.log(0.01 / kappa)


def _first(initial, transition):
    """P(first state at each time), over all paths; learned transitions are integrated out (Dirichlet(1, 1) rows)."""
    logs, paths = [], np.array(list(itertools.product([0, 1], repeat=len(X))))
    for z in paths:
        value = np.log(initial[z[0]])
        moves = np.zeros((2, 2))
        np.add.at(moves, (z[:-1], z[1:]), 1)
        if transition is None:
            value += np.sum(gammaln(1 + moves)) - np.sum(gammaln(2 + moves.sum(axis=1)))
        else:
            value += np.sum(moves * np.log(transition))
        logs.append(value + sum(_evidence(X[z == k], X.mean(), X.var() / 4) for k in (0, 1)))
    return np.exp(np.array(logs) - logsumexp(logs)) @ (paths == 0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("initial", "transition"), [([0.7, 0.3], None), ([0.5, 0.5], [[0.8, 0.2], [0.4, 0.6]]), ([0.6, 0.4], None)]
)
def test_numberings_have_their_probabilities(initial, transition):
    words = {"initial": initial} | ({} if transition is None else {"transition": transition})
    model = {"family": "hmm", "columns": ["x"], "states": 2, "emission": "gaussian", **words}
    fit = bl.fit(
        bl.Model(name="m", data={"rows": "row"}, model=model), {"x": X}, method="gibbs", draws=4000, seed=1, runs=None
    )
    found = fit.predict(kind="probabilities")["P(state=1)"].to_numpy()
    exact = _first(np.array(initial), None if transition is None else np.array(transition))
    assert found == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(400))


def test_states_of_which_the_column_says_nothing_stay_as_they_are():
    """Known probabilities that are the same in every state: only the chain is learned, and nothing numbers its states."""
    declared = bl.Model(
        model={"family": "hmm", "columns": ["w"], "emission": "categorical", "states": 2,
               "parameters": {"p_w": [[0.25, 0.75]] * 2}},
        inference={"method": "gibbs", "draws": 4, "tune": 2, "chains": 1},
    )  # fmt: skip
    fit = bl.fit(declared, {"w": ["a", "b", "b", "a", "b", "b"]}, seed=1, progress=False, runs=None)
    np.testing.assert_allclose(fit.posterior["transition"].sum("next_state"), 1.0)
