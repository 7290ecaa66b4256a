"""Regressions with special terms of an exam that brms and Stan answered: log densities at its points, and posteriors.

Smooths of mgcv have the same functions in another scale, which has no meaning there: its basis depends on the signs of a
decomposition. The straight part is measured here in the unit of the predictor, and the variance of the bending part is
that of the curve, averaged over the rows. The two constants below convert them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.conformance.references import SHARED, require
from tests.densities import value_at

FOLDER = SHARED / "conformance" / "brms"


def known(name: str, file: str) -> Any:
    require(FOLDER, "references of brms")
    return json.loads((FOLDER / name / file).read_text())


def table(name: str, file: str = "data.csv") -> pd.DataFrame:
    require(FOLDER, "references of brms")
    return pd.read_csv(FOLDER / name / file)


def close(draws: dict[str, np.ndarray], reference: dict[str, dict[str, float]]) -> None:
    """Means within 4 combined Monte Carlo standard errors, sds within 4 errors and 2 per cent; draws (chain, draw)."""
    import arviz_stats

    for word, values in draws.items():
        numbers = reference[word]
        mcse, mcse_sd = (float(arviz_stats.mcse(values, method=method)) for method in ("mean", "sd"))
        assert abs(values.mean() - numbers["mean"]) < 4 * np.hypot(mcse, numbers["mcse_mean"]), word
        error = 4 * np.hypot(mcse_sd, numbers["mcse_sd"]) + 0.02 * numbers["sd"]
        assert abs(values.std(ddof=1) - numbers["sd"]) < error, word


# ----------------------------------------------------------------------------------- smooths by a factor

LINE, WAVE = 4.5643365040, np.sqrt(12.3237123174)
TYPES = ["Quebec", "Mississippi"]


def co2() -> bl.Model:
    plants = [f"{a}{b}{k}" for a in "MQ" for b in "cn" for k in (1, 2, 3)]
    return bl.Model(
        data={"rows": "row"},
        dims={"Type": TYPES, "Treatment": ["nonchilled", "chilled"], "Plant": plants},
        model=bl.Regression(
            formula="uptake ~ Type * Treatment + s(lconc, k=5, by=Type) + (1 | Plant)",
            priors={
                "Intercept": "Normal(30, 10)", "b": "Normal(0, 10)", "s(lconc):Type": f"Normal(0, {10 / LINE!r})",
                "sd": "HalfNormal(5)", "sd_s_lconc_Type": f"HalfNormal({float(20 / WAVE)!r})", "sigma": "HalfNormal(5)",
            },
        ),
    )  # fmt: skip


def bases(rows: pd.DataFrame, file: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """The smooth's part of the design; mgcv's straight column and bending ones of each row's type."""
    basis = table("co2_smooth_by", file)
    first = (rows["Type"] == "Quebec").to_numpy()
    straight = np.where(first, basis["Xs_col1"], basis["Xs_col2"])
    one, two = (basis[[f"Zs_{k}_1_col{j}" for j in (1, 2, 3)]].to_numpy() for k in (1, 2))
    return Source(co2()).posterior(table("co2_smooth_by")).lowered, straight, np.where(first[:, None], one, two)


def test_the_functions_are_those_of_mgcv_also_at_new_rows():
    rows, new = table("co2_smooth_by"), table("co2_smooth_by", "newdata.csv")
    lowered, straight, bent = bases(rows, "basis.csv")
    (curve,) = lowered.design.curves
    mine = lowered.design.matrix[:, lowered.design.names.index("s(lconc):Type[Quebec]")]
    first = (rows["Type"] == "Quebec").to_numpy()
    sign = np.sign(mine[0] / straight[0])
    np.testing.assert_allclose(mine[first], sign * LINE * straight[first], rtol=1e-9)
    np.testing.assert_allclose(curve.waves @ curve.waves.T, WAVE**2 * bent @ bent.T, atol=1e-8)
    rotation = np.linalg.lstsq(curve.waves, WAVE * bent, rcond=None)[0]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-8)
    _, straight, bent = bases(new, "basis_new.csv")
    x = new["lconc"].to_numpy()
    np.testing.assert_allclose(curve.basis.line(x), sign * LINE * straight, rtol=1e-9)
    np.testing.assert_allclose(curve.basis.waves(x) @ rotation, WAVE * bent, atol=1e-9)


def test_log_densities_of_smooths_by_a_factor_are_those_of_the_exam():
    rows = table("co2_smooth_by")
    lowered, straight, bent = bases(rows, "basis.csv")
    posterior = Source(co2()).posterior(rows)
    (curve,) = lowered.design.curves
    first = int(np.flatnonzero(rows["Type"] == "Quebec")[0])
    sign = np.sign(curve.basis.line(rows["lconc"].to_numpy())[first] / straight[first])
    rotation = np.linalg.lstsq(curve.waves, WAVE * bent, rcond=None)[0]
    density = MachineDensity(posterior.machine_model(), lambda: None)
    plants = [str(label) for label in lowered.data.labels["Plant"]]
    for point in known("co2_smooth_by", "points.json")["points"]:
        values = point["values"]
        named = {"b[Type[Mississippi]]": "b_TypeMississippi", "b[Treatment[chilled]]": "b_Treatmentchilled"}
        named["b[Type[Mississippi]:Treatment[chilled]]"] = "b_TypeMississippi:Treatmentchilled"
        b = []
        for label in lowered.design.names:
            if label.startswith("s("):
                b.append(sign * values[f"bs_slconc:Type{label.split('[')[1][:-1]}_1"] / LINE)
            else:
                b.append(values[named[f"b[{label}]"]])
        sds = np.array([values[f"sds_slconcType{level}_1"] for level in TYPES]) / WAVE
        u = [[values[f"s_slconcType{level}_1[{j}]"] for j in (1, 2, 3)] for level in TYPES]
        raw = (np.array(u) / WAVE) @ rotation.T / sds[:, None]
        effects = np.array([values[f"r_Plant[{plant},Intercept]"] for plant in plants])
        sd = values["sd_Plant__Intercept"]
        draws = {
            "Intercept": np.array([values["b_Intercept"]]), "b": np.array([b]), "sigma": np.array([values["sigma"]]),
            "u_Plant": effects[None], "sd_Plant": np.array([sd]),
            "u_s_lconc_Type": (raw * sds[:, None])[None], "sd_s_lconc_Type": sds[None],
        }  # fmt: skip
        ((_, likelihoods),) = posterior.log_likelihoods(draws).values()
        assert likelihoods.sum() == pytest.approx(point["log_likelihood"], abs=1e-6)
        np.testing.assert_allclose(likelihoods[0, :5], point["log_likelihood_first_rows"], atol=1e-6)
        np.testing.assert_allclose(
            posterior.expectation().values(draws, "link")[0, :5], point["expected_first_rows"], atol=1e-6
        )
        at = {
            "Intercept": values["b_Intercept"], "b": np.array(b), "sd_Plant_log__": np.log(sd),
            "_raw_Plant": effects / sd, "sd_s_lconc_Type_log__": np.log(sds), "_raw_s_lconc_Type": raw,
            "sigma_log__": np.log(values["sigma"]),
        }  # fmt: skip
        whole, _ = density(density.flat({name: np.asarray(at[name]) for name in density.names}))
        normals = stats.norm.logpdf(raw).sum() + stats.norm.logpdf(effects / sd).sum()
        turned = np.log([sd, values["sigma"], *sds]).sum()
        units = 2 * np.log(LINE) + 2 * np.log(WAVE)
        prior = whole - normals - turned - units - point["log_likelihood"]
        assert prior == pytest.approx(point["log_prior"], abs=1e-6)


@pytest.mark.slow(why="conformance")
def test_nuts_has_the_exams_posterior_of_smooths_by_a_factor():
    rows, new = table("co2_smooth_by"), table("co2_smooth_by", "newdata.csv")
    fit = bl.fit(co2(), rows, "nuts", runs=None, seed=1, progress=False, target_accept=0.95)
    reference = known("co2_smooth_by", "reference.json")
    posterior = fit.posterior
    lowered, straight, _ = bases(rows, "basis.csv")
    sign = np.sign(lowered.design.curves[0].basis.line(rows["lconc"].to_numpy())[0] / straight[0])
    draws = {
        "b_Intercept": posterior["Intercept"], "b_TypeMississippi": posterior["b"].sel(predictor="Type[Mississippi]"),
        "b_Treatmentchilled": posterior["b"].sel(predictor="Treatment[chilled]"),
        "b_TypeMississippi:Treatmentchilled":
            posterior["b"].sel(predictor="Type[Mississippi]:Treatment[chilled]"),
        "sigma": posterior["sigma"], "sd_Plant__Intercept": posterior["sd_Plant"],
    }  # fmt: skip
    for level in TYPES:
        slope = posterior["b"].sel(predictor=f"s(lconc):Type[{level}]")
        draws[f"bs_slconc:Type{level}_1"] = sign * LINE * slope
        draws[f"sds_slconcType{level}_1"] = WAVE * posterior["sd_s_lconc_Type"].sel(Type=level)
    close({name: values.to_numpy() for name, values in draws.items()}, reference["parameters"])
    assert set(draws) == set(reference["parameters"])
    means = fit.predictions(new).draws
    chains = np.moveaxis(np.asarray(means).reshape(4, -1, len(new)), -1, 0)
    close({f"row{k + 1}": values for k, values in enumerate(chains)}, reference["predictions"])


# ------------------------------------------------------------------------------------ monotonic effects


def tooth() -> bl.Model:
    return bl.Model(
        data={"rows": "row"},
        dims={"supp": ["OJ", "VC"]},
        model=bl.Regression(
            formula={"mu": "len ~ mo(dose) * supp", "sigma": "~ supp"},
            priors={
                "Intercept": "Normal(15, 10)", "b": "Normal(0, 5)",
                "sigma": {"Intercept": "Normal(1, 1)", "b": "Normal(0, 0.5)"},
            },
        ),
    )  # fmt: skip


#: Coefficients in the exam: the node and the place in it.
TOOTH = {
    "b_Intercept": ("Intercept", ()), "bsp_modose": ("b", (0,)), "b_suppVC": ("b", (1,)),
    "bsp_modose:suppVC": ("b", (2,)), "b_sigma_Intercept": ("Intercept_sigma", ()), "b_sigma_suppVC": ("b_sigma", (0,)),
    "simo_modose1[1]": ("simplex_mo_dose", (0,)), "simo_modose1[2]": ("simplex_mo_dose", (1,)),
    "simo_modose:suppVC1[1]": ("simplex_mo_dose_supp_VC", (0,)),
    "simo_modose:suppVC1[2]": ("simplex_mo_dose_supp_VC", (1,)),
}  # fmt: skip


def test_log_densities_of_monotonic_effects_are_those_of_the_exam():
    posterior = Source(tooth()).posterior(table("toothgrowth_monotonic"))
    assert posterior.lowered.design.names == ["mo(dose)", "supp[VC]", "mo(dose):supp[VC]"]
    for point in known("toothgrowth_monotonic", "points.json")["points"]:
        draws: dict[str, np.ndarray] = {}
        for name, (node, place) in TOOTH.items():
            size = {"b": 3, "b_sigma": 1}.get(node, 2)
            draws.setdefault(node, np.zeros((1, size)) if place else np.zeros(1))[(0, *place)] = point["values"][name]
        ((_, likelihoods),) = posterior.log_likelihoods(draws).values()
        assert likelihoods.sum() == pytest.approx(point["log_likelihood"], abs=1e-6)
        np.testing.assert_allclose(likelihoods[0, :5], point["log_likelihood_first_rows"], atol=1e-6)
        expected = posterior.expectation().values(draws, "link")[0, :5]
        np.testing.assert_allclose(expected, point["expected_first_rows"], atol=1e-6)
        prior = stats.norm(15, 10).logpdf(draws["Intercept"]).sum() + stats.norm(0, 5).logpdf(draws["b"]).sum()
        prior += stats.norm(1, 1).logpdf(draws["Intercept_sigma"]).sum()
        prior += stats.norm(0, 0.5).logpdf(draws["b_sigma"]).sum()
        assert prior == pytest.approx(point["log_prior"], abs=1e-6)  # Dirichlet(1, 1) has the density 1


@pytest.mark.slow(why="conformance")
def test_nuts_has_the_exams_posterior_of_monotonic_effects():
    fit = bl.fit(tooth(), table("toothgrowth_monotonic"), "nuts", runs=None, seed=1, progress=False, target_accept=0.95)
    reference = known("toothgrowth_monotonic", "reference.json")
    draws = {name: fit.posterior[node].to_numpy()[(..., *place)] for name, (node, place) in TOOTH.items()}
    close(draws, reference["parameters"])
    assert set(draws) == set(reference["parameters"])
    new = table("toothgrowth_monotonic", "newdata.csv")
    chains = np.moveaxis(np.asarray(fit.predictions(new).draws).reshape(4, -1, len(new)), -1, 0)
    close({f"row{k + 1}": values for k, values in enumerate(chains)}, reference["predictions"])


# ---------------------------------------------------------------------- predictors measured with error


def measured() -> bl.Model:
    priors = {
        "Intercept": "Normal(0, 2)", "b": "Normal(0, 2)", "mean_me_xo": "Normal(0, 2)", "sd_me_xo": "HalfNormal(2)",
        "sigma": "HalfNormal(1)",
    }  # fmt: skip
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula="y ~ me(xo, xsd) + z1", priors=priors))


def test_log_densities_of_a_predictor_measured_with_error_are_those_of_the_exam():
    """The exam counts neither the density of true values nor that of measurements among the priors."""
    rows = table("sim_me")
    posterior = Source(measured()).posterior(rows)
    density = MachineDensity(posterior.machine_model(), lambda: None)
    x, error = rows["xo"].to_numpy(), rows["xsd"].to_numpy()
    for point in known("sim_me", "points.json")["points"]:
        values = point["values"]
        true = np.array([values[f"Xme_mexo[{k + 1}]"] for k in range(len(rows))])
        b = np.array([values["bsp_mexoxsd"], values["b_z1"]])
        mean, sd, sigma = (values[name] for name in ("meanme_mexo", "sdme_mexo", "sigma"))
        draws = {"Intercept": values["b_Intercept"], "b": b, "sigma": sigma, "true_me_xo": true}
        draws = {name: np.asarray(value)[None] for name, value in draws.items()}
        ((_, likelihoods),) = posterior.log_likelihoods(draws).values()
        assert likelihoods.sum() == pytest.approx(point["log_likelihood"], abs=1e-6)
        np.testing.assert_allclose(likelihoods[0, :5], point["log_likelihood_first_rows"], atol=1e-6)
        np.testing.assert_allclose(
            posterior.expectation().values(draws, "link")[0, :5], point["expected_first_rows"], atol=1e-6
        )
        spread = 1 / np.sqrt(1 / error**2 + 1 / sd**2)
        at = {
            "Intercept": values["b_Intercept"], "b": b, "sigma_log__": np.log(sigma), "mean_me_xo": mean,
            "sd_me_xo_log__": np.log(sd), "_raw_me_xo": (true - spread**2 * (x / error**2 + mean / sd**2)) / spread,
        }  # fmt: skip
        whole, _ = density(density.flat({name: np.asarray(at[name]) for name in density.names}))
        latent = stats.norm(mean, sd).logpdf(true) + stats.norm(true, error).logpdf(x) + np.log(spread)
        prior = whole - latent.sum() - np.log(sigma * sd) - point["log_likelihood"]
        assert prior == pytest.approx(point["log_prior"], abs=1e-6)


@pytest.mark.slow(why="conformance")
def test_nuts_has_the_exams_posterior_of_a_predictor_measured_with_error():
    rows = table("sim_me")
    fit = bl.fit(measured(), rows, "nuts", runs=None, seed=1, progress=False, target_accept=0.95, draws=3_000)
    reference, posterior = known("sim_me", "reference.json"), fit.posterior
    draws = {
        "b_Intercept": posterior["Intercept"], "bsp_mexoxsd": posterior["b"].sel(predictor="me(xo, xsd)"),
        "b_z1": posterior["b"].sel(predictor="z1"), "sigma": posterior["sigma"],
        "meanme_mexo": posterior["mean_me_xo"], "sdme_mexo": posterior["sd_me_xo"],
    }  # fmt: skip
    close({name: values.to_numpy() for name, values in draws.items()}, reference["parameters"])
    assert set(draws) == set(reference["parameters"])
    true = {f"Xme_mexo[{k}]": posterior["true_me_xo"].isel(row=k - 1).to_numpy() for k in (1, 41, 80, 120)}
    close(true, reference["latent"])
    new = pd.DataFrame({"xo": [-1.0, 1.0, 2.0], "xsd": 0.5, "z1": [0.0, 0.0, 1.0]})
    chains = np.moveaxis(np.asarray(fit.predictions(new).draws).reshape(4, -1, 3), -1, 0)
    close({f"mean_{k + 1}": values for k, values in enumerate(chains)}, reference["derived"])


# ----------------------------------------------------------------------------------- Gaussian processes


def discoveries() -> bl.Model:
    """The exam's lengths are shares of the range of 99 years; its process is not centred over the rows, and ours is."""
    priors = {"Intercept": "Normal(1, 1)", "sd_gp_year": "HalfNormal(1)", "length_gp_year": "InverseGamma(3, 29.7)"}
    spec = bl.Regression(formula="n ~ gp(year, k=20, c=1.5)", likelihood="poisson", priors=priors)
    return bl.Model(data={"rows": "row"}, model=spec)


def test_log_likelihoods_of_a_process_are_those_of_the_exam():
    posterior = Source(discoveries()).posterior(table("discoveries_gp"))
    basis = posterior.lowered.design.curves[0].basis
    assert basis.reach == pytest.approx(1.5 * 99)
    for point in known("discoveries_gp", "points.json")["points"]:
        values = point["values"]
        raw = np.array([values[f"zgp_gpyear[{k + 1}]"] for k in range(20)])
        length, sd = 99 * values["lscale_gpyear"], values["sdgp_gpyear"]
        u = sd * np.sqrt(np.sqrt(2 * np.pi) * length) * np.exp(-0.25 * (length * basis.frequencies) ** 2) * raw
        draws = {"Intercept": np.array([values["b_Intercept"] + basis.means @ u]), "_u_gp_year": u[None]}
        ((_, likelihoods),) = posterior.log_likelihoods(draws).values()
        assert likelihoods.sum() == pytest.approx(point["log_likelihood"], abs=1e-6)
        expected = posterior.expectation().values(draws, "response")[0, :5]
        np.testing.assert_allclose(expected, point["expected_first_rows"], atol=1e-6)


# ------------------------------------------------------------------------------------ several responses


def two() -> bl.Model:
    """A normal and a Poisson response whose group effects are correlated."""
    normal = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 2)", "sd_g": "HalfNormal(1)", "sigma": "Exponential(1)"}
    count = {"Intercept": "Normal(0, 1)", "b": "Normal(0, 1)", "sd_g": "HalfNormal(1)"}
    responses = {
        "y": {"formula": "y ~ x + (1 | p | g)", "priors": normal},
        "k": {"formula": "k ~ x + (1 | p | g)", "priors": count, "likelihood": "poisson"},
    }
    return bl.Model(data={"rows": "row"}, model=bl.Regressions(responses=responses, priors={"corr_g_p": 2}))


def test_log_densities_of_two_responses_are_those_of_the_exam():
    rows = table("sim_mv_mixed")
    density = MachineDensity(Source(two()).posterior(rows).machine_model(), lambda: None)
    groups = sorted(rows["g"].unique())
    for point in known("sim_mv_mixed", "points.json")["points"]:
        values = point["values"]
        sds = np.array([values[f"sd_g__{name}_Intercept"] for name in ("y", "k")])
        rho = values["cor_g__y_Intercept__k_Intercept"]
        lower = np.array([[1, 0], [rho, np.sqrt(1 - rho**2)]])
        effects = np.array([[values[f"r_g__{name}[{g},Intercept]"] for name in ("y", "k")] for g in groups])
        raw = np.linalg.solve(sds[:, None] * lower, effects.T).T
        at = {f"{name}_{word}": values[f"b_{name}_{label}"] for name in ("y", "k")
              for word, label in (("Intercept", "Intercept"), ("b", "x"))}  # fmt: skip
        at |= {"y_sd_g": sds[0], "k_sd_g": sds[1], "y_sigma": values["sigma_y"], "_raw_g_p": raw}
        whole = value_at(density, at | {"_chol_g_p": lower[np.tril_indices(2)]})
        # The lengths of the factor's rows are a device, with the density of LogNormal(0, 0.1) at 1.
        device = 2 * stats.lognorm(0.1).logpdf(1.0) + 0.5 * np.log1p(-(rho**2)) + stats.norm.logpdf(raw).sum()
        assert whole - device == pytest.approx(point["log_prior"] + point["log_likelihood"], abs=1e-6)


@pytest.mark.slow(why="conformance")
def test_nuts_has_the_exams_posterior_of_two_responses():
    fit = bl.fit(two(), table("sim_mv_mixed"), "nuts", runs=None, seed=1, progress=False, draws=2_000)
    reference, posterior = known("sim_mv_mixed", "reference.json"), fit.posterior
    draws = {"sigma_y": posterior["y_sigma"], "cor_g__y_Intercept__k_Intercept": posterior["corr_g_p"][..., 0, 1]}
    for name in ("y", "k"):
        draws |= {
            f"b_{name}_Intercept": posterior[f"{name}_Intercept"], f"b_{name}_x": posterior[f"{name}_b"][..., 0],
            f"sd_g__{name}_Intercept": posterior[f"{name}_sd_g"],
        }  # fmt: skip
    close({name: values.to_numpy() for name, values in draws.items()}, reference["parameters"])
    assert set(draws) == set(reference["parameters"])
    effects = {f"r_g__{name}[{g},Intercept]": posterior[f"{name}_u_g"].sel(g=g).to_numpy() for name, g in
               (("y", "g01"), ("y", "g40"), ("k", "g40"))}  # fmt: skip
    close(effects, reference["latent"])
    new = table("sim_mv_mixed", "newdata.csv")
    for name in ("y", "k"):
        means = np.asarray(fit.outcome(name).predictions(new).draws)
        chains = np.moveaxis(means.reshape(4, -1, len(new)), -1, 0)
        close({f"row{k + 1}:{name}": values for k, values in enumerate(chains)}, reference["predictions"])
    # Predictions are the same, with the noise of single responses.
    table_of = fit.predict(new).set_index(["node", "row"])
    for k in range(len(new)):
        for name in ("y", "k"):
            mean, row = reference["predictions"][f"row{k + 1}:{name}"]["mean"], table_of.loc[(name, k)]
            assert abs(row["mean"] - mean) < 5 * row["sd"] / np.sqrt(8_000)
