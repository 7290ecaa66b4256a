"""Labels and units of columns from the model file, in plots, effects and reports."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.report.page import html_of

RNG = np.random.default_rng(3)
X = RNG.normal(size=30)
DATA = {"x": X, "y": 2 * X + RNG.normal(size=30)}


def model(**data):
    return bl.Model(name="titles", data=data, model=bl.Regression(formula="y ~ x"))


@pytest.fixture(scope="module")
def fit():
    given = {"labels": {"y": "Yield"}, "units": {"y": "kg", "x": "cm"}}
    return bl.fit(model(**given), DATA, runs=None, progress=False, seed=1)


def test_axes_have_labels_and_units(fit):
    assert fit.plot("ppc").axes[0].get_xlabel() == "Yield (kg)"
    axes = fit.plot("effects").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x (cm)", "mean of Yield (kg)")
    assert fit.plot("mean").axes[0].get_xlabel() == "mean of Yield (kg)"


def test_effects_and_reports_have_them(fit):
    effects = fit.comparisons("x")
    assert effects.title.startswith("difference of the mean of Yield (kg), ")
    assert effects.table["term"][0] == "x"  # names of columns stay in tables
    page = html_of({"titles": fit})
    for text in ("over x (cm)", "Mean of Yield (kg): ", "Densities of Yield (kg): the data", ">Yield (kg)</span>"):
        assert text in page


def test_a_label_of_no_column_is_noticed():
    made = bl.fit(model(units={"yy": "kg"}, labels={"z": "Z"}), DATA, runs=None, progress=False, seed=1)
    found = {finding.check: finding.message for finding in made.verdict.findings}
    assert "'yy' of data.units is not a column; did you mean 'y'?" in found["column units"]
    assert "'z' of data.labels is not a column" in found["column labels"]


def test_they_leave_the_posterior_and_its_digest_alone(fit):
    plain = bl.fit(model(), DATA, runs=None, progress=False, seed=1)
    assert plain.model.digest() == fit.model.digest()
    assert plain.summary().equals(fit.summary())


def test_of_renamed_and_computed_columns():
    given = {"rename": {"y": "out come"}, "derive": {"z": "2 * x"}, "labels": {"y": "Yield"}, "units": {"z": "cm"}}
    made = bl.Model(name="r", data=given, model=bl.Regression(formula="y ~ z"))
    fitted = bl.fit(made, {"x": DATA["x"], "out come": DATA["y"]}, runs=None, progress=False, seed=1)
    assert not {"column labels", "column units"} & {finding.check for finding in fitted.verdict.findings}
    assert fitted.plot("effects").axes[0].get_xlabel() == "z (cm)"
