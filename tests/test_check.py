"""``check`` refuses what ``fit`` refuses, in the same words; and a fit that its data do not reach is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError
from bayeslab.fitting import prepare
from tests.refusals import refused

N = 12
TABLE = {
    "y": np.linspace(-1.0, 1.0, N),
    "x": np.arange(N) * 0.5,
    "g": np.arange(N) % 3,
    "count": np.arange(N) % 4,
    "height": np.arange(N) + 150.0,
}
MEAN = {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}


def graph(nodes, **keys) -> bl.Model:
    return bl.Model(model={"family": "graph", "nodes": nodes}, **keys)


def refusal(call, *arguments, **options) -> tuple[type, str, tuple, int] | None:
    try:
        call(*arguments, **options)
    except BayeslabError as error:
        return type(error), str(error), error.path, error.offset
    return None


# Each was seen to pass `check` and to fail in `fit`, or is a sibling of one that was.
BROKEN = {
    "index of a dimension that is not there": graph(
        {"a[g]": "Normal(0, 1)", "s": "HalfNormal(1)", "y[obs_id]": "StudentT(3, a[nowhere], s)"}
    ),
    "scalar node for a column": graph({"m": "Normal(0, 1)", "y": "Normal(m, 1)"}),
    "dimension without a length": graph({"a[nope]": "Normal(0, 1)", "y[obs_id]": "Normal(sum(a), 1)"}),
    "recursion of labels": graph(
        {
            "P[s, t]": "Dirichlet(1)",
            "z[obs_id]": "Categorical(P[previous(z, 1, start=0)])",
            "m[s]": "Normal(0, 1)",
            "y[obs_id]": "Normal(m[z], 1)",
        },
        dims={"s": 2, "t": 2},
    ),
    "matrix for a Dirichlet": graph(
        {"P[s, t]": "Dirichlet([[4, 2], [2, 4]])", "count[obs_id]": "Categorical(P[0])"}, dims={"s": 2, "t": 2}
    ),
    "discrete node that cannot be summed out": graph({"z[obs_id]": "Poisson(3)", "y[obs_id]": "Normal(z, 1)"}),
    "regression without error": bl.Model(model={"family": "regression", "formula": "height ~ count + I(x / 7)"}),
    "graph without error": graph(
        {"a": "Flat()", "b": "Flat()", "s": "HalfNormal(9)", "height[obs_id]": "Normal(a + b * x, s)"}
    ),
    "unknown method": graph(MEAN, inference={"method": "nosuch"}),
    "method that is no word": graph(MEAN, inference={"method": 3}),
    "option out of range": graph(MEAN, inference={"method": "nuts", "target_accept": -0.9}),
    "option out of range of another engine": graph(MEAN, inference={"target_accept": -0.9}),
    "unknown option": graph(MEAN, inference={"target_acept": 0.9}),
    "start of no parameter": graph(MEAN, inference={"method": "nuts", "initvals": {"mm": 1}}),
    "grid of many parameters": graph(
        {"a[obs_id]": "Normal(0, 1)", "y[obs_id]": "Normal(a, 1)"}, inference={"method": "grid"}
    ),
    "flat prior for smc": graph(
        {"m": "Flat()", "y[obs_id]": "Normal(m, 1)"}, inference={"method": "smc"}
    ),
    "no parameters": graph({"y[obs_id]": "Normal(0, 1)"}),
    "no scales": graph(MEAN, inference={"method": "exact", "scales": "maximise"}),
    "engine that does not apply": graph(MEAN, inference={"method": "train"}),
    "misspelt outcome": graph({"m": "Normal(0, 1)", "Y[obs_id]": "Normal(m + x, 1)"}),
    "text for numbers": graph({"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, x['a'])"}),
    "regression without its response": bl.Model(model={"family": "regression", "formula": "z ~ x"}),
    "response of two columns": bl.Model(model={"family": "regression", "formula": "x,y ~ height"}),
    "response that is a list": bl.Model(model={"family": "regression", "formula": "[x] ~ height"}),
    "mixture by train": bl.Model(
        model={"family": "mixture", "columns": ["y"], "components": 2}, inference={"method": "train"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_fit_refuses_check_refuses_in_the_same_words(name, tmp_path):
    model = BROKEN[name]
    told = refusal(bl.check, model, TABLE)
    assert told is not None
    assert told == refusal(prepare, model, TABLE, runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_methods_and_options_are_read_without_data_too():
    model = graph(MEAN, inference={"method": "nuts", "target_accept": -0.9})
    assert refusal(bl.check, model)[1] == refusal(bl.check, model, TABLE)[1]
    assert "nosuch" in refusal(bl.check, graph(MEAN, inference={"method": "nosuch"}))[1]
    assert "target_accept" in refusal(bl.check, graph(MEAN, inference={"target_acept": 0.9}))[1]
    assert refusal(bl.check, graph(MEAN, inference={"method": "nuts", "draws": 50})) is None


def mutated(text: str, rng: random.Random) -> str:
    """A model file with one slip: a letter dropped, doubled or replaced, or a line left out."""
    at = rng.randrange(len(text))
    match rng.randrange(4):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + text[at] + text[at:]
        case 2:
            return text[:at] + rng.choice("aYg0[](),-.1") + text[at + 1 :]
        case _:
            lines = text.splitlines()
            del lines[rng.randrange(len(lines))]
            return "\n".join(lines)


@pytest.mark.slow(why="statistical")
def test_files_with_a_slip_are_refused_by_both_in_the_same_words(tmp_path):
    text = """bayeslab: 1
dims: {k: 2}
model:
  family: graph
  nodes:
    a[g]: Normal(0, 10)
    b[k]: Normal(0, 1)
    y[obs_id]: Normal(a[g] + b[0] * x, 1)
inference: {draws: 20, chains: 2}
"""
    rng, file, refused = random.Random(1), tmp_path / "model.yaml", 0
    for number in range(60):
        file.write_text(mutated(text, rng))
        told = refusal(bl.check, file, TABLE)
        runs = tmp_path / f"runs{number}"
        assert told == refusal(prepare, file, TABLE, runs=runs)
        if told is None and bl.fitting.checked(file, TABLE).engine == "exact":
            assert refusal(bl.fit, file, TABLE, runs=None, progress=False) is None
        refused += told is not None
    assert 20 < refused < 60


# ------------------------------------------------------------------------------ data that enter


@pytest.mark.parametrize("node", ["Y", "Y_"])
def test_a_capital_more_is_told_with_the_column(node):
    with refused("model.unknown-column", "'y'") as told:
        bl.fit(graph({"m": "Normal(0, 1)", f"{node}[obs_id]": "Normal(m + x, 1)"}), TABLE, runs=None, progress=False)
    assert told.value.path[:3] == ("model", "nodes", f"{node}[obs_id]")


def test_no_observed_node_is_an_error_also_without_a_near_name():
    with refused("model.nothing-observed", where="model.nodes.income[obs_id]"):
        bl.check(graph({"m": "Normal(0, 1)", "income[obs_id]": "Normal(m + x, 1)"}), TABLE)


@pytest.mark.parametrize("node", ["hieght", "heigth", "heght", "heightt", "Height", "he_ight"])
def test_a_second_outcome_with_a_slip_is_told(node):
    nodes = MEAN | {"h": "Normal(0, 1)", f"{node}[obs_id]": "Normal(h, 1)"}
    with refused("model.unknown-column", "'height'"):
        bl.check(graph(nodes), TABLE)


def test_a_covariate_written_with_a_capital_is_told():
    with refused("model.unknown-column", "'x'", where="model.nodes.X[obs_id]"):
        bl.check(graph({"X[obs_id]": "Normal(0, 1)", "m": "Normal(0, 1)", "y[obs_id]": "Normal(m * X, 1)"}), TABLE)


@pytest.mark.parametrize(
    "nodes",
    [
        MEAN | {"y_new[obs_id]": "Normal(m, 1)"},  # a replication
        MEAN | {"Y[obs_id]": "Normal(m, 1)"},  # the column is used: Y is something else
        MEAN | {"height2[obs_id]": "Normal(m, 1)"},  # another digit, another thing
        MEAN | {"w[obs_id]": "Normal(m, 1)"},
        {"theta[obs_id]": "Normal(0, 1)", "y[obs_id]": "Normal(theta, 1)"},
    ],
)
def test_nodes_without_data_are_allowed(nodes):
    bl.check(graph(nodes, inference={"method": "exact"}), TABLE)


def test_an_outcome_of_missing_cells_only_is_refused():
    with refused("data.nothing-observed", "'y'"):
        bl.fit(graph(MEAN), TABLE | {"y": np.full(N, np.nan)}, runs=None, progress=False)
    net = bl.Model(
        model={"family": "bayes_net", "variables": {"a": {"states": ["u", "v"]}, "b": {"states": ["u", "v"]}}}
    )
    with refused("data.nothing-observed", "'a'.*'b'"):
        bl.fit(net, {"a": [None] * N, "b": [None] * N}, runs=None, progress=False)


def test_priors_can_still_be_drawn_from():
    drawn = bl.simulate(graph({"m": "Normal(0, 1)", "Y[obs_id]": "Normal(m + x, 1)"}), TABLE, draws=20, seed=1)
    assert drawn["prior"]["m"].shape == (1, 20)


# ----------------------------------------------------------------------------- what check prints


def test_check_shows_observed_columns_of_all_tables_and_the_levels_of_lengths(tmp_path, capsys):
    from bayeslab.cli.check import command

    (tmp_path / "homes.csv").write_text("county,y\na,1.0\nb,2.0\na,0.5\n")
    (tmp_path / "counties.csv").write_text("county,ore\na,0.1\nb,0.9\n")
    file = tmp_path / "model.yaml"
    file.write_text("""bayeslab: 1
data: {table: homes.csv, rows: home, tables: {county: counties.csv}}
dims: {k: 3}
model:
  family: graph
  nodes:
    m: Normal(0, 1)
    b[k]: Normal(0, 1)
    ore[county]: Normal(m, 1)
    y[home]: Normal(ore[county] + b[0], 1)
""")
    command(file)
    shown = capsys.readouterr().out
    assert "3 rows, columns 'county', 'y'; 2 rows of 'county', columns 'ore'" in shown
    assert "observed  ore, y" in shown
    assert "k (3: 0 to 2)" in shown
    assert "exact" in shown


def test_check_says_where_evidence_without_data_is(tmp_path, capsys):
    from bayeslab.cli.check import command

    file = tmp_path / "model.yaml"
    bl.save(graph({"m": "Normal(0, 1)", "e": "Potential(-m ** 4)"}), file)
    command(file)
    assert "none: the evidence is in 'e'" in capsys.readouterr().out


# --------------------------------------------------------------- regressions and learners: refused in plain words

LINE = {"x": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 1.0, 4.0, 3.0]}
SIDES = {"x": np.arange(12.0), "y": np.where(np.arange(12) % 3 == 0, 1, -1)}


def regression(formula, **keys) -> bl.Model:
    return bl.Model(model={"family": "regression", "formula": formula, **keys})


def learner(word, inference=None, **keys) -> bl.Model:
    model = {"family": "learner", "learner": word, "target": "y", **keys}
    return bl.Model(model=model, inference=inference or {})


PLAINLY = {
    "shrinkage of slopes that all have priors": (
        regression("y ~ x", shrinkage="lasso", priors={"b": "Normal(0, 1)"}),
        LINE,
        "every slope has a prior of its own, so that shrinkage: lasso shrinks none: leave out shrinkage, or priors.b",
    ),
    "one fold": (
        learner("knn", {"folds": 1}, task="classification"),
        SIDES,
        "inference.folds: folds are 2 or more, or 0 for none",
    ),
    "sides without a task": (learner("knn"), SIDES, "the target 'y' holds -1 and 1 only: write task"),
    "two other whole numbers": (learner("knn"), SIDES | {"y": SIDES["y"] + 6}, "the target 'y' holds 5 and 7 only"),
    "arrays of different lengths": (
        regression("y ~ x"),
        {"x": np.arange(20.0), "z": np.arange(20.0), "y": np.arange(19.0)},
        "the array 'y' has 19 values, and 'obs_id' has 20, as 'x' does",
    ),
    "classes that are fractions": (
        learner("knn", task="classification"),
        SIDES | {"y": SIDES["y"] + 0.5},
        "column 'y' defines groups or classes, and holds numbers that are not whole (1.5): if these are"
        " names, list it in the data section, text: [y]",
    ),
    "a classifier of a measurement": (
        learner("logistic"),
        SIDES | {"y": np.linspace(0.1, 1, 12)},
        "if it is measured, use a model (a learner",
    ),
    "ordered text": (
        regression("y ~ x", likelihood="ordered"),
        {"x": LINE["x"], "y": ["low", "mid", "high", "low"]},
        "'y' is text, and likelihood: ordered needs the order of its levels, which is not that of the alphabet",
    ),
    "ordered text in a graph": (
        graph({"c[k]": "Ordered(Normal(0, 2))", "y[obs_id]": "OrderedLogistic(0, c)"}, dims={"k": 2}),
        {"y": ["low", "mid", "high", "low"]},
        "'y' is text, and OrderedLogistic needs the order of its levels",
    ),
    "a constant response under default priors": (
        regression("y ~ x + (1 | g)", priors={"b": "Normal(0, 1)"}),
        LINE | {"y": [2.0] * 4, "g": ["a", "a", "b", "b"]},
        "the response 'y' is constant (2), and the default priors of 'Intercept', 'sd_g', 'sigma' are scaled to how",
    ),
}


@pytest.mark.parametrize("case", PLAINLY)
def test_what_is_meant_otherwise_is_refused_plainly(case):
    model, data, message = PLAINLY[case]
    found = refusal(bl.check, model, data)
    assert found is not None and message in found[1]
    assert found == refusal(bl.fit, model, data, runs=None, progress=False)


def test_an_order_that_the_data_give_is_taken():
    import pandas as pd
    import polars as pl

    words, order = ["low", "mid", "high", "low"], ["low", "mid", "high"]
    frames = [
        pd.DataFrame({"x": LINE["x"], "y": pd.Categorical(words, order, ordered=True)}),
        {"x": LINE["x"], "y": pd.Series(pd.Categorical(words, order, ordered=True))},
        pl.DataFrame({"x": LINE["x"], "y": pl.Series(words, dtype=pl.Enum(order))}),
    ]
    for data in frames:
        assert bl.check(regression("y ~ x", likelihood="ordered"), data).labels["y"].tolist() == order
    model = bl.Model(model=regression("y ~ x", likelihood="ordered").model, dims={"y": order})
    assert bl.check(model, {"x": LINE["x"], "y": words}).labels["y"].tolist() == order
    with refused("data.no-level-order", "likelihood.*ordered"):
        bl.check(regression("y ~ x", likelihood="ordered"), {"x": LINE["x"], "y": pd.Categorical(words, order)})


def test_one_row_and_a_constant_response_are_fitted_where_every_prior_is_given():
    """Against the posterior of a normal mean, whose weights are the precisions."""
    priors = {"Intercept": "Normal(0, 3)", "b": "Normal(0, 2)", "sigma": 1}
    one = bl.fit(regression("y ~ x", priors=priors), {"x": [1.0], "y": [2.0]}, runs=None, progress=False, seed=1)
    shown = one.summary()["mean"]
    assert shown["Intercept"] == pytest.approx(2 * 9 / 14, rel=1e-6)
    assert shown["b[x]"] == pytest.approx(2 * 4 / 14, rel=1e-6)
    same = bl.fit(
        regression("y ~ 1", priors={"Intercept": "Normal(0, 3)", "sigma": 1}), {"y": [2.0] * 4}, runs=None, seed=1
    )
    assert same.summary()["mean"]["Intercept"] == pytest.approx(2 * 4 / (4 + 1 / 9), rel=1e-6)


def test_quantities_that_do_not_exist_are_left_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    names = np.where(x + rng.normal(size=40) > 0, "u", "v")
    for word, data, lacking in (
        ("perceptron", {"x": x, "y": names}, "most_updates"),
        ("svm", {"x": np.ones(40), "y": names}, "street_width"),
    ):
        fit = bl.fit(learner(word, {"folds": 0}), data, runs=None, progress=False, seed=1)
        assert lacking not in fit.summary().index and fit.verdict.status == "warn"
    apart = {"x": x, "y": np.where(x > 0, "u", "v")}
    for word, there in (("perceptron", "most_updates"), ("svm", "street_width")):
        fit = bl.fit(learner(word, {"folds": 0}), apart, runs=None, progress=False, seed=1)
        assert np.isfinite(fit.summary()["value"][there])


# ------------------------------------------------------------------------------------ no work before the work


def test_a_check_of_a_mixture_searches_no_start(monkeypatch):
    """A search compiles code, and with many rows takes long; what it would refuse is refused all the same."""
    from bayeslab.families.mixture import density

    def never(*seen, **more):
        raise AssertionError("a search for a start")

    monkeypatch.setattr(density, "fit_mixture", never)
    two = {"family": "mixture", "columns": ["y"], "components": 2}
    assert bl.check(bl.Model(model=two), TABLE, "nuts").dataset.columns.keys() == TABLE.keys()
    with pytest.raises(AssertionError, match="a search for a start"):
        prepare(bl.Model(model=two), TABLE, "nuts")
    many = bl.Model(model=two | {"components": 20})
    refused = refusal(bl.check, many, TABLE, "nuts")
    assert refused is not None and "12 rows cannot support 20 components" in refused[1]
    assert refused == refusal(prepare, many, TABLE, "nuts")


@pytest.mark.parametrize(
    ("nodes", "node"),
    [
        ({"m": "Normal(0, 1)", "y[obs_id]": "Normal(log(0), 1)"}, "y[obs_id]"),
        ({"m": "Normal(0, 1)", "y[obs_id]": "Normal(m - log(0), 1)"}, "y[obs_id]"),
        ({"m": "Normal(0, 1)", "y[obs_id]": "Normal(m * log(x), 1)"}, "y[obs_id]"),
        ({"m": "Normal(0, 1)", "a": "m + log(0)", "y[obs_id]": "Normal(2 * a, 1)"}, "a"),
        ({"m": "Normal(0, 1)", "a": "log(0)", "y[obs_id]": "Normal(m + a, 1)"}, "a"),
        ({"m": "Normal(-log(0), 1)", "y[obs_id]": "Normal(m, 1)"}, "m"),
        ({"m": "Uniform(log(0), 1)", "y[obs_id]": "Normal(m, 1)"}, "m"),
        ({"m": "TruncatedNormal(0, 1, lower=log(0))", "y[obs_id]": "Normal(m, 1)"}, "m"),
        (MEAN | {"p": "Potential(log(0))"}, "p"),
        (MEAN | {"p": "Potential(log(0) - m**2)"}, "p"),
    ],
)
def test_what_is_infinite_whatever_the_parameters_are_is_refused(nodes, node):
    with refused("data.not-finite", where=f"model.nodes.{node}"):
        bl.check(graph(nodes), TABLE)


@pytest.mark.parametrize(
    "mean",
    [
        "exp(m + log(0))",
        "logsumexp([m, log(0)])",
        "where(x > 0, m * log(x), 0)",
        "1 / (m + 9 - exp(log(0)))",
        "maximum(m, log(0))",
    ],
)
def test_a_logarithm_of_zero_that_functions_take_is_none(mean):
    """It is a probability of zero there."""
    assert refusal(bl.check, graph({"m": "Normal(0, 1)", "y[obs_id]": f"Normal({mean}, 1)"}), TABLE) is None


@pytest.mark.parametrize("name", ["mean", "rows", "dof", "scale"])
@pytest.mark.parametrize("value", ["Normal(0, 1)", [], [1, "x"], [[1, 2], [3]], {"a": 1}, True, [1, 2, 3]])
def test_a_prior_of_components_that_is_no_number_is_refused_with_its_place(name, value):
    model = bl.Model(
        model={"family": "mixture", "columns": ["y", "count"], "components": 2, "priors": {"components": {name: value}}}
    )
    with refused("model.wrong-type", f"'{name}' of the prior", where=f"model.priors.components.{name}"):
        bl.check(model, TABLE)


@pytest.mark.parametrize(
    "matrix", ["[[1, 2], [2, 1]]", "[[1, 0.5], [0.2, 1]]", "[[1, 1], [1, 1]]", "[[-1, 0], [0, 1]]"]
)
@pytest.mark.parametrize("word", ["cov", "tau"])
def test_a_known_matrix_that_is_no_covariance(matrix, word):
    nodes = {"b[g]": f"MvNormal(0, {word}={matrix})", "y[obs]": "Normal(b[g], 1)"}
    model = bl.Model(data={"rows": "obs"}, model=bl.Graph(nodes=nodes))
    with refused("model.out-of-range", "symmetric, positive definite"):
        bl.check(model, {"g": ["a", "b", "a"], "y": [0.0, 1.0, 2.0]})


def test_what_check_returns_shows_the_data():
    data = bl.check(bl.Model(model=bl.Regression(formula="y ~ x")), {"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]})
    assert repr(data) == "<bayeslab.Data obs_id (3): 'x', 'y'>"
