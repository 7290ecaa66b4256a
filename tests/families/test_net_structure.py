"""Bayes nets of unknown structure: what a model file may say, what is wrong with it, and fits of small ones."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.families.bayes_net.structure_spec import unknown
from bayeslab.families.bayes_net.unknown_structure import plan
from bayeslab.language.model_file import dump, schema
from bayeslab.posterior.contract import posterior_of
from bayeslab.structure.exact_posterior import dag_posterior, order_posterior
from tests.refusals import refused

RNG = np.random.default_rng(4)


def chain_of_causes(n_rows=200):
    """a -> b -> c, and d from a and c, in words."""
    a = RNG.random(n_rows) < 0.4
    b = RNG.random(n_rows) < np.where(a, 0.8, 0.3)
    c = RNG.random(n_rows) < np.where(b, 0.7, 0.2)
    d = RNG.random(n_rows) < np.where(a & c, 0.9, 0.3)
    return pd.DataFrame({v: np.where(x, "yes", "no") for v, x in zip("abcd", (a, b, c, d), strict=True)})


TABLE = chain_of_causes()


def written(tmp_path, structure, more="", data="t.csv"):
    (tmp_path / "m.yaml").write_text(
        f"bayeslab: 1\nname: m\ndata: {{table: {data}}}\nmodel:\n  family: bayes_net\n{more}  structure: {structure}\nseed: 1\n"
    )
    return tmp_path / "m.yaml"


def resolved(data, **structure):
    model = bl.Model(model=bl.BayesNet(structure=structure))
    return plan(model, bl.check(model, data))


@pytest.mark.parametrize(("given", "limits"), [({"b": 1}, [3, 1, 3, 3, 3]), ({"b": 4}, [3, 4, 3, 3, 3]), (2, [2] * 5)])
def test_a_limit_of_one_variable_is_not_that_of_the_others(given, limits):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({v: rng.choice(["x", "y"], 40) for v in "abcde"})
    own = resolved(table, score="k2", max_parents=given).table()
    starts = np.asarray(own.pointer)
    each = [range(starts[v], starts[v + 1]) for v in range(5)]
    assert [max(len(own.parents(number)) for number in numbers) for numbers in each] == limits


# --------------------------------------------------------------------------------- what a file says


def test_a_mapping_is_an_unknown_structure(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    model = bl.load(written(tmp_path, "{score: bic, tiers: [[a], [b, c]], max_parents: 2, prior: {a -> b: 0.9}}"))
    assert unknown(model.model) and model.model.structure.score == "bic"
    (tmp_path / "again.yaml").write_text(dump(model))
    assert bl.load(tmp_path / "again.yaml") == model
    assert unknown(bl.load(written(tmp_path, "{}")).model)
    known = bl.Model(
        model=bl.BayesNet(variables={"a": ["x", "y"], "b": ["x", "y"]}, target="a", structure="naive_bayes")
    )
    assert not unknown(known.model)


WRONG = [
    ("{scor: bdeu}", "model.unknown-key", "'scor'.*'score'", "6:21"),
    ("{score: bdue}", "model.unknown-word", "'bdue'.*'bdeu'", "6:22"),
    ("{sampler: ordre}", "model.unknown-word", "'ordre'.*'order'", "6:24"),
    ("{prior: unifrom}", "model.unknown-word", "'unifrom'.*'uniform'", "6:22"),
    ("{prior: {a > b: 0.3}}", "model.not-allowed", "`from -> to`.*'a > b'", "6:22"),
    ("{prior: {a -> b: 1}}", "model.out-of-range", "'a -> b'", "6:22"),
    ("{temperatures: [0.5, 1]}", "model.out-of-range", "temperatures.*0.5, 1", "6:29"),
    ("{required: [[a, b, c]]}", "model.not-allowed", "`from -> to`.*'c'", "6:25"),
    ("{sampler: order, reversal: 0.1}", "model.unknown-option", "order.*'reversal'", "6:41"),
    ("tann", "model.unknown-word", "'tann'.*'tan'", "6:14"),
]


@pytest.mark.parametrize(("structure", "code", "match", "place"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_wrong_is_said_with_its_place(tmp_path, structure, code, match, place):
    with refused(code, match, where=f"{tmp_path / 'm.yaml'}:{place}"):
        bl.load(written(tmp_path, structure))


STATES = "  variables: {a: [yes, no], b: [yes, no], c: [yes, no], d: [yes, no]}\n"
CONTRADICTIONS = [
    ("{required: [[a, b]], forbidden: [[a, b]]}", "model.contradiction", "a -> b.*required.*forbidden", "7:25"),
    ("{required: [[a, b], [b, a]]}", "model.cycle", "a -> b.*b -> a", "7:25"),
    ("{required: [[b, a]], tiers: [[a], [b]]}", "model.contradiction", "b -> a.*tiers.*'b'.*'a'", "7:25"),
    ("{required: [[b, a]], candidates: {a: [c]}}", "model.contradiction", "b -> a.*candidates.*'a'", "7:25"),
    ("{forbidden: [[a, e]]}", "model.unknown-variable", "forbidden.*'e'", "7:26"),
    ("{tiers: [[a], [aa]]}", "model.unknown-variable", "tiers.*'aa'.*'a'", "7:22"),
    ("{prior: {a -> e: 0.9}}", "model.unknown-variable", "prior.*'e'", "7:22"),
    ("{max_parents: {a: -1}}", "model.out-of-range", "max_parents.*-1", "7:28"),
]


@pytest.mark.parametrize(("structure", "code", "match", "place"), CONTRADICTIONS, ids=[c[0] for c in CONTRADICTIONS])
def test_contradictions_are_found_without_data_where_variables_are_declared(tmp_path, structure, code, match, place):
    with refused(code, match, where=f"{tmp_path / 'm.yaml'}:{place}"):
        bl.load(written(tmp_path, structure, STATES))


def test_contradictions_are_found_with_the_data_where_they_are_not(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    with refused("model.unknown-variable", r"m\.yaml:6:26.*'e'"):
        bl.check(written(tmp_path, "{forbidden: [[a, e]]}"))


def test_what_only_a_known_structure_has_is_refused(tmp_path):
    for more, code, match in (
        ("  variables: {a: {states: [x, y], parents: [b]}, b: [x, y]}\n", "model.conflict", "`parents`"),
        ("  variables: {a: {states: [x, y], table: 0.2}, b: [x, y]}\n", "model.conflict", "`table`"),
        ("  variables: {a: [x, y], b: [x, y]}\n  hidden: [b]\n", "model.structure-unknown", "`hidden`"),
        ("  prior: 2\n", "model.incomplete", "`equivalent_sample_size`"),
        ("  parameters: {t: 0.5}\n", "model.structure-unknown", "`parameters`"),
    ):
        with refused(code, match):
            bl.load(written(tmp_path, "{}", more))
    with refused("model.missing-key", "'variables'", where="model"):
        bl.Model(model={"family": "bayes_net", "target": "a"})


def test_the_schema_knows_it():
    jsonschema = pytest.importorskip("jsonschema")
    base = {"bayeslab": 1, "name": "m"}
    check = jsonschema.Draft202012Validator(schema())
    check.validate(base | {"model": {"family": "bayes_net", "structure": {"score": "bic", "max_parents": {"a": 1}}}})
    check.validate(
        base | {"model": {"family": "bayes_net", "variables": {"a": ["x", "y"]}, "target": "a", "structure": "tan"}}
    )
    assert not check.is_valid(base | {"model": {"family": "bayes_net", "structure": {"scor": "bic"}}})
    assert not check.is_valid(base | {"model": {"family": "bayes_net"}})


# --------------------------------------------------------------------------------- with data


def test_the_score_follows_from_the_columns():
    numbers = pd.DataFrame(RNG.normal(size=(50, 3)), columns=["x", "y", "z"])
    assert resolved(TABLE).score.score == "bdeu"
    assert resolved(numbers).score.score == "bge"
    both = numbers.assign(a=TABLE["a"][:50])
    assert resolved(both).score.score == "mixed_bic"
    whole = pd.DataFrame({"x": [0, 1, 2, 1, 0, 2] * 4, "y": [1, 1, 0, 0, 1, 0] * 4})
    found = resolved(whole)
    assert found.score.score == "bdeu" and found.states == {"x": ("0", "1", "2"), "y": ("0", "1")}
    assert resolved(whole, score="bge").score.score == "bge"
    assert resolved(TABLE, equivalent_sample_size=3).score_options == {"equivalent_sample_size": 3}
    assert resolved(TABLE).score_options == {"equivalent_sample_size": 10.0}


def test_declared_states_are_those_of_the_model():
    model = bl.Model(
        model=bl.BayesNet(variables={"c": ["yes", "no", "maybe"], "a": [True, False]}, structure={"score": "k2"})
    )
    data = TABLE.assign(a=(TABLE["a"] == "yes").astype(int))
    found = plan(model, bl.check(model, data))
    assert found.states == {"c": ("yes", "no", "maybe"), "a": ("true", "false")}
    np.testing.assert_array_equal(found.codes[:, 1], (TABLE["a"] == "no").astype(int))
    with refused("data.unknown-state", "'maybe'"):
        bl.check(
            bl.Model(model=bl.BayesNet(variables={"a": ["yes", "no"], "b": ["yes", "no"]}, structure={})),
            TABLE.assign(b=["maybe", *TABLE["b"][1:]]),
        )


BAD = [
    (lambda t: t.assign(b="same"), {}, "data.constant", "'b'"),
    (lambda t: t.assign(b=[f"row {i}" for i in range(len(t))]), {}, "data.too-large", "'b'.*200.*200"),
    (lambda t: t.assign(b=[None, *t["b"][1:]]), {"score": "bic"}, "data.missing", "'b'.*row 1.*'bic'"),
    (lambda t: t.assign(b=[None, *t["b"][1:]]), {"prune": 5}, "data.missing", "'b'.*row 1.*`prune`"),
    (lambda t: t.assign(b=RNG.normal(size=len(t))), {"score": "bdeu"}, "data.not-states", "'b'.*'bdeu'"),
    (lambda t: t.assign(b=[np.inf, *range(1, len(t))]), {}, "data.not-finite", "'b', row 1"),
    (lambda t: t, {"score": "bge"}, "data.not-numbers", r"^model\.structure\.score.*'[a-e]'.*'bge'"),
    (lambda t: t[["a"]], {}, "data.too-few", "columns"),
    (lambda t: pd.DataFrame({"x": [1.5] * 9, "y": RNG.normal(size=9)}), {}, "data.constant", "'x'"),
    (
        lambda t: t,
        {"score": "bic", "equivalent_sample_size": 2},
        "option.unknown-option",
        r"^model\.structure\.equivalent_sample_size.*'bic'",
    ),
    (lambda t: t, {"required": [["a", "e"]]}, "model.unknown-variable", r"^model\.structure\.required.*'e'"),
]


@pytest.mark.parametrize("case", BAD, ids=[b[2] for b in BAD])
def test_bad_data_are_named_in_one_line(case):
    change, structure, code, match = case
    with refused(code, match):
        resolved(change(TABLE), **structure).score  # noqa: B018 - options of the score are read by it


def test_too_many_variables_for_memory_or_for_sums_are_refused_with_numbers():
    wide = pd.DataFrame({f"v{i}": RNG.integers(0, 2, 60) for i in range(400)})
    with refused("engine.refused.too-costly", "max_parents.*4"):
        resolved(wide, max_parents=4).table()
    model = bl.Model(model=bl.BayesNet(structure={}))
    with refused("engine.refused.no-closed-form", r"exact.*40.*1e\+24"):
        bl.fit(model, wide.iloc[:, :40], method="exact", progress=False, runs=None)


def test_engines_that_need_a_structure_say_so():
    model = bl.Model(model=bl.BayesNet(structure={}))
    for method, code in {"nuts": "structure-unknown", "map": "structure-unknown", "em": "not-suited"}.items():
        with refused(f"engine.refused.{code}", "structure"):
            bl.fit(model, TABLE, method=method, progress=False, runs=None)
    known = bl.Model(model=bl.BayesNet(variables={"a": ["yes", "no"]}))
    with refused("engine.refused.nothing-to-fit", "structure"):
        bl.fit(known, TABLE, method="structure", progress=False, runs=None)
    with refused("option.unknown-option", "'draws'", where="inference.drawz"):
        bl.fit(model, TABLE, method="structure", drawz=10, progress=False, runs=None)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("n_rows", [60, 200, 3000])
def test_whole_numbers_of_many_values_are_measurements(kind, n_rows):
    rng = np.random.default_rng(1)
    age = rng.normal(50, 12, n_rows)
    table = pd.DataFrame({"age": age, "pressure": 80 + age + rng.normal(0, 9, n_rows)}).round().astype(kind)
    found = resolved(table)
    assert found.word == "bge" and "'age', 'pressure': whole, of more than 20 different values" in found.why
    fit = bl.fit(bl.Model(model=bl.BayesNet(structure={})), table, runs=None, progress=False)
    assert fit.structures.edges().adjacent.min() > 0.999 and fit.verdict.status == "pass"
    assert bl.learn(table).graph.number_of_edges() == 1
    words = table.assign(sex=np.where(rng.random(n_rows) < 0.5, "f", "m"))
    assert resolved(words).word == bl.learn(words).criterion == "mixed_bic"


def test_whole_numbers_as_states_and_names_of_rows_are_told_what_to_do():
    table = pd.DataFrame({"age": RNG.permutation(np.repeat(np.arange(20, 60), 3)), "yes": np.tile([0, 1], 60)})
    with_states = resolved(table, score="bdeu")
    assert any("take it as measured: `score: bge`" in remark for remark in with_states.remarks)
    with refused("data.too-large", "'age'.*120.*`score: bge`"):
        resolved(table.assign(age=np.arange(120) * 7), score="bdeu")
    with refused("data.too-large", "'id'.*120"):
        resolved(table.assign(age=0, id=RNG.permutation(120) + 1).drop(columns="age"))


@pytest.mark.parametrize("edge", ["a -> b", "a->b", ["a", "b"]])
def test_edges_are_written_with_an_arrow_or_as_pairs(tmp_path, edge):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    model = bl.load(written(tmp_path, json.dumps({"required": [edge], "forbidden": ["c -> d", ["d", "c"]]}))).model
    known = plan(bl.Model(model=model), bl.check(bl.Model(model=model), TABLE)).constraints
    assert known.required == {("a", "b")} and known.forbidden == {("c", "d"), ("d", "c")}
    assert bl.learn(TABLE, required=[edge]).graph.has_edge("a", "b")


# --------------------------------------------------------------------------------- fits


@pytest.mark.parametrize("units", [(1e3, 1.0, 0.05), (1e150, 1e-150, 1e-3)])
@pytest.mark.parametrize("score", ["bge", "gaussian_bic"])
def test_edges_of_numbers_do_not_depend_on_their_units(score, units):
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    y = 0.5 * x + rng.normal(size=80)
    table = pd.DataFrame({"x": x, "y": y, "z": y + 2 * rng.normal(size=80)})
    model = bl.Model(model=bl.BayesNet(structure={"score": score}))
    plain, moved = (
        bl.fit(model, t, seed=1, progress=False, runs=None).structures
        for t in (table, (table + np.array([0, 5, -2])) * np.array(units))
    )
    np.testing.assert_allclose(moved.edge_probability, plain.edge_probability, rtol=0, atol=1e-9)
    assert 0.1 < plain.edge_probability.loc["x", "y"] < 0.9


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("sampler", ["structure", "order", "partition"])
def test_edges_of_a_fit_are_those_of_exact_sums(sampler):
    model = bl.Model(model=bl.BayesNet(structure={"sampler": sampler, "equivalent_sample_size": 1}))
    fit = bl.fit(model, TABLE, method="structure", draws=3000, tune=100, thin=40, chains=2, cores=1, seed=2,
                 progress=False, runs=None)  # fmt: skip
    table = plan(model, fit.data).table()
    exact = (order_posterior(table) if sampler == "order" else dag_posterior(table)).edges
    edge = fit.posterior["edge"].to_numpy()
    assert edge.shape == (2, 3000, 4, 4) and fit.posterior.attrs["draws_of"] == (
        "orders" if sampler == "order" else "dags"
    )
    summary = fit.summary()
    for i, u in enumerate("abcd"):
        for j, v in enumerate("abcd"):
            if i == j:
                assert not edge[:, :, i, j].any()
                continue
            error = summary["mcse_mean"].get(f"edge[{u}, {v}]", 0.0)
            assert error < 0.02
            assert abs(edge[:, :, i, j].mean() - exact[i, j]) < max(4.5 * error, 1e-3)
    # Scores and numbers of edges are those of the drawn graphs.
    one = fit.posterior.to_dataset().isel(chain=1, draw=17)
    assert int(one["n_edges"]) == int(one["edge"].sum())
    local = fit.data_tree["parent_sets"]["local_score"].to_numpy()[one["parents"].to_numpy()]
    assert float(one["score"]) == pytest.approx(local.sum(), abs=1e-9)


@pytest.mark.slow(why="compiles")
def test_a_model_without_a_file_is_fitted_and_opened_again(tmp_path):
    model = bl.Model(name="causes", model=bl.BayesNet(structure={"forbidden": [["a", "d"]], "exchange_every": 50}))
    fit = bl.fit(model, TABLE, method="structure", draws=50, tune=10, thin=20, cores=1, seed=2, progress=False,
                 runs=tmp_path)  # fmt: skip
    again = bl.open(tmp_path / "causes")
    np.testing.assert_array_equal(again.posterior["parents"], fit.posterior["parents"])
    assert again.verdict == fit.verdict and again.summary().equals(fit.summary())
    assert not fit.posterior["edge"].sel(source="a", target="d").any()
    stats = fit.data_tree["sample_stats"].attrs
    assert stats["steps_per_draw"] == 20 and 0 < stats["acceptance_edge"] < 1 and "acceptance_exchange" in stats
    assert (
        fit.posterior.attrs["score"] == "bdeu" and fit.posterior.attrs["score_options_equivalent_sample_size"] == 10.0
    )
    assert "image/svg" in fit._repr_html_()
    progress = json.loads((tmp_path / "causes" / "progress.json").read_text())
    assert [chain["done"] for chain in progress["chains"]] == [60] * 4


@pytest.mark.slow(why="statistical")
def test_longer_is_as_if_asked_for_at_once(tmp_path):
    model = bl.Model(name="m", model=bl.BayesNet(structure={}))
    common = {"method": "structure", "tune": 20, "thin": 30, "cores": 1, "seed": 2, "progress": False, "segment": 16}
    once = bl.fit(model, TABLE, draws=90, runs=None, **common)
    bl.fit(model, TABLE, draws=40, runs=tmp_path, **common)
    longer = bl.resume(tmp_path / "m", draws="+50", progress=False)
    np.testing.assert_array_equal(longer.posterior["parents"], once.posterior["parents"])
    assert longer.info["options"]["draws"] == 90 and bl.open(tmp_path / "m").posterior.sizes["draw"] == 90
    with refused("option.out-of-range", "90 draws"):
        bl.resume(tmp_path / "m", draws=10)
    with refused("option.wrong-type", r"'\+x'"):
        bl.resume(tmp_path / "m", draws="+x")


def test_auto_sums_over_few_variables_and_samples_many():
    from bayeslab.engines import auto

    model = bl.Model(model=bl.BayesNet(structure={}))
    assert auto.choose(posterior_of(model, bl.check(model, TABLE)))[0] == "exact"
    wide = pd.DataFrame({f"v{i}": RNG.integers(0, 2, 60) for i in range(18)})
    word, why = auto.choose(posterior_of(model, bl.check(model, wide)))
    assert word == "structure" and "18 variables" in why
