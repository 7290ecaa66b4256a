"""Laws of every distribution of single numbers: densities, derivatives, draws and moments agree with each other and PyMC."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from pytensor.scalar.basic import autocast_float_as
from scipy import integrate

from bayeslab.distributions import DISTRIBUTIONS, maths

# Parameters by PyMC's names; one set for each alternative.
CASES: dict[str, list[dict[str, float]]] = {
    "AsymmetricLaplace": [{"kappa": 1.7, "mu": 0.4, "b": 1.3}, {"q": 0.3, "mu": 0.4, "b": 1.3}],
    "Bernoulli": [{"p": 0.3}, {"logit_p": 0.7}],
    "Beta": [{"alpha": 2.3, "beta": 3.4}, {"mu": 0.4, "sigma": 0.2}, {"mu": 0.4, "nu": 5.5}],
    "BetaBinomial": [{"alpha": 2.3, "beta": 3.4, "n": 9}],
    "Binomial": [{"n": 9, "p": 0.3}, {"n": 9, "logit_p": 0.7}],
    "Cauchy": [{"alpha": 0.4, "beta": 1.3}],
    "ChiSquared": [{"nu": 3.4}],
    "DiscreteUniform": [{"lower": -2, "upper": 5}],
    "DiscreteWeibull": [{"q": 0.6, "beta": 1.3}],
    "ExGaussian": [{"mu": 0.4, "sigma": 1.3, "nu": 0.8}],
    "Exponential": [{"lam": 1.3}, {"scale": 1.3}, {}],
    "Flat": [{}],
    "Gamma": [{"alpha": 2.3, "beta": 3.4}, {"mu": 1.3, "sigma": 0.7}],
    "Geometric": [{"p": 0.3}],
    "Gumbel": [{"mu": 0.4, "beta": 1.3}],
    "HalfCauchy": [{"beta": 1.3}],
    "HalfFlat": [{}],
    "HalfNormal": [{"sigma": 1.3}, {"tau": 1.3}, {}],
    "HalfStudentT": [{"nu": 4.4, "sigma": 1.3}, {"nu": 4.4, "lam": 1.3}],
    "HurdleGamma": [{"psi": 0.6, "alpha": 2.3, "beta": 3.4}, {"psi": 0.6, "mu": 1.3, "sigma": 0.7}],
    "HurdleLogNormal": [{"psi": 0.6, "mu": 0.4, "sigma": 0.8}],
    "HurdleNegativeBinomial": [{"psi": 0.6, "mu": 2.3, "alpha": 1.4}, {"psi": 0.6, "n": 2.3, "p": 0.4}],
    "HurdlePoisson": [{"psi": 0.6, "mu": 2.3}],
    "HyperGeometric": [{"N": 20, "k": 8, "n": 6}],
    "InverseGamma": [{"alpha": 3.3, "beta": 2.4}, {"mu": 1.3, "sigma": 0.7}],
    "Kumaraswamy": [{"a": 2.3, "b": 3.4}],
    "Laplace": [{"mu": 0.4, "b": 1.3}],
    "LogNormal": [{"mu": 0.4, "sigma": 0.8}, {"mu": 0.4, "tau": 1.3}],
    "Logistic": [{"mu": 0.4, "s": 1.3}],
    "LogitNormal": [{"mu": 0.4, "sigma": 0.8}],
    "Moyal": [{"mu": 0.4, "sigma": 1.3}],
    "NegativeBinomial": [{"mu": 2.3, "alpha": 1.4}, {"n": 2.3, "p": 0.4}],
    "Normal": [{"mu": 0.4, "sigma": 1.3}, {"mu": 0.4, "tau": 1.3}, {}],
    "Pareto": [{"alpha": 3.3, "m": 1.4}],
    "Poisson": [{"mu": 2.3}],
    "Rice": [{"nu": 1.4, "sigma": 1.3}, {"b": 1.4, "sigma": 1.3}],
    "SkewNormal": [{"alpha": 1.7, "mu": 0.4, "sigma": 1.3}],
    "SkewStudentT": [{"a": 2.3, "b": 3.4, "mu": 0.4, "sigma": 1.3}],
    "StudentT": [{"nu": 4.4, "mu": 0.4, "sigma": 1.3}, {"nu": 4.4, "lam": 1.3}],
    "Triangular": [{"lower": -1.0, "upper": 5.0, "c": 2.0}],
    "TruncatedNormal": [
        {"mu": 0.4, "sigma": 1.3, "lower": -1.0, "upper": 2.0},
        {"mu": 0.4, "sigma": 1.3, "lower": 1.0},
        {"mu": 0.0, "sigma": 1.0, "lower": 8.0, "upper": 9.0},
    ],
    "Uniform": [{"lower": 1.0, "upper": 3.0}, {}],
    "VonMises": [{"mu": 0.4, "kappa": 1.3}],
    "Wald": [{"mu": 1.3, "lam": 1.4, "alpha": 0.5}, {"mu": 1.3, "phi": 1.4}, {"lam": 1.3, "phi": 1.4}],
    "Weibull": [{"alpha": 1.7, "beta": 1.3}],
    "ZeroInflatedBinomial": [{"psi": 0.6, "n": 9, "p": 0.3}],
    "ZeroInflatedNegativeBinomial": [{"psi": 0.6, "mu": 2.3, "alpha": 1.4}],
    "ZeroInflatedPoisson": [{"psi": 0.6, "mu": 2.3}],
}
EACH = [pytest.param(name, given, id=f"{name}-{'-'.join(given)}") for name, all_ in CASES.items() for given in all_]
FIRST = [pytest.param(name, all_[0], id=name) for name, all_ in CASES.items()]


def numbers(name: str, given: dict[str, float]) -> np.ndarray:
    """Values inside the support, also far out, from draws; the zeros of hurdles among them."""
    functions = maths(name)
    if name in ("Flat", "HalfFlat"):
        return np.array([0.5, 7.0, 300.0])
    drawn = functions.draw(np.random.default_rng(3), (400,), *functions.canonical(**given))
    return np.unique(drawn)[:: 1 if DISTRIBUTIONS[name].discrete else 20].astype(float)


def test_every_distribution_with_a_density_is_here():
    assert CASES.keys() == {name for name in DISTRIBUTIONS if maths(name) is not None} - {"Lognormal"}


@pytest.mark.parametrize(("name", "given"), EACH)
def test_the_density_is_that_of_pymc(name, given):
    x, functions = numbers(name, given), maths(name)
    with autocast_float_as("float64"):
        value = getattr(pm, name).dist(**given)
        expected = pm.logp(value, x).eval(mode=Mode("py", "fast_compile"))
    ours = functions.log_density(x, *functions.canonical(**given)) + np.zeros(x.shape)
    # PyMC takes the logarithm of whole numbers, such as that of 2, in single precision.
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("name", "given"), FIRST)
def test_slopes_are_the_differences(name, given):
    x, functions = numbers(name, given), maths(name)
    if DISTRIBUTIONS[name].atoms:
        x = x[x > 0]
    arguments = [x, *(float(p) for p in functions.canonical(**given))]
    if name in ("Triangular", "Laplace", "AsymmetricLaplace"):
        arguments[0] = x[np.abs(x - {"Triangular": 2.0}.get(name, 0.4)) > 0.01]
    slopes = functions.slopes(*arguments)
    assert len(slopes) == len(arguments) == len(inspect.signature(functions.log_density).parameters)
    for i, slope in enumerate(slopes):
        if slope is None:
            assert DISTRIBUTIONS[name].discrete
            continue
        step = 1e-5 * np.maximum(np.abs(arguments[i]), 0.1)

        def at(moved, i=i):
            return functions.log_density(*arguments[:i], moved, *arguments[i + 1 :])

        difference = (at(arguments[i] + step) - at(arguments[i] - step)) / (2 * step)
        np.testing.assert_allclose(slope + 0.0 * arguments[0], difference, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "given"), FIRST)
def test_it_sums_to_one_and_has_its_moments(name, given):
    entry, functions = DISTRIBUTIONS[name], maths(name)
    parameters = functions.canonical(**given)
    if not entry.proper:
        return
    order = list(inspect.signature(functions.log_density).parameters)[1:]
    bound = dict(zip(order, parameters, strict=True))
    low, high = (
        float(bound[e] if isinstance(e, str) else e) for e in (entry.domain.values.low, entry.domain.values.high)
    )
    moments = functions.moments(*parameters) if hasattr(functions, "moments") else None

    def expected(function):
        if entry.discrete:
            x = np.arange(max(low, -500), min(high, 500) + 1)
            return float(np.sum(np.exp(functions.log_density(x, *parameters)) * function(x)))
        atom = float(np.exp(functions.log_density(np.array(0.0), *parameters))) * function(0.0) if entry.atoms else 0.0
        ends = np.unique([low, *np.quantile(numbers(name, given), [0.25, 0.5, 0.75]), high])
        parts = [
            integrate.quad(
                lambda x: float(np.exp(functions.log_density(np.array(x), *parameters)) * function(x)), a, b, limit=200
            )[0]
            for a, b in pairwise(ends)
        ]
        return atom + sum(parts)

    with np.errstate(over="ignore"):
        assert expected(lambda x: 1.0 + 0.0 * x) == pytest.approx(1.0, abs=1e-7)
        if moments is not None:
            mean, variance = (float(m) for m in moments)
            assert expected(lambda x: x) == pytest.approx(mean, rel=1e-6, abs=1e-7)
            assert expected(lambda x: (x - mean) ** 2) == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize(("name", "given"), FIRST)
def test_draws_follow_the_density(name, given):
    """The chi-square statistic of 20 classes of equal probability; its 1e-6 quantile."""
    entry, functions = DISTRIBUTIONS[name], maths(name)
    if not entry.proper:
        return
    parameters, n = functions.canonical(**given), 20_000
    drawn = np.asarray(functions.draw(np.random.default_rng(11), (n,), *parameters), float)
    assert drawn.shape == (n,)
    if entry.discrete:
        values = np.unique(drawn)
        chance = np.exp(functions.log_density(values, *parameters))
        expected, seen = n * chance, np.array([(drawn == v).sum() for v in values])
        use = expected >= 5
        expected, seen = np.append(expected[use], n * (1 - chance[use].sum())), np.append(seen[use], 0)
        seen[-1] = n - seen[:-1].sum()
        if expected[-1] < 5:
            expected, seen = expected[:-1], seen[:-1]
    else:
        if entry.atoms:
            zeros = (drawn == 0).sum()
            chance = np.exp(functions.log_density(np.array(0.0), *parameters))
            assert abs(zeros - n * chance) < 5 * np.sqrt(n * chance * (1 - chance))
            drawn = drawn[drawn != 0]
        edges = np.quantile(drawn, np.linspace(0.02, 0.98, 21))
        total = 1 - float(chance) if entry.atoms else 1.0
        inside = [
            integrate.quad(lambda x: float(np.exp(functions.log_density(np.array(x), *parameters))), a, b)[0] / total
            for a, b in pairwise(edges)
        ]
        expected, seen = len(drawn) * np.array(inside), np.histogram(drawn, edges)[0]
    # 45 is beyond the 1e-3 point of 20 degrees of freedom, 70 beyond the 1e-6 point.
    assert np.sum((seen - expected) ** 2 / expected) < 70


@pytest.mark.parametrize("mu", [0.0, 1e-12, 0.3, 2.3, 40.0])
@pytest.mark.parametrize("alpha", [None, 1e-6, 0.2, 1.4, 1e4])
def test_a_hurdle_draws_numbers_above_zero_however_rare_they_are(mu, alpha):
    """A base that is nearly always zero was drawn again and again, without end."""
    name, more = ("HurdlePoisson", ()) if alpha is None else ("HurdleNegativeBinomial", (alpha,))
    drawn = maths(name).draw(np.random.default_rng(5), (4000, 2), np.array([1.0, 0.25]), mu, *more)
    assert (drawn[:, 0] > 0).all()
    assert abs((drawn[:, 1] > 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    if mu < 1:
        mean, variance = maths(name).moments(0.25, mu, *more)
        assert abs(drawn[:, 1].mean() - mean) < 5 * np.sqrt(variance / 4000)
    for k in (1, 2, 5):  # a density of 1 may exceed it in the last digits
        chance = (
            float(k == 1) if mu == 0 else min(1.0, float(np.exp(maths(name).log_density(np.array(k), 1.0, mu, *more))))
        )
        assert abs((drawn[:, 0] == k).mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / 4000) + 1e-9
