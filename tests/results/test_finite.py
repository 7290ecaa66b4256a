"""No number that is none passes, whatever the engine."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import bayeslab as bl
from bayeslab.engines import em, variational
from bayeslab.results.finite import with_finite
from bayeslab.results.verdict import Finding, Verdict

PASS = Verdict((Finding("pass", "optimum", "", None, "fine"),))


def draws(values):
    return {"posterior": xr.Dataset({"a": (("chain", "draw", "k"), np.asarray(values, float))})}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_draws_and_points(bad):
    assert with_finite(PASS, draws([[[1, 2], [3, 4]]])) is PASS
    some = with_finite(PASS, draws([[[1, 2], [3, bad]]]), undefined=True)
    assert some.status == "fail" and "a[1]" in some.findings[-1].message
    every = draws([[[1, bad], [3, bad]]])
    # A graph may have rows that are undefined on purpose; a family's own parameters are never.
    assert with_finite(PASS, every).status == "fail"
    assert with_finite(PASS, every, undefined=True).status == "warn"


def test_what_the_engine_has_looked_at_is_not_said_twice():
    said = Verdict((Finding("fail", "finite", "a", 1, "bad"),))
    assert with_finite(said, draws([[[1, np.nan]]])) is said


def exact(mean, quantile, evidence=-3.0):
    values = np.array([mean, 1.0, quantile])
    content = xr.Dataset({"a": ("statistic", values)}, {"statistic": ["mean", "sd", "q50"]})
    return {"exact_posterior": content.assign_attrs(log_evidence=evidence)}


def test_closed_forms():
    assert with_finite(PASS, exact(0.0, 0.0)) is PASS
    assert with_finite(PASS, exact(0.0, np.nan)).status == "fail"
    # A mean may honestly not exist: of Student's t with one degree of freedom, say.
    assert with_finite(PASS, exact(np.inf, 0.0)).findings[-1].check == "moments"
    assert with_finite(PASS, exact(0.0, 0.0, np.inf)).status == "fail"


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("engine", "place"), [(em, "em"), (variational, "variational")])
def test_engines_without_a_graph_are_looked_at(engine, place, monkeypatch):
    """A parameter that turns into NaN on its way to the result makes the fit fail."""
    model = bl.Model(model={"family": "mixture", "columns": ["y"], "components": 2})
    y = np.random.default_rng(0).normal(size=30)
    labelled = engine.labelled

    def spoilt(arrays, *rest):
        return labelled({n: v * np.nan if n == "weights" else v for n, v in arrays.items()}, *rest)

    monkeypatch.setattr(engine, "labelled", spoilt)
    fit = bl.fit(model, {"y": y}, place, seed=1, progress=False, runs=None)
    assert fit.verdict.status == "fail"
    assert fit.verdict.findings[-1].check == "finite"
