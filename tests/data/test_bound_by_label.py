"""Cells are bound to a dimension by its labels, never by the order in which they come; what cannot be is refused.

The truth is in closed form: group means of normal outcomes with a vague prior, slopes of lines without noise, and
posterior means of Dirichlet probabilities, (1 + n) / (K + N).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused


def fitted(nodes, data, dims=None, *, tables=None, text=(), **options):
    model = bl.Model(
        data={"rows": "obs", "tables": tables or {}, "text": list(text)}, dims=dims or {}, model=bl.Graph(nodes=nodes)
    )
    return bl.fit(model, data, runs=None, seed=1, progress=False, **options)


def means(fit) -> dict[str, float]:
    return fit.summary()["mean"].to_dict()


# ------------------------------------------------------------------------------- tables of groups

NORTH = {1: "north", 2: "south", 3: "north", 4: "south", 5: "north"}


@pytest.mark.parametrize("keys", [[1, 2, 3, 4, 5], [3, 1, 5, 2, 4]])
@pytest.mark.parametrize("kind", [int, float, str])
def test_text_of_a_second_table_is_found_by_its_key(tmp_path, keys, kind):
    """A column of the table of schools, by the number of the school: not by its place in the table."""
    write = {int: str, float: lambda key: f"{key}.0", str: lambda key: f"s{key}"}[kind]
    schools = pd.DataFrame({"school": [write(key) for key in keys], "region": [NORTH[key] for key in keys]})
    schools.to_csv(tmp_path / "schools.csv", index=False)
    school = [1, 2, 3, 4] * 5
    data = pd.DataFrame({"school": school if kind is not str else [f"s{key}" for key in school]})
    data["y"] = [10.0 if NORTH[key] == "north" else 20.0 for key in school]
    nodes = {"m[region]": "Normal(0, 1e4)", "y[obs]": "Normal(m[region[school]], 1)"}
    found = means(fitted(nodes, data, tables={"school": str(tmp_path / "schools.csv")}))
    assert found["m[north]"] == pytest.approx(10, abs=1e-4)
    assert found["m[south]"] == pytest.approx(20, abs=1e-4)


@pytest.mark.parametrize("keys", [[0, 1, 2, 3], [3, 1, 2, 0], [4, 3, 2, 1], [-1, 0, 7, 2]])
def test_numbers_of_a_second_table_are_found_by_its_key(keys):
    table = pd.DataFrame({"g": keys, "u": [1.0, 2.0, -1.0, 4.0]})
    g = np.array(keys)[np.arange(12) % 3]
    data = {"obs": pd.DataFrame({"g": g, "y": 3 * table.set_index("g").loc[g, "u"].to_numpy()}), "g": table}
    nodes = {"c": "Normal(0, 1e4)", "y[obs]": "Normal(c * u[g], 1)"}
    assert means(fitted(nodes, data))["c"] == pytest.approx(3, abs=1e-4)


def test_keys_that_the_second_table_does_not_have_are_named():
    data = {"obs": pd.DataFrame({"g": [1, 9], "y": [1.0, 2.0]}), "g": pd.DataFrame({"g": [1, 2], "u": [1.0, 2.0]})}
    with refused("data.unknown-level", "'g'.*row 2.*'9'"):
        fitted({"c": "Normal(0, 1)", "y[obs]": "Normal(c * u[g], 1)"}, data)


@pytest.mark.parametrize("keys", [[1, 1], [1.0, 1], ["a", "a"]])
def test_keys_that_are_there_twice_are_refused(keys):
    data = {"obs": pd.DataFrame({"g": keys, "y": [1.0, 2.0]}), "g": pd.DataFrame({"g": keys, "u": [1.0, 2.0]})}
    with refused("data.duplicate", "'g'"):
        fitted({"c": "Normal(0, 1)", "y[obs]": "Normal(c * u[g], 1)"}, data)


def test_the_key_of_a_table_may_be_written_like_the_dimension(tmp_path):
    pd.DataFrame({"School ID": [2, 1, 0], "u": [1.0, 2.0, 4.0]}).to_csv(tmp_path / "s.csv", index=False)
    data = pd.DataFrame({"School_ID": [0, 1, 2, 0], "y": [12.0, 6.0, 3.0, 12.0]})
    nodes = {"c": "Normal(0, 1e4)", "y[obs]": "Normal(c * u[School_ID], 1)"}
    found = fitted(nodes, data, tables={"School_ID": str(tmp_path / "s.csv")})
    assert means(found)["c"] == pytest.approx(3, abs=1e-4)


# ------------------------------------------------------------------------------- categories

COLOURS = ["red"] * 17 + ["green"] * 2 + ["blue"]
CATEGORIES = {"p[colour]": "Dirichlet(1)", "k[obs]": "Categorical(p)"}


@pytest.mark.parametrize("levels", [["red", "green", "blue"], ["blue", "green", "red", "black"]])
@pytest.mark.parametrize("kind", ["words", "categories"])
def test_words_are_the_labels_of_their_probabilities(levels, kind):
    words = COLOURS if kind == "words" else pd.Categorical(COLOURS)
    found = means(fitted(CATEGORIES, pd.DataFrame({"k": words}), {"colour": levels}))
    for word in levels:
        assert found[f"p[{word}]"] == pytest.approx((1 + COLOURS.count(word)) / (20 + len(levels)), rel=1e-9)


def test_words_of_a_graph_are_the_labels_of_their_probabilities():
    model = bl.Model(data={"rows": "obs"}, dims={"colour": ["red", "green", "blue"]}, model=bl.Graph(nodes=CATEGORIES))
    graph = bl.to_pymc(model, pd.DataFrame({"k": COLOURS}))
    assert graph.rvs_to_values[graph["k"]].eval().tolist() == [0] * 17 + [1] * 2 + [2]


def test_rows_of_probabilities_have_labels_too():
    nodes = {"p[z, colour]": "Dirichlet(1)", "k[obs]": "Categorical(p[z, colour])"}
    data = pd.DataFrame({"k": COLOURS, "z": ["m", "n"] * 10})
    found = means(fitted(nodes, data, {"colour": ["red", "green", "blue"]}))
    for z in "mn":
        n = {word: sum(data["k"][data["z"] == z] == word) for word in ("red", "green", "blue")}
        for word, count in n.items():
            assert found[f"p[{z}, {word}]"] == pytest.approx((1 + count) / 13, rel=1e-9)


@pytest.mark.slow(why="statistical")
def test_a_dimension_without_labels_takes_those_of_the_column():
    found = fitted(CATEGORIES, pd.DataFrame({"k": COLOURS}), {"colour": 3})
    assert means(found)["p[red]"] == pytest.approx(18 / 23, rel=1e-9)
    new = found.predict(pd.DataFrame({"i": [1.0]}), kind="probabilities")
    assert list(new.filter(like="P(").columns) == ["P(k=blue)", "P(k=green)", "P(k=red)"]


def test_two_outcomes_share_the_levels_of_their_dimension():
    nodes = {"p[c]": "Dirichlet(1)", "a[obs]": "Categorical(p)", "b[obs]": "Categorical(p)"}
    found = means(fitted(nodes, pd.DataFrame({"a": ["x", "y"] * 3, "b": ["y", "z"] * 3}), {"c": 3}))
    assert found["p[y]"] == pytest.approx(7 / 15, rel=1e-9)
    assert found["p[z]"] == pytest.approx(4 / 15, rel=1e-9)


def test_words_that_are_no_labels_are_refused():
    with refused("data.unknown-level", "'k'.*row 1.*'red'.*'colour'"):
        fitted(CATEGORIES, pd.DataFrame({"k": COLOURS}), {"colour": ["rot", "green", "blue"]})
    with refused("data.wrong-length", "'k'.*3.*'blue'.*'green'"):
        fitted(CATEGORIES, pd.DataFrame({"k": COLOURS}), {"colour": 4})


def test_words_and_a_list_of_probabilities_are_refused():
    """Of a list it is not known which word its first probability is of."""
    with refused("data.no-level-order", "'k'.*yes"):
        fitted({"a": "Beta(1, 1)", "k[obs]": "Categorical([a, 1 - a])"}, pd.DataFrame({"k": ["no", "yes"]}))


@pytest.mark.parametrize("labels", [[1, 2, 3, 4], [4, 3, 2, 1], ["1", "2", "3", "4"], ["1", "2", "3", "4+"]])
def test_whole_numbers_are_labels_where_labels_are_whole_numbers(labels):
    k = [1] * 5 + [2] * 2 + [3]
    found = means(fitted({"p[c]": "Dirichlet(1)", "k[obs]": "Categorical(p)"}, pd.DataFrame({"k": k}), {"c": labels}))
    assert found["p[1]"] == pytest.approx(6 / 12, rel=1e-9)
    assert found["p[2]"] == pytest.approx(3 / 12, rel=1e-9)
    data = pd.DataFrame({"k": k, "y": np.array(k, float)})
    found = means(fitted({"m[c]": "Normal(0, 1e4)", "y[obs]": "Normal(m[k], 1)"}, data, {"c": labels}))
    assert [found[f"m[{level}]"] for level in (1, 2, 3)] == pytest.approx([1, 2, 3], abs=1e-4)


def test_whole_numbers_are_positions_where_a_dimension_has_words():
    data = pd.DataFrame({"k": [0, 0, 0, 1]})
    found = means(fitted({"p[c]": "Dirichlet(1)", "k[obs]": "Categorical(p)"}, data, {"c": ["x", "y"]}))
    assert found["p[x]"] == pytest.approx(4 / 6, rel=1e-9)


def test_an_index_that_could_be_a_label_and_a_position_is_refused():
    data = pd.DataFrame({"k": [2, 3, 4], "y": [1.0, 2.0, 3.0]})
    dims = {"c": [1, 2, 3, 4]}
    for index in ("1", "k - 1"):
        with refused("model.conflict", "'c'", where="model.nodes.y[obs]"):
            fitted({"m[c]": "Normal(0, 1)", "y[obs]": f"Normal(m[{index}], 1)"}, data, dims)
    with refused("model.unknown-level", "'k'.*9.*'c'", where="model.nodes.y[obs]"):
        fitted({"m[c]": "Normal(0, 1)", "y[obs]": "Normal(m[k], 1)"}, data.assign(k=9), dims)
    found = fitted({"m[c]": "Normal(0, 1e4)", "y[obs]": "Normal(m[k - 2], 1)"}, data, dims)  # 0 is a position
    assert means(found)["m[1]"] == pytest.approx(1, abs=1e-4)


def test_levels_are_no_numbers_in_expressions():
    data = pd.DataFrame({"k": [1, 2, 3, 1], "y": [1.0, 2.0, 3.0, 1.0]})
    nodes = {"p[c]": "Dirichlet(1)", "k[obs]": "Categorical(p)", "b": "Normal(0, 1)"}
    for dims, column in (([1, 2, 3], data["k"]), (["a", "b", "c"], data["k"].map({1: "a", 2: "b", 3: "c"}))):
        model = bl.Model(
            data={"rows": "obs"}, dims={"c": dims}, model=bl.Graph(nodes=nodes | {"y[obs]": "Normal(b * k, 1)"})
        )
        for work in (bl.check, bl.to_pymc):
            with refused("model.not-numbers", "'k'", where="model.nodes.y[obs]"):
                work(model, data.assign(k=column))


# ------------------------------------------------------------------------------- text that is no category


@pytest.mark.parametrize(
    "distribution",
    [
        "Poisson(2)",
        "Binomial(2, p)",
        "Geometric(p)",
        "NegativeBinomial(2, p=p)",
        "DiscreteUniform(0, 5)",
        "Normal(p, 1)",
    ],
)
def test_text_is_no_count(distribution):
    data = pd.DataFrame({"k": ["zero", "one", "two"]})
    with refused("data.not-numbers", f"'k'.*{distribution.split('(')[0]}", where="model.nodes.k[obs]"):
        fitted({"p": "Beta(1, 1)", "k[obs]": distribution}, data)


@pytest.mark.parametrize("words", [["yes", "yes"], ["a", "b", "c"]])
def test_of_bernoulli_there_are_two_levels(words):
    """Of one word alone it is not known whether it is a success."""
    with refused("data.wrong-length", where="model.nodes.k[obs]"):
        fitted({"p": "Beta(1, 1)", "k[obs]": "Bernoulli(p)"}, pd.DataFrame({"k": words}))
    model = {"p": "Beta(1, 1)", "k[obs]": "Bernoulli(p)"}
    found = means(fitted(model, pd.DataFrame({"k": ["yes", "yes"]}), {"k": ["no", "yes"]}))
    assert found["p"] == pytest.approx(3 / 4)


# ------------------------------------------------------------------------------- families about the rows of one table

ROLES = {
    "response": {"family": "regression", "formula": "u ~ x"},
    "transformed response": {"family": "regression", "formula": "log(w) ~ x"},
    "predictor": {"family": "regression", "formula": "y ~ u"},
    "predictor beside groups": {"family": "regression", "formula": "y ~ u + (1 | g)"},
    "offset": {"family": "regression", "formula": "y ~ x + offset(u)"},
    "weights": {"family": "regression", "formula": "y ~ x", "weights": "w"},
    "trials": {"family": "regression", "formula": "p(k, w) ~ x", "likelihood": "binomial"},
    "censored": {"family": "regression", "formula": "y ~ x", "censored": "cens"},
    "group": {"family": "regression", "formula": "y ~ (1 | word)"},
    "slope": {"family": "regression", "formula": "y ~ x + (u | g)"},
    "column of a mixture": {"family": "mixture", "columns": ["u"], "components": 2},
    "labels": {"family": "mixture", "columns": ["y"], "components": 2, "labels": "word"},
    "gate": {"family": "mixture", "columns": ["y"], "components": 2, "gating": ["u"]},
    "column of a chain": {"family": "hmm", "columns": ["u"], "states": 2, "emission": "gaussian"},
    "sequence": {"family": "hmm", "columns": ["y"], "states": 2, "emission": "gaussian", "sequence": "word"},
    "time": {"family": "hmm", "columns": ["y"], "states": 2, "emission": "gaussian", "time": "k"},
    "seen states": {"family": "hmm", "columns": ["word"], "states": ["a", "b"], "emission": "observed"},
    "outcome of a process": {"family": "gaussian_process", "target": "u", "kernel": "ExpQuad(x, lengthscale=1)"},
    "input of a process": {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(u, lengthscale=1)"},
    "column of features": {"family": "latent_features", "columns": ["x", "y", "u"], "features": 1},
    "variable": {"family": "bayes_net", "variables": {"word": {"states": ["a", "b"]}}},
    "target": {"family": "learner", "learner": "decision_tree", "target": "word", "inputs": ["x"]},
    "input": {"family": "learner", "learner": "linear", "target": "y", "inputs": ["u"]},
    "documents": {"family": "topics", "text": "word", "topics": 2},
}


def two_tables() -> dict[str, pd.DataFrame]:
    """Two tables of as many rows, in different orders."""
    rng = np.random.default_rng(1)
    keys = [f"s{i}" for i in range(8)]
    of_key = pd.DataFrame(
        {"g": keys, "u": rng.normal(size=8), "w": [1.0, 2, 3, 4, 5, 6, 7, 8], "k": range(8), "word": ["a", "b"] * 4}
    )
    rows = pd.DataFrame({"g": keys[::-1], "x": rng.normal(size=8), "y": rng.normal(size=8)})
    return {"obs": rows, "g": of_key.assign(cens="none")}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("short", [False, True])
def test_columns_of_other_tables_are_refused_in_every_role(role, short):
    data = two_tables()
    if short:
        data["g"] = data["g"][:5]
        data["obs"]["g"] = ["s0", "s1", "s2", "s3"] * 2
    model = bl.Model(data={"rows": "obs"}, model=ROLES[role])
    with refused("data.not-a-column", "'obs'.*'g'"):
        bl.check(model, data)


def test_columns_of_other_tables_are_joined_by_derive():
    data = two_tables()
    joined = data["obs"].merge(data["g"], on="g")
    formula = {"formula": "y ~ u + (1 | word)", "weights": "w"}
    derived = {name: f"{name[:-1]}[g]" for name in ("u_", "w_", "word_")}
    one = bl.Model(data={"rows": "obs"}, model={"family": "regression", **formula})
    two = bl.Model(
        data={"rows": "obs", "derive": derived},
        model={"family": "regression", "formula": "y ~ u_ + (1 | word_)", "weights": "w_"},
    )
    found = [bl.fit(m, d, runs=None, seed=1, progress=False).summary()["mean"] for m, d in ((one, joined), (two, data))]
    assert found[1].to_numpy() == pytest.approx(found[0].to_numpy(), rel=1e-9)


# ------------------------------------------------------------------------------- predictions and simulations


@pytest.mark.slow(why="compiles")
def test_predictions_find_groups_by_their_keys():
    """Group means of the fit hold for the groups of new tables, in whatever order and however many these are."""
    table = pd.DataFrame({"g": [1, 2, 3], "u": [1.0, 2.0, 4.0]})
    rows = pd.DataFrame({"g": [1, 2, 3] * 5, "y": [10.0, 20.0, 30.0] * 5})
    nodes = {"a[g]": "Normal(0, 1e3)", "b": "Normal(0, 1)", "y[obs]": "Normal(a[g] + b * u[g], 0.01)"}
    found = fitted(nodes, {"obs": rows, "g": table})
    new = pd.DataFrame({"g": [1, 3]})
    for keys in ([0, 1, 2], [2, 0, 1], [2, 0]):
        predicted = found.predict({"obs": new, "g": table.iloc[keys]})
        assert predicted["mean"].to_numpy() == pytest.approx([10, 30], abs=0.01)
        assert np.all(predicted["sd"] < 0.1)
    assert found.predict(new)["mean"].to_numpy() == pytest.approx([10, 30], abs=0.01)
    more = pd.concat([table, pd.DataFrame({"g": [9], "u": [1.0]})])
    with refused("data.unknown-level", "'g'.*'9'.*'1'.*'2'"):
        found.predict({"obs": new, "g": more})
    unknown = found.predict({"obs": pd.DataFrame({"g": [9]}), "g": more[3:]})
    assert float(unknown["sd"].iloc[0]) > 900  # drawn from the prior


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("labels", [[1, 2, 3, 4], ["4", "3", "2", "1"]])
def test_simulated_and_predicted_levels_can_be_read_as_data(labels):
    nodes = {"p[c]": "Dirichlet([1, 2, 6, 20])", "k[obs]": "Categorical(p)"}
    model = bl.Model(data={"rows": "obs"}, dims={"c": labels, "obs": 400}, model=bl.Graph(nodes=nodes))
    drawn = bl.simulate(model, draws=1, seed=1)
    k = drawn["prior_predictive"]["k"].to_numpy().ravel()
    counts = np.array([np.sum(k == int(label)) for label in labels])
    assert counts.sum() == 400
    assert np.abs(counts / 400 - drawn["prior"]["p"].to_numpy().ravel()).max() < 4 * 0.5 / 20
    found = fitted(nodes, pd.DataFrame({"k": k}), {"c": labels})
    assert found.posterior["p"].mean(("chain", "draw")).to_numpy() == pytest.approx(counts / 400, abs=0.05)
    again = found.predict(kind="draws")["k"].to_numpy()
    assert np.mean(again == int(labels[-1])) == pytest.approx(counts[-1] / 400, abs=0.05)
    words = found.predict(pd.DataFrame({"i": [1.0]}), kind="probabilities")
    assert float(words[f"P(k={labels[-1]})"].iloc[0]) == pytest.approx(counts[-1] / 400, abs=0.05)
