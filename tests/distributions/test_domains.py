"""What ``check`` knows of domains and supports, against PyMC's densities; and that models outside them are refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode

import bayeslab as bl
from bayeslab import preparation
from bayeslab.distributions import DISTRIBUTIONS, Domain, Interval
from bayeslab.errors import BayeslabError
from bayeslab.families import graph
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")
DOMAINS = {word: entry.domain for word, entry in DISTRIBUTIONS.items()}

# Parameters in their domains, and a value inside the support; distributions of one number.
GOOD: dict[str, list[tuple[dict[str, float], float]]] = {
    "AsymmetricLaplace": [({"kappa": 2.0, "mu": 0.0, "b": 1.5}, 0.3), ({"q": 0.3, "mu": 0.0, "b": 1.5}, 0.3)],
    "Bernoulli": [({"p": 0.3}, 1)],
    "Beta": [({"alpha": 2.0, "beta": 3.0}, 0.4), ({"mu": 0.4, "nu": 5.0}, 0.4)],
    "BetaBinomial": [({"alpha": 2.0, "beta": 3.0, "n": 7}, 3)],
    "Binomial": [({"n": 7, "p": 0.3}, 3)],
    "Cauchy": [({"alpha": 0.0, "beta": 1.5}, 0.3)],
    "ChiSquared": [({"nu": 3.0}, 1.5)],
    "DiscreteUniform": [({"lower": 2, "upper": 5}, 3)],
    "DiscreteWeibull": [({"q": 0.5, "beta": 1.5}, 2)],
    "ExGaussian": [({"mu": 0.0, "sigma": 1.5, "nu": 0.8}, 0.3)],
    "Exponential": [({"lam": 1.5}, 0.4), ({"scale": 1.5}, 0.4)],
    "Gamma": [({"alpha": 2.0, "beta": 3.0}, 0.4), ({"mu": 2.0, "sigma": 3.0}, 0.4)],
    "Geometric": [({"p": 0.3}, 2)],
    "Gumbel": [({"mu": 0.0, "beta": 1.5}, 0.3)],
    "HalfCauchy": [({"beta": 1.5}, 0.3)],
    "HalfNormal": [({"sigma": 1.5}, 0.3), ({"tau": 1.5}, 0.3)],
    "HalfStudentT": [({"nu": 3.0, "sigma": 1.5}, 0.3), ({"nu": 3.0, "lam": 1.5}, 0.3)],
    "HurdlePoisson": [({"psi": 0.6, "mu": 2.0}, 2)],
    "InverseGamma": [({"alpha": 2.0, "beta": 3.0}, 0.4)],
    "Kumaraswamy": [({"a": 2.0, "b": 3.0}, 0.4)],
    "Laplace": [({"mu": 0.0, "b": 1.5}, 0.3)],
    "LogNormal": [({"mu": 0.0, "sigma": 1.5}, 0.3), ({"mu": 0.0, "tau": 1.5}, 0.3)],
    "Logistic": [({"mu": 0.0, "s": 1.5}, 0.3)],
    "LogitNormal": [({"mu": 0.0, "sigma": 1.5}, 0.3)],
    "Moyal": [({"mu": 0.0, "sigma": 1.5}, 0.3)],
    "NegativeBinomial": [({"mu": 2.0, "alpha": 3.0}, 2), ({"n": 2.0, "p": 0.3}, 2)],
    "Normal": [({"mu": 0.0, "sigma": 1.5}, 0.3), ({"mu": 0.0, "tau": 1.5}, 0.3)],
    "Pareto": [({"alpha": 2.0, "m": 1.5}, 2.5)],
    "Poisson": [({"mu": 2.0}, 2)],
    "Rice": [({"nu": 1.0, "sigma": 1.5}, 0.3), ({"b": 1.0, "sigma": 1.5}, 0.3)],
    "SkewNormal": [({"alpha": 1.0, "mu": 0.0, "sigma": 1.5}, 0.3)],
    "SkewStudentT": [({"a": 2.0, "b": 3.0, "mu": 0.0, "sigma": 1.5}, 0.3)],
    "StudentT": [({"nu": 3.0, "mu": 0.0, "sigma": 1.5}, 0.3), ({"nu": 3.0, "mu": 0.0, "lam": 1.5}, 0.3)],
    "Triangular": [({"lower": 1.0, "c": 2.0, "upper": 5.0}, 3.0)],
    "TruncatedNormal": [({"mu": 0.0, "sigma": 1.5, "lower": -1.0, "upper": 2.0}, 0.3)],
    "Uniform": [({"lower": 1.0, "upper": 3.0}, 2.0)],
    "VonMises": [({"mu": 0.0, "kappa": 1.5}, 0.3)],
    "Wald": [({"mu": 1.0, "lam": 1.5, "alpha": 0.5}, 1.3)],
    "Weibull": [({"alpha": 2.0, "beta": 3.0}, 0.4)],
    "ZeroInflatedBinomial": [({"psi": 0.6, "n": 7, "p": 0.3}, 3)],
    "ZeroInflatedNegativeBinomial": [({"psi": 0.6, "mu": 2.0, "alpha": 3.0}, 2)],
    "ZeroInflatedPoisson": [({"psi": 0.6, "mu": 2.0}, 2)],
}


class Density:
    """PyMC's density of one distribution as a function of its parameters and the value."""

    def __init__(self, word: str, parameters: dict[str, float], value: float) -> None:
        self.good, self.value = parameters, value
        kinds = {name: "int64" if isinstance(number, int) else "float64" for name, number in parameters.items()}
        symbols = {name: pt.scalar(name, dtype=kind) for name, kind in kinds.items()}
        at = pt.scalar("value", dtype="int64" if DISTRIBUTIONS[word].discrete else "float64")
        density = pm.logp(getattr(pm, word).dist(**symbols), at, warn_rvs=False)
        self.function = pytensor.function([*symbols.values(), at], density, mode=PYTHON, on_unused_input="ignore")

    def finite(self, value: float | None = None, **changed: float) -> bool:
        try:
            with np.errstate(all="ignore"):
                found = self.function(*(self.good | changed).values(), self.value if value is None else value)
        except ParameterValueError:
            return False
        return bool(np.isfinite(found))


def allowed(word: str, given: dict[str, float], value: float | None) -> bool:
    """Whether ``check`` lets pass a node of this distribution with these numbers (and this value)."""
    arguments = ", ".join(f"{name}={number!r}" for name, number in given.items())
    model = bl.Model(model={"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[obs_id]": f"{word}({arguments})"}})
    bound = preparation.bound(model, {"y": [np.nan if value is None else value, np.nan]})
    try:
        graph.compile(model, bound).bound_data()
    except BayeslabError:
        return False
    return True


def edges(word: str, parameters: dict[str, float]) -> list[tuple[str, float]]:
    """Numbers at the finite ends of the domains, and beyond and within them."""
    out = []
    for name in parameters.keys() & DOMAINS[word].parameters.keys():
        interval = DOMAINS[word].parameters[name]
        whole = isinstance(parameters[name], int)
        for end, outward in ((interval.low, -1), (interval.high, 1)):
            if np.isfinite(float(end)):
                steps = (outward, -outward) if whole else (0, 0.25 * outward, -0.25 * outward)
                out += [(name, type(parameters[name])(float(end) + step)) for step in steps]
    return out


@pytest.mark.parametrize("word", sorted(GOOD))
def test_domains_are_those_of_the_densities(word):
    for parameters, value in GOOD[word]:
        density = Density(word, parameters, value)
        assert density.finite() and allowed(word, parameters, value)
        for name, number in edges(word, parameters):
            # At a closed end the density may be zero at one value only: probabilities of 0 and 1.
            interval = DOMAINS[word].parameters[name]
            if number in (interval.low, interval.high) and allowed(word, parameters | {name: number}, None):
                continue
            assert allowed(word, parameters | {name: number}, None) == density.finite(
                **{name: number}, value=0 if name == "n" and number < value else None
            ), (name, number)
        bounds = (DOMAINS[word].values.low, DOMAINS[word].values.high)
        ends = [parameters.get(b, DOMAINS[word].defaults.get(b, np.nan)) if isinstance(b, str) else b for b in bounds]
        for end in ends:
            if not np.isfinite(end):
                continue
            steps = (-1, 0, 1) if DISTRIBUTIONS[word].discrete else (-0.125, 0, 0.125)
            for at in (end + step for step in steps):
                if word == "Triangular" and at in ends:
                    continue  # zero density at an end: left to the density
                assert allowed(word, parameters, at) == density.finite(at), (parameters, at)


def test_every_distribution_has_a_domain():
    unlimited = {
        "Flat", "GaussianProcess", "LinearGaussian", "MatrixNormal", "MvGaussianRandomWalk", "MvNormal",
        "OrderedLogistic", "RandomWalk", "Wishart",
    }  # fmt: skip
    anything = Domain(values=Interval.read("(-inf, inf)"))
    assert {word for word, domain in DOMAINS.items() if domain == anything} == unlimited
    for word, domain in DOMAINS.items():
        named = {*domain.parameters, *domain.increasing, *domain.defaults, *(n for n, _ in domain.bounded_by.values())}
        named |= {end for end in (domain.values.low, domain.values.high) if isinstance(end, str)}
        assert named <= set(DISTRIBUTIONS[word].parameters), word


LEVELS = {"k": ["a", "b", "c"]}
Y = [1.0, 2.0, 9.0]

REFUSED = {
    "binomial above n": (
        {"p": "Beta(1, 1)", "y[obs_id]": "Binomial(5, p)"},
        {"y": [1, 2, 9]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*'y', row 3: 9.*Binomial.*0 to 5",
    ),
    "binomial above a column": (
        {"p": "Beta(1, 1)", "y[obs_id]": "Binomial(n, p)"},
        {"y": [1, 2, 9], "n": [1, 1, 9]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*row 2: 2.*Binomial.*0 to 1",
    ),
    "negative waiting time": (
        {"l": "Gamma(1, 1)", "y[obs_id]": "Exponential(l)"},
        {"y": [1, -2, 9]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*row 2: -2.*Exponential.*0",
    ),
    "outside a truncation": (
        {"m": "Normal(0, 1)", "y[obs_id]": "Truncated(Normal(m, 1), lower=c, upper=8)"},
        {"y": Y, "c": [0, 0, 0]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*row 3: 9.*Truncated.*0 to 8",
    ),
    "outside a truncation of positive numbers": (
        {"m": "Gamma(1, 1)", "y[obs_id]": "Truncated(Exponential(m), upper=8)"},
        {"y": [-1.0, 2.0, 3.0]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*Truncated.*0 to 8",
    ),
    "outside a censoring": (
        {"m": "Normal(0, 1)", "y[obs_id]": "Censored(Normal(m, 1), lower=None, upper=8)"},
        {"y": Y},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*Censored.* 8 ",
    ),
    "in no component": (
        {"l": "Gamma(1, 1)", "y[obs_id]": "Mixture([0.5, 0.5], [Exponential(l), Uniform(-2, -1)])"},
        {"y": [1.0, -3.0, 2.0]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*Mixture.* 0 .*-2 to -1",
    ),
    "category beyond the last": (
        {"p[k]": "Dirichlet(1)", "y[obs_id]": "Categorical(p)"},
        {"y": [0, 1, 3]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*row 3: 3.*Categorical.*0 to 2",
    ),
    "beta at an end": (
        {"a": "Gamma(1, 1)", "y[obs_id]": "Beta(a, 2)"},
        {"y": [0.5, 0.0, 0.2]},
        "data.impossible-value",
        r"^model\.nodes\.y\[obs_id\].*Beta.*0 and 1",
    ),
    "shares that do not add up": (
        {"a": "Gamma(1, 1)", "y[obs_id, k]": "Dirichlet([a, a, a])"},
        {"y": [[0.2, 0.3, 0.5], [0.2, 0.3, 0.6]]},
        "data.impossible-value",
        r"^model\.nodes\.y.*row 2.*1\.1.*Dirichlet",
    ),
    "negative sd": (
        {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, -1)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.y\[obs_id\].*Normal.*sigma.*-1$",
    ),
    "sd of zero, by a name": (
        {"s": "1 - 1", "m": "Normal(0, s)", "y[obs_id]": "Normal(m, 1)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.m: Normal.*sigma.*0$",
    ),
    "column of sds": (
        {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, s)"},
        {"y": Y, "s": [1, -1, 2]},
        "data.out-of-range",
        r"^model\.nodes\.y\[obs_id\].*Normal.*sigma.*'s'.*-1.*row 2",
    ),
    "prior of zero alpha": (
        {"s": "Beta(0, 1)", "y[obs_id]": "Normal(0, s)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.s: Beta.*alpha.*0$",
    ),
    "prior of negative alpha": (
        {"mu": "Gamma(-1, 1)", "y[obs_id]": "Poisson(mu)"},
        {"y": [1, 2, 9]},
        "model.out-of-range",
        r"^model\.nodes\.mu: Gamma.*alpha.*-1$",
    ),
    "prior with its bounds swapped": (
        {"s": "Uniform(2, 1)", "y[obs_id]": "Normal(0, s)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.s: Uniform.*lower.*upper.*2.*1$",
    ),
    "sd of a beta that cannot be": (
        {"p": "Beta(mu=0.5, sigma=0.6)", "y[obs_id]": "Bernoulli(p)"},
        {"y": [0, 1, 1]},
        "model.out-of-range",
        r"^model\.nodes\.p: Beta.*sigma.*0\.5.*0\.6$",
    ),
    "parameter inside a modifier": (
        {"m": "Truncated(Normal(0, 0), lower=0)", "y[obs_id]": "Normal(m, 1)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.m: Normal.*sigma",
    ),
    "division by a cell": (
        {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a / x, 1)"},
        {"y": Y, "x": [1, 0, 2]},
        "data.not-finite",
        "'a / x'.*row 2",
    ),
    "logarithm of a negative cell": (
        {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a + log(x), 1)"},
        {"y": Y, "x": [1, 1, -2]},
        "data.not-finite",
        r"^model\.nodes\.y\[obs_id\].*'log\(x\)'.*row 3",
    ),
    "constant that is not a number": (
        {"a": "Normal(0, 10**400)", "y[obs_id]": "Normal(a, 1)"},
        {"y": Y},
        "data.not-finite",
        r"^model\.nodes\.a: '10 \*\* 400'(?!.*row)",
    ),
    "constant whose square is not a number": (
        {"a": "Normal(0, 1)", "b": 1e300, "y[obs_id]": "Normal(a + b, 1)"},
        {"y": Y},
        "model.out-of-range",
        r"^model\.nodes\.b: 1e\+300",
    ),
    "number from cells that is too large": (
        {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a * exp(x), 1)"},
        {"y": Y, "x": [1, 400, 2]},
        "model.out-of-range",
        r"^model\.nodes\.y\[obs_id\]: 'exp\(x\)'.*row 2",
    ),
    "too few concentrations": (
        {"p[k]": "Dirichlet([1, 2])", "y[obs_id]": "Categorical(p)"},
        {"y": [0, 1, 2]},
        "model.wrong-length",
        r"^model\.nodes\.p\[k\]: Dirichlet.*'a'.*2.*'k'.*3",
    ),
    "probabilities that do not add up": (
        {"m": "Normal(0, 1)", "y[obs_id]": "Categorical([0.2, 0.9])"},
        {"y": [0, 1, 1]},
        "model.out-of-range",
        "Categorical.*1[.]1$",
    ),
    "unknown level in a node on which no data depend": (
        {"a[k]": "Normal(0, 1)", "e": "a['d']", "y[obs_id]": "Normal(a['a'], 1)"},
        {"y": Y},
        "model.unknown-level",
        "'a'.*'d'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_outside_is_refused_before_anything_is_compiled(case):
    nodes, data, code, match = REFUSED[case]
    used = {d for key in nodes if "[" in key for d in key[key.index("[") + 1 : -1].split(", ")} - {"obs_id"}
    dims = {"y": ["obs_id", "k"]} if np.ndim(data["y"]) == 2 else {}
    model = bl.Model(model={"family": "graph", "nodes": nodes}, dims={d: LEVELS[d] for d in used}, data={"dims": dims})
    with refused(code, match) as caught:
        bl.check(model, data)
    with refused(code) as fitted:
        bl.fit(model, data, runs=None, progress=False)
    assert str(fitted.value) == str(caught.value)


def test_text_beyond_the_categories_names_the_level():
    model = bl.Model(
        model={"family": "graph", "nodes": {"p[j]": "Dirichlet(1)", "y[obs_id]": "Categorical(p)"}}, dims={"j": 2}
    )
    with refused("data.wrong-length", "'y'.*3.*'a'.*'b'"):
        bl.check(model, {"y": ["a", "b", "c"]})


ALLOWED = {
    "exposure of zero in a logarithm": (
        {"a": "Normal(0, 1)", "y[obs_id]": "Poisson(exp(a + log(x)))"},
        {"y": [1, 2, 0], "x": [1, 1, 0]},
    ),
    "division that where() leaves out": (
        {"a": "Normal(0, 1)", "y[obs_id]": "Normal(a * where(x == 0, 0, 1 / max_of(x)), 1)"},
        {"y": Y, "x": [1, 0, 2]},
    ),
    "bounds that are parameters": ({"u": "HalfNormal(20)", "y[obs_id]": "Uniform(0, u)"}, {"y": Y}),
    "missing cells": ({"l": "Gamma(1, 1)", "y[obs_id]": "Exponential(l)"}, {"y": [1.0, np.nan, 2.0]}),
    "gamma of shape 1 at zero": ({"b": "Gamma(1, 1)", "y[obs_id]": "Gamma(1, b)"}, {"y": [0.0, 1.0, 2.0]}),
    "uniform with one end given": ({"m": "Normal(0, 1)", "y[obs_id]": "Uniform(upper=10)"}, {"y": Y}),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_has_a_density_passes(case):
    nodes, data = ALLOWED[case]
    nodes = {name: text.replace("max_of(x)", "(x + (x == 0))") for name, text in nodes.items()}
    bl.check(bl.Model(model={"family": "graph", "nodes": nodes}), data)


@pytest.mark.parametrize(
    "prior",
    [
        "Truncated(Normal(0, 1), 3, 2)",
        "Truncated(Normal(0, 1), 2, 2)",
        "Truncated(HalfNormal(1), -2, -1)",
        "Truncated(Poisson(2), 3, 2)",
        "Censored(Normal(0, 1), 3, 2)",
        "Wishart(1, [[1, 0], [0, 1]])",
    ],
)
def test_bounds_that_leave_no_value(prior):
    """The search for a start would be in vain."""
    key = "m[i, j]" if "Wishart" in prior else "m"
    nodes = {key: prior, "y[obs_id]": f"Normal({'m[0, 0]' if 'Wishart' in prior else 'm'}, 1)"}
    model = bl.Model(model={"family": "graph", "nodes": nodes}, dims={"i": 2, "j": "i"})
    for entry in bl.check, bl.fit:
        with refused("model.out-of-range", where=f"model.nodes.{key}"):
            entry(model, {"y": [1.0, 2.0]})


@pytest.mark.parametrize(
    "prior", ["Truncated(HalfNormal(1), -2, 1)", "Truncated(Normal(0, 1), upper=-1)", "Truncated(Poisson(2), 2, 2)"]
)
def test_bounds_that_leave_values(prior):
    nodes = {"m": prior, "y[obs_id]": "Normal(m, 1)"}
    bl.check(bl.Model(model={"family": "graph", "nodes": nodes}), {"y": [1.0, 2.0]})
