"""A script of plain PyMC, run without bayeslab, builds a model of the same log density, or is refused by name."""

from __future__ import annotations

import ast
import itertools
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from scipy import special, stats

import bayeslab as bl
from bayeslab.preparation import bound
from tests.densities import Density, agree
from tests.models.shipped import MODELS
from tests.refusals import refused
from tests.sources import nodes

# PyMC says so where missing cells become parameters, as they do in both.
pytestmark = pytest.mark.filterwarnings("ignore:Data in .* contains missing values")

#: What cannot be exported, by code; and why. All other model files are.
REFUSED = {
    **dict.fromkeys(
        ("asia_structure", "birth_weight_structure", "crime_structure", "pumps_hidden", "sachs"),
        ("model.structure-unknown", "the structure is what is looked for"),
    ),
    **dict.fromkeys(
        ("birth_weight_boost", "digits", "play_tennis_rule", "restaurant"),
        ("model.not-applicable", "a learner has no density"),
    ),
    **dict.fromkeys(
        ("misconception", "noisy_digit"),
        ("model.not-applicable", "a Markov random field has discrete variables only, and no parameters"),
    ),
    "oil": ("model.not-applicable", "an influence diagram has no density"),
    "geyser_number": ("model.unsupported", "a sampled number of components has parameters of no fixed size"),
    "shapes": ("model.unsupported", "no bound on the number of features"),
    "notes": ("model.unsupported", "documents are texts"),
}  # fmt: skip
#: Nets whose tables are given, without data: the script holds the joint distribution.
KNOWN = ("asia", "sprinkler")
EXPORTED = sorted({path.stem for path in MODELS.glob("*.yaml")} - REFUSED.keys() - set(KNOWN))
QUICK = ("eight_schools", "sunspots")
#: Without noise an ExpQuad covariance is regular only by its jitter of 1e-8: slopes agree to its condition times the
#: rounding error of doubles.
SLOPES = {"orings": 2e-6}


@pytest.fixture(autouse=True)
def numbers_in_64_bits():
    """By default PyMC keeps numbers of scripts, such as 30, in 32 bits, and normalising constants have seven digits."""
    with pytensor.config.change_flags(cast_policy="numpy+floatX"):
        yield


def run(path: Path) -> pm.Model:
    """The model of a script, which runs where bayeslab cannot be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "bayeslab", None)
        return runpy.run_path(str(path))["model"]


def script_agrees(name: str, folder: Path) -> None:
    path, file = folder / f"{name}.py", MODELS / f"{name}.yaml"
    path.write_text(bl.export(file, folder=folder))
    imported = {
        alias.name.split(".")[0]
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in ([ast.alias(str(node.module))] if isinstance(node, ast.ImportFrom) else node.names)
    }
    assert imported <= {"arviz", "json", "numpy", "pandas", "pathlib", "pymc", "pymc_extras", "pytensor", "scipy"}
    graph = bl.load(file).model.family == "graph"
    whole = bl.to_pymc(file) if graph else bl.to_pymc(bl.expand(file), bound(file).dataset)
    agree(whole, run(path), constant=1e-9, gradient_rtol=SLOPES.get(name))


@pytest.mark.parametrize("name", QUICK)
def test_a_script_builds_the_same_model(name, tmp_path):
    script_agrees(name, tmp_path)


# pymc_extras says to which of several nodes it assigns their joint density; only the sum is compared.
@pytest.mark.filterwarnings("ignore:There are multiple dependent variables")
@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(set(EXPORTED) - set(QUICK)))
def test_any_script_builds_the_same_model(name, tmp_path):
    script_agrees(name, tmp_path)


def evidence_agrees(short: pm.Model, script: pm.Model) -> None:
    """That one density is the integral of the other over normals z, in which its logarithm is quadratic."""
    one, other = Density.of(short), Density.of(script)
    (z,) = set(other.names) - set(one.names)
    for point in one.points(np.random.default_rng(1), 2):
        shape = other.points(np.random.default_rng(0), 1)[0][z].shape
        size = int(np.prod(shape))
        height, slopes = other.at(point | {z: np.zeros(shape)})
        slope = np.ravel(slopes[z])
        curve = np.stack([np.ravel(other.at(point | {z: e.reshape(shape)})[1][z]) - slope for e in np.eye(size)])
        top = height - 0.5 * slope @ np.linalg.solve(curve, slope)
        integral = top + 0.5 * size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(-curve)[1]
        # Sampled functions have a share of 1e-8 of their variance on the diagonal.
        assert integral == pytest.approx(one.at(point)[0], rel=1e-6)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", KNOWN)
def test_the_script_of_a_known_net_has_its_joint_distribution(name, tmp_path):
    (tmp_path / "s.py").write_text(bl.export(MODELS / f"{name}.yaml", folder=tmp_path))
    net = run(tmp_path / "s.py")
    states = {v: list(one.states) for v, one in bl.load(MODELS / f"{name}.yaml").model.variables.items()}
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({v: rng.choice(own, 40) for v, own in states.items()})
    wanted = bl.network(MODELS / f"{name}.yaml").query_many(rows)["log_evidence"]
    log_p = pytensor.function(net.value_vars, net.logp(), mode="FAST_COMPILE")
    codes = [[states[v.name].index(row[v.name]) for v in net.value_vars] for _, row in rows.iterrows()]
    assert np.isfinite(wanted).sum() > 3
    np.testing.assert_allclose([log_p(*each) for each in codes], wanted, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_model_without_plain_pymc_is_refused(name, tmp_path):
    with refused(REFUSED[name][0], where=str(MODELS / f"{name}.yaml")):
        bl.export(MODELS / f"{name}.yaml", folder=tmp_path)


@pytest.mark.slow(why="processes")
def test_a_script_runs_as_a_program(tmp_path):
    text = bl.export(MODELS / "eight_schools.yaml", folder=tmp_path)
    path = tmp_path / "script.py"
    path.write_text(text.replace("pm.sample(", "pm.sample(draws=20, tune=20, chains=1, progressbar=False, "))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "tau" in done.stdout


# ------------------------------------------------------------------------------------ small models


def written(folder: Path, nodes: dict[str, str], table: pd.DataFrame, **content) -> Path:
    table.to_csv(folder / "t.csv", index=False)
    data = {"table": "t.csv", "rows": "row"} | content.pop("data", {})
    bl.save(bl.Model(name="small", data=data, model={"family": "graph", "nodes": nodes}, **content), folder / "m.yaml")
    return folder / "m.yaml"


SMALL: dict[str, dict] = {
    "levels": {
        "a[g]": "Normal(0, [1, 2, 3])", "b": "Normal(0, 1)", "s": "HalfNormal(1)",
        "y[row]": "Normal(a[g] + b * (g == 'v') * x ** 2 - a['w'], s)",
    },
    "two dimensions": {
        "e[g, h]": "Normal(0, 1)", "m[g]": "sum(e, h)", "y[row]": "Normal(e[g, h] + m[g] - mean(e), exp(e['u', 'q']))",
    },
    "functions": {
        "p": "Beta(2, 2)", "q[h]": "softmax([0, logit(p)])", "r": "Normal(0, 1)",
        "y[row]": "StudentT(4, where(x > 2, r, probit(p)) + clip(x, 1, 2) + tanh(r), softplus(r) + Phi(r) + q[h])",
    },
    "linear algebra": {
        "v[g]": "MvNormal([0, 0, 0], [[2, 1, 0], [1, 2, 0], [0, 0, 1]])", "c[g, g_twin]": "0.1 * index(g_twin) + eye(g, g_twin)",
        "y[row]": "Normal((c @ rename(v, g_twin))[g], 1 + logdet(c))",
    },
    "bounds": {"m": "Normal(0, 1)", "y[row]": "Censored(Normal(m, 1), lower=0, upper=10)",
               "x[row]": "Truncated(Normal(m, 1), lower=-5)"},
    "counts": {"l[h]": "Gamma(2, 1)", "n[row]": "Poisson(l[h])", "z[row]": "Bernoulli(logit_p=l[h] - 1)"},
    "potential": {"m": "Normal(0, 1)", "extra": "Potential(-m ** 2 * sum(x))", "y[row]": "Normal(m, 1)"},
    "ordered": {"c[k]": "Ordered(Normal(0, 2))", "d[k]": "PositiveOrdered(Gamma(2, 1))",
                "y[row]": "Normal(c[0] * x + c[1] + d[1], d[0])"},
    "autoregression": {"r": "Normal(0, 1)", "y[row]": "Normal(r * lag(y, 1) + lag(x, 2), 1)"},
    "recursion": {
        "r": "Beta(2, 2)", "m": "Normal(0, 1)", "a[g]": "Normal(0, 1)",
        "s[row]": "r * previous(s, 1, start=m) + a[g] * x + (g == 'v')", "y[row]": "Normal(m * s, 1)",
    },
    "recursion of numbers": {"s[row]": "0.9 * previous(s, 1, start=1)", "m": "Normal(0, 1)", "y[row]": "Normal(m * s, 1)"},
    "covariance": {
        "L[k, k2]": "LKJCholeskyCov(eta=2, sd_dist=Exponential(1))", "e[k]": "Normal(0, 1)",
        "y[row]": "Normal((L @ rename(e, k2))[0] + (L @ rename(e, k2))[1] * x, 1)",
    },
    "product of square matrices": {
        "W[k, k2]": "Normal(0, 1)", "S[k, k2]": "W @ transpose(W) + eye(k, k2)", "e[k]": "MvNormal([0, 0], cov=S)",
        "y[row]": "Normal(e[0] + e[1] * x, 1)",
    },
    "shared labels": {
        "w[k]": "Dirichlet([2, 3])", "m[k]": "Normal(0, 1)", "c[g]": "Categorical(w)", "y[row]": "Normal(m[c[g]] + x, 1)",
        "n[row]": "Poisson(exp(0.2 * c[g]))",
    },
    "labels by labels": {
        "p": "Beta(2, 2)", "a[g]": "Bernoulli(p)", "b[g]": "Bernoulli(0.2 + 0.5 * p * a)", "m[k]": "Normal(0, 1)",
        "y[row]": "Normal(m[b[g]] + p * a[g], 1)",
    },
    "labels and gaps": {
        "p": "Beta(2, 2)", "m[k]": "Normal(0, 1)", "gap[row]": "Bernoulli(p)", "y[row]": "Normal(m[gap] + x, 1)",
        "n[row]": "Poisson(exp(gap * m[0]))",
    },
    # pymc_extras sums out no label of a row with a missing cell.
    "labels of rows with holes": {
        "p": "Beta(2, 2)", "m[k]": "Normal(0, 1)", "a[row]": "Bernoulli(p)", "b[row]": "Bernoulli(0.25 + 0.5 * p * a)",
        "mean[row]": "m[b] + p * a", "hole[row]": "Normal(mean, 1)", "gap[row]": "Bernoulli(0.25 + 0.5 * a)",
    },
    "chain": {
        "P[k, k2]": "Dirichlet(1)", "m[k]": "Normal(0, 1)", "c[row]": "MarkovChain(P, initial=stationary)",
        "y[row]": "StudentT(4, m[c], 1 + exp(m[0]))", "hole[row]": "Normal(m[c] * x, 1)",
    },
    "chains in turn": {
        "p[h]": "Beta(2, 2)", "q[k]": "Dirichlet(1)", "m[k]": "Normal(0, 1)",
        "c[row]": "MarkovChain([[1 - p[h], p[h]], [0, 1]], initial=q, sequence=g2)",
        "y[row]": "Truncated(Normal(m[c], 1), lower=-5)", "z[row]": "Bernoulli(0.3 * (c == 1))",
    },
    "states by name": {
        "P[state, next_state]": "Dirichlet(2)", "m[state]": "Normal(0, 1)", "c[row]": "MarkovChain(P)",
        "level[row]": "m[c] + (c == 'on') * x", "y[row]": "Normal(level, 1)",
    },
    "past states": {
        "P[k, k2]": "Dirichlet(1)", "m[k]": "Normal(0, 1)", "r": "Normal(0, 1)",
        "c[row]": "MarkovChain(P, initial=[0.2, 0.8])", "off[row]": "y - m[c]",
        "y[row]": "Normal(m[c] + r * lag(off, 2), 1)",
    },
    "segments": {
        "q[k, last]": "Dirichlet(1)", "m[k]": "Normal(0, 1)",
        "c[row]": "SemiMarkovChain([[0, 1], [1, 0]], durations=q, initial=[0.3, 0.7], sequence=g2)",
        "y[row]": "Normal(m[c], 1)",
    },
    "several chains": {
        "P[k, k2]": "Dirichlet(1)", "m[k]": "Normal(0, 1)", "c[row]": "MarkovChain(P, sequence=g2)",
        "d[row]": "MarkovChain([[0.8, 0.2], [0.3, 0.7]], initial=stationary, sequence=g2)",
        "y[row]": "Normal(m[c] - exp(m[0]) * d, 1)", "n[row]": "Poisson(1 + d)",
    },
    "wandering levels": {
        "s": "HalfNormal(1)", "b": "Normal(0, 1)", "v[row]": "LocalLevel(s, initial=Normal(0, 3), sequence=g2)",
        "a[row]": "2 * v - b * x", "hole[row]": "Normal(a, exp(b))",
    },
    "trend and season": {
        "s": "HalfNormal(1)", "b": "Normal(0, 1)",
        "v[row]": "LocalTrend(s, 0.1, initial=Normal(1, 3), initial_slope=Normal(b, 1))",
        "w[row]": "Seasonal(3, s, initial=ZeroSumNormal(2))", "y[row]": "Normal(x + v + b * w, 0.5)",
    },
    "linear Gaussian states": {
        "r": "Beta(2, 2)", "v[row]": "LinearGaussian(H=[1, 0.5], F=[[0.5, r], [0, 0.9]], Q=[[1, 0.2], [0.2, 2]],"
        " initial_mean=[0, 1], initial_covariance=[[2, 0], [0, 1]])", "y[row]": "Normal(v, 0.5)",
    },
    "summed out": {"w": "Beta(1, 1)", "m[k]": "Normal(0, 1)", "k_of[row]": "Bernoulli(w)",
                   "y[row]": "Normal(m[k_of], 1)"},
}  # fmt: skip


#: More dimensions.
TWINS = {"linear algebra": {"g_twin": "g"}}


def table() -> pd.DataFrame:
    return pd.DataFrame({
        "x": [1.0, 2.5, 0.5, 3.0, 1.5, 2.0], "y": [0.2, 1.4, 2.2, 0.1, 3.0, 0.6], "g": list("uvwuvw"),
        "h": list("qqrrqr"), "n": [0, 2, 1, 4, 3, 1], "z": [0, 1, 1, 0, 1, 0], "g2": list("sssttu"),
        "gap": [0, np.nan, 1, 1, np.nan, 0], "hole": [0.1, np.nan, 2.0, 1.5, 0.3, np.nan],
    })  # fmt: skip


@pytest.mark.parametrize("name", ["levels", "potential"])
def test_a_small_model_and_its_script_have_the_same_density(name, tmp_path):
    small_agrees(name, tmp_path)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"levels", "potential"}))
def test_any_small_model_and_its_script_have_the_same_density(name, tmp_path):
    small_agrees(name, tmp_path)


def small_agrees(name: str, folder: Path) -> None:
    dims = {"k": 2, "k2": "k", "last": 3, "state": ["off", "on"], "next_state": "state"}
    path = written(folder, SMALL[name], table(), dims=dims | TWINS.get(name, {}))
    script = folder / "s.py"
    script.write_text(bl.export(path, folder=folder))
    agree(bl.to_pymc(path), run(script), constant=1e-9)


#: Functions, written out.
FUNCTIONS: dict[str, str] = {
    "several columns": "ExpQuad(x, n, [ell, wide], s) + Matern52(x, n, ell, 0.5)",
    "distances": "Matern12(x, ell, s) + Matern32(x, wide, 1) + RationalQuadratic(x, ell, wide, 0.7)",
    "waves": "s * Periodic(x, 3, ell, 1) * Cosine(x, wide, 1) + Constant(2)",
    "lines": "Linear(x, n, scale=s, center=[1, wide]) + 0.5 * Polynomial(x, 2, offset=ell) + Brownian(x, 1)",
    "changes": "ChangePoint(Matern52(x, ell, s), ExpQuad(n, wide, 1), x, 1.5, 3)",
    "levels": "Coregion(g, 2, [1, 0.5, wide, 1, 0, 2], [ell, 1, 0.5]) * ExpQuad(x, 1.5)",
    "sines": "Matern52(x, ell, s) + Constant(2) + Linear(n, scale=wide), approximation=hsgp, functions=8",
    "smooth sines": "ExpQuad(x, ell, s), approximation=hsgp, domain=[0, 5]",
    "rough sines": "Matern32(x, ell, s), approximation=hsgp, functions=7",
}  # fmt: skip


def function_agrees(name: str, folder: Path, y: str = "StudentT(4, f + b[0], 1)") -> tuple[pm.Model, pm.Model]:
    priors = {"ell": "Gamma(4, 2)", "s": "HalfNormal(1)", "wide": "Gamma(3, 1)", "b[k]": "Normal(0, 1)"}
    nodes = priors | {"f[row]": f"GaussianProcess({FUNCTIONS[name]})", "y[row]": y}
    path = written(folder, nodes, table(), dims={"k": 2})
    (folder / "s.py").write_text(bl.export(path, folder=folder))
    return bl.to_pymc(path), run(folder / "s.py")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_and_its_script_have_the_same_density(name, tmp_path):
    agree(*function_agrees(name, tmp_path), rtol=1e-6, constant=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["several columns", "smooth sines"])
def test_a_function_that_is_integrated_out_and_its_script_have_the_same_density(name, tmp_path):
    agree(*function_agrees(name, tmp_path, "Normal(f + b[0], 1)"), constant=1e-9)


@pytest.mark.slow(why="compiles")
def test_a_function_with_factors_that_is_integrated_out_has_the_same_density(tmp_path):
    nodes = {
        "f[g]": "GaussianProcess(ExpQuad(place, ell, 1))", "w[row]": "GaussianProcess(Matern32(x, ell, 0.5))",
        "ell": "Gamma(4, 2)", "s": "HalfNormal(1)", "place[g]": "0.5 * index(g) ** 2",
        "both[row]": "x - f[g] + w * s * x", "y[row]": "Normal(both, s)",
    }  # fmt: skip
    path = written(tmp_path, nodes, table())
    (tmp_path / "s.py").write_text(bl.export(path, folder=tmp_path))
    agree(bl.to_pymc(path), run(tmp_path / "s.py"), constant=1e-9)


@pytest.mark.slow(why="compiles")
def test_a_function_that_a_script_can_only_sample_has_the_same_evidence(tmp_path):
    evidence_agrees(*function_agrees("smooth sines", tmp_path, "Normal(f + 0.5 * f + b[0], 1)"))


@pytest.mark.parametrize(
    ("nodes", "thing"),
    [
        (
            {"f[row]": "GaussianProcess(Periodic(x, 3, 1, 1), approximation=hsgp)", "y[row]": "Normal(f, 1)"},
            "periodic kernel",
        ),
        ({"f[row]": "GaussianProcess(ExpQuad(x, n, 1, 1), approximation=hsgp)", "y[row]": "Normal(f, 1)"}, "several"),
        (
            {"h[row]": "0.5 * previous(h, 2, start=0) + x", "m": "Normal(0, 1)", "y[row]": "Normal(m + h, 1)"},
            "previous",
        ),
        ({"c[g, g2]": "LKJCorr(eta=2)", "y[row]": "Normal(c['u', 'v'], 1)"}, "LKJCorr"),
        ({"v[row]": "AR([0.5], 1)", "y[row]": "Normal(v, 1)"}, "AR"),
        (
            {
                "c[row]": "MarkovChain([[[0.5, 0.5], [0.1, 0.9]], [[0.3, 0.7], [0, 1]]], order=2)",
                "y[row]": "Normal(c, 1)",
            },
            "'c'",
        ),
        (
            {
                "c[row]": "MarkovChain([[0.5, 0.5], [0.1, 0.9]])",
                "a[row]": "Bernoulli(0.5)",
                "m": "Normal(0, 1)",
                "y[row]": "Normal(c + a * m, 1)",
            },
            "'c' and 'a'|'a' and 'c'",
        ),
        ({"c[g]": "Bernoulli(0.5)", "m": "Normal(0, 1)", "y[row]": "Normal(m + sum(c), 1)"}, "cells of 'c'"),
        (
            {"s": "HalfNormal(1)", "v[row]": "LocalLevel(s, initial=Normal(0, 1))", "n[row]": "Poisson(exp(v))"},
            "'v', states that are sampled",
        ),
    ],
)
def test_what_has_no_plain_pymc_is_refused(nodes, thing, tmp_path):
    path = written(tmp_path, nodes, table(), dims={"g2": "g"})
    with refused("model.unsupported", thing, where=str(path)):
        bl.export(path, folder=tmp_path)


def test_names_that_python_keeps_and_odd_columns(tmp_path):
    frame = table().rename(columns={"x": "dose (mg)"}).assign(pm=1.0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    nodes = {"az": "Normal(0, 1)", "y[row]": "Normal(az * `dose (mg)` + pm, 1)"}
    model = bl.Model(data={"table": "t.csv", "rows": "row"}, model={"family": "graph", "nodes": nodes})
    bl.save(model, tmp_path / "m.yaml")
    (tmp_path / "s.py").write_text(bl.export(tmp_path / "m.yaml", folder=tmp_path))
    agree(bl.to_pymc(tmp_path / "m.yaml"), run(tmp_path / "s.py"), constant=1e-9)


@pytest.mark.slow(why="statistical")
def test_missing_words_and_semicolons_are_read_alike(tmp_path):
    (tmp_path / "t.csv").write_text("y;x\n1.5;2\n?;3\n2.5;4\n")
    nodes = {"m": "Normal(0, 1)", "y[row]": "Normal(m * x, 1)"}
    data = {"table": "t.csv", "rows": "row", "missing": ["?"]}
    bl.save(bl.Model(data=data, model={"family": "graph", "nodes": nodes}), tmp_path / "m.yaml")
    (tmp_path / "s.py").write_text(bl.export(tmp_path / "m.yaml", folder=tmp_path))
    agree(bl.to_pymc(tmp_path / "m.yaml"), run(tmp_path / "s.py"), constant=1e-9)


def paths_evidence(y: np.ndarray, mu: float, means: np.ndarray) -> float:
    """The log density of a few rows, over all paths of two states that last 1 + Poisson(mu) rows."""
    terms = []
    for path in itertools.product(range(2), repeat=len(y)):
        *ended, last = [len(list(run)) for _, run in itertools.groupby(path)]
        lasting = stats.poisson.logpmf(np.array(ended) - 1, mu).sum() + stats.poisson.logsf(last - 2, mu)
        terms.append(np.log(0.5) + lasting + stats.norm.logpdf(y, means[list(path)]).sum())
    return special.logsumexp(terms)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("longest", [30, 300])
def test_durations_too_improbable_for_64_bits_leave_a_script_its_density_and_gradient(tmp_path, longest):
    y, mu, means = np.array([0.1, 0.4, 2.9, 3.3, 2.2, -0.5, 0.3, 2.8]), 2.0, np.array([0.0, 3.0])
    pd.DataFrame({"y": y}).to_csv(tmp_path / "t.csv", index=False)
    durations = {"longest": longest, "law": "poisson"}
    spec = {"family": "hmm", "columns": ["y"], "states": 2, "initial": "uniform", "durations": durations}
    bl.save(bl.Model(data={"table": "t.csv"}, model=spec | {"parameters": {"sd": 1}}), tmp_path / "m.yaml")
    (tmp_path / "s.py").write_text(bl.export(tmp_path / "m.yaml", folder=tmp_path))
    script = Density.of(run(tmp_path / "s.py"))
    center, width = y.mean(), 10
    heights, slope = [], []
    for rate in (mu - 1e-4, mu, mu + 1e-4):
        height, slopes = script.at({"duration_mu": np.full(2, rate), "mean": means})
        prior = 2 * stats.gamma.logpdf(rate, 1, scale=longest / 2) + stats.norm.logpdf(means, center, width).sum()
        assert height == pytest.approx(prior + paths_evidence(y, rate, means), rel=1e-9)
        heights.append(height)
        slope.append(slopes["duration_mu"].sum())
    assert slope[1] == pytest.approx((heights[2] - heights[0]) / 2e-4, rel=1e-4)


def test_data_in_memory_are_in_no_script():
    model = bl.Model(
        data={"rows": "row"}, model={"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[row]": "Normal(m, 1)"}}
    )
    with refused("data.no-data"):
        bl.export(model, {"y": [1.0, 2.0]})
    with refused("option.unknown-word"):
        bl.export(model, to="stan")


def test_a_dimension_without_a_length_is_refused(tmp_path):
    nodes = {"a[nowhere]": "Normal(0, 1)", "y[row]": "Normal(sum(a), 1)"}
    model = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    (tmp_path / "y.csv").write_text("y\n1\n2\n")
    with refused("model.unknown-dimension", "'nowhere'", where="model.nodes.a"):
        bl.export(model, tmp_path / "y.csv")
