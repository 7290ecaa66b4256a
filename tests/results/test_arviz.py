"""ArviZ takes a fit where it takes a DataTree, and groups that a function needs are computed when it asks."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayeslab as bl
from bayeslab.errors import BayeslabError
from tests.refusals import refused

COINS = {"p": "Beta(2, 3)", "s": "Gamma(2, 1)", "y[obs_id]": "Normal(p, s)"}


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """ArviZ leaves its figures registered with pyplot."""
    yield
    plt.close("all")


@pytest.fixture
def fit() -> bl.Fit:
    y = np.random.default_rng(0).normal(0.4, 1.2, 30)
    model = bl.Model(model={"family": "graph", "nodes": COINS}, seed=1)
    return bl.fit(model, pd.DataFrame({"y": y}), "grid", runs=None, progress=False)


def test_a_fit_is_its_data_tree_for_arviz(fit):
    assert isinstance(fit, bl.Fit) and isinstance(fit, xr.DataTree)
    assert type(fit) is bl.Fit
    pd.testing.assert_frame_equal(az.summary(fit, round_to="none"), az.summary(fit.data_tree, round_to="none"))
    assert fit["posterior"] is fit.posterior
    assert "posterior" in fit and "posterior" in set(fit)
    assert fit.observed_data["y"].sizes == {"obs_id": 30}
    assert az.plot_forest(fit) is not None
    with pytest.raises(AttributeError, match="sumary"):
        _ = fit.sumary
    with pytest.raises(KeyError):
        _ = fit["nothing"]


def test_groups_are_computed_when_arviz_asks(fit):
    assert "log_likelihood" not in fit.data_tree.children
    loo = az.loo(fit)
    assert loo.elpd == az.loo(fit.data_tree).elpd
    assert "log_likelihood" in fit.data_tree.children
    assert az.compare({"a": fit, "b": fit}, round_to="none").loc["a", "elpd"] == pytest.approx(loo.elpd)
    assert set(az.psense_summary(fit).index) == {"p", "s"}
    assert az.plot_ppc_dist(fit, num_samples=5) is not None
    assert "posterior_predictive" in fit.data_tree.children
    # Called, a group is made anew, with its arguments.
    assert fit.prior_predictive(draws=7).sizes["draw"] == 7
    assert fit.prior_predictive.sizes["draw"] == 7


def test_the_log_prior_is_that_of_the_priors(fit):
    drawn, log_prior = fit.posterior, fit.log_prior()
    np.testing.assert_allclose(log_prior["p"], stats.beta(2, 3).logpdf(drawn["p"]), rtol=1e-9)
    np.testing.assert_allclose(log_prior["s"], stats.gamma(2, scale=1).logpdf(drawn["s"]), rtol=1e-9)


def test_a_log_prior_keeps_the_dimensions_of_its_density():
    """A Dirichlet has one density for all of its probabilities."""
    nodes = {"w[kind]": "Dirichlet(2)", "m[kind]": "Normal(0, 1)", "y[obs_id]": "Normal(w[0] + m[1], 1)"}
    model = bl.Model(model={"family": "graph", "nodes": nodes}, dims={"kind": 3}, seed=1)
    fit = bl.fit(model, pd.DataFrame({"y": [0.1, 0.4]}), "laplace", runs=None, progress=False, draws=20)
    log_prior, drawn = fit.log_prior(), fit.posterior
    w = drawn["w"].to_numpy().reshape(-1, 3)
    expected = [stats.dirichlet([2, 2, 2]).logpdf(x / x.sum()) for x in w]
    np.testing.assert_allclose(log_prior["w"].to_numpy().ravel(), expected, rtol=1e-6)
    assert log_prior["m"].dims == ("chain", "draw", "kind")
    np.testing.assert_allclose(log_prior["m"], stats.norm.logpdf(drawn["m"]), rtol=1e-9)


def test_a_fit_is_copied_and_stored(fit):
    for again in (copy.copy(fit), pickle.loads(pickle.dumps(fit))):
        assert type(again) is bl.Fit
        pd.testing.assert_frame_equal(again.summary(), fit.summary())


def test_a_network_is_fitted_by_its_structure():
    """Its tables are those of counting: (count + 1) / (total + number of states)."""
    rows = pd.DataFrame({"rain": ["yes"] * 3 + ["no"] * 5, "wet": ["yes", "yes", "no"] + ["no"] * 4 + ["yes"]})
    spec = {
        "rain": {"states": ["yes", "no"], "table": 0.5},
        "wet": {"states": ["yes", "no"], "parents": ["rain"], "table": [0.9, 0.1]},
    }
    net = bl.network(bl.Model(name="rain", model=bl.BayesNet(variables=spec)))
    fit = bl.fit(net, rows, runs=None, progress=False)
    assert fit.method == "exact"
    learned = bl.network(fit)
    assert learned.cpt("rain")["yes"].item() == pytest.approx(4 / 10)
    assert learned.cpt("wet")["yes"].tolist() == pytest.approx([3 / 5, 2 / 7])
    with refused("option.not-applicable", kind=BayeslabError):
        bl.network(_field()).unfitted()


def _field() -> bl.Model:
    potentials = [{"variables": ["a"], "table": [1, 2]}]
    return bl.Model(model=bl.MarkovRandomField(variables={"a": ["x", "y"]}, potentials=potentials))
