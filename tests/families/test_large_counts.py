"""Whole numbers beyond 32 bits, wherever they enter a graph: log densities are those of SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytest
from scipy import special, stats

import bayeslab as bl
from tests.refusals import refused

N = 10_000_000_000
K = [5_000_000_000, 4_999_900_000, 5_000_100_000]
ROWS = {"k": K, "pop": [N, N + 7, N - 3], "code": [2 * N, 2 * N + 1, 2 * N + 2]}


def _at(graph: Any, point: dict[str, np.ndarray]) -> float:
    """Log density of the outcome k, without compiled code."""
    mode = pytensor.compile.mode.Mode("py", "fast_compile")
    return float(graph.compile_fn(graph.logp(vars=[graph["k"]], jacobian=False), mode=mode)(point))


def _log_density(text: str, columns: dict[str, Any], **more: str) -> float:
    """Of the outcome k at m = 0.5."""
    nodes = {"m": "Normal(0, 1)", **more, "k[row]": text}
    model = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    graph = bl.to_pymc(model, columns)
    return _at(graph, {"m": np.array(0.5)})


k, pop = np.array(K, float), np.array(ROWS["pop"], float)
DENSITIES = {
    "Poisson(exp(m + 21.8))": stats.poisson(np.exp(22.3)).logpmf(k),
    "Poisson(m * pop)": stats.poisson(0.5 * pop).logpmf(k),
    "Poisson(exp(m) * (pop + pop) / 4)": stats.poisson(np.exp(0.5) * pop / 2).logpmf(k),
    "Binomial(10000000000, m)": stats.binom(N, 0.5).logpmf(k),
    "Binomial(pop, m)": stats.binom(pop, 0.5).logpmf(k),
    "BetaBinomial(4 * m, 2, pop)": stats.betabinom(pop, 2, 2).logpmf(k),
    "NegativeBinomial(10 * m * pop, 3)": stats.nbinom(3, 3 / (3 + 5 * pop)).logpmf(k),
    "Geometric(m / 1e9)": stats.geom(0.5e-9).logpmf(k),
    "DiscreteUniform(0, pop + floor(m))": -np.log(pop + 1),
    "ZeroInflatedPoisson(0.5, m * pop)": np.log(0.5) + stats.poisson(0.5 * pop).logpmf(k),
    "ZeroInflatedBinomial(0.5, pop, m)": np.log(0.5) + stats.binom(pop, 0.5).logpmf(k),
    "ZeroInflatedNegativeBinomial(0.5, m * pop, 3)": np.log(0.5) + stats.nbinom(3, 3 / (3 + 0.5 * pop)).logpmf(k),
    "HurdlePoisson(0.5, m * pop)": np.log(0.5) + stats.poisson(0.5 * pop).logpmf(k),
    "HurdleNegativeBinomial(0.5, m * pop, 3)": np.log(0.5) + stats.nbinom(3, 3 / (3 + 0.5 * pop)).logpmf(k),
    "DiscreteWeibull(1 - m / 1e9, 1)": k * np.log1p(-0.5e-9) + np.log(0.5e-9),
    # Whole numbers as covariates, offsets and in indices.
    "Normal(m * pop, 1e10)": stats.norm(0.5 * pop, 1e10).logpdf(k),
    "Normal(m * code[row] + pop, 1e10)": stats.norm(0.5 * (2.0 * N + np.arange(3)) + pop, 1e10).logpdf(k),
    "Normal(m * pop[code - 20000000000], 1e10)": stats.norm(0.5 * pop, 1e10).logpdf(k),
}


@pytest.mark.parametrize("text", DENSITIES)
def test_densities_of_large_whole_numbers(text: str) -> None:
    # SciPy's and PyMC's log Γ(10^10) are of 2e11: of that 1e-16 is 1e-5.
    assert _log_density(text, ROWS) == pytest.approx(float(np.sum(DENSITIES[text])), rel=1e-6, abs=5e-3)


def test_computed_columns_and_multinomial_counts() -> None:
    assert _log_density("Poisson(m * twice)", ROWS, **{"twice[row]": "pop + pop"}) == pytest.approx(
        float(stats.poisson(pop).logpmf(k).sum()), rel=1e-6
    )
    counts = np.array([[4_000_000_000, 3_000_000_000], [1, 6_999_999_999]])
    nodes = {"p[c]": "Dirichlet([1, 1])", "k[row, c]": "Multinomial(7000000000, p)"}
    data = {"rows": "row", "dims": {"k": ["row", "c"]}}
    graph = bl.to_pymc(bl.Model(data=data, model={"family": "graph", "nodes": nodes}), {"k": counts})
    point = graph.initial_point()
    terms = special.gammaln(7e9 + 1) - special.gammaln(counts + 1.0).sum(axis=1) + 7e9 * np.log(0.5)
    assert _at(graph, point) == pytest.approx(terms.sum(), rel=1e-6, abs=5e-3)


@pytest.mark.slow(why="compiles")
def test_fits_of_large_counts_and_exposures() -> None:
    nodes = {"a": "Normal(-15, 5)", "deaths[row]": "Poisson(exp(a) * pop)"}
    model = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    given = {"deaths": [5000, 6000], "pop": [5_000_000_000, 6_000_000_000]}
    fit = bl.fit(model, given, "laplace", runs=None, progress=False, seed=1)
    assert fit.summary()["mean"]["a"] == pytest.approx(np.log(1e-6), abs=5 / np.sqrt(11_000))
    counts = bl.Model(data={"rows": "row"}, model={"family": "regression", "formula": "c ~ 1", "likelihood": "poisson"})
    fit = bl.fit(counts, {"c": [10**10, 10**10 + 10, 10**10 - 5]}, "laplace", runs=None, progress=False, seed=1)
    assert fit.summary()["mean"]["Intercept"] == pytest.approx(np.log(1e10), abs=1e-4)


def test_whole_numbers_that_floats_do_not_hold_are_refused() -> None:
    with refused("data.too-many-digits", "9007199254740993"):
        _log_density("Normal(m * (pop - 9007199254740992), 1)", ROWS | {"pop": [2**53 + 1, 2**53, 2**53 + 2]})
    with refused("data.too-large", "row 2.*9,007,199,254,740,992", where="model.nodes.k[row]"):
        _log_density("Poisson(exp(m))", ROWS | {"k": [1, 2**53 + 2, 3]})
    with refused("data.too-many-digits", "'pop'.*9007199254740993"):
        _log_density("Normal(m * pop, 1)", ROWS | {"pop": [2**53 + 1, 1, 2]})
