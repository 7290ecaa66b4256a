"""Densities in programs: each distribution in every layout against SciPy's values and finite differences of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import bayeslab.distributions
from bayeslab.posterior.machine import catalogue
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.program import Builder
from tests.posterior.machine.checks import check, weighted

KNOWN = sorted(
    path.stem for path in Path(bayeslab.distributions.__file__).parent.glob("*.py") if catalogue.fused(path.stem)
)
COUNTS = np.array([0.0, 1.0, 1.0, 3.0, 7.0])
BITS = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
# Operands by the distribution: observed values, and ranges of the parameters.
CASES: dict[str, tuple[np.ndarray | tuple[float, float], list[tuple[float, float] | np.ndarray]]] = {
    "bernoulli": (BITS, [(0.1, 0.9)]),
    "binomial": (COUNTS, [np.array([4.0, 1.0, 5.0, 3.0, 12.0]), (0.1, 0.9)]),
    "poisson": (COUNTS, [(0.3, 6.0)]),
    "negative_binomial": (COUNTS, [(0.3, 6.0), (0.4, 9.0)]),
    "normal": ((-2.0, 2.0), [(-2.0, 2.0), (0.5, 2.0)]),
    "student_t": ((-2.0, 2.0), [(1.5, 9.0), (-2.0, 2.0), (0.5, 2.0)]),
    "gamma": ((0.2, 3.0), [(0.6, 4.0), (0.5, 2.0)]),
    "half_normal": ((0.2, 3.0), [(0.5, 2.0)]),
    "beta": ((0.1, 0.9), [(0.6, 4.0), (0.5, 2.0)]),
}


def operands(builder: Builder, name: str, layout: tuple[str, ...], rng: np.random.Generator) -> tuple[list, np.ndarray]:
    """Operands of five rows or one number each, of data (capitals) or parameters, and a point."""
    x, parameters = CASES[name]
    out: list[object] = []
    point: list[np.ndarray] = []
    for kind, given in zip(layout, [x, *parameters], strict=True):
        if isinstance(given, np.ndarray):
            out.append(given if kind.lower() == "v" else given[2])
            continue
        values = rng.uniform(*given, 5 if kind.lower() == "v" else 1)
        if kind.isupper():
            out.append(values if kind == "V" else values[0])
        else:
            var = builder.parameter(len(values))
            out.append(var if kind == "v" else var[0])
            point.append(values)
    return out, np.concatenate(point) if point else np.zeros(0)


def layouts(name: str) -> list[tuple[str, ...]]:
    count = 1 + len(CASES[name][1])
    few = ["v" * count, "s" * count, "v" + "s" * (count - 1), "V" + "s" * (count - 1), "Vv" + "s" * (count - 2)]
    few += ["V" + "v" * (count - 1), "S" + "v" * (count - 1), "v" + "V" * (count - 1), "v" + "S" * (count - 1)]
    return [tuple(each) for each in dict.fromkeys(few) if any(letter.islower() for letter in each)]


@pytest.mark.parametrize(
    ("name", "layout"),
    [pytest.param(n, each, id=f"{n}-{''.join(each)}") for n in ("normal", "negative_binomial") for each in layouts(n)],
)
def test_sums_in_every_layout(name: str, layout: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    builder = Builder()
    args, point = operands(builder, name, layout, rng)
    builder.density(name, *args)
    if len(point):
        check(builder.finish(), point)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param(n, each, id=f"{n}-{''.join(each)}")
        for n in sorted(CASES.keys() - {"normal", "negative_binomial"})
        for each in layouts(n)
    ],
)
def test_sums_of_other_distributions_in_every_layout(name: str, layout: tuple[str, ...]) -> None:
    test_sums_in_every_layout(name, layout)


@pytest.mark.parametrize("name", ["normal", "negative_binomial"])
def test_densities_one_by_one_and_weights(name: str) -> None:
    rng = np.random.default_rng(2)
    builder = Builder()
    args, point = operands(builder, name, ("V", *"v" * len(CASES[name][1])), rng)
    each = builder.log_density(name, *args)
    assert each.shape == (5,)
    builder.add(builder.elementwise("exp", each) * np.arange(5.0))
    builder.density(name, *args, weight=np.array([0.0, 1.0, 2.5, 0.3, 1.0]))
    builder.density(name, *args, weight=args[-1])
    check(builder.finish(), point)


def test_rows_that_do_not_count() -> None:
    builder = Builder()
    mu, sigma = builder.parameter(4), builder.parameter(1)[0]
    y = np.array([0.3, np.nan, 1.0, np.nan])
    builder.density("normal", y, mu, sigma, where=np.isfinite(y))
    program = builder.finish()
    value, gradient = program.value_and_gradient(np.array([0.0, 5.0, 1.0, 6.0, 2.0]))
    assert value == pytest.approx(stats.norm.logpdf([0.3, 1.0], [0.0, 1.0], 2.0).sum())
    assert gradient[[1, 3]].tolist() == [0.0, 0.0]


def test_mixtures() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=20)
    builder = Builder()
    mu, sigma = builder.parameter(3), builder.elementwise("exp", builder.parameter(3))
    weights = builder.parameter(3)
    log_w = weights - builder.reduce("logsumexp", weights)
    each = builder.log_density("normal", y[:, None], mu, sigma) + log_w
    builder.add(builder.reduce("logsumexp", each, 1))
    point = rng.normal(size=9)
    program = builder.finish()
    check(program, point)
    w = np.exp(point[6:]) / np.exp(point[6:]).sum()
    want = np.log((w * stats.norm.pdf(y[:, None], point[:3], np.exp(point[3:6]))).sum(1)).sum()
    assert program.value_and_gradient(point)[0] == pytest.approx(want)


@pytest.mark.parametrize("shape", [(30, 2), (2, 30), (3, 40, 2), (2, 40, 3)])
@pytest.mark.parametrize("by", ["rows", "columns", "one"])
def test_long_axes_first_in_any_place(shape: tuple[int, ...], by: str) -> None:
    """Densities one by one whose loops run over the longest axis, wherever it is, with slopes for each parameter."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=shape)
    builder = Builder()
    where = {"rows": (shape[-2], 1), "columns": (shape[-1],), "one": ()}[by]
    size = int(np.prod(where))
    mu, log_sigma = builder.parameter(size).reshape(where), builder.parameter(size).reshape(where)
    out = builder.log_density("normal", y, mu, builder.elementwise("exp", log_sigma))
    program = weighted(builder, out)
    point = rng.normal(size=2 * size)
    check(program, point)
    m, s = point[:size].reshape(where), np.exp(point[size:]).reshape(where)
    np.testing.assert_allclose(program.outputs(point[None])["out"][0], stats.norm.logpdf(y, m, s), rtol=1e-12)


OTHER_LINKS = dict.fromkeys(("beta", "geometric", "zero_inflated_binomial"), "sigmoid")
LINKS = {"bernoulli": "sigmoid", "binomial": "sigmoid", "poisson": "exp", "negative_binomial": "exp"}


@pytest.mark.parametrize("name", LINKS)
def test_densities_on_the_scale_of_the_link(name: str) -> None:
    """The same values where digits suffice, and slopes where the parameter itself would be at its limit."""
    x, parameters = CASES[name]
    fixed = [p for p in parameters if isinstance(p, np.ndarray)]
    shape = [2.0] if name == "negative_binomial" else []
    builder = Builder()
    eta = builder.parameter(5)
    builder.density(name, x, *fixed, builder.elementwise(LINKS[name], eta), *shape)
    program = builder.finish()
    point = np.array([-0.3, 1.0, 0.4, -2.0, 0.9])
    check(program, point)
    inverse = 1 / (1 + np.exp(-point)) if LINKS[name] == "sigmoid" else np.exp(point)
    want = {
        "bernoulli": lambda: stats.bernoulli.logpmf(x, inverse),
        "binomial": lambda: stats.binom.logpmf(x, fixed[0], inverse),
        "poisson": lambda: stats.poisson.logpmf(x, inverse),
        "negative_binomial": lambda: stats.nbinom.logpmf(x, 2.0, 2.0 / (2.0 + inverse)),
    }[name]()
    assert program.value_and_gradient(point)[0] == pytest.approx(want.sum(), rel=1e-12)
    value, gradient = program.value_and_gradient(np.full(5, -700.0))
    assert np.isfinite(value)
    assert value < -1000
    np.testing.assert_allclose(gradient, x, atol=1e-9)


def test_counts_outside_the_support() -> None:
    builder = Builder()
    builder.density("poisson", np.array([1.0, -1.0]), builder.elementwise("exp", builder.parameter(2)))
    assert builder.finish().value_and_gradient(np.zeros(2))[0] == -np.inf


@pytest.mark.parametrize("at", [-30.0, -0.4, 0.0, 1.7, 30.0])
def test_shares_by_their_log_odds_keep_their_digits(at: float) -> None:
    """log(1 - x) of a beta density, and of zeros of a mixture of zeros and counts, at x = 1 - 1e-13."""
    builder = Builder()
    z = builder.parameter(1)
    x = builder.elementwise("sigmoid", z)
    builder.density("beta", x, 2.5, 3.5)
    builder.density("geometric", np.array([1.0, 4.0]), x)
    builder.density("zero_inflated_binomial", np.array([1.0, 2.0]), 0.3, 5.0, x)
    program = builder.finish()
    value, gradient = program.value_and_gradient([at])
    up, down = np.log1p(np.exp(-at)), np.log1p(np.exp(at))  # -log x, -log(1 - x)
    beta = -1.5 * up - 2.5 * down - special.betaln(2.5, 3.5)
    inflated = 2 * np.log(0.3) + np.log(5) + np.log(10) - (1 + 2) * up - (4 + 3) * down
    assert value == pytest.approx(beta - 2 * up - 3 * down + inflated, rel=1e-12)
    share = 1 / (1 + np.exp(-at))
    assert gradient[0] == pytest.approx((1.5 + 2 + 3) / (1 + np.exp(at)) - (2.5 + 3 + 7) * share, rel=1e-11)
    assert program.value([at]) == pytest.approx(value, rel=1e-12)


def test_a_distribution_that_the_machine_does_not_know() -> None:
    builder = Builder()
    with pytest.raises(NotLowered, match="wishart"):
        builder.density("wishart", builder.parameter(1), 1.0)


def test_the_distributions_with_links() -> None:
    assert {name: forms for name in KNOWN if (forms := [op for op, _ in catalogue.forms(name).values()])} == {
        name: [link] for name, link in (LINKS | OTHER_LINKS).items()
    }


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", [name for name in KNOWN if name in CASES])
def test_three_axes(name: str) -> None:
    """Arguments that vary along different axes, so that no two loops run over them."""
    rng = np.random.default_rng(7)
    builder = Builder()
    x, parameters = CASES[name]
    shapes = itertools.cycle([(2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 3, 2)])
    args: list[Var | np.ndarray] = []
    point = []
    for given in parameters:
        shape = next(shapes)
        if isinstance(given, np.ndarray):
            args.append(np.broadcast_to(given.max(), shape))
        else:
            args.append(builder.parameter(int(np.prod(shape))).reshape(shape))
            point.append(rng.uniform(*given, int(np.prod(shape))))
    data = x[:2, None] if isinstance(x, np.ndarray) else rng.uniform(*x, (2, 1))
    builder.density(name, data[:, :, None] * np.ones((2, 3, 2)), *args)
    check(builder.finish(), np.concatenate(point))
