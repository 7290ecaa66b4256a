"""Fits of chains that emit any distribution: NUTS against quadrature, several sequences, run folders, other chains."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families.hmm.model import hidden_of

INITIAL, MOVES = np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.3, 0.7]])


def chain(word, parameters=None, **more):
    given = {"initial": INITIAL.tolist(), "transition": MOVES.tolist(), "parameters": parameters or {}} | more
    return bl.Model(name="chain", model=bl.HMM(columns=["y"], states=2, emission=word, **given))


def waits(n=240, seed=1):
    """Waiting times of two states that last."""
    rng = np.random.default_rng(seed)
    states = np.zeros(n, int)
    for t in range(1, n):
        states[t] = states[t - 1] if rng.random() < 0.9 else 1 - states[t - 1]
    return pd.DataFrame({"y": np.where(states == 0, 2 * rng.weibull(1.5, n), 12 * rng.weibull(3.0, n))}), states


def test_sequences_are_independent():
    cells = [0.5, 2.0, np.nan, 7.0]
    table = pd.DataFrame({"y": cells + cells[::-1], "s": ["a"] * 4 + ["b"] * 4})
    model = chain("Gamma", {"alpha": [1.5, 4.0], "beta": [2.0, 0.7]}, sequence="s")
    found = hidden_of(model, bl.check(model, table)).law({}).log_likelihoods(True)
    for own, log_evidence in zip((cells, cells[::-1]), found, strict=True):
        density = stats.gamma.pdf(np.array(own)[:, None], [1.5, 4.0], scale=[1 / 2.0, 1 / 0.7])
        density[np.isnan(density)] = 1.0
        paths = [
            np.log(INITIAL[path[0]]) + np.log([MOVES[a, b] for a, b in pairwise(path)]).sum()
            + np.log(density[range(4), path]).sum()
            for path in product((0, 1), repeat=4)
        ]  # fmt: skip
        assert log_evidence == pytest.approx(logsumexp(paths), abs=1e-10)


@pytest.mark.slow(why="statistical")
def test_a_run_folder_answers_as_its_fit_does(tmp_path):
    table, states = waits()
    fit = bl.fit(chain("Weibull"), table, "em", seed=1, progress=False, runs=tmp_path)
    again = bl.open(tmp_path / "chain")
    rows = table.head(12)
    pd.testing.assert_frame_equal(again.predict(rows, seed=2), fit.predict(rows, seed=2))
    path = again.decode(method="viterbi")["state"].astype(int).to_numpy() - 1
    assert (path == states).mean() > 0.93


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "more",
    [
        {"order": 2},
        {"durations": 6},
        {"sequence": "s", "classes": "c"},
        {"states": None, "chains": {"a": 2, "b": 2}},
        {"states": None, "chains": {"a": 2, "b": 2}, "coupling": "coupled", "emits": {"a": ["y"], "b": ["z"]}, "columns": ["y", "z"]},
    ],
    ids=lambda more: " ".join(more),
)  # fmt: skip
def test_every_kind_of_chain_climbs_to_a_maximum(more):
    table, _ = waits(120)
    table["z"] = table["y"].to_numpy()[::-1]
    table["s"], table["c"] = np.repeat(["a", "b", "c", "d"], 30), np.repeat(["u", "v", "u", "v"], 30)
    keys = {"columns": ["y"], "states": 2, "emission": "Weibull"} | more
    model = bl.Model(model=bl.HMM(**{key: value for key, value in keys.items() if value is not None}))
    fit = bl.fit(model, table, "em", prior="ignore", restarts=2, seed=1, progress=False, runs=None)
    hidden = hidden_of(model, fit.data)
    values = {name: fit.posterior[name].to_numpy()[0, 0] for name in hidden.learned}
    top = float(np.sum(hidden.law(values).log_likelihoods(True)))
    for name in hidden.learned:
        if "alpha" in name or "beta" in name:
            for size in (0.97, 1.03):
                moved = {n: np.array(v, copy=True) for n, v in values.items()}
                moved[name].flat[0] *= size
                assert float(np.sum(hidden.law(moved).log_likelihoods(True))) <= top + 1e-4


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("word", ["Weibull", "gaussian"])
def test_a_state_of_one_row_is_no_maximum(word):
    """From left to right the first state can take the first row alone: the likelihood grows without bound."""
    table, _ = waits(40)
    keys = {"columns": ["y"], "states": 2, "emission": word, "topology": "left_right"}
    model = bl.Model(model=bl.HMM(**keys))
    free = bl.fit(model, table, "em", prior="ignore", restarts=2, seed=1, progress=False, runs=None)
    assert [f.check for f in free.verdict.findings if f.status == "fail"] == ["collapse"]
    held = bl.fit(model, table, "em", restarts=2, seed=1, progress=False, runs=None)
    assert all(f.check != "collapse" for f in held.verdict.findings)


@pytest.mark.slow(why="compiles")
def test_nuts_is_quadrature():
    """Two rates unknown, all else given: six cells, paths summed on a grid of both."""
    cells = [0.5, 0.4, 2.0, 9.0, 7.0, 6.0]
    model = chain("Gamma", {"alpha": [2.0, 2.0], "beta": ["LogNormal(1, 0.7)", "LogNormal(-1, 0.7)"]})
    fit = bl.fit(model, pd.DataFrame({"y": cells}), "nuts", seed=1, progress=False, runs=None)
    grids = [np.exp(np.linspace(m - 3.0, m + 3.0, 90)) for m in (1.0, -1.0)]
    own = [stats.gamma.pdf(np.array(cells)[:, None], 2.0, scale=1 / grid) for grid in grids]
    heights = np.empty((90, 90))
    for i, j in product(range(90), repeat=2):
        both = np.column_stack([own[0][:, i], own[1][:, j]])
        forward = INITIAL * both[0]
        for row in both[1:]:
            forward = (forward @ MOVES) * row
        heights[i, j] = forward.sum()
    # Evenly spaced logarithms: the prior's density is normal there.
    heights *= np.outer(*(stats.norm.pdf(np.log(grid), m, 0.7) for grid, m in zip(grids, (1.0, -1.0), strict=True)))
    heights /= heights.sum()
    summary = fit.summary()
    for k, share in enumerate((heights.sum(axis=1), heights.sum(axis=0))):
        row = summary.loc[f"beta[{k + 1}]"]
        assert row["mean"] == pytest.approx(share @ grids[k], abs=4.5 * row["mcse_mean"])
