"""Draws the pictures of the page "Composing models" from fits of the models that it shows: about two minutes.

Run from the folder of the project: ``python docs/pictures/composing.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayeslab as bl
from bayeslab.plots.figure import ACCENT, BAND, MUTED, grid

HERE, MODELS = Path(__file__).parent, Path("models")


def save(figure: Any, name: str) -> None:
    figure.savefig(HERE / f"{name}.png", dpi=130, metadata={"Software": None})


def draws(fit: bl.Fit, name: str) -> np.ndarray:
    """Posterior draws, chains joined, the draw first."""
    values = fit.posterior[name].stack(sample=("chain", "draw")).transpose("sample", ...)
    return np.asarray(values)


def band(axes: Any, x: np.ndarray, values: np.ndarray, colour: str = ACCENT, shade: str = BAND) -> None:
    """The posterior mean and an 89 % interval."""
    low, high = np.quantile(values, [0.055, 0.945], axis=0)
    axes.fill_between(x, low, high, color=shade, linewidth=0, label="89 % interval")
    axes.plot(x, values.mean(axis=0), color=colour, linewidth=1.6, label="posterior mean")


def clean(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def coal() -> None:
    """Disasters, and their rate by regimes and by regimes beside a trend."""
    table = pd.read_csv(MODELS / "data/coal.csv")
    year, count = table["year"].to_numpy(), table["disasters"].to_numpy()
    figure, panels = grid(2, 8.0, 5.6)
    files = {"two regimes": HERE / "coal_written.yaml", "two regimes and a trend": MODELS / "coal_trend.yaml"}
    for axes, (title, file) in zip(panels, files.items(), strict=True):
        fit = bl.fit(file, progress=False)
        codes = {state: code for code, state in enumerate(fit.posterior["state"].values.tolist())}
        z = draws(fit, "z")
        if z.dtype.kind not in "iuf":
            z = np.vectorize(codes.__getitem__)(z)
        rate = np.take_along_axis(draws(fit, "rate"), z.astype(int), axis=1)
        if "b" in fit.posterior:
            rate = rate * np.exp(draws(fit, "b")[:, None] * (np.arange(len(year)) - 55) / 10)
        axes.vlines(year, 0, count, color=MUTED, linewidth=1.2, alpha=0.6, label="disasters")
        band(axes, year, rate)
        axes.set(title=title, ylabel="disasters a year", ylim=(0, 6.4))
        clean(axes)
    panels[0].legend(frameon=False, ncols=3, loc="upper right")
    panels[1].set_xlabel("year")
    save(figure, "coal_rates")


def airline() -> None:
    """Level and season, integrated out while sampling and drawn afterwards."""
    fit = bl.fit(MODELS / "airline.yaml", progress=False)
    month = np.arange(144) / 12 + 1949
    table = pd.read_csv(MODELS / "data/airline.csv")
    figure, panels = grid(2, 8.0, 5.2)
    panels[0].plot(month, np.log(table["passengers"]), ".", color=MUTED, markersize=3, label="data")
    for axes, name in zip(panels, ("trend", "season"), strict=True):
        band(axes, month, draws(fit, name))
        axes.set_title(name)
        clean(axes)
    panels[0].set_ylabel("log passengers")
    panels[1].set(ylabel="log passengers", xlabel="year")
    panels[0].legend(frameon=False, loc="upper left")
    save(figure, "airline")


def births() -> None:
    """The season as a function of the day."""
    fit = bl.fit(MODELS / "births.yaml", progress=False)
    season = 100 * np.expm1(draws(fit, "season"))
    figure, (axes,) = grid(1, 8.0, 3.0)
    band(axes, np.arange(season.shape[1]), season)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    first = np.cumsum([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30])
    axes.set_xticks(first, ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
    axes.set(ylabel="births, % above the level", title="season, beside weekdays and holidays")
    axes.legend(frameon=False, loc="upper left")
    clean(axes)
    save(figure, "births")


def radon_map() -> None:
    """The function of the place: posterior mean and sd at each county."""
    fit = bl.fit(MODELS / "radon_map.yaml", progress=False)
    counties = pd.read_csv(MODELS / "data/radon_places.csv")
    soil = draws(fit, "soil")
    order = [list(fit.posterior["county"].values).index(c) for c in counties["county"]]
    figure, panels = grid(2, 8.4, 4.2, columns=2)
    maps = (("posterior mean", soil.mean(axis=0), "RdBu_r"), ("posterior sd", soil.std(axis=0), "viridis"))
    for axes, (title, values, colours) in zip(panels, maps, strict=True):
        shown = values[order]
        limit = float(abs(shown).max())
        span = {"vmin": -limit, "vmax": limit} if colours == "RdBu_r" else {}
        places = counties["longitude"], counties["latitude"]
        points = axes.scatter(*places, c=shown, s=70, cmap=colours, edgecolor="white", **span)
        axes.set(title=title, aspect=1.44, xlabel="longitude", ylabel="latitude")
        figure.colorbar(points, ax=axes, shrink=0.8)
        clean(axes)
    save(figure, "radon_map")


if __name__ == "__main__":
    for draw in (coal, airline, births, radon_map):
        draw()
        print(draw.__name__)
