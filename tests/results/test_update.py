"""Rows that come in batches: the posterior does not depend on how they were divided, nor on their order."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.cli.calls import call
from tests.refusals import refused

RNG = np.random.default_rng(8)
ROWS = pd.DataFrame({"x": RNG.normal(size=60), "g": RNG.choice(["a", "b", "c"], 60)})
ROWS["y"] = 1 + 2 * ROWS["x"] + (ROWS["g"] == "b") + RNG.normal(size=60)
ROWS["k"] = RNG.poisson(2, 60) + 1
ROWS["late01"] = (RNG.random(60) < 0.4).astype(int)
ROWS["late"] = np.where(ROWS["late01"] == 1, "yes", "no")
ROWS["wet"] = np.where(RNG.random(60) < 1 / (1 + np.exp(-ROWS["x"])), "yes", "no")
BATCHES = [ROWS[:30], ROWS[30:33], ROWS[33:]]

STATES = {"states": ["no", "yes"]}
EXACT = {
    "regression": bl.Regression(formula="y ~ x + g"),
    "groups": bl.Regression(formula="y ~ x + (1 | g)"),
    "net": bl.BayesNet(variables={"wet": STATES, "g": {"states": ["a", "b", "c"], "parents": ["wet"]}}),
    "naive Bayes": bl.BayesNet(
        variables={"wet": STATES, "g": ["a", "b", "c"], "late": STATES}, structure="naive_bayes", target="wet"
    ),
    "normal net": bl.BayesNet(
        variables={
            "wet": STATES,
            "x": {"parents": ["wet"], "linear_gaussian": {}},
            "y": {"parents": ["x"], "linear_gaussian": {}},
        }
    ),
    "structures": bl.BayesNet(
        variables={"wet": STATES, "g": ["a", "b", "c"], "late": STATES}, structure={"score": "bdeu"}
    ),
    "weights": bl.Regression(formula="y ~ x", weights="k", priors={"b": "Normal(0, 2)"}),
    "mixture": bl.Mixture(columns=["y", "x"], components=2, labels="late"),
    "counts": bl.Graph(nodes={"rate": "Gamma(2, 1)", "k[obs_id]": "Poisson(rate)"}),
    "share": bl.Graph(nodes={"p": "Beta(2, 1)", "late01[obs_id]": "Bernoulli(p)"}),
    "process": bl.GaussianProcess(
        target="y",
        kernel="ExpQuad(x, length)",
        priors={"length": 1.5, "ExpQuad_scale": 1.0, "sigma": 0.8, "Intercept": "Normal(0, 2)"},
    ),
}


def fitted(model, data, **options):
    return bl.fit(bl.Model(name="m", model=model, seed=3), data, runs=None, progress=False, **options)


def numbers(fit: bl.Fit) -> pd.DataFrame:
    """Means and sds by name; values of a function have numbers of rows, and are put in their order."""
    table = fit.summary()[["mean", "sd"]].astype(float).sort_index()
    of_rows = table.index.str.startswith("f[")
    table[of_rows] = table[of_rows].sort_values("mean").to_numpy()
    return table


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow(why="compiles")] * (n in ("process", "mixture"))) for n in EXACT]
)
def test_any_batches_in_any_order_give_the_posterior_of_all_rows(name):
    whole = fitted(EXACT[name], ROWS, method="exact")
    for order in itertools.islice(itertools.permutations(BATCHES), 3):
        fit = fitted(EXACT[name], order[0], method="exact")
        for rows in order[1:]:
            fit = fit.update(rows, progress=False)
        assert fit.method == "exact" and len(fit.data.labels["obs_id"]) == 60
        assert fit.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)
        pd.testing.assert_frame_equal(numbers(fit), numbers(whole), rtol=1e-6, atol=1e-6)


@pytest.mark.slow(why="compiles")
def test_gibbs_draws_what_it_draws_from_all_rows():
    mixture = {"family": "mixture", "columns": ["y"], "components": 2}
    options = {"method": "gibbs", "draws": 50, "tune": 20, "chains": 2, "cores": 1}
    fit = fitted(mixture, ROWS[:30], **options).update(ROWS[30:], progress=False)
    whole = fitted(mixture, ROWS, **options)
    np.testing.assert_array_equal(fit.posterior["mean"], whole.posterior["mean"])


def test_a_level_may_come_later_and_the_run_is_kept(tmp_path, capsys):
    rows = ROWS[ROWS["g"] != "c"]
    model = bl.Model(name="m", model=EXACT["regression"], seed=3)
    fit = bl.fit(model, rows, runs=tmp_path, progress=False)
    longer = fit.update(ROWS[ROWS["g"] == "c"], progress=False)
    assert longer.folder.parent == tmp_path and "b[g[c]]" in longer.summary().index
    assert bl.open(longer.folder).summary().equals(longer.summary())
    ROWS[ROWS["g"] == "c"].to_csv(tmp_path / "later.csv", index=False)
    code, out, _ = call(capsys, "fit", "--resume", fit.folder, "--data", tmp_path / "later.csv", "--quiet")
    assert code == 0 and f"{len(rows)} rows with {60 - len(rows)} more" in out


def test_what_cannot_be_added_to():
    fit = fitted(EXACT["regression"], ROWS, method="laplace", draws=50)
    with refused("option.not-applicable", "by method exact or gibbs, and this one is by laplace"):
        fit.update(ROWS)
    fit = fitted(EXACT["regression"], ROWS, method="exact", draws=50)
    with refused("data.unknown-column", "no column 'g'"):
        fit.update(ROWS[["x", "y"]])
    with refused("data.other-kind", "'x'"):
        fit.update(ROWS.assign(x="far"))
    sizes = pd.Categorical(ROWS["g"], ["c", "a", "b"], ordered=True)
    ordered = fitted(EXACT["regression"], ROWS.assign(g=sizes), method="exact", draws=50)
    assert list(ordered.update(ROWS, progress=False).summary().index) == list(ordered.summary().index)
    with refused("data.unknown-level", "has 'd', which has no place in the order of the fit's levels, c < a < b"):
        ordered.update(ROWS.assign(g="d"))
