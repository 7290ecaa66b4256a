"""Draws the pictures of the README and of the pages on families and results: about a minute.

Run from the folder of the project: ``python docs/pictures/pages.py``, or with the names of some of the functions.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

import bayeslab as bl
from bayeslab.plots.figure import ACCENT, BAND, COLOURS, MUTED, OTHER, figure, grid, plain

HERE, MODELS = Path(__file__).parent, Path("models")


def fit_model(model: str, **options: Any) -> bl.Fit:
    return bl.fit(MODELS / f"{model}.yaml", runs=None, progress=False, **options)


def save(drawn: Any, name: str, dpi: int = 110) -> None:
    """A PNG of 128 colours, which is a third of the size."""
    page = BytesIO()
    drawn.savefig(page, format="png", dpi=dpi, metadata={"Software": None})
    image = Image.open(page).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(HERE / f"{name}.png", optimize=True)


def draws(fit: bl.Fit, name: str) -> np.ndarray:
    """Posterior draws, chains joined, the draw first."""
    return np.asarray(fit.posterior[name].stack(sample=("chain", "draw")).transpose("sample", ...))


def radon() -> None:
    """County levels over soil uranium, with the line that they are pooled towards."""
    fit = fit_model("radon")
    homes, counties = (pd.read_csv(MODELS / f"data/{name}.csv") for name in ("radon", "radon_counties"))
    counties = counties.set_index("county").loc[fit.posterior["county"].values.astype(str)]
    uranium = counties["log_uranium"].to_numpy()
    n_homes = homes["county"].value_counts().reindex(counties.index).to_numpy()
    drawn, axes = figure(8.2, 4.2)
    x = np.linspace(uranium.min() - 0.05, uranium.max() + 0.05, 60)
    line = draws(fit, "base")[:, None] + draws(fit, "per_uranium")[:, None] * x
    axes.fill_between(x, *np.quantile(line, [0.055, 0.945], axis=0), color=BAND, linewidth=0)
    axes.plot(x, line.mean(axis=0), color=ACCENT, linewidth=1.6, label="what uranium predicts, with its 89 % interval")
    level = draws(fit, "a")
    axes.vlines(uranium, *np.quantile(level, [0.055, 0.945], axis=0), color=MUTED, linewidth=0.9, alpha=0.8)
    places = uranium, level.mean(axis=0)
    label = "counties, with 89 % intervals; larger: more homes"
    axes.scatter(*places, s=6 + 1.2 * n_homes, color=OTHER, alpha=0.85, linewidths=0, zorder=3, label=label)
    axes.set(xlabel="log uranium in the soil of the county", ylabel="log radon in its basements")
    for handle in axes.legend(frameon=False, loc="upper left").legend_handles[1:]:
        handle.set_sizes([30])
    plain(axes)
    save(drawn, "radon")


def absences() -> None:
    """Days away from school, beside replications from the fit."""
    save(fit_model("absences").plot("ppc"), "absences")


def trees() -> None:
    """Predictions of a regression, back on the scale of the response."""
    fit = fit_model("trees")
    table = pd.read_csv(MODELS / "data/trees.csv")
    girth = np.linspace(8, 22, 15)
    new = np.exp(fit.predict(pd.DataFrame({"girth": girth, "height": 76.0})))
    drawn, axes = figure(7.0, 3.8)
    axes.fill_between(girth, new["eti89_lb"], new["eti89_ub"], color=BAND, linewidth=0, label="89 % of new trees")
    axes.plot(girth, new["mean"], color=ACCENT, linewidth=1.6, label="prediction for a height of 76 feet")
    axes.plot(table["girth"], table["volume"], "o", color=MUTED, markersize=4, label="31 trees of 63 to 87 feet")
    axes.set(xlabel="girth (inches)", ylabel="volume (cubic feet)", ylim=(0, None))
    axes.legend(frameon=False, loc="upper left")
    plain(axes)
    save(drawn, "trees")


def braking() -> None:
    """Predictions with a sigma that grows with the speed, and with one sigma for all speeds."""
    table = pd.read_csv(MODELS / "data/braking.csv")
    speed = np.linspace(3, 26, 47)
    alike = bl.Model(data={"rows": "car"}, model=bl.Regression(formula="distance ~ 0 + speed + I(speed ** 2)"), seed=1)
    fits = fit_model("braking"), bl.fit(alike, table, runs=None, progress=False)
    drawn, axes = figure(7.0, 3.8)
    for fit, color, label in zip(fits, (ACCENT, MUTED), ("sigma by speed", "one sigma for all"), strict=True):
        new = fit.predict(pd.DataFrame({"speed": speed}))
        if color == ACCENT:
            axes.fill_between(speed, new["eti89_lb"], new["eti89_ub"], color=BAND, linewidth=0)
            axes.plot(speed, new["mean"], color=ACCENT, linewidth=1.6, label=label)
        else:
            axes.plot(speed, new[["eti89_lb", "eti89_ub"]], "--", color=color, linewidth=1.0, label=[label, None])
    axes.plot(table["speed"], table["distance"], "o", color=MUTED, markersize=4, label="50 cars")
    axes.axhline(0, color=MUTED, linewidth=0.5)
    axes.set(xlabel="speed (miles an hour)", ylabel="braking distance (feet)")
    axes.legend(frameon=False, loc="upper left")
    plain(axes)
    save(drawn, "braking")


def geyser_clusters() -> None:
    save(fit_model("geyser_clusters", method="em").plot("components"), "geyser_clusters")


def galaxies() -> None:
    fit = fit_model("galaxies")
    for what in ("density", "number"):
        save(fit.plot(what), f"galaxies_{what}")


def coal_regimes() -> None:
    save(fit_model("coal_regimes", method="gibbs").plot("path"), "coal_regimes")


def meter() -> None:
    save(fit_model("meter", method="em").plot("path"), "meter")


def co2() -> None:
    save(fit_model("co2", restarts=1).plot("components"), "co2")


def nile_process() -> None:
    process = {"family": "gaussian_process", "target": "flow", "kernel": "Matern32(year)"}
    model = bl.Model(data={"rows": "measurement"}, model=process | {"approximation": "state_space"}, seed=1)
    fit = bl.fit(model, MODELS / "data/nile.csv", method="map", runs=None, progress=False)
    save(fit.plot("function"), "nile_process")


def asia() -> None:
    answer = bl.network(MODELS / "asia.yaml").query({"dyspnoea": "yes", "visit_to_asia": "yes"})
    (HERE / "asia.svg").write_text(answer.svg() + "\n")


def sachs() -> None:
    save(fit_model("sachs").plot("edges"), "sachs_edges")


def asia_structure() -> None:
    save(fit_model("asia_structure").structures.plot("consensus"), "asia_consensus", dpi=130)


def notes() -> None:
    save(fit_model("notes").plot("words"), "notes", dpi=105)


def shapes() -> None:
    save(fit_model("shapes").plot_features("images", shape=(6, 6)), "shapes")


def crime_factors() -> None:
    save(fit_model("crime_factors", method="em").plot("loadings"), "crime_factors")


def play_tennis_rule() -> None:
    save(fit_model("play_tennis_rule").plot("regions", columns=["outlook", "humidity"]), "play_tennis_rule")


def birth_weight_boost() -> None:
    save(fit_model("birth_weight_boost").plot("staged"), "birth_weight_staged")


def chains() -> None:
    """The log density of a model by draw, from chains that are too short and from chains that agree."""
    drawn, panels = grid(2, 9.0, 3.4, columns=2)
    for axes, options in zip(panels, ({"draws": 100, "tune": 20}, {}), strict=True):
        fit = fit_model("notes", **options)
        values = fit.posterior["log_joint"].transpose("chain", "draw").values
        step = max(1, values.shape[1] // 300)
        for number, chain in enumerate(values):
            at = np.arange(0, len(chain), step)
            axes.plot(at, chain[at], color=COLOURS[number], linewidth=0.8, alpha=0.8, label=f"chain {number}")
        r_hat = fit.summary(["log_joint"])["r_hat"].iloc[0]
        axes.set_title(f"{len(chain):,} draws a chain: R-hat {r_hat:.3f}, {fit.verdict.status}", fontsize=10)
        axes.set_xlabel("draw")
        plain(axes)
    panels[1].sharey(panels[0])
    panels[0].set_ylabel("log_joint")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    save(drawn, "chains")


def eight_schools(theta: str, *, centred: bool) -> bl.Fit:
    """Eight schools as a graph; the effects are sampled (centred) or computed from standard normals."""
    nodes = {"mu": "Normal(0, 5)", "tau": "HalfCauchy(5)"}
    nodes |= {} if centred else {"z[school]": "Normal(0, 1)"}
    nodes |= {"theta[school]": theta, "effect[school]": "Normal(theta, se)"}
    table = {"table": "data/eight_schools.csv", "rows": "school"}
    model = bl.Model(name="schools", data=table, model=bl.Graph(nodes=nodes), seed=1)
    return bl.fit(model, MODELS / "data/eight_schools.csv", method="nuts", runs=None, progress=False)


def funnel() -> None:
    """The neck of the funnel, by the form of the model."""
    drawn, panels = grid(2, 9.0, 3.8, columns=2)
    forms = {"centred": ("Normal(mu, tau)", True), "non-centred": ("mu + tau * z", False)}
    for axes, (title, (theta, centred)) in zip(panels, forms.items(), strict=True):
        fit = eight_schools(theta, centred=centred)
        x, y = fit.posterior["theta"].isel(school=0).values.ravel(), np.log(fit.posterior["tau"].values.ravel())
        axes.scatter(x, y, s=3, color=ACCENT, alpha=0.3, linewidths=0, label="draws")
        away = fit.data_tree["sample_stats"]["diverging"].values.ravel()
        axes.scatter(x[away], y[away], s=16, color=OTHER, linewidths=0, label="divergences")
        axes.set_title(f"{title}: {fit.verdict.status}", fontsize=10)
        axes.set(xlabel="theta of school A", xlim=(-20, 40), ylim=(-7, 4.5))
        plain(axes)
    panels[0].set_ylabel("log tau")
    for handle in panels[0].legend(frameon=False, fontsize=8, loc="lower right").legend_handles:
        handle.set_sizes([20])
        handle.set_alpha(1)
    save(drawn, "funnel")


def switching() -> None:
    """Two means by chain, without and with an order."""
    drawn, panels = grid(2, 9.0, 3.6, columns=2)
    for axes, (title, prior) in zip(
        panels, {"no order": "Normal(3.5, 2)", "Ordered": "Ordered(Normal(3.5, 2))"}.items(), strict=True
    ):
        nodes = {"share[kind]": "Dirichlet(1)", "mu[kind]": prior, "sigma": "HalfNormal(1)"}
        nodes |= {"z[eruption]": "Categorical(share)", "eruptions[eruption]": "Normal(mu[z], sigma)"}
        table = {"table": "data/faithful.csv", "rows": "eruption"}
        model = bl.Model(name="kinds", data=table, dims={"kind": 2}, model=bl.Graph(nodes=nodes), seed=1)
        fit = bl.fit(model, MODELS / "data/faithful.csv", runs=None, progress=False)
        first = fit.posterior["mu"].isel(kind=0).transpose("chain", "draw").values
        for number, chain in enumerate(first):
            at = np.arange(0, len(chain), 5)
            axes.plot(at, chain[at], color=COLOURS[number], linewidth=0.8, label=f"chain {number}")
        axes.set_title(f"{title}: {fit.verdict.status}", fontsize=10)
        axes.set(xlabel="draw", ylim=(1.5, 5))
        plain(axes)
    panels[0].set_ylabel("mean of the first kind, minutes")
    panels[1].legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    save(drawn, "switching")


def effects() -> None:
    save(fit_model("birth_weight").plot_effects("weight", by="smoker"), "effects")


PICTURES = (
    *(
        radon,
        absences,
        trees,
        braking,
        geyser_clusters,
        galaxies,
        coal_regimes,
        meter,
        co2,
        nile_process,
        asia,
        asia_structure,
        sachs,
    ),
    *(notes, shapes, crime_factors, play_tennis_rule, birth_weight_boost, chains, funnel, switching, effects),
)

if __name__ == "__main__":
    for draw in PICTURES:
        if not sys.argv[1:] or draw.__name__ in sys.argv[1:]:
            draw()
            print(draw.__name__)
