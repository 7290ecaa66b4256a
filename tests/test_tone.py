"""Examples of how errors are put: one line, where, what was given, what is allowed, the nearest name.

Everywhere else tests hold the code of an error and the thing it names (``refusals.py``), so that sentences can be put
better without edits in a thousand places: these are the ones to change then.
"""

from __future__ import annotations

import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError

_GRAPH = {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}
# Part of a model, data, method and options; the code and the sentence.
_SENTENCES = [
    ({"modle": 1}, None, {}, "model.unknown-key", "modle: unknown key 'modle'; did you mean 'model'?"),
    ({"seed": -1}, None, {}, "model.out-of-range", "seed: 'seed' is a number ≥ 0; given: '-1'"),
    ({"seed": "one"}, None, {}, "model.wrong-type", "seed: 'seed' is a whole number; given: 'one'"),
    (
        {"name": "?"},
        None,
        {},
        "model.bad-name",
        "name: 'name' is letters, digits, spaces, '.', '_' and '-', a letter or a digit first and last; given: '?'",
    ),
    ({"dims": {"a": 0}}, None, {}, "model.out-of-range", "dims: dimension 'a' has length 0; a length is at least 1"),
    (
        {"model": {"family": "grahp"}},
        None,
        {},
        "model.unknown-family",
        "model.family: unknown family 'grahp'; did you mean 'graph'?",
    ),
    ({"model": {"family": "graph"}}, None, {}, "model.missing-key", "model: the key 'nodes' is missing"),
    (
        {"model": {"family": "graph", "nodes": {"m": "Nromal(0, 1)"}}},
        None,
        {},
        "model.unknown-function",
        "model.nodes.m: unknown function or distribution 'Nromal'; did you mean 'Normal'?",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0,"}}},
        None,
        {},
        "model.syntax",
        "model.nodes.m: cannot be read as an expression: '(' was never closed",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, sigm=1)"}}},
        None,
        {},
        "model.unknown-parameter",
        "model.nodes.m: Normal has no parameter 'sigm'; did you mean 'sigma'?",
    ),
    (
        {"model": {"family": "graph", "nodes": {"y[obs_id]": "Normal(0, -1)"}}},
        {"y": [1.0]},
        {},
        "model.out-of-range",
        "model.nodes.y[obs_id]: Normal needs sigma above 0; given: -1",
    ),
    (
        {"model": {"family": "graph", "nodes": {"a": "b + 1", "b": "a + 1"}}},
        None,
        {},
        "model.cycle",
        "model.nodes.a: nodes form a cycle: a -> b -> a",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(flor, 1)", "y": "Normal(m, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "model.unknown-name",
        "model.nodes.m: 'flor' is neither a node, a column of the data, nor a dimension; known: 'g', 'm', 'obs_id', 'x', 'y'",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[obs_id]": "Poisson(exp(m))"}}},
        {"y": [1.0, 2.5]},
        {},
        "data.not-whole",
        "model.nodes.y[obs_id]: column 'y', row 2: 2.5 is not a whole number; Poisson is discrete",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[obs_id]": "Poisson(exp(m))"}}},
        {"y": [1, -2]},
        {},
        "data.impossible-value",
        "model.nodes.y[obs_id]: column 'y', row 2: -2 cannot come from Poisson(exp(m)), whose values are 0 or more; correct the cell, or take another distribution",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m + x, 1)"}}},
        {"x": [1.0, float("nan")], "y": [1.0, 2.0]},
        {},
        "data.missing",
        "column 'x' has 1 missing cell (row 2) and is used as a predictor: drop the rows; or give it a node, such as x[obs_id]: Normal(m, s), so that missing cells become parameters; or say what holds there, where(isnan(x), ..., x)",
    ),
    (
        {"model": {"family": "regression", "formula": "y ~ z"}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "model.unknown-column",
        "model.formula: 'z' is not a column of the data; known: 'g', 'x', 'y'",
    ),
    (
        {"model": {"family": "regression", "formula": "y ~ y + x"}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "model.self-reference",
        "model.formula: the response 'y' is among its own predictors",
    ),
    (
        {"model": {"family": "regression", "formula": "y ~"}},
        None,
        {},
        "model.syntax",
        "model.formula: the formula has no right-hand side; 'y ~ 1' has an intercept only",
    ),
    (
        {"model": {"family": "regression", "formula": "y ~ x", "likelihood": "gausian"}},
        None,
        {},
        "model.unknown-word",
        "model.likelihood: unknown likelihood 'gausian'; did you mean 'gaussian'?",
    ),
    (
        {"model": {"family": "regression", "formula": "y ~ lgo(x)"}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "model.unknown-function",
        "model.formula: unknown function 'lgo'; did you mean 'log'?",
    ),
    (
        {"model": {"family": "mixture", "columns": ["y", "y"], "components": 2}},
        None,
        {},
        "model.duplicate",
        "model: a column is given twice",
    ),
    (
        {"model": {"family": "mixture", "columns": ["y"], "components": 9}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "data.too-few",
        "3 rows cannot support 9 components; use at most 3 components",
    ),
    (
        {"model": {"family": "mixture", "columns": ["g"], "components": 2}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {},
        "data.not-numbers",
        "column 'g' is text, and its components are gaussian; give it 'categorical' in component",
    ),
    (
        {"model": {"family": "hmm", "columns": ["y"]}},
        None,
        {},
        "model.incomplete",
        "model: states is missing: how many there are",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {"method": "nust"},
        "option.unknown-word",
        "unknown method 'nust'; did you mean 'nuts'?",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {"method": "nuts", "drwas": 10},
        "option.unknown-option",
        "inference.drwas: method nuts has no option 'drwas'; did you mean 'draws'?",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {"method": "nuts", "draws": 0},
        "option.out-of-range",
        "inference.draws: 'draws' is a number ≥ 1; given: 0",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {"method": "structure"},
        "engine.refused.other-family",
        "method structure does not apply: it samples structures of Bayes nets; this is a model of the family graph",
    ),
    (
        {"model": {"family": "graph", "nodes": {"m": "Normal(0, 1)", "k": "Bernoulli(0.5)", "y": "Normal(m + k, 1)"}}},
        {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0], "g": ["a", "b", "a"]},
        {"method": "map"},
        "engine.refused.discrete",
        "method map does not apply: the discrete nodes k are summed out, and their values at a point estimate would be draws, not a mode; use method nuts",
    ),
    (
        {"model": {"family": "bayes_net", "variables": {"a": {"states": ["n", "y"], "parents": ["a"]}}}},
        None,
        {},
        "model.cycle",
        "model.variables.a.parents: the parents form a cycle: a -> a",
    ),
    (
        {"model": {"family": "bayes_net", "variables": {"a": {"states": ["n", "y"], "table": [0.5, 0.6]}}}},
        None,
        {},
        "model.not-probabilities",
        "model.variables.a.table: the row of 'a' sums to 1.1, not to 1",
    ),
    (
        {"model": {"family": "learner", "learner": "decision_tre", "target": "g", "inputs": ["x"]}},
        None,
        {},
        "model.unknown-word",
        "model.learner: unknown learner 'decision_tre'; did you mean 'decision_tree'?",
    ),
]


@pytest.mark.parametrize(
    ("part", "data", "how", "code", "sentence"), _SENTENCES, ids=[f"{n} {case[3]}" for n, case in enumerate(_SENTENCES)]
)
def test_an_error_is_one_line_of_plain_words(part, data, how, code, sentence):
    with pytest.raises(BayeslabError) as caught:
        bl.check(bl.Model(**{"bayeslab": 1, "model": _GRAPH} | part), data=data, **how)
    assert (caught.value.code, str(caught.value)) == (code, sentence)
    assert "\n" not in sentence
