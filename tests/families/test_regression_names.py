"""Names of a regression's dimensions: no two terms share one, and numbers are not taken for levels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.preparation import Source
from tests.refusals import refused


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    words = {name: np.array(list("uvwxz"))[rng.integers(0, 5, n)] for name in ("a", "b", "c", "a_b", "b_c")}
    numbers = {"x": rng.normal(size=n), "year": rng.integers(2001, 2006, n), "wave": rng.integers(1, 6, n)}
    return pd.DataFrame({"y": rng.normal(size=n), **words, **numbers})


def bound(
    formula: object, data: pd.DataFrame, rows: str = "row", derive: object = None, dims: object = None, **more: object
) -> object:
    source = {"rows": rows, "derive": derive or {}}
    model = bl.Model(data=source, dims=dims or {}, model=bl.Regression(formula=formula, **more))
    neighbours = pd.DataFrame({"one": list("uvwx"), "other": list("vwxz")})
    posterior = Source(model).posterior({rows: data, "W": neighbours})
    assert posterior.lowered
    return posterior


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ (1 | a_b) + (1 | a:b)",
        "y ~ (1 | a/b) + (1 | a_b)",
        "y ~ (1 | a:b_c) + (1 | a_b:c)",
        "y ~ car(W, a_b) + (1 | a:b)",
        "y ~ a_b + s(x, by=a_b, k=5) + (1 | a:b)",
        {"mu": "y ~ (1 | a_b)", "sigma": "~ (1 | a:b)"},
        "y ~ (1 | mm(a_b, c)) + (1 | mm(a, b_c))",
        {"mu": "y ~ (1 | mm(a_b, c))", "sigma": "~ (1 | mm(a, b_c))"},
    ],
)
def test_two_kinds_of_groups_of_one_name_are_refused(formula):
    """One of them would have the levels of the other."""
    with refused("model.name-clash", "levels.*one name", where="model.formula"):
        bound(formula, table())


@pytest.mark.parametrize("formula", ["y ~ (1 | a:b) + (1 | a)", {"mu": "y ~ (1 | a:b)", "sigma": "~ (1 | a:b)"}])
def test_combinations_have_the_levels_that_occur(formula):
    data = table()
    dims = bound(formula, data).lowered.model.dims
    assert len(dims["a_b"]) == len(set(zip(data["a"], data["b"], strict=True)))


def test_rows_called_like_a_dimension_of_the_model_are_refused():
    with refused("data.name-clash", "'predictor'", where="data.rows"):
        bound("y ~ x", table(), rows="predictor")


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ year + (1 | year)",
        "y ~ x + (1 + x:year | year)",
        "y ~ log(year) + (1 | year)",
        "y ~ s(wave, k=4) + (1 | wave)",
        "y ~ me(wave, 0.1) + (1 | wave)",
        "y ~ wave + (1 | mm(wave, year))",
        {"mu": "y ~ (1 | year)", "sigma": "~ year"},
    ],
)
def test_a_column_of_numbers_is_no_slope_and_group_at_once(formula):
    """Its slope would be effects of its levels."""
    with refused("model.conflict", "'(year|wave)'.*derive", where="model.formula"):
        bound(formula, table())


def test_numbers_of_groups_have_slopes_as_copies():
    data = table()
    copy = bound("y ~ year_number + (1 | year)", data, derive={"year_number": "year * 1"})
    assert copy.lowered.design.names == ["year_number"]
    np.testing.assert_allclose(copy.lowered.design.matrix[:, 0], data["year"])
    levels = bound("y ~ C(year) + (1 | year)", data).lowered.design.names
    assert levels == [f"C(year)[{year}]" for year in range(2002, 2006)]
    listed = bound("y ~ wave + (1 | wave)", data, dims={"wave": [1, 2, 3, 4, 5]}).lowered.design.names
    assert listed == [f"wave[{wave}]" for wave in range(2, 6)]


def test_levels_of_several_columns_of_groups_are_called_what_they_are():
    data = table().assign(kind=lambda t: pd.Categorical(t["wave"]), code=lambda t: t["wave"].astype(str))
    with refused("data.not-states", "'wave' are numbers, and those of 'a'", where="model.formula"):
        bound("y ~ (1 | mm(wave, a))", data)
    for name in ("kind", "code"):
        with refused("data.not-states", f"'{name}' are names that look like numbers", where="model.formula"):
            bound(f"y ~ (1 | mm({name}, wave))", data)
    with refused("data.not-numbers", "'kind' holds names", where="model.formula"):
        bound("y ~ me(kind, 0.1)", data)


def test_the_micro_sign_is_the_letter_mu_in_names():
    """As in expressions, which follow Python."""
    data = table()
    named = bound({"mu": "y ~ \u00b5_ * x", "\u00b5_": "~ 1"}, data, priors={"\u00b5_": {"Intercept": "Normal(0, 1)"}})
    assert "\u03bc_" in named.lowered.nodes
    dose = bound("y ~ \u00b5g", data.rename(columns={"x": "\u00b5g"}), priors={"\u00b5g": "Normal(0, 3)"})
    assert dose.lowered.data.dataset.columns["prior_scale"].values.tolist() == [3.0]


def test_greek_letters_are_hints_at_their_names():
    with refused("model.unknown-parameter", "did you mean 'sigma'", where="model.formula"):
        bound({"mu": "y ~ x", "\u03c3": "~ x"}, table())
    with refused("model.missing-key", "'mu', not '\u03bc'", where="model.formula"):
        bound({"\u00b5": "y ~ x", "sigma": "~ x"}, table())
