"""Rows with the covariance of factors, seen in the graph: the density of jointly normal rows, whatever nodes are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from tests.densities import Density
from tests.families.test_functions_in_time import kernels_of

RNG = np.random.default_rng(4)
DATA: dict[str, Any] = {"y": RNG.normal(size=(9, 4)), "x": RNG.normal(size=9)}
OWN = "s ** 2 * eye(c, c2)"


def built(covariance: str, mean: str = "m", data: dict[str, Any] = DATA, rows: str = "MvNormal({}, cov=V)") -> Any:
    nodes = {
        "m[c]": "Normal(0, 1)", "W[c, k]": "Normal(0, 1)", "s[c]": "HalfNormal(1)", "tau": "HalfNormal(1)",
        "V[c, c2]": covariance, "y[row, c]": rows.format(mean),
    }  # fmt: skip
    spec = bl.Model(
        data={"rows": "row", "dims": {"y": ["row", "c"]}}, dims={"c": 4, "c2": "c", "k": 2},
        model={"family": "graph", "nodes": nodes},
    )  # fmt: skip
    return bl.to_pymc(spec, data=data)


SHAPES = {
    "own noise": (f"dot(W, rename(W, c, c2), k) + {OWN}", lambda p: np.diag(p["s"] ** 2)),
    "the other way round": (f"{OWN} + dot(W, rename(W, c, c2), k)", lambda p: np.diag(p["s"] ** 2)),
    "one noise": ("dot(W, rename(W, c, c2), k) + tau * eye(c, c2)", lambda p: p["tau"] * np.eye(4)),
}


def prior(p: dict[str, Any]) -> float:
    total = stats.norm.logpdf(p["m"]).sum() + stats.norm.logpdf(p["W"]).sum()
    return float(total + stats.halfnorm.logpdf(p["s"]).sum() + stats.halfnorm.logpdf(p["tau"]))


@pytest.mark.parametrize("shape", SHAPES)
def test_density_of_rows(shape):
    """Values are SciPy's, slopes differences of these."""
    text, noise = SHAPES[shape]
    model = built(text)
    assert kernels_of(model) == {"factor_evidence"}

    def wanted(p: dict[str, Any]) -> float:
        return prior(p) + float(stats.multivariate_normal.logpdf(DATA["y"], p["m"], p["W"] @ p["W"].T + noise(p)).sum())

    density = Density.of(model)
    (point,) = density.points(np.random.default_rng(2), 1)
    value, slopes = density.at(point)
    assert value == pytest.approx(wanted(point), rel=1e-10)
    for name, slope in slopes.items():
        for at in np.ndindex(np.shape(point[name])):
            step = np.zeros(np.shape(point[name]))
            step[at] = 1e-5
            both = [wanted(point | {name: point[name] + sign * step}) for sign in (1, -1)]
            assert np.asarray(slope)[at] == pytest.approx((both[0] - both[1]) / 2e-5, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize(
    ("covariance", "mean"),
    [
        (f"dot(W, rename(W, c, c2), k) - {OWN}", "m"),
        (f"dot(W, rename(2 * W, c, c2), k) + {OWN}", "m"),
        ("dot(W, rename(W, c, c2), k) + s ** 2 * (1 + eye(c, c2))", "m"),
        (f"dot(W, rename(W, c, c2), k) + {OWN}", "m + x"),
    ],
    ids=["a difference", "no square", "no diagonal", "means of rows"],
)  # fmt: skip
def test_other_shapes_are_left_to_pymc(covariance, mean):
    assert kernels_of(built(covariance, mean)) == set()


def test_a_second_node_with_data_leaves_both_to_pymc():
    nodes = {
        "m[c]": "Normal(0, 1)", "W[c, k]": "Normal(0, 1)", "s": "HalfNormal(1)",
        "V[c, c2]": "dot(W, rename(W, c, c2), k) + s * eye(c, c2)",
        "y[row, c]": "MvNormal(m, cov=V)", "x[row]": "Normal(m[0], 1)",
    }  # fmt: skip
    spec = bl.Model(
        data={"rows": "row", "dims": {"y": ["row", "c"]}}, dims={"c": 4, "c2": "c", "k": 2},
        model={"family": "graph", "nodes": nodes},
    )  # fmt: skip
    assert {rv.name for rv in bl.to_pymc(spec, data=DATA).observed_RVs} == {"x", "y"}


@pytest.mark.slow(why="compiles")
def test_each_row_has_a_log_likelihood_of_its_own():
    columns = {name: DATA["y"][:, k] for k, name in enumerate("abcd")}
    words = {"family": "latent_features", "columns": list("abcd"), "kind": "gaussian", "features": 1, "noise": "own"}
    spec = bl.expand(bl.Model(data={"rows": "row"}, model=words), columns)
    fit = bl.fit(spec, columns, method="nuts", draws=20, tune=50, chains=1, runs=None, progress=False)
    drawn, found = fit.posterior.isel(chain=0), fit.log_likelihood()["cells"].isel(chain=0).to_numpy()
    for at in (0, 19):
        loading, noise = drawn["loading"][at].to_numpy(), drawn["noise"][at].to_numpy()
        whole = loading @ loading.T + np.diag(noise**2)
        wanted = stats.multivariate_normal.logpdf(DATA["y"], drawn["mean"][at].to_numpy(), whole)
        np.testing.assert_allclose(found[at], wanted, rtol=1e-9)
    np.testing.assert_array_equal(fit.data_tree["observed_data"]["cells"].to_numpy(), DATA["y"])
