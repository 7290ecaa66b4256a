"""The table of distributions against the PyMC that is installed, and every entry in use."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pymc.distributions.multivariate import _OrderedMultinomial
from pytensor.compile.mode import Mode
from pytensor.scalar.basic import autocast_float_as

import bayeslab as bl
from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, NEEDS_CODE
from bayeslab.language.nodes import nodes_of
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")
BASES = {"Continuous", "Discrete", "Distribution", "SymbolicRandomVariable"}
OWN = {"Ordered", "PositiveOrdered", "Potential"}
# Paths of hidden states, functions, linear-Gaussian states and shares of a stick, which PyMC has no distributions for; they have tests of their own.
PATHS = {"MarkovChain", "MarkovTree", "SemiMarkovChain"}
PROCESSES = {"GaussianProcess"}
STATES = {"LinearGaussian", "LocalLevel", "LocalTrend", "Seasonal"}
SHARES = {"StickBreaking"}
PYMCS = sorted(DISTRIBUTIONS.keys() - PATHS - PROCESSES - STATES - SHARES)

# Parameters that the language does not have: the node's dims say it, or nobody needs it.
LEFT_OUT = {
    "AR": {"steps", "ar_order"},
    "GARCH11": {"steps"},
    "LKJCholeskyCov": {"compute_corr"},
    "MvNormal": {"lower"},
    "MvStudentT": {"Sigma", "lower"},
    "RandomWalk": {"steps"},
    "Wishart": {"scale_chol"},
    "ZeroSumNormal": {"support_shape"},
    "MvGaussianRandomWalk": {"lower"},
    "MvStudentTRandomWalk": {"lower"},
}

COV = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, -0.2], [0.1, -0.2, 1.0]])
ARRAYS = {
    "v": np.array([0.5, -1.0, 2.0]),
    "p": np.array([0.2, 0.3, 0.5]),
    "cov": COV,
    "chol": np.linalg.cholesky(COV),
    "m": np.arange(6.0).reshape(2, 3),
    "rows": COV[:2, :2],
    "low": np.linalg.cholesky(COV[:2, :2]),
    "W": np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]),
}
# (arguments, dims of the node): `i` has length 3, `t` 5 and `r` 2. Each parameter is used once.
EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "AR": [
        ("rho=[0.2, 0.1], sigma=2.0, init_dist=Normal(0, 2)", "t"),
        ("rho=[1.0, 0.2], tau=2.0, init_dist=Normal(0, 1), constant=True", "r,t"),
    ],
    "AsymmetricLaplace": [("kappa=2.0, mu=1.0, b=3.0", "i"), ("q=0.3, mu=1.0, b=3.0", "")],
    "Bernoulli": [("p=0.3", "i"), ("logit_p=0.3", "")],
    "Beta": [("alpha=2.0, beta=3.0", "i"), ("mu=0.3, sigma=0.1", ""), ("mu=0.4, nu=6.0", "")],
    "BetaBinomial": [("alpha=2.0, beta=3.0, n=7", "i")],
    "Binomial": [("n=7, p=0.3", "i"), ("n=7, logit_p=0.3", "")],
    "CAR": [("mu=v, W=W, alpha=0.5, tau=2.0", "i"), ("mu=0.0, W=W, alpha=0.5, tau=2.0", "i")],
    "Categorical": [("p=p", ""), ("p=p", "t"), ("logit_p=v", "t")],
    "Cauchy": [("alpha=1.0, beta=2.0", "i")],
    "ChiSquared": [("nu=3.0", "i")],
    "DiracDelta": [("c=3", "i")],
    "Dirichlet": [("a=p", "i"), ("a=p", "t,i")],
    "DirichletMultinomial": [("n=5, a=p", "i"), ("n=[3, 4], a=p", "r,i")],
    "DiscreteUniform": [("lower=1, upper=4", "i")],
    "DiscreteWeibull": [("q=0.7, beta=1.2", "i")],
    "ExGaussian": [("mu=1.0, sigma=2.0, nu=3.0", "i")],
    "Exponential": [("lam=2.0", "i"), ("scale=2.0", "")],
    "Flat": [("", "i")],
    "GARCH11": [("omega=1.0, alpha_1=0.2, beta_1=0.3, initial_vol=0.7", "t")],
    "Gamma": [("alpha=2.0, beta=3.0", "i"), ("mu=2.0, sigma=3.0", "")],
    "GaussianRandomWalk": [
        ("mu=0.3, sigma=2.0, init_dist=Normal(0, 2)", "t"),
        ("mu=[0.1, 0.2], init_dist=Normal(0, 2)", "r,t"),
    ],
    "Geometric": [("p=0.3", "i")],
    "Gumbel": [("mu=1.0, beta=2.0", "i")],
    "HalfCauchy": [("beta=2.0", "i")],
    "HalfFlat": [("", "i")],
    "HalfNormal": [("sigma=2.0", "i"), ("tau=2.0", "")],
    "HalfStudentT": [("nu=4.0, sigma=2.0", "i"), ("nu=4.0, lam=2.0", "")],
    "HurdleGamma": [("psi=0.3, alpha=2.0, beta=3.0", "t"), ("psi=0.3, mu=2.0, sigma=3.0", "")],
    "HurdleLogNormal": [("psi=0.3, mu=2.0, sigma=3.0", "t"), ("psi=0.3, mu=2.0, tau=3.0", "")],
    "HurdleNegativeBinomial": [("psi=0.3, mu=2.0, alpha=3.0", "t"), ("psi=0.3, p=0.4, n=3.0", "")],
    "HurdlePoisson": [("psi=0.3, mu=2.0", "t")],
    "HyperGeometric": [("N=20, k=8, n=5", "i")],
    "ICAR": [("W=W, sigma=2.0", "i"), ("W=W, zero_sum_stdev=0.01", "i")],
    "Interpolated": [("x_points=[0, 1, 2], pdf_points=[0.1, 1, 0.4]", "i")],
    "InverseGamma": [("alpha=3.0, beta=2.0", "i"), ("mu=2.0, sigma=3.0", "")],
    "Kumaraswamy": [("a=2.0, b=3.0", "i")],
    "LKJCholeskyCov": [("eta=2.0, sd_dist=Exponential(1)", "i,j"), ("eta=2.0, n=3, sd_dist=HalfNormal(1)", "i,j")],
    "LKJCorr": [("eta=2.0", "i,j"), ("n=3, eta=2.0", "i,j")],
    "Laplace": [("mu=1.0, b=2.0", "i")],
    "LogNormal": [("mu=1.0, sigma=2.0", "i"), ("mu=1.0, tau=2.0", "")],
    "Logistic": [("mu=1.0, s=2.0", "i")],
    "LogitNormal": [("mu=1.0, sigma=2.0", "i"), ("mu=1.0, tau=2.0", "")],
    "Lognormal": [("mu=1.0, sigma=2.0", "i"), ("mu=1.0, tau=2.0", "")],
    "MatrixNormal": [("mu=m, rowcov=rows, colcov=cov", "r,i"), ("mu=m, rowchol=low, colchol=chol", "r,i")],
    "Moyal": [("mu=1.0, sigma=2.0", "i")],
    "Multinomial": [("n=5, p=p", "i"), ("n=[3, 4], p=p", "r,i")],
    "MvGaussianRandomWalk": [
        ("mu=v, cov=cov, init_dist=MvNormal(0, cov)", "t,i"),
        ("mu=0.0, chol=chol, init_dist=MvNormal(v, cov)", "t,i"),
        ("mu=0.0, tau=cov, init_dist=MvNormal(v, cov)", "t,i"),
    ],
    "MvNormal": [("mu=v, cov=cov", "i"), ("mu=0.0, tau=cov", "t,i"), ("mu=v, chol=chol", "t,i")],
    "MvStudentT": [
        ("nu=5.0, mu=v, scale=cov", "i"),
        ("nu=5.0, mu=v, tau=cov", "i"),
        ("nu=5.0, mu=v, chol=chol", "t,i"),
    ],
    "MvStudentTRandomWalk": [
        ("nu=5.0, mu=v, scale=cov, init_dist=MvNormal(0, cov)", "t,i"),
        ("nu=5.0, mu=v, chol=chol, init_dist=MvNormal(0, cov)", "t,i"),
        ("nu=5.0, mu=v, tau=cov, init_dist=MvNormal(0, cov)", "t,i"),
    ],
    "NegativeBinomial": [("mu=2.0, alpha=3.0", "i"), ("p=0.4, n=3.0", "")],
    "Normal": [("mu=1.0, sigma=2.0", "i"), ("mu=v, tau=2.0", "t,i")],
    "NormalMixture": [("w=p, mu=v, sigma=2.0", "t"), ("w=p, mu=v, tau=[1.0, 2.0, 3.0]", "t")],
    "OrderedLogistic": [("eta=0.3, cutpoints=[-1.0, 0.0, 2.0]", "i"), ("eta=v, cutpoints=[-1.0, 0.0]", "i")],
    "OrderedMultinomial": [
        ("eta=0.3, cutpoints=[-1.0, 0.5], n=6", "i"),
        ("eta=0.3, cutpoints=[-1.0, 0.5], n=[3, 4]", "r,i"),
    ],
    "OrderedProbit": [("eta=0.3, cutpoints=[-1.0, 0.0, 2.0]", "i"), ("eta=v, cutpoints=[-1.0, 0.0], sigma=2.0", "i")],
    "Pareto": [("alpha=2.0, m=1.5", "i")],
    "Poisson": [("mu=3.0", "i")],
    "RandomWalk": [
        ("init_dist=Normal(0, 2), innovation_dist=StudentT(4, 0, 1)", "t"),
        ("Normal(0, 2), Normal(0, 1)", "r,t"),
    ],
    "Rice": [("nu=2.0, sigma=1.5", "i"), ("b=2.0, sigma=1.5", "")],
    "SkewNormal": [("alpha=1.0, mu=2.0, sigma=3.0", "i"), ("alpha=1.0, mu=2.0, tau=3.0", "")],
    "SkewStudentT": [("a=2.0, b=3.0, mu=1.0, sigma=2.0", "i"), ("a=2.0, b=3.0, mu=1.0, lam=2.0", "")],
    "StickBreakingWeights": [("alpha=2.0, K=2", "i"), ("alpha=2.0", "i"), ("alpha=[2.0, 3.0]", "r,i")],
    "StudentT": [("nu=4.0, mu=1.0, sigma=2.0", "i"), ("nu=4.0, mu=1.0, lam=2.0", "")],
    "Triangular": [("lower=0.0, upper=3.0, c=1.0", "i")],
    "TruncatedNormal": [("mu=1.0, sigma=2.0, lower=0.0, upper=3.0", "i"), ("mu=1.0, tau=2.0, lower=0.0", "")],
    "Uniform": [("lower=1.0, upper=2.0", "i")],
    "VonMises": [("mu=1.0, kappa=2.0", "i")],
    "Wald": [("mu=1.0, lam=2.0", "i"), ("mu=1.0, phi=2.0, alpha=0.5", ""), ("lam=1.0, phi=2.0", "")],
    "Weibull": [("alpha=1.5, beta=2.0", "i")],
    "Wishart": [("nu=5, V=cov", "i,j")],
    "ZeroInflatedBinomial": [("psi=0.3, n=7, p=0.4", "t")],
    "ZeroInflatedNegativeBinomial": [("psi=0.3, mu=2.0, alpha=3.0", "t"), ("psi=0.3, p=0.4, n=3.0", "")],
    "ZeroInflatedPoisson": [("psi=0.3, mu=2.0", "t")],
    "ZeroSumNormal": [("sigma=2.0", "i"), ("sigma=2.0, n_zerosum_axes=2", "t,i")],
}
ALL = [(name, *example) for name, examples in EXAMPLES.items() for example in examples]
SIZES = {"i": 3, "j": 3, "t": 5, "r": 2}
UNDRAWABLE = {"Flat", "HalfFlat", "ICAR"}
# The language draws a matrix where PyMC draws something else.
MATRIX = {"LKJCholeskyCov", "LKJCorr"}


def pymc_classes() -> dict[str, Any]:
    names = set(pm.distributions.__all__) - BASES
    return {name: getattr(pm, name) for name in names if hasattr(getattr(pm, name), "dist")}


def model_of(name: str, arguments: str, dims: str) -> bl.Model:
    """One node, its arrays data with dims."""
    sides = {"v": ["i"], "p": ["i"], "cov": ["i", "j"], "chol": ["i", "j"], "rows": ["r", "r2"], "low": ["r", "r2"]}
    sides |= {"W": ["i", "j"], "m": ["r", "i"]}
    key = f"x[{dims.replace(',', ', ')}]" if dims else "x"
    return bl.Model(
        data={"dims": sides | {"x": dims.split(",") if dims else []}},
        dims={"j": "i", "r": 2, "r2": "r", "t": 5, "i": 3},
        model={"family": "graph", "nodes": {key: f"{name}({arguments})"}},
    )


def shape_of(dims: str) -> tuple[int, ...]:
    return tuple(SIZES[d] for d in dims.split(",")) if dims else ()


def by_hand(name: str, arguments: str, dims: str) -> Any:
    """The same distribution from PyMC: the arguments are Python too."""

    class Inner:
        def __init__(self, maker: Any) -> None:
            self.maker = maker

        def __call__(self, *given: Any) -> Any:
            return self.maker.dist(*(np.float64(g) if np.isscalar(g) else g for g in given), shape=inner_shape)

    shape = shape_of(dims)
    inner_shape = shape[:-1] if not name.startswith("Mv") else shape[1:]
    if name == "AR":
        inner_shape = (*shape[:-1], 2 if len(shape) == 1 else 1)
    names = {word: Inner(getattr(pm, word)) for word in ("Normal", "HalfNormal", "Exponential")}
    names |= {
        "StudentT": lambda nu, mu, sigma: pm.StudentT.dist(nu, mu, sigma=sigma, shape=inner_shape),
        "MvNormal": lambda mu, cov: pm.MvNormal.dist(mu * np.ones(3), cov, shape=inner_shape),
    }
    positional, given = eval(f"(lambda *a, **k: (a, k))({arguments})", names | ARRAYS)
    given = {k: v if hasattr(v, "owner") or isinstance(v, bool) else np.asarray(v) for k, v in given.items()}
    if name == "OrderedMultinomial":
        given["compute_p"] = False
    if "n_zerosum_axes" in given:
        given["n_zerosum_axes"] = int(given["n_zerosum_axes"])
    if name == "CAR":
        given["mu"] = given["mu"] * np.ones(3)
    if name == "StickBreakingWeights":
        given["K"] = 2
    if name in ("AR", "GaussianRandomWalk") and len(shape) > 1:
        given = {k: value[..., None] if k == "mu" and name == "AR" else value for k, value in given.items()}
    return getattr(pm, name).dist(*positional, **given, shape=shape)


def test_the_table_has_every_distribution_of_pymc():
    known = DISTRIBUTIONS.keys() | set(MODIFIERS) | set(NEEDS_CODE)
    assert known - OWN - PATHS - PROCESSES - STATES - SHARES == pymc_classes().keys()
    assert EXAMPLES.keys() == DISTRIBUTIONS.keys() - PATHS - PROCESSES - STATES - SHARES


@pytest.mark.parametrize("name", PYMCS)
def test_parameters_are_those_of_pymc_in_its_order(name):
    makers = [getattr(pm, name).dist]
    if name == "OrderedMultinomial":
        makers = [_OrderedMultinomial.dist]
    elif name.endswith("RandomWalk") and name != "RandomWalk":
        makers = [getattr(pm, name).get_dists]
    parameters = [p for maker in makers for p in inspect.signature(maker).parameters.values()]
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    want = [p.name for p in named if p.name not in LEFT_OUT.get(name, ())]
    assert list(DISTRIBUTIONS[name].parameters) == want
    positional = DISTRIBUTIONS[name].positional
    if positional is not None and not name.endswith("RandomWalk"):
        assert positional >= sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in named if p.name in want)


@pytest.mark.parametrize("name", PYMCS)
def test_every_parameter_has_an_example(name):
    used = {p for args, _ in EXAMPLES[name] for p in DISTRIBUTIONS[name].parameters if f"{p}=" in args}
    assert set(DISTRIBUTIONS[name].parameters) == used


@pytest.mark.parametrize("name", PYMCS)
def test_support_and_kind_are_those_of_pymc(name):
    entry = DISTRIBUTIONS[name]
    if name not in MATRIX:
        drawn = by_hand(name, *EXAMPLES[name][0])
        assert drawn.owner.op.ndim_supp == entry.support
        assert (drawn.dtype.startswith(("int", "bool"))) == entry.discrete
    (node,) = nodes_of({f"x[{EXAMPLES[name][0][1]}]" if EXAMPLES[name][0][1] else "x": f"{name}()"}).values()
    assert node.discrete == entry.discrete


BOUNDED = [
    (name, arguments, dims)
    for name, arguments, dims in ALL
    if not DISTRIBUTIONS[name].discrete
    and DISTRIBUTIONS[name].support == 0
    and not DISTRIBUTIONS[name].atoms
    and name not in MATRIX
    and (DISTRIBUTIONS[name].domain.values.low != -np.inf or DISTRIBUTIONS[name].domain.values.high != np.inf)
]


@pytest.mark.parametrize(("name", "arguments", "dims"), BOUNDED)
def test_samplers_cannot_step_out_of_bounds(name, arguments, dims):
    """What has a bound is sampled on another scale: PyMC has none for the logit-normal."""
    model = bl.to_pymc(model_of(name, arguments, dims), ARRAYS)
    assert model.rvs_to_transforms[model["x"]] is not None


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        (
            {"family": "hmm", "columns": ["y"], "states": 2, "emission": "bernoulli", "parameters": {"probability": "LogitNormal(0, 1)"}},
            "probability",
        ),
        (
            {"family": "graph", "nodes": {"h[row]": "LogitNormal(logit(previous(h, 1, start=0.5)), 1)", "y[row]": "Bernoulli(h)"}},
            "h",
        ),
    ],
    ids=["written prior of a chain", "recursion"],
)  # fmt: skip
def test_shares_are_sampled_as_log_odds_wherever_they_are_written(spec, node):
    model = bl.to_pymc(bl.Model(model=spec, data={"rows": "row"}), pd.DataFrame({"y": [1.0, 0.0, 1.0, 1.0]}))
    assert type(model.rvs_to_transforms[model[node]]).__name__ == "LogOddsTransform"


@pytest.mark.slow(why="compiles")
@pytest.mark.filterwarnings("ignore:.* is deprecated:FutureWarning")  # PyMC's own MatrixNormal
@pytest.mark.parametrize(("name", "arguments", "dims"), ALL)
def test_density_of_one_node_is_pymcs(name, arguments, dims):
    with autocast_float_as("float64"):
        if name in MATRIX:
            model = bl.to_pymc(model_of(name, arguments, dims), ARRAYS)
            assert np.isfinite(model.compile_logp(mode=PYTHON)(model.initial_point()))
            return
        right = by_hand(name, arguments, dims)
        value = np.zeros(shape_of(dims)) if name in UNDRAWABLE else pm.draw(right, mode=PYTHON, random_seed=3)
        if name == "HalfFlat":
            value = value + 1.0
        ours = bl.to_pymc(model_of(name, arguments, dims), ARRAYS | {"x": value})
        with pm.Model() as theirs:
            theirs.register_rv(right, "x", observed=value)
        expected = theirs.compile_logp(mode=PYTHON)({})
        assert np.isfinite(expected)
        np.testing.assert_allclose(ours.compile_logp(mode=PYTHON)({}), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "arguments", "dims"), [each for each in ALL if each[0] not in UNDRAWABLE])
def test_one_node_can_be_drawn_from_the_prior(name, arguments, dims):
    drawn = bl.simulate(model_of(name, arguments, dims), ARRAYS, draws=2, seed=1)["prior_predictive"]["x"]
    assert drawn.shape == (1, 2, *shape_of(dims))
    assert np.all(np.isfinite(drawn))


@pytest.mark.parametrize("arguments", ["LKJCorr(eta=1)", "LKJCholeskyCov(eta=1, sd_dist=Exponential(1))"])
def test_prior_draws_of_correlations_have_their_variance(arguments):
    """Each of n variables' correlations is 2 B - 1 with B ~ Beta(n / 2, n / 2) when eta is 1."""
    model = bl.Model(dims={"i": 4, "j": "i"}, model={"family": "graph", "nodes": {"L[i, j]": arguments}})
    drawn = bl.simulate(model, draws=1500, seed=1)
    found = {name: group[name] for group in drawn.values() for name in group.data_vars}
    corr = found.get("L_corr", found["L"]).to_numpy()[0]
    for i, j in ((1, 0), (3, 0), (3, 2)):
        squares = corr[:, i, j] ** 2
        assert abs(squares.mean() - 1 / 5) < 4 * squares.std() / np.sqrt(1500)


@pytest.mark.parametrize("name", sorted(UNDRAWABLE - {"ICAR"}))
def test_flat_priors_refuse_to_be_drawn_from(name):
    with refused("model.improper", "'x'.*HalfFlat"):
        bl.simulate(model_of(name, "", "i"), draws=2)


@pytest.mark.parametrize(("name", "why"), NEEDS_CODE.items())
def test_distributions_that_no_file_can_hold_say_why(name, why):
    with refused("model.not-a-distribution", re.escape(f"{name} {why}")):
        bl.check(model_of(name, "1", "i"))
