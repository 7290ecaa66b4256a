"""``bl.conjugate``: integrals over the parameters by quadrature, the chain rule, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import bayeslab as bl
from tests.refusals import refused

# A likelihood of one unknown number: prior, data, what is known, the density of a datum given the number, its range.
ONE = [
    ("Bernoulli", {"alpha": 2, "beta": 3}, [1, 0, 1], {}, lambda x, p: stats.bernoulli(p).pmf(x), stats.beta(2, 3)),
    ("Binomial", {"alpha": 2, "beta": 3}, [1, 4], {"trials": 5}, lambda x, p: stats.binom(5, p).pmf(x), stats.beta(2, 3)),
    (
        "Poisson", {"alpha": 2, "beta": 0.5}, [3, 7], {"exposure": 2.0},
        lambda x, r: stats.poisson(2 * r).pmf(x), stats.gamma(2, scale=2),
    ),
    ("Exponential", {"alpha": 2, "beta": 0.5}, [0.4, 1.5], {}, lambda x, r: stats.expon(scale=1 / r).pdf(x), stats.gamma(2, scale=2)),
    (
        "NormalKnownVariance", {"mu": 1, "sigma": 2, "noise": 0.7}, [0.4, 1.5], {},
        lambda x, m: stats.norm(m, 0.7).pdf(x), stats.norm(1, 2),
    ),
]  # fmt: skip


def density(made, x):
    return made.pmf(x) if hasattr(made.dist, "pmf") else made.pdf(x)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("word", "prior", "data", "known", "likelihood", "law"), ONE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_integrals(word, prior, data, known, likelihood, law):
    made = bl.conjugate(word, **prior)
    low, high = law.support()
    low, high = max(low, -40.0), min(high, 60.0)

    def evidence(values):
        def joint(p):
            return law.pdf(p) * np.prod([likelihood(x, p) for x in values])

        return integrate.quad(joint, low, high, epsabs=0, epsrel=1e-10, limit=500)[0]

    assert made.log_evidence(data, **known) == pytest.approx(np.log(evidence(data)), rel=1e-8)
    after = made.update(data, **known)
    assert density(after.predictive(**known), data[0]) == pytest.approx(
        evidence([*data, data[0]]) / evidence(data), rel=1e-7
    )


ALL = [
    *((word, prior, data, known) for word, prior, data, known, *_ in ONE),
    ("Normal", {"mu": 1, "kappa": 0.5, "alpha": 2, "beta": 3}, [0.4, 1.5, -2.0], {}),
    ("MvNormal", {"mu": [0, 1], "kappa": 0.5, "nu": 4, "V": [[1, 0.3], [0.3, 2]]}, [[0.4, 1.5], [-2.0, 1.0], [0.1, 0.2]], {}),
]  # fmt: skip


@pytest.mark.parametrize(("word", "prior", "data", "known"), ALL, ids=[word for word, *_ in ALL])
def test_the_chain_rule(word, prior, data, known):
    """The evidence is the product of the predictive densities, and parts are the whole, in any order."""
    made = bl.conjugate(word, **prior)
    total, now = 0.0, made
    for x in data:
        total += float(np.log(density(now.predictive(**known), x) if word != "MvNormal" else now.predictive().pdf(x)))
        now = now.update([x], **known)
    assert made.log_evidence(data, **known) == pytest.approx(total, rel=1e-9)
    whole = made.update(data, **known).parameters
    back = made
    for x in reversed(data):
        back = back.update([x], **known)
    for name in vars(whole):
        np.testing.assert_allclose(vars(now.parameters)[name], vars(whole)[name], rtol=1e-9)
        np.testing.assert_allclose(vars(back.parameters)[name], vars(whole)[name], rtol=1e-9)


def test_outcomes():
    """One outcome of three: (a + n) / (sum a + sum n)."""
    after = bl.conjugate("Multinomial", a=[1, 1, 2]).update([[1, 0, 3], [1, 0, 0]])
    ahead = [float(after.predictive().pmf(row)) for row in np.eye(3)]
    np.testing.assert_allclose(ahead, np.array([3, 1, 5]) / 9)
    assert after.predictive(trials=2).pmf([1, 1, 0]) == pytest.approx(2 * 3 / 9 * 1 / 10)


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda: bl.conjugate("Binomal", alpha=1, beta=1), "option.unknown-word", "'Binomial'"),
        (lambda: bl.conjugate("Binomial", alpha=1), "option.incomplete", "'beta' is missing"),
        (lambda: bl.conjugate("Binomial", alpha=-1, beta=1), "option.out-of-range", "alpha"),
        (lambda: bl.conjugate("Binomial", alpha=1, beta=1, mu=2), "option.unknown-option", "'mu'"),
        (lambda: bl.conjugate("Binomial", alpha=1, beta=1).update(12, trials=10), "option.out-of-range", "trials="),
        (lambda: bl.conjugate("Binomial", alpha=1, beta=1).update([1, 2], trials=[3, 4, 5]), "option.wrong-shape", "trials"),
        (lambda: bl.conjugate("Bernoulli", alpha=1, beta=1).update([0, 2]), "option.out-of-range", "0 and 1"),
        (lambda: bl.conjugate("Poisson", alpha=1, beta=1).update([0.5]), "option.out-of-range", "0.5"),
        (lambda: bl.conjugate("Poisson", alpha=1, beta=1).predictive(trials=2), "option.unknown-option", "'exposure'"),
        (lambda: bl.conjugate("Exponential", alpha=1, beta=1).update([0.0]), "option.out-of-range", "above 0"),
        (lambda: bl.conjugate("Multinomial", a=[1, 1]).update([1, 2, 3]), "option.wrong-shape", "length 2"),
        (lambda: bl.conjugate("Multinomial", a=[1]), "option.wrong-shape", "two or more"),
        (lambda: bl.conjugate("MvNormal", mu=[0, 0], kappa=1, nu=3, V=np.eye(3)), "option.wrong-shape", r"\(2, 2\)"),
        (lambda: bl.conjugate("MvNormal", mu=[0, 0], kappa=1, nu=3, V=[[1, 2], [2, 1]]), "option.out-of-range", "definite"),
    ],
)  # fmt: skip
def test_refusals(call, code, text):
    with refused(code, text):
        call()
