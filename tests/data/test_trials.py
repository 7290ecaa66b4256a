"""Columns of numbers of trials: one check, for the data of a fit and for new rows, in every family that has them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from tests.refusals import refused

T = np.array([3, 5, 4, 8, 7, 10, 6, 9, 5, 11, 8, 7] * 2)
K = np.array([1, 0, 1, 7, 6, 2, 1, 8, 4, 2, 1, 6] * 2)
FAMILIES = {
    "mixture": ({"family": "mixture", "columns": ["k"], "components": 2, "component": "binomial", "trials": "t"}, "em"),
    "regression": ({"family": "regression", "formula": "p(k, t) ~ 1", "likelihood": "binomial"}, "laplace"),
    "graph": ({"family": "graph", "nodes": {"p": "Beta(1, 1)", "k[obs]": "Binomial(t, p)"}}, "exact"),
}
FITTED = ["mixture", pytest.param("regression", marks=pytest.mark.slow(why="compiles")), "graph"]
WRONG = {
    "negative": (-4.0, "data.out-of-range"),
    "fractional": (4.5, "data.not-whole"),
    "missing": (np.nan, "data.missing"),
}


def model(family: str) -> bl.Model:
    more = {"data": {"rows": "obs"}} if family == "graph" else {}
    return bl.Model(name=family, model=FAMILIES[family][0], **more)


@cache
def fitted(family: str, kind: str = "int") -> bl.Fit:
    data = pd.DataFrame({"k": K, "t": T.astype(kind)})
    return bl.fit(model(family), data, FAMILIES[family][1], seed=1, progress=False, runs=None)


@pytest.mark.parametrize("family", FITTED)
@pytest.mark.parametrize("wrong", WRONG)
def test_new_rows_with_impossible_trials_are_refused(family, wrong):
    value, code = WRONG[wrong]
    fit = fitted(family)
    for columns in ({"t": [6.0, value]}, {"k": [np.nan, np.nan], "t": [6.0, value]}):
        with refused(code, "'t'.*row 2|'t' has 1 missing cell .row 2"):
            fit.predict(pd.DataFrame(columns))


@pytest.mark.parametrize("family", FITTED)
def test_new_rows_without_the_column_of_trials_are_refused(family):
    code = "model.unknown-name" if family == "graph" else "data.unknown-column"
    with refused(code, "'t'"):
        fitted(family).predict(pd.DataFrame({"k": [np.nan]}))


@pytest.mark.parametrize("family", [*FAMILIES, "gaussian_process"])
@pytest.mark.parametrize("wrong", WRONG)
def test_fits_of_impossible_trials_are_refused(family, wrong):
    value, code = WRONG[wrong]
    if family == "regression" and wrong == "missing":
        pytest.skip("rows of a regression without a number of trials are dropped, with a warning")
    spec = model(family) if family != "gaussian_process" else bl.Model(
        name="gp",
        model={"family": family, "target": "k", "kernel": "ExpQuad(x)", "likelihood": "binomial", "trials": "t"},
    )  # fmt: skip
    data = pd.DataFrame({"k": K * 0, "t": T.astype(float), "x": np.arange(len(T)) / 5})
    data.loc[3, "t"] = value
    with refused(code, "'t'.*row 4"):
        bl.check(spec, data)


@pytest.mark.parametrize("method", ["em", "gibbs", "variational"])
def test_half_a_trial_more_in_each_row_is_no_mixture(method):
    with refused("data.not-whole", "'t', row 1"):
        data = pd.DataFrame({"k": K, "t": T + 0.5})
        bl.fit(model("mixture"), data, method, seed=1, progress=False, runs=None)


def test_rows_without_successes_need_no_trials_for_probabilities():
    fit = fitted("mixture")
    shown = fit.predict(pd.DataFrame({"k": [np.nan]}), "probabilities").to_numpy()[0, 1:]
    assert shown == pytest.approx(fit.posterior["weights"].to_numpy().ravel(), abs=1e-9)


@pytest.mark.parametrize("given", [3, 3.0])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_whole_trials_may_be_floats(kind, given):
    # Beta(1, 1) and binomials are conjugate: predictions are beta-binomial.
    truth = stats.betabinom(3, 1 + K.sum(), 1 + (T - K).sum())
    drawn = fitted("graph", kind).predict(pd.DataFrame({"t": [given] * 50}), "draws")["k"].to_numpy()
    draws = drawn[..., 0].ravel()
    assert draws.mean() == pytest.approx(truth.mean(), abs=5 * truth.std() / np.sqrt(len(draws)))
    replicated = fitted("graph", kind).posterior_predictive()["k"].to_numpy()
    assert (replicated <= T).all()


def test_exposures_that_no_poisson_can_have_are_refused_in_new_rows():
    spec = bl.Model(
        name="m", data={"rows": "obs"}, model={"family": "graph", "nodes": {"r": "Gamma(2, 1)", "y[obs]": "Poisson(r * e)"}}
    )  # fmt: skip
    data = pd.DataFrame({"y": [3, 1, 4], "e": [1.0, 2.0, 1.5]})
    fit = bl.fit(spec, data, "exact", seed=1, progress=False, runs=None)
    with refused("data.impossible-value", "'y'"):
        fit.predict(pd.DataFrame({"e": [1.0, -2.0]}))


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_predictors_of_the_weights_are_finite(wrong):
    spec = bl.Model(name="m", model={"family": "mixture", "columns": ["y"], "components": 2, "gating": ["z"]})
    z = np.linspace(-2, 2, 30)
    data = pd.DataFrame({"y": np.where(z > 0, 5.0, 0.0) + np.sin(7 * z), "z": z})
    fit = bl.fit(spec, data, "em", seed=1, progress=False, runs=None)
    with refused("data.not-finite", "'z', row 2"):
        fit.predict(pd.DataFrame({"z": [0.1, wrong]}))
    data.loc[4, "z"] = wrong
    with refused("data.not-finite", "'z', row 5"):
        bl.fit(spec, data, "em", seed=1, progress=False, runs=None)


def test_times_of_a_hidden_chain_are_finite():
    spec = bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": 2, "time": "t"})
    data = pd.DataFrame({"y": [0.0, 0.2, 5.0, 5.1, 0.1, 4.9], "t": [0, 1, 2, 3, np.inf, 5]})
    with refused("data.not-finite", "'t', row 5"):
        bl.check(spec, data)
