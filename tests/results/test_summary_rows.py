"""``fit.summary("b[Âge]")``: rows by the names that the summary prints."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused

RNG = np.random.default_rng(3)
X, Z = RNG.normal(size=(2, 30))
TABLE = pd.DataFrame({"y": 1 + X - Z + RNG.normal(size=30), "Âge": X, "body mass": Z, "g": ["p q", "r", "s"] * 10})
MODEL = bl.Model(model={"family": "regression", "formula": "y ~ Âge + `body mass` + (1 | g)"})


@pytest.fixture(scope="module", params=["exact", "gibbs"])
def fit(request):
    """One whose numbers are exact, and one of draws."""
    if request.param == "gibbs":
        model = bl.Model(model={"family": "mixture", "columns": ["Âge", "body mass"], "components": 2})
        return bl.fit(model, TABLE, "gibbs", runs=None, progress=False, seed=1, draws=50, tune=10)
    return bl.fit(MODEL, TABLE, "exact", runs=None, progress=False, seed=1, draws=50)


@pytest.mark.slow(why="compiles")
def test_every_printed_name_is_a_row(fit):
    whole = fit.summary()
    for label in whole.index:
        one = fit.summary(label)
        assert list(one.index) == [label]
        pd.testing.assert_series_equal(one.iloc[0], whole.loc[label, list(one.columns)])


def test_names_and_rows_together_keep_their_order(fit):
    labels = list(fit.summary().index)
    name = next(label for label in labels if "[" in label)
    node = name.partition("[")[0]
    other = next(label for label in labels if not label.startswith(node))
    found = fit.summary([name, other, node])
    assert list(found.index) == [name, other, *fit.summary(node).index]


def test_accents_of_two_signs_are_the_same():
    fit = bl.fit(MODEL, TABLE, runs=None, progress=False, seed=1, draws=20)
    written = unicodedata.normalize("NFD", "b[Âge]")
    assert written != "b[Âge]"
    assert list(fit.summary(written).index) == ["b[Âge]"]


def test_unknown_rows_are_refused_with_the_nearest(fit):
    label = next(label for label in fit.summary().index if "[" in label)
    with refused("option.unknown-variable", re.escape(f"'{label[:-1]}x]'") + ".*" + re.escape(f"'{label}'")):
        fit.summary(f"{label[:-1]}x]")
    with refused("option.unknown-variable", "'nothing'"):
        fit.summary("nothing[Âge]")


def test_edges_of_structures_and_scores_of_learners_are_rows_too():
    states = {n: RNG.choice(["u", "v"], 40) for n in "abc"}
    model = bl.Model(model={"family": "bayes_net", "structure": {}})
    structures = bl.fit(model, states, "structure", runs=None, progress=False, seed=1, draws=50, chains=2, cores=1)
    learner = bl.fit(
        bl.Model(model={"family": "learner", "learner": "linear", "target": "y", "inputs": ["Âge"]}),
        TABLE,
        runs=None,
        progress=False,
        seed=1,
    )
    for fit in (structures, learner):
        whole = fit.summary()
        for label in whole.index:
            assert list(fit.summary(label).index) == [label]
        with refused("option.unknown-variable", "'nothing'"):
            fit.summary("nothing")
