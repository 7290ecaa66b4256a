"""Combinations of the keys of a Gaussian process: refused in one line, or the evidence is that of a dense normal.

All hyperparameters are fixed. The slow twin writes the covariance of all rows out, entry by entry, adds the normal
priors of the mean's coefficients as covariance, and takes a multivariate normal density of the rows that are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from tests.families._combinations import all_pairs, answered, refusal, refused_alike

RNG = np.random.default_rng(8)
N = 9
TABLE = pd.DataFrame(
    {
        "x": RNG.uniform(0, 4, N).round(2),
        "w": RNG.normal(size=N).round(2),
        "t": np.sort(RNG.uniform(0.1, 5, N)).round(2),
        "g": [("beer", "wine", "cider")[k % 3] for k in range(N)],
        "e": RNG.uniform(0.1, 0.6, N).round(2),
        "y": (RNG.normal(size=N) + 1).round(2),
    }
)


def radial(form: Any, scale: float, **lengths: float) -> Any:
    def value(a: Any, b: Any) -> float:
        r = np.sqrt(sum(((a[c] - b[c]) / ell) ** 2 for c, ell in lengths.items()))
        return float(scale**2 * form(r))

    return value


def times(*parts: Any) -> Any:
    return lambda a, b: float(np.prod([k(a, b) for k in parts]))


def plus(*parts: Any) -> Any:
    return lambda a, b: float(sum(k(a, b) for k in parts))


def squared(r: float) -> float:
    return float(np.exp(-(r**2) / 2))


def matern32(r: float) -> float:
    return float((1 + 3**0.5 * r) * np.exp(-(3**0.5) * r))


def matern52(r: float) -> float:
    return float((1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r))


def same_row(a: Any, b: Any) -> float:
    return float(a["row"] == b["row"])


def logistic(z: float) -> float:
    return float(1 / (1 + np.exp(-z)))


def coregion(weights: Any, specific: Any) -> Any:
    at = {"beer": 0, "cider": 1, "wine": 2}
    matrix = np.outer(weights, weights) + np.diag(specific)
    return lambda a, b: float(matrix[at[a["g"]], at[b["g"]]])


def changed(first: Any, second: Any, at: float, steepness: float) -> Any:
    def value(a: Any, b: Any) -> float:
        s, u = (logistic(steepness * (row["x"] - at)) for row in (a, b))
        return (1 - s) * first(a, b) * (1 - u) + s * second(a, b) * u

    return value


ROUGH = radial(lambda r: np.exp(-r), 0.9, x=1.1)
KERNELS: dict[str, Any] = {
    "ExpQuad(x, 1.3, 0.8)": radial(squared, 0.8, x=1.3),
    "ExpQuad(x, w, 1.3, 0.8)": radial(squared, 0.8, x=1.3, w=1.3),
    "ExpQuad(x, w, [1.3, 0.7], 0.8)": radial(squared, 0.8, x=1.3, w=0.7),
    "Matern12(x, 1.1, 0.9)": ROUGH,
    "Matern32(t, lengthscale=1.4, scale=0.7)": radial(matern32, 0.7, t=1.4),
    "Matern52(t, 0.9, 1.2)": radial(matern52, 1.2, t=0.9),
    "RationalQuadratic(x, 1.1, 0.7, 0.9)": radial(lambda r: (1 + r**2 / 1.4) ** -0.7, 0.9, x=1.1),
    "Periodic(t, 2.5, 0.8, 1.1)": lambda a, b: 1.21 * np.exp(-2 * np.sin(np.pi * (a["t"] - b["t"]) / 2.5) ** 2 / 0.64),
    "Cosine(t, 2.0, 0.6)": lambda a, b: 0.36 * np.cos(np.pi * (a["t"] - b["t"])),
    "Linear(x, 0.7, 0.3)": lambda a, b: 0.49 * (a["x"] - 0.3) * (b["x"] - 0.3),
    "Polynomial(x, 2, 0.5, 0.4)": lambda a, b: 0.16 * (a["x"] * b["x"] + 0.5) ** 2,
    "Brownian(t, 0.8)": lambda a, b: 0.64 * min(a["t"], b["t"]),
    "Coregion(g, 1, [1, 2, -1], [0.1, 0.2, 0.3]) * Matern52(t, 0.9, 1)": times(
        coregion([1, 2, -1], [0.1, 0.2, 0.3]), radial(matern52, 1.0, t=0.9)
    ),
    "ChangePoint(Matern12(x, 1.1, 0.9), ExpQuad(w, 1, 0.5), x, 2, 3)": changed(
        ROUGH, radial(squared, 0.5, w=1.0), 2, 3
    ),
    "2 * Matern32(t, 1.4)": radial(matern32, 2**0.5, t=1.4),
}
MORE: dict[str, Any] = {
    "": None,
    "+ White(0.3)": lambda k: plus(k, lambda a, b: 0.09 * same_row(a, b)),
    "+ Constant(1.2)": lambda k: plus(k, lambda a, b: 1.44),
    "* Matern12(t, 2, 1)": lambda k: times(k, radial(lambda r: np.exp(-r), 1.0, t=2.0)),
    "+ Matern32(t, 1, 0.5)": lambda k: plus(k, radial(matern32, 0.5, t=1.0)),
}
FACTORS = {
    "kernel": tuple(KERNELS),
    "more": tuple(MORE),
    "mean": ("0", "1", "prior", "1 + w prior"),
    "noise": ("sigma", "sigma2", "precision", "none"),
    "errors": (None, "e"),
    # Levels that go with everything are there several times: most combinations are answered.
    "approximation": (*(None,) * 8, "state_space", "sparse", "fitc", "hsgp", "laplace"),
    "jitter": (None, 1e-3),
    "missing": ("no", "no", "no", "outcome", "outcome", "input"),
    "likelihood": (*("gaussian",) * 8, "student_t", "poisson"),
}
SAMPLE = all_pairs(FACTORS, 3)


def declared(c: dict[str, Any]) -> dict[str, Any]:
    """The section of the model."""
    priors: dict[str, Any] = {"sigma": 0.4, "sigma2": 0.16, "precision": 6.25, "none": 0}
    out: dict[str, Any] = {"kernel": f"{c['kernel']} {c['more']}".strip(), "target": "y", "likelihood": c["likelihood"]}
    given: dict[str, Any] = {"sigma" if c["noise"] == "none" else c["noise"]: priors[c["noise"]]}
    if c["likelihood"] == "student_t":
        given["nu"] = 4
    if c["likelihood"] == "poisson":
        given = {}
    out["mean"] = str({"prior": "1", "1 + w prior": "1 + w"}.get(c["mean"], c["mean"]))
    if c["mean"] != "0":
        given["Intercept"] = "Normal(0.5, 2)" if "prior" in c["mean"] else 0.7
    if "w" in c["mean"]:
        given["b"] = "Normal(0.1, 1.5)"
    out["priors"] = given
    out |= {k: c[k] for k in ("errors", "approximation", "jitter") if c[k] is not None}
    if c["approximation"] in ("sparse", "fitc"):
        out["inducing"] = N
    return out


def data(c: dict[str, Any]) -> pd.DataFrame:
    table = TABLE.copy()
    if c["likelihood"] == "poisson":
        table["y"] = [0, 1, 3, 2, 0, 1, 5, 2, 1]
    if c["missing"] != "no":
        table[("y" if c["missing"] == "outcome" else "x")] = table["y" if c["missing"] == "outcome" else "x"].astype(
            float
        )
        table.loc[[2, 5], "y" if c["missing"] == "outcome" else "x"] = np.nan
    return table


def log_evidence(c: dict[str, Any], table: pd.DataFrame) -> float:
    rows = [dict(row, row=i) for i, row in enumerate(table.to_dict("records"))]
    kernel = KERNELS[c["kernel"]] if MORE[c["more"]] is None else MORE[c["more"]](KERNELS[c["kernel"]])
    k = np.array([[kernel(a, b) for b in rows] for a in rows])
    there = table["y"].notna().to_numpy()
    if c["jitter"]:
        k += c["jitter"] * np.mean(np.diag(k)[there]) * np.eye(len(k))
    mean = np.zeros(len(rows))
    w = table["w"].to_numpy()
    if c["mean"] == "1":
        mean += 0.7
    if "prior" in c["mean"]:
        mean += 0.5 + (0.1 * w if "w" in c["mean"] else 0)
        k += 4.0 + (1.5**2 * np.outer(w, w) if "w" in c["mean"] else 0)
    k += np.diag(np.full(len(rows), 0.0 if c["noise"] == "none" else 0.16))
    if c["errors"]:
        k += np.diag(table["e"].to_numpy() ** 2)
    k, gap = k[np.ix_(there, there)], (table["y"].to_numpy() - mean)[there]
    return float(stats.multivariate_normal(np.zeros(len(gap)), k).logpdf(gap))


def model_of(c: dict[str, Any]) -> bl.Model:
    return bl.Model(name="gp", model={"family": "gaussian_process", **declared(c)}, seed=1)


def fitted(c: dict[str, Any]) -> bl.Fit:
    return bl.fit(model_of(c), data(c), "exact", progress=False, runs=None, draws=5, chains=1)


def compare(c: dict[str, Any]) -> bool:
    """Whether the combination is answered exactly; its evidence is right, or it is refused in one line."""
    _, why = refused_alike(
        lambda: model_of(c), data(c), lambda model, table: bl.fit(model, table, progress=False, runs=None)
    )
    if why is not None or refusal(lambda: fitted(c)) is not None:
        return False
    found = fitted(c).data_tree["exact_posterior"].attrs["log_evidence"]
    assert c["likelihood"] == "gaussian" and c["approximation"] != "hsgp"
    assert found == pytest.approx(log_evidence(c, data(c)), abs=1e-6)
    return True


@pytest.mark.parametrize("number", range(0, len(SAMPLE), 14))
def test_some_combinations(number):
    answered([SAMPLE[number]], compare)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("start", range(4))
def test_all_pairs_of_keys(start):
    assert answered(SAMPLE[start::4], compare) > 0.3 * len(SAMPLE[start::4])


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_every_kernel(kernel):
    """Alone, with the noise of the likelihood: none is refused."""
    c = {name: levels[0] for name, levels in FACTORS.items()} | {"kernel": kernel}
    found = fitted(c).data_tree["exact_posterior"].attrs["log_evidence"]
    assert found == pytest.approx(log_evidence(c, data(c)), abs=1e-7)


TIMELY = [k for k in KERNELS if k.startswith(("Matern12(x,", "Matern32(t,", "Matern52(t,", "2 * Matern"))]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    ("approximation", "kernel", "more", "missing"),
    [
        ("state_space", TIMELY[0], "", "no"),
        ("state_space", TIMELY[1], "* Matern12(t, 2, 1)", "outcome"),
        ("state_space", TIMELY[2], "+ Matern32(t, 1, 0.5)", "no"),
        ("state_space", TIMELY[3], "+ Constant(1.2)", "no"),
        ("sparse", "ExpQuad(x, w, [1.3, 0.7], 0.8)", "", "no"),
        ("sparse", "RationalQuadratic(x, 1.1, 0.7, 0.9)", "+ Matern32(t, 1, 0.5)", "outcome"),
        ("fitc", "Matern12(x, 1.1, 0.9)", "+ Matern32(t, 1, 0.5)", "no"),
        ("fitc", "Linear(x, 0.7, 0.3)", "* Matern12(t, 2, 1)", "no"),
        (None, "Periodic(t, 2.5, 0.8, 1.1)", "+ White(0.3)", "outcome"),
    ],
)
def test_approximations_where_they_are_exact(approximation, kernel, more, missing):
    """State-space forms of Matérn processes, and as many inducing points as rows: the density of the graph at a sigma."""
    c = {name: levels[0] for name, levels in FACTORS.items()}
    c |= {"kernel": kernel, "more": more, "mean": "1", "approximation": approximation, "missing": missing}
    section = declared(c)
    section["priors"] = {"sigma": "HalfNormal(1)", "Intercept": 0.7}
    graph = bl.to_pymc(bl.Model(name="gp", model={"family": "gaussian_process", **section}), data(c))
    point = {v.name: np.log(0.4) for v in graph.value_vars}
    found = graph.compile_logp(vars=graph.potentials, mode="FAST_COMPILE")(point)
    # Inducing points have a small jitter of their own.
    assert float(found) == pytest.approx(
        log_evidence(c, data(c)), abs=1e-3 if approximation in ("sparse", "fitc") else 1e-7
    )
