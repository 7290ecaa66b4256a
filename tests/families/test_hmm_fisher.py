"""Fisher's identity for every law of hidden states: expected counts have the slope of the evidence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.families.hmm.model import hidden_of

N = 12
COLUMNS = {
    "y": np.random.default_rng(0).normal(0, 2, N),
    "x": np.random.default_rng(1).normal(3, 1, N),
    "n": np.random.default_rng(2).poisson(3, N).astype(float),
    "u": np.random.default_rng(3).normal(0, 1, N),
    "who": ["a"] * 4 + ["b"] * 4 + ["c"] * 4,
    "kind": ["k"] * 4 + ["l"] * 4 + [""] * 4,
    "ball": list("rbrrbrrbbrbr"),
    "cell": [f"c{i}" for i in range(N)],
    "mother": [None, "c0", "c0", "c1", "c1", None, "c5", "c5", "c6", "c6", "c7", "c7"],
}
CASES = {
    "chain": {"columns": ["y", "n"], "emission": {"y": "gaussian", "n": "poisson"}},
    "left_right": {"columns": ["y"], "states": 3, "topology": "left_right"},
    "stationary": {"columns": ["y"], "initial": "stationary"},
    "second_order": {"columns": ["y"], "order": 2},
    "driven": {"columns": ["y"], "transitions_on": ["u"]},
    "table": {"columns": ["y"], "durations": 4},
    "poisson": {"columns": ["y"], "durations": {"longest": 4, "law": "poisson"}},
    "negative_binomial": {"columns": ["y"], "durations": {"longest": 4, "law": "negative_binomial"}},
    "tree": {"columns": ["y"], "parent": "mother"},
    "urn": {"columns": ["ball"], "emission": "urn", "parameters": {"balls": [[9, 6], [7, 8]]}},
    "factorial": {"columns": ["y"], "states": None, "chains": {"a": 2, "b": 2}},
    "joint": {"columns": ["n"], "states": None, "chains": {"a": 2, "b": 2}, "emission": "poisson"},
    "coupled": {
        "columns": ["n", "y"],
        "states": None,
        "chains": {"a": 2, "b": 2},
        "coupling": "coupled",
        "emits": {"a": ["y"], "b": ["n"]},
        "emission": {"y": "gaussian", "n": "poisson"},
    },
    "switching": {
        "columns": ["y"],
        "states": None,
        "chains": {"which": 2, "calm": 2, "wild": 2},
        "coupling": "switching",
    },
    "classes": {"columns": ["y"], "states": {"k": 2, "l": 2}, "classes": "kind", "sequence": "who"},
}


def resolved(name):
    content = {"family": "hmm", "states": 2} | CASES[name]
    content = {key: value for key, value in content.items() if value is not None}
    used = [*content["columns"], *content.get("transitions_on", ()), *(content.get(k) for k in ("sequence", "classes"))]
    table = {column: COLUMNS[column] for column in used if column}
    if "parent" in content:
        table |= {"cell": COLUMNS["cell"], "mother": COLUMNS["mother"]}
    model = bl.Model(name="m", data={"rows": "cell" if "parent" in content else "time"}, model=content)
    return hidden_of(model, bl.check(model, pd.DataFrame(table)))


@pytest.mark.parametrize("name", CASES)
def test_expected_counts_have_the_slope_of_the_evidence(name):
    """d log p(rows | θ) = d E[log p(rows, states | θ)], the expectation held at θ: differences of both."""
    hidden = resolved(name)
    problem = hidden.problem()
    theta = hidden.guess(np.random.default_rng(5))
    x = problem.flatten(theta)
    theta = problem.unflatten(x + np.random.default_rng(6).normal(0, 0.1, len(x)))
    x = problem.flatten(theta)

    def height(at):
        values = problem.unflatten(at)
        return problem.expect(values)[0] + problem.log_prior(values)

    steps = 1e-4 * np.eye(len(x))
    want = np.array([(height(x + s) - height(x - s)) / 2e-4 for s in steps])
    found = problem.gradient(theta, problem.expect(theta)[1])
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert np.abs(want).max() > 0.01
