"""Matérn functions of a column integrated out in n steps: the density of jointly normal rows, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.latents.gaussian_process import state_space
from tests.densities import Density
from tests.families.test_function_sums import CASES, DATA, PRIORS, RNG, X, agrees, matern, model, point_of, prior

ALONE = ["alone", "beside", "scaled by a parameter", "scaled by data", "scaled by effects", "through a computed node"]


def kernels_of(built: Any) -> set[str]:
    """The functions of the nodes of log evidence in a model."""
    found = set()
    for potential in built.potentials:
        todo = [potential]
        while todo:
            owner = todo.pop().owner
            if owner is not None:
                found.add(getattr(owner.op, "kernel", "").partition(":")[2])
                todo += owner.inputs
    return found - {""}


@pytest.fixture
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of rows is enough."""
    monkeypatch.setattr(state_space, "_ROWS_PER_STATE", 0)


@pytest.mark.usefixtures("in_time")
@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", ALONE)
def test_density_of_rows(case):
    built = bl.to_pymc(model(*CASES[case][:2]), data=DATA)
    assert kernels_of(built) == {"in_time_log_evidence_and_gradient"}
    agrees(case, DATA)


@pytest.mark.usefixtures("in_time")
def test_rows_without_data_are_left_out():
    y = DATA["y"].copy()
    y[[2, 9]] = np.nan
    agrees("beside", DATA | {"y": y})


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", ["beside", "scaled by data"])
def test_gradient_of_a_dense_covariance(case, monkeypatch):
    """The derivatives that one Cholesky factor gives."""
    found = []
    for rows in (10**6, 0):
        monkeypatch.setattr(state_space, "_ROWS_PER_STATE", rows)
        built = bl.to_pymc(model(*CASES[case][:2]), data=DATA)
        density = Density.of(built)
        found.append([density.at(point) for point in density.points(np.random.default_rng(5), 3)])
    for (dense, by_factor), (value, slopes) in zip(*found, strict=True):
        assert value == pytest.approx(dense, rel=1e-10)
        for name, slope in slopes.items():
            np.testing.assert_allclose(slope, by_factor[name], rtol=1e-7, atol=1e-7)


@pytest.mark.usefixtures("in_time")
def test_a_sum_of_processes():
    nodes = {"f[row]": "GaussianProcess(Matern12(x, 3, s) + Matern32(x, ell, 0.7) + Matern52(x, 0.5, 0.2))"}
    built = bl.to_pymc(model(nodes, "Normal(a + f, sigma)"), data=DATA)
    assert kernels_of(built) == {"in_time_log_evidence_and_gradient"}
    p = point_of(built)
    apart = np.abs(X[:, None] - X)
    third = np.sqrt(3) * apart / p["ell"]
    whole = p["s"] ** 2 * np.exp(-apart / 3) + 0.49 * (1 + third) * np.exp(-third) + matern(X, 0.5, 0.2)
    whole += p["sigma"] ** 2 * np.eye(len(X))
    wanted = prior(p) + stats.multivariate_normal.logpdf(DATA["y"], np.full(len(X), p["a"]), whole)
    assert Density.of(built).at(p)[0] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.usefixtures("in_time")
def test_functions_of_people_are_independent():
    nodes = {
        "t[day]": "(index(day) - 3) ** 2 / 5 + 0.1 * index(day)",
        "f[person, day]": "GaussianProcess(Matern52(t, ell, s))",
    }
    nodes = {name: text for name, text in PRIORS.items() if name != "of[g]"} | nodes
    y = RNG.normal(size=(3, 7))
    y[1, 2] = np.nan
    spec = bl.Model(
        data={"rows": "day", "dims": {"y": ["person", "day"]}}, dims={"person": ["a", "b", "c"], "day": 7},
        model={"family": "graph", "nodes": nodes | {"y[person, day]": "Normal(a + b * f, sigma)"}},
    )  # fmt: skip
    built = bl.to_pymc(spec, data={"y": y})
    assert kernels_of(built) == {"in_time_log_evidence_and_gradient"}
    p, t = point_of(built), (np.arange(7) - 3) ** 2 / 5 + 0.1 * np.arange(7)
    whole = p["b"] ** 2 * matern(t, p["ell"], p["s"]) + p["sigma"] ** 2 * np.eye(7)
    wanted = prior(p | {"of": np.zeros(0)})
    for own in y:
        k = np.flatnonzero(~np.isnan(own))
        wanted += stats.multivariate_normal.logpdf(own[k], np.full(len(k), p["a"]), whole[np.ix_(k, k)])
    assert Density.of(built).at(p)[0] == pytest.approx(wanted, rel=1e-8)
