"""Normal rows with linear means are evaluated from a triangle: the density and gradient that SciPy gives row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayeslab.posterior.machine.program import Builder, Program
from tests.posterior.machine.checks import check

N = 40
RNG = np.random.default_rng(8)
X, Y, T = RNG.normal(size=(N, 3)), RNG.normal(size=N), np.arange(N) / 10
TWICE = np.column_stack([X, X[:, 0] + X[:, 1]])

MEANS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda p: p[0],
    "terms": lambda p: p[0] + p[1] * X[:, 0] - X[:, 1] / 3.0 * p[2],
    "a design": lambda p: p[0] + X @ p[1:4],
    "two designs": lambda p: X @ p[:3] + TWICE @ p[:4] - T,
    "columns that depend on each other": lambda p: TWICE @ p[:4],
    "products of parameters": lambda p: (X[:, 0] - p[0]) * p[1] + p[2] * (T - 1.0) / (p[3] * p[3] + 1.0),
    "a negated trend": lambda p: -(p[0] + p[1] * T),
}


def built(mean: Callable[[Any], Any], y: np.ndarray, rows: slice = slice(None)) -> Program:
    builder = Builder()
    p, extra = builder.parameter(4), builder.parameter(1)[0]
    mu = builder.as_var(mean(p)).broadcast_to((N,))[rows]
    builder.density("normal", builder.constant(y[rows]), mu, builder.elementwise("exp", extra))
    return builder.finish()


def largest(program: Program) -> int:
    return max(item.output.size if item.output is not None else item.inputs[0].size for item in program.instructions)


@pytest.mark.parametrize(
    "rows", [slice(None), slice(3, None), slice(None, None, 2)], ids=["all", "later", "every other"]
)
@pytest.mark.parametrize("name", MEANS)
def test_a_triangle_gives_the_density_of_the_rows(name: str, rows: slice) -> None:
    program = built(MEANS[name], Y, rows)
    assert largest(program) <= 49  # a triangle of seven columns
    for seed in range(3):
        point = np.random.default_rng(seed).normal(scale=0.7, size=5)
        mean = np.broadcast_to(MEANS[name](point[:4]), N)[rows]
        want = stats.norm.logpdf(Y[rows], mean, np.exp(point[4])).sum()
        assert program.value_and_gradient(point)[0] == pytest.approx(want, rel=1e-11)
        check(program, point)


def test_rows_far_from_zero_keep_their_digits() -> None:
    """An intercept that is far from zero, in doubles that hold it exactly."""
    far = 2.0**24
    y, point = np.round(Y * 2.0**16) / 2.0**16, np.array([0.5, -0.25, 0.125, 0.0, -0.5])
    near, away = built(MEANS["terms"], y), built(lambda p: MEANS["terms"](p) + far, y + far)
    (a, slopes), (b, others) = near.value_and_gradient(point), away.value_and_gradient(point)
    assert b == pytest.approx(a, rel=1e-12)
    np.testing.assert_allclose(others, slopes, rtol=1e-11, atol=1e-11)
    # The unknown intercept itself.
    b, others = built(MEANS["terms"], y + far).value_and_gradient(point + np.array([far, 0, 0, 0, 0]))
    assert b == pytest.approx(a, rel=1e-7)
    np.testing.assert_allclose(others, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("far", [1e9, 2.0**40])
@pytest.mark.parametrize(
    "shifted",
    [
        lambda p, far: far + p[0],
        lambda p, far: p[0] - (-far),
        lambda p, far: -((-far) - p[0]),
        lambda p, far: (p[0] + far) + p[1] * X[:, 0],
        lambda p, far: (p[0] + far / 2) + (far / 2 + p[1]),
    ],
    ids=["added", "subtracted", "negated", "with a slope", "twice"],
)
def test_a_known_number_beside_an_unknown_one_keeps_its_digits(shifted: Any, far: float) -> None:
    y, point = np.round(Y * 2.0**10) / 2.0**10, np.array([0.3, -0.7, 0.1, 0.0, -0.5])
    near, away = built(lambda p: shifted(p, 0.0), y), built(lambda p: shifted(p, far), y + far)
    (a, slopes), (b, others) = near.value_and_gradient(point), away.value_and_gradient(point)
    assert b == pytest.approx(a, rel=1e-11)
    np.testing.assert_allclose(others, slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("why", ["a curve", "many columns", "a spread for each row", "few rows"])
def test_other_rows_stay_rows(why: str) -> None:
    builder = Builder()
    n = 10 if why == "few rows" else N
    p = builder.parameter(30)
    mu = {
        "a curve": lambda: builder.elementwise("exp", p[0] * T),
        "many columns": lambda: RNG.normal(size=(N, 30)) @ p,
        "a spread for each row": lambda: p[0] + p[1] * T,
        "few rows": lambda: p[0] + p[1] * T[:n],
    }[why]()
    sigma = builder.elementwise("exp", p[2] * T if why == "a spread for each row" else p[2])
    builder.density("normal", builder.constant(Y[:n]), mu, sigma)
    program = builder.finish()
    assert largest(program) >= n
    check(program, np.random.default_rng(1).normal(scale=0.3, size=30))
