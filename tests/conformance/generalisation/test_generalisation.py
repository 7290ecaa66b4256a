"""Well-known models that the language was not made for, each in a file beside this test.

Data are simulated here with planted parameters. The graph's log density must equal one written in
NumPy and SciPy (up to a constant: only differences between points matter), and for the cheap ones
sampling must find the planted values again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logit, logsumexp

import bayeslab as bl

HERE = Path(__file__).parent
NORMAL, BETA, GAMMA, POISSON = stats.norm.logpdf, stats.beta.logpdf, stats.gamma.logpdf, stats.poisson.logpmf


@dataclass(frozen=True)
class Case:
    simulate: Callable[[np.random.Generator], tuple[Any, dict[str, Any]]]
    log_density: Callable[[Any, dict[str, np.ndarray]], float]
    recovered: bool


CASES: dict[str, Case] = {}


def case(*, recovered: bool = False) -> Callable[[type], type]:
    """A class ``name`` with ``simulate(rng) -> data, planted`` and ``log_density(data, at)``."""

    def add(found: type) -> type:
        CASES[found.__name__] = Case(found.simulate, found.log_density, recovered)  # type: ignore[attr-defined]
        return found

    return add


def start(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))


# ---------------------------------------------------------------------------------- hierarchies


@case(recovered=True)
class radon_slopes:
    def simulate(rng):
        county = rng.integers(1, 13, 240)
        county[:12] = np.arange(1, 13)
        floor, uranium = rng.integers(0, 2, 240), rng.normal(0, 0.4, 12)
        a = 1.4 + 0.8 * uranium + 0.2 * rng.normal(size=12)
        b = -0.7 + 0.3 * rng.normal(size=12)
        y = rng.normal(a[county - 1] + b[county - 1] * floor, 0.7)
        data = {"county_idx": county, "floor": floor, "log_radon": y, "uranium": uranium}
        return data, {"mu_a": 1.4, "mu_b": -0.7, "g": 0.8, "sigma_y": 0.7, "a": a, "b": b}

    def log_density(d, p):
        out = sum(NORMAL(p[word], 0, 10) for word in ("mu_a", "mu_b", "g"))
        out += sum(NORMAL(p[word], 0, 1) for word in ("sigma_a", "sigma_b", "sigma_y"))
        out += NORMAL(p["raw_a"]).sum() + NORMAL(p["raw_b"]).sum()
        at = d["county_idx"] - 1
        a = p["mu_a"] + p["g"] * d["uranium"] + p["sigma_a"] * p["raw_a"]
        b = p["mu_b"] + p["sigma_b"] * p["raw_b"]
        return out + NORMAL(d["log_radon"], a[at] + b[at] * d["floor"], p["sigma_y"]).sum()


@case()
class election:
    AGES, EDUCATION = ["young", "middle", "old"], ["low", "high"]

    def simulate(rng):
        states = [f"s{i}" for i in range(9)]
        of_state = pd.DataFrame(
            {"state": states[::-1], "region": ["west", "east", "south"] * 3, "prev": rng.normal(0, 0.1, 9)}
        )
        voters = pd.DataFrame(
            {
                "state": rng.choice(states, 150),
                "age": rng.choice(election.AGES, 150),
                "educ": rng.choice(election.EDUCATION, 150),
                "female": rng.integers(0, 2, 150),
                "vote": rng.integers(0, 2, 150),
            }
        )
        return {"voter": voters, "state": of_state}, {}

    def log_density(d, p):
        voters, states = d["voter"], d["state"]
        out = sum(NORMAL(p[word], 0, 100) for word in ("b0", "b_female", "b_prev"))
        out += sum(NORMAL(p[word], 0, 1) for word in ("tau_cell", "tau_state", "tau_region"))
        out += NORMAL(p["cell"], 0, p["tau_cell"]).sum() + NORMAL(p["r"], 0, p["tau_region"]).sum()
        regions = {"east": 0, "south": 1, "west": 2}
        for i, row in states.iterrows():
            out += NORMAL(p["s"][i], p["r"][regions[row.region]] + p["b_prev"] * row.prev, p["tau_state"])
        for row in voters.itertuples():
            cell = p["cell"][election.AGES.index(row.age), election.EDUCATION.index(row.educ)]
            effect = p["s"][states.state.tolist().index(row.state)]
            chance = expit(p["b0"] + p["b_female"] * row.female + cell + effect)
            out += np.log(chance if row.vote else 1 - chance)
        return out


@case()
class pilots:
    def simulate(rng):
        group, scenario = rng.integers(1, 6, 40), rng.integers(1, 9, 40)
        group[:8], scenario[:8] = [1, 2, 3, 4, 5, 1, 2, 3], np.arange(1, 9)
        return {"group_id": group, "scenario_id": scenario, "y": rng.normal(size=40)}, {}

    def log_density(d, p):
        out = sum(NORMAL(p[word], 0, 1) for word in ("mu", "mu_a", "mu_b"))
        out += NORMAL(p["a"], 10 * p["mu_a"], p["sigma_a"]).sum() + NORMAL(p["b"], 10 * p["mu_b"], p["sigma_b"]).sum()
        return out + NORMAL(d["y"], p["a"][d["group_id"] - 1] + p["b"][d["scenario_id"] - 1], p["sigma_y"]).sum()


@case()
class correlated_slopes:
    def simulate(rng):
        group = rng.choice(["a", "b", "c", "d", "e"], 60)
        return {"group": group, "x": rng.normal(size=60), "y": rng.normal(size=60)}, {}

    def log_density(d, p):
        deviations, corr = p["L_stds"], p["L_corr"]
        # The prior of the factor: that of the correlation matrix, (1 - r^2)^(eta - 1), times the Jacobian of r
        # and of the deviations in terms of the factor, which this density is one of.
        factor = np.linalg.cholesky(np.outer(deviations, deviations) * corr)
        np.testing.assert_allclose(factor, p["L"])
        out = NORMAL(p["mu"], 0, 5).sum() + NORMAL(p["z"]).sum() + stats.cauchy.logpdf(p["sigma"], 0, 2.5)
        out += stats.cauchy.logpdf(deviations, 0, 2.5).sum() + np.log(1 - corr[0, 1] ** 2)
        out += -np.log(deviations[1]) + np.log(factor[1, 1] / deviations[1])
        b = p["mu"] + p["z"] @ p["L"].T
        at = np.searchsorted(list("abcde"), d["group"])
        return out + NORMAL(d["y"], b[at, 0] + b[at, 1] * d["x"], p["sigma"]).sum()


@case()
class seeds:
    def simulate(rng):
        n = rng.integers(10, 60, 21)
        x1, x2 = rng.integers(0, 2, 21), rng.integers(0, 2, 21)
        return {"N": n, "n": rng.binomial(n, 0.5), "x1": x1, "x2": x2}, {}

    def log_density(d, p):
        out = sum(NORMAL(p[f"alpha{word}"], 0, 1000) for word in ("0", "1", "2", "12"))
        out += GAMMA(p["tau"], 1) + NORMAL(p["b"], 0, p["tau"] ** -0.5).sum()
        linear = p["alpha0"] + p["alpha1"] * d["x1"] + p["alpha2"] * d["x2"] + p["alpha12"] * d["x1"] * d["x2"]
        return out + stats.binom.logpmf(d["n"], d["N"], expit(linear + p["b"])).sum()


@case()
class surgical:
    def simulate(rng):
        n = rng.integers(50, 500, 12)
        return {"n": n, "r": rng.binomial(n, expit(rng.normal(-2.5, 0.4, 12)))}, {}

    def log_density(d, p):
        out = NORMAL(p["mu"], 0, 1000) + stats.invgamma.logpdf(p["sigmasq"], 0.001, scale=0.001)
        out += NORMAL(p["b"], p["mu"], np.sqrt(p["sigmasq"])).sum()
        return out + stats.binom.logpmf(d["r"], d["n"], expit(p["b"])).sum()


@case(recovered=True)
class rats:
    DAYS = np.array([8.0, 15, 22, 29, 36])

    def simulate(rng):
        alpha, beta = rng.normal(242, 14, 30), rng.normal(6.2, 0.5, 30)
        y = rng.normal(alpha[:, None] + beta[:, None] * (rats.DAYS - 22), 6.0)
        return {"y": y, "x": rats.DAYS}, {"mu_alpha": 242, "mu_beta": 6.2, "sigma_y": 6, "sigma_beta": 0.5}

    def log_density(d, p):
        out = NORMAL(p["mu_alpha"], 0, 1000) + NORMAL(p["mu_beta"], 0, 1000)
        out += NORMAL(p["alpha"], p["mu_alpha"], p["sigma_alpha"]).sum()
        out += NORMAL(p["beta"], p["mu_beta"], p["sigma_beta"]).sum()
        mean = p["alpha"][:, None] + p["beta"][:, None] * (d["x"] - 22)
        return out + NORMAL(d["y"], mean, p["sigma_y"]).sum()


# ---------------------------------------------------------------------------------- regressions


@case(recovered=True)
class wells:
    def simulate(rng):
        dist, arsenic = rng.gamma(2, 25, 600), rng.gamma(2, 0.8, 600)
        d, a = dist / 100 - np.mean(dist / 100), arsenic - np.mean(arsenic)
        beta = np.array([0.35, -0.9, 0.5, -0.2])
        chance = expit(beta[0] + beta[1] * d + beta[2] * a + beta[3] * d * a)
        return {"dist": dist, "arsenic": arsenic, "switched": rng.binomial(1, chance)}, {"beta": beta}

    def log_density(d, p):
        x, a = d["dist"] / 100 - np.mean(d["dist"] / 100), d["arsenic"] - np.mean(d["arsenic"])
        chance = expit(p["beta"] @ [np.ones(600), x, a, x * a])
        return np.where(d["switched"] == 1, np.log(chance), np.log(1 - chance)).sum()


@case()
class diamonds:
    def simulate(rng):
        x = np.column_stack([np.ones(50), rng.normal(1, 2, (50, 4))])
        return {"X": x, "Y": rng.normal(8, 1, 50)}, {}

    def log_density(d, p):
        centred = d["X"] - d["X"].mean(axis=0)
        np.testing.assert_allclose(p["b_Intercept"], p["Intercept"] - d["X"][:, 1:].mean(axis=0) @ p["b"][1:])
        out = NORMAL(p["b"]).sum() + stats.t.logpdf(p["Intercept"], 3, 8, 10) + stats.t.logpdf(p["sigma"], 3, 0, 10)
        return out + NORMAL(d["Y"], p["Intercept"] + centred @ p["b"], p["sigma"]).sum()


@case()
class dugongs:
    def simulate(rng):
        x = np.sort(rng.uniform(1, 32, 27))
        return {"x": x, "Y": rng.normal(2.7 - 0.97 * 0.86**x, 0.1)}, {}

    def log_density(d, p):
        np.testing.assert_allclose(p["U3"], logit(p["lam"]))
        out = NORMAL(p["alpha"], 0, 1000) + NORMAL(p["beta"], 0, 1000) + GAMMA(p["tau"], 0.0001, scale=10_000)
        return out + NORMAL(d["Y"], p["alpha"] - p["beta"] * p["lam"] ** d["x"], p["tau"] ** -0.5).sum()


@case()
class horseshoe_logistic:
    def simulate(rng):
        return {"x": rng.normal(size=(40, 8)), "y": rng.integers(0, 2, 40)}, {}

    def log_density(d, p):
        slab = 2 * np.sqrt(p["caux"])
        local = np.sqrt(slab**2 * p["lam"] ** 2 / (slab**2 + p["tau"] ** 2 * p["lam"] ** 2))
        out = NORMAL(p["beta0"], 0, 10) + NORMAL(p["z"]).sum() + stats.invgamma.logpdf(p["caux"], 2, scale=2)
        out += stats.cauchy.logpdf(p["lam"]).sum() + stats.cauchy.logpdf(p["tau"], 0, 0.05)
        chance = expit(p["beta0"] + d["x"] @ (p["z"] * local * p["tau"]))
        return out + np.where(d["y"] == 1, np.log(chance), np.log(1 - chance)).sum()


@case()
class ordered_logit:
    def simulate(rng):
        x = rng.normal(size=80)
        return {"x": x, "score": 1 + np.searchsorted([-1, 0, 1.5], rng.logistic(0.8 * x))}, {}

    def log_density(d, p):
        cuts = np.concatenate([[-np.inf], p["c"], [np.inf]])
        eta, score = p["beta"] * d["x"], d["score"]
        chance = expit(cuts[score] - eta) - expit(cuts[score - 1] - eta)
        return NORMAL(p["beta"], 0, 2) + NORMAL(p["c"], 0, 5).sum() + np.log(chance).sum()


@case(recovered=True)
class zero_inflated:
    def simulate(rng):
        child, hours = rng.integers(0, 3, 400), rng.uniform(0, 2, 400)
        psi, rate = expit(1.2 - 0.9 * child), np.exp(0.3 + 0.7 * hours)
        fish = rng.binomial(1, psi) * rng.poisson(rate)
        return {"child": child, "hours": hours, "fish": fish}, {"a0": 1.2, "a1": -0.9, "b0": 0.3, "b1": 0.7}

    def log_density(d, p):
        psi, rate = expit(p["a0"] + p["a1"] * d["child"]), np.exp(p["b0"] + p["b1"] * d["hours"])
        mass = psi * np.exp(POISSON(d["fish"], rate)) + (1 - psi) * (d["fish"] == 0)
        return sum(NORMAL(p[word], 0, 2) for word in ("a0", "a1", "b0", "b1")) + np.log(mass).sum()


@case()
class irt_2pl:
    def simulate(rng):
        return {"y": rng.integers(0, 2, (6, 25))}, {}

    def log_density(d, p):
        out = sum(stats.cauchy.logpdf(p[word], 0, 2) for word in ("sigma_theta", "sigma_a", "sigma_b"))
        out += NORMAL(p["theta"], 0, p["sigma_theta"]).sum() + stats.lognorm.logpdf(p["a"], p["sigma_a"]).sum()
        out += NORMAL(p["mu_b"], 0, 5) + NORMAL(p["b"], p["mu_b"], p["sigma_b"]).sum()
        chance = expit(p["a"][:, None] * (p["theta"] - p["b"][:, None]))
        return out + np.where(d["y"] == 1, np.log(chance), np.log(1 - chance)).sum()


# ---------------------------------------------------------------------------- counting and mixing


@case()
class capture_heterogeneous:
    def simulate(rng):
        return {"seen": rng.binomial(5, 0.3 * rng.binomial(1, 0.6, 40))}, {}

    def log_density(d, p):
        chance = expit(logit(p["mean_p"]) + p["sigma"] * p["eps"])
        there = np.log(p["omega"]) + stats.binom.logpmf(d["seen"], 5, chance)
        gone = np.where(d["seen"] == 0, np.log(1 - p["omega"]), -np.inf)
        return NORMAL(p["eps"]).sum() + np.logaddexp(there, gone).sum()


@case()
class capture_behaviour:
    def simulate(rng):
        y = rng.binomial(1, 0.3, (40, 5)) * rng.binomial(1, 0.6, (40, 1))
        return {"y": y}, {}

    def log_density(d, p):
        out = 0.0
        for row in d["y"]:
            caught, there = False, np.log(p["omega"])
            for seen in row:
                chance = p["c"] if caught else p["p"]
                there += np.log(chance if seen else 1 - chance)
                caught = caught or seen == 1
            out += there if caught else np.logaddexp(there, np.log(1 - p["omega"]))
        return out


@case()
class survey:
    def simulate(rng):
        return {"k": rng.binomial(30, 0.6, 5)}, {}

    def log_density(d, p):
        return logsumexp([stats.binom.logpmf(d["k"], n, p["theta"]).sum() for n in range(1, 61)])


@case()
class normal_mixture_k:
    def simulate(rng):
        kind = rng.choice(3, 150, p=[0.2, 0.3, 0.5])
        return {"y": rng.normal(np.array([-4, 0, 5])[kind], np.array([1, 0.5, 1.5])[kind])}, {}

    def log_density(d, p):
        parts = np.log(p["theta"]) + NORMAL(d["y"][:, None], p["mu"], p["sigma"])
        out = np.log(p["theta"]).sum() + NORMAL(p["mu"], 0, 10).sum()
        return out + logsumexp(parts, axis=1).sum()


@case()
class bym2:
    def simulate(rng):
        first, second = np.arange(1, 15), np.arange(2, 16)
        first, second = np.append(first, [1, 3, 7]), np.append(second, [15, 9, 12])
        counts, expected = rng.poisson(20, 15), rng.uniform(10, 30, 15)
        return {"node1": first, "node2": second, "y": counts, "E": expected, "scaling": 0.7}, {}

    def log_density(d, p):
        out = NORMAL(p["beta0"]) + NORMAL(p["sigma"]) + BETA(p["rho"], 0.5, 0.5) + NORMAL(p["theta"]).sum()
        out -= 0.5 * np.sum((p["phi"][d["node1"] - 1] - p["phi"][d["node2"] - 1]) ** 2)
        out += NORMAL(p["phi"].sum(), 0, 0.001 * 15)
        effect = np.sqrt(1 - p["rho"]) * p["theta"] + np.sqrt(p["rho"] / 0.7) * p["phi"]
        return out + POISSON(d["y"], d["E"] * np.exp(p["beta0"] + p["sigma"] * effect)).sum()


# ---------------------------------------------------------------------------- series and processes


@case(recovered=True)
class arma11:
    def simulate(rng):
        y, noise = np.zeros(250), rng.normal(0, 0.5, 250)
        for t in range(250):
            y[t] = 1.0 + 0.6 * (y[t - 1] if t else 1.0) + noise[t] + (0.4 * noise[t - 1] if t else 0.0)
        return {"y": y}, {"mu": 1.0, "phi": 0.6, "theta": 0.4, "sigma": 0.5}

    def log_density(d, p):
        out = NORMAL(p["mu"], 0, 10) + NORMAL(p["phi"], 0, 2) + NORMAL(p["theta"], 0, 2)
        out += stats.cauchy.logpdf(p["sigma"], 0, 2.5)
        before, error = p["mu"], 0.0
        for value in d["y"]:
            mean = p["mu"] + p["phi"] * before + p["theta"] * error
            out += NORMAL(value, mean, p["sigma"])
            before, error = value, value - mean
        return out


@case()
class stochastic_volatility:
    def simulate(rng):
        return {"y": rng.normal(size=40)}, {}

    def log_density(d, p):
        h = np.zeros(40)
        for t in range(40):
            mean = p["mu"] + (p["phi"] * (h[t - 1] - p["mu"]) if t else 0)
            h[t] = mean + p["sigma"] * p["z"][t] / (1 if t else np.sqrt(1 - p["phi"] ** 2))
        out = stats.cauchy.logpdf(p["sigma"], 0, 5) + stats.cauchy.logpdf(p["mu"], 0, 10) + NORMAL(p["z"]).sum()
        return out + NORMAL(d["y"], 0, np.exp(h / 2)).sum()


@case()
class stochastic_volatility_centred:
    def simulate(rng):
        return {"y": rng.normal(size=40)}, {}

    def log_density(d, p):
        h, mu, phi = p["h"], p["mu"], p["phi"]
        out = stats.cauchy.logpdf(p["sigma"], 0, 5) + stats.cauchy.logpdf(mu, 0, 10)
        out += NORMAL(h[0], mu, p["sigma"] / np.sqrt(1 - phi**2))
        out += NORMAL(h[1:], mu + phi * (h[:-1] - mu), p["sigma"]).sum()
        return out + NORMAL(d["y"], 0, np.exp(h / 2)).sum()


@case()
class seasonal_level:
    def simulate(rng):
        return {"y": rng.normal(size=24)}, {}

    def log_density(d, p):
        level, season = np.append(p["level0"], p["level"]), np.append(p["season0"][::-1], p["season"])
        out = stats.expon.logpdf(p["sigma"]).sum() + NORMAL(p["season0"], 0, 10).sum()
        out += NORMAL(np.diff(level), 0, p["sigma"][0]).sum()
        out += sum(NORMAL(season[t : t + 4].sum(), 0, p["sigma"][1]) for t in range(24))
        return out + NORMAL(d["y"], p["level"] + p["season"], p["sigma"][2]).sum()


@case()
class dogs:
    def simulate(rng):
        return {"y": rng.integers(0, 2, (10, 12))}, {}

    def log_density(d, p):
        out = NORMAL(p["beta"], 0, 100).sum()
        for row in d["y"]:
            avoided = shocked = 0
            for value in row:
                chance = expit(p["beta"] @ [1, avoided, shocked])
                out += np.log(chance if value else 1 - chance)
                avoided, shocked = avoided + 1 - value, shocked + value
        return out


@case()
class gp_pois_regr:
    def simulate(rng):
        return {"x": np.arange(-10.0, 11, 2), "k": rng.poisson(10, 11)}, {}

    def log_density(d, p):
        gap = d["x"][:, None] - d["x"]
        cov = p["alpha"] ** 2 * np.exp(-(gap**2) / (2 * p["rho"] ** 2)) + 1e-10 * np.eye(11)
        out = GAMMA(p["rho"], 25, scale=1 / 4) + NORMAL(p["alpha"], 0, 2) + NORMAL(p["z"]).sum()
        return out + POISSON(d["k"], np.exp(np.linalg.cholesky(cov) @ p["z"])).sum()


@case()
class accel_gp:
    def simulate(rng):
        return {
            "Xgp": rng.normal(size=(30, 6)),
            "slambda": np.linspace(0.5, 3, 6),
            "Xgp_sigma": rng.normal(size=(30, 4)),
            "slambda_sigma": np.linspace(0.5, 2, 4),
            "Y": rng.normal(-13, 20, 30),
        }, {}

    def log_density(d, p):
        out = stats.t.logpdf(p["Intercept"], 3, -13, 36) + stats.t.logpdf(p["Intercept_sigma"], 3, 0, 10)
        fields = []
        for suffix in ("", "_sigma"):
            sd, scale, z = p[f"sdgp{suffix}"], p[f"lscale{suffix}"], p[f"zgp{suffix}"]
            out += stats.t.logpdf(sd, 3, 0, 36) + stats.invgamma.logpdf(scale, 1.124909, scale=0.0177)
            out += NORMAL(z).sum()
            power = sd**2 * np.sqrt(2 * np.pi) * scale * np.exp(-0.5 * (scale * d[f"slambda{suffix}"]) ** 2)
            fields.append(d[f"Xgp{suffix}"] @ (np.sqrt(power) * z))
        return out + NORMAL(d["Y"], p["Intercept"] + fields[0], np.exp(p["Intercept_sigma"] + fields[1])).sum()


# ---------------------------------------------------------------------------------------- tests


def test_every_model_has_a_case():
    assert set(CASES) == set(NAMES)


@pytest.mark.slow(why="conformance")
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("name", NAMES)
def test_log_density_equals_the_formula(name):
    from pytensor.compile.mode import Mode

    rng = start(name)
    data, _ = CASES[name].simulate(rng)
    model = bl.to_pymc(bl.load(HERE / f"{name}.yaml"), data)
    slow = Mode("py", "fast_compile")
    density = model.compile_logp(jacobian=False, mode=slow)
    inside = model.compile_fn(model.unobserved_value_vars, mode=slow, point_fn=True)
    names = [variable.name for variable in model.unobserved_value_vars]
    first = model.initial_point()
    assert np.isfinite(density(first))
    points = [{k: v + scale * rng.normal(size=np.shape(v)) for k, v in first.items()} for scale in (0.02, 0.3, 0.6)]
    ours = np.array([float(density(point)) for point in points])
    theirs = np.array([CASES[name].log_density(data, dict(zip(names, inside(point), strict=True))) for point in points])
    assert np.all(np.isfinite(theirs))
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-8, atol=1e-7)


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", [name for name in NAMES if name in CASES and CASES[name].recovered])
def test_finds_the_planted_values(name):
    data, planted = CASES[name].simulate(start(name))
    fit = bl.fit(HERE / f"{name}.yaml", data, seed=5, progress=False, runs=None)
    assert fit.verdict.status != "fail", str(fit.verdict)
    posterior = fit.posterior.to_dataset()
    for word, value in planted.items():
        draws = posterior[word].to_numpy()
        centre, deviation = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        assert np.all(np.abs(centre - value) < 4 * deviation), word
