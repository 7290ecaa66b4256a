"""Rows with equal parameters are evaluated as one: the same density and gradient, computed here row by row by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from bayeslab.posterior.machine.program import Builder, Program
from tests.posterior.machine.checks import check

N, GROUPS = 60, 7
RNG = np.random.default_rng(3)
GROUP, FLAG, SHARED = RNG.integers(GROUPS, size=N), RNG.integers(2, size=N), RNG.normal(size=5)
COUNTS, BITS, TRIALS = RNG.poisson(3.0, N), RNG.integers(2, size=N), RNG.integers(5, 9, size=N)
REALS = RNG.normal(size=N)


def predictor(at: np.ndarray) -> np.ndarray:
    """An effect of a group, and a slope of a flag."""
    return at[GROUP] + at[GROUPS] * FLAG


def built(name: str, *data: np.ndarray, link: str | None = None, shift: float = 0.0) -> Program:
    """A program of two parts of a predictor and one more parameter, as one density."""
    builder = Builder()
    effects, slope, extra = builder.parameter(GROUPS), builder.parameter(1)[0], builder.parameter(1)[0]
    eta = effects[GROUP] + slope * builder.constant(FLAG.astype(float)) + shift
    location = eta if link is None else builder.elementwise(link, eta)
    more = {"normal": [builder.elementwise("exp", extra)], "negative_binomial": [builder.elementwise("exp", extra)]}
    first, *others = [builder.constant(np.asarray(each, dtype=float)) for each in data]
    builder.density(name, first, *others, location, *more.get(name, []))
    return builder.finish()


def evaluated_rows(program: Program) -> int:
    return max(i.inputs[0].size for i in program.instructions if i.options.get("density"))


CASES: dict[str, tuple[Program, Any]] = {
    "normal": (built("normal", REALS), lambda eta, extra: stats.norm.logpdf(REALS, eta, np.exp(extra))),
    "bernoulli": (
        built("bernoulli", BITS, link="normal_cdf"),
        lambda eta, extra: stats.bernoulli.logpmf(BITS, special.ndtr(eta)),
    ),
    "bernoulli of log odds": (
        built("bernoulli", BITS, link="sigmoid"),
        lambda eta, extra: stats.bernoulli.logpmf(BITS, special.expit(eta)),
    ),
    "binomial": (
        built("binomial", BITS, TRIALS, link="normal_cdf"),
        lambda eta, extra: stats.binom.logpmf(BITS, TRIALS, special.ndtr(eta)),
    ),
    "binomial of log odds": (
        built("binomial", BITS, TRIALS, link="sigmoid"),
        lambda eta, extra: stats.binom.logpmf(BITS, TRIALS, special.expit(eta)),
    ),
    "poisson": (
        built("poisson", COUNTS, link="softplus"),
        lambda eta, extra: stats.poisson.logpmf(COUNTS, np.logaddexp(0, eta)),
    ),
    "poisson of log rates": (
        built("poisson", COUNTS, link="exp"),
        lambda eta, extra: stats.poisson.logpmf(COUNTS, np.exp(eta)),
    ),
    "negative binomial": (
        built("negative_binomial", COUNTS, link="softplus"),
        lambda eta, extra: stats.nbinom.logpmf(
            COUNTS, np.exp(extra), np.exp(extra) / (np.exp(extra) + np.logaddexp(0, eta))
        ),
    ),
    "negative binomial of log means": (
        built("negative_binomial", COUNTS, link="exp"),
        lambda eta, extra: stats.nbinom.logpmf(COUNTS, np.exp(extra), np.exp(extra) / (np.exp(extra) + np.exp(eta))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_density_of_sums_is_that_of_the_rows(name: str) -> None:
    program, rows = CASES[name]
    assert evaluated_rows(program) <= 2 * GROUPS
    for seed in range(3):
        point = np.random.default_rng(seed).normal(scale=0.6, size=GROUPS + 2)
        want = rows(predictor(point), point[-1]).sum()
        assert program.value_and_gradient(point)[0] == pytest.approx(want, rel=1e-9)
        check(program, point)


def test_numbers_far_from_zero_keep_their_digits() -> None:
    """The squares about the mean are those of the rows without their common part."""
    far = np.round(REALS * 2.0**20) / 2.0**20 + 2.0**20  # exact in doubles
    near, far_away = built("normal", far - 2.0**20), built("normal", far, shift=2.0**20)
    point = np.round(np.random.default_rng(1).normal(scale=0.6, size=GROUPS + 2) * 2.0**20) / 2.0**20
    assert far_away.value_and_gradient(point)[0] == pytest.approx(near.value_and_gradient(point)[0], rel=1e-9)


def test_a_design_with_few_distinct_rows() -> None:
    design = np.column_stack([np.ones(N), FLAG, FLAG * 0.5, GROUP == 2])
    builder = Builder()
    b = builder.parameter(4)
    builder.density("bernoulli", builder.constant(BITS.astype(float)), builder.elementwise("sigmoid", design @ b))
    program = builder.finish()
    assert evaluated_rows(program) == 4
    point = np.array([0.3, -0.4, 0.2, 0.7])
    want = stats.bernoulli.logpmf(BITS, special.expit(design @ point)).sum()
    assert program.value_and_gradient(point)[0] == pytest.approx(want, rel=1e-12)
    check(program, point)


@pytest.mark.parametrize("why", ["distinct predictors", "a parameter for each row", "few rows", "outside the support"])
def test_rows_that_differ_stay_rows(why: str) -> None:
    builder = Builder()
    n = 8 if why == "few rows" else N
    effects = builder.parameter(N)
    eta = {
        "distinct predictors": lambda: effects[0] * RNG.normal(size=n),
        "a parameter for each row": lambda: effects + 0.5,
        "few rows": lambda: effects[0] * FLAG[:n],
        "outside the support": lambda: effects[0] * FLAG,
    }[why]()
    y = BITS[:n] + (0.5 if why == "outside the support" else 0.0)
    builder.density("bernoulli", builder.constant(y.astype(float)), builder.elementwise("sigmoid", eta))
    program = builder.finish()
    assert evaluated_rows(program) == n
    if why == "outside the support":
        assert program.value_and_gradient(np.zeros(N))[0] == -np.inf
    else:
        check(program, np.random.default_rng(1).normal(size=N))
