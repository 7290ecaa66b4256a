"""Draws from every labelling of exchangeable states mean the same by a name, whichever engine made them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln

import bayeslab as bl

# Two groups of counts that nothing can mix up.
LOW, HIGH = [0, 1, 2, 0, 1, 3, 2, 0, 1, 2], [20, 19, 24, 22, 21, 23, 20, 25, 19, 23]
COUNTS = np.array([*LOW, *HIGH])
SUMS = np.array([sum(LOW), sum(HIGH)])
MIXTURE = {
    "family": "mixture",
    "columns": ["y"],
    "component": "poisson",
    "components": 2,
    "priors": {"rate": "Gamma(1, 0.1)", "weights": "Dirichlet([1, 1])"},
}
CHAIN = {"family": "hmm", "columns": ["y"], "states": 2, "emission": "poisson"}
FEW = {
    "smc": {"draws": 100, "chains": 2, "max_moves": 4, "correlation_threshold": 0.5},
    "pathfinder": {"draws": 250},
    "laplace": {"draws": 250},
    "grid": {"draws": 250},
}


@cache
def fitted(method: str) -> bl.Fit:
    """The mixture of both groups, fitted once by each method."""
    model = bl.Model(name="counts", model=MIXTURE)
    return bl.fit(model, {"y": COUNTS}, method=method, seed=8, runs=None, **FEW[method])


def told_apart(fit: bl.Fit) -> None:
    """Rates are those of the groups: Gamma(1 + sum, 0.1 + 10) each, and rows are told apart with certainty."""
    truth = (1 + SUMS) / 10.1
    found = np.sort(fit.summary(["rate"])["mean"].to_numpy())
    np.testing.assert_allclose(found, truth, atol=0.5)
    assert [f.check for f in fit.verdict.findings].count("relabelled") == 1


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("laplace", marks=pytest.mark.slow(why="compiles")),
        pytest.param("pathfinder", marks=pytest.mark.slow(why="compiles")),
        pytest.param("smc", marks=pytest.mark.slow(why="compiles")),
    ],
)
def test_components_have_one_name_in_every_draw(method: str) -> None:
    fit = fitted(method)
    told_apart(fit)
    shown = fit.predict({"y": [0, 22]}, kind="probabilities").iloc[:, -2:].to_numpy()
    assert np.all(shown.max(axis=1) > 0.99) and shown.argmax(axis=1).tolist() in ([0, 1], [1, 0])


@pytest.mark.slow(why="compiles")
def test_moments_on_a_grid_are_of_renamed_draws_and_the_evidence_of_every_labelling() -> None:
    fit = fitted("grid")
    told_apart(fit)
    # Groups this far apart: either labelling has all the mass there is, so that the evidence is twice that of one.
    one = (np.log(0.1) + gammaln(1 + SUMS) - (1 + SUMS) * np.log(10.1)).sum() - gammaln(1.0 + COUNTS).sum()
    one += 2 * gammaln(11) - gammaln(22)
    exact = fit.data_tree["exact_posterior"].attrs["log_evidence"]
    assert exact == pytest.approx(one + np.log(2), abs=0.01)


@pytest.mark.slow(why="statistical")
def test_the_normaliser_of_one_labelling_is_no_evidence() -> None:
    fit = fitted("laplace")
    assert "log_evidence" not in fit.posterior.attrs
    (finding,) = (f for f in fit.verdict.findings if f.check == "evidence")
    assert finding.status == "warn" and "one labelling" in finding.message


@pytest.mark.slow(why="compiles")
def test_states_of_a_chain_have_one_name_in_every_draw() -> None:
    model = bl.Model(name="counts", model=CHAIN)
    y = np.array([*LOW[:4], *HIGH[:4]])
    fit = bl.fit(model, {"y": y}, method="smc", seed=8, runs=None, **FEW["smc"])
    rates = fit.summary(["rate"])["mean"].to_numpy()
    assert rates.min() < 3 and rates.max() > 15
    assert any(f.check == "relabelled" for f in fit.verdict.findings)
    decoded = fit.decode()
    assert decoded["probability"].min() > 0.9
    assert decoded["state"].nunique() == 2
