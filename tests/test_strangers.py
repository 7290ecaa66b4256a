"""What strangers wrote into models and tables: each is refused in one line by check and fit alike, or read as meant."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import ModelError
from tests.refusals import refused

TABLE = pd.DataFrame({"y": [1.0, 2, 3, 4, 2, 1], "x": [1.0, 2, 3, 4, 5, 7], "g": list("uvuvuv")})
DATED = TABLE.assign(day=pd.date_range("2020-01-01", periods=6))


def graph(**nodes):
    return bl.Model(model={"family": "graph", "nodes": {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a, 1)"} | nodes})


def regression(formula="y ~ x", **keys):
    return bl.Model(model={"family": "regression", "formula": formula} | keys)


def fit(model, data):
    return bl.fit(model, data, runs=None, progress=False, draws=20, chains=2, seed=1)


@pytest.fixture(params=[bl.check, fit], ids=["check", "fit"])
def entry(request):
    return request.param


def section(family, **keys):
    return bl.Model(model={"family": family} | keys)


WRONG_PRIORS = {
    "slope": (regression(priors={"x": "Normal(0, -1)"}), r"priors\.x: Normal.*sigma.*-1$"),
    "slope by name": (regression(priors={"x": "StudentT(nu=-3, mu=0, sigma=1)"}), r"priors\.x: StudentT.*nu.*-3$"),
    "sigma": (regression(priors={"sigma": "Uniform(2, 1)"}), r"priors\.sigma: Uniform.*lower.*upper.*2.*1$"),
    "group sd": (regression("y ~ x + (1 | g)", priors={"sd_g": "Gamma(0, 1)"}), r"priors\.sd_g: Gamma.*alpha.*0$"),
    "length scale": (
        section("gaussian_process", target="y", kernel="ExpQuad(x, lengthscale=l)", priors={"l": "Gamma(-2, 1)"}),
        r"priors\.l: Gamma.*alpha.*-2$",
    ),
    "components": (
        section("mixture", columns=["y"], components=2, priors={"mean": "Normal(0, -5)"}),
        r"priors\.mean: Normal.*sigma.*-5$",
    ),
    "emission": (
        section("hmm", columns=["y"], states=2, parameters={"mean": "Normal(0, -1)"}),
        r"mean: Normal.*sigma.*-1$",
    ),
    "noise": (
        section("latent_features", columns=["y", "x"], kind="binary", features=1, priors={"noise": "Gamma(0, 1)"}),
        r"priors\.noise: Gamma.*alpha.*0$",
    ),
    "noisy or": (
        section(
            "bayes_net",
            variables={"g": ["u", "no"], "h": {"states": ["v", "no"], "parents": ["g"], "noisy_or": {"g": "Beta(-1, 1)"}}},
        ),
        r"variables\.h\.noisy_or\.g: Beta.*alpha.*-1$",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_PRIORS)
def test_written_priors_outside_their_domain(entry, name):
    model, match = WRONG_PRIORS[name]
    with refused("model.out-of-range", match) as caught:
        entry(model, TABLE.assign(g=list("uuuuuu")))
    assert caught.value.path[0] == "model"


@pytest.mark.parametrize("node", ["Flat()", "HalfFlat()"])
def test_improper_prior_without_data(entry, node):
    with refused("model.improper", where="model.nodes.m"):
        entry(graph(m=node, k="2 * m"), TABLE)


def test_improper_prior_with_data_or_a_potential():
    bl.check(graph(m="Flat()", **{"x[obs_id]": "Normal(exp(m), 1)"}), TABLE)
    bl.check(graph(m="Flat()", p="Potential(-m ** 2)"), TABLE)


@pytest.mark.parametrize("response", ["1", "0", "-1", "2*3", "log(2)"])
def test_response_without_a_column(entry, response):
    with refused("model.syntax", where="model.formula"):
        entry(regression(f"{response} ~ x"), TABLE)


@pytest.mark.parametrize(
    "node",
    ["a * 'b'", "'a' + 1", "'a' * 10**9", "'a'", "-'a'", "exp('a')", "['u', 'v']", "where(a > 0, 'b', 1)",
     "a < 'b'", "'u' == 'u'"],
)  # fmt: skip
def test_label_that_is_compared_with_nothing(entry, node):
    with pytest.raises(ModelError, match="label") as caught:
        entry(graph(m=node), TABLE)
    assert (caught.value.code, caught.value.path[:3]) in [
        ("model.misplaced", ("model", "nodes", "m")),
        ("model.syntax", ("model", "nodes", "m")),
    ]


def test_labels_that_mean_something():
    model = bl.Model(
        model={
            "family": "graph",
            "nodes": {"a[g]": "Normal(0, 1)", "d": "a['u'] - a[\"v\"]", "y[obs_id]": "Normal(a[g] + (g == 'u'), 1)"},
        }
    )
    bl.check(model, TABLE)


# ---------------------------------------------------------------------------------- tables


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("control", ["\0", "\x07", "\x1b", "\x1f", "\x7f"])
def test_control_characters_in_a_table(tmp_path, control):
    path = written(tmp_path, f"y,x\n1,2\n3,{control}\n")
    with refused("data.not-text", r"t\.csv:3:3"):
        bl.check(regression(), path)


def test_nul_in_a_dataframe():
    with refused("data.not-text", "'g'.*row 6"):
        bl.check(regression("y ~ g"), TABLE.assign(g=[*"uvuvu", "v\0"]))


SEMICOLONS = 'y;x;"a, b";day\n1,5;-2;u,v;02.03.2024\n2,5;3;"u;v";03.03.2024\n4;,5;w;04.03.2024\n1;NA;w;05.03.2024\n'


@pytest.mark.parametrize(
    ("cells", "doubted"),
    [
        (["1.000", "2.500", "350"], True),
        (["−1.250", "2.000", "NA"], True),
        (["0.125", "2.000", "3.500"], False),
        (["1.000", "2.5", "3"], False),
        (["1", "2", "3"], False),
    ],
)
def test_points_that_may_separate_thousands_are_reported(tmp_path, cells, doubted):
    """Spreadsheets of countries with decimal commas write 1000 as 1.000, and put semicolons between cells."""
    rows = [f"{cell};{k}" for k, cell in enumerate(cells, start=1)]
    bound = bl.check(regression(), written(tmp_path, "\n".join(["x;y", *rows])))
    doubts = [message for key, *_, message, _ in bound.remarks() if key == "thousands"]
    assert len(doubts) == doubted and all("column 'x'" in message for message in doubts)


def test_semicolons_and_decimal_commas(tmp_path):
    bound = bl.check(regression(), written(tmp_path, SEMICOLONS))
    columns = bound.dataset.columns
    assert columns["y"].values.tolist() == [1.5, 2.5, 4.0, 1.0]
    assert np.array_equal(columns["x"].values, [-2, 3, 0.5, np.nan], equal_nan=True)
    assert columns["a_b"].values.tolist() == ["u,v", "u;v", "w", "w"]
    (note,) = bound.dataset.notes
    assert note.endswith("read with ';' between the cells and decimal commas, in 'x', 'y'")


@pytest.mark.parametrize(
    ("text", "name", "note"),
    [
        ("y;x\n1.5;2\n3;4\n", "t.csv", "';' between the cells"),
        ("y\tx\n1.5\t2\n3\t4\n", "t.csv", "tabs between the cells"),
        ("y,x\n1.5,2\n3,4\n", "t.tsv", "',' between the cells"),
        ("y,x\n1.5,2\n3,4\n", "t.csv", None),
        ('y,x,"a;b"\n1.5,2,p;q\n3,4,r;s\n', "t.csv", None),  # a table by either letter: the usual one
    ],
)
def test_letter_between_the_cells(tmp_path, text, name, note):
    bound = bl.check(regression(), written(tmp_path, text, name))
    assert bound.dataset.columns["y"].values.tolist() == [1.5, 3]
    assert bound.dataset.columns["x"].values.tolist() == [2, 4]
    assert note in bound.dataset.notes[0] if note else bound.dataset.notes == ()


def test_column_without_a_name(tmp_path):
    bound = bl.check(regression(), written(tmp_path, ",y,x\n0,1.5,2\n1,3,4\n"))
    assert bound.dataset.notes[0].endswith("t.csv: the column without a name is left out")


def test_points_and_commas_within_numbers(tmp_path):
    with refused("data.odd-cell", r"'x'.*row 2.*'1\.234'.*'y'"):
        bl.check(regression(), written(tmp_path, "y;x\n1,5;2\n2,5;1.234\n"))


def test_new_rows_with_semicolons(tmp_path):
    fitted = fit(regression(), TABLE)
    new = written(tmp_path, "x;unused\n1,5;u\n2;v\n")
    assert np.array_equal(fitted.predict(new)["mean"], fitted.predict({"x": [1.5, 2.0]})["mean"])


# ------------------------------------------------------------------- columns that nothing can use


@pytest.mark.parametrize("odd", [DATED, TABLE.assign(day=[b"a"] * 6), TABLE.assign(day=["a", 1, 2, 3, 4, 5])])
def test_unused_column_of_dates(odd):
    model = regression()
    whole, without = fit(model, odd), fit(model, TABLE)
    assert np.array_equal(whole.posterior["b"], without.posterior["b"])
    bl.to_pymc(model, odd)
    bl.estimator(model).fit(odd[["x", "day"]], odd["y"]).predict(odd[["x", "day"]])
    fit(model, {name: odd[name].to_numpy() for name in odd})


@pytest.mark.parametrize(
    "model",
    [
        regression("y ~ day"),
        regression("day ~ x"),
        regression("y ~ x + (1 | day)"),
        graph(b="Normal(mean(day), 1)"),
        bl.Model(model={"family": "mixture", "columns": ["day"], "components": 2}),
        bl.Model(model={"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(day)"}),
        bl.Model(model={"family": "hmm", "columns": ["y"], "states": 2, "time": "day"}),
        bl.Model(model={"family": "learner", "learner": "linear", "target": "y", "inputs": ["day"]}),
    ],
)
def test_used_column_of_dates(entry, model):
    with refused("data.odd-cell", "'day'.*Timestamp.*row 1"):
        entry(model, DATED)


def test_column_that_was_left_out_is_named(capsys):
    from bayeslab.data.binding import describe

    assert "left out, of no use to a model: 'day'" in describe(bl.check(regression(), DATED))
