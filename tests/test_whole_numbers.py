"""Whole-number columns in arithmetic: the answers are those of Python's unbounded integers, to rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from tests.refusals import refused

W = [3_000_000_000, 4_000_000_000, 5_000_000_000]
H = [4_000_000_000, 7, 6_000_000_001]
SMALL = [1, 2, 3]
# Each beyond 2**63 in some row, computed with Python's integers.
BEYOND = {
    "w * h": [w * h for w, h in zip(W, H, strict=True)],
    "w * w * h": [w * w * h for w, h in zip(W, H, strict=True)],
    "w ** 3": [w**3 for w in W],
    "outer(w, h)": [w * h for w, h in zip(W, H, strict=True)],
    "prod(w)": math.prod(W),
    "sum(w * h)": sum(w * h for w, h in zip(W, H, strict=True)),
    "cumprod(w)": [W[0], W[0] * W[1], W[0] * W[1] * W[2]],
    "dot(w, h)": sum(w * h for w, h in zip(W, H, strict=True)),
    "w @ h": sum(w * h for w, h in zip(W, H, strict=True)),
    "big + big": [2 * 9_000_000_000_000_000_000] * 3,
    "-big - big": [-2 * 9_000_000_000_000_000_000] * 3,
    "cumsum(big)": [9_000_000_000_000_000_000 * k for k in SMALL],
    "sum(big)": 3 * 9_000_000_000_000_000_000,
    "mean(big)": 9_000_000_000_000_000_000,
    "(w * h) // 7": [w * h // 7 for w, h in zip(W, H, strict=True)],
    "tiny * tiny": [10_000] * 3,
    "unsigned - w": [1 - w for w in W],
    "-unsigned": [-1] * 3,
    "3000000000 * 4000000000 * s": [3_000_000_000 * 4_000_000_000 * s for s in SMALL],
}
TABLE = {
    "w": W,
    "h": H,
    "s": SMALL,
    "big": np.full(3, 9_000_000_000_000_000_000),
    "tiny": np.full(3, 100, np.int8),
    "unsigned": np.ones(3, np.uint64),
}


def data() -> Data:
    model = bl.Model(model={"family": "graph", "nodes": {"a": "Normal(0, 1)"}})
    return bind(model, Dataset.from_table(TABLE, "row"), ())


@pytest.mark.parametrize("text", BEYOND)
def test_arithmetic_on_data_is_in_floats(text):
    value = data().evaluator.term(parse(text)).value
    np.testing.assert_allclose(np.asarray(value, float), np.array(BEYOND[text], dtype=float), rtol=1e-14)


@pytest.mark.parametrize("text", BEYOND)
def test_arithmetic_in_graphs_is_in_floats(text):
    import pytensor
    import pytensor.tensor as pt

    bound, inputs = data(), {}

    def variable(name: str) -> Term:
        term = bound.term(name)
        if name not in inputs:
            inputs[name] = pt.as_tensor_variable(np.asarray(term.value)).type(name)
        return Term(inputs[name], term.dims)

    out = Evaluator(variable, bound.labels).term(parse(text)).value
    function = pytensor.function(list(inputs.values()), out, mode=pytensor.compile.mode.Mode("py", "fast_compile"))
    value = function(*(np.asarray(bound.term(name).value) for name in inputs))
    np.testing.assert_allclose(value, np.array(BEYOND[text], dtype=float), rtol=1e-14)


def test_whole_numbers_still_index_and_count():
    nodes = {
        "p[s]": "Beta(1, 1)",
        "n[row]": "s + s",
        "k[row]": "Binomial(n, p[s - 1 + 0])",
    }
    model = bl.Model(
        data={"rows": "row"}, dims={"s2": 3}, model={"family": "graph", "nodes": nodes | {"p[s2]": nodes.pop("p[s]")}}
    )
    fit = bl.fit(model, {"s": SMALL, "k": [1, 2, 3]}, "exact", runs=None, progress=False, seed=1)
    # Beta(1, 1) and k of 2 k: Beta(1 + k, 1 + k).
    sd = fit.summary()["sd"].to_numpy()
    np.testing.assert_allclose(sd, [math.sqrt(1 / (4 * (2 * k + 3))) for k in SMALL], rtol=1e-12)


def test_hypergeometric_counts_may_be_computed():
    nodes = {"m": "Normal(0, 1)", "k[row]": "HyperGeometric(s + 7, s + 2, s + 1)"}
    graph = bl.to_pymc(
        bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes}), {"s": SMALL, "k": [1, 1, 1]}
    )
    found = graph.point_logps({"m": np.array(0.0)}, round_vals=12)["k"]
    wanted = sum(math.log(math.comb(s + 2, 1) * math.comb(5, s) / math.comb(s + 7, s + 1)) for s in SMALL)
    assert found == pytest.approx(wanted, rel=1e-10)


def test_formulas_do_not_overflow_and_name_levels_as_before():
    rng = np.random.default_rng(1)
    w, h = rng.integers(3_000_000_000, 6_000_000_000, (2, 40))
    z = (w.astype(float) * h) / 1e19
    table = {"w": w, "h": h, "k": np.arange(40) % 3, "y": 2.0 * z + rng.normal(0, 0.1, 40)}
    fit = bl.fit(
        bl.Model(model={"family": "regression", "formula": "y ~ I(w * h) + C(k)"}),
        table, runs=None, progress=False, seed=1,
    )  # fmt: skip
    frame = fit.summary()
    assert {"b[C(k)[1]]", "b[C(k)[2]]"} <= set(frame.index)
    x = np.column_stack([np.ones(40), z, table["k"] == 1, table["k"] == 2])
    slope = np.linalg.lstsq(x, table["y"], rcond=None)[0][1]
    assert frame.loc["b[I(w * h)]", "mean"] * 1e19 == pytest.approx(slope, rel=0.02)
    new = {"w": w[:3], "h": h[:3], "k": [0, 1, 2]}
    mean = fit.predict(new, kind="mean")["mean"]
    again = fit.predict({name: np.asarray(v, float) for name, v in new.items()}, kind="mean")["mean"]
    np.testing.assert_allclose(mean, again, rtol=1e-12)


def test_unsigned_integers_beyond_the_signed_are_told():
    with refused("data.too-large", "'u'.*row 2.*64"):
        Dataset.from_table({"u": np.array([1, 2**64 - 1], np.uint64)}, "row")
