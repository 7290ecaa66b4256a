"""A network as a user meets it, from every source; answers against the joint distribution written out here."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.networks import decisions
from tests.refusals import refused

# Confounded: cloudy -> sprinkler, rain -> wet. Names and states that files and YAML could trip over.
STATES = {
    "cloudy": ("yes", "no"),
    "sprinkler": ("1", "2"),
    "regen / pluie": ("None", "étroit", "x=y"),
    "wet": ("on", "off"),
}
PARENTS = {"cloudy": (), "sprinkler": ("cloudy",), "regen / pluie": ("cloudy",), "wet": ("regen / pluie", "sprinkler")}
TABLES = {
    "cloudy": np.array([0.4, 0.6]),
    "sprinkler": np.array([[0.1, 0.9], [0.5, 0.5]]),
    "regen / pluie": np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
    "wet": np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.95, 0.05], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]),
}
PLAIN = DiscreteNetwork(STATES, PARENTS, TABLES, "garden")
# Axes: cloudy, sprinkler, rain, wet.
JOINT = np.einsum("c,cs,cr,rsw->csrw", *TABLES.values())
AXES = {v: k for k, v in enumerate(STATES)}


def marginal(joint: np.ndarray, *names: str) -> np.ndarray:
    """Normalised, axes in the order of the names."""
    out = joint.sum(axis=tuple(k for v, k in AXES.items() if v not in names))
    order = [sorted(names, key=AXES.__getitem__).index(v) for v in names]
    return np.transpose(out, order) / out.sum()


def weighted(joint: np.ndarray, variable: str, weights: list[float]) -> np.ndarray:
    shape = [1] * joint.ndim
    shape[AXES[variable]] = -1
    return joint * np.reshape(weights, shape)


@pytest.fixture(scope="module")
def garden():
    return bl.network(PLAIN)


def same(found, joint) -> None:
    for v, own in found.marginals.items():
        np.testing.assert_allclose([own[s] for s in STATES[v]], marginal(joint, v), atol=1e-12)


# --------------------------------------------------------------------------------- sources


@pytest.mark.parametrize("ending", ["bif", "xmlbif", "xdsl", "net", "yaml"])
def test_every_file_gives_the_same_network(garden, tmp_path, ending):
    file = tmp_path / f"garden.{ending}"
    if ending == "yaml":
        garden.save(file)
    else:
        garden.write(file)
    back = bl.network(file)
    names = dict(zip(back.states, STATES, strict=True))  # some formats have no spaces in names
    assert list(back.states.values()) == [STATES[v] for v in names.values()] or ending in ("xdsl", "net")
    for v, own in names.items():
        np.testing.assert_allclose(back.plain.tables[v], TABLES[own], atol=1e-15)
        assert [names[p] for p in back.plain.parents[v]] == list(PARENTS[own])


def test_model_files_keep_odd_names_exactly(garden, tmp_path):
    garden.save(tmp_path / "a.yaml")
    back = bl.network(tmp_path / "a.yaml")
    assert back.states == STATES and back.plain.parents == PARENTS
    assert bl.load(tmp_path / "a.yaml").digest() == garden.model().digest()
    for v in STATES:
        np.testing.assert_array_equal(back.plain.tables[v], TABLES[v])


def test_models_plain_data_and_networks_are_sources(garden):
    assert bl.network(garden) is garden
    assert bl.network(garden.model()).states == STATES
    undirected = bl.network(FactorGraph.of(PLAIN))
    same(undirected.query({"wet": "on"}), weighted(JOINT, "wet", [1, 0]))
    assert isinstance(undirected.graph, nx.Graph) and not undirected.graph.is_directed()
    with refused("model.wrong-type", "int$"):
        bl.network(3)
    with refused("model.other-family"):
        bl.network(bl.Model(model=bl.Graph(nodes={"a": "Normal(0, 1)"})))


def test_a_model_with_unknown_tables_is_no_network(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "bayeslab: 1\nmodel:\n  family: bayes_net\n  variables:\n    a: {states: [x, y], table: 0.2}\n    b: [x, y]\n"
    )
    with refused("model.not-learned", "6.*8.*'b'"):
        bl.network(tmp_path / "m.yaml")


def test_a_network_file_in_a_model_file(garden, tmp_path):
    garden.write(tmp_path / "g.bif")
    (tmp_path / "m.yaml").write_text(
        "bayeslab: 1\nmodel:\n  family: bayes_net\n  network: g.bif\n"
        "  variables:\n    cloudy: {states: [yes, no], table: 0.9}\n    more: {states: [a, b], parents: [cloudy], table: {yes: 0.2, no: 0.4}}\n"
    )
    found = bl.network(tmp_path / "m.yaml")
    np.testing.assert_allclose(list(found.query(targets="cloudy")["cloudy"].values()), [0.9, 0.1])
    np.testing.assert_allclose(found.query(targets=["more"])["more"]["a"], 0.9 * 0.2 + 0.1 * 0.4)
    assert list(found.states)[-1] == "more"
    (tmp_path / "m.yaml").write_text("bayeslab: 1\nmodel: {family: bayes_net, network: h.bif}\n")
    with refused("model.no-such-file"):
        bl.network(tmp_path / "m.yaml")
    (tmp_path / "m.yaml").write_text("bayeslab: 1\nmodel: {family: bayes_net, network: 3}\n")
    with refused("model.wrong-type", r"m\.yaml:2:37"):
        bl.network(tmp_path / "m.yaml")


# --------------------------------------------------------------------------------- queries


def test_queries_against_the_joint(garden):
    same(garden.query(), JOINT)
    for c, w in product(STATES["cloudy"], STATES["wet"]):
        found = garden.query({"cloudy": c, "wet": w})
        joint = weighted(
            weighted(JOINT, "cloudy", np.eye(2)[STATES["cloudy"].index(c)]), "wet", np.eye(2)[STATES["wet"].index(w)]
        )
        same(found, joint)
        assert found.log_evidence == pytest.approx(np.log(joint.sum()))
    assert set(garden.query({"wet": "on"}, "cloudy").marginals) == {"cloudy"}


def test_virtual_and_soft_evidence(garden):
    found = garden.query({"wet": {"on": 0.6, "off": 0.2}, "sprinkler": "1"})
    joint = weighted(weighted(JOINT, "wet", [0.6, 0.2]), "sprinkler", [1, 0])
    same(found, joint)
    assert found.log_evidence == pytest.approx(np.log(joint.sum()))
    # Jeffrey's rule: P(rest | wet) stays, P(wet) is what is believed.
    believed = np.array([0.25, 0.75])
    same(
        garden.query(believed={"wet": {"on": 0.25, "off": 0.75}}),
        weighted(JOINT, "wet", believed / marginal(JOINT, "wet")),
    )


def test_what_a_query_gives_back(garden):
    found = garden.query({"wet": "on"})
    assert found.to_dict()["evidence"] == {"wet": "on"}
    assert found.to_dict()["marginals"]["wet"] == {"on": 1.0, "off": 0.0}
    frame = found.to_frame()
    assert list(frame.columns) == ["variable", "state", "probability"] and len(frame) == 9
    np.testing.assert_allclose(frame.groupby("variable")["probability"].sum(), 1.0)
    assert "log evidence" in repr(found) and "étroit" in repr(found)
    assert found.svg().startswith("<svg")
    assert found._repr_html_().startswith("<img") and garden._repr_html_().startswith("<img")
    assert repr(garden) == "<Network 'garden': 4 variables, 4 edges, 13 parameters>"
    with refused("evidence.unknown-variable", "'wet'"):
        found["wett"]


@pytest.mark.parametrize(
    ("given", "kind", "match"),
    [
        ({"wett": "on"}, "unknown-variable", "'wett'.*'wet'"),
        ({"wet": "onn"}, "unknown-state", "'onn'.*'wet'.*'on'"),
        ({"wet": {"on": -1}}, "not-probabilities", "'wet'"),
        ({"wet": {"on": "much"}}, "wrong-type", "'wet=on'.*'much'"),
        ({"wet": {"on": 1j}}, "wrong-type", "'wet=on'"),
        ({"wet": {"on": 10**400}}, "out-of-range", "'wet=on'"),
        ({"wet": {"on": float("nan")}}, "out-of-range", "'wet=on'"),
        ({"wet": pd.Series({"on": 0.3, "off": 0.7})}, "unknown-state", "'wet'"),
        ({"regen / pluie": "x=y", "sprinkler": "1", "wet": "off"}, "probability-zero", "sprinkler = 1"),
    ],
)
def test_what_cannot_be_given(garden, given, kind, match):
    with refused(f"evidence.{kind}", match):
        garden.query(given)


@pytest.mark.parametrize(
    "ask",
    [
        lambda net: net.query({}, 1),
        lambda net: net.query({}, [["wet"]]),
        lambda net: net.query({}, believed=[1]),
        lambda net: net.query({}, believed={"wet": 1}),
        lambda net: net.query({}, believed={"wet": {"on": "0.5", "off": "0.5"}}),
        lambda net: net.tree.query("wet"),
        lambda net: net.approximate(3),
        lambda net: net.approximate({}, 1),
        lambda net: net.joint(1),
        lambda net: net.joint(["wet"], 3),
        lambda net: net.most_probable(3),
        lambda net: net.marginal_map(1),
        lambda net: net.marginal_map(["wet"], 3),
        lambda net: net.sample(3, given=3),
        lambda net: net.do(3),
        lambda net: net.d_separated(1, "wet"),
        lambda net: net.open_path("wet", 2),
        lambda net: net.sensitivity(1),
        lambda net: net.evidence_influence({"wet": "on"}, 1),
        lambda net: net.information_value("wet", candidates=1),
        lambda net: net.query_many(pd.DataFrame({"wet": ["on"]}), 1),
    ],
)
def test_what_is_no_question(garden, ask):
    """A number for variables, or for what is known of them."""
    with refused("evidence.wrong-type"):
        ask(garden)


def test_one_name_is_a_list_of_one(garden):
    assert garden.joint("wet").equals(garden.joint(["wet"]))
    assert garden.marginal_map("wet").assignment == garden.marginal_map(["wet"]).assignment


def test_a_query_is_a_mapping_of_its_targets(garden):
    answer = garden.query({"wet": "on"}, ["cloudy", "sprinkler"])
    assert "cloudy" in answer
    assert "wet" not in answer
    assert 0 not in answer
    assert list(answer) == ["cloudy", "sprinkler"]
    assert len(answer) == 2
    assert dict(answer) == {"cloudy": answer["cloudy"], "sprinkler": answer["sprinkler"]}


def test_query_many_is_one_query_a_row(garden):
    rows = pd.DataFrame({"wet": ["on", None, "off", None], "sprinkler": [1, 2, np.nan, np.nan]})
    found = garden.query_many(rows)
    for i, row in enumerate(({"wet": "on", "sprinkler": "1"}, {"sprinkler": "2"}, {"wet": "off"}, {})):
        one = garden.query(row)
        assert found["log_evidence"][i] == pytest.approx(one.log_evidence)
        for v, s in (("cloudy", "yes"), ("regen / pluie", "x=y"), ("wet", "on")):
            assert found[f"P({v}={s})"][i] == pytest.approx(one[v][s])
    assert "P(cloudy=no)" not in garden.query_many(rows, "wet")
    impossible = pd.DataFrame({"regen / pluie": ["x=y", "x=y"], "sprinkler": [1, 1], "wet": ["off", "on"]})
    found = garden.query_many(impossible)
    assert found["log_evidence"][0] == -np.inf and np.isnan(found["P(cloudy=yes)"][0])
    assert np.isfinite(found["P(cloudy=yes)"][1])
    with refused("evidence.unknown-variable", "'wett'.*'wet'"):
        garden.query_many(pd.DataFrame({"wett": ["on"]}))
    with refused("data.unknown-state", "row 2.*'of'.*'wet'.*'off'"):
        garden.query_many(pd.DataFrame({"wet": ["on", "of"]}))


@pytest.mark.parametrize("path", ["columns", "file"])
def test_a_state_that_reads_like_an_empty_cell_is_evidence(tmp_path, path):
    """P(pass | grade) is the row of its table; a cell without a word is not known."""
    grades = {"states": ["NA", "nan", "good"], "table": [0.5, 0.25, 0.25]}
    passed = {"parents": ["grade"], "states": ["no", "yes"], "table": [[0.95, 0.05], [0.8, 0.2], [0.1, 0.9]]}
    net = bl.Model(name="exam", model={"family": "bayes_net", "variables": {"grade": grades, "pass": passed}})
    table = {"grade": ["NA", "nan", "good"]}
    if path == "file":
        table = tmp_path / "t.csv"
        table.write_text("grade,pass\nNA,\nnan,\ngood,\n")
    found = bl.network(net).query_many(table, ["pass"])
    np.testing.assert_allclose(found["P(pass=yes)"], [0.05, 0.2, 0.9], atol=1e-12)
    if path == "file":
        table.write_text("grade,pass\n,\nNA,\n")
        found = bl.network(net).query_many(table, ["pass"])
        np.testing.assert_allclose(found["P(pass=yes)"], [0.5 * 0.05 + 0.25 * 0.2 + 0.25 * 0.9, 0.05], atol=1e-12)


@pytest.mark.parametrize(
    "states", [("1.1", "1.10"), ("1", "1.0"), ("1e1", "10"), ("9007199254740992", "9007199254740993"), ("01", "1")]
)
def test_states_that_are_one_number_are_told_apart_by_their_words(tmp_path, states):
    """P(p = u) is 0.9 below the first state and 0.1 below the second, in a query of a file and in counts of its rows."""
    file = tmp_path / "t.csv"
    variables = {"g": {"states": list(states)}, "p": {"states": ["u", "d"], "parents": ["g"]}}
    tables = [{"table": [0.5, 0.5]}, {"table": [[0.9, 0.1], [0.1, 0.9]]}]
    known = {name: variables[name] | more for name, more in zip(variables, tables, strict=True)}
    net = bl.network(bl.Model(name="m", model={"family": "bayes_net", "variables": known}))
    for rows in ([states[1]], [states[0], states[1], states[1]]):
        file.write_text("g\n" + "".join(f"{word}\n" for word in rows))
        found = net.query_many(file, ["p"])["P(p=u)"]
        np.testing.assert_allclose(found, [0.9 if word == states[0] else 0.1 for word in rows], atol=1e-12)
    file.write_text("g,p\n" + f"{states[0]},u\n" * 30 + f"{states[1]},d\n" * 10)
    fit = bl.fit(
        bl.Model(name="m", data={"rows": "row"}, model={"family": "bayes_net", "variables": variables}),
        file, seed=1, runs=None, progress=False,
    )  # fmt: skip
    means = fit.summary()["mean"]
    assert means[f"p_g[{states[0]}]"] == pytest.approx(31 / 42)
    assert means[f"p_p[{states[0]}, u]"] == pytest.approx(31 / 32)
    assert means[f"p_p[{states[1]}, u]"] == pytest.approx(1 / 12)


def test_a_number_means_the_state_that_is_written_as_it_is():
    tables = {"g": {"states": ["01", "1"], "table": [0.5, 0.5]}}
    tables["p"] = {"states": ["u", "d"], "parents": ["g"], "table": [[0.9, 0.1], [0.1, 0.9]]}
    net = bl.network(bl.Model(name="m", model={"family": "bayes_net", "variables": tables}))
    np.testing.assert_allclose(net.query_many(pd.DataFrame({"g": [1, 1]}), ["p"])["P(p=u)"], [0.1, 0.1])
    tables["g"]["states"] = ["01", "001"]
    net = bl.network(bl.Model(name="m", model={"family": "bayes_net", "variables": tables}))
    with refused("data.unknown-state", "'1' is not a state of 'g'"):
        net.query_many(pd.DataFrame({"g": [1, 1]}), ["p"])


def test_joint_most_probable_and_marginal_map(garden):
    joint = garden.joint(["wet", "cloudy"], {"sprinkler": "2"})
    truth = marginal(weighted(JOINT, "sprinkler", [0, 1]), "wet", "cloudy")
    np.testing.assert_allclose(joint.values, truth, atol=1e-12)
    assert joint.dims == ("wet", "cloudy") and list(joint.coords["wet"].values) == ["on", "off"]
    given = weighted(JOINT, "wet", [1, 0])
    order = np.argsort(-given, axis=None)[:3]
    for found, flat in zip(garden.most_probable({"wet": "on"}, 3), order, strict=True):
        codes = np.unravel_index(flat, given.shape)
        assert found.assignment | {"wet": "on"} == {v: STATES[v][c] for v, c in zip(STATES, codes, strict=True)}
        assert found.log_probability == pytest.approx(np.log(given.flat[flat] / given.sum()))
    pair = marginal(given, "cloudy", "sprinkler")
    best = np.unravel_index(pair.argmax(), pair.shape)
    found = garden.marginal_map(["cloudy", "sprinkler"], {"wet": "on"})
    assert found.assignment == {"cloudy": STATES["cloudy"][best[0]], "sprinkler": STATES["sprinkler"][best[1]]}
    assert found.log_probability == pytest.approx(np.log(pair.max()))


@pytest.mark.parametrize("given", [None, {"wet": "on"}])
def test_draws_have_the_right_frequencies(garden, given):
    draws = garden.sample(20_000, given=given, seed=1)
    assert list(draws.columns) == list(STATES) and isinstance(draws["wet"].dtype, pd.CategoricalDtype)
    joint = weighted(JOINT, "wet", [1, 0]) if given else JOINT
    counts = np.zeros(JOINT.shape)
    np.add.at(counts, tuple(draws[v].cat.codes.to_numpy() for v in STATES), 1)
    possible = joint > 0
    assert counts[~possible].sum() == 0
    expected = 20_000 * joint[possible] / joint.sum()
    assert stats.chisquare(counts[possible], expected).pvalue > 1e-3
    pd.testing.assert_frame_equal(draws, garden.sample(20_000, given=given, seed=1))


# --------------------------------------------------------------------------------- structure and causes


def test_structure(garden):
    assert garden.d_separated("sprinkler", "regen / pluie", "cloudy")
    assert not garden.d_separated("sprinkler", "regen / pluie", ["cloudy", "wet"])
    assert garden.open_path("sprinkler", "regen / pluie") is not None
    assert garden.open_path("sprinkler", "regen / pluie", "cloudy") is None
    assert garden.markov_blanket("sprinkler") == {"cloudy", "wet", "regen / pluie"}
    with refused("option.not-a-graph", "d-separation"):
        bl.network(FactorGraph.of(PLAIN)).d_separated("wet", "cloudy")


def test_causal_net(garden):
    """Setting is not seeing where clouds confound; it is where nothing does."""
    cut = np.einsum("c,s,cr,rsw->csrw", TABLES["cloudy"], [1.0, 0.0], TABLES["regen / pluie"], TABLES["wet"])
    done = garden.do({"sprinkler": "1"})
    same(done.query(), cut)
    seen = garden.query({"sprinkler": "1"})["wet"]["on"]
    assert abs(done.query()["wet"]["on"] - seen) > 0.01
    assert (
        done.query()["cloudy"]["yes"] == pytest.approx(0.4) and garden.query({"sprinkler": "1"})["cloudy"]["yes"] < 0.3
    )
    # Without confounding both agree: clouds have no cause.
    assert garden.do({"cloudy": "yes"}).query()["wet"]["on"] == pytest.approx(
        garden.query({"cloudy": "yes"})["wet"]["on"]
    )
    other = np.einsum("c,s,cr,rsw->csrw", TABLES["cloudy"], [0.0, 1.0], TABLES["regen / pluie"], TABLES["wet"])
    effect = marginal(other, "wet")[0] - marginal(cut, "wet")[0]
    assert garden.average_effect("sprinkler", "wet", values="on") == pytest.approx(effect)
    assert garden.adjustment_sets("sprinkler", "wet") == [frozenset({"cloudy"})] or set(
        garden.adjustment_sets("sprinkler", "wet")
    ) == {frozenset({"cloudy"}), frozenset({"regen / pluie"})}
    with refused("evidence.unknown-variable", "'sprinkler'"):
        garden.do({"sprinklr": "1"})


def test_sensitivity_and_the_value_of_observing(garden):
    given = weighted(JOINT, "wet", [1, 0])
    pair = marginal(given, "cloudy", "sprinkler")
    alone = pair.sum(axis=1, keepdims=True) * pair.sum(axis=0, keepdims=True)
    bits = {one.variable: one.bits for one in garden.information_value("cloudy", {"wet": "on"})}
    assert bits["sprinkler"] == pytest.approx(np.sum(pair * np.log2(pair / alone)))
    first = garden.sensitivity({"cloudy": "yes"}, {"wet": "on"})[0]
    assert (first.parameter.variable, first.parameter.state) == ("cloudy", "yes")
    chances = marginal(JOINT, "cloudy", "wet")[:, 0] / marginal(JOINT, "cloudy")  # P(on | cloudy), whatever P(cloudy)
    theta = 0.55
    moved = theta * chances[0] / (theta * chances[0] + (1 - theta) * chances[1])
    assert (first.a * theta + first.b) / (first.c * theta + first.d) == pytest.approx(moved)
    influence = {
        one.variable: one for one in garden.evidence_influence({"cloudy": "yes"}, {"wet": "on", "sprinkler": "1"})
    }
    assert influence["sprinkler"].without == pytest.approx(marginal(given, "cloudy")[0])


# --------------------------------------------------------------------------------- continuous variables


@pytest.fixture(scope="module")
def mixed():
    """sex -> height, and weight given both: normal within each sex."""
    return MixedNetwork(
        {"sex": ("f", "m")},
        {"sex": ()},
        {"sex": np.array([0.5, 0.5])},
        {
            "height": LinearGaussian(("sex",), np.array([166.0, 179.0]), np.zeros((2, 0)), np.array([6.0, 7.0])),
            "weight": LinearGaussian(("sex", "height"), np.array([-60.0, -70.0]), np.array([[0.75], [0.85]]), np.array([9.0, 10.0])),
        },
        "people",
    )  # fmt: skip


def test_continuous_variables(mixed):
    net = bl.network(mixed)
    found = net.query({"height": 175})
    like = np.array([stats.norm.pdf(175, 166, 6), stats.norm.pdf(175, 179, 7)]) / 2
    p = like / like.sum()
    assert found["sex"]["f"] == pytest.approx(p[0])
    assert found.log_evidence == pytest.approx(np.log(like.sum()))
    means, sds = np.array([-60 + 0.75 * 175, -70 + 0.85 * 175]), np.array([9.0, 10.0])
    assert found["weight"].mean == pytest.approx(p @ means)
    assert found["weight"].sd == pytest.approx(np.sqrt(p @ (sds**2 + means**2) - (p @ means) ** 2))
    frame = found.to_frame()
    assert set(frame["variable"]) == {"sex", "height", "weight"} and "continuous" in found.to_dict()
    draws = net.sample(40_000, seed=2)
    assert draws["height"].mean() == pytest.approx(172.5, abs=4 * draws["height"].std() / 200)
    with refused("option.continuous", "junction tree"):
        _ = net.tree
    with refused("option.continuous", "files"):
        net.write("x.bif")
    with refused("option.not-applicable", "'height'"):
        net.query_many(pd.DataFrame({"height": [175.0]}))


def test_linear_gaussian_bn_is_a_multivariate_normal():
    """The joint of a linear-Gaussian net has mean and covariance of its structural equations (000 eq 20.5)."""
    b = np.array([[0, 0, 0], [2.0, 0, 0], [-1.0, 0.5, 0]])  # row: child, column: parent
    intercept, sd = np.array([1.0, 0.0, 3.0]), np.array([1.0, 0.5, 2.0])
    names = ["x", "y", "z"]
    variables = {
        n: {
            "parents": [names[j] for j in range(i)],
            "linear_gaussian": {
                "intercept": intercept[i],
                "slopes": {names[j]: b[i, j] for j in range(i)},
                "sd": sd[i],
            },
        }
        for i, n in enumerate(names)
    }
    net = bl.network(bl.Model(model=bl.BayesNet(variables=variables)))
    spread = np.linalg.inv(np.eye(3) - b)
    mean, covariance = spread @ intercept, spread @ np.diag(sd**2) @ spread.T
    found = net.query()
    np.testing.assert_allclose([found[n].mean for n in names], mean)
    np.testing.assert_allclose([found[n].sd for n in names], np.sqrt(np.diag(covariance)))
    given = net.query({"z": 4.0})
    gain = covariance[:2, 2] / covariance[2, 2]
    np.testing.assert_allclose([given[n].mean for n in names[:2]], mean[:2] + gain * (4.0 - mean[2]))
    assert given.log_evidence == pytest.approx(stats.norm.logpdf(4.0, mean[2], np.sqrt(covariance[2, 2])))


def test_a_mixed_net_without_continuous_variables_asked_as_discrete():
    net = bl.network(MixedNetwork(STATES, PARENTS, TABLES, {}, "garden"))
    same(net.query({"wet": "on"}), weighted(JOINT, "wet", [1, 0]))


# --------------------------------------------------------------------------------- decisions


def test_decisions_of_a_file_and_of_a_model(tmp_path):
    text = (
        "bayeslab: 1\nmodel:\n  family: bayes_net\n  variables: {rain: {states: [yes, no], table: 0.3}}\n"
        "  decisions: {umbrella: {options: [take, leave]}}\n"
        "  utilities: {u: {parents: [rain, umbrella], table: {yes: {take: -1, leave: -10}, no: {take: -2, leave: 0}}}}\n"
    )
    (tmp_path / "u.yaml").write_text(text)
    from bayeslab.decisions import influence

    for source in (tmp_path / "u.yaml", bl.load(tmp_path / "u.yaml")):
        policy = influence.solve(decisions(source))
        assert policy.expected_utility == pytest.approx(max(-0.3 - 1.4, -3.0))
        assert policy.choose("umbrella") == "take"
    (tmp_path / "u.yaml").write_text(text.replace("leave: 0", "leave: much"))
    with refused("model.out-of-range", "6.*'much'"):
        decisions(tmp_path / "u.yaml")
    with refused("model.nothing-to-decide", "`decisions`.*`utilities`"):
        decisions(bl.network(PLAIN).model())


def test_states_that_are_edited_are_a_copy():
    net = bl.network(Path(__file__).parents[1] / "models" / "asia.yaml")
    net.states["smoking"] = ("no", "yes")
    assert net.states["smoking"] != ("no", "yes")


def test_a_model_file_has_its_ending(garden, tmp_path):
    with refused("option.unknown-format", r"garden\.bif"):
        garden.save(tmp_path / "garden.bif")
    assert not list(tmp_path.iterdir())


def test_answers_for_many_rows_keep_their_index(garden):
    name, states = next(iter(garden.states.items()))
    table = pd.DataFrame({name: [states[0], states[1]]}, index=["first", "second"])
    assert garden.query_many(table).index.tolist() == ["first", "second"]
