"""The expression language: every function against NumPy and SciPy, broadcasting by name, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytensor.tensor as pt
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor.compile.mode import Mode
from scipy import special

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.errors import BayeslabError, ModelError
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.functions import FUNCTIONS
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")
LABELS = {
    "i": np.arange(3),
    "i2": np.arange(3),
    "j": np.array(["a", "b", "c", "d"]),
    "k": np.arange(2),
    "seven": np.arange(7),
    "row": np.arange(5),
    "size": np.array(["small", "large"]),
}
RNG = np.random.default_rng(7)
A = RNG.normal(size=(3, 4))
B = RNG.normal(size=(4, 2))
S = A @ A.T + np.eye(3)
SIZE = np.array([0, 1, 1, 0, 1])
VALUES = {
    "a": (A, ("i", "j")),
    "b": (B, ("j", "k")),
    "s": (S, ("i", "i2")),
    "x": (np.array([-1.5, 0.2, 3.0]), ("i",)),
    "p": (np.array([0.1, 0.5, 0.95]), ("i",)),
    "u": (np.array([0.3, 1.0, 2.5]), ("i",)),
    "v": (np.array([1.0, 2, 3, 4]), ("j",)),
    "n": (np.array([0, 2, 1, 1, 0]), ("row",)),
    "t": (np.array([1.0, 4, 9, 16, 25]), ("row",)),
    "M": (RNG.normal(size=(3, 5)), ("i", "row")),
    "c": (np.array(2.5), ()),
    "whole": (np.array([3, -4, 5]), ("i",)),
}
FACTORS = {"size": Term(None, ("row",), SIZE, "size", column="size")}


def evaluator(*, symbolic: bool = False, frozen: dict | None = None) -> Evaluator:
    """Names as data, or all of them as PyTensor variables."""

    def lookup(name: str) -> Term:
        if name in FACTORS:
            return FACTORS[name]
        if name in VALUES:
            value, dims = VALUES[name]
            return Term(pt.constant(value), dims) if symbolic else Term(value, dims, column=name)
        if name in LABELS:
            return Term(None, (name,), np.arange(len(LABELS[name])), name, column=name)
        raise ModelError(f"no '{name}'")

    return Evaluator(lookup, LABELS, frozen)


def value_of(term: Term) -> np.ndarray:
    return np.asarray(term.value.eval(mode=PYTHON) if term.random else term.value)


x, p, u, v, n, t, M, c, whole = (VALUES[name][0] for name in ("x", "p", "u", "v", "n", "t", "M", "c", "whole"))

# expression: (value, dims), written with NumPy and SciPy alone
CASES = {
    "abs(x)": (np.abs(x), "i"),
    "sqrt(u)": (np.sqrt(u), "i"),
    "exp(x)": (np.exp(x), "i"),
    "log(u)": (np.log(u), "i"),
    "log1p(u)": (np.log1p(u), "i"),
    "expm1(x)": (np.expm1(x), "i"),
    "log2(u)": (np.log2(u), "i"),
    "log10(u)": (np.log10(u), "i"),
    "sigmoid(x)": (special.expit(x), "i"),
    "invlogit(x)": (special.expit(x), "i"),
    "logit(p)": (special.logit(p), "i"),
    "softplus(x)": (np.log1p(np.exp(x)), "i"),
    "sin(x)": (np.sin(x), "i"),
    "cos(x)": (np.cos(x), "i"),
    "tan(x)": (np.tan(x), "i"),
    "arcsin(p)": (np.arcsin(p), "i"),
    "arccos(p)": (np.arccos(p), "i"),
    "arctan(x)": (np.arctan(x), "i"),
    "arctan2(x, u)": (np.arctan2(x, u), "i"),
    "sinh(x)": (np.sinh(x), "i"),
    "cosh(x)": (np.cosh(x), "i"),
    "tanh(x)": (np.tanh(x), "i"),
    "erf(x)": (special.erf(x), "i"),
    "erfc(x)": (special.erfc(x), "i"),
    "gammaln(u)": (special.gammaln(u), "i"),
    "digamma(u)": (special.digamma(u), "i"),
    "Phi(x)": (special.ndtr(x), "i"),
    "invprobit(x)": (special.ndtr(x), "i"),
    "probit(p)": (special.ndtri(p), "i"),
    "floor(x)": (np.array([-2, 0, 3]), "i"),
    "ceil(x)": (np.array([-1, 1, 3]), "i"),
    "round(0.7 * x)": (np.array([-1, 0, 2]), "i"),
    "sign(x)": (np.array([-1, 1, 1]), "i"),
    "minimum(x, u)": (np.minimum(x, u), "i"),
    "maximum(x, 0)": (np.maximum(x, 0), "i"),
    "clip(x, -1, u)": (np.clip(x, -1, u), "i"),
    "where(x > 0, u, -1)": (np.where(x > 0, u, -1), "i"),
    "outer(x, v)": (np.outer(x, v), "i j"),
    # operators
    "x + v": (x[:, None] + v, "i j"),
    "v - x": (v[:, None] - x, "j i"),
    "a * v / x": (A * v / x[:, None], "i j"),
    "u ** x": (u**x, "i"),
    "2 ** -1": (0.5, ""),
    "whole ** 2": (whole**2, "i"),
    "7 // 2 + 7 % 4": (6, ""),
    "whole // 2": (whole // 2, "i"),
    "whole % 3": (whole % 3, "i"),
    "x % 0.7": (x % 0.7, "i"),
    "-x + +u": (u - x, "i"),
    "7 / 2": (3.5, ""),
    "whole / 2": (whole / 2, "i"),
    "(x == 3) + (x != 3) + 2 * (x < 0) + 4 * (x <= 0.2)": (1 + 2 * (x < 0) + 4 * (x <= 0.2), "i"),
    "(x > 0.2) - (u >= 1)": (1 * (x > 0.2) - 1 * (u >= 1), "i"),
    "x > 0 and u > 1": (np.array([0, 0, 1]), "i"),
    "x > 0 or p < 0.2": (np.array([1, 1, 1]), "i"),
    "not x > 0": (np.array([1, 0, 0]), "i"),
    "-(x > 0)": (np.array([0, -1, -1]), "i"),
    "True + True": (2, ""),
    "x * True": (x, "i"),
    "c * c": (6.25, ""),
    # reductions
    "sum(a)": (A.sum(), ""),
    "sum(a, j)": (A.sum(axis=1), "i"),
    "mean(a, i)": (A.mean(axis=0), "j"),
    "prod(a, i)": (A.prod(axis=0), "j"),
    "min(a, j)": (A.min(axis=1), "i"),
    "max(a)": (A.max(), ""),
    "sd(a)": (A.std(ddof=1), ""),
    "sd(a, i)": (A.std(axis=0, ddof=1), "j"),
    "var(a, j)": (A.var(axis=1, ddof=1), "i"),
    "mean(x > 0)": (2 / 3, ""),
    "sum(whole)": (4, ""),
    "mean(3)": (3, ""),
    "logsumexp(a)": (special.logsumexp(A, axis=1), "i"),
    "logsumexp(a, i)": (special.logsumexp(A, axis=0), "j"),
    "softmax(a)": (special.softmax(A, axis=1), "i j"),
    "softmax(a, i)": (special.softmax(A, axis=0), "i j"),
    "cumsum(a)": (A.cumsum(axis=1), "i j"),
    "cumsum(a, i)": (A.cumsum(axis=0), "i j"),
    "cumprod(v)": (np.array([1, 2, 6, 24]), "j"),
    "cumsum(whole)": (whole.cumsum(), "i"),
    # linear algebra
    "a @ b": (A @ B, "i k"),
    "a @ v": (A @ v, "i"),
    "v @ a": (v @ A.T, "i"),
    "x @ a": (x @ A, "j"),
    "s @ x": (S.T @ x, "i2"),
    "[1, 2, 3, 4] @ v": (30, ""),
    # square matrices over twins: rows of the first, columns of the second
    "(s * x) @ transpose(s * x)": ((S * x[:, None]) @ (S * x[:, None]).T, "i i2"),
    "(s * x) @ s": ((S * x[:, None]) @ S, "i i2"),
    "transpose(s * x) @ (s * x)": ((S * x[:, None]).T @ (S * x[:, None]), "i2 i"),
    "inv(s * x) @ (s * x)": (np.eye(3), "i2 i"),
    "a @ (a * 2)": ((A * A * 2).sum(axis=1), "i"),
    "a @ stack([a, 2 * a], k)": ((A * A).sum(axis=1)[:, None] * [1, 2], "i k"),
    "dot(x, u)": (x @ u, ""),
    "dot(a, a, j)": ((A * A).sum(axis=1), "i"),
    "dot(a, [1, 0, 0, 1])": (A[:, 0] + A[:, 3], "i"),
    "dot(M, x)": (x @ M, "row"),
    "inv(s)": (np.linalg.inv(S), "i2 i"),
    "det(s)": (np.linalg.det(S), ""),
    "logdet(s)": (np.log(np.linalg.det(S)), ""),
    "cholesky(s)": (np.linalg.cholesky(S), "i i2"),
    "solve(s, x)": (np.linalg.solve(S, x), "i2"),
    "solve(s, a)": (np.linalg.solve(S, A), "i2 j"),
    "solve(s, transpose(a))": (np.linalg.solve(S, A), "i2 j"),
    "solve_lower(cholesky(s), x)": (scipy.linalg.solve_triangular(np.linalg.cholesky(S), x, lower=True), "i2"),
    "solve_lower(cholesky(s), a)": (scipy.linalg.solve_triangular(np.linalg.cholesky(S), A, lower=True), "i2 j"),
    "transpose(a)": (A.T, "j i"),
    "trace(s)": (np.trace(S), ""),
    "diagonal(s)": (np.diag(S), "i"),
    "diag(x, i2)": (np.diag(x), "i i2"),
    "eye(i, i2)": (np.eye(3), "i i2"),
    "x - rename(x, i2)": (x[:, None] - x, "i i2"),
    "rename(a, i, i2)": (A, "i2 j"),
    # dimensions and joining
    "index(j)": (np.arange(4), "j"),
    "size(j) + size(k)": (6, ""),
    "concat([x, v], seven)": (np.concatenate([x, v]), "seven"),
    "concat([0, v, c, 1], seven)": (np.array([0, 1, 2, 3, 4, 2.5, 1]), "seven"),
    "stack([x, u], k)": (np.stack([x, u], axis=1), "i k"),
    "stack([1, c], k)": (np.array([1, 2.5]), "k"),
    "stack([x, v], k)": (np.stack(np.broadcast_arrays(x[:, None], v), axis=2), "i j k"),
    "x * [1, 2, 3]": (x * [1, 2, 3], "i"),
    "a + [1, 2, 3, 4]": (A + np.array([1, 2, 3, 4]), "i j"),
    # indexing
    "v[0]": (1, ""),
    "a[2, 1]": (A[2, 1], ""),
    'v["c"]': (3, ""),
    'a["c"]': (A[:, 2], "i"),
    'a[0, "d"]': (A[0, 3], ""),
    "a[i, 3]": (A[:, 3], "i"),
    "a[1, j]": (A[1], "j"),
    "x[n]": (x[n], "row"),
    "a[n, n]": (A[n, n], "row"),
    "x[n] * t": (x[n] * t, "row"),
    "x[whole // 3 + 2 * (whole < 0)]": (x[[1, 0, 1]], "i"),
    'size == "large"': (SIZE, "row"),
    '"small" != size': (SIZE, "row"),
    "stack([10, 20], size)[size]": (np.array([10, 20, 20, 10, 20]), "row"),
    # time
    "lag(t, 2, start=7)": (np.array([7, 7, 1, 4, 9]), "row"),
    "lag(M, 1, start=x)": (np.concatenate([x[:, None], M[:, :-1]], axis=1), "i row"),
    "lag(M, 2, start=0)": (np.concatenate([np.zeros((3, 2)), M[:, :-2]], axis=1), "i row"),
}


@pytest.mark.parametrize("symbolic", [False, True], ids=["numpy", "pytensor"])
@pytest.mark.parametrize("text", CASES)
def test_value_and_dims_are_those_of_numpy(text, symbolic):
    expected, dims = CASES[text]
    term = evaluator(symbolic=symbolic).term(parse(text))
    assert " ".join(map(str, term.dims)) == dims or sorted(map(str, term.dims)) == sorted(dims.split())
    order = [term.dims.index(d) for d in dims.split()]
    np.testing.assert_allclose(value_of(term).transpose(order), expected, rtol=1e-12, atol=1e-15)
    assert not term.undefined


def test_every_function_has_a_case():
    called = set().union(*(parse(text).calls for text in CASES))
    # One stands only inside a recursion, the other is of columns with gaps (test_graph_missing.py).
    assert FUNCTIONS.keys() - called == {"previous", "isnan"}


@pytest.mark.parametrize("text", [text for text in CASES if parse(text).names & {"x", "a", "v", "s"}])
def test_single_precision_never_slips_in(text):
    """PyTensor would take the numbers of an expression for single precision."""
    term = evaluator(symbolic=True).term(parse(text))
    assert not term.random or str(term.value.dtype) in ("float64", "int64")


def test_where_takes_a_choice_of_integers():
    assert value_of(evaluator().term(parse("where(n, 1, 0)"))).tolist() == [0, 1, 1, 1, 0]


# ---------------------------------------------------------------------------- broadcasting by name

SIDES = {"i": 2, "j": 3, "k": 4, "l": 5}


@st.composite
def named_arrays(draw):
    """Three arrays with some of the dims, each in some order."""
    out = {}
    for name in ("first", "second", "third"):
        dims = draw(st.lists(st.sampled_from(list(SIDES)), unique=True, max_size=3))
        out[name] = tuple(draw(st.permutations(dims)))
    return out


def filled(dims: tuple[str, ...], seed: int) -> np.ndarray:
    """Numbers that belong to names: the same however the dims are ordered."""
    canonical = tuple(sorted(dims))
    array = np.random.default_rng(seed).normal(size=[SIDES[d] for d in canonical])
    return array.transpose([canonical.index(d) for d in dims])


def named(arrays, text: str, *, symbolic: bool) -> np.ndarray:
    """The value with its axes in the order of the alphabet."""
    labels = {d: np.arange(size) for d, size in SIDES.items()}

    def lookup(name: str) -> Term:
        value = filled(arrays[name], sum(map(ord, name)))
        return Term(pt.constant(value), arrays[name]) if symbolic else Term(value, arrays[name])

    term = Evaluator(lookup, labels).term(parse(text))
    shape = tuple(SIDES[d] for d in term.dims)
    value = value_of(term)
    assert np.broadcast_shapes(value.shape, shape) == shape
    return np.broadcast_to(value, shape).transpose([term.dims.index(d) for d in sorted(term.dims)])


FORMULAS = (
    "first * second + third",
    "where(first > second, third, 2) - first / 3",
    "maximum(third, second) ** 2 * first",
)


@settings(max_examples=60, deadline=None)
@given(named_arrays(), st.sampled_from(FORMULAS), st.randoms())
def test_the_order_of_dims_does_not_matter(arrays, text, random):
    shuffled = {name: tuple(random.sample(dims, len(dims))) for name, dims in arrays.items()}
    one, other = (named(each, text, symbolic=False) for each in (arrays, shuffled))
    np.testing.assert_array_equal(one, other)
    # And against positions: every array with all four axes.
    places = {
        name: filled(tuple(sorted(dims)), sum(map(ord, name))).reshape([SIDES[d] if d in dims else 1 for d in SIDES])
        for name, dims in arrays.items()
    }
    by_place = eval(text, {"where": np.where, "maximum": np.maximum} | places)
    used = sorted(set().union(*(arrays[name] for name in parse(text).names)))
    np.testing.assert_array_equal(one, by_place.reshape([SIDES[d] for d in used]))


@settings(max_examples=15, deadline=None)
@given(named_arrays(), st.sampled_from(FORMULAS))
def test_pytensor_broadcasts_like_numpy(arrays, text):
    one, other = (named(arrays, text, symbolic=symbolic) for symbolic in (False, True))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_product_that_could_be_two_is_refused():
    with refused("model.bad-dimensions", "share 'i', 'j'"):
        evaluator().eval(parse("a @ transpose(a)").tree)


@settings(max_examples=60, deadline=None)
@given(st.permutations("ijk"), st.permutations("jl"), st.sampled_from("ijk"))
def test_products_and_reductions_go_by_name(first, second, dim):
    arrays = {"first": tuple(first), "second": tuple(second)}
    a, b = filled(("i", "j", "k"), sum(map(ord, "first"))), filled(("j", "l"), sum(map(ord, "second")))
    np.testing.assert_allclose(named(arrays, "first @ second", symbolic=False), np.einsum("ijk,jl->ikl", a, b))
    np.testing.assert_allclose(named(arrays, "dot(second, first)", symbolic=False), np.einsum("ijk,jl->ikl", a, b))
    axis = "ijk".index(dim)
    np.testing.assert_allclose(named(arrays, f"sum(first, {dim})", symbolic=False), a.sum(axis=axis))
    np.testing.assert_allclose(named(arrays, f"softmax(first, {dim})", symbolic=False), special.softmax(a, axis=axis))
    np.testing.assert_allclose(named(arrays, f"cumsum(first, {dim})", symbolic=False), a.cumsum(axis=axis))


@pytest.mark.parametrize("dims", list(itertools.permutations(("i", "j"))))
def test_a_node_does_not_care_how_its_array_is_stored(dims):
    array = filled(("i", "j"), 3)
    model = bl.Model(
        data={"dims": {"y": list(dims)}},
        model={"family": "graph", "nodes": {"m[i]": "Normal(0, 1)", "y[i, j]": "Normal(m, 1)"}},
    )
    stored = array if dims == ("i", "j") else array.T
    graph = bl.to_pymc(model, {"y": stored})
    found = graph.compile_logp(mode=PYTHON)({"m": np.array([0.5, -1.0])})
    m = np.array([0.5, -1.0])
    expected = -0.5 * (m**2).sum() - 0.5 * ((array - m[:, None]) ** 2).sum() - 4 * np.log(2 * np.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# -------------------------------------------------------------------------------- frozen reductions


def test_reductions_of_data_keep_the_values_they_had():
    frozen: dict = {}
    first = evaluator(frozen=frozen).term(parse("(t - mean(t)) / sd(t)"))
    assert frozen.keys() == {"mean(t)", "sd(t)"}
    np.testing.assert_allclose(value_of(first), (t - 11) / t.std(ddof=1))
    frozen["mean(t)"] = 100.0
    second = evaluator(frozen=frozen).term(parse("t - mean(t)"))
    np.testing.assert_allclose(value_of(second), t - 100)


def test_reductions_of_random_values_are_never_frozen():
    frozen: dict = {}
    evaluator(symbolic=True, frozen=frozen).term(parse("mean(t) + sd(a, i)"))
    assert frozen == {}


def test_new_data_are_standardised_as_the_old_ones_were():
    model = bl.Model(
        data={"derive": {"z": "(x - mean(x)) / sd(x)"}},
        model={"family": "graph", "nodes": {"b": "Normal(0, 1)", "y[obs_id]": "Normal(b * z, 1)"}},
    )
    old = bind(model, Dataset.from_columns({"x": [1.0, 2.0, 3.0], "y": [0.0, 0, 0]}, model.data), set())
    assert old.term("z").value.tolist() == [-1, 0, 1]
    new = bind(model, Dataset.from_columns({"x": [5.0, 2.0]}, model.data), set(), old.memory())
    assert new.term("z").value.tolist() == [3, 0]


def test_reductions_within_a_row_belong_to_the_row():
    """A mean over the features of a row says nothing about the rows of new data."""
    model = bl.Model(
        data={"dims": {"X": ["obs_id", "feature"]}, "derive": {"total": "sum(X, feature)"}},
        model={"family": "graph", "nodes": {"b": "Normal(0, 1)", "y[obs_id]": "Normal(b * total, 1)"}},
    )
    old = bind(model, Dataset.from_columns({"X": np.ones((3, 2)), "y": [0.0, 0, 0]}, model.data), set())
    assert old.term("total").value.tolist() == [2, 2, 2]
    new = bind(model, Dataset.from_columns({"X": np.full((2, 2), 5.0)}, model.data), set(), old.memory())
    assert new.term("total").value.tolist() == [10, 10]


def test_reductions_leave_out_the_rows_a_lag_leaves_undefined():
    assert value_of(evaluator().term(parse("sum(lag(t, 2))"))) == 1 + 4 + 9
    kept = evaluator().term(parse("sum(lag(M, 2), i)"))
    assert kept.undefined == {"row": 2}


# ------------------------------------------------------------------------------------------- errors

WRONG = {
    "x + no": ("model.other", "'no'", 4),
    "sum(x, j)": ("model.unknown-dimension", "'x'.*'j'", 0),
    "sum(x, jj)": ("model.unknown-dimension", "'jj'.*'j'", 0),
    "softmax(c)": ("model.bad-dimensions", r"softmax\(\).*'c'", 0),
    "x @ v": ("model.bad-dimensions", r"'@'.*\(i\).*\(j\)", 0),
    "dot(a, a)": ("model.bad-dimensions", r"dot\(\).*'i', 'j'.*dot\(a, b, dim\)", 0),
    "dot(x, v)": ("model.bad-dimensions", r"dot\(\)", 0),
    "inv(a)": ("model.bad-dimensions", r"inv\(\).*'a'.*3 × 4", 0),
    "inv(x)": ("model.bad-dimensions", r"inv\(\).*'x'.*1", 0),
    "cholesky(0 * s)": ("model.not-a-covariance", "cholesky", 0),
    "solve(s, v)": ("model.bad-dimensions", "solve.*'i'", 0),
    "diag(a, i2)": ("model.bad-dimensions", "diag", 0),
    "rename(a, i2)": ("model.wrong-arguments", "rename", 0),
    "rename(x, j)": ("model.wrong-length", "'i'.*3.*'j'.*4", 0),
    "rename(a, i, j)": ("model.wrong-length", "'i'.*3.*'j'.*4", 0),
    "rename(s, i, i2)": ("model.name-clash", "'i2'", 0),
    "concat([x, x], seven)": ("model.wrong-length", "6.*'seven'.*7", 0),
    "concat([a, x], seven)": ("model.bad-dimensions", "concat", 0),
    "concat(x, i)": ("model.wrong-arguments", "concat", 0),
    "stack([x], k)": ("model.wrong-length", "'k'.*2", 0),
    "c[0]": ("model.bad-dimensions", "'c'", 0),
    "x[3]": ("model.out-of-range", "3.*'3'.*0..2", 0),
    "x[-1]": ("model.out-of-range", "-1", 0),
    "x[0.5]": ("model.not-whole", "'0[.]5'", 0),
    "x[size]": ("model.bad-dimensions", r"'x'.*\(i\).*'size'", 0),
    "a[0]": ("model.bad-dimensions", "'a'.*2", 0),
    'v["z"]': ("model.unknown-level", "'z'", 0),
    'x == "a"': ("model.not-states", "'x'.*'a'", 0),
    'size == "huge"': ("model.unknown-level", "'size'.*'huge'", 0),
    'size < "large"': ("model.syntax", "== and !=", 0),
    "size + 1": ("model.not-numbers", "'size'", 0),
    "mean(size)": ("model.not-numbers", r"'size'.*mean\(\)", 0),
    '"large"': ("model.misplaced", "'large'", 0),
    "None + 1": ("model.misplaced", "None", 0),
    "x + [1, 2]": ("model.bad-dimensions", "2.*'i'", 0),
    "lag(c, 1)": ("model.bad-dimensions", r"lag\(\)", 0),
    "lag(t, 5)": ("model.out-of-range", "5.*'row'", 0),
    "lag(t, 0)": ("model.wrong-arguments", r"lag\(\).*1", 0),
    "lag(size, 1)": ("model.not-numbers", r"lag\(\).*'size'", 0),
    "previous(t, 1, start=0)": ("model.misplaced", "previous", 0),
    "Normal(0, 1)": ("model.unknown-function", r"'Normal\(\.\.\.\)'", 0),
    "sqrtt(x)": ("model.unknown-function", "'sqrtt.*'sqrt'", 0),
    "sqrt(x, u)": ("model.wrong-arguments", r"sqrt\(\).*1.*2", 0),
    "sum(x, dim=i)": ("model.wrong-arguments", r"sum\(\).*'dim'", 0),
    "exp(1 + sum(x, j))": ("model.unknown-dimension", "'x'.*'j'", 8),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_expressions_say_what_and_where(text):
    code, match, offset = WRONG[text]
    with refused(code, match) as caught:
        evaluator().term(parse(text))
    assert caught.value.offset == offset


NOT_PARSED = {
    "": ("model.syntax", "empty"),
    "x +": ("model.syntax", ""),
    "x ^ 2": ("model.syntax", r"'\^'"),
    "x & u": ("model.syntax", r"\+ - \* / // % \*\* @"),
    "a.T": ("model.syntax", "attribute"),
    "__import__('os')": ("model.reserved-name", "'__import__'"),
    "(lambda: 1)()": ("model.syntax", "functions.*distributions"),
    "[y for y in x]": ("model.syntax", "comprehension"),
    "x if c else u": ("model.syntax", r"where\(b, a, c\)"),
    "1 < x < 2": ("model.syntax", "chained"),
    "x is u": ("model.syntax", "== != <"),
    "a[0:2]": ("model.syntax", "slice"),
    "f(*x)": ("model.syntax", r"^\* "),
    "f(**x)": ("model.syntax", r"^\*\* "),
    "{1: 2}": ("model.syntax", "dictionary"),
    "f'{x}'": ("model.syntax", "formatted"),
    "(y := 3)": ("model.syntax", "assignment"),
    "~x": ("model.syntax", "'~x'"),
    "b'x'": ("model.syntax", "b'x'"),
    "1j": ("model.syntax", "'1j'"),
    "...": ("model.syntax", r"'\.\.\.'"),
    "[]": ("model.syntax", "list"),
    "9" * 30: ("model.too-large", "64"),
    "(" * 70 + "x" + ")" * 70 + "+ 1" * 70: ("model.too-deep", "60"),
    "x" * 6000: ("model.too-deep", "6,000.*5,000"),
}


@pytest.mark.parametrize("text", NOT_PARSED, ids=range(len(NOT_PARSED)))
def test_what_is_not_in_the_language_is_refused(text):
    with refused(*NOT_PARSED[text]):
        parse(text)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("xaijst01 ()[],.+-*/@%<>=!\"'&|~:_eEfn\n\\{}")))
def test_any_text_is_read_or_refused(text):
    try:
        expression = parse(text)
        evaluator().term(expression)
    except BayeslabError as error:
        assert error.message


def test_missing_cells_do_not_reduce():
    frame = {"x": [1.0, None, 3.0], "y": [0.0, 1.0, 2.0]}
    model = bl.Model(
        data={"derive": {"z": "x - mean(x)"}},
        model={"family": "graph", "nodes": {"b": "Normal(0, 1)", "y[obs_id]": "Normal(b * z, 1)"}},
    )
    with refused("data.not-finite", where="data.derive.z"):
        bl.to_pymc(model, frame)
