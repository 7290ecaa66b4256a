"""Posterior marginals of well-known networks that another program computed, equal to 1e-9.

The references are by two engines of that program, and how far these differ is part of the file. Numbers are
written with twelve digits there. What is compared: the junction tree and variable elimination, one query at a time
and all evidence of a network as one batch.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayeslab.formats.network_files import read_network
from bayeslab.latents.networks import variable_elimination
from bayeslab.latents.networks.junction_tree import JunctionTree
from tests.conformance.references import SHARED, require

FOLDER = SHARED / "conformance" / "networks"
SMALL = ["asia", "cancer", "child", "earthquake", "insurance", "sachs", "survey"]
NAMES = [*SMALL, "alarm", "andes", "hailfinder", "hepar2", "pigs", "win95pts"]


def network(name):
    require(FOLDER, "reference marginals")
    return read_network(SHARED / "data" / "networks" / f"{name}.bif")


def cases(name):
    return json.loads((FOLDER / f"{name}.json").read_text())["cases"]


def test_every_reference_is_compared():
    require(FOLDER, "reference marginals")
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_queries_agree_with_the_reference(name):
    model = network(name)
    tree = JunctionTree.of(model)
    for case in cases(name):
        answer = tree.query(case["evidence"])
        assert answer.log_evidence == pytest.approx(case["log_evidence"], abs=1e-9)
        assert answer.marginals.keys() >= case["marginals"].keys()
        for v, want in case["marginals"].items():
            np.testing.assert_allclose(answer.marginals[v], [want[s] for s in model.states[v]], atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_agrees_with_the_reference(name):
    model = network(name)
    codes = np.full((len(cases(name)), len(model.states)), -1)
    for row, case in zip(codes, cases(name), strict=True):
        for v, state in case["evidence"].items():
            row[list(model.states).index(v)] = model.states[v].index(state)
    many = JunctionTree.of(model).query_many(codes)
    np.testing.assert_allclose(many.log_evidence, [case["log_evidence"] for case in cases(name)], atol=1e-9)
    for i, case in enumerate(cases(name)):
        for v, want in case["marginals"].items():
            np.testing.assert_allclose(many.marginals[v][i], [want[s] for s in model.states[v]], atol=1e-9)


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_elimination_agrees_with_the_reference(name):
    model = network(name)
    for case in cases(name)[:3]:
        assert variable_elimination.log_evidence(model, case["evidence"]) == pytest.approx(
            case["log_evidence"], abs=1e-9
        )
        for v in list(case["marginals"])[::7]:
            want = [case["marginals"][v][s] for s in model.states[v]]
            np.testing.assert_allclose(variable_elimination.eliminate(model, [v], case["evidence"]), want, atol=1e-9)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["link", "munin1", "water"])
def test_large_networks_agree_with_elimination(name):
    """No reference file: the tree of the conditioned network against elimination, which shares no code with it."""
    model = network(name)
    tree = JunctionTree.of(model)
    rng = np.random.default_rng(5)
    state = tree.sample(1, rng)[0] if name == "water" else mode(model)
    seen = rng.choice(len(model.states), len(model.states) // 10, replace=False)
    names = list(model.states)
    given = {names[i]: model.states[names[i]][state[i]] for i in seen}
    answer = tree.query(given)
    assert answer.log_evidence == pytest.approx(variable_elimination.log_evidence(model, given), abs=1e-9)
    for i in rng.choice(len(names), 4, replace=False):
        found = variable_elimination.eliminate(model, [names[i]], given)
        np.testing.assert_allclose(answer.marginals[names[i]], found, atol=1e-9)


def mode(model):
    """A possible state of all variables: each the likeliest given its parents."""
    import networkx as nx

    names = list(model.states)
    out = {}
    for v in nx.topological_sort(model.graph):
        out[v] = int(np.argmax(model.tables[v][tuple(out[p] for p in model.parents[v])]))
    return [out[v] for v in names]
