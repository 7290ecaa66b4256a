"""The compiled graph against PyMC models written by hand: same log density at random points.

Each case is a model in the language, data, and a function that writes the same model in plain
PyMC: positional NumPy, loops where the language recurs, sums over states where it sums discrete
nodes out. No bayeslab code is used on that side. The cases together use every function and every
modifier of the language (the last tests see to that).
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.scalar.basic import autocast_float_as
from scipy import stats
from scipy.special import beta as beta_function

import bayeslab as bl
from bayeslab.distributions import MODIFIERS
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.nodes import nodes_of
from bayeslab.posterior.density import Density
from bayeslab.preparation import Source

pytestmark = pytest.mark.usefixtures("double_precision")

PYTHON = Mode("py", "fast_compile")
# Rewriting merges sums of many terms, and Python adds at most 32 at once.
PLAIN = {"random_walks": Mode("py", None)}
ORDERED = pm.distributions.transforms.ordered


@dataclass(frozen=True)
class Case:
    nodes: Mapping[str, str | int | float]
    write: Callable[[Mapping[str, Any]], None]
    data: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    numba: bool = False
    rtol: float = 1e-9

    def ours(self) -> pm.Model:
        model = bl.Model(
            data=dict(self.source), dims=dict(self.dims), model={"family": "graph", "nodes": dict(self.nodes)}
        )
        # The numbers of the model must be in double precision as things are (see `double_precision`).
        with autocast_float_as("float16", "float32", "float64"):
            return bl.to_pymc(model, dict(self.data))

    def theirs(self) -> pm.Model:
        with warnings.catch_warnings(), pm.Model() as model:
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            self.write(self.data)
        return model


CASES: dict[str, Case] = {}


def case(nodes: Mapping[str, Any], **rest: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def add(write: Callable[..., None]) -> Callable[..., None]:
        CASES[write.__name__] = Case(nodes, write, **rest)
        return write

    return add


def points(model: pm.Model, name: str, count: int = 4) -> Iterator[dict[str, np.ndarray]]:
    """Random unconstrained points around the model's start."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    start = model.initial_point()
    for _ in range(count):
        yield {k: np.asarray(v + rng.normal(0, 0.6, np.shape(v))) for k, v in start.items()}


@cache
def handwritten(name: str) -> tuple[pm.Model, Callable[[dict[str, np.ndarray]], np.ndarray]]:
    """The model written in PyMC and its density: compiled once for all tests of a case."""
    theirs = CASES[name].theirs()
    return theirs, theirs.compile_logp(jacobian=True, mode=PLAIN.get(name, PYTHON))


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES_IN_ORDER := [])
def test_log_density_equals_the_handwritten_model(name):
    ours = CASES[name].ours()
    theirs, right = handwritten(name)
    assert {v.name for v in ours.value_vars} == {v.name for v in theirs.value_vars}
    mine = ours.compile_logp(jacobian=True, mode=PLAIN.get(name, PYTHON))
    for point in points(theirs, name):
        expected = right(point)
        assert np.isfinite(expected)
        np.testing.assert_allclose(mine(point), expected, rtol=CASES[name].rtol)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ON_THE_MACHINE := [])
def test_the_density_machine_equals_the_handwritten_model(name):
    """Value and gradient of a program, which is not compiled for the model."""
    case = CASES[name]
    model = bl.Model(data=dict(case.source), dims=dict(case.dims), model={"family": "graph", "nodes": dict(case.nodes)})
    posterior = Source(model).posterior(dict(case.data))
    machine = posterior.machine_model()
    theirs, right = handwritten(name)
    with warnings.catch_warnings():
        # PyMC's spline has a gradient of PyTensor's older kind.
        warnings.filterwarnings("ignore", message="SplineWrapper should implement", category=FutureWarning)
        slope = theirs.compile_dlogp(jacobian=True, mode=PLAIN.get(name, PYTHON))
    order = [v.name for v in theirs.continuous_value_vars]
    assert {p.value_name for p in machine.parameters} == set(order)
    for point in points(theirs, name):
        flat = np.concatenate([np.ravel(point[p.value_name]) for p in machine.parameters])
        value, gradient = machine.program.value_and_gradient(flat)
        np.testing.assert_allclose(value, right(point), rtol=case.rtol)
        ends = np.cumsum([point[word].size for word in order])[:-1]
        expected = dict(zip(order, np.split(slope(point), ends), strict=True))
        expected = np.concatenate([expected[p.value_name] for p in machine.parameters])
        np.testing.assert_allclose(gradient, expected, rtol=100 * case.rtol, atol=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", COMPILED := [])
def test_compiled_density_and_gradient_equal_the_handwritten_model(name):
    """What the sampler calls: machine code behind a C callback."""
    theirs, right = handwritten(name)
    density = Density.of(CASES[name].ours())
    slope = theirs.compile_dlogp(jacobian=True, mode=PYTHON)
    order = [v.name for v in theirs.continuous_value_vars]
    for point in points(theirs, name):
        value, gradient = density(density.flat(point))
        flat, expected, at = density.split(gradient[None]), slope(point), 0
        np.testing.assert_allclose(value, right(point), rtol=CASES[name].rtol)
        for word in order:
            size = flat[word].size
            np.testing.assert_allclose(
                flat[word].ravel(), expected[at : at + size], rtol=100 * CASES[name].rtol, atol=1e-9, err_msg=word
            )
            at += size


# ------------------------------------------------------------------------------- hierarchies

SCHOOLS = {
    "school": list("ABCDEFGH"),
    "y": np.array([28, 8, -3, 7, -1, 1, 18, 12]),
    "sigma": np.array([15, 10, 16, 11, 9, 11, 10, 18]),
}


def two_correlated(eta):
    """PyMC 6.3 multiplies the density of a correlation r by the integral of (1 - r²)^(eta - 1) where it should divide."""
    integral = 2 ** (2 * eta - 1) * beta_function(eta, eta)
    pm.Potential("lkj", pt.constant(-2 * np.log(integral)))


@case(
    {
        "mu": "Normal(0, 5)",
        "tau": "HalfCauchy(5)",
        "z[school]": "Normal(0, 1)",
        "theta[school]": "mu + tau * z",
        "y[school]": "Normal(theta, sigma)",
    },
    data=SCHOOLS,
    source={"rows": "school"},
    numba=True,
)
def eight_schools(d):
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfCauchy("tau", 5.0)
    z = pm.Normal("z", 0.0, 1.0, shape=8)
    pm.Normal("y", mu + tau * z, d["sigma"], observed=d["y"])


HOMES = pd.DataFrame(
    {
        "county": ["clay", "aitkin", "clay", "anoka", "anoka", "clay", "aitkin", "brown", "anoka"],
        "floor": [1, 0, 0, 1, 0, 0, 0, 1, 0],
        "log_radon": [0.8, 1.1, 0.2, -0.3, 1.9, 0.6, 0.0, 1.4, 0.7],
    }
)
COUNTIES = pd.DataFrame(
    {
        "county": ["brown", "aitkin", "clay", "anoka"],
        "region": ["south", "north", "south", "north"],
        "uranium": [0.3, -0.7, 0.1, -0.4],
    }
)
REGIONS = pd.DataFrame({"region": ["south", "north"], "rain": [2.0, 3.5]})


@case(
    {
        "g0": "Normal(0, 1)",
        "g1": "Normal(0, 1)",
        "tau": "HalfNormal(1)",
        "r[region]": "Normal(0.1 * rain, 2)",
        "a[county]": "Normal(g0 + g1 * uranium + r[region], tau)",
        "b": "Normal(0, 1)",
        "sigma": "HalfNormal(1)",
        "log_radon[home]": "Normal(a[county] + r[region[county]] * floor + b * uranium[county], sigma)",
    },
    data={"home": HOMES, "county": COUNTIES, "region": REGIONS},
    source={"rows": "home", "tables": {"county": "counties.csv", "region": "regions.csv"}},
    numba=True,
)
def several_tables_and_nested_indices(d):
    # Levels in the order of their own tables, not sorted.
    county = np.array([list(d["county"].county).index(c) for c in d["home"].county])
    region = np.array([list(d["region"].region).index(r) for r in d["county"].region])
    g0, g1, tau = pm.Normal("g0", 0.0, 1.0), pm.Normal("g1", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
    r = pm.Normal("r", 0.1 * d["region"].rain.to_numpy(), 2.0)
    uranium = d["county"].uranium.to_numpy()
    a = pm.Normal("a", g0 + g1 * uranium + r[region], tau, shape=4)
    b, sigma = pm.Normal("b", 0.0, 1.0), pm.HalfNormal("sigma", 1.0)
    mean = a[county] + r[region[county]] * d["home"].floor.to_numpy() + b * uranium[county]
    pm.Normal("log_radon", mean, sigma, observed=d["home"].log_radon.to_numpy())


CROSSED = {
    "county": ["B", "A", "C", "A", "C", "B", "B"],
    "year": np.array([2001, 2003, 2001, 2002, 2002, 2003, 2001]),
    "visit": np.array([0, 1, 1, 0, 2, 2, 1]),
    "y": np.array([0.3, -1.2, 0.4, 2.0, 1.1, -0.6, 0.9]),
}


@case(
    {
        "a[county, year]": "Normal(0, 1)",
        "b[visit_no]": "Normal(0, 2)",
        "c[side]": "Normal(0, 3)",
        "e[county, side]": "Normal(c, 1)",
        "s[county]": "LogNormal(0, 1)",
        "mean[obs_id]": 'a[county, year] + a[year, county] / 2 + b[visit] + b[0] * (county == "A") + c["left"]'
        ' - (county != "B") * e[county, "right"] + a["C", year] + 0.5 * (visit == 1) + a[0, 2] + e["A", 0]',
        "w[county]": 'Normal(a["2002"] + 0.1 * sum(a[county, year]), 1)',
        "y[obs_id]": "Normal(mean, s[county])",
    },
    data=CROSSED,
    dims={"side": ["left", "right"], "visit_no": 3},
)
def labels_positions_and_two_indices(d):
    county = np.array(["ABC".index(c) for c in d["county"]])
    year = d["year"] - 2001
    a = pm.Normal("a", 0.0, 1.0, shape=(3, 3))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    c = pm.Normal("c", 0.0, 3.0, shape=2)
    e = pm.Normal("e", c[None, :], 1.0, shape=(3, 2))
    s = pm.LogNormal("s", 0.0, 1.0, shape=3)
    at = a[county, year]
    mean = at + at / 2 + b[d["visit"]] + b[0] * (county == 0) + c[0] - (county != 1) * e[county, 1]
    mean = mean + a[2, year] + 0.5 * (d["visit"] == 1) + a[0, 2] + e[0, 0]
    pm.Normal("w", a[:, 1] + 0.1 * at.sum(), 1.0, shape=3)
    pm.Normal("y", mean, s[county], observed=d["y"])


@case(
    {
        "m[effect]": "Normal([0, 1], 2)",
        "L[effect, effect2]": "LKJCholeskyCov(eta=2, sd_dist=Exponential(1))",
        "b[person, effect]": "MvNormal(m, chol=L)",
        "shift": "Normal(sum(L_stds), 1)",
        "sigma": "Exponential(1)",
        "y[obs_id]": "Normal(b[person, 'one'] + b[person, 1] * x + shift * L_corr['one', 1], sigma)",
    },
    data={"person": list("ppqqrr"), "x": np.arange(6.0), "y": np.array([1.0, 0.2, 0.4, 3, -1, 0.5])},
    dims={"effect": ["one", "x_slope"], "effect2": "effect"},
)
def correlated_effects(d):
    person = np.array([0, 0, 1, 1, 2, 2])
    m = pm.Normal("m", np.array([0, 1]), 2.0)
    chol, corr, stds = pm.LKJCholeskyCov("L_packed", eta=2.0, n=2, sd_dist=pm.Exponential.dist(1.0, shape=2))
    two_correlated(2.0)
    b = pm.MvNormal("b", m, chol=chol, shape=(3, 2))
    shift = pm.Normal("shift", stds.sum(), 1.0)
    sigma = pm.Exponential("sigma", 1.0)
    pm.Normal("y", b[person, 0] + b[person, 1] * d["x"] + shift * corr[0, 1], sigma, observed=d["y"])


@case(
    {
        "C[item, item2]": "LKJCorr(eta=1.5)",
        "s[item]": "HalfNormal(1)",
        "effect[item]": "ZeroSumNormal(2)",
        "both[person, item]": "ZeroSumNormal(1, n_zerosum_axes=2)",
        "share[item]": "Dirichlet(1)",
        "shares[person, item]": "Dirichlet(1 + share)",
        "flat[person, item]": "Dirichlet([1, 2, 3])",
        "V[item, item2]": "C * s * rename(s, item2)",
        "y[person, item]": "MvNormal(effect + both + share * shares, V)",
        "z[person, item]": "MvNormal(0, V)",
        "t[item]": "MvStudentT(4, flat['p'], V)",
    },
    data={"y": np.array([[0.1, 0.5, -1], [2, 0, 1]])},
    source={"dims": {"y": ["person", "item"]}},
    dims={"item": 3, "item2": "item", "person": ["p", "q"]},
)
def correlations_simplexes_and_zero_sums(d):
    u = pm.Beta("C_partial", 1.0, 1.0, shape=3)  # flat
    z = 2 * u - 1
    # Of variables 1 and 0, 2 and 0, 2 and 1 given 0; the last makes the correlation of 2 and 1.
    r10, r20, shrink = z[0], z[1], pt.sqrt((1 - z[0] ** 2) * (1 - z[1] ** 2))
    r21 = r10 * r20 + z[2] * shrink
    one = pt.ones(())
    corr = pt.stack([pt.stack([one, r10, r20]), pt.stack([r10, one, r21]), pt.stack([r20, r21, one])])
    # det(R) ** (eta - 1) over its integral (Lewandowski et al. 2009, theorem 5), and d(r10, r20, r21) / du.
    integral = (2**3 * beta_function(2, 2)) ** 2 * 2**2 * beta_function(1.5, 1.5)
    pm.Potential("C", 0.5 * pt.log(pt.linalg.det(corr)) - np.log(integral) + pt.log(shrink) + 3 * np.log(2))
    s = pm.HalfNormal("s", 1.0, shape=3)
    effect = pm.ZeroSumNormal("effect", 2.0, shape=3)
    both = pm.ZeroSumNormal("both", 1.0, n_zerosum_axes=2, shape=(2, 3))
    share = pm.Dirichlet("share", np.ones(3))
    shares = pm.Dirichlet("shares", 1 + share, shape=(2, 3))
    flat = pm.Dirichlet("flat", np.array([1.0, 2, 3]), shape=(2, 3))
    cov = pt.diag(s) @ corr @ pt.diag(s)
    pm.MvNormal("y", effect[None, :] + both + share[None, :] * shares, cov, observed=d["y"])
    pm.MvNormal("z", np.zeros(3), cov, shape=(2, 3))
    pm.MvStudentT("t", nu=4.0, mu=flat[0], scale=cov, shape=3)


# ------------------------------------------------------------------------- functions of the language


@case(
    {
        "x[k]": "Normal(0, 1)",
        "p[k]": "sigmoid(x)",
        "q[k]": "0.9 * tanh(x)",
        "u[k]": "abs(x) + 0.1",
        "one[k]": "sqrt(u) + exp(x) * log(u) - log1p(u) + expm1(x) / 3 + log2(u) * log10(u) + x ** 2 - u ** 1.5",
        "two[k]": "invlogit(x) * logit(p) + softplus(x) + sin(x) * cos(x) + tan(0.3 * x) + arcsin(q) + arccos(q)",
        "three[k]": "arctan(x) + sinh(x) + cosh(x) + tanh(x) + erf(x) + erfc(x) + gammaln(u) + digamma(u)",
        "four[k]": "Phi(x) * invprobit(-x) + probit(p) + arctan2(x, u) + (+x) - -x",
        "five[k]": "floor(3 * x) + ceil(x) * 2 + round(2 * x) + sign(x) + (5 * u) // 2 + (7 * u) % 2",
        "target": "Potential(sum(one + 0.1 * two) + mean(three) - 0.5 * sum(four ** 2) + 0.01 * sum(five))",
    },
    dims={"k": 4},
    numba=True,
)
def elementwise_functions(_):
    x = pm.Normal("x", 0.0, 1.0, shape=4)
    p, _, u = 1 / (1 + pt.exp(-x)), 0.9 * pt.tanh(x), pt.abs(x) + 0.1
    one = u**0.5 + pt.exp(x) * pt.log(u) - pt.log(1 + u) + (pt.exp(x) - 1) / 3
    one = one + pt.log(u) / np.log(2) * pt.log(u) / np.log(10) + x * x - u * pt.sqrt(u)
    two = p * x + pt.log(1 + pt.exp(x)) + pt.sin(2 * x) / 2 + pt.tan(0.3 * x) + np.pi / 2
    three = pt.arctan(x) + pt.exp(x) + pt.tanh(x) + 1 + pt.gammaln(u) + pt.digamma(u)
    normal_cdf = (1 + pt.erf(x / np.sqrt(2))) / 2
    four = normal_cdf * (1 - normal_cdf) + np.sqrt(2) * pt.erfinv(2 * p - 1) + pt.arctan(x / u) + 2 * x
    five = pt.floor(3 * x) + 2 * -pt.floor(-x) + pt.floor(2 * x + 0.5) + pt.switch(x > 0, 1, -1)
    five = five + pt.floor(2.5 * u) + 7 * u - 2 * pt.floor(3.5 * u)
    pm.Potential("target", (one + 0.1 * two).sum() + three.mean() - 0.5 * (four**2).sum() + 0.01 * five.sum())


@case(
    {
        "A[i, j]": "Normal(0, 1)",
        "everything": "sum(A) + mean(A) + 0.1 * prod(A) + min(A) + max(A) + sd(A) + var(A)",
        "by_row[i]": "sum(A, j) * mean(A, j) + prod(A, j) - min(A, j) * max(A, j) + sd(A, j) / var(A, j)",
        "by_column[j]": "sum(A, i) + logsumexp(A, i) + mean(softmax(A, i) * A, i)",
        "run[j, i]": "cumsum(A) + 0.1 * cumprod(A, i) + softmax(A, j) * A + cumsum(A, i) * logsumexp(A, j)",
        "target": "Potential(-0.01 * (everything + sum(by_row * [1, 2]) + sum(by_column) + sum(run * index(j))))",
    },
    dims={"i": 2, "j": 3},
)
def reductions_and_cumulatives(_):
    a = pm.Normal("A", 0.0, 1.0, shape=(2, 3))
    everything = a.sum() + a.sum() / 6 + 0.1 * pt.prod(a) + pt.min(a) + pt.max(a)
    everything = everything + pt.sqrt(pt.sum((a - a.mean()) ** 2) / 5) + pt.sum((a - a.mean()) ** 2) / 5
    sd = pt.sqrt(pt.sum((a - a.mean(axis=1, keepdims=True)) ** 2, axis=1) / 2)
    by_row = a.sum(axis=1) ** 2 / 3 + a[:, 0] * a[:, 1] * a[:, 2] - pt.min(a, axis=1) * pt.max(a, axis=1) + 1 / sd
    e = pt.exp(a)
    by_column = a[0] + a[1] + pt.log(e[0] + e[1]) + (e[0] * a[0] + e[1] * a[1]) / (e[0] + e[1]) / 2
    steps = pt.stack([a[:, 0], a[:, 0] + a[:, 1], a[:, 0] + a[:, 1] + a[:, 2]], axis=1)
    rows = e.sum(axis=1, keepdims=True)
    run = steps + 0.1 * pt.stack([a[0], a[0] * a[1]]) + e / rows * a
    run = run + pt.stack([a[0], a[0] + a[1]]) * pt.log(rows)
    total = everything + (by_row * np.array([1, 2])).sum() + by_column.sum() + (run * np.arange(3)).sum()
    pm.Potential("target", -0.01 * total)


X = np.array([[1.0, 0.2], [1, -0.5], [1, 1.3], [1, 0.1], [1, 2.2]])


@case(
    {
        "beta[feature]": "Normal(0, 2)",
        "W[feature, out]": "Normal(0, 1)",
        "g[feature, feature2]": "X @ rename(X, feature, feature2)",
        "S[feature, feature2]": "0.1 * g + diag(exp(beta), feature2)",
        "low[feature, feature2]": "cholesky(S)",
        "inverse[feature2, feature]": "inv(S)",
        "solved[feature2]": "solve(S, beta)",
        "solved_many[feature2, out]": "solve(S, W)",
        "forward[feature2, out]": "solve_lower(low, W)",
        "forward_one[feature2]": "solve_lower(low, beta)",
        "swapped[out, feature]": "transpose(W) + 0.1 * (W @ S)[out, feature2] @ eye(feature2, feature)",
        "numbers": "det(S) + logdet(S) + trace(inverse) + sum(diagonal(S) * beta) + dot(beta, beta) + size(obs_id)",
        "mean[obs_id]": "X @ beta + dot(X, swapped, feature)[obs_id, 'u'] + dot(beta, beta)",
        "more": "sum(solved * index(feature2)) + sum(forward) + sum(solved_many) + dot(forward_one, forward_one)",
        "quad": "sum(outer(beta, solved)) + [1, 2] @ beta + dot([3, 4], solved)",
        "target": "Potential(-0.001 * (numbers + more + quad))",
        "y[obs_id]": "Normal(mean, 1)",
    },
    data={"X": X, "y": np.array([0.1, 0.4, -1, 2, 0.3])},
    source={"dims": {"X": ["obs_id", "feature"]}},
    dims={"feature": ["a", "b"], "feature2": "feature", "feature3": "feature", "out": ["u", "v", "w"]},
)
def linear_algebra(d):
    x = d["X"]
    beta = pm.Normal("beta", 0.0, 2.0, shape=2)
    w = pm.Normal("W", 0.0, 1.0, shape=(2, 3))
    s = 0.1 * x.T @ x + pt.diag(pt.exp(beta))
    det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
    inverse = pt.stack([pt.stack([s[1, 1], -s[0, 1]]), pt.stack([-s[1, 0], s[0, 0]])]) / det
    l00 = pt.sqrt(s[0, 0])
    l10 = s[1, 0] / l00
    l11 = pt.sqrt(s[1, 1] - l10**2)

    def forward(b):
        first = b[0] / l00
        return pt.stack([first, (b[1] - l10 * first) / l11])

    solved = inverse @ beta
    swapped = w.T + 0.1 * w.T @ s
    numbers = det + pt.log(det) + pt.trace(inverse) + s[0, 0] * beta[0] + s[1, 1] * beta[1] + (beta**2).sum() + 5
    mean = x @ beta + x @ swapped[0] + (beta**2).sum()
    more = solved[1] + forward(w).sum() + (inverse @ w).sum() + (forward(beta) ** 2).sum()
    quad = beta.sum() * solved.sum() + beta[0] + 2 * beta[1] + 3 * solved[0] + 4 * solved[1]
    pm.Potential("target", -0.001 * (numbers + more + quad))
    pm.Normal("y", mean, 1.0, observed=d["y"])


@case(
    {
        "a": "Normal(0, 1)",
        "v[three]": "Normal(index(three), size(three))",
        "joined[six]": "concat([0, a, v, a ** 2], six)",
        "M[three, pair]": "stack([v, 2 * v - a], pair)",
        "listed[three]": "[1, a, a * 2]",
        "nested[pair, three]": "stack([1, a], pair) * v",
        "x[three]": "Normal(listed, [1, 2, 3])",
        "chosen[three]": "where(v > x, v, -x) + clip(v, -0.5, 0.5) + minimum(v, x) * maximum(v, 0)",
        "truth[three]": "(v > 0) + (x > 0) + 2 * (v <= x) - (v >= 0.3) * (x < 0.2) + (v == v) + (v != x)",
        "logic[three]": "(v > 0 and x > 0) + 3 * (v > 0 or x > 0) + 5 * (not v > 0) - (x > 0)",
        "n": "sum(v > 0) + mean(x > 0)",
        "target": "Potential(0.1 * sum(chosen) + 0.01 * sum(truth * index(three) + logic) - 0.1 * n"
        " - 0.01 * (sum(joined * index(six)) + sum(M[three, 1]) + sum(nested)))",
    },
    dims={"three": 3, "pair": 2, "six": 6},
)
def joining_choosing_and_logic(_):
    a = pm.Normal("a", 0.0, 1.0)
    v = pm.Normal("v", np.arange(3.0), 3.0)
    x = pm.Normal("x", pt.stack([pt.ones(()), a, 2 * a]), np.array([1, 2, 3]))
    joined = pt.concatenate([pt.zeros(1), a[None], v, a[None] ** 2])
    positive_v, positive_x = pt.switch(v > 0, 1.0, 0.0), pt.switch(x > 0, 1.0, 0.0)
    chosen = pt.switch(v > x, v, -x) + pt.clip(v, -0.5, 0.5) + pt.switch(v < x, v, x) * v * positive_v
    truth = positive_v + positive_x + pt.switch(v <= x, 2.0, 0.0)
    truth = truth - pt.switch(v >= 0.3, 1.0, 0.0) * pt.switch(x < 0.2, 1.0, 0.0) + 2
    logic = positive_v * positive_x + 3 * pt.maximum(positive_v, positive_x) + 5 * (1 - positive_v) - positive_x
    n = positive_v.sum() + positive_x.mean()
    extra = (joined * np.arange(6)).sum() + (2 * v - a).sum() + (v + a * v).sum()
    total = 0.1 * chosen.sum() + 0.01 * (truth * np.arange(3) + logic).sum() - 0.1 * n - 0.01 * extra
    pm.Potential("target", total)


HEIGHTS = {
    "height": np.array([1.5, 1.7, 1.6, 1.9]),
    "weight": np.array([50.0, 80, 60, 95]),
    "sex": ["m", "f", "f", "m"],
    "dose": np.array([[1.0, 2, 3, 4], [0, 1, 0, 2]]),
    "scale": np.array(2.5),
}


@case(
    {
        "male[obs_id]": 'sex == "m"',
        "who[obs_id]": "sex",
        "total_dose[obs_id]": "sum(dose, part)",
        "a[sex]": "Normal(centre, scale)",
        "b": "Normal(0, 1)",
        "k[part]": "Normal(0, 1)",
        "sigma": "HalfNormal(spread)",
        "mean_weight[obs_id]": "a[who] + b * z * male + log(total_dose) + dot(k, dose) + k @ dose / total_dose",
        "weight[obs_id]": "Normal(mean_weight, sigma * exp(0.1 * tall))",
    },
    data=HEIGHTS,
    source={
        "dims": {"dose": ["part", "obs_id"], "scale": []},
        "derive": {
            "z": "(height - mean(height)) / sd(height)",
            "tall": "z > 0 and height > 1.6",
            "centre": "mean(weight) / 2",
            "spread": "sd(weight)",
        },
    },
    dims={"sex": ["m", "f"]},
)
def arrays_computed_columns_and_transformed_data(d):
    z = (d["height"] - d["height"].mean()) / d["height"].std(ddof=1)
    male = np.array([1, 0, 0, 1])
    a = pm.Normal("a", d["weight"].mean() / 2, 2.5, shape=2)
    b, k = pm.Normal("b", 0.0, 1.0), pm.Normal("k", 0.0, 1.0, shape=2)
    sigma = pm.HalfNormal("sigma", d["weight"].std(ddof=1))
    total = d["dose"].sum(axis=0)
    mean = a[1 - male] + b * z * male + np.log(total) + k @ d["dose"] + k @ d["dose"] / total
    pm.Normal("weight", mean, sigma * np.exp(0.1 * (d["height"] > 1.6)), observed=d["weight"])


@case(
    {
        "eta": "HalfNormal(1)",
        "rho": "InverseGamma(5, 5)",
        "K[site, site2]": "eta ** 2 * exp(-0.5 * ((place - rename(place, site2)) / rho) ** 2) + 0.01 * eye(site, site2)",
        "f[site]": "MvNormal(0, K)",
        "g[site]": "MvNormal(0, chol=cholesky(K))",
        "h[side, site]": "MvNormal(0, tau=inv(K))",
        "count[site]": "Poisson(exp(f + g))",
    },
    data={"place": np.array([0.0, 0.4, 1.1, 1.5]), "count": np.array([1, 0, 3, 2])},
    source={"rows": "site"},
    dims={"site2": "site", "side": 2},
)
def gaussian_process_with_a_twin_dimension(d):
    eta, rho = pm.HalfNormal("eta", 1.0), pm.InverseGamma("rho", 5.0, 5.0)
    apart = d["place"][:, None] - d["place"][None, :]
    cov = eta**2 * pt.exp(-(apart**2) / (2 * rho**2)) + 0.01 * np.eye(4)
    f = pm.MvNormal("f", np.zeros(4), cov)
    g = pm.MvNormal("g", np.zeros(4), cov)
    pm.MvNormal("h", np.zeros(4), cov, shape=(2, 4))
    pm.Poisson("count", pt.exp(f + g), observed=d["count"])


# --------------------------------------------------------------------------------- distributions


@case(
    {
        "mu": "Flat()",
        "tau": "HalfFlat()",
        "shape": "Interpolated([0, 1, 2, 4], [0.1, 1, 0.5, 0])",
        "low[group]": "Truncated(Normal(mu, 2), lower=0)",
        "both[group]": "Truncated(Gamma(shape + 1, 1), lower=0.5, upper=[4, 6])",
        "cut": "TruncatedNormal(0, 1, lower=-1, upper=mu ** 2 + 1)",
        "u": "Uniform(-2, 3)",
        "v": "VonMises(0, 1 + shape)",
        "t[group]": "StudentT(4, mu, tau)",
        "counts[obs_id]": "Truncated(Poisson(low[group]), lower=1)",
        "life[obs_id]": "Censored(Weibull(2, 1 + both[group]), upper=limit)",
        "seen[obs_id]": "Censored(Normal(cut * u, 1), lower=-1, upper=1)",
        "p": "Potential(-tau + v * 0.1 - mu ** 2)",
    },
    data={
        "group": list("aabb"),
        "counts": np.array([1, 3, 2, 5]),
        "life": np.array([0.4, 2.0, 1.5, 3.0]),
        "limit": np.array([2.0, 2, 3, 3]),
        "seen": np.array([-1.0, 0.3, 1, 0.9]),
    },
)
def truncated_censored_flat_and_interpolated(d):
    group = np.array([0, 0, 1, 1])
    mu, tau = pm.Flat("mu"), pm.HalfFlat("tau")
    shape = pm.Interpolated("shape", np.array([0, 1, 2, 4]), np.array([0.1, 1, 0.5, 0]))
    low = pm.Truncated("low", pm.Normal.dist(mu, 2.0), lower=0, shape=2)
    both = pm.Truncated("both", pm.Gamma.dist(shape + 1, 1.0), lower=0.5, upper=np.array([4.0, 6]), shape=2)
    cut = pm.TruncatedNormal("cut", 0.0, 1.0, lower=-1.0, upper=mu**2 + 1)
    u = pm.Uniform("u", -2.0, 3.0)
    v = pm.VonMises("v", 0.0, 1 + shape)
    pm.StudentT("t", 4.0, mu, sigma=tau, shape=2)
    # A Poisson without its zero: f(y) / (1 - f(0)).
    rate = low[group]
    y = d["counts"]
    pm.Potential("counts", y * pt.log(rate) - rate - pt.gammaln(y + 1) - pt.log1p(-pt.exp(-rate)))
    # Weibull(2, b) has log survival -(x / b) ** 2.
    b, x = 1 + both[group], d["life"]
    done = x < d["limit"]
    pm.Potential("life", pt.switch(done, pt.log(2 * x / b**2) - (x / b) ** 2, -((d["limit"] / b) ** 2)))
    lower, upper = pm.logcdf(pm.Normal.dist(cut * u, 1.0), -1), pm.logcdf(pm.Normal.dist(-cut * u, 1.0), -1)
    inside = pm.logp(pm.Normal.dist(cut * u, 1.0), d["seen"])
    pm.Potential("seen", pt.switch(d["seen"] <= -1, lower, pt.switch(d["seen"] >= 1, upper, inside)))
    pm.Potential("p", -tau + v * 0.1 - mu**2)


MIXED = {"x": np.array([0.5, 2.0, -1.0, 0.1, 3.3]), "n": np.array([0, 3, 1, 0, 7]), "z": np.arange(5.0)}


@case(
    {
        "w[part]": "Dirichlet([1, 2])",
        "mu[part]": "Ordered(Normal(0, 2))",
        "gap[part]": "PositiveOrdered(Normal(3, 1))",
        "s[part]": "HalfNormal(gap)",
        "b": "Normal(0, 1)",
        "lean[obs_id, part]": "softmax(stack([b * z, 0 * z], part), part)",
        "x[obs_id]": "Mixture(w, Normal(mu, s))",
        "x_listed[obs_id]": "Mixture(w, [Normal(mu[0], 1), StudentT(3, mu[1], s[1])])",
        "x_moved[obs_id]": "Mixture(lean, Normal(mu + b * z, s))",
        "x_own[obs_id]": "Mixture([0.3, 0.7], [Normal(b * z, 1), Truncated(Normal(0, 20), lower=-5, upper=9)])",
        "x_short[obs_id]": "NormalMixture(w, mu, s)",
        "n[obs_id]": "Mixture(w, [DiracDelta(0), Poisson(exp(b))])",
    },
    data=MIXED | {f"x_{word}": MIXED["x"] for word in ("listed", "moved", "own", "short")},
    dims={"part": 2},
)
def mixtures(d):
    w = pm.Dirichlet("w", np.array([1.0, 2]))
    mu = pm.Normal("mu", 0.0, 2.0, shape=2, transform=ORDERED, initval=np.array([-1.0, 1]))
    positive = pm.distributions.transforms.Ordered(positive=True)
    gap = pm.HalfFlat("gap", shape=2, transform=positive, default_transform=None, initval=np.array([1.0, 2]))
    pm.Potential("gap_prior", stats.norm.logpdf(0) - 0.5 * (gap - 3) ** 2 - stats.norm.logcdf(3))
    s = pm.HalfNormal("s", gap, shape=2)
    b = pm.Normal("b", 0.0, 1.0)

    def normal(x, m, sd):
        return -0.5 * ((x - m) / sd) ** 2 - pt.log(sd) - 0.5 * np.log(2 * np.pi)

    def mixed(first, second, weight=None):
        weight = w[0] if weight is None else weight
        return pt.logaddexp(pt.log(weight) + first, pt.log(1 - weight) + second).sum()

    x, z, n = d["x"], d["z"], d["n"]
    plain = mixed(normal(x, mu[0], s[0]), normal(x, mu[1], s[1]))
    student = pm.logp(pm.StudentT.dist(3.0, mu[1], sigma=s[1]), x)
    moved = mixed(normal(x, mu[0] + b * z, s[0]), normal(x, mu[1] + b * z, s[1]), 1 / (1 + pt.exp(-b * z)))
    limited = stats.norm.logpdf(x, 0, 20) - np.log(stats.norm.cdf(9, 0, 20) - stats.norm.cdf(-5, 0, 20))
    own = mixed(normal(x, b * z, 1.0), limited, 0.3)
    counts = pt.log(pt.switch(pt.eq(n, 0), w[0], 0) + w[1] * pt.exp(n * b - pt.exp(b) - pt.gammaln(n + 1)))
    pm.Potential("y", 2 * plain + mixed(normal(x, mu[0], 1.0), student) + moved + own + counts.sum())


POINTS = np.array([[0.1, 1.0], [2.2, -0.4], [1.0, 0.9]])


@case(
    {
        "w[part]": "Dirichlet(2)",
        "m[part, axis]": "Normal(0, 2)",
        "L[axis, axis2]": "LKJCholeskyCov(2, sd_dist=Exponential(1))",
        "point[obs_id, axis]": "Mixture(w, MvNormal(m, chol=L))",
        "point2[obs_id, axis]": "Mixture(w, [MvNormal(m[0, axis], chol=L), MvNormal(0, eye(axis, axis2))])",
    },
    data={"point": POINTS, "point2": POINTS},
    source={"dims": {"point": ["obs_id", "axis"], "point2": ["obs_id", "axis"]}},
    dims={"part": 2, "axis2": "axis"},
)
def mixtures_of_vectors(d):
    w = pm.Dirichlet("w", np.array([2.0, 2]))
    m = pm.Normal("m", 0.0, 2.0, shape=(2, 2))
    chol, _, _ = pm.LKJCholeskyCov("L_packed", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    two_correlated(2.0)
    point = d["point"]

    def each(mean, low):
        return pm.logp(pm.MvNormal.dist(mean, chol=low, shape=(3, 2)), point)

    shared = pt.logaddexp(pt.log(w[0]) + each(m[0], chol), pt.log(w[1]) + each(m[1], chol))
    standard = stats.multivariate_normal(np.zeros(2), np.eye(2)).logpdf(point)
    pm.Potential("y", (shared + pt.logaddexp(pt.log(w[0]) + each(m[0], chol), pt.log(w[1]) + standard)).sum())


COUNTS = np.array([0, 2, 0, 1, 5, 0])


@case(
    {
        "b": "Normal(0, 1)",
        "psi": "Beta(2, 2)",
        "alpha": "Exponential(1)",
        "mu[obs_id]": "exp(0.2 * b * x + 0.5)",
        "a1[obs_id]": "ZeroInflatedPoisson(psi, mu)",
        "a2[obs_id]": "ZeroInflatedNegativeBinomial(psi, mu, alpha)",
        "a3[obs_id]": "ZeroInflatedBinomial(psi, 6, invlogit(b * x))",
        "a4[obs_id]": "HurdlePoisson(psi, mu)",
        "a5[obs_id]": "HurdleNegativeBinomial(psi, mu, alpha)",
        "a6[obs_id]": "HurdleGamma(psi, alpha, 1 / mu)",
        "a7[obs_id]": "HurdleLogNormal(psi, mu, alpha)",
        "a8[obs_id]": "BetaBinomial(alpha, mu, 6)",
    },
    data={f"a{i}": COUNTS for i in range(1, 9)} | {"x": np.linspace(-1, 1, 6)},
)
def zero_inflation_and_hurdles(d):
    b, psi, alpha = pm.Normal("b", 0.0, 1.0), pm.Beta("psi", 2.0, 2.0), pm.Exponential("alpha", 1.0)
    mu = pt.exp(0.2 * b * d["x"] + 0.5)
    y, none = COUNTS, COUNTS == 0
    poisson = y * pt.log(mu) - mu - pt.gammaln(y + 1)
    negative = pm.logp(pm.NegativeBinomial.dist(mu=mu, alpha=alpha), y)
    binomial = pm.logp(pm.Binomial.dist(6, 1 / (1 + pt.exp(-b * d["x"]))), y)

    def inflated(logp):
        return pt.switch(none, pt.log(1 - psi + psi * pt.exp(logp)), pt.log(psi) + logp).sum()

    def hurdle(logp, at_zero):
        return pt.switch(none, pt.log(1 - psi), pt.log(psi) + logp - pt.log(1 - at_zero)).sum()

    total = inflated(poisson) + inflated(negative) + inflated(binomial) + hurdle(poisson, pt.exp(-mu))
    total = total + hurdle(negative, (alpha / (alpha + mu)) ** alpha)
    some = np.where(none, 1.0, y)
    total = total + hurdle(pm.logp(pm.Gamma.dist(alpha, 1 / mu), some), 0 * mu)
    total = total + hurdle(pm.logp(pm.LogNormal.dist(mu, alpha), some), 0 * mu)
    pm.Potential("y", total + pm.logp(pm.BetaBinomial.dist(alpha, mu, 6), y).sum())


@case(
    {
        "cut[step]": "Ordered(Normal([-1, 0, 1], 2))",
        "b": "Normal(0, 1)",
        "s": "HalfNormal(1)",
        "rating[obs_id]": "OrderedLogistic(b * x, cut)",
        "grade[obs_id]": "OrderedProbit(b * x, cut, s)",
        "many[obs_id, mark]": "OrderedMultinomial(b * x, cut, 4)",
    },
    data={
        "x": np.array([0.1, -0.5, 1, 2, 0.3]),
        "rating": np.array([0, 1, 3, 3, 2]),
        "grade": ["bad", "fair", "great", "good", "good"],
        "many": np.array([[1, 1, 1, 1], [4, 0, 0, 0], [0, 2, 2, 0], [0, 0, 1, 3], [1, 0, 1, 2]]),
    },
    source={"dims": {"many": ["obs_id", "mark"]}},
    dims={"step": 3, "grade": ["bad", "fair", "good", "great"], "mark": "grade"},
    numba=True,
    rtol=1e-7,  # PyMC's own probit divides by the square root of two in single precision
)
def ordered_outcomes(d):
    start = np.array([-1.0, 0, 1])
    cut = pm.Normal("cut", start, 2.0, transform=ORDERED, initval=start)
    b, s = pm.Normal("b", 0.0, 1.0), pm.HalfNormal("s", 1.0)
    eta = (b * d["x"])[:, None]

    def chances(cdf):
        below = pt.concatenate([pt.zeros((5, 1)), cdf, pt.ones((5, 1))], axis=1)
        return below[:, 1:] - below[:, :-1]

    logistic = chances(1 / (1 + pt.exp(eta - cut)))
    probit = chances(0.5 * pt.erfc((eta - cut) / s / np.sqrt(2)))
    row = np.arange(5)
    pm.Potential("rating", pt.log(logistic[row, d["rating"]]).sum())
    pm.Potential("grade", pt.log(probit[row, np.array([0, 1, 3, 2, 2])]).sum())
    pm.Potential("many", pt.sum(d["many"] * pt.log(logistic) - pt.gammaln(d["many"] + 1)) + 5 * pt.gammaln(5.0))


@case(
    {
        "b[party]": "Normal(0, 1)",
        "c[party]": "ZeroSumNormal(1)",
        "eta[obs_id, party]": "b * income + c",
        "choice[obs_id]": "Categorical(logit_p=eta)",
        "vote[obs_id]": "Categorical(softmax(eta, party))",
        "seats[obs_id, party]": "Multinomial(size_of_house, softmax(eta, party))",
        "a[party]": "HalfNormal(1)",
        "seats2[obs_id, party]": "DirichletMultinomial(size_of_house, a)",
        "won[obs_id]": "Binomial(5, logit_p=eta[obs_id, 'green'])",
        "any[obs_id]": "Bernoulli(logit_p=0.3 * eta[obs_id, 'red'])",
    },
    data={
        "income": np.array([0.2, 1.0, -0.4]),
        "choice": ["red", "blue", "blue"],
        "vote": np.array([2, 0, 1]),
        "seats": np.array([[1, 2, 1], [0, 5, 0], [3, 0, 3]]),
        "seats2": np.array([[1, 2, 1], [0, 5, 0], [3, 0, 3]]),
        "size_of_house": np.array([4, 5, 6]),
        "won": np.array([3, 0, 5]),
        "any": np.array([True, False, True]),
    },
    source={"dims": {"seats": ["obs_id", "party"], "seats2": ["obs_id", "party"]}},
    dims={"party": ["red", "green", "blue"], "choice": ["red", "green", "blue"]},
)
def categories_and_counts_of_them(d):
    b = pm.Normal("b", 0.0, 1.0, shape=3)
    c = pm.ZeroSumNormal("c", 1.0, shape=3)
    eta = d["income"][:, None] * b + c
    logp = eta - pt.log(pt.exp(eta).sum(axis=1, keepdims=True))
    pm.Potential("choice", logp[np.arange(3), np.array([0, 2, 2])].sum())
    pm.Potential("vote", logp[np.arange(3), d["vote"]].sum())
    pm.Multinomial("seats", d["size_of_house"], pt.exp(logp), observed=d["seats"])
    a = pm.HalfNormal("a", 1.0, shape=3)
    pm.DirichletMultinomial("seats2", d["size_of_house"], a, observed=d["seats2"])
    pm.Binomial("won", 5, 1 / (1 + pt.exp(-eta[:, 1])), observed=d["won"])
    chance = 1 / (1 + pt.exp(-0.3 * eta[:, 0]))
    pm.Potential("any", pt.log(chance[0]) + pt.log(1 - chance[1]) + pt.log(chance[2]))


ADJACENT = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]])


@case(
    {
        "tau": "HalfNormal(1)",
        "phi[area]": "CAR(mu=0, W=adjacent, alpha=0.9, tau=tau)",
        "rough[area]": "ICAR(adjacent, sigma=tau)",
        "weights[area]": "StickBreakingWeights(2, 3)",
        "w2[area]": "StickBreakingWeights(tau)",
        "y[area]": "Normal(phi + rough + weights - w2, 1)",
    },
    data={"adjacent": ADJACENT, "y": np.array([0.1, 1.0, 0.4, -0.2])},
    source={"rows": "area", "dims": {"adjacent": ["area", "area2"]}},
    dims={"area2": "area"},
)
def areas(d):
    tau = pm.HalfNormal("tau", 1.0)
    phi = pm.CAR("phi", np.zeros(4), ADJACENT, 0.9, tau)
    rough = pm.ICAR("rough", ADJACENT, sigma=tau)
    weights = pm.StickBreakingWeights("weights", 2.0, 3)
    w2 = pm.StickBreakingWeights("w2", tau, 3)
    pm.Normal("y", phi + rough + weights - w2, 1.0, observed=d["y"])


# ---------------------------------------------------------------------------------------- time

SERIES = np.array([0.3, 0.1, -0.4, 1.1, 0.9, 0.2, -1.0, 0.4])


@case(
    {
        "a": "Normal(0, 1)",
        "b[order]": "Normal(0, 0.5)",
        "sigma": "HalfNormal(1)",
        "y[obs_id]": "Normal(a + b[0] * lag(y, 1) + b[1] * lag(y, 2) + 0.1 * lag(x, 3), sigma)",
        "w[obs_id]": "StudentT(5, a * lag(w, 1, start=a) + lag(x, 2, start=0.7), sigma)",
        "n[obs_id]": "Poisson(exp(0.2 * lag(n, 1) + a * lag(x, 1)))",
        "p[obs_id]": "lag(x, 2) * a",
        "q": "Potential(-0.5 * p ** 2)",
    },
    data={
        "y": SERIES,
        "w": SERIES[::-1].copy(),
        "x": np.linspace(0, 1, 8),
        "n": np.array([0, 1, 3, 2, 2, 0, 1, 1]),
    },
    dims={"order": 2},
    numba=True,
)
def autoregression_by_lag(d):
    a, b, sigma = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 0.5, shape=2), pm.HalfNormal("sigma", 1.0)
    y, w, x, n = d["y"], d["w"], d["x"], d["n"]
    pm.Normal("y", a + b[0] * y[2:-1] + b[1] * y[1:-2] + 0.1 * x[:-3], sigma, observed=y[3:])
    before = pt.concatenate([a[None], w[:-1]])
    shifted = np.concatenate([[0.7, 0.7], x[:-2]])
    pm.StudentT("w", 5.0, a * before + shifted, sigma=sigma, observed=w)
    pm.Poisson("n", pt.exp(0.2 * n[:-1] + a * x[:-1]), observed=n[1:])
    pm.Potential("q", -0.5 * (x[:-2] * a) ** 2)


PANEL = np.array([[0.1, 0.5, -0.2, 0.9], [1.0, 0.7, 0.3, -0.8], [0.0, 0.1, 0.4, 0.2]])


@case(
    {
        "a[unit]": "Normal(0, 1)",
        "b": "Normal(0, 1)",
        "m[item]": "Normal(0, 1)",
        "y[unit, time]": "Normal(a + b * lag(y, 1) + 0.2 * lag(z, 1, start=a), 1)",
        "x[unit, time]": "Normal(b * lag(x, 2, start=a) + c, 2)",
        "v[time, item]": "MvNormal(m, eye(item, item2))",
    },
    data={"y": PANEL, "x": PANEL.T + 1, "z": PANEL * 2, "c": np.array([1.0, 2, 3]), "v": PANEL.T},
    source={
        "dims": {
            "y": ["unit", "time"],
            "z": ["unit", "time"],
            "x": ["time", "unit"],
            "c": ["unit"],
            "v": ["time", "item"],
        },
    },
    dims={"item2": "item"},
)
def panels(d):
    a, b, m = pm.Normal("a", 0.0, 1.0, shape=3), pm.Normal("b", 0.0, 1.0), pm.Normal("m", 0.0, 1.0, shape=3)
    y, x, z = d["y"], d["x"].T, d["z"]
    pm.Normal("y", a[:, None] + b * y[:, :-1] + 0.2 * z[:, :-1], 1.0, observed=y[:, 1:])
    before = pt.concatenate([a[:, None], a[:, None], pt.as_tensor_variable(x[:, :-2])], axis=1)
    pm.Normal("x", b * before + d["c"][:, None], 2.0, observed=x)
    pm.Potential("v", pt.sum(-0.5 * (d["v"] - m) ** 2) - 6 * np.log(2 * np.pi))


@case(
    {
        "a[two, two2]": "Normal(0, 0.5)",
        "y[time]": "Normal(a[0, 0] * lag(y, 1) + a[0, 1] * lag(x, 2), 1)",
        "x[time]": "Normal(a[1, 0] * lag(y, 1) + a[1, 1] * lag(x, 1), 2)",
        "z[time]": "Normal(y - x, 0.5)",
        "u[unit, t4]": "Normal(a[0, 1] * previous(u, 1, start=0.2) + lag(v, 1, start=c), 1)",
        "v[unit, t4]": "Normal(lag(u, 1), exp(lag(v, 1)))",
    },
    data={"y": SERIES, "x": -SERIES, "z": SERIES * 2, "u": PANEL.T, "v": PANEL.T - 1, "c": np.array([1.0, 2, 3])},
    source={"rows": "time", "dims": {"u": ["t4", "unit"], "v": ["t4", "unit"], "c": ["unit"]}},
    dims={"two": 2, "two2": "two"},
)
def series_that_look_back_at_each_other(d):
    a = pm.Normal("a", 0.0, 0.5, shape=(2, 2))
    y, x = d["y"], d["x"]
    # The first rows that look back past the beginning are given, and used as they are elsewhere.
    pm.Normal("y", a[0, 0] * y[1:-1] + a[0, 1] * x[:-2], 1.0, observed=y[2:])
    pm.Normal("x", a[1, 0] * y[:-1] + a[1, 1] * x[:-1], 2.0, observed=x[1:])
    pm.Normal("z", y - x, 0.5, observed=d["z"])
    u, v = d["u"].T, d["v"].T
    before_u = np.concatenate([np.full((3, 1), 0.2), u[:, :-1]], axis=1)
    before_v = np.concatenate([d["c"][:, None], v[:, :-1]], axis=1)
    pm.Normal("u", a[0, 1] * before_u + before_v, 1.0, observed=u)
    pm.Normal("v", u[:, :-1], np.exp(v[:, :-1]), observed=v[:, 1:])


@case(
    {
        "mu": "Normal(0, 1)",
        "omega": "HalfNormal(1)",
        "alpha": "Beta(2, 2)",
        "beta": "Beta(2, 2)",
        "s2[time]": "omega + alpha * (lag(y, 1) - mu) ** 2 + beta * previous(s2, 1, start=first ** 2)",
        "y[time]": "Normal(mu, sqrt(s2))",
        "s[time]": "sqrt(omega + beta * previous(s, 2, start=omega) ** 2 + alpha * abs(lag(y2, 1, start=0)))",
        "y2[time]": "Normal(mu, s)",
    },
    data={"y": SERIES, "y2": SERIES[::-1].copy(), "first": np.array(0.8)},
    source={"rows": "time", "dims": {"first": []}},
    numba=True,
)
def garch(d):
    mu, omega = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("omega", 1.0)
    alpha, beta = pm.Beta("alpha", 2.0, 2.0), pm.Beta("beta", 2.0, 2.0)
    y, y2 = d["y"], d["y2"]
    s2 = [pt.as_tensor_variable(0.64)]
    for t in range(1, 8):
        s2.append(omega + alpha * (y[t - 1] - mu) ** 2 + beta * s2[-1])
    pm.Normal("y", mu, pt.sqrt(pt.stack(s2)), observed=y)
    s = [omega, omega]
    for t in range(8):
        s.append(pt.sqrt(omega + beta * s[-2] ** 2 + alpha * (abs(y2[t - 1]) if t else 0)))
    pm.Normal("y2", mu, pt.stack(s[2:]), observed=y2)


@case(
    {
        "mu": "Normal(0, 1)",
        "phi": "Normal(0, 0.5)",
        "theta[order]": "Normal(0, 0.5)",
        "start": "Normal(0, 1)",
        "sigma": "HalfNormal(1)",
        "e[time]": "y - mu - phi * lag(y, 1, start=mu) - theta[0] * previous(e, 1, start=0)"
        " - theta[1] * previous(e, 2, start=start)",
        "lik": "Potential(-0.5 * sum((e / sigma) ** 2) - size(time) * log(sigma))",
        "history[time]": "y - theta[0] * previous(history, 1, start=0)"
        " - theta[1] * where(index(time) == 1, 0, previous(history, 2, start=start))",
        "of_history": "Potential(-sum(history ** 2))",
        "trend[unit, time]": "0.9 * previous(trend, 1, start=0.1 * gain) + gain * x + phi * previous(trend, 3, start=0)"
        " * where(index(time) > 2, 1, 0)",
        "z[time, unit]": "Normal(trend, 1)",
        "gain[unit]": "Normal(0, 1)",
    },
    data={"y": SERIES, "x": np.linspace(0, 1, 8), "z": np.stack([SERIES, -SERIES], axis=1)},
    source={"rows": "time", "dims": {"z": ["time", "unit"]}},
    dims={"order": 2, "unit": 2},
)
def moving_averages_and_levels(d):
    mu, phi = pm.Normal("mu", 0.0, 1.0), pm.Normal("phi", 0.0, 0.5)
    theta, start = pm.Normal("theta", 0.0, 0.5, shape=2), pm.Normal("start", 0.0, 1.0)
    sigma, gain = pm.HalfNormal("sigma", 1.0), pm.Normal("gain", 0.0, 1.0, shape=2)
    # A call has its own start in every row in which it looks before the first.
    e: list = []
    for t in range(8):
        one, two = e[-1] if t else 0.0, e[-2] if t > 1 else start
        e.append(d["y"][t] - mu - phi * (d["y"][t - 1] if t else mu) - theta[0] * one - theta[1] * two)
    pm.Potential("lik", -0.5 * (pt.stack(e) ** 2).sum() / sigma**2 - 8 * pt.log(sigma))
    # Written so, e[-1] = 0 and, one row earlier, e[-2] = start come before the first row.
    before = [start, pt.zeros(())]
    for t in range(8):
        before.append(d["y"][t] - theta[0] * before[-1] - theta[1] * before[-2])
    pm.Potential("of_history", -(pt.stack(before[2:]) ** 2).sum())
    level = [0.1 * gain]
    for t in range(8):
        back = phi * level[t - 2] if t > 2 else 0
        level.append(0.9 * level[-1] + gain * d["x"][t] + back)
    pm.Normal("z", pt.stack(level[1:]), 1.0, observed=d["z"])


@case(
    {
        "mu": "Normal(-1, 1)",
        "phi": "Uniform(-1, 1)",
        "tau": "Exponential(1)",
        "h[time]": "Normal(mu + phi * (previous(h, 1, start=mu) - mu) + 0.1 * x, tau)",
        "y[time]": "Normal(0, exp(h / 2))",
        "g[unit, time]": "Normal(0.5 * previous(g, 1, start=u) - phi * previous(g, 2, start=0.3) + c, 1 + 0.1 * x)",
        "u[unit]": "Normal(0, 1)",
        "scale[time]": "LogNormal(log(previous(scale, 1, start=tau)), 0.3)",
        "share[time]": "Beta(2 * previous(share, 1, start=0.5) + 1, 1.5)",
        "z[time]": "StudentT(4, g['a', time] * share, scale)",
        "w[time]": "Normal(phi * previous(w, 1, start=mu) + tau * previous(w, 2, start=u['b']), 1)",
    },
    data={"y": SERIES, "x": np.linspace(0, 1, 8), "z": SERIES[::-1].copy(), "c": np.array([1.0, -1.0]), "w": SERIES},
    source={"rows": "time", "dims": {"c": ["unit"]}},
    dims={"unit": ["a", "b"]},
    numba=True,
)
def latent_series_that_look_back(d):
    mu, phi, tau = pm.Normal("mu", -1.0, 1.0), pm.Uniform("phi", -1.0, 1.0), pm.Exponential("tau", 1.0)
    u = pm.Normal("u", 0.0, 1.0, shape=2)
    x = d["x"]

    def normal(value, mean, sd):
        return (-0.5 * ((value - mean) / sd) ** 2 - pt.log(sd) - 0.5 * np.log(2 * np.pi)).sum()

    h, g = pm.Flat("h", shape=8), pm.Flat("g", shape=(2, 8))
    total = normal(h[0], mu + 0.1 * x[0], tau)
    total = total + sum(normal(h[t], mu + phi * (h[t - 1] - mu) + 0.1 * x[t], tau) for t in range(1, 8))
    for t in range(8):
        one, two = g[:, t - 1] if t else u, g[:, t - 2] if t > 1 else 0.3 * pt.ones(2)
        total = total + normal(g[:, t], 0.5 * one - phi * two + d["c"], 1 + 0.1 * x[t])
    scale = pm.HalfFlat("scale", shape=8)
    before = pt.concatenate([tau[None], scale[:-1]])
    total = total + normal(pt.log(scale), pt.log(before), 0.3 * pt.ones(())) - pt.log(scale).sum()
    share = pm.Beta("share", 1.0, 1.0, shape=8)  # flat
    alpha = 2 * pt.concatenate([0.5 * pt.ones(1), share[:-1]]) + 1
    beta = pt.gammaln(alpha + 1.5) - pt.gammaln(alpha) - pt.gammaln(1.5)
    total = total + (beta + (alpha - 1) * pt.log(share) + 0.5 * pt.log(1 - share)).sum()
    pm.Potential("latent", total)
    pm.Normal("y", 0.0, pt.exp(h / 2), observed=d["y"])
    pm.StudentT("z", 4.0, g[0] * share, sigma=scale, observed=d["z"])
    w = d["w"]
    mean = [phi * (w[t - 1] if t else mu) + tau * (w[t - 2] if t > 1 else u[1]) for t in range(8)]
    pm.Normal("w", pt.stack(mean), 1.0, observed=d["w"])


def normal_logp(value, mean, sd):
    return (-0.5 * ((value - mean) / sd) ** 2 - pt.log(sd) - 0.5 * np.log(2 * np.pi)).sum()


@case(
    {
        "s": "HalfNormal(1)",
        "rho[order]": "Normal(0, 0.5)",
        "rhos[unit, order]": "Normal(0, 0.5)",
        "drift[unit]": "Normal(0, 1)",
        "walk[time]": "GaussianRandomWalk(0.1, s, init_dist=Normal(0, 1))",
        "walks[unit, time]": "GaussianRandomWalk(drift, s, init_dist=Normal(drift, 2))",
        "steps[time]": "RandomWalk(Normal(0, 1), StudentT(3, 0, s))",
        "ar[time]": "AR(rho, s, init_dist=Normal(0, 5))",
        "ars[unit, time]": "AR(rhos, s, init_dist=Normal(drift, 5), constant=True)",
        "one[unit, time]": "AR(drift, s, init_dist=Normal(0, 1))",
        "y[time]": "AR(0.5, s, init_dist=Normal(0, 1))",
    },
    data={"y": SERIES[:5]},
    source={"rows": "time"},
    dims={"order": 2, "unit": ["a", "b", "c"]},
)
def random_walks(d):
    s = pm.HalfNormal("s", 1.0)
    rho, rhos = pm.Normal("rho", 0.0, 0.5, shape=2), pm.Normal("rhos", 0.0, 0.5, shape=(3, 2))
    drift = pm.Normal("drift", 0.0, 1.0, shape=3)
    two, five, one = 2 * pt.ones(()), 5 * pt.ones(()), pt.ones(())
    walk = pm.Flat("walk", shape=5)
    pm.Potential("p0", normal_logp(walk[0], 0, one) + normal_logp(walk[1:], walk[:-1] + 0.1, s))
    walks = pm.Flat("walks", shape=(3, 5))
    moved = walks[:, :-1] + drift[:, None]
    pm.Potential("p1", normal_logp(walks[:, 0], drift, two) + normal_logp(walks[:, 1:], moved, s))
    steps = pm.Flat("steps", shape=5)
    student = pm.logp(pm.StudentT.dist(3.0, 0.0, sigma=s), steps[1:] - steps[:-1]).sum()
    pm.Potential("p2", student + normal_logp(steps[0], 0, one))
    ar = pm.Flat("ar", shape=5)
    mean = rho[0] * ar[1:-1] + rho[1] * ar[:-2]
    pm.Potential("p3", normal_logp(ar[:2], 0, five) + normal_logp(ar[2:], mean, s))
    ars = pm.Flat("ars", shape=(3, 5))
    mean = rhos[:, :1] + rhos[:, 1:] * ars[:, :-1]
    pm.Potential("p4", normal_logp(ars[:, 0], drift, five) + normal_logp(ars[:, 1:], mean, s))
    first = pm.Flat("one", shape=(3, 5))
    mean = drift[:, None] * first[:, :-1]
    pm.Potential("p5", normal_logp(first[:, 0], 0, one) + normal_logp(first[:, 1:], mean, s))
    pm.Potential("p6", normal_logp(d["y"][0], 0, one) + normal_logp(d["y"][1:], 0.5 * d["y"][:-1], s))


@case(
    {
        "s": "HalfNormal(1)",
        "chol[item, item2]": "LKJCholeskyCov(1, sd_dist=HalfNormal(1))",
        "route[time, item]": "MvGaussianRandomWalk(0, chol=chol, init_dist=MvNormal(0, eye(item, item2)))",
        "wide[time, item]": "MvStudentTRandomWalk(5, mu=0, chol=chol, init_dist=MvNormal(1, eye(item, item2)))",
        "vol[time]": "GARCH11(1, 0.2, 0.3, s)",
        "y[time]": "Normal(route[time, 0] + wide[time, 1] + vol, 1)",
    },
    data={"y": SERIES[:5]},
    source={"rows": "time"},
    dims={"item": 2, "item2": "item"},
)
def walks_of_vectors_and_of_volatility(d):
    s = pm.HalfNormal("s", 1.0)
    chol, _, _ = pm.LKJCholeskyCov("chol_packed", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0, shape=2))
    two_correlated(1.0)
    route, wide, vol = pm.Flat("route", shape=(5, 2)), pm.Flat("wide", shape=(5, 2)), pm.Flat("vol", shape=5)
    near = pm.MvNormal.dist(np.zeros(2), chol=chol, shape=(4, 2))
    far = pm.MvStudentT.dist(nu=5.0, mu=np.zeros(2), chol=chol, shape=(4, 2))
    pm.Potential("p1", pm.logp(near, route[1:] - route[:-1]).sum() + normal_logp(route[0], 0, pt.ones(())))
    pm.Potential("p2", pm.logp(far, wide[1:] - wide[:-1]).sum() + normal_logp(wide[0], 1, pt.ones(())))
    sd = [s]
    for t in range(4):
        sd.append(pt.sqrt(1 + 0.2 * vol[t] ** 2 + 0.3 * sd[-1] ** 2))
    pm.Potential("p3", normal_logp(vol, 0, pt.stack(sd)))
    pm.Normal("y", route[:, 0] + wide[:, 1] + vol, 1.0, observed=d["y"])


# --------------------------------------------------------------------------- missing and discrete

GAPS = {
    "x": np.array([0.1, np.nan, 0.7, 1.5, np.nan]),
    "y": np.array([1.0, 2.0, np.nan, 0.3, 0.2]),
    "later": np.array([0.0, 0.1, 0.2, 0.3, 0.4]),
    "M": np.array([[1.0, np.nan], [0.2, 0.4], [np.nan, 0.8]]),
}


@case(
    {
        "mu": "Normal(0, 1)",
        "s": "HalfNormal(1)",
        "b": "Normal(0, 1)",
        "x[obs_id]": "Normal(mu, s)",
        "y[obs_id]": "StudentT(4, b * x, 1)",
        "later[obs_id]": "Normal(lag(x, 1), 1)",
        "M[row, column]": "Gamma(2, s)",
        "total": "Potential(-0.1 * sum(M))",
    },
    data=GAPS,
    source={"dims": {"M": ["row", "column"]}},
    numba=True,
)
def missing_cells(d):
    mu, s, b = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("s", 1.0), pm.Normal("b", 0.0, 1.0)
    x = pm.Normal("x", mu, s, observed=np.ma.masked_invalid(d["x"]))
    pm.StudentT("y", 4.0, b * x, sigma=1.0, observed=np.ma.masked_invalid(d["y"]))
    pm.Normal("later", x[:-1], 1.0, observed=d["later"][1:])
    m = pm.Gamma("M", 2.0, s, observed=np.ma.masked_invalid(d["M"]))
    pm.Potential("total", -0.1 * m.sum())


DATES = np.array([4, 5, 4, 0, 1, 1])


@case(
    {
        "early": "Exponential(1)",
        "late": "Exponential(1)",
        "change": "DiscreteUniform(1, 4)",
        "accidents[year]": "Poisson(where(index(year) < change, early, late))",
    },
    data={"accidents": DATES},
    source={"rows": "year"},
)
def change_point_summed_out(d):
    early, late = pm.Exponential("early", 1.0), pm.Exponential("late", 1.0)
    terms = []
    for change in range(1, 5):
        rate = pt.where(np.arange(6) < change, early, late)
        terms.append(pm.logp(pm.Poisson.dist(rate), d["accidents"]).sum() - np.log(4))
    pm.Potential("y", pt.logsumexp(pt.stack(terms)))


@case(
    {
        "w[kind]": "Dirichlet(1)",
        "m[kind]": "Normal(0, 2)",
        "p": "Beta(2, 3)",
        "z[obs_id]": "Categorical(w)",
        "on[person]": "Bernoulli(p)",
        "y[obs_id]": "Normal(m[z], 1)",
        "score[person]": "Normal(3 * on, 1)",
    },
    data={"y": np.array([0.1, 2.0, -1.0, 0.4]), "score": np.array([2.0, -0.2, 3.5])},
    source={"dims": {"score": ["person"]}},
    dims={"kind": 3},
)
def memberships_summed_out(d):
    w, m, p = pm.Dirichlet("w", np.ones(3)), pm.Normal("m", 0.0, 2.0, shape=3), pm.Beta("p", 2.0, 3.0)
    y = d["y"]
    log_2pi = np.log(2 * np.pi)
    terms = [pt.log(w[k]) - 0.5 * (y - m[k]) ** 2 - 0.5 * log_2pi for k in range(3)]
    pm.Potential("y", pt.logsumexp(pt.stack(terms), axis=0).sum())
    score = d["score"]
    off, on = (-0.5 * (score - mean) ** 2 - 0.5 * log_2pi for mean in (0, 3))
    pm.Potential("score", pt.log((1 - p) * np.exp(off) + p * np.exp(on)).sum())


@case(
    {
        "w[group, kind]": "Dirichlet([1, 2])",
        "cut[group, kind]": "Ordered(Normal(0, 2))",
        "p": "Beta(1, 1)",
        "kind_of[obs_id]": "Categorical(w[group])",
        "ill[person]": "Bernoulli(p)",
        "caught": "DiscreteUniform(0, 3)",
        "mean[obs_id]": "where(kind_of == 1, cut[group, 1], cut[group, 0])",
        "y[obs_id]": "Normal(mean, 1)",
        "test[person]": "Bernoulli(where(ill, 0.9, 0.2 * p))",
        "scan[person]": "Normal(2 * ill, 1 + ill)",
        "total": "Poisson(1 + caught)",
    },
    data={
        "group": list("aab"),
        "y": np.array([0.3, -1.0, 2.0]),
        "test": np.array([1, 0]),
        "scan": np.array([2.5, 0.4]),
        "total": np.array(2),
    },
    source={"dims": {"test": ["person"], "scan": ["person"], "total": []}},
    dims={"kind": 2},
)
def several_discrete_nodes_summed_out(d):
    w = pm.Dirichlet("w", np.array([1.0, 2]), shape=(2, 2))
    spread = np.array([-1.0, 1])
    cut = pm.Normal("cut", 0.0, 2.0, shape=(2, 2), transform=ORDERED, initval=np.stack([spread, spread]))
    p = pm.Beta("p", 1.0, 1.0)

    def normal(value, mean, sd):
        return pt.exp(-0.5 * ((value - mean) / sd) ** 2) / sd / np.sqrt(2 * np.pi)

    density = 1.0
    for y, group in zip(d["y"], [0, 0, 1], strict=True):
        density = density * sum(w[group, k] * normal(y, cut[group, k], 1.0) for k in (0, 1))
    for test, scan in zip(d["test"], d["scan"], strict=True):
        states = [(1 - p, 0.2 * p, 0.0, 1.0), (p, 0.9, 2.0, 2.0)]
        density = density * sum(
            chance * (positive if test else 1 - positive) * normal(scan, mean, sd)
            for chance, positive, mean, sd in states
        )
    density = density * sum(0.25 * np.exp(-1.0 - n) * (1 + n) ** 2 / 2 for n in range(4))
    pm.Potential("density", pt.log(density))


CASES_IN_ORDER += CASES
ON_THE_MACHINE += CASES
COMPILED += [name for name, each in CASES.items() if each.numba]


# ----------------------------------------------------------------------------------- other tests


def test_there_are_enough_cases_and_they_use_the_whole_language():
    assert len(CASES) >= 25
    assert len(COMPILED) >= 8
    calls: set[str] = set()
    for each in CASES.values():
        for node in nodes_of(each.nodes).values():
            calls |= node.expression.calls
    # Missing cells are tested in test_graph_missing.py.
    assert not (FUNCTIONS.keys() | set(MODIFIERS)) - calls - {"isnan"}
