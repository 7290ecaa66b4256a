"""What the language must know of PyMC's distributions without importing PyMC.

Names, parameters and their order are PyMC's (``pymc.<Name>.dist``); a test compares this table
with the PyMC that is installed. ``core`` counts the trailing dimensions that belong to one value
of a parameter (a covariance matrix: 2), ``support`` those of one draw (a vector: 1).
``fixed`` parameters are data: PyMC wants them as arrays when the distribution is made. The vectors
``apart`` run along a dimension that is not the node's (the coefficients of an autoregression, the
components of a mixture); a number there is a vector of one.
``positional`` is how many may be given by position where the rest are alternatives of each other;
it may be more than PyMC allows (``StudentT(nu, mu, sigma)``).
``atoms`` are the values that a continuous distribution takes with a probability above zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DISTRIBUTIONS", "MODIFIERS", "NEEDS_CODE", "Distribution"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution: its parameters in PyMC's order and the shape of what it draws."""

    parameters: tuple[str, ...]
    core: Mapping[str, int] = field(default_factory=dict)
    support: int = 0
    discrete: bool = False
    positional: int | None = None
    finite: bool = False
    distributions: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    atoms: tuple[str, ...] = ()


def _d(parameters: str, support: int = 0, positional: int | None = None, **core: int) -> Distribution:
    return Distribution(tuple(parameters.split()), core, support, positional=positional)


def _discrete(parameters: str, support: int = 0, finite: bool = False, **core: int) -> Distribution:
    return Distribution(tuple(parameters.split()), core, support, discrete=True, finite=finite)


DISTRIBUTIONS: dict[str, Distribution] = {
    # one continuous number
    "AsymmetricLaplace": _d("kappa mu b q"),
    "Beta": _d("alpha beta mu sigma nu"),
    "Cauchy": _d("alpha beta"),
    "ChiSquared": _d("nu"),
    "ExGaussian": _d("mu sigma nu"),
    "Exponential": _d("lam scale", positional=1),
    "Flat": _d(""),
    "Gamma": _d("alpha beta mu sigma"),
    "Gumbel": _d("mu beta"),
    "HalfCauchy": _d("beta"),
    "HalfFlat": _d(""),
    "HalfNormal": _d("sigma tau"),
    "HalfStudentT": _d("nu sigma lam"),
    "HurdleGamma": Distribution(("psi", "alpha", "beta", "mu", "sigma"), atoms=("0",)),
    "HurdleLogNormal": Distribution(("psi", "mu", "sigma", "tau"), atoms=("0",)),
    "Interpolated": Distribution(
        ("x_points", "pdf_points"), {"x_points": 1, "pdf_points": 1}, fixed=("x_points", "pdf_points")
    ),
    "InverseGamma": _d("alpha beta mu sigma"),
    "Kumaraswamy": _d("a b"),
    "Laplace": _d("mu b"),
    "LogNormal": _d("mu sigma tau"),
    "Logistic": _d("mu s"),
    "LogitNormal": _d("mu sigma tau"),
    "Lognormal": _d("mu sigma tau"),
    "Moyal": _d("mu sigma"),
    "Normal": _d("mu sigma tau"),
    "NormalMixture": Distribution(
        ("w", "mu", "sigma", "tau"), {"w": 1, "mu": 1, "sigma": 1, "tau": 1}, apart=("mu", "sigma", "tau")
    ),
    "Pareto": _d("alpha m"),
    "PolyaGamma": _d("h z"),
    "Rice": _d("nu sigma b"),
    "SkewNormal": _d("alpha mu sigma tau"),
    "SkewStudentT": _d("a b mu sigma lam", positional=4),
    "StudentT": _d("nu mu sigma lam", positional=3),
    "Triangular": _d("lower upper c"),
    "TruncatedNormal": _d("mu sigma tau lower upper", positional=2),
    "Uniform": _d("lower upper"),
    "VonMises": _d("mu kappa"),
    "Wald": _d("mu lam phi alpha"),
    "Weibull": _d("alpha beta"),
    # one discrete number
    "Bernoulli": _discrete("p logit_p", finite=True),
    "BetaBinomial": _discrete("alpha beta n"),
    "Binomial": _discrete("n p logit_p"),
    "Categorical": _discrete("p logit_p", finite=True, p=1, logit_p=1),
    "DiracDelta": _discrete("c"),
    "DiscreteUniform": _discrete("lower upper", finite=True),
    "DiscreteWeibull": _discrete("q beta"),
    "Geometric": _discrete("p"),
    "HurdleNegativeBinomial": _discrete("psi mu alpha p n"),
    "HurdlePoisson": _discrete("psi mu"),
    "HyperGeometric": _discrete("N k n"),
    "NegativeBinomial": _discrete("mu alpha p n"),
    "OrderedLogistic": Distribution(("eta", "cutpoints"), {"cutpoints": 1}, discrete=True, apart=("cutpoints",)),
    "OrderedProbit": Distribution(("eta", "cutpoints", "sigma"), {"cutpoints": 1}, discrete=True, apart=("cutpoints",)),
    "Poisson": _discrete("mu"),
    "ZeroInflatedBinomial": _discrete("psi n p"),
    "ZeroInflatedNegativeBinomial": _discrete("psi mu alpha p n"),
    "ZeroInflatedPoisson": _discrete("psi mu"),
    # vectors and matrices
    "CAR": _d("mu W alpha tau", 1, mu=1, W=2),
    "Dirichlet": _d("a", 1, a=1),
    "DirichletMultinomial": _discrete("n a", 1, a=1),
    "ICAR": Distribution(("W", "sigma", "zero_sum_stdev"), {"W": 2}, 1, fixed=("W",)),
    "MatrixNormal": _d("mu rowcov rowchol colcov colchol", 2, mu=2, rowcov=2, rowchol=2, colcov=2, colchol=2),
    "Multinomial": _discrete("n p", 1, p=1),
    "MvNormal": _d("mu cov tau chol", 1, 2, mu=1, cov=2, tau=2, chol=2),
    "MvStudentT": _d("nu mu scale tau chol", 1, 3, mu=1, scale=2, tau=2, chol=2),
    "OrderedMultinomial": Distribution(
        ("eta", "cutpoints", "n"), {"cutpoints": 1}, 1, discrete=True, apart=("cutpoints",)
    ),
    "StickBreakingWeights": Distribution(("alpha", "K"), {}, 1, lengths=("K",)),
    "Wishart": _d("nu V", 2, V=2),
    "ZeroSumNormal": _d("sigma n_zerosum_axes", 1),
    "LKJCholeskyCov": Distribution(("eta", "n", "sd_dist"), {}, 2, distributions=("sd_dist",), lengths=("n",)),
    "LKJCorr": Distribution(("n", "eta"), {}, 2, lengths=("n",)),
    # time series; the support is the last dimension
    "AR": Distribution(
        ("rho", "sigma", "tau", "init_dist", "constant"),
        {"rho": 1},
        1,
        positional=3,
        distributions=("init_dist",),
        apart=("rho",),
    ),
    "GARCH11": _d("omega alpha_1 beta_1 initial_vol", 1),
    "GaussianRandomWalk": Distribution(("mu", "sigma", "init_dist"), {}, 1, distributions=("init_dist",)),
    "MvGaussianRandomWalk": Distribution(
        ("mu", "cov", "tau", "chol", "init_dist"),
        {"mu": 1, "cov": 2, "tau": 2, "chol": 2},
        2,
        positional=2,
        distributions=("init_dist",),
    ),
    "MvStudentTRandomWalk": Distribution(
        ("nu", "mu", "scale", "tau", "chol", "init_dist"),
        {"mu": 1, "scale": 2, "tau": 2, "chol": 2},
        2,
        positional=1,
        distributions=("init_dist",),
    ),
    "RandomWalk": Distribution(("init_dist", "innovation_dist"), {}, 1, distributions=("init_dist", "innovation_dist")),
}

# Built from other distributions, or words of the language itself.
MODIFIERS = ("Truncated", "Censored", "Mixture", "Ordered", "PositiveOrdered", "Potential")

# In PyMC, but their arguments are Python functions: not expressible in a file.
NEEDS_CODE = ("CustomDist", "DensityDist", "EulerMaruyama", "Simulator", "KroneckerNormal")
