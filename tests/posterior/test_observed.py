"""The distribution of columns in each of K states: every kind keeps the contract, in both parametrisations.

Truth are the densities of SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from bayeslab.distributions import emissions
from bayeslab.language.writer import PYMC
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.categories import Categories
from bayeslab.posterior.observed.gaussian_mixture import MixedPart
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.one_parameter import OneParameter
from bayeslab.posterior.observed.part import COMPONENTS, STATES, StatePart
from bayeslab.posterior.observed.regression import RegressionPart, Standardised
from bayeslab.posterior.observed.student_t import StudentT

K, N = 2, 9
RNG = np.random.default_rng(5)
REAL = RNG.normal([3.0, -200.0], [2.0, 40.0], (N, 2))
COUNTS = RNG.poisson(4.0, (N, 2)).astype(float)
FLAGS = RNG.integers(0, 2, (N, 2)).astype(float)
CODES = np.column_stack([RNG.integers(0, 2, N), RNG.integers(0, 3, N)]).astype(float)
INPUTS = RNG.normal(10.0, 3.0, (N, 2))


def holes(rows, every=4):
    out = rows.copy()
    out[::every, -1] = np.nan
    return out


@dataclass(frozen=True)
class Case:
    """A part without its style, its rows, and its log density by SciPy, (n_rows, K)."""

    part: StatePart
    rows: np.ndarray
    truth: object
    styles: tuple = ("states", "components")

    def styled(self, style):
        return replace(self.part, style={"states": STATES, "components": COMPONENTS}[style])


def by_cell(cells):
    """From a function (x, values, column) -> (n_rows, K)."""

    def truth(values, rows):
        out = np.zeros((len(rows), K))
        for j in range(rows.shape[1]):
            there = ~np.isnan(rows[:, j])
            out[there] += cells(rows[there, j, None], values, j)
        return out

    return truth


def at(value, j):
    return value[:, j] if value.ndim == 2 else value


def joint(density):
    def truth(values, rows):
        out = np.zeros((len(rows), K))
        for n, row in enumerate(rows):
            there = ~np.isnan(row)
            for k in range(K):
                out[n, k] = density(values, k, there).logpdf(row[there])
        return out

    return truth


def matrix(values, name, k):
    return values[name] if values[name].ndim == 2 else values[name][k]


def lines(values, rows):
    if "slope" in values:
        return values["intercept"] + rows[:, 1:3] @ values["slope"].T
    return values["coefficients"][:, 0] + rows[:, 1:3] @ values["coefficients"][:, 1:].T


def regression(outcome, y):
    """Rows are the column of ones, inputs and the outcome; components have them standardised."""
    normal = outcome == "gaussian"
    rows = np.column_stack([np.ones(N), INPUTS, y])
    centre, scale = INPUTS.mean(axis=0), INPUTS.std(axis=0)
    middle, unit = (y.mean(), y.std()) if normal else (0.0, 1.0)
    inner = emissions.Regression(3, outcome, 0.01 if normal else 0.1, 1.0)
    emission = Standardised(inner, np.array([0.0, *centre, middle]), np.array([1.0, *scale, unit]))
    part = RegressionPart(
        word=outcome,
        columns=("y",),
        at=(0, 1, 2, 3),
        n_states=K,
        emission=emission,
        inputs=("a", "b"),
        centre=centre,
        scale=scale,
        middle=middle,
        outcome_unit=unit,
    )

    def truth(values, rows):
        eta, y = lines(values, rows), rows[:, 3:]
        there = ~np.isnan(y)
        y = np.where(there, y, 0.0)
        laws = {
            "gaussian": lambda: stats.norm(eta, values["sd"]).logpdf(y),
            "bernoulli": lambda: stats.bernoulli(1 / (1 + np.exp(-eta))).logpmf(y),
            "poisson": lambda: stats.poisson(np.exp(eta)).logpmf(y),
        }
        return np.where(there, laws[outcome](), 0.0)

    return Case(part, holes(rows), truth)


def plain(kind, emission, rows, truth, styles=("states", "components"), **more):
    names = ("y", "v")[: rows.shape[1]]
    at = tuple(range(rows.shape[1]))
    emission = emission.with_prior(rows, K) if emission.prior is None else emission
    part = kind(columns=names, at=at, n_states=K, emission=emission, **more)
    return Case(part, holes(rows), truth, styles)


def mixture(values, rows):
    each = [
        stats.norm(values["mean"][..., j], values["sd"][..., j]).logpdf(rows[:, j, None, None])
        for j in range(rows.shape[1])
    ]
    inside = np.log(values["weight"]) + np.nansum(each, axis=0)
    return np.logaddexp.reduce(inside, axis=2)


NORMAL = by_cell(lambda x, v, j: stats.norm(at(v["mean"], j), at(v["sd"], j)).logpdf(x))
JOINT = joint(
    lambda v, k, there: stats.multivariate_normal(v["mean"][k][there], matrix(v, "covariance", k)[np.ix_(there, there)])
)
KNOWN = np.array([[4.0, 1.0], [1.0, 900.0]])
CASES = {
    "normal": plain(Normal, emissions.gaussian(2, "diagonal"), REAL, NORMAL),
    "normal of one column": plain(Normal, emissions.gaussian(1, "diagonal"), REAL[:, :1], NORMAL),
    "spherical": plain(Normal, emissions.gaussian(2, "spherical"), REAL, NORMAL),
    "full": plain(JointNormal, emissions.gaussian(2, "full"), REAL, JOINT),
    "tied": plain(JointNormal, emissions.gaussian(2, "tied"), REAL, JOINT),
    "known": plain(
        JointNormal,
        emissions.gaussian(2, "known", known=KNOWN),
        REAL,
        joint(lambda v, k, there: stats.multivariate_normal(v["mean"][k][there], KNOWN[np.ix_(there, there)])),
        ("components",),
    ),
    "lkj": plain(JointNormal, emissions.gaussian(2, "full"), REAL, JOINT, ("components",), lkj=2.0),
    "student_t of one column": plain(
        StudentT,
        emissions.StudentT(1),
        REAL[:, :1],
        by_cell(lambda x, v, j: stats.t(v["dof"], at(v["location"], j), at(v["scale"], j)).logpdf(x)),
    ),
    "student_t": plain(
        StudentT,
        emissions.StudentT(2, 4.0),
        REAL,
        joint(
            lambda v, k, there: stats.multivariate_t(
                v["location"][k][there], v["scale_matrix"][k][np.ix_(there, there)], v["dof"][k]
            )
        ),
        ("components",),
    ),
    "poisson": plain(
        OneParameter,
        emissions.OneParameter("Poisson", 2),
        COUNTS,
        by_cell(lambda x, v, j: stats.poisson(at(v["rate"], j)).logpmf(x)),
        word="poisson",
    ),
    "exponential": plain(
        OneParameter,
        emissions.OneParameter("Exponential", 2),
        np.abs(REAL),
        by_cell(lambda x, v, j: stats.expon(scale=1 / at(v["rate"], j)).logpdf(x)),
        word="exponential",
    ),
    "bernoulli": plain(
        OneParameter,
        emissions.OneParameter("Bernoulli", 2),
        FLAGS,
        by_cell(lambda x, v, j: stats.bernoulli(at(v["probability"], j)).logpmf(x)),
        word="bernoulli",
    ),
    "binomial": plain(
        OneParameter,
        emissions.OneParameter("Binomial", 2, known={"n": 20}),
        COUNTS,
        by_cell(lambda x, v, j: stats.binom(20, at(v["probability"], j)).logpmf(x)),
        word="binomial",
    ),
    "categorical": plain(
        Categories,
        emissions.Categorical((2, 3), 1.5),
        CODES,
        by_cell(lambda x, v, j: np.log(v[("p_y", "p_v")[j]].T[x[:, 0].astype(int)])),
        states=(np.array(["no", "yes"]), np.array(["a", "b", "c"])),
    ),
    "any distribution": plain(
        DistributedPart,
        emissions.AnyDistribution("Laplace", 2),
        REAL,
        by_cell(lambda x, v, j: stats.laplace(at(v["mu"], j), at(v["b"], j)).logpdf(x)),
        word="Laplace",
    ),
    "gaussian_mixture": plain(MixedPart, emissions.GaussianMixture(2, 3), REAL, mixture, ("states",)),
    "regression": regression("gaussian", REAL[:, 1]),
    "bernoulli regression": regression("bernoulli", FLAGS[:, 0]),
    "poisson regression": regression("poisson", COUNTS[:, 0]),
}
EVERY = [(name, style) for name, case in CASES.items() for style in case.styles]


def standardised(part, rows):
    """Regressions of components are of standardised rows."""
    if not isinstance(part, RegressionPart) or not part.style.whitened:
        return part, rows
    emission = part.emission
    return replace(part, emission=emission.inner), emission.rows(rows)


def evaluated(part, rows, seed=3):
    """Parameters near where chains start, and the log density of the rows there, from one graph."""
    coords = {part.style.state: list(range(part.n_states))} | {d: v.tolist() for d, v in part.labels().items()}
    with pm.Model(coords=coords) as model:
        made = part.variables(PYMC)
        names = [name for name in part.results if name in made]
        density = part.density(PYMC, made, rows)
    point = model.initial_point(random_seed=seed)
    found = model.compile_fn(
        model.replace_rvs_by_values([*(made[name] for name in names), density]),
        mode="FAST_COMPILE",
        point_fn=True,
        on_unused_input="ignore",
    )({name: value + 0.2 * np.random.default_rng(seed).normal(size=np.shape(value)) for name, value in point.items()})
    return dict(zip(names, found[:-1], strict=True)), found[-1]


@cache
def built(name, style):
    """The part in a style, its rows, and what :func:`evaluated` gives of it."""
    part, rows = standardised(CASES[name].styled(style), CASES[name].rows)
    return part, rows, *evaluated(part, rows)


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_densities_of_graphs_are_scipys(name, style):
    case = CASES[name]
    part, _, values, density = built(name, style)
    unit = case.part.outcome_unit if part is not case.part and isinstance(part.emission, emissions.Regression) else 1.0
    there = ~np.isnan(case.rows[:, -1:])
    lost = np.where(there, np.log(unit), 0.0)
    np.testing.assert_allclose(density - lost, case.truth(values, case.rows), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_arrays_have_the_same_densities(name, style):
    part, rows, values, density = built(name, style)
    theta = part.to_emission(values)
    np.testing.assert_allclose(part.emission.log_density(theta, rows[:, list(part.at)]), density, rtol=1e-9, atol=1e-9)
    back = part.from_emission(theta)
    for parameter in part.results:
        np.testing.assert_allclose(back[parameter], values[parameter], rtol=1e-9, err_msg=parameter)


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_parameters_have_their_dimensions(name, style):
    part, _, values, _ = built(name, style)
    sizes = {part.style.state: K} | {dim: len(labels) for dim, labels in part.labels().items()}
    assert set(part.learned) <= set(part.results) | set(part.known)
    for parameter in part.results:
        assert values[parameter].shape == part.shape(parameter) == tuple(sizes[d] for d in part.dims(parameter))
    assert part.prior_words().keys() <= set(part.results)
    assert all(part.prior_words().values())
    assert part.columns_at == tuple(part.position(column) for column in part.columns)
    assert {*part.columns_at, *part.given_at} == set(part.at)


@pytest.mark.parametrize(("name", "style"), EVERY)
def test_columns_are_drawn_given_states(name, style):
    part, rows, values, _ = built(name, style)
    rng, states = np.random.default_rng(1), np.arange(N) % K
    made = part.sample(rng, part.to_emission(values), states, rows[:, list(part.given_at)])
    assert made.shape == (N, len(part.columns))
    assert np.isfinite(made).all()
    if part.discrete:
        np.testing.assert_array_equal(made, np.floor(made))
    with pm.Model(coords={part.style.state: range(K)} | {d: v.tolist() for d, v in part.labels().items()}):
        variables = part.variables(PYMC)
        columns = part.drawn(variables, states, rows)
    assert tuple(columns) == part.columns


def test_one_chain_of_a_name_has_its_parameters_by_that_name():
    part = replace(CASES["normal"].part, name="height", suffix="_b")
    assert part.names == ("height_mean_b", "height_sd_b")
    assert [part.parameter(name) for name in part.names] == ["mean", "sd"]


def test_a_trials_column_is_given_not_predicted():
    rows = np.column_stack([COUNTS[:, 0], np.full(N, 20.0)])
    emission = emissions.OneParameter("Binomial", 1, (1.0, 1.0))
    part = OneParameter(word="binomial", columns=("won",), at=(0, 1), n_states=K, emission=emission, style=COMPONENTS)
    assert part.columns_at == (0,)
    assert part.given_at == (1,)
    values, density = evaluated(part, rows)
    p = values["probability"][:, 0]
    np.testing.assert_allclose(density, stats.binom(20, p).logpmf(rows[:, :1]), rtol=1e-9)
    made = part.sample(np.random.default_rng(0), {"probability": np.ones((K, 1))}, np.zeros(N, int), rows[:, 1:])
    np.testing.assert_array_equal(made, rows[:, 1:])
