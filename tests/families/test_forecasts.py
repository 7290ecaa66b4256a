"""Models too large for their data or the machine are refused before anything large is allocated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import bayeslab as bl

# Bytes that a refusal may allocate: far below one matrix of 5,000 × 5,000 numbers, 200 MB.
FEW = 60_000_000


def table(n: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=n), "z": rng.normal(size=n), "s": np.arange(n) // 10, "c": np.arange(n) // 10 % 2 == 0}


def refusal(model: object, data: object) -> bl.BayeslabError:
    """The error of a check, whose memory is measured."""
    with pytest.raises(bl.BayeslabError):  # modules are imported before memory counts
        bl.check(bl.Model(model=model), data)
    tracemalloc.start()
    try:
        with pytest.raises(bl.BayeslabError) as refused:
            bl.check(bl.Model(model=model), data)
        assert tracemalloc.get_traced_memory()[1] < FEW
    finally:
        tracemalloc.stop()
    return refused.value


@pytest.mark.parametrize(
    ("options", "n_rows", "code"),
    [
        ({}, 50, "too-few"),
        ({"initial": "stationary"}, 50, "too-few"),
        ({"transitions_on": ["z"]}, 50, "too-few"),
        ({"emission": "gaussian_mixture", "mixtures": 3}, 50, "too-few"),
        ({}, 6_000, "too-costly"),
        ({"classes": "c", "sequence": "s"}, 60, "too-costly"),
        ({"states": 1_000, "order": 2}, 2_000, "too-costly"),
    ],
)
def test_thousands_of_states_are_refused_before_their_transitions_are_allocated(options, n_rows, code):
    model = bl.HMM(**{"columns": ["x"], "states": 5_000} | options)
    assert refusal(model, table(n_rows)).code.endswith(code)


def test_a_table_of_400_million_probabilities_is_refused_before_it_is_allocated():
    states = [f"s{i}" for i in range(20_000)]
    net = bl.BayesNet(variables={"a": {"states": states}, "b": {"states": states, "parents": ["a"]}})
    assert refusal(net, table(50)).code.endswith("unknown-column")
    draws = refusal(net, {"a": states[:50], "b": states[50:100]})
    assert draws.code.endswith("too-costly")
    assert draws.path == ("inference", "draws")
