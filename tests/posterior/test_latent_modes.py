"""Gibbs chains and variational searches where the posterior has several modes: shares by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from bayeslab.posterior.latent_modes import log_mass, unconstrained

# Counts of two columns, of which three rows have known kinds: both readings of the other rows are likely.
COUNTS = np.array([[1, 1], [0, 0], [0, 2], [0, 0], [0, 3], [12, 6], [3, 0], [0, 1], [1, 0]])
KINDS = ["a", "b", None, None, None, None, None, None, "a"]
SHAPE, RATE = 1.5, 0.3


def probabilities_of_a() -> np.ndarray:
    """P(kind is a) of each row, from all labellings: gamma-Poisson evidences, uniform shares."""
    free = [i for i, kind in enumerate(KINDS) if kind is None]
    known = np.array([0 if kind == "a" else 1 for kind in KINDS])
    logs, all_labels = [], []
    for choice in itertools.product((0, 1), repeat=len(free)):
        labels = known.copy()
        labels[free] = choice
        sizes = np.bincount(labels, minlength=2)
        value = gammaln(sizes + 1).sum()
        for k in (0, 1):
            sums = COUNTS[labels == k].sum(axis=0)
            value += (gammaln(SHAPE + sums) - (SHAPE + sums) * np.log(RATE + sizes[k])).sum()
        logs.append(value)
        all_labels.append(labels)
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return weights @ (np.array(all_labels) == 0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("method", [pytest.param("gibbs", marks=pytest.mark.slow(why="statistical")), "variational"])
def test_another_mode_of_a_partly_labelled_mixture_does_not_pass(method):
    truth = probabilities_of_a()
    assert 0.3 < truth[5] < 0.45 and 0.55 < truth[3] < 0.7, "two readings"
    model = {"family": "mixture", "columns": ["u", "v"], "components": 2, "component": "poisson", "labels": "kind"}
    model["priors"] = {"rate": f"Gamma({SHAPE}, {RATE})"}
    table = pd.DataFrame({"u": COUNTS[:, 0], "v": COUNTS[:, 1], "kind": KINDS})
    for seed in range(1, 4):
        fit = bl.fit(bl.Model(name="m", model=model), table, method, seed=seed, runs=None, progress=False)
        off = abs(fit.clusters()["probability"].to_numpy()[:, 0] - truth).max()
        assert fit.verdict.status == "fail" or off < 0.05, (seed, off)


@pytest.mark.slow(why="statistical")
def test_chains_begin_in_each_mode_and_modes_that_mix_pass():
    """Without known kinds the two readings are one, with other numbers."""
    model = {"family": "mixture", "columns": ["u"], "components": 2, "component": "poisson"}
    table = pd.DataFrame({"u": np.r_[COUNTS[:, 0], 11, 13, 9, 0, 1, 2]})
    fit = bl.fit(bl.Model(name="m", model=model), table, "gibbs", seed=1, runs=None, progress=False)
    assert fit.verdict.status == "pass", str(fit.verdict)


def paths_posterior(y: np.ndarray, states: int, allowed: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Means of Poisson rates, Gamma(1, 1 / mean), over all paths; rows of transitions are uniform where allowed."""
    rate, logs, means = 1 / y.mean(), [], []
    for path in itertools.product(range(states), repeat=len(y)):
        moves = np.zeros((states, states))
        np.add.at(moves, (path[:-1], path[1:]), 1)
        if initial[path[0]] == 0 or (moves[~allowed] > 0).any():
            continue
        value = np.log(initial[path[0]])
        for row, there in zip(moves, allowed, strict=True):
            value += gammaln(there.sum()) - gammaln(row.sum() + there.sum()) + gammaln(row[there] + 1).sum()
        sizes = np.bincount(path, minlength=states)
        sums = np.bincount(path, weights=y, minlength=states)
        value += (np.log(rate) + gammaln(1 + sums) - (1 + sums) * np.log(rate + sizes)).sum()
        logs.append(value)
        means.append((1 + sums) / (rate + sizes))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return weights @ np.array(means)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("y", [[30, 31, 1, 0, 90, 88, 30], [0, 1, 40, 41, 0, 1, 90], [5, 60, 62, 61, 140, 6]])
def test_modes_of_states_that_differ_by_their_neighbours(y):
    allowed = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)
    initial = np.array([0.4, 0.3, 0.3])
    truth = paths_posterior(np.array(y, float), 3, allowed, initial)
    model = {"family": "hmm", "columns": ["y"], "states": 3, "emission": "poisson", "topology": "banded"}
    for seed in range(1, 4):
        fit = bl.fit(
            bl.Model(name="m", model=model | {"initial": initial.tolist()}),
            {"y": np.array(y)}, "gibbs", seed=seed, runs=None, progress=False,
        )  # fmt: skip
        draws = fit.posterior["rate"].to_numpy().reshape(-1, 3)
        off = abs(draws.mean(axis=0) - truth) / draws.std(axis=0)
        assert fit.verdict.status == "fail" or off.max() < 0.2, (seed, off)


def test_coordinates_and_their_jacobians():
    """The mass of a density is that of its coordinates: gamma, beta, Dirichlet and Wishart draws, whose mass is one."""
    from scipy import stats

    rng = np.random.default_rng(3)
    cases = {
        "real": (stats.norm(2, 3), lambda d: d.rvs(4000, random_state=rng), lambda d, x: d.logpdf(x)),
        "positive": (stats.gamma(40, scale=0.2), lambda d: d.rvs(4000, random_state=rng), lambda d, x: d.logpdf(x)),
        "unit": (stats.beta(60, 90), lambda d: d.rvs(4000, random_state=rng), lambda d, x: d.logpdf(x)),
        "simplex": (stats.dirichlet([50, 80, 60]), lambda d: d.rvs(4000, random_state=rng), lambda d, x: d.logpdf(x.T)),
        "matrix": (
            stats.wishart(80, np.array([[1, 0.5], [0.5, 2]])),
            lambda d: d.rvs(4000, random_state=rng),
            lambda d, x: d.logpdf(np.moveaxis(x, 0, -1)),
        ),
    }
    for kind, (law, draw, height) in cases.items():
        draws = draw(law)
        x, log_jacobian = unconstrained({"p": draws}, {"p": kind})
        assert log_mass(x, height(law, draws) + log_jacobian) == pytest.approx(0, abs=0.05), kind
