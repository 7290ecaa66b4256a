"""What kind of answer suits an outcome, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import OptionError


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, 60)
    return pd.DataFrame(
        {"x": x, "word": np.where(x + rng.normal(0, 1, 60) > 0, "yes", "no"), "z": rng.normal(0, 1, 60)}
    )


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical", "ordered"])
def test_words_are_predicted_by_their_probabilities(table, likelihood):
    dims = {"word": ["no", "yes"]}
    model = bl.Model(dims=dims, model=bl.Regression(formula="word ~ x", likelihood=likelihood))
    fit = bl.fit(model, table, "laplace", seed=1, progress=False, runs=None)
    found = fit.predict(table.head(3))
    assert {"P(word=no)", "P(word=yes)"} <= set(found)
    np.testing.assert_allclose(found[["P(word=no)", "P(word=yes)"]].sum(axis=1), 1)


def test_numbers_are_predicted_by_their_mean(table):
    model = bl.Model(model=bl.Regression(formula="k ~ x", likelihood="bernoulli"))
    fit = bl.fit(
        model, table.assign(k=table["word"].eq("yes").astype(int)), "laplace", seed=1, progress=False, runs=None
    )
    assert "mean" in fit.predict(table.head(3))


def test_answers_of_states_are_refused_for_numbers(table):
    model = bl.Model(model=bl.BayesNet(structure={"score": "bge"}))
    fit = bl.fit(model, table[["x", "z"]], seed=1, progress=False, runs=None)
    with pytest.raises(OptionError) as error:
        fit.structures.query_many(table[["x"]])
    assert error.value.code.endswith("not-applicable") and "fit.predict" in error.value.message
