"""Regressions of an exam that brms and Stan answered: log densities at its points, and posteriors by NUTS.

Of the 22 those are here whose formulas have no part that a regression lacks: autocorrelation,
unequal discrimination. Several responses, smooths, Gaussian processes, monotonic effects and measurement error are in
``test_brms_terms.py``.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayeslab as bl
from bayeslab import registry
from bayeslab.fitting import check
from bayeslab.results.predict import pointwise_graph
from tests.conformance.references import SHARED, require

FOLDER = SHARED / "conformance" / "brms"
FILES = Path(__file__).parent / "brms"
NAMES = sorted(path.stem for path in FILES.glob("*.yaml"))
COLOURS = ["Brown", "Blue", "Hazel", "Green"]


def test_every_model_file_of_the_exam_is_a_regression():
    assert [bl.load(FILES / f"{name}.yaml").model.family for name in NAMES] == ["regression"] * 9


def data(name: str) -> pd.DataFrame:
    """The exam's rows, as the model reads them."""
    require(FOLDER, "references of brms")
    out = pd.read_csv(FOLDER / name / "data.csv")
    if name == "kidney_weibull":
        return out.assign(status=np.where(out["censored"] == 1, "right", "none"))
    if name == "haireye_multinomial":
        return out.melt(["Hair", "Sex", "n"], COLOURS, var_name="colour", value_name="count")
    texts = [column for column in ("period", "Trt") if column in out]
    return out.assign(**{column: out[column].astype(str) for column in texts})


#: A further parameter with a formula: its name here, in the exam, and the sign of its coefficients.
FURTHER = {
    "mammals_lognormal": ("sigma", "sigma", 1),
    "epilepsy_hurdle": ("psi", "hu", -1),
    "sim_exgauss": ("nu", "beta", 1),
}
#: Parameters of a non-linear formula.
INNER = {"puromycin_mm": ("lVm", "lK")}


def known(name: str, file: str) -> Any:
    return json.loads((FOLDER / name / file).read_text())


def plain(label: str) -> str:
    """A column of the design as brms calls it: ``sex[female]`` is sexfemale."""
    return label.replace("[", "").replace("]", "")


def natural(name: str, values: dict[str, float], labels: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values of the graph's parameters at a point of the exam."""
    if name in INNER:
        out = {word: np.float64(values[word]) for word in ("sigma", "nu")}
        for word in INNER[name]:
            columns = [plain(str(label)) for label in labels[f"predictor_{word}"]]
            out[f"Intercept_{word}"] = np.float64(values[f"b_{word}_Intercept"])
            out[f"b_{word}"] = np.array([values[f"b_{word}_{column}"] for column in columns])
        return out
    columns = [plain(str(label)) for label in labels["predictor"]]
    if name == "haireye_multinomial":
        contrasts = COLOURS[1:]
        b = [[values[f"b_mu{colour}_{column}"] for colour in contrasts] for column in columns]
        return {"b": np.array(b), "Intercept": np.array([values[f"b_mu{c}_Intercept"] for c in contrasts])}
    out = {"b": np.array([values[f"b_{column}"] for column in columns]), "Intercept": np.float64(values["b_Intercept"])}
    out |= {word: np.float64(values[word]) for word in ("phi", "sigma", "nu") if word in values}
    if name == "kidney_weibull":
        out["alpha"] = np.float64(values["shape"])
        out["Intercept"] = values["b_Intercept"] - special.gammaln(1 + 1 / out["alpha"])
    if name in FURTHER:
        ours, theirs, sign = FURTHER[name]
        columns = [plain(str(label)) for label in labels[f"predictor_{ours}"]]
        out[f"Intercept_{ours}"] = np.float64(sign * values[f"b_{theirs}_Intercept"])
        out[f"b_{ours}"] = np.array([sign * values[f"b_{theirs}_{column}"] for column in columns])
    if name == "epilepsy_hurdle":
        out["alpha"] = np.float64(values["shape"])
    if name == "sim_exgauss":
        tail, more = np.exp(out["Intercept_nu"]), np.exp(out["Intercept_nu"] + out["b_nu"][0])
        out |= {"Intercept": out["Intercept"] - tail, "b": out["b"] - (more - tail)}
    for group in ("herd", "patient", "cell", "g"):
        if group in labels:
            effects = np.array([values[f"r_{group}[{label},Intercept]"] for label in labels[group]])
            out[f"sd_{group}"] = np.float64(values[f"sd_{group}__Intercept"])
            out[f"_raw_{group}"] = effects / out[f"sd_{group}"]
    if "id" in labels:
        first, second, rho = (values[w] for w in ("sd_id__Intercept", "sd_id__modedo", "cor_id__Intercept__modedo"))
        factor = np.array([[first, 0], [second * rho, second * np.sqrt(1 - rho**2)]])
        each = [[values[f"r_id[{label},{effect}]"] for effect in ("Intercept", "modedo")] for label in labels["id"]]
        out["_chol_id"] = factor[np.tril_indices(2)]
        out["_raw_id"] = np.linalg.solve(factor, np.array(each).T).T
    return out


def densities(model: bl.Model, rows: pd.DataFrame, name: str) -> list[dict[str, np.ndarray]]:
    """Log densities of every node of the graph at every point of the exam."""
    import pytensor
    import pytensor.tensor as pt

    bound = check(model, rows)
    family = registry.load("families", "regression")
    graph, labels = pointwise_graph(family.compile(model, bound)), family.compile(model, bound).bound_data().labels
    variables = graph.basic_RVs
    terms = graph.logp(vars=variables, sum=False, jacobian=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = pytensor.function(graph.value_vars, terms, mode="FAST_COMPILE", on_unused_input="ignore")
    out = []
    for point in known(name, "points.json")["points"]:
        at = natural(name, point["values"], labels)
        given = {}
        for rv in graph.free_RVs:
            value = next(at[key] for key in (rv.name, rv.name.removesuffix("_packed").lstrip("~")) if key in at)
            transform = graph.rvs_to_transforms[rv]
            moved = (
                value if transform is None else transform.forward(pt.as_tensor_variable(value), *rv.owner.inputs).eval()
            )
            given[graph.rvs_to_values[rv].name] = moved
        out.append({rv.name: term for rv, term in zip(variables, function(**given), strict=True)})
    return out


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_log_densities_are_those_of_the_exam(name):
    """Log likelihood and log prior at four points, the constants in."""
    rows, model = data(name), bl.load(FILES / f"{name}.yaml")
    outcome = model.outcomes(set(rows))[0]
    for at, point in zip(densities(model, rows, name), known(name, "points.json")["points"], strict=True):
        likelihood, values = at.pop(outcome), point["values"]
        if name == "haireye_multinomial":
            # Orders in which the same people may have been counted.
            counts = rows.groupby(["Hair", "Sex"])["count"]
            orders = special.gammaln(counts.sum() + 1).sum() - special.gammaln(rows["count"] + 1).sum()
            total = float(np.sum(rows["count"] * likelihood) + orders)
        else:
            total = float(np.sum(likelihood))
        assert total == pytest.approx(point["log_likelihood"], abs=1e-6)
        prior = sum(float(np.sum(term)) for node, term in at.items() if not node.startswith("_raw"))
        if name == "verbagg_crossed":
            # From the Cholesky factor to sds and correlation.
            second, rho = values["sd_id__modedo"], values["cor_id__Intercept__modedo"]
            prior += np.log(second) - 0.5 * np.log1p(-(rho**2))
        assert prior == pytest.approx(point["log_prior"], abs=1e-6)


def ours(fit: bl.Fit, name: str) -> dict[str, np.ndarray]:
    """Draws (chain, draw) by brms's names."""
    posterior = fit.posterior
    out: dict[str, np.ndarray] = {}
    if name in INNER:
        for word in INNER[name]:
            out[f"b_{word}_Intercept"] = posterior[f"Intercept_{word}"].to_numpy()
            for label in posterior[f"b_{word}"].coords[f"predictor_{word}"].to_numpy():
                values = posterior[f"b_{word}"].sel({f"predictor_{word}": label})
                out[f"b_{word}_{plain(label)}"] = values.to_numpy()
        return out | {word: posterior[word].to_numpy() for word in ("sigma", "nu")}
    for label in posterior["b"].coords["predictor"].to_numpy():
        values = posterior["b"].sel(predictor=label)
        if name == "haireye_multinomial":
            for colour in COLOURS[1:]:
                out[f"b_mu{colour}_{plain(label)}"] = values.sel(response_contrast=colour).to_numpy()
        else:
            out[f"b_{plain(label)}"] = values.to_numpy()
    if name == "haireye_multinomial":
        for colour in COLOURS[1:]:
            out[f"b_mu{colour}_Intercept"] = posterior["Intercept"].sel(response_contrast=colour).to_numpy()
        return out
    out["b_Intercept"] = posterior["Intercept"].to_numpy()
    out |= {word: posterior[word].to_numpy() for word in ("phi", "sigma", "nu") if word in posterior}
    if name == "kidney_weibull":
        out["shape"] = posterior["alpha"].to_numpy()
        out["b_Intercept"] = out["b_Intercept"] + special.gammaln(1 + 1 / out["shape"])
    if name in FURTHER:
        word, theirs, sign = FURTHER[name]
        out[f"b_{theirs}_Intercept"] = sign * posterior[f"Intercept_{word}"].to_numpy()
        for label in posterior[f"b_{word}"].coords[f"predictor_{word}"].to_numpy():
            out[f"b_{theirs}_{plain(label)}"] = (
                sign * posterior[f"b_{word}"].sel({f"predictor_{word}": label}).to_numpy()
            )
    if name == "epilepsy_hurdle":
        out["shape"] = posterior["alpha"].to_numpy()
    if name == "sim_exgauss":
        tail, more = (np.exp(out["b_beta_Intercept"] + k * out["b_beta_cond"]) for k in (0, 1))
        out["b_Intercept"] = out["b_Intercept"] + tail
        out["b_cond"] = out["b_cond"] + more - tail
    for group in ("herd", "patient", "cell", "g"):
        if f"sd_{group}" in posterior:
            out[f"sd_{group}__Intercept"] = posterior[f"sd_{group}"].to_numpy()
    if "sd_id" in posterior:
        sds, corr = posterior["sd_id"].to_numpy(), posterior["corr_id"].to_numpy()
        out |= {"sd_id__Intercept": sds[..., 0], "sd_id__modedo": sds[..., 1]}
        out["cor_id__Intercept__modedo"] = corr[..., 0, 1]
    return out


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", NAMES)
def test_nuts_agrees_with_the_exam(name):
    """Means within 4 combined Monte Carlo standard errors, sds within 4 errors and 2 per cent."""
    import arviz_stats

    fit = bl.fit(FILES / f"{name}.yaml", data(name), "nuts", runs=None, seed=1, progress=False, chains=2)
    draws, reference = ours(fit, name), known(name, "reference.json")
    assert set(draws) == set(reference["parameters"])
    for word, numbers in reference["parameters"].items():
        values = draws[word]
        mcse, mcse_sd = (float(arviz_stats.mcse(values, method=method)) for method in ("mean", "sd"))
        assert abs(values.mean() - numbers["mean"]) < 4 * np.hypot(mcse, numbers["mcse_mean"]), word
        error = 4 * np.hypot(mcse_sd, numbers["mcse_sd"]) + 0.02 * numbers["sd"]
        assert abs(values.std(ddof=1) - numbers["sd"]) < error, word
