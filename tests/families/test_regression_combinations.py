"""Any combination of a regression's keys is refused in one line, or its density is that of an oracle written with SciPy.

The oracle makes the design matrix, the linear predictor and the density of each row by itself, from the graph's
parameters at a random point; nothing of the family is called for it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayeslab as bl
from tests.families._combinations import all_pairs

KEYS: dict[str, list] = {
    "likelihood": [
        ("gaussian", "identity"), ("gaussian", "log"), ("student_t", "identity"), ("bernoulli", "logit"),
        ("bernoulli", "probit"), ("bernoulli", "cloglog"), ("binomial", "logit"), ("poisson", "log"),
        ("negative_binomial", "log"), ("beta", "logit"), ("gamma", "log"), ("ordered", "logit"), ("categorical", "logit"),
        ("poisson", "logit"), ("Weibull", "log"), ("Laplace", "log"), ("BetaBinomial", "probit"),
        ("AsymmetricLaplace(q=0.9)", "identity"), ("Geometric", "cloglog"), ("ExGaussian", "identity"),
    ],
    "right": ["x", "x + C(k)", "x * z", "0 + x", "1", "x + offset(o)", "x + I((x + z) ** 2)"],
    "group": ["", "(1 | g)", "(x || g)", "(x | g)", "(0 + x | g)"],
    "weights": [None, "w"],
    "censored": [None, "status"],
    "missing": [None, "z"],
    "shrinkage": [None, "ridge", "lasso", "horseshoe", "r2d2"],
    "priors": ["default", "written", "fixed"],
    "gaps": [False, True],
    "trials": ["n", "9"],
    "further": [None, "~ x", "~ C(k) + (x || g)", "~ 1"],
}  # fmt: skip


#: The parameter that has a formula.
FURTHER = {
    "gaussian": "sigma", "student_t": "nu", "negative_binomial": "alpha", "beta": "phi", "gamma": "shape",
    "Weibull": "alpha", "Laplace": "scale", "BetaBinomial": "phi", "AsymmetricLaplace(q=0.9)": "rate",
    "ExGaussian": "nu",
}  # fmt: skip


def _allowed(case: dict, kept: set[str]) -> dict:
    """The same pair, beside it what its likelihood and formula allow: else nearly all would be refused."""
    likelihood = case["likelihood"][0]
    wrong = {
        "censored": likelihood not in ("gaussian", "student_t", "beta", "gamma", "Weibull", "Laplace", "ExGaussian"),
        "missing": case["right"] != "x * z",
        "priors": case["priors"] == "fixed" and likelihood not in ("gaussian", "student_t", "ExGaussian"),
        "shrinkage": case["shrinkage"] in ("horseshoe", "r2d2") and case["priors"] != "default",
        "group": likelihood == "categorical",
        "further": likelihood not in FURTHER or (likelihood == "gaussian" and case["priors"] == "fixed"),
    }
    return case | {key: KEYS[key][0] for key, is_wrong in wrong.items() if is_wrong and key not in kept}


def table(case: dict) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 18
    data = pd.DataFrame({name: rng.normal(size=n) for name in ("x", "z", "o")})
    data["k"], data["g"], data["n"] = np.arange(n) % 3, np.array(["a", "b", "c"])[np.arange(n) // 6], 9
    data["w"], data["status"] = rng.uniform(0.5, 2, n), np.array(["none", "right", "left"])[rng.integers(3, size=n)]
    counts = rng.integers(0, 8, n)
    data["y"] = {
        "bernoulli": counts % 2, "binomial": counts, "poisson": counts, "negative_binomial": counts,
        "beta": rng.uniform(0.1, 0.9, n), "gamma": rng.gamma(2, size=n), "ordered": counts % 3,
        "categorical": np.array(["r", "s", "t"])[counts % 3], "Weibull": rng.gamma(2, size=n),
        "BetaBinomial": counts, "Geometric": counts + 1,
    }.get(case["likelihood"][0], rng.normal(size=n))  # fmt: skip
    if case["gaps"]:
        data["y"] = data["y"].astype(object).where(np.arange(n) != 4, None)
        data["x"] = data["x"].where(np.arange(n) != 7)
    if case["missing"]:
        data["z"] = data["z"].where(~np.isin(np.arange(n), (2, 11)))
    return data


def model_of(case: dict) -> bl.Model:
    likelihood, link = case["likelihood"]
    left = f"p(y, {case['trials']})" if likelihood in ("binomial", "BetaBinomial") else "y"
    right = " + ".join(part for part in (case["right"], case["group"]) if part)
    priors: dict[str, object] = {}
    if case["priors"] != "default":
        priors = {"b": "Normal(0.5, 2)", "Intercept": "Normal(1, 3)"}
    if case["priors"] == "fixed":
        priors |= {"sigma": 0.7}
    formula: object = f"{left} ~ {right}"
    if case["further"]:
        formula = {"mu": formula, FURTHER.get(likelihood, "sigma"): case["further"]}
    spec = {"family": "regression", "formula": formula, "likelihood": likelihood, "link": link}
    extra = {
        "weights": case["weights"], "censored": case["censored"], "shrinkage": case["shrinkage"],
        "missing": {"z": "Normal(0.3, 1.5)"} if case["missing"] else None, "priors": priors or None,
    }  # fmt: skip
    return bl.Model(model=spec | {key: value for key, value in extra.items() if value is not None})


def columns(right: str, data: pd.DataFrame, z: np.ndarray) -> list[np.ndarray]:
    x, k = data["x"].to_numpy(), data["k"].to_numpy()
    return {
        "x": [x], "x + C(k)": [x, 1.0 * (k == 1), 1.0 * (k == 2)], "x * z": [x, z, x * z], "0 + x": [x], "1": [],
        "x + offset(o)": [x], "x + I((x + z) ** 2)": [x, (x + z) ** 2],
    }[right]  # fmt: skip


def by_row(case: dict, data: pd.DataFrame, at: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameter with a formula in each row; all that have one here are positive, with a log link."""
    name = FURTHER.get(case["likelihood"][0], "sigma")
    if case["further"] in (None, "~ 1"):
        return {}
    x, k = data["x"].to_numpy(), data["k"].to_numpy()
    b, eta = at[f"b_{name}"], at[f"Intercept_{name}"]
    if case["further"] == "~ x":
        return {name: np.exp(eta + b[0] * x)}
    u = at[f"u_{name}_g"][pd.factorize(data["g"])[0]]
    return {name: np.exp(eta + b[0] * (k == 1) + b[1] * (k == 2) + u[:, 0] + u[:, 1] * x)}


def rows(case: dict, data: pd.DataFrame, at: dict[str, np.ndarray]) -> np.ndarray:
    """Log density of each row, by SciPy."""
    likelihood, link = case["likelihood"]
    at = at | by_row(case, data, at)
    z = at.get("z", data["z"].to_numpy())
    x = np.column_stack([np.zeros(len(data)), *columns(case["right"], data, z)])[:, 1:]
    b = at.get("b", np.zeros((0, 2) if likelihood == "categorical" else 0))
    eta = x @ b + at.get("Intercept", 0.0)
    if "offset" in case["right"]:
        eta = eta + (data["o"].to_numpy() if likelihood != "categorical" else data[["o"]].to_numpy())
    if case["group"]:
        u = at["u_g"][pd.factorize(data["g"])[0]]
        slope = data["x"].to_numpy()
        eta = eta + {
            "(1 | g)": lambda: u, "(0 + x | g)": lambda: u * slope, "(x || g)": lambda: u[:, 0] + u[:, 1] * slope,
            "(x | g)": lambda: u[:, 0] + u[:, 1] * slope,
        }[case["group"]]()  # fmt: skip
    y = data["y"].to_numpy()
    if likelihood == "categorical":
        whole = np.column_stack([np.zeros(len(eta)), eta])
        return (whole - special.logsumexp(whole, axis=1, keepdims=True))[
            np.arange(len(y)), pd.factorize(y, sort=True)[0]
        ]
    y = y.astype(float)
    if likelihood == "ordered":
        cuts = np.concatenate([[-np.inf], at["cutpoints"], [np.inf]])
        below = special.expit(cuts[None] - eta[:, None])
        return np.log(np.diff(below, axis=1)[np.arange(len(y)), y.astype(int)])
    mu = {
        "identity": lambda: eta, "log": lambda: np.exp(eta), "logit": lambda: special.expit(eta),
        "probit": lambda: special.ndtr(eta), "cloglog": lambda: 1 - np.exp(-np.exp(eta)),
    }[link]()  # fmt: skip
    sigma = at.get("sigma", 0.7)
    law = {
        "gaussian": lambda: stats.norm(mu, sigma), "student_t": lambda: stats.t(at["nu"], mu, sigma),
        "bernoulli": lambda: stats.bernoulli(mu), "binomial": lambda: stats.binom(9, mu),
        "poisson": lambda: stats.poisson(mu), "beta": lambda: stats.beta(mu * at["phi"], (1 - mu) * at["phi"]),
        "negative_binomial": lambda: stats.nbinom(at["alpha"], at["alpha"] / (at["alpha"] + mu)),
        "gamma": lambda: stats.gamma(at["shape"], scale=mu / at["shape"]),
        "Weibull": lambda: stats.weibull_min(at["alpha"], scale=mu), "Laplace": lambda: stats.laplace(mu, at["scale"]),
        "BetaBinomial": lambda: stats.betabinom(9, mu * at["phi"], (1 - mu) * at["phi"]),
        "AsymmetricLaplace(q=0.9)": lambda: stats.laplace_asymmetric(3, mu, 1 / at["rate"]),  # kappa² = 0.9 / 0.1
        "Geometric": lambda: stats.geom(mu), "ExGaussian": lambda: stats.exponnorm(at["nu"] / sigma, mu, sigma),
    }[likelihood]()  # fmt: skip
    out = law.logpmf(y) if hasattr(law.dist, "pmf") else law.logpdf(y)
    if case["censored"]:
        status = data["status"].to_numpy()
        out = np.where(status == "right", law.logsf(y), np.where(status == "left", law.logcdf(y), out))
    return out


def density(model: bl.Model, data: pd.DataFrame) -> tuple[float, dict[str, np.ndarray]]:
    """What the data add to the graph's log density at a random point, and the point's natural values."""
    import pytensor

    graph = bl.to_pymc(model, data)
    rng = np.random.default_rng(0)
    point = {name: value + rng.uniform(-0.2, 0.2, np.shape(value)) for name, value in graph.initial_point().items()}
    whole, prior = graph.logp(), graph.logp(vars=graph.free_RVs)
    wanted = graph.unobserved_value_vars
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = pytensor.function(
            graph.value_vars, [whole - prior, *wanted], mode="FAST_COMPILE", on_unused_input="ignore"
        )
        out = function(**point)
    return float(out[0]), {v.name: np.asarray(value) for v, value in zip(wanted, out[1:], strict=True)}


def refused_or_right(case: dict) -> str:
    data = table(case)
    try:
        model = model_of(case)
        found, at = density(model, data)
    except bl.BayeslabError as error:
        assert "\n" not in str(error)
        return str(error)
    used = ["y", *(name for name in ("x", "z") if name in case["right"] + case["group"].split("|")[0])]
    used += ["x"] if "x" in (case["further"] or "") else []
    needed = [name for name in used if not (name == "z" and case["missing"])]
    kept = data.dropna(subset=needed).reset_index(drop=True)
    terms = rows(case, kept, at)
    expected = float(np.sum(terms * (kept["w"].to_numpy() if case["weights"] else 1.0)))
    if case["missing"]:
        expected += float(stats.norm(0.3, 1.5).logpdf(kept["z"].dropna()).sum())
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-6, err_msg=str(case))
    return ""


def case(**given: object) -> dict:
    return {key: values[0] for key, values in KEYS.items()} | {"right": "x * z"} | given


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "keys",
    [
        case(group="(1 | g)", weights="w", gaps=True, priors="written"),
        case(likelihood=("binomial", "logit"), group="(x || g)", trials="9", gaps=True),
        case(likelihood=("gamma", "log"), censored="status", right="x + offset(o)"),
        case(likelihood=("Weibull", "log"), censored="status", group="(x || g)", weights="w"),
        case(likelihood=("BetaBinomial", "probit"), missing="z", shrinkage="lasso"),
        case(further="~ C(k) + (x || g)", group="(1 | g)", weights="w", gaps=True, priors="written"),
        case(likelihood=("gamma", "log"), further="~ x", censored="status", right="1", gaps=True),
        case(likelihood=("BetaBinomial", "probit"), further="~ x", missing="z"),
    ],
    ids=["gaussian", "binomial", "gamma", "Weibull", "BetaBinomial", "sigma", "shape", "phi"],
)
def test_a_combination_has_the_density_of_the_oracle(keys):
    assert refused_or_right(keys) == ""


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("keys", all_pairs(KEYS, 7, _allowed), ids=lambda keys: "-".join(str(v) for v in keys.values()))
def test_every_pair_of_keys_is_refused_or_right(keys):
    refused_or_right(keys)
