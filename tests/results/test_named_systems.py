"""Systems that sources name without describing: what plays their part here, against answers that are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LinearRegression

import bayeslab as bl
from bayeslab.exact.conjugate import BetaBinomial, NormalInverseGamma
from bayeslab.learners.decision_tree import MultiwayTree, entropy
from bayeslab.learners.random_forest import Options, build
from bayeslab.learners.regression_tree import LinearTree
from tests.learners.restaurant import NAMES, rows
from tests.learners.strokes import corners_of


@pytest.mark.slow(why="compiles")
def test_declare_and_sample():
    """named-bugs: a model is declared as a directed graph, draws of its posterior agree with the conjugate answer."""
    nodes = {"theta": "Beta(2, 3)", "k[obs_id]": "Binomial(12, theta)"}
    counts = [9, 7, 10]
    fit = bl.fit(
        bl.Model(model={"family": "graph", "nodes": nodes}),
        {"k": counts},
        method="nuts",
        draws=500,
        tune=500,
        chains=2,
        seed=1,
        progress=False,
        runs=None,
    )
    draws = fit.posterior["theta"].to_numpy().ravel()
    truth = BetaBinomial(2 + sum(counts), 3 + 36 - sum(counts))
    effective = 300  # of 1,000; a one-parameter posterior mixes better
    assert abs(draws.mean() - truth.mean()) < 4 * truth.sd() / np.sqrt(effective)
    assert draws.std() == pytest.approx(truth.sd(), rel=4 / np.sqrt(2 * effective))
    assert fit.verdict.status == "pass"


def test_named_trees():
    """named-tree-packages: ID3's gain and C4.5's gain ratio choose the root (F15), CART's kinds of trees are there."""
    x, y = rows()
    columns = tuple(range(10))
    id3 = MultiwayTree(columns, criterion="gain", significance=None).fit(x, y)
    c45 = MultiwayTree(columns, criterion="gain_ratio", significance=None).fit(x, y)
    assert NAMES[id3.root_.column] == NAMES[c45.root_.column] == "Pat"
    assert id3.root_.gain == pytest.approx(0.540852, abs=1e-6)
    branches = [child.counts.sum() for child in c45.root_.children]
    assert c45.root_.gain / entropy(branches) == pytest.approx(0.370663, abs=1e-6)
    assert id3.score(x, y) == c45.score(x, y) == 1
    table, species = load_iris(return_X_y=True)
    (cart,) = (
        build(Options(n_estimators=1), "classification").set_params(random_state=0).fit(table, species).estimators_
    )
    assert cart.tree_.max_n_classes == 3
    step = np.where(table[:, 2] < 2.5, 1.0, 3.0)
    regression = LinearTree(leaves="constant").fit(table, step)
    np.testing.assert_allclose(regression.predict(table), step)


def pen(rng: np.random.Generator, symbols: tuple[int, ...], n: int, prefix: str) -> pd.DataFrame:
    """Trajectories of a pen that writes these symbols in turn: places at equal steps along the stroke."""
    parts = []
    for i in range(n):
        symbol = symbols[i % len(symbols)]
        corners = corners_of(symbol)
        corners = corners + rng.normal(0, 0.05, corners.shape)
        length = np.r_[0, np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))]
        at = np.linspace(0, length[-1], int(rng.integers(9, 14)))
        places = np.stack([np.interp(at, length, corners[:, j]) for j in (0, 1)], axis=1)
        places += rng.normal(0, 0.02, places.shape)
        parts.append(pd.DataFrame(places, columns=["x", "y"]).assign(stroke=f"{prefix}{i:02}", symbol=f"d{symbol}"))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow(why="statistical")
def test_pen_strokes():
    """named-sequence-nets: pen strokes as (x, y), a hidden Markov model for each symbol; accuracy above chance."""
    rng, symbols = np.random.default_rng(0), (1, 2, 4, 7)
    seen, new = pen(rng, symbols, 40, "s"), pen(rng, symbols, 60, "t")
    spec = {"family": "hmm", "columns": ["x", "y"], "emission": "gaussian", "states": 3}
    model = bl.Model(model=spec | {"sequence": "stroke", "classes": "symbol"})
    fit = bl.fit(model, seen, method="em", restarts=1, seed=1, progress=False, runs=None)
    said = fit.predict(new.drop(columns="symbol"), "probabilities")
    best = said[[f"P(symbol=d{s})" for s in symbols]].to_numpy().argmax(axis=1)
    truth = np.array([symbols.index(int(w[1:])) for w in new.groupby("stroke")["symbol"].first()[said["stroke"]]])
    right = int((best == truth).sum())
    assert stats.binomtest(right, 60, 1 / 4, alternative="greater").pvalue < 1e-6
    assert right >= 54


@pytest.mark.slow(why="statistical")
def test_bagged_fits_and_posterior_draws():
    """named-boost-as-bayes: lines fitted to bootstrap samples spread as draws of the posterior do, on normal data."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 2))
    y = 1 + x @ [2.0, -1.0] + rng.normal(size=200)
    new = np.array([[0.0, 0.0], [1.0, 1.0], [-2.0, 0.5], [3.0, -3.0]])
    bagged = BaggingRegressor(LinearRegression(), 800, random_state=0).fit(x, y)
    lines = np.array([one.predict(new) for one in bagged.estimators_])
    with_one = np.column_stack([np.ones(200), x])
    beta, _ = NormalInverseGamma.flat(3).update(with_one, y).draws(rng, 4000)
    posterior = beta @ np.column_stack([np.ones(4), new]).T
    # The bootstrap does not know that the noise is the same everywhere: its spread itself has an error of 1/sqrt(2n).
    np.testing.assert_allclose(lines.std(axis=0), posterior.std(axis=0), rtol=4 / np.sqrt(2 * 200))
    assert (np.abs(lines.mean(axis=0) - posterior.mean(axis=0)) < 0.15 * posterior.std(axis=0)).all()
