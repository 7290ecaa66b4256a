"""Programs of the density machine: views as in NumPy, loops, densities, outputs, and threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import stats

from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.program import Builder, Instruction, Loop, Program
from tests.posterior.machine.checks import check, weighted

KEYS = [
    (0,),
    (-1, 1),
    (slice(None, None, -1),),
    (slice(1, 3), None, slice(None, None, 2)),
    (Ellipsis, 1),
    (np.array([2, 0, 0, 1]),),
    (np.array([2, 0]), slice(None), np.array([3, 1])),
    (np.array([[0, 1], [2, 2]]), np.array([1, 0])),
    (slice(None), slice(None), np.array([True, False, True, True])),
    (slice(0, 0),),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_that_of_numpy(key: tuple[object, ...]) -> None:
    builder = Builder()
    point = np.random.default_rng(1).normal(size=24)
    x, want = builder.parameter(24).reshape(3, 2, 4), point.reshape(3, 2, 4)[key]
    if any(np.size(k) > 2 and np.ndim(k) == 2 for k in key):
        x, want = x[:, :, 0], point.reshape(3, 2, 4)[:, :, 0][key]
    out = x[key]
    assert out.shape == want.shape
    if want.size:
        check(program := weighted(builder, out), point)
        np.testing.assert_array_equal(program.outputs(point[None])["out"][0], want)


def test_views_cost_no_instruction() -> None:
    builder = Builder()
    x = builder.parameter(12).reshape(3, 4)
    views = [
        x.T[1:],
        x[::2, ::-1],
        x.reshape(2, 6)[:, 3:],
        x.ravel()[np.array([1, 3, 5])],
        x[None].broadcast_to((5, 3, 4)),
    ]
    assert not builder.instructions
    assert [view.shape for view in views] == [(3, 3), (2, 4), (2, 3), (3,), (5, 3, 4)]


@pytest.mark.parametrize("new", [(12,), (2, 6), (6, 2), (3, 2, 2), (-1, 4), (1, 12, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_reshaping_is_that_of_numpy(new: tuple[int, ...], turned: bool) -> None:
    builder = Builder()
    point = np.arange(12.0)
    x, want = builder.parameter(12).reshape(3, 4), point.reshape(3, 4)
    if turned:
        x, want = x.T, want.T
    builder.output("out", x.reshape(new))
    np.testing.assert_array_equal(builder.finish().outputs(point[None])["out"][0], want.reshape(new))


def test_numpy_arrays_on_the_left() -> None:
    builder = Builder()
    x = builder.parameter(3)
    builder.output("a", np.arange(3.0) - x)
    builder.output("b", np.float64(2.0) * x)
    builder.output("c", np.eye(3) @ x)
    out = builder.finish().outputs(np.array([[1.0, 2.0, 4.0]]))
    assert {name: value.tolist() for name, value in out.items()} == {
        "a": [[-1.0, -1.0, -2.0]],
        "b": [[2.0, 4.0, 8.0]],
        "c": [[1.0, 2.0, 4.0]],
    }


def count(program: Program) -> int:
    return len(program.instructions)


def test_equal_operations_are_done_once_and_unused_ones_never() -> None:
    builder = Builder()
    x = builder.parameter(2)
    builder.add(builder.elementwise("exp", x) * builder.elementwise("exp", x[:2]))
    builder.elementwise("log", x)
    program = builder.finish()
    assert [i.op for i in program.instructions if isinstance(i, Instruction)] == ["exp", "multiply", "total"]


def test_constants_are_computed_at_once() -> None:
    builder = Builder()
    builder.add(builder.elementwise("exp", builder.constant([0.0, 1.0])).sum() * 2)
    builder.density("normal", builder.constant(0.3), builder.constant(0.0), builder.constant(2.0))
    builder.parameter(1)
    program = builder.finish()
    assert not program.instructions
    value, gradient = program.value_and_gradient(np.zeros(1))
    assert value == pytest.approx(2 * (1 + np.e) + stats.norm.logpdf(0.3, 0, 2))
    assert gradient.tolist() == [0.0]


# --------------------------------------------------------------------------------------- loops


def test_a_recursion() -> None:
    """GARCH(1, 1), written as a loop over single numbers."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=40)
    builder = Builder()
    omega, a, b = (builder.elementwise("sigmoid", p) for p in builder.parameter(3))

    def body(past: list, rows: list) -> list:
        return [omega + a * rows[0] + b * past[0][0]]

    (h,) = builder.loop(39, body, [builder.constant([1.3])], [y[:-1] ** 2])
    builder.density("normal", y[1:], 0.0, builder.elementwise("sqrt", h))
    builder.output("h", h)
    program, point = builder.finish(), np.array([-0.5, -1.0, 0.4])
    check(program, point)
    w, c, d = 1 / (1 + np.exp(-point))
    want = [1.3]
    for row in y[:-1]:
        want.append(w + c * row**2 + d * want[-1])
    np.testing.assert_allclose(program.outputs(point[None])["h"][0], want[1:], rtol=1e-13)
    assert program.value_and_gradient(point)[0] == pytest.approx(stats.norm.logpdf(y[1:], 0, np.sqrt(want[1:])).sum())


def test_two_recursions_of_vectors_with_two_lags() -> None:
    rng = np.random.default_rng(3)
    builder = Builder()
    x, w = builder.parameter(10).reshape(5, 2), builder.parameter(4).reshape(2, 2)

    def body(past: list, rows: list) -> list:
        u, v = past
        new = w @ u[1] + 0.3 * u[0] + rows[0]
        return [new, builder.elementwise("tanh", v[0] + new[0] * w[0, 1])]

    u, v = builder.loop(5, body, [rng.normal(size=(2, 2)), w[0, :1]], [x])
    builder.density("normal", v, 0.0, 1.5)
    check(weighted(builder, u), rng.normal(0, 0.5, 14))


def test_recursions_with_the_same_next_row() -> None:
    builder = Builder()
    a, x = builder.parameter(2), builder.parameter(6).reshape(3, 2)

    def body(past: list, rows: list) -> list:
        new = past[0][0] * a + past[1][0][0] + builder.elementwise("exp", rows[0])
        return [new, new[::-1]]

    u, v = builder.loop(3, body, [np.ones((1, 2)), np.zeros((1, 2))], [x])
    program = weighted(builder, builder.concatenate([u, v]))
    point = np.array([0.5, -0.3, 0.1, 0.2, 0.3, -0.1, -0.2, -0.3])
    check(program, point)
    want, last, other = [], np.ones(2), np.zeros(2)
    for row in np.exp(point[2:].reshape(3, 2)):
        last = last * point[:2] + other[0] + row
        other = last[::-1]
        want.append(last)
    np.testing.assert_allclose(program.outputs(point[None])["out"][0], [*want, *np.array(want)[:, ::-1]], rtol=1e-13)


def test_rows_that_do_not_depend_on_the_past_are_computed_before_the_loop() -> None:
    builder = Builder()
    a, x = builder.parameter(1)[0], builder.parameter(5)
    (h,) = builder.loop(
        5, lambda past, rows: [past[0][0] ** 2 * a + builder.elementwise("exp", rows[0] * a)], [np.ones(1)], [x]
    )
    program = weighted(builder, h)
    (loop,) = [item for item in program.instructions if isinstance(item, Loop)]
    assert [item.op for item in loop.body] == ["square", "multiply", "add"]
    check(program, np.linspace(0.1, 0.6, 6))


def test_a_density_within_a_loop() -> None:
    builder = Builder()
    s = builder.parameter(1)[0]

    def body(past: list, rows: list) -> list:
        builder.density("normal", rows[0], past[0][0], 1.0)
        return [past[0][0] * 0.5 + s]

    y = np.array([0.3, -1.0, 2.0])
    builder.loop(3, body, [builder.constant([0.1])], [y])
    program = builder.finish()
    check(program, np.array([0.7]))
    means = [0.1, 0.75, 1.075]
    assert program.value_and_gradient(np.array([0.7]))[0] == pytest.approx(stats.norm.logpdf(y, means, 1).sum())


def test_a_recursion_within_another_is_not_known() -> None:
    builder = Builder()
    builder.parameter(1)

    def body(past: list, rows: list) -> list:
        return builder.loop(2, lambda p, r: [p[0][0]], [past[0]])

    with pytest.raises(NotLowered):
        builder.loop(2, body, [np.zeros(1)])


# ------------------------------------------------------------------------------------- threads


def test_threads_do_not_disturb_one_another() -> None:
    rng = np.random.default_rng(4)
    builder = Builder()
    x = builder.parameter(50)
    builder.density("normal", x, 0.0, builder.elementwise("exp", x[::-1]))
    builder.density("student_t", rng.normal(size=50), 4.0, builder.elementwise("sin", x), 1.0)
    program = builder.finish()
    points = rng.normal(0, 0.5, (8, 50))
    alone = [program.value_and_gradient(point) for point in points]
    wrong = []

    def many(k: int) -> None:
        for _ in range(300):
            value, gradient = program.value_and_gradient(points[k])
            if value != alone[k][0] or not np.array_equal(gradient, alone[k][1]):
                wrong.append(k)

    threads = [threading.Thread(target=many, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_where_the_density_is_not_finite() -> None:
    builder = Builder()
    builder.density("uniform", builder.parameter(1)[0], 0.0, 1.0)
    program = builder.finish()
    gradient, value = np.zeros(1), np.zeros(1)
    user = program.arenas.user_data.ctypes.data

    def status(x: float) -> int:
        point = np.array([x])
        return program.callback.ctypes(1, point.ctypes.data, gradient.ctypes.data, value.ctypes.data, user)

    assert (status(0.5), value[0]) == (0, 0.0)
    assert (status(1.5), value[0]) == (4, -np.inf)
    other = Builder()
    other.add(other.elementwise("sqrt", other.parameter(1)))
    program = other.finish()
    user = program.arenas.user_data.ctypes.data
    assert status(0.0) == 3


# ------------------------------------------------------------------------------- order in memory


@pytest.mark.parametrize("shape", [(40, 3), (3, 40), (2, 40, 3), (40, 2, 3)])
@pytest.mark.parametrize("turned", [False, True])
def test_short_last_axes(shape: tuple[int, ...], turned: bool) -> None:
    """Results with a short last axis lie in memory with the longest axis last; values and shapes are the same."""
    rng = np.random.default_rng(5)
    builder = Builder()
    n = len(shape)
    columns = [builder.parameter(m).reshape([m if i == k else 1 for i in range(n)]) for k, m in enumerate(shape)]
    mean = columns[0] * rng.normal(size=shape[1:]) + builder.elementwise("tanh", columns[1])
    if n == 3:
        mean = mean * columns[2]
    if turned:
        mean, y = mean.T, rng.normal(size=shape[::-1])
    else:
        y = rng.normal(size=shape)
    builder.density("normal", y, mean, 1.5)
    builder.density("normal", mean.reshape(-1), mean.sum(0).sum(), 2.0)
    builder.add(builder.log_density("normal", y, mean, 0.7) * rng.normal(size=y.shape))
    program = weighted(builder, builder.elementwise("exp", mean * 0.1))
    check(program, rng.normal(size=program.n_dim))


def test_axes_that_cannot_be_joined() -> None:
    """Sums, products, copies and recursions over every third value of transposed arrays."""
    builder = Builder()
    x = builder.parameter(120).reshape(4, 5, 6)[::2, ::3, ::4].transpose(2, 0, 1)
    builder.add(x * 1.0, 0.5)
    builder.add(x)
    builder.density("normal", x, builder.parameter(4).reshape(2, 2, 1), 1.0)
    (h,) = builder.loop(2, lambda past, rows: [past[0][0] * rows[0]], [x[:1]], [x])
    program = weighted(builder, builder.concatenate([h.ravel(), x.ravel(), x.sum(1).ravel()]))
    check(program, np.random.default_rng(6).normal(size=124))


RECURSIONS = {
    "a term and a factor": lambda y, x, p: x + p[0] * y,
    "factors by row": lambda y, x, p: p[1] + x * y,
    "factored out": lambda y, x, p: (y - p[0]) * p[1] + p[0] * x,
    "smoothing": lambda y, x, p: y + p[0] * (x - y),
    "divided and negated": lambda y, x, p: -(y / (2.0 + p[0] * p[0])) - x,
    "an error of moving averages": lambda y, x, p: x - p[0] - p[1] * y,
    "no term": lambda y, x, p: y * p[0],
}


@pytest.mark.parametrize("shape", [(), (3,)], ids=["one series", "three series"])
@pytest.mark.parametrize("name", RECURSIONS)
def test_linear_recursions_are_one_instruction(name: str, shape: tuple[int, ...]) -> None:
    rule, rng = RECURSIONS[name], np.random.default_rng(4)
    rows, steps = rng.normal(size=(9, *shape)), 9
    builder = Builder()
    first, p = builder.parameter(3).reshape(3)[: int(np.prod(shape))].reshape(1, *shape), builder.parameter(2)
    (out,) = builder.loop(steps, lambda past, now: [rule(past[0][0], now[0], p)], [first], [rows])
    program = weighted(builder, out)
    assert not any(isinstance(item, Loop) for item in program.instructions)
    assert sum(item.op == "recursion" for item in program.instructions) == 1
    point = rng.normal(scale=0.7, size=5)
    want, y = [], point[: int(np.prod(shape))].reshape(shape)
    for t in range(steps):
        y = rule(y, rows[t], point[3:])
        want.append(y)
    np.testing.assert_allclose(program.outputs(point[None])["out"][0], want, rtol=1e-13, atol=1e-14)
    check(program, point)


def test_other_recursions_stay_loops() -> None:
    for rule in (
        lambda y: y * y,
        lambda y: 1.0 / y,
        lambda y: y.builder.elementwise("exp", -y),
        lambda y: y[::-1] + 1.0,
    ):
        builder = Builder()
        (out,) = builder.loop(4, lambda past, now, rule=rule: [rule(past[0][0])], [builder.parameter(2).reshape(1, 2)])
        program = weighted(builder, out)
        assert any(isinstance(item, Loop) for item in program.instructions)
        for _ in range(2):  # the rows of a loop are moved back after its last step
            check(program, np.array([0.7, -0.4]))
