"""One regression, every engine: the closed form is the truth the others are held to."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl

RNG = np.random.default_rng(21)
N = 300
G = RNG.integers(0, 8, N)
TABLE = pd.DataFrame({"x": RNG.normal(5, 2, N), "g": np.char.add("g", G.astype(str))})
TABLE["y"] = 2 + 0.4 * TABLE["x"] + RNG.normal(0, 0.8, 8)[G] + RNG.normal(0, 1, N)

LINE = bl.Regression(formula="y ~ x", priors={"sigma": 1.2, "x": "Normal(0, 1)", "Intercept": "Normal(0, 5)"})
GROUPS = bl.Regression(formula="y ~ x + (1 | g)")


def fitted(spec: bl.Regression, method: str, **options: object) -> bl.Fit:
    return bl.fit(bl.Model(model=spec), TABLE, method, runs=None, seed=5, progress=False, **options)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    ("spec", "method", "options"),
    [(LINE, "nuts", {}), (LINE, "laplace", {}), (GROUPS, "nuts", {"target_accept": 0.95})],
    ids=["line-nuts", "line-laplace", "groups-nuts"],
)
def test_engines_agree_with_the_closed_form(spec, method, options):
    """Means within 4.5 Monte Carlo standard errors, quartiles within the error of their frequencies."""
    exact, other = fitted(spec, "exact"), fitted(spec, method, **options)
    truth = exact.data_tree["exact_posterior"].to_dataset()
    drawn = other.posterior.to_dataset()
    import arviz as az

    for name in set(truth.data_vars) & set(drawn.data_vars):
        values = (
            drawn[name]
            .stack(sample=("chain", "draw"))
            .transpose("sample", ...)
            .to_numpy()
            .reshape(-1, truth[name][0].size)
        )
        ess = np.atleast_1d(az.ess(other.posterior)[name].to_numpy()).ravel()
        want = {s: truth[name].sel(statistic=s).to_numpy().ravel() for s in ("mean", "sd", "q25", "q75")}
        assert np.all(np.abs(values.mean(axis=0) - want["mean"]) < 4.5 * want["sd"] / np.sqrt(ess)), name
        for quantile, share in (("q25", 0.25), ("q75", 0.75)):
            below = (values < want[quantile]).mean(axis=0)
            assert np.all(np.abs(below - share) < 4.5 * np.sqrt(0.1875 / ess)), (name, quantile)


@pytest.mark.slow(why="processes")
def test_exact_needs_no_pymc():
    """Fitting, predicting and pointwise log likelihoods of a regression load neither PyMC nor PyTensor."""
    code = (
        "import sys, numpy as np, bayeslab as bl\n"
        "rng = np.random.default_rng(0)\n"
        "data = {'x': rng.normal(size=30), 'y': rng.normal(size=30)}\n"
        "fit = bl.fit(bl.Model(model=bl.Regression(formula='y ~ x')), data, runs=None, progress=False, seed=1)\n"
        "fit.predict({'x': [1.0]}), fit.log_likelihood(), fit.summary()\n"
        "print(fit.method, sorted({'pymc', 'pytensor', 'arviz'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1)[0] == "exact"
    assert done.stdout.strip().endswith("[]")


def test_run_folder_of_a_regression_reopens_and_predicts(tmp_path):
    fit = bl.fit(bl.Model(name="line", model=GROUPS), TABLE, runs=tmp_path, seed=5, progress=False)
    again = bl.open(fit.folder)
    new = pd.DataFrame({"x": [1.0, 4.0], "g": ["g0", "g3"]})
    pd.testing.assert_frame_equal(fit.predict(new), again.predict(new))
    pd.testing.assert_frame_equal(fit.summary(), again.summary())
