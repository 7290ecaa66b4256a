"""Columns as they come: spaces, dots, accents, words of Python; in formulas, lists, expressions, under other names."""

from __future__ import annotations

import ast

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.fitting import check
from bayeslab.language.spec import plain_name, unquoted
from tests.refusals import refused

RENAMED = {
    "Blood pressure (mmHg)": "y", "body.mass": "x", "Größe/cm": "z", "Treatment group": "g", "class": "k", "2nd": "w",
}  # fmt: skip
ODD = {plain: odd for odd, plain in RENAMED.items()}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 40))
    groups = np.array(["a", "b", "c", "d"])[np.arange(40) % 4]
    return pd.DataFrame(
        {"y": 1 + x + rng.normal(size=40), "x": x, "z": z, "g": groups, "k": rng.normal(size=40), "w": np.ones(40)}
    )


def regression(formula: str, data: dict | None = None, **more) -> bl.Model:
    return bl.Model(data=data or {}, model={"family": "regression", "formula": formula, **more})


def means(model: bl.Model, data: pd.DataFrame) -> np.ndarray:
    fit = bl.fit(model, data, seed=1, runs=None, progress=False)
    predicted = fit.predict(data, kind="mean")["mean"]
    posterior = fit.posterior["b"].mean(("chain", "draw"))
    return np.r_[posterior.to_numpy(), predicted.to_numpy()[:3]]


PLAIN = "y ~ x + z + log(exp(k)) + (1 | g)"
QUOTED = "`Blood pressure (mmHg)` ~ `body.mass` + `Größe/cm` + log(exp(`class`)) + (1 | `Treatment group`)"


def test_plain_names():
    names = ["age", "Blood pressure (mmHg)", "Größe/cm", "2nd", "%", "_x", "µg", "class"]
    want = [
        "age",
        "Blood_pressure_mmHg",
        "Größe_cm",
        "column_2nd",
        "column",
        "_x",
        "\N{GREEK SMALL LETTER MU}g",
        "class",
    ]
    assert [plain_name(name) for name in names] == want
    assert unquoted("sd(`a b`) + u['`']").split() == ["sd(", "a_b", ")", "+", "u['`']"]


@pytest.mark.slow(why="statistical")
def test_backticks_in_formulas_give_the_answers_of_plain_names():
    plain = means(regression(PLAIN, weights="w"), table())
    odd = table().rename(columns=ODD)
    np.testing.assert_allclose(means(regression(QUOTED, weights="2nd"), odd), plain, rtol=1e-12)
    # A plain name may be written without backticks.
    without = "Blood_pressure_mmHg ~ body_mass + Größe_cm + log(exp(class)) + (1 | Treatment_group)"
    np.testing.assert_allclose(means(regression(without, weights="column_2nd"), odd), plain, rtol=1e-12)


def test_columns_have_other_names_under_data():
    odd = table().rename(columns=ODD)
    renaming = regression(PLAIN, data={"rename": ODD}, weights="w")
    np.testing.assert_allclose(means(renaming, odd), means(regression(PLAIN, weights="w"), table()), rtol=1e-12)
    check(renaming, table())  # data that have the new names already
    with refused("data.name-clash", where="data.rename.x"):
        check(renaming, odd.assign(x=1.0))


def test_a_name_that_is_to_be_replaced_is_in_the_file(tmp_path):
    table().to_csv(tmp_path / "t.csv", index=False)
    text = "bayeslab: 1\ndata: {table: t.csv, rename: {pressure: yy}}\nmodel: {family: regression, formula: pressure ~ x}\n"
    (tmp_path / "m.yaml").write_text(text)
    with refused("data.unknown-column", "'yy'.*'y'") as caught:
        check(tmp_path / "m.yaml")
    assert "m.yaml:2" in str(caught.value)
    (tmp_path / "m.yaml").write_text(text.replace("yy", "y"))
    assert "pressure" in check(tmp_path / "m.yaml").names()


def test_responses_may_be_expressions_of_quoted_names():
    odd, plain = regression("exp(`Blood pressure (mmHg)` / 9) ~ `body.mass`"), regression("exp(y / 9) ~ x")
    np.testing.assert_allclose(means(odd, table().rename(columns=ODD)), means(plain, table()), rtol=1e-12)


def test_lists_take_quoted_names():
    odd = table().rename(columns=ODD)
    models = [
        {"family": "mixture", "components": 2, "columns": ["Blood pressure (mmHg)", "body.mass"]},
        {"family": "hmm", "states": 2, "columns": ["Größe/cm"], "emission": "gaussian"},
        {"family": "gaussian_process", "target": "Blood pressure (mmHg)", "kernel": "ExpQuad(`body.mass`)"},
        {"family": "learner", "learner": "linear", "target": "Größe/cm", "inputs": ["body.mass", "2nd"]},
        {"family": "latent_features", "columns": ["body.mass", "Größe/cm"], "features": 1},
    ]
    for model in models:
        assert "body_mass" in check(bl.Model(model=model), odd).names(), model


def test_keys_take_quoted_names():
    odd, names = table().rename(columns=ODD), ["Blood pressure (mmHg)", "body.mass"]
    words = dict.fromkeys(names, "student_t")
    for model in (
        {"family": "mixture", "components": 2, "columns": names, "component": words},
        {"family": "hmm", "states": 2, "columns": names, "emission": words},
    ):
        assert "body_mass" in check(bl.Model(model=model), odd).names(), model
        key = "component" if model["family"] == "mixture" else "emission"
        with refused("model.duplicate", "'body_mass'"):
            bl.Model(model=model | {key: words | {"body_mass": "gaussian"}})


def test_expressions_take_quoted_names():
    nodes = {
        "a": "Normal(0, 1)",
        "u[Treatment_group]": "Normal(0, 1)",
        "`Blood pressure (mmHg)`[obs_id]": "Normal(a * `body.mass` + u[`Treatment group`], 1)",
    }
    model = bl.Model(data={"derive": {"half": "`Größe/cm` / 2"}}, model={"family": "graph", "nodes": nodes})
    data = check(model, table().rename(columns=ODD))
    np.testing.assert_allclose(np.asarray(data.term("half").value), table()["z"] / 2)
    graph = bl.to_pymc(model, table().rename(columns=ODD))
    assert [rv.name for rv in graph.observed_RVs] == ["Blood_pressure_mmHg"]


def test_a_run_with_odd_names_is_opened_again(tmp_path):
    odd = table().rename(columns=ODD)
    fit = bl.fit(regression(QUOTED), odd, runs=tmp_path, progress=False)
    again = bl.open(next(tmp_path.iterdir()))
    pd.testing.assert_frame_equal(again.predict(odd, kind="mean"), fit.predict(odd, kind="mean"))


def test_names_that_cannot_be_told_apart_stand_beside_a_model_of_others():
    data = check(regression("y ~ x"), table().assign(**{"a b": 1.0, "a.b": 2.0}))
    assert {"a b", "a.b"} <= data.names()
    with refused("data.duplicate", "'a b', 'a.b'"):
        check(regression("y ~ `a b`"), table().assign(**{"a b": 1.0, "a.b": 2.0}))


@pytest.mark.parametrize("name", ["dose_µg", "ﬁx", "Ａ", "m²", "x₁", "ª", "½", "x፩"])
def test_names_are_what_the_parser_of_expressions_makes_of_them(name):
    """It writes letters that look alike as one; a plain name is one for good, in data as in formulas and nodes."""
    plain = plain_name(name)
    assert plain_name(plain) == plain and ast.parse(plain, mode="eval").body.id == plain
    data = {name: np.arange(6.0), "y": np.array([0.1, 1.2, 1.9, 3.2, 3.9, 5.1])}
    by_formula = bl.Model(name="line", model=bl.Regression(formula=f"y ~ `{name}`"))
    nodes = {"b": "Normal(0, 1)", "y[obs_id]": f"Normal(b * `{name}`, 1)"}
    by_nodes = bl.Model(name="line", model=bl.Graph(nodes=nodes))
    fits = [bl.fit(model, data, progress=False, runs=None) for model in (by_formula, by_nodes)]
    assert f"b[{plain}]" in fits[0].summary().index and fits[1].summary().loc["b", "mean"] == pytest.approx(1, abs=0.1)
    for fit in fits:
        assert len(fit.predict({name: np.array([1.0, 2.0])})) == 2


def test_results_of_odd_names_are_read_again(tmp_path):
    data = {"m²": np.arange(6.0), "y": np.array([0.1, 1.2, 1.9, 3.2, 3.9, 5.1])}
    bl.fit(bl.Model(name="line", model=bl.Regression(formula="y ~ `m²`")), data, progress=False, runs=tmp_path)
    again = bl.open(next(tmp_path.iterdir()))
    assert len(again.predict({"m²": np.array([1.0, 2.0])})) == 2


@pytest.mark.parametrize("names", [("x", "x!"), ("%", "$")])
def test_columns_that_are_called_alike_matter_only_where_one_is_used(names):
    y = np.array([0.4, 1.3, -0.2, 0.9])
    nodes = {"a": "Normal(0, 1)", "y[obs]": "Normal(a, 1)"}
    frame = pd.DataFrame({"y": y, names[0]: np.arange(4.0), names[1]: 1.0})

    def graph(nodes: dict) -> bl.Model:
        return bl.Model(data={"rows": "obs"}, model={"family": "graph", "nodes": nodes})

    fit = bl.fit(graph(nodes), frame, runs=None, progress=False)
    # One precision of the prior and one of each row.
    assert fit.summary().loc["a", "mean"] == pytest.approx(y.sum() / 5)
    used = graph(nodes | {"y[obs]": f"Normal(a + `{names[0]}`, 1)"})
    with refused("data.duplicate", names[0]):
        bl.check(used, frame)
