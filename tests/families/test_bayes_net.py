"""Declared Bayes nets and data: posteriors by hand, by enumeration, by grids and by NUTS.

The slow twin here writes every completion of every row out and multiplies entries of tables; none
of the package's counting or message passing is used on that side.
"""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal, localcontext
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betaln, expit, gammaln

import bayeslab as bl
from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.families.bayes_net.exact_inference import sd_moments
from bayeslab.families.bayes_net.net import resolved
from bayeslab.fitting import check
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.refusals import refused


def net(variables: dict[str, Any], rows: str = "row", **more: Any) -> bl.Model:
    """A model of this family."""
    inference = more.pop("inference", {})
    spec = bl.BayesNet(variables=variables, **more)
    return bl.Model(name="net", data={"rows": rows}, model=spec, inference=inference, seed=1)


def codes(model: bl.Model, data: Any) -> list[list[int]]:
    return resolved(model, check(model, data)).codes.tolist()


def fitted(model: bl.Model, data: Any, method: str = "exact", **options: Any) -> bl.Fit:
    return bl.fit(model, data, method, progress=False, runs=None, **options)


# --------------------------------------------------------------------------------- the twin


def log_likelihood(
    states: dict[str, int], parents: dict[str, list[str]], tables: dict[str, np.ndarray], rows
) -> np.ndarray:
    """Of each row, a mapping of some variables to codes: a sum over all completions."""
    out = []
    for row in rows:
        total = 0.0
        for each in product(*([row[v]] if v in row else range(n) for v, n in states.items())):
            code = dict(zip(states, each, strict=True))
            total += np.prod([tables[v][tuple(code[p] for p in parents[v])][code[v]] for v in states])
        out.append(np.log(total))
    return np.array(out)


def seen(frame: pd.DataFrame, states: dict[str, list[str]]) -> list[dict[str, int]]:
    """The rows of a table of words, empty cells left out."""
    return [
        {v: own.index(row[v]) for v, own in states.items() if v in row and isinstance(row[v], str)}
        for row in frame.to_dict("records")
    ]


def log_density(model: bl.Model, data: Any):
    """log p(parameters, data) of the graph as a function of the parameters by name; and the graph."""
    graph = bl.to_pymc(model, data)
    compiled = graph.compile_logp(jacobian=False, mode="FAST_COMPILE")

    def value(parameters: dict[str, Any]) -> float:
        point = {}
        for rv in graph.free_RVs:
            given, transform = np.asarray(parameters[rv.name], float), graph.rvs_to_transforms[rv]
            moved = given if transform is None else transform.forward(given, *rv.owner.inputs).eval()
            point[graph.rvs_to_values[rv].name] = moved
        return float(compiled(point))

    return value, graph


def log_dirichlet(rows: np.ndarray, concentration: Any) -> float:
    a = np.broadcast_to(np.asarray(concentration, float), np.shape(rows))
    return float(np.sum(gammaln(a.sum(-1)) - gammaln(a).sum(-1) + ((a - 1) * np.log(rows)).sum(-1)))


# --------------------------------------------------------------------------------- columns to states


def test_columns_of_any_type_become_states():
    model = net({"a": ["no", "yes"], "b": ["0", "1"], "c": ["1", "2.5", "3.0"], "d": ["lo", "hi"], "e": ["x", "y"]})
    data = pd.DataFrame(
        {
            "a": [True, False, True, False],
            "b": [1, 0, 0, 1],
            "c": [2.5, 3, np.nan, 1],
            "d": pd.Categorical(["hi", None, "lo", "hi"], categories=["hi", "lo"]),
            "f": [1, 2, 3, 4],
        }
    )
    assert codes(model, data) == [[1, 1, 1, 1, -1], [0, 0, 2, -1, -1], [1, 0, -1, 0, -1], [0, 1, 0, 1, -1]]


def test_truth_values_and_their_words():
    model = net({"a": ["present", "absent"], "b": ["f", "t"], "c": ["true", "false"]})
    data = {"a": [1, 0, 1], "b": np.array([True, False, True]), "c": ["true", "false", None]}
    assert codes(model, data)[:2] == [[0, 1, 0], [1, 0, 1]]


def test_states_are_those_of_the_model_in_its_order():
    """Whatever the data hold, and in whatever order."""
    model = net({"size": ["small", "large", "huge"]})
    assert codes(model, pd.DataFrame({"size": ["large", "small"]})) == [[1], [0]]
    with refused("data.unknown-state", "'size'.*row 2.*'larg'.*'size'.*'large'"):
        codes(model, {"size": ["small", "larg"]})
    with refused("data.unknown-state", "'3'.*'size'"):
        codes(model, {"size": [3, 3]})


def test_odd_names_from_a_file(tmp_path):
    text = 'straße / n° 1,b\n"None",1\nNA,2\nyes,1\n,2\n'
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    model = net({"straße / n° 1": ["yes", "None", "NA"], "b": {"states": [1, 2], "parents": ["straße / n° 1"]}})
    assert codes(model, tmp_path / "t.csv") == [[1, 0], [2, 1], [0, 0], [-1, 1]]
    complete = pd.DataFrame({"straße / n° 1": ["yes", "None", "NA", "yes"], "b": [1, 2, 1, 1]})
    fit = fitted(model, complete)
    row = "p_b[yes, 1]"
    assert fit.summary().loc[row, "mean"] == pytest.approx(3 / 4)
    assert "p_straße _ n° 1[yes]" in fit.summary().index


@pytest.mark.parametrize("name", ["draw", "chain", "sample", "statistic", "row"])
def test_reserved_names(name):
    data = {name: ["a", "b"], "x": ["a", "b"]} if name != "row" else {"x": ["a", "b"]}
    variables = {name: {"states": ["a", "b"], "table": 0.5}, "x": {"states": ["a", "b"], "parents": [name]}}
    with refused("model.reserved-name", f"'{name}'", where="model.variables"):
        fitted(net(variables), data)


def test_names_that_are_attributes_elsewhere(tmp_path):
    """Of a tree of groups (`depth`), of an array (`values`): they are words like any other."""
    names = ["depth", "values", "name"]
    variables = {v: {"states": ["a", "b"], "parents": names[:k]} for k, v in enumerate(names)}
    data = pd.DataFrame(np.random.default_rng(0).choice(["a", "b"], (20, 3)), columns=names)
    fit = bl.fit(net(variables), data, progress=False, runs=tmp_path)
    again = bl.open(fit.folder)
    pd.testing.assert_frame_equal(again.summary(), fit.summary())
    n = data.groupby(["depth", "values"])["name"].value_counts().unstack(fill_value=0).loc[("a", "b")]
    assert again.summary().loc["p_name[a, b, a]", "mean"] == pytest.approx((n["a"] + 1) / (n.sum() + 2))


def test_colliding_names():
    with refused("model.name-clash", "'p_a_b'"):
        fitted(net({"a/b": ["x", "y"], "a_b": ["x", "y"]}), {"a/b": ["x"], "a_b": ["y"]})
    with refused("model.name-clash", "'strength_x_a_b'"):
        fitted(
            net(
                {
                    "a b": ["no", "yes"],
                    "a/b": ["no", "yes"],
                    "x": {"states": ["no", "yes"], "parents": ["a b", "a/b"], "noisy_or": {}},
                }
            ),
            {"x": ["no"]},
        )
    with refused("model.name-clash", "'x'"):
        fitted(net({"x": {"states": ["a", "b"], "table": "x"}}, parameters={"x": "Beta(1, 1)"}), {"x": ["a"]})


def test_data_without_any_of_the_variables():
    with refused("model.unknown-column", "'sizes'"):
        check(net({"size": ["a", "b"]}), {"sizes": ["a"]})


# --------------------------------------------------------------------------------- files


def test_models_round_trip_through_files(tmp_path):
    variables = {
        "a": {"states": ["yes", "no"], "table": 0.3},
        "b": {
            "states": ["1", "2", "None"],
            "parents": ["a"],
            "table": {"yes": [0.1, 0.2, 0.7], "default": [0.3, 0.3, 0.4]},
        },
        "c": {
            "states": ["no", "yes"],
            "parents": ["a"],
            "noisy_or": {"a": "Beta(2, 1)", "leak": 0.01},
            "absent": {"a": "no"},
        },
        "d": {"states": ["no", "yes"], "parents": ["a", "c"], "function": "xor"},
        "e": {"states": ["lo", "hi"], "parents": ["b"], "logit": {"b": {"2": 1.5}}, "prior": {"pseudocount": 2}},
        "f": {"states": ["x", "y"], "parents": ["a"], "table": {"yes": "th", "no": "1 - th"}},
        "g": {"parents": ["a"], "linear_gaussian": {"intercept": {"yes": 1, "no": 2}, "sd": 1.5}},
        "h": ["p", "q"],
    }
    model = net(variables, parameters={"th": "Beta(1, 1)"}, hidden=["h"], prior=2, learn=["a"])
    bl.save(model, tmp_path / "m.yaml")
    back = bl.load(tmp_path / "m.yaml")
    assert back.digest() == model.digest() and back.to_dict() == model.to_dict()
    bl.save(back, tmp_path / "n.yaml")
    assert (tmp_path / "n.yaml").read_text() == (tmp_path / "m.yaml").read_text()


def test_learning_the_tables_of_a_network_file(tmp_path):
    bl.network(
        net(
            {
                "a": {"states": ["x", "y"], "table": 0.3},
                "b": {"states": ["x", "y"], "parents": ["a"], "table": [0.1, 0.8]},
            }
        )
    ).write(tmp_path / "n.bif")
    start = "bayeslab: 1\nname: n\nmodel:\n  family: bayes_net\n  network: n.bif\n"
    data = pd.DataFrame({"a": list("xxyxy"), "b": list("xyyyx")})
    (tmp_path / "m.yaml").write_text(start)
    with refused("engine.refused.no-closed-form"):
        bl.fit(tmp_path / "m.yaml", data, "exact", runs=None, progress=False)
    for more, learned in (("  learn: all\n", ["p_a", "p_b"]), ("  learn: [b]\n", ["p_b"])):
        (tmp_path / "m.yaml").write_text(start + more)
        fit = bl.fit(tmp_path / "m.yaml", data, runs=None, progress=False)
        assert sorted(map(str, fit.posterior.data_vars)) == learned
        assert fit.summary().loc["p_b[y, x]", "mean"] == pytest.approx((1 + 1) / (2 + 2))
    (tmp_path / "m.yaml").write_text(
        start + "  variables:\n    a: [y, x]\n    b: {states: [x, y], parents: [a], table: {y: 0.8, x: 0.1}}\n"
    )
    fit = bl.fit(tmp_path / "m.yaml", data, runs=None, progress=False)
    assert list(fit.posterior.data_vars) == ["p_a"]
    assert fit.summary().loc["p_a[y]", "mean"] == pytest.approx((2 + 1) / (5 + 2))


# --------------------------------------------------------------------------------- exact

STATES = {"c": ["no", "yes"], "x": ["u", "v", "w"], "y": ["s", "t"]}
CHAIN = {
    "c": STATES["c"],
    "x": {"states": STATES["x"], "parents": ["c"]},
    "y": {"states": STATES["y"], "parents": ["c", "x"]},
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    return pd.DataFrame({v: rng.choice(own, 30) for v, own in STATES.items()})


@pytest.fixture(scope="module")
def fit_of_chain(table):
    return fitted(net(CHAIN), table)


def counts(frame: pd.DataFrame, *names: str) -> np.ndarray:
    out = np.zeros([len(STATES[v]) for v in names])
    for row in frame.to_dict("records"):
        out[tuple(STATES[v].index(row[v]) for v in names)] += 1
    return out


def test_bn_complete_bayes(table):
    """Dirichlet rows: mean (α + n) / (α0 + N); α → 0 gives the counts."""
    for alpha in (1.0, 0.5, 1e-9):
        fit = fitted(net(CHAIN, prior={"pseudocount": alpha}), table)
        exact = fit.data_tree["exact_posterior"]
        for names in (("c",), ("c", "x"), ("c", "x", "y")):
            n = counts(table, *names) + alpha
            found = exact[f"p_{names[-1]}"]
            assert found.dims == ("statistic", *names)
            np.testing.assert_allclose(found.sel(statistic="mean"), n / n.sum(-1, keepdims=True))
            total = n.sum(-1, keepdims=True)
            sd = stats.beta(n, total - n).std()
            np.testing.assert_allclose(found.sel(statistic="sd"), sd, rtol=1e-6, atol=1e-12)
            if alpha >= 0.5:
                np.testing.assert_allclose(found.sel(statistic="q5.5"), stats.beta(n, total - n).ppf(0.055), rtol=1e-6)
    assert fit.method == "exact" and fit.verdict.status == "pass"


def test_bn_complete_ml(table):
    """With a prior that is none the posterior means maximise the likelihood: they are the relative frequencies."""
    fit = fitted(net(CHAIN, prior={"pseudocount": 1e-12}), table)
    found = fit.data_tree["exact_posterior"]["p_x"].sel(statistic="mean").to_numpy()
    n = counts(table, "c", "x")
    np.testing.assert_allclose(found, n / n.sum(1, keepdims=True), atol=1e-10)
    best = (n * np.log(found)).sum()
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = rng.dirichlet(1000 * found.ravel() + 1e-3).reshape(found.shape)
        other /= other.sum(1, keepdims=True)
        assert (n * np.log(np.maximum(other, 1e-300))).sum() <= best


def test_evidence_is_the_chain_of_predictives(table):
    """log p(data) = Σ log p(row | rows before), each by counting; and exact = its closed form."""
    model = net(CHAIN, prior={"equivalent_sample_size": 6})
    found = fitted(model, table).data_tree["exact_posterior"].attrs["log_evidence"]
    total = 0.0
    for i, row in enumerate(table.to_dict("records")):
        before = table.iloc[:i]
        for names in (("c",), ("c", "x"), ("c", "x", "y")):
            n = counts(before, *names) + 6 / np.prod([len(STATES[v]) for v in names])
            place = tuple(STATES[v].index(row[v]) for v in names)
            total += np.log(n[place] / n[place[:-1]].sum())
    assert found == pytest.approx(total)


def test_plate_net_learning(table):
    """The net of parameters and copies: predicting row N + 1 is conditioning the big net (000 fig 20.6)."""
    model = net({"c": STATES["c"], "x": CHAIN["x"]}, prior={"pseudocount": 1})
    for v, s in product(STATES["c"], STATES["x"]):
        both = pd.concat([table[["c", "x"]], pd.DataFrame({"c": [v], "x": [s]})])
        ratio = [fitted(model, t).data_tree["exact_posterior"].attrs["log_evidence"] for t in (both, table[["c", "x"]])]
        asked = bl.network(fitted(model, table[["c", "x"]])).query({"c": v, "x": s})
        assert asked.log_evidence == pytest.approx(ratio[0] - ratio[1])


def test_rows_that_do_not_matter_are_not_counted():
    """A leaf that is missing says nothing; a missing parent of something seen makes the posterior no Dirichlet."""
    variables = {"a": ["n", "y"], "b": {"states": ["n", "y"], "parents": ["a"]}}
    data = pd.DataFrame({"a": ["n", "y", "y"], "b": ["y", None, "n"]})
    fit = fitted(net(variables), data)
    np.testing.assert_allclose(
        fit.data_tree["exact_posterior"]["p_b"].sel(statistic="mean"), [[1 / 3, 2 / 3], [2 / 3, 1 / 3]]
    )
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(betaln(2, 3) + 2 * np.log(1 / 2))
    with refused("engine.refused.no-closed-form"):
        fitted(net(variables), pd.DataFrame({"a": ["n", None, "y"], "b": ["y", "n", "n"]}))
    with refused("engine.refused.no-closed-form", "'a'"):
        fitted(net(variables, hidden=["a"]), data)


def test_evidence_with_known_tables_and_missing_cells():
    """Known tables may have anything missing: only the families that are learned must be seen."""
    variables = {
        "h": {"states": ["0", "1"], "table": [0.3, 0.7]},
        "a": {"states": ["0", "1"], "parents": ["h"], "table": [0.2, 0.9]},
        "b": {"states": ["0", "1"], "parents": ["a"], "table": {"0": "Beta(2, 3)", "1": [0.25, 0.75]}},
    }
    data = pd.DataFrame({"a": [0, 0, 1, 1, 0], "b": [0, 1, 1, 0, np.nan]})
    fit = fitted(net(variables, hidden=["h"]), data)
    np.testing.assert_allclose(fit.data_tree["exact_posterior"]["p_b"].sel(statistic="mean"), [[3 / 7, 4 / 7]])
    p0 = 0.3 * 0.2 + 0.7 * 0.9
    by_hand = 3 * np.log(p0) + 2 * np.log(1 - p0) + np.log(0.75 * 0.25) + betaln(3, 4) - betaln(2, 3)
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(by_hand)
    impossible = {**variables, "a": {"states": ["0", "1"], "parents": ["h"], "table": [0, 0]}}
    with refused("data.probability-zero"):
        fitted(net(impossible, hidden=["h"]), data)


def test_draws_of_the_exact_answer(table, fit_of_chain):
    fit = fit_of_chain
    draws = fit.posterior["p_x"].to_numpy().reshape(-1, 2, 3)
    n = counts(table, "c", "x") + 1
    mean, sd = n / n.sum(1, keepdims=True), stats.beta(n, n.sum(1, keepdims=True) - n).std()
    assert np.all(np.abs(draws.mean(0) - mean) < 4 * sd / np.sqrt(len(draws)))
    assert stats.kstest(draws[:, 1, 2], stats.beta(n[1, 2], n[1].sum() - n[1, 2]).cdf).pvalue > 1e-3


# --------------------------------------------------------------------------------- the graph against the twin


@pytest.mark.slow(why="statistical")
def test_the_graph_of_complete_data_is_the_exact_posterior(table):
    """log p(θ, data) = log p(θ | data) + log p(data), at any θ."""
    model = net(CHAIN, prior={"pseudocount": 0.7})
    value, _ = log_density(model, table)
    evidence = fitted(model, table).data_tree["exact_posterior"].attrs["log_evidence"]
    rng = np.random.default_rng(1)
    for _ in range(3):
        theta = {
            f"p_{v[-1]}": rng.dirichlet(np.ones(len(STATES[v[-1]])), [len(STATES[p]) for p in v[:-1]])
            for v in (("c",), ("c", "x"), ("c", "x", "y"))
        }
        after = sum(
            log_dirichlet(theta[f"p_{v[-1]}"], 0.7 + counts(table, *v)) for v in (("c",), ("c", "x"), ("c", "x", "y"))
        )
        assert value(theta) == pytest.approx(after + evidence)


HIDDEN = {
    "h": {"states": ["a", "b"], "prior": 3},
    "x": {"states": ["u", "v", "w"], "parents": ["h"], "table": {"a": "Dirichlet([2, 1, 3])", "b": [0.1, 0.2, 0.7]}},
    "m": {"states": ["no", "yes"], "parents": ["h"], "table": [0.4, 0.9]},
    "o": {"states": ["no", "yes"], "parents": ["m", "k"], "noisy_or": {"k": "Beta(2, 2)", "leak": None}},
    "k": {"states": ["off", "on"], "table": "th"},
    "l": {"states": ["r", "s", "t"], "parents": ["x", "k"], "logit": {"r": {"x": {"v": 0.5}}, "s": {"intercept": 0.2, "k": "g * th"}}},
    "e": {"states": ["none", "some", "much"], "parents": ["x", "m"], "noisy_max": {"x": {"u": "Dirichlet([1, 2, 3])"}, "m": [0.2, 0.5, 0.3]}, "absent": {"x": "w"}},
    "f": {"states": ["no", "yes"], "parents": ["m", "o"], "function": "and"},
}  # fmt: skip
HIDDEN_PARAMETERS = {"g": "Normal(0, 1)", "th": "Beta(1 + g**2, 2)"}


def hidden_tables(v: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tables of HIDDEN by their formulas."""
    fail_m, fail_k, leak = 1 - v["strength_o_m"], 1 - v["strength_o_k"], 1 - v["leak_o"]
    no = np.array([[leak, leak * fail_k], [leak * fail_m, leak * fail_m * fail_k]])
    score = np.zeros((3, 2, 3))
    for (i, x), (j, k) in product(enumerate("uvw"), enumerate(("off", "on"))):
        # References: the last state of x (none of its names means "not there"), off of k, t of l.
        score[i, j, 0] = (
            v["intercept_l_r"]
            + {"u": v["weight_l_r_x_u"], "v": 0.5, "w": 0}[x]
            + (v["weight_l_r_k"] if k == "on" else 0)
        )
        score[i, j, 1] = (
            0.2
            + {"u": v["weight_l_s_x_u"], "v": v["weight_l_s_x_v"], "w": 0}[x]
            + (v["g"] * v["th"] if k == "on" else 0)
        )
    soft = np.exp(score) / np.exp(score).sum(-1, keepdims=True)
    effects = {"u": v["effect_e"][0], "v": v["effect_e"][1], "w": np.array([1.0, 0, 0])}
    strongest = np.zeros((3, 2, 3))
    for (i, x), j in product(enumerate("uvw"), range(2)):
        of_m = np.array([0.2, 0.5, 0.3]) if j else np.array([1.0, 0, 0])
        for a, b in product(range(3), range(3)):
            strongest[i, j, max(a, b)] += effects[x][a] * of_m[b]
    both = np.zeros((2, 2, 2))
    for m, o in product(range(2), range(2)):
        both[m, o, int(m and o)] = 1
    return {
        "h": v["p_h"],
        "x": np.array([v["p_x"][0], [0.1, 0.2, 0.7]]),
        "m": np.array([[0.4, 0.6], [0.9, 0.1]]),
        "o": np.stack([no, 1 - no], axis=-1),
        "k": np.array([v["th"], 1 - v["th"]]),
        "l": soft,
        "e": strongest,
        "f": both,
    }


def hidden_point(rng: np.random.Generator) -> dict[str, np.ndarray]:
    weights = ("intercept_l_r", "weight_l_r_x_u", "weight_l_r_k", "weight_l_s_x_u", "weight_l_s_x_v")
    return {
        "g": np.array(rng.normal()),
        "th": np.array(rng.beta(2, 2)),
        "p_h": rng.dirichlet([1, 1]),
        "p_x": rng.dirichlet([1, 1, 1], 1),
        "effect_e": rng.dirichlet([1, 1, 1], 2),
        **{name: np.array(rng.beta(2, 2)) for name in ("strength_o_m", "strength_o_k", "leak_o")},
        **{name: np.array(rng.normal()) for name in weights},
    }


@pytest.fixture(scope="module")
def gaps():
    """Rows drawn at some parameters, with cells missing and no column for h."""
    rng = np.random.default_rng(2)
    states = {v: tuple(one["states"]) for v, one in HIDDEN.items()}
    parents = {v: tuple(one.get("parents", ())) for v, one in HIDDEN.items()}
    plain = DiscreteNetwork(states, parents, hidden_tables(hidden_point(rng)))
    drawn = bl.network(plain).sample(25, seed=5).astype(object).drop(columns="h")
    return drawn.mask(rng.random(drawn.shape) < 0.3)


@pytest.fixture(scope="module")
def hidden(gaps):
    model = net(HIDDEN, parameters=HIDDEN_PARAMETERS, hidden=["h"])
    value, graph = log_density(model, gaps)
    return model, value, graph


@pytest.mark.slow(why="statistical")
def test_the_graph_with_everything_in_it_against_enumeration(hidden, gaps):
    """All kinds of distributions, shared parameters, a hidden variable, missing cells: summed out by hand."""
    _, value, graph = hidden
    sizes = {v: len(one["states"]) for v, one in HIDDEN.items()}
    parents = {v: one.get("parents", []) for v, one in HIDDEN.items()}
    rows = seen(gaps, {v: one["states"] for v, one in HIDDEN.items()})
    rng = np.random.default_rng(4)
    for _ in range(3):
        v = hidden_point(rng)
        assert {rv.name for rv in graph.free_RVs} == v.keys()
        prior = log_dirichlet(v["p_h"], 3) + log_dirichlet(v["p_x"], [2, 1, 3])
        prior += log_dirichlet(v["effect_e"][0], [1, 2, 3]) + log_dirichlet(v["effect_e"][1], 1)
        prior += stats.norm.logpdf(v["g"]) + stats.beta.logpdf(v["th"], 1 + v["g"] ** 2, 2)
        prior += stats.beta.logpdf(v["strength_o_k"], 2, 2)
        prior += sum(stats.norm.logpdf(v[n], 0, 2.5) for n in v if n.startswith(("intercept_l", "weight_l")))
        truth = prior + log_likelihood(sizes, parents, hidden_tables(v), rows).sum()
        assert value(v) == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow(why="compiles")
def test_the_gradient_of_the_graph(hidden):
    """Expected counts, through every kind of distribution, against central differences."""
    _, _, graph = hidden
    logp, slope = graph.compile_logp(mode="FAST_COMPILE"), graph.compile_dlogp(mode="FAST_COMPILE")
    rng = np.random.default_rng(6)
    start = graph.initial_point()
    point = {k: np.asarray(x + 0.3 * rng.normal(size=np.shape(x))) for k, x in start.items()}
    found, at = slope(point), 0
    for rv in graph.free_RVs:
        name = graph.rvs_to_values[rv].name
        for i in np.ndindex(*point[name].shape):
            step = np.zeros(point[name].shape)
            step[i] = 1e-5
            up, down = {**point, name: point[name] + step}, {**point, name: point[name] - step}
            assert found[at] == pytest.approx((logp(up) - logp(down)) / 2e-5, rel=1e-5, abs=1e-6)
            at += 1
    assert at == len(found)


def test_pointwise_log_likelihoods_are_those_of_the_rows(hidden, gaps):
    model, _, _ = hidden
    from bayeslab.families import bayes_net

    rng = np.random.default_rng(8)
    points = [hidden_point(rng) for _ in range(3)]
    draws = {name: np.stack([p[name] for p in points]) for name in points[0]}
    ((_, found),) = bayes_net.compile(model, check(model, gaps)).log_likelihoods(draws).values()
    sizes = {v: len(one["states"]) for v, one in HIDDEN.items()}
    parents = {v: one.get("parents", []) for v, one in HIDDEN.items()}
    rows = seen(gaps, {v: one["states"] for v, one in HIDDEN.items()})
    for i, point in enumerate(points):
        np.testing.assert_allclose(found[i], log_likelihood(sizes, parents, hidden_tables(point), rows), rtol=1e-9)


def test_bn_from_hypers():
    """Hyperparameters, parameters and variables in one graph: exactly these nodes and edges."""
    import pymc as pm

    variables = {
        "h": {"states": ["a", "b"], "table": "th"},
        "x": {"states": ["a", "b"], "parents": ["h"], "table": {"a": "th", "b": "ph"}},
        "y": {"states": ["a", "b", "c"], "parents": ["x"]},
    }
    model = net(variables, parameters={"s": "Exponential(1)", "th": "Beta(1 + s, 2)", "ph": "Beta(2, 1 + s)"})
    found = pm.model_to_networkx(bl.to_pymc(model))
    edges = {("s", "th"), ("s", "ph"), ("th", "h"), ("th", "x"), ("ph", "x"), ("h", "x"), ("x", "y"), ("p_y", "y")}
    assert {tuple(edge) for edge in found.edges()} == edges
    assert set(found.nodes) == {"s", "th", "ph", "p_y", "h", "x", "y"}


@pytest.mark.slow(why="statistical")
def test_a_network_becomes_a_graph_node_by_node():
    import pymc as pm

    asked = bl.network(net({k: v for k, v in HIDDEN.items() if k in "mk"} | {
        "h": {"states": ["a", "b"], "table": 0.3},
        "k": {"states": ["off", "on"], "table": 0.6},
        "z": {"states": ["no", "yes"], "parents": ["k", "m"], "table": [[0.1, 0.2], [0.3, 0.9]]},
    }))  # fmt: skip
    found = pm.model_to_networkx(bl.to_pymc(asked.model()))
    assert {tuple(edge) for edge in found.edges()} == {("h", "m"), ("k", "z"), ("m", "z")}
    assert set(found.nodes) == {"h", "m", "k", "z"}
    simulated = bl.simulate(asked.model(), draws=4000, seed=3)
    drawn = {**simulated["prior"].data_vars, **simulated["prior_predictive"].data_vars}
    for v, own in asked.query().marginals.items():
        share = np.bincount(drawn[v].to_numpy().ravel().astype(int), minlength=len(own)) / 4000
        p = np.array(list(own.values()))
        assert np.all(np.abs(share - p) < 4 * np.sqrt(p * (1 - p) / 4000))


# --------------------------------------------------------------------------------- NUTS

# Three parts that know nothing of each other, each with two unknowns: grids of two dimensions are the truth.
PARTS = {
    "a": {"states": ["no", "yes"], "table": 0.4},
    "x": {"states": ["no", "yes"], "parents": ["a"], "noisy_or": {"a": None, "leak": None}},
    "c": {"states": ["no", "yes"], "table": 0.5},
    "y": {"states": ["no", "yes"], "parents": ["c"], "logit": {}},
    "h": {"states": ["no", "yes"], "table": 0.3},
    "z": {"states": ["no", "yes"], "parents": ["h"], "table": {"no": "Beta(9, 3)", "yes": "Beta(2, 6)"}},
}


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(12)
    n = 40
    a, c = rng.random(n) < 0.6, rng.random(n) < 0.5
    x = (rng.random(n) < 0.1) | (a & (rng.random(n) < 0.7))
    y = rng.random(n) < expit(-1 + 2 * c)
    frame = pd.DataFrame({"a": a, "x": x, "c": c, "y": y, "z": rng.random(n) < 0.5})
    words = frame.replace({True: "yes", False: "no"}).astype(object)
    return words.mask((rng.random(words.shape) < 0.3) & (words.columns != "z"))


@pytest.fixture(scope="module")
def sampled(parts):
    return fitted(net(PARTS, hidden=["h"]), parts, "nuts", draws=800, tune=600, chains=4)


def on_grid(first: np.ndarray, second: np.ndarray, log_post: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of the two axes of a grid of equal cells."""
    w = np.exp(log_post - log_post.max())
    w /= w.sum()
    out = []
    for values, axis in ((first, 1), (second, 0)):
        p = w.sum(axis=axis)
        mean = p @ values
        out.append((mean, np.sqrt(p @ (values - mean) ** 2)))
    return np.array(out)[:, 0], np.array(out)[:, 1]


def parted(frame: pd.DataFrame, parent: str, child: str, p_parent: float, given_no, given_yes) -> np.ndarray:
    """Log likelihood of two columns of words with gaps; P(child yes | parent) may be a grid."""
    total = 0.0
    for row in frame[[parent, child]].to_dict("records"):
        value = 0.0
        for state, p, q in (("no", 1 - p_parent, given_no), ("yes", p_parent, given_yes)):
            if row[parent] in (state, None) or row[parent] != row[parent]:
                value = value + p * (q if row[child] == "yes" else 1 - q if row[child] == "no" else 1.0)
        total = total + np.log(value)
    return total


def agrees(fit: bl.Fit, names: list[str], mean: np.ndarray, sd: np.ndarray) -> None:
    rows = fit.summary()
    for name, m, s in zip(names, mean, sd, strict=True):
        assert abs(rows.loc[name, "mean"] - m) < 4 * rows.loc[name, "mcse_mean"], name
        assert rows.loc[name, "sd"] == pytest.approx(s, rel=0.12), name


@pytest.mark.slow(why="compiles")
def test_noisy_or_by_nuts_is_the_grid(sampled, parts):
    grid = (np.arange(400) + 0.5) / 400
    strength, leak = grid[:, None], grid[None, :]
    log_post = parted(parts, "a", "x", 0.6, leak + 0 * strength, 1 - (1 - leak) * (1 - strength))
    agrees(sampled, ["strength_x_a", "leak_x"], *on_grid(grid, grid, log_post))
    assert sampled.verdict.status == "pass", str(sampled.verdict)


@pytest.mark.slow(why="compiles")
def test_logit_by_nuts_is_the_grid(sampled, parts):
    grid = np.linspace(-9, 9, 700)
    intercept, weight = grid[:, None], grid[None, :]
    log_post = stats.norm.logpdf(intercept, 0, 2.5) + stats.norm.logpdf(weight, 0, 2.5)
    log_post = log_post + parted(parts, "c", "y", 0.5, expit(intercept) + 0 * weight, expit(intercept + weight))
    agrees(sampled, ["intercept_y", "weight_y_c"], *on_grid(grid, grid, log_post))


@pytest.mark.slow(why="compiles")
def test_a_hidden_variable_by_nuts_is_the_grid(sampled, parts):
    grid = (np.arange(400) + 0.5) / 400
    no, yes = grid[:, None], grid[None, :]  # P(z = no | h)
    log_post = stats.beta.logpdf(no, 9, 3) + stats.beta.logpdf(yes, 2, 6)
    log_post = log_post + parted(parts.assign(h=None), "h", "z", 0.7, 1 - no + 0 * yes, 1 - yes + 0 * no)
    agrees(sampled, ["p_z[no, no]", "p_z[yes, no]"], *on_grid(grid, grid, log_post))


@pytest.mark.slow(why="compiles")
def test_log_likelihoods_for_loo(sampled, parts):
    """Pointwise values of the fit are those of its rows; LOO runs on them."""
    import arviz as az

    found = sampled.log_likelihood()
    (name,) = found.data_vars
    assert found[name].dims == ("chain", "draw", "row") and found[name].shape[-1] == len(parts)
    point = sampled.posterior.isel(chain=1, draw=7)
    one = bl.network(net({
        **PARTS,
        "x": {**PARTS["x"], "noisy_or": {"a": float(point["strength_x_a"]), "leak": float(point["leak_x"])}},
        "y": {**PARTS["y"], "logit": {"intercept": float(point["intercept_y"]), "c": float(point["weight_y_c"])}},
        "z": {**PARTS["z"], "table": point["p_z"].to_numpy().tolist()},
    }))  # fmt: skip
    np.testing.assert_allclose(
        found[name].isel(chain=1, draw=7), one.query_many(parts, ["h"])["log_evidence"], rtol=1e-9
    )
    assert az.loo(sampled.data_tree).n_data_points == len(parts)


@pytest.mark.slow(why="compiles")
def test_predicting_missing_cells(sampled, parts):
    """P(cell | rest of its row, data): each draw counts by the probability it gives to what is seen of the row."""
    rows = pd.DataFrame(
        {"a": [None, "yes", None], "x": ["yes", None, None], "c": ["no"] * 3, "y": ["no"] * 3, "z": ["no"] * 3}
    )
    found = sampled.predict(rows, kind="probabilities")
    assert list(found.columns[:1]) == ["row"] and "P(h=yes)" in found and "P(c=yes)" not in found
    grid = (np.arange(400) + 0.5) / 400
    strength, leak = grid[:, None], grid[None, :]
    on = 1 - (1 - leak) * (1 - strength)
    w = np.exp(parted(parts, "a", "x", 0.6, leak + 0 * strength, on))
    w /= w.sum()
    np.testing.assert_allclose(
        found["P(a=yes)"][0], 0.6 * (w * on).sum() / (w * (0.6 * on + 0.4 * leak)).sum(), atol=0.015
    )
    np.testing.assert_allclose(found["P(x=yes)"][1], (w * on).sum(), atol=0.015)
    np.testing.assert_allclose(found["P(a=yes)"][2], 0.6, atol=1e-9)


@pytest.mark.slow(why="processes")
def test_a_run_reopened_in_a_fresh_process_predicts_the_same(parts, tmp_path):
    fit = bl.fit(
        net(
            PARTS
            | {
                "z": PARTS["x"] | {"parents": ["h"], "noisy_or": {"h": 0.5}},
                "x": {"states": ["no", "yes"], "parents": ["a"]},
                "y": {"states": ["no", "yes"], "parents": ["c"], "logit": {"intercept": 0, "c": 1}},
            }
        ),
        parts.dropna(),
        "exact",
        progress=False,
        runs=tmp_path,
    )
    rows = parts.drop(columns="x").head(5)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    here = fit.predict(rows, kind="probabilities")
    program = (
        "import sys, bayeslab as bl\n"
        "fit = bl.open(sys.argv[1])\n"
        "fit.predict(sys.argv[2], kind='probabilities').to_csv(sys.argv[3], index=False)\n"
        "print(bl.network(sys.argv[1]).query({'a': 'yes'}, 'x')['x']['yes'].hex())"
    )
    words = [sys.executable, "-c", program, str(fit.folder), str(tmp_path / "rows.csv"), str(tmp_path / "out.csv")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv"), here.reset_index(drop=True), check_dtype=False)
    assert float.fromhex(done.stdout.strip()) == bl.network(fit).query({"a": "yes"}, "x")["x"]["yes"]


# --------------------------------------------------------------------------------- classifiers


def test_classifiers_predict_by_the_chain_rule(table):
    """P(class | attributes, data) = p(data and the new row with this class) / sum over classes."""
    model = net({"y": STATES["y"], "c": STATES["c"], "x": STATES["x"]}, target="y", structure="naive_bayes")
    fit = fitted(model, table)
    new = pd.DataFrame({"c": ["no", "yes", "yes"], "x": ["u", "w", "v"]})
    found = fit.predict(new, kind="probabilities")
    for i, row in enumerate(new.to_dict("records")):
        joint = []
        for y in STATES["y"]:
            both = pd.concat([table, pd.DataFrame([row | {"y": y}])])
            joint.append(fitted(model, both).data_tree["exact_posterior"].attrs["log_evidence"])
        p = np.exp(np.array(joint) - np.max(joint))
        # The tables are the means of 4,000 draws.
        np.testing.assert_allclose(found["P(y=s)"][i], (p / p.sum())[0], atol=0.01)
        asked = bl.network(fit).query(row, "y")["y"]
        np.testing.assert_allclose(list(asked.values()), p / p.sum(), rtol=1e-9)
    assert fit.predict(new.assign(y="t"), kind="probabilities").equals(found)  # the target's column is not used


@pytest.mark.slow(why="statistical")
def test_kinds_of_predictions(table, fit_of_chain):
    model = net({"y": STATES["y"], "c": STATES["c"], "x": STATES["x"]}, target="y", structure="naive_bayes")
    fit = fitted(model, table)
    draws = fit.predict(table.head(3), kind="draws")
    assert set(draws.data_vars) == {"y"} and draws["y"].dims == ("chain", "draw", "row")
    share = draws["y"].to_numpy().mean(axis=(0, 1))
    chances = fit.predict(table.head(3), kind="probabilities")["P(y=t)"].to_numpy()
    np.testing.assert_allclose(share, chances, atol=0.04)
    with refused("data.nothing-to-predict"):
        fit_of_chain.predict(table, kind="probabilities")


def test_tan_has_a_tree_of_attributes(table):
    model = net({"y": STATES["y"], "c": STATES["c"], "x": STATES["x"]}, target="y", structure="tan")
    found = bl.network(fitted(model, table))
    assert found.graph.in_degree("y") == 0 and found.graph.number_of_edges() == 3
    with refused("model.structure-unknown"):
        bl.network(model)
    with refused("model.unknown-column", "'yy'", where="model.variables"):
        check(model, {"yy": ["s"]})


@pytest.mark.slow(why="statistical")
def test_models_are_compared(table, fit_of_chain):
    """By evidence: closed forms; by LOO: the expected log predictive density left one out, by hand."""
    linked = fit_of_chain
    apart = fitted(net(STATES), table)
    found = bl.compare({"linked": linked, "apart": apart}, "evidence", progress=False)
    gap = (
        linked.data_tree["exact_posterior"].attrs["log_evidence"]
        - apart.data_tree["exact_posterior"].attrs["log_evidence"]
    )
    ours = found.table["log_evidence"]
    assert ours["linked"] - ours["apart"] == pytest.approx(gap)
    by_hand = 0.0
    for i in range(len(table)):
        rest, row = table.drop(index=i), table.loc[i]
        for v, own in STATES.items():
            n = counts(rest, v) + 1
            by_hand += np.log(n[own.index(row[v])] / n.sum())
    import arviz as az

    apart.log_likelihood()
    assert az.loo(apart.data_tree).elpd == pytest.approx(by_hand, abs=0.2)


# --------------------------------------------------------------------------------- what the family says


def test_remarks_on_what_is_not_seen(parts):
    from bayeslab.families import bayes_net

    model = net({"a": ["no", "yes"], "x": {"states": ["no", "yes"], "parents": ["a"]}, "q": ["no", "yes"]})
    found = bayes_net.compile(model, check(model, parts)).data_findings()
    assert any("no column 'q'" in message for _, _, _, message, _ in found)
    declared = net({"a": ["no", "yes"], "q": ["no", "yes"]}, hidden=["q"])
    assert not any(
        "no column" in message
        for _, _, _, message, _ in bayes_net.compile(declared, check(declared, parts)).data_findings()
    )


def test_priors_are_shown():
    from bayeslab.families import bayes_net

    model = net(HIDDEN, parameters=HIDDEN_PARAMETERS, hidden=["h"])
    found = bayes_net.compile(model, check(model, {"m": ["no"]})).priors()
    assert found["p_h"] == "Dirichlet([3, 3]) in every row"
    assert found["leak_o"] == "Beta(1, 1)" and found["th"] == "Beta(1 + g**2, 2)"


# --------------------------------------------------------------------------------- continuous variables


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(21)
    sex = rng.choice(["f", "m"], 40)
    height = np.where(sex == "f", 166, 179) + rng.normal(0, 6, 40)
    weight = np.where(sex == "f", -60, -70) + 0.8 * height + rng.normal(0, 8, 40)
    return pd.DataFrame({"sex": sex, "height": height, "weight": weight})


PEOPLE = {
    "sex": ["f", "m"],
    "height": {"parents": ["sex"], "linear_gaussian": {}},
    "weight": {"parents": ["height", "sex"], "linear_gaussian": {}},
}


@pytest.fixture(scope="module")
def fit_of_people(people):
    return fitted(net(PEOPLE), people)


def by_hand(x: np.ndarray, y: np.ndarray, everyone: tuple[np.ndarray, np.ndarray]):
    """Normal-inverse-gamma posterior and evidence of a regression, under the documented prior on centred x."""
    all_x, all_y = everyone
    design = np.column_stack([np.ones(len(y)), x - all_x.mean(axis=0)])
    precision = np.diag([1, *all_x.std(axis=0) ** 2]) / 2.5**2
    mu, a, b = np.array([all_y.mean(), *np.zeros(x.shape[1])]), 1.5, all_y.var() / 100
    after = precision + design.T @ design
    mean = np.linalg.solve(after, precision @ mu + design.T @ y)
    b_after = b + (y @ y + mu @ precision @ mu - mean @ after @ mean) / 2
    a_after = a + len(y) / 2
    evidence = -len(y) / 2 * np.log(2 * np.pi) + (np.linalg.slogdet(precision)[1] - np.linalg.slogdet(after)[1]) / 2
    evidence += a * np.log(b) - a_after * np.log(b_after) + gammaln(a_after) - gammaln(a)
    return mean, after, a_after, b_after, evidence


def test_conditional_linear_gaussians_in_closed_form(people, fit_of_people):
    fit = fit_of_people
    exact = fit.data_tree["exact_posterior"]
    n = people["sex"].value_counts()
    evidence = betaln(n["f"] + 1, n["m"] + 1)
    height, weight = people["height"].to_numpy(), people["weight"].to_numpy()
    for k, s in enumerate(("f", "m")):
        mine = (people["sex"] == s).to_numpy()
        mean, *_, gained = by_hand(np.empty((mine.sum(), 0)), height[mine], (np.empty((40, 0)), height))
        evidence += gained
        assert exact["intercept_height"].sel(statistic="mean").to_numpy()[k] == pytest.approx(mean[0])
        mean, after, a, b, gained = by_hand(height[mine, None], weight[mine], (height[:, None], weight))
        evidence += gained
        slope = exact["slope_weight"]
        assert slope.dims == ("statistic", "sex", "parent_of_weight")
        assert slope.sel(statistic="mean").to_numpy()[k, 0] == pytest.approx(mean[1])
        assert exact["intercept_weight"].sel(statistic="mean").to_numpy()[k] == pytest.approx(
            mean[0] - mean[1] * height.mean()
        )
        t = stats.t(2 * a, mean[1], np.sqrt(b / a * np.linalg.inv(after)[1, 1]))
        assert slope.sel(statistic="sd").to_numpy()[k, 0] == pytest.approx(t.std())
        assert slope.sel(statistic="q5.5").to_numpy()[k, 0] == pytest.approx(t.ppf(0.055))
        sd = stats.invgamma(a, scale=b)
        assert exact["sd_weight"].sel(statistic="q94.5").to_numpy()[k] == pytest.approx(np.sqrt(sd.ppf(0.945)))
    assert exact.attrs["log_evidence"] == pytest.approx(evidence)


def test_the_graph_of_a_mixed_net_is_its_exact_posterior(people):
    """log p(θ, data) - log p(θ | data) is the log evidence, the same at any θ."""
    model = net(PEOPLE)
    value, _ = log_density(model, people)
    evidence = fitted(model, people).data_tree["exact_posterior"].attrs["log_evidence"]
    height, weight, sex = people["height"].to_numpy(), people["weight"].to_numpy(), people["sex"].to_numpy()
    rng = np.random.default_rng(22)
    for _ in range(2):
        theta: dict[str, Any] = {"p_sex": rng.dirichlet([5, 5])}
        n = np.array([(sex == "f").sum(), (sex == "m").sum()])
        after = log_dirichlet(theta["p_sex"], n + 1.0)
        for y, x, name in ((height, np.empty((40, 0)), "height"), (weight, height[:, None], "weight")):
            variance, level, slopes = (
                rng.uniform(20, 90, 2),
                rng.normal(y.mean(), 3, 2),
                rng.normal(0.8, 0.3, (2, x.shape[1])),
            )
            theta |= {f"_variance_{name}": variance, f"_middle_{name}": level}
            if x.shape[1]:
                theta[f"slope_{name}"] = slopes
            for k, s in enumerate(("f", "m")):
                mean, precision, a, b, _ = by_hand(x[sex == s], y[sex == s], (x, y))
                after += stats.invgamma.logpdf(variance[k], a, scale=b)
                after += stats.multivariate_normal.logpdf(
                    [level[k], *slopes[k]], mean, variance[k] * np.linalg.inv(precision)
                )
        assert value(theta) == pytest.approx(after + evidence)


@pytest.mark.slow(why="large")
def test_a_fit_with_continuous_variables_is_asked(people, fit_of_people):
    fit = fit_of_people
    found = bl.network(fit).query({"height": 175})
    assert 0 < found["sex"]["f"] < 1 and 60 < found["weight"].mean < 90
    drawn = fit.predict(people.head(2).assign(weight=np.nan), kind="draws")
    assert drawn["weight"].dims == ("chain", "draw", "row")
    likelihood = fit.log_likelihood()
    (name,) = likelihood.data_vars
    point = {str(n): x.isel(chain=0, draw=0).to_numpy() for n, x in fit.posterior.data_vars.items()}
    row = people.iloc[0]
    k = ["f", "m"].index(row["sex"])
    by_formula = np.log(point["p_sex"][k]) + stats.norm.logpdf(
        row["height"], point["intercept_height"][k], point["sd_height"][k]
    )
    by_formula += stats.norm.logpdf(
        row["weight"], point["intercept_weight"][k] + point["slope_weight"][k, 0] * row["height"], point["sd_weight"][k]
    )
    assert float(likelihood[name].isel(chain=0, draw=0)[0]) == pytest.approx(by_formula)
    with refused("engine.refused.no-closed-form"):
        fitted(net(PEOPLE), people.mask(np.eye(40, 3) == 1))


@pytest.mark.slow(why="compiles")
def test_column_with_missing_sex_is_predicted(people, fit_of_people):
    """P(sex | height, weight, data): which of two Student densities the new row is likelier under."""
    fit = fit_of_people
    new = pd.DataFrame({"height": [172.0, 185.0], "weight": [70.0, 88.0]})
    found = fit.predict(new, kind="probabilities")["P(sex=f)"].to_numpy()
    height, weight = people["height"].to_numpy(), people["weight"].to_numpy()
    for i, row in enumerate(new.to_dict("records")):
        density = []
        for s in ("f", "m"):
            mine = (people["sex"] == s).to_numpy()
            total = np.log(mine.sum() + 1)
            for y, x, all_x, all_y, new_x, new_y in (
                (height[mine], np.empty((mine.sum(), 0)), np.empty((40, 0)), height, [], row["height"]),
                (
                    weight[mine],
                    height[mine, None],
                    height[:, None],
                    weight,
                    [row["height"] - height.mean()],
                    row["weight"],
                ),
            ):
                mean, precision, a, b, _ = by_hand(x, y, (all_x, all_y))
                z = np.array([1.0, *new_x])
                scale = np.sqrt(b / a * (1 + z @ np.linalg.solve(precision, z)))
                total += stats.t.logpdf(new_y, 2 * a, z @ mean, scale)
            density.append(total)
        p = np.exp(np.array(density) - max(density))
        assert found[i] == pytest.approx((p / p.sum())[0], abs=0.03)


# --------------------------------------------------------------------------------- targets of all kinds


def student(x: np.ndarray, y: np.ndarray, new: np.ndarray):
    """The predictive distribution of a conjugate regression at new predictors."""
    mean, precision, a, b, _ = by_hand(x, y, (x, y))
    z = np.array([1.0, *(new - x.mean(axis=0))])
    return stats.t(2 * a, z @ mean, np.sqrt(b / a * (1 + z @ np.linalg.solve(precision, z))))


@pytest.mark.slow(why="statistical")
def test_a_continuous_target_is_predicted_from_its_row(people):
    """A child without children of its own: the Student predictive of a regression; whoever is far out included."""
    variables = {"height": {"linear_gaussian": {}}, "weight": {"parents": ["height"], "linear_gaussian": {}}}
    model = net(variables, target="weight")
    fit = fitted(model, people, draws=600)
    new = pd.DataFrame({"height": [160.0, 172.0, 200.0]})
    found = fit.predict(new)
    for i, x in enumerate(new["height"]):
        truth = student(people[["height"]].to_numpy(), people["weight"].to_numpy(), np.array([x]))
        assert found["mean"][i] == pytest.approx(truth.mean(), abs=4 * truth.std() / np.sqrt(1200))
        assert found["sd"][i] == pytest.approx(truth.std(), rel=0.1)

    with refused("option.not-applicable", "'weight'"):
        fit.predict(new, kind="probabilities")
    assert model.outcomes({"height", "weight"}) == ("weight",)


@pytest.mark.slow(why="statistical")
def test_a_continuous_target_above_what_is_seen(people):
    """Height from weight and sex, or from weight alone: at each draw the conditional of a bivariate normal."""
    model = net(PEOPLE, target="height")
    fit = fitted(model, people, draws=100)
    point = {str(n): x.to_numpy().reshape(-1, *x.shape[2:]) for n, x in fit.posterior.data_vars.items()}
    draws = fit.predict(people.head(1), kind="draws")["height"].to_numpy().ravel()
    k, w = ["f", "m"].index(people["sex"][0]), people["weight"][0]
    level, slope = point["intercept_weight"][:, k], point["slope_weight"][:, k, 0]
    prior, sd = point["intercept_height"][:, k], point["sd_height"][:, k]
    noise = point["sd_weight"][:, k]
    precision = 1 / sd**2 + slope**2 / noise**2
    mean = (prior / sd**2 + slope * (w - level) / noise**2) / precision
    evidence = np.log(point["p_sex"][:, k]) + stats.norm.logpdf(w, level + slope * prior, np.hypot(noise, slope * sd))
    weights = np.exp(evidence - evidence.max())
    expected = weights @ mean / weights.sum()
    assert draws.mean() == pytest.approx(expected, abs=5 * draws.std() / np.sqrt(len(draws)))
    alone = fit.predict(people[["weight"]].head(2), kind="draws")["height"].to_numpy()
    assert alone.std() > draws.std() and np.isfinite(alone).all()


@pytest.mark.slow(why="statistical")
def test_draws_of_a_target_agree_with_its_probabilities(table):
    """Draws for new rows come from p(target | row, data), as probabilities do."""
    model = net({"y": STATES["y"], "c": STATES["c"], "x": STATES["x"]}, target="y", structure="naive_bayes", prior=0.3)
    fit = fitted(model, table.head(6), draws=1000)
    new = pd.DataFrame({"c": ["no", "yes", "yes", None], "x": ["u", "w", None, None]})
    share = fit.predict(new, kind="draws")["y"].to_numpy().mean(axis=(0, 1))
    chances = fit.predict(new, kind="probabilities")["P(y=t)"].to_numpy()
    np.testing.assert_allclose(share, chances, atol=0.04)
    # States that are words have no mean.
    answer = fit.predict(new, "mean")
    assert answer["most_probable"].tolist() == [STATES["y"][int(p > 0.5)] for p in chances]
    np.testing.assert_allclose(answer["probability"], np.maximum(share, 1 - share), atol=0.04)


@pytest.mark.slow(why="statistical")
def test_decisions_and_calibration_use_the_model_s_order_of_states(table):
    """States that are not in alphabetical order: an expected loss is that of the right state."""
    states = {"y": ["t", "s"], "c": ["yes", "no"]}
    model = net({"y": states["y"], "c": {"states": states["c"], "parents": ["y"]}}, target="y")
    fit = fitted(model, table)
    new = pd.DataFrame({"c": ["yes", "no"]})
    chances = fit.predict(new, kind="probabilities")
    loss = {"call t": {"t": 0, "s": 1}, "call s": {"t": 10, "s": 0}}
    found = fit.decide(new, loss)
    np.testing.assert_allclose(found["E[call t]"], chances["P(y=s)"], atol=0.03)
    np.testing.assert_allclose(found["E[call s]"], 10 * chances["P(y=t)"], atol=0.3)
    words = fit.data_tree["observed_data"]["y"].to_numpy()
    assert [states["y"][int(k)] for k in words] == table["y"].tolist()


@pytest.mark.parametrize("a", [2, 30, 101, 102, 1000, 40_000])
def test_moments_of_an_sd_keep_their_digits(a):
    """σ² is inverse gamma (a, b): E σ / √b = √π (2a - 2)! / (4^(a-1) (a-1)!²), in whole numbers and sixty digits."""
    with localcontext(prec=60):
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        choose = Decimal(comb(2 * (a - 1), a - 1)) / Decimal(4) ** (a - 1)
        mean = 3 * choose * pi.sqrt()
        sd = (9 / Decimal(a - 1) - mean**2).sqrt()
    found = sd_moments(NormalInverseGamma(np.zeros(1), np.eye(1), float(a), 9.0))
    assert found == pytest.approx((float(mean), float(sd)), rel=1e-9)


@pytest.mark.parametrize(
    ("own", "code", "match"),
    [
        ({"states": ["a", "b"], "table": [0.3, 0.7]}, "model.conflict", r"^model\.variables\.k\.prior"),
        ({"linear_gaussian": {"sd": 1}}, "model.conflict", r"^model\.variables\.k.*prior"),
    ],
)
def test_a_prior_of_what_is_not_learned_is_refused(own, code, match):
    family = {"family": "bayes_net", "variables": {"k": own | {"prior": 5}, "b": {"states": ["u", "v"]}}}
    with refused(code, match):
        bl.check(bl.Model(model=family), {"k": ["a", "b"], "b": ["u", "v"]})


# --------------------------------------------------------------------------------- rows without a target

GROUPS = {
    "g": ["u", "v"],
    "x": {"parents": ["g"], "linear_gaussian": {}},
    "y": {"parents": ["g", "x"], "linear_gaussian": {}},
}


@pytest.fixture(scope="module")
def grouped():
    """A net of a state and two numbers, learned from so many rows that its parameters are all but known."""
    rng = np.random.default_rng(1)
    g = rng.choice(["u", "v"], 20_000, p=[0.3, 0.7])
    x = rng.normal(np.where(g == "u", 2.0, 0.0), 1.0)
    y = rng.normal(1 + 0.5 * x + 2 * (g == "u"), 0.5)
    table = pd.DataFrame({"g": g, "x": x, "y": y})
    return bl.fit(bl.Model(model=bl.BayesNet(variables=GROUPS)), table, seed=1, progress=False, runs=None)


@pytest.mark.slow(why="statistical")
def test_open_cells_are_predicted_from_the_rest_of_their_row(grouped):
    new = pd.DataFrame({"g": ["u", "v", None, None], "x": [1.0, 2.0, 1.0, np.nan], "y": [np.nan, np.nan, np.nan, 3.0]})
    drawn = grouped.predict(new, kind="draws", seed=2)
    own = {name: drawn[name].stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy() for name in "gxy"}
    size = len(own["g"])
    # What is given stays.
    assert np.all(own["g"][:, :2] == [0, 1]) and np.all(own["x"][:, :3] == [1, 2, 1]) and np.all(own["y"][:, 3] == 3)
    # One open cell: a regression at the row.
    for row, mean in ((0, 1 + 0.5 + 2), (1, 1 + 1.0)):
        assert own["y"][:, row].mean() == pytest.approx(mean, abs=4 * 0.5 / size**0.5 + 0.03)
        assert own["y"][:, row].std() == pytest.approx(0.5, rel=0.05)
    # Two open cells, x = 1: P(u | x) by Bayes, y given the state that was drawn with it.
    u = 0.3 * stats.norm.pdf(1, 2) / (0.3 * stats.norm.pdf(1, 2) + 0.7 * stats.norm.pdf(1, 0))
    in_u = own["g"][:, 2] == 0
    assert in_u.mean() == pytest.approx(u, abs=0.03)
    assert own["y"][in_u, 2].mean() == pytest.approx(3.5, abs=0.08)
    assert own["y"][~in_u, 2].mean() == pytest.approx(1.5, abs=0.08)
    # Two open cells, y = 3: x | y, g is normal; y | g has mean 1 + m / 2 + 2 [u], variance 1 / 4 + 1 / 4.
    heights = {0: 0.3 * stats.norm.pdf(3, 4, 0.5**0.5), 1: 0.7 * stats.norm.pdf(3, 1, 0.5**0.5)}
    in_u = own["g"][:, 3] == 0
    assert in_u.mean() == pytest.approx(heights[0] / (heights[0] + heights[1]), abs=0.03)
    # E(x | y) = m + cov / var (y - mean) = 2 + (1/2) / (1/2) (3 - 4).
    assert own["x"][in_u, 3].mean() == pytest.approx(1.0, abs=0.08)
    assert own["x"][in_u, 3].std() == pytest.approx(0.5**0.5, rel=0.08)


@pytest.mark.slow(why="statistical")
def test_means_are_of_the_open_variables(grouped):
    table = grouped.predict(pd.DataFrame({"g": ["u"], "x": [1.0]}), kind="mean")
    assert "node" not in table and table["mean"][0] == pytest.approx(3.5, abs=0.05)
    with refused("data.nothing-to-predict"):
        grouped.predict(pd.DataFrame({"g": ["u"], "x": [1.0], "y": [0.0]}), kind="mean")


def test_draws_of_states_keep_what_is_given_and_go_together():
    rng = np.random.default_rng(1)
    a = rng.random(4000) < 0.4
    b, c = rng.random(4000) < np.where(a, 0.9, 0.2), rng.random(4000) < np.where(a, 0.8, 0.1)
    table = pd.DataFrame({name: np.where(v, "yes", "no") for name, v in (("a", a), ("b", b), ("c", c))})
    net = {
        "a": ["no", "yes"],
        "b": {"states": ["no", "yes"], "parents": ["a"]},
        "c": {"states": ["no", "yes"], "parents": ["a"]},
    }
    fit = bl.fit(bl.Model(model=bl.BayesNet(variables=net)), table, seed=1, progress=False, runs=None)
    drawn = fit.predict(pd.DataFrame({"a": [None], "b": ["yes"], "c": [None]}), kind="draws", seed=3)
    own = {name: drawn[name].to_numpy().ravel() for name in drawn.data_vars}
    assert set(own) == {"a", "c"}
    p = 0.4 * 0.9 / (0.4 * 0.9 + 0.6 * 0.2)
    assert own["a"].mean() == pytest.approx(p, abs=0.04)
    # The states of a row are drawn together.
    assert own["c"][own["a"] == 1].mean() == pytest.approx(0.8, abs=0.05)
    assert own["c"][own["a"] == 0].mean() == pytest.approx(0.1, abs=0.05)


@pytest.mark.slow(why="statistical")
def test_own_rows_are_completed_from_what_they_say():
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, 3000)
    table = pd.DataFrame({"x": x, "y": 1 + 2 * x + rng.normal(0, 0.5, 3000)})
    table.loc[:29, "y"] = np.nan
    variables = {"x": {"linear_gaussian": {}}, "y": {"parents": ["x"], "linear_gaussian": {}}}
    fit = bl.fit(bl.Model(model=bl.BayesNet(variables=variables)), table, "em", seed=1, progress=False, runs=None)
    found = fit.predict(kind="mean")["mean"].to_numpy()
    np.testing.assert_allclose(found[30:], table["y"][30:])
    np.testing.assert_allclose(found[:30], 1 + 2 * x[:30], atol=0.15)


@pytest.mark.slow(why="statistical")
def test_criteria_of_nets_with_numbers_count_all_variables():
    rng = np.random.default_rng(2)
    g = rng.choice(["u", "v"], 60)
    x = rng.normal(3, 2, 60) + (g == "u")
    y = 1 + 0.5 * x + rng.normal(0, 0.7, 60)
    table = pd.DataFrame({"g": g, "x": x, "y": y})
    fit = bl.fit(bl.Model(model=bl.BayesNet(variables=GROUPS)), table, seed=1, progress=False, runs=None)
    row = bl.compare({"a": fit}, criterion="bic").table.iloc[0]
    highest = 0.0
    for state in "uv":
        own = g == state
        highest += own.sum() * np.log(own.mean()) + stats.norm.logpdf(x[own], x[own].mean(), x[own].std()).sum()
        design = np.column_stack([np.ones(own.sum()), x[own]])
        rest = y[own] - design @ np.linalg.lstsq(design, y[own])[0]
        highest += stats.norm.logpdf(rest, 0, rest.std()).sum()
    assert row["max_log_likelihood"] == pytest.approx(highest, abs=1e-4) and row["n_parameters"] == 11
    table.loc[3, "x"] = np.nan
    gaps = bl.fit(bl.Model(model=bl.BayesNet(variables=GROUPS)), table, "em", seed=1, progress=False, runs=None)
    row = bl.compare({"a": gaps}, criterion="bic").table.iloc[0]
    assert np.isnan(row["max_log_likelihood"]) and np.isnan(row["n_parameters"])


def test_new_data_without_any_variable_are_refused():
    """A table of other columns was answered as if nothing were observed."""
    states = {"states": ["n", "y"]}
    declared = bl.Model(name="m", model=bl.BayesNet(variables={"a": states, "b": {**states, "parents": ["a"]}}))
    fit = bl.fit(declared, {"a": list("nyny"), "b": list("nyyy")}, seed=1, progress=False, runs=None)
    for kind in ("probabilities", "mean"):
        with refused("data.unknown-column", "'a'"):
            fit.predict({"A": ["y"]}, kind)
        assert len(fit.predict({"a": ["y"], "other": [1]}, kind)) == 1
        assert len(fit.predict({"a": [None], "b": ["y"]}, kind)) == 1
