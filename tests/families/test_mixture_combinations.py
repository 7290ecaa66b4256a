"""Every pair of keys of the family mixture: refused in one line, or its likelihood is the sum over components."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import gammaln

import bayeslab as bl
from bayeslab.posterior.mixtures import choice as choice_of_components
from bayeslab.posterior.mixtures.search import MixtureOptions
from tests.families._combinations import answered, patched, refused_alike, standing_of, sweep
from tests.families._mixture_oracle import (
    Mixture,
    beta_bernoulli,
    gamma_exponential,
    gamma_poisson,
    missing,
    normal_inverse_wishart,
)

N = 14


@pytest.fixture(autouse=True)
def one_search(monkeypatch):
    """A number of components is chosen by one search each: which of them wins plays no part here."""
    monkeypatch.setattr(choice_of_components, "MixtureOptions", partial(MixtureOptions, restarts=1))


def table():
    rng = np.random.default_rng(11)
    z = np.arange(N) % 2
    return {
        "y": (4 * z + rng.normal(size=N)).round(3).tolist(),
        "v": (rng.normal(size=N) - 2 * z).round(3).tolist(),
        "count": rng.poisson(2 + 5 * z).tolist(),
        "won": rng.binomial(5, 0.2 + 0.5 * z).tolist(),
        "tries": rng.integers(5, 9, N).tolist(),
        "flag": [0, 1, *rng.integers(0, 2, N - 2).tolist()],
        "wait": (0.01 + rng.exponential(1 + 4 * z)).round(3).tolist(),
        "word": ["p", "q", "r", *np.array(list("pqr"))[rng.integers(0, 3, N - 3)].tolist()],
        "kind": [("low", "high")[k] if i % 3 else None for i, k in enumerate(z)],
        "sure": [("low", "high")[k] for k in z],
        "x": rng.normal(size=N).round(3).tolist(),
        "u": rng.normal(size=N).round(3).tolist(),
    }


def with_holes(full, which):
    """Single cells that are missing; ``rows``: a row of all columns but one."""
    out = {name: list(cells) for name, cells in full.items()}
    for k, name in enumerate(("y", "v", "count", "won", "flag", "wait", "word")):
        out[name][2 + k] = None
        if which == "rows" and name != "y":
            out[name][12] = None
    return out


FACTORS = {
    "component": {
        "two columns": {"columns": ["y", "v"]},
        "student": {"component": "student_t"},
        "students": {"component": "student_t", "columns": ["y", "v"]},
        "poisson": {"component": "poisson", "columns": ["count"]},
        "binomial": {"component": "binomial", "columns": ["won"], "trials": 5},
        "trials of rows": {"component": "binomial", "columns": ["won"], "trials": "tries"},
        "exponential": {"component": "exponential", "columns": ["wait"]},
        "bernoulli": {"component": "bernoulli", "columns": ["flag", "won"], "_truth": True},
        "categorical": {"component": "categorical", "columns": ["word", "sure"]},
        "mixed": {
            "component": {"y": "gaussian", "count": "poisson", "word": "categorical"},
            "columns": ["y", "count", "word"],
        },
        "two kinds of two": {
            "component": {"y": "gaussian", "v": "gaussian", "count": "poisson", "wait": "exponential"},
            "columns": ["y", "count", "v", "wait"],
        },
    },
    "regression": {
        "gaussian": {"regression": "y ~ x"},
        "poisson": {"regression": "count ~ x + u", "component": "poisson"},
        "bernoulli": {"regression": "flag ~ x", "component": "bernoulli"},
    },
    "components": {
        "1": {"components": 1},
        "3": {"components": 3},
        "list": {"components": [1, 2]},
        "sampled": {"components": "sampled"},
        "process": {"components": "dirichlet_process"},
    },
    "choose": {word: {"choose": word} for word in ("aic", "icl", "evidence", "held_out")},
    "most": {"4": {"most": 4}},
    "concentration": {"2": {"concentration": 2}},
    "discount": {"0.2": {"discount": 0.2}},
    "covariance": {
        **{word: {"covariance": word} for word in ("tied", "diagonal", "spherical")},
        "known": {"covariance": "known", "known": 1.5},
        "known each": {"covariance": "known", "known": [1.5, 2.0]},
    },
    "dof": {"5": {"dof": 5}},
    "trials": {"6": {"trials": 6}},
    "gating": {"u": {"gating": ["u"]}, "two": {"gating": ["u", "x"]}},
    "labels": {
        "some": {"labels": "kind"},
        "all": {"labels": "sure"},
        "noisy": {"labels": "kind", "label_noise": True},
    },
    "order": {"first": {"order": "y"}},
    "missing": {"cells": {}, "rows": {}},
    "priors of weights": {"2": {"priors": {"weights": 2}}, "each": {"priors": {"weights": "Dirichlet([2, 3])"}}},
    "priors of components": {
        "conjugate": {"priors": {"components": {"rows": 0.5, "dof": 6}}},
        "all": {"priors": {"components": {"mean": 1, "rows": 0.5, "dof": 6, "scale": 2}}},
        "free": {"priors": {"mean": "Normal(0, 3)", "sd": "HalfNormal(2)"}},
        "lkj": {"priors": {"correlation": "LKJ(2)"}},
        "rate": {"priors": {"rate": "Gamma(2, 1)"}},
        "probability": {"priors": {"probability": "Beta(2, 3)"}},
        "dirichlet": {"priors": {"probability": 2}},
    },
}


def case(choice):
    """The model section and the table of a choice of levels."""
    base = {"family": "mixture", "columns": ["y"], "components": 2}
    content = patched(base, [FACTORS[factor][level] for factor, level in choice.items()])
    if content.pop("_truth", False):
        content["columns"] = ["flag"]
    if content.get("regression"):
        del content["columns"]
    full = table()
    return content, with_holes(full, choice["missing"]) if "missing" in choice else full


def declared(content):
    """With the method that the combination is for."""
    if content["components"] in ("sampled", "dirichlet_process"):
        inference = {"method": "gibbs", "draws": 5, "tune": 2, "chains": 1}
    elif content.get("labels") == "sure" and "label_noise" not in content:
        inference = {"method": "exact", "draws": 5}
    else:
        inference = {"method": "em", "restarts": 1, "max_iterations": 3}
    return bl.Model(name="m", model=content, inference=inference)


def fitted(model, table):
    return bl.fit(model, table, seed=1, progress=False, runs=None)


def examined(choice):
    """Whether a combination is answered; what is not refused agrees with the sum over components."""
    content, data_of = case(choice)
    model, refused = refused_alike(lambda: declared(content), data_of, fitted)
    if refused is not None:
        return False
    fit = fitted(model, data_of)
    if content["components"] in ("sampled", "dirichlet_process"):
        assert fit.verdict.findings
        return True
    seen = fit.bound_model.resolved
    oracle = Mixture(content | {"components": seen.n_components}, data_of)
    posterior = fit.data_tree["posterior"]
    values = {n: posterior[n].to_numpy()[0, -1] for n in seen.dims}
    rows = oracle.log_likelihood(values)
    found = fit.bound_model.log_likelihoods({n: v[None] for n, v in values.items()})["row"][1][0]
    assert found == pytest.approx(rows, rel=1e-8, abs=1e-8)
    if "exact_posterior" in fit.data_tree:
        log_evidence = fit.data_tree["exact_posterior"].attrs["log_evidence"]
        expected = evidence(oracle, seen)
        assert expected is None or log_evidence == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        assert posterior.attrs["log_likelihood"] == pytest.approx(rows.sum(), rel=1e-7, abs=1e-7)
    return True


def evidence(oracle, seen):
    """log p(rows, labels) with the parameters integrated out row by row, of one kind of column without holes."""
    (word, *others), (part, *_) = oracle.groups, seen.parts.values()
    columns = oracle.groups[word]
    if others or any(missing(c) for name in columns for c in oracle.table[name]):
        return None
    x = np.array([oracle.table[name] for name in columns], object).T
    prior = part.emission.prior
    diagonal = part.emission.__class__.__name__ == "DiagonalGaussian"
    if word == "gaussian" and oracle.content.get("covariance") in ("known", "spherical"):
        return None
    if word == "categorical" or (word == "gaussian" and seen.free_nodes()):
        return None

    def cluster(rows):
        own = x[rows]
        if word == "gaussian":
            own = own.astype(float)
            if not diagonal:
                return normal_inverse_wishart(own, prior.mean, prior.kappa, prior.nu, prior.scale)
            each = zip(own.T, prior.mean, np.diag(np.diag(prior.scale)), strict=True)
            return sum(normal_inverse_wishart(c[:, None], [m], prior.kappa, prior.nu, [[s]]) for c, m, s in each)
        total = 0.0
        for j in range(own.shape[1]):
            a, b = (np.broadcast_to(p, (own.shape[1],))[j] for p in prior)
            if word == "poisson":
                total += gamma_poisson(own[:, j], a, b)
            elif word == "exponential":
                total += gamma_exponential(own[:, j], a, b)
            else:
                trials = oracle.content.get("trials", 1)
                if isinstance(trials, str):
                    return np.nan
                total += beta_bernoulli(own[:, j], a, b, trials)
        return total

    concentration = seen.problem.latent.prior_counts
    value = oracle.log_evidence(concentration, cluster)
    return None if np.isnan(value) else value


def standing(choice):
    content, data = case(choice)
    chosen = isinstance(content["components"], list)
    return standing_of(declared, content, data, {"components": 2} if chosen else None)


def test_the_default():
    assert examined({})


def test_the_oracle_integrates():
    """Its evidences against closed forms: all rows in one component."""
    x, a, b = [2, 0, 3], 2.0, 1.5
    closed = gammaln(a + 5) - gammaln(a) + a * np.log(b) - (a + 5) * np.log(b + 3) - gammaln(np.add(x, 1)).sum()
    assert gamma_poisson(x, a, b) == pytest.approx(closed)


@pytest.fixture(scope="module")
def every_pair():
    return sweep(FACTORS, standing)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("part", range(8))
def test_every_pair_of_keys(part, every_pair):
    """Among up to three others; by itself where it is refused."""
    assert answered(every_pair[part::8], examined) > 5
