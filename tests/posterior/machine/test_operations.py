"""Every operation of the density machine: values by NumPy and SciPy, gradients by finite differences of those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bayeslab.posterior.machine import functions
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.operations import ELEMENTWISE
from bayeslab.posterior.machine.program import Builder
from tests.posterior.machine.checks import check, weighted

UNARY = sorted(name for name, each in ELEMENTWISE.items() if each.arity == 1)
BINARY = sorted(name for name, each in ELEMENTWISE.items() if each.arity == 2)
# Operand values inside the domain, away from jumps and kinks.
DOMAIN = {
    **dict.fromkeys(("log", "sqrt", "log2", "log10", "gammaln", "digamma", "reciprocal"), (0.3, 4.0)),
    **dict.fromkeys(("arcsin", "arccos"), (-0.9, 0.9)),
    **dict.fromkeys(("logit", "normal_quantile"), (0.01, 0.99)),
    **dict.fromkeys(("floor", "ceil"), (1.2, 1.8)),
    **dict.fromkeys(("round", "sign", "abs", "log1p"), (0.6, 1.4)),
    "log1mexp": (-3.0, -0.1),
}


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("log2", "log10")])
@pytest.mark.parametrize("layout", ["flat", "transposed", "reversed"])
def test_functions_of_one_array(name: str, layout: str) -> None:
    low, high = DOMAIN.get(name, (-2.0, 2.0))
    builder = Builder()
    x = builder.parameter(6)
    view = {"flat": x, "transposed": x.reshape(2, 3).T, "reversed": x[::-1]}[layout]
    program = weighted(builder, builder.elementwise(name, view))
    check(program, np.random.default_rng(3).uniform(low, high, 6))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((4,), ()),
        ((), (4,)),
        ((3, 1), (4,)),
        ((3, 4), (3, 1)),
        ((4, 3), "T"),
        ((4,), "data"),
        ("data", (4,)),
    ],
)
def test_functions_of_two_arrays(name: str, left: object, right: object) -> None:
    rng = np.random.default_rng(5)
    builder = Builder()

    def operand(shape: object) -> object:
        if shape == "data":
            return rng.uniform(0.6, 1.4, 4) + 0.37
        if shape == "T":
            return builder.parameter(12).reshape(3, 4).T
        return builder.parameter(int(np.prod(shape))).reshape(shape)  # type: ignore[arg-type]

    program = weighted(builder, builder.elementwise(name, operand(left), operand(right)))
    point = rng.uniform(0.5, 2.5, program.n_dim)
    assert np.abs(point % 1 - 0.5).max() < 0.499
    check(program, point)


def test_choice() -> None:
    builder = Builder()
    x, y = builder.parameter(4), builder.parameter(1)[0]
    chosen = functions.function_of("where")(builder.elementwise("greater", x, 0.0), x * 2, y)
    check(weighted(builder, chosen), np.array([-1.0, 0.5, 2.0, -0.1, 0.7]))


SPECIAL = np.concatenate([[0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 2.3e-308, 1.7e308, -1e-17]])


def test_what_is_not_chosen_has_no_slope() -> None:
    """log(0) of a category that no row has: the gradient is that of the other categories, not undefined."""
    builder = Builder()
    p = builder.parameter(2)
    for array in (builder.elementwise("log", p), builder.elementwise("power", p, -0.5)):
        chosen = array[np.array([1, 1])]
        builder.density("normal", chosen, builder.constant(0.0), builder.constant(1.0))
    value, gradient = builder.finish().value_and_gradient([0.0, 2.0])
    # The log density is -log(p)² - 1/p and a constant.
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient, [0.0, -np.log(2.0) + 0.25], rtol=1e-12)


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "expm1", "sigmoid", "softplus"])
def test_elementary_functions_hold_all_digits_everywhere(name: str) -> None:
    rng = np.random.default_rng(1)
    wide = np.concatenate(
        [SPECIAL, rng.uniform(-745, 710, 4000), rng.normal(0, 1, 4000), 10.0 ** rng.uniform(-300, 300, 4000)]
    )
    x = np.concatenate([wide, -(10.0 ** rng.uniform(-20, 2, 1000))])
    builder = Builder()
    builder.output("y", builder.elementwise(name, builder.parameter(len(x))))
    got = builder.finish().outputs(x[None])["y"][0]
    with np.errstate(all="ignore"):
        want = ELEMENTWISE[name].numpy(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    normal = np.isfinite(want) & (np.abs(want) > 1e-307)
    np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])
    np.testing.assert_allclose(got[normal], want[normal], rtol=7e-16)
    np.testing.assert_allclose(got[~normal & np.isfinite(want)], want[~normal & np.isfinite(want)], atol=1e-307)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("gammaln", np.array([1e-8, 0.3, 7.9, 8.1, 171.0, 1e6, 1e12, -0.5, -3.2])),
        ("digamma", np.array([1e-8, 0.3, 7.9, 8.1, 171.0, 1e6, 1e12, -0.5, -3.2])),
        ("normal_cdf", np.array([-37.0, -10.0, -1.0, 0.0, 3.0, 9.0])),
        ("log_normal_cdf", np.array([-1e5, -37.0, -5.0, -0.3, 0.0, 0.2, 4.0, 12.0])),
        ("normal_quantile", np.array([1e-300, 1e-20, 1e-5, 0.02, 0.3, 0.5, 0.9, 1 - 1e-12])),
    ],
)
def test_special_functions_in_the_tails(name: str, x: np.ndarray) -> None:
    builder = Builder()
    builder.output("y", builder.elementwise(name, builder.parameter(len(x))))
    np.testing.assert_allclose(
        builder.finish().outputs(x[None])["y"][0], ELEMENTWISE[name].numpy(x), rtol=2e-13, atol=1e-15
    )


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "logsumexp", "mean", "var", "sd"])
@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_reductions(name: str, axis: tuple[int, ...]) -> None:
    builder = Builder()
    x = builder.parameter(24).reshape(2, 3, 4)
    program = weighted(
        builder, functions.reduction_of(name)(x, axis) if name != "logsumexp" else functions.logsumexp(x, axis)
    )
    check(program, np.random.default_rng(8).uniform(0.3, 1.9, 24))


def test_reduction_of_a_transposed_array() -> None:
    builder = Builder()
    x = builder.parameter(24).reshape(2, 3, 4).transpose(2, 0, 1)
    check(weighted(builder, x.sum((0, 2))), np.linspace(0.2, 2.0, 24))


@pytest.mark.parametrize("name", ["softmax", "cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_along_an_axis(name: str, axis: int) -> None:
    builder = Builder()
    x = builder.parameter(12).reshape(3, 4)
    program = weighted(builder, functions.function_of(name)(x, axis=axis))
    point = np.random.default_rng(2).normal(0, 1, 12)
    check(program, point)
    point[5] = 0.0
    check(program, point)


def test_product_with_a_zero() -> None:
    builder = Builder()
    x = builder.parameter(4)
    program = weighted(builder, builder.reduce("prod", x))
    check(program, np.array([0.5, 0.0, 2.0, 3.0]))


SHAPES = [((3, 4), (4,)), ((4,), (4, 3)), ((4,), (4,)), ((3, 4), (4, 5)), ((5, 2), (2, 1)), ((1, 4), (4, 3))]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("given", ["none", "left", "right"])
@pytest.mark.parametrize("turned", [False, True])
def test_products(left: tuple[int, ...], right: tuple[int, ...], given: str, turned: bool) -> None:
    rng = np.random.default_rng(4)
    builder = Builder()

    def operand(shape: tuple[int, ...], data: bool) -> object:
        if data:
            return rng.normal(size=shape)
        x = builder.parameter(int(np.prod(shape)))
        return x.reshape(shape[::-1]).T if turned else x.reshape(shape)

    out = functions.matmul(operand(left, given == "left"), operand(right, given == "right"))
    check(weighted(builder, out), rng.normal(size=builder.point.size))


def test_a_tall_matrix_of_data() -> None:
    rng = np.random.default_rng(6)
    builder = Builder()
    check(
        weighted(builder, builder.constant(rng.normal(size=(2500, 3))) @ builder.parameter(3)),
        np.array([0.01, 0.02, -0.01]),
    )


MATRICES: dict[str, Callable[[Var], Var]] = {
    "cholesky": functions.cholesky,
    "inv": functions.inv,
    "det": functions.det,
    "logdet": functions.log_det,
    "log_det of a factor": lambda a: functions.log_det(functions.cholesky(a)),
    "diagonal": functions.diagonal,
    "solve": lambda a: functions.solve(a, np.arange(1.0, 5.0)),
    "solve_lower": lambda a: functions.solve_triangular(a, np.arange(1.0, 5.0)),
    "solve_lower of columns": lambda a: functions.solve_triangular(a, a[:, :2]),
    "solve_lower transposed": lambda a: functions.solve_triangular(a, a[:, :2], transposed=True),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str) -> None:
    builder = Builder()
    x = builder.parameter(16).reshape(4, 4)
    matrix = functions.matmul(x, x.T) + np.eye(4)
    out = MATRICES[name](matrix)
    program = weighted(builder, builder.elementwise("tanh", out * 0.1))
    check(program, np.random.default_rng(9).normal(0, 1, 16))


def test_a_matrix_that_is_not_positive_definite_has_no_density() -> None:
    builder = Builder()
    builder.add(functions.cholesky(builder.parameter(4).reshape(2, 2)))
    program = builder.finish()
    value, gradient = program.value_and_gradient(np.array([1.0, 2.0, 2.0, 1.0]))
    assert np.isnan(value)
    assert np.isnan(gradient).all()


def test_diagonal_matrix() -> None:
    builder = Builder()
    check(weighted(builder, functions.diag(builder.parameter(3))), np.array([0.3, 1.0, -2.0]))


def test_joined_arrays() -> None:
    builder = Builder()
    x, y = builder.parameter(6).reshape(2, 3), builder.parameter(2)
    joined = functions.concatenate([x, y[:, None], np.full((2, 2), 7.0)], axis=1)
    stacked = functions.stack([y, np.array([1.0, 2.0]), x[:, 0]], axis=1)
    check(weighted(builder, functions.concatenate([joined.ravel(), stacked.ravel()])), np.linspace(-1, 1, 8))


@pytest.mark.parametrize("name", ["log", "log1p"])
def test_logarithms_of_far_probabilities(name: str) -> None:
    """log(sigmoid(x)) and log(1 - sigmoid(x)) hold where the probability is 0 or 1 to all digits."""
    builder = Builder()
    p = builder.elementwise("sigmoid", builder.parameter(2))
    builder.add(builder.elementwise("log", p if name == "log" else 1 - p))
    value, gradient = builder.finish().value_and_gradient(np.array([-800.0, 800.0]))
    assert value == pytest.approx(-800.0)
    np.testing.assert_allclose(gradient, [1.0, 0.0] if name == "log" else [0.0, -1.0], atol=1e-12)


def test_a_function_that_the_machine_does_not_know() -> None:
    with pytest.raises(NotLowered, match="bessel"):
        functions.function_of("bessel")
