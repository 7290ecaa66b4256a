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
from bayeslab.plots.figure import ACCENT, BAND, MUTED, OTHER, figure, grid, plain
from bayeslab.plots.mixture import PALETTE

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


def geyser_clusters() -> None:
    save(fit_model("geyser_clusters", method="em").plot_clusters(), "geyser_clusters")


def galaxies() -> None:
    fit = fit_model("galaxies")
    for what in ("density", "number"):
        save(fit.plot_clusters(what), f"galaxies_{what}")


def coal_regimes() -> None:
    save(fit_model("coal_regimes", method="gibbs").plot_states(), "coal_regimes")


def meter() -> None:
    save(fit_model("meter", method="em").plot_states(), "meter")


def co2() -> None:
    save(fit_model("co2", restarts=1).process.plot("components"), "co2")


def nile_process() -> None:
    process = {"family": "gaussian_process", "target": "flow", "kernel": "Matern32(year)"}
    model = bl.Model(data={"rows": "measurement"}, model=process | {"approximation": "state_space"}, seed=1)
    fit = bl.fit(model, MODELS / "data/nile.csv", method="map", runs=None, progress=False)
    save(fit.process.plot(), "nile_process")


def asia() -> None:
    answer = bl.network(MODELS / "asia.yaml").query({"dyspnoea": "yes", "visit_to_asia": "yes"})
    (HERE / "asia.svg").write_text(answer.svg() + "\n")


def sachs() -> None:
    save(fit_model("sachs").structures.plot("edges"), "sachs_edges")


def asia_structure() -> None:
    save(fit_model("asia_structure").structures.plot("consensus"), "asia_consensus", dpi=130)


def notes() -> None:
    save(fit_model("notes").topics.plot("words"), "notes", dpi=105)


def shapes() -> None:
    save(fit_model("shapes").plot_features("images", shape=(6, 6)), "shapes")


def crime_factors() -> None:
    save(fit_model("crime_factors", method="em").plot_features(), "crime_factors")


def play_tennis_rule() -> None:
    save(fit_model("play_tennis_rule").learner.plot("regions", inputs=["outlook", "humidity"]), "play_tennis_rule")


def birth_weight_boost() -> None:
    save(fit_model("birth_weight_boost").learner.plot("staged"), "birth_weight_staged")


def chains() -> None:
    """The log density of a model by draw, from chains that are too short and from chains that agree."""
    drawn, panels = grid(2, 9.0, 3.4, columns=2)
    for axes, options in zip(panels, ({"draws": 100, "tune": 20}, {}), strict=True):
        fit = fit_model("notes", **options)
        values = fit.posterior["log_joint"].transpose("chain", "draw").values
        step = max(1, values.shape[1] // 300)
        for number, chain in enumerate(values):
            at = np.arange(0, len(chain), step)
            axes.plot(at, chain[at], color=PALETTE[number], linewidth=0.8, alpha=0.8, label=f"chain {number}")
        r_hat = fit.summary(["log_joint"])["r_hat"].iloc[0]
        axes.set_title(f"{len(chain):,} draws a chain: R-hat {r_hat:.3f}, {fit.verdict.status}", fontsize=10)
        axes.set_xlabel("draw")
        plain(axes)
    panels[1].sharey(panels[0])
    panels[0].set_ylabel("log_joint")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    save(drawn, "chains")


PICTURES = (
    *(radon, trees, geyser_clusters, galaxies, coal_regimes, meter, co2, nile_process, asia, asia_structure, sachs),
    *(notes, shapes, crime_factors, play_tennis_rule, birth_weight_boost, chains),
)

if __name__ == "__main__":
    for draw in PICTURES:
        if not sys.argv[1:] or draw.__name__ in sys.argv[1:]:
            draw()
            print(draw.__name__)
