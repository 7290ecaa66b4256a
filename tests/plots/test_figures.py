"""What figures show: axes where the data are, bands with their level, loops that leave their state."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

import bayeslab.plots
from bayeslab.plots import comparison, draws, gaussian_process, hmm, learners, mixture, predictive, structure, topics
from bayeslab.plots.figure import figure as new_figure

matplotlib.use("agg")


def test_densities_are_drawn_where_the_data_are():
    rng = np.random.default_rng(0)
    figure = predictive.density_overlay(rng.normal(1500, 10, 80), rng.normal(1500, 10, (40, 80)), "y", discrete=False)
    (axes,) = figure.axes
    assert 1400 < axes.get_xlim()[0] < axes.get_xlim()[1] < 1600
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["replications", "data"]


@pytest.mark.parametrize("ci_prob", [0.5, 0.89])
def test_bands_of_a_process_say_their_level(ci_prob):
    x = np.linspace(0, 1, 20)
    band = (x, x - 1, x + 1)
    for figure in (
        gaussian_process.function(x, band, None, "x", "y", ci_prob),
        gaussian_process.components(x, {"trend": band, "season": band}, "x", ci_prob),
    ):
        words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert f"{100 * ci_prob:g} % credible interval" in words


def test_a_state_that_follows_itself_has_an_arrow_outside():
    from matplotlib.patches import Circle, FancyArrowPatch

    (axes,) = hmm.draw_transitions(np.array([[0.9, 0.1], [0.0, 1.0]]), ["low", "high"]).axes
    states = [patch for patch in axes.patches if isinstance(patch, Circle)]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(states) == 2 and len(arrows) == 3
    for state, loop in zip(states, (arrows[0], arrows[2]), strict=True):
        steps = np.linalg.norm(loop.get_path().interpolated(20).vertices - np.array(state.center), axis=1)
        assert steps.min() > state.radius and steps.max() > 1.5 * state.radius


# What matplotlib takes for a formula, for the start of a formula, and for no entry of a legend.
ODD = ["a_$x^2$", "$\\frac{", "_under", "$5 and $6", "bell\x07"]


def _pictures():
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 12)
    band, p = (x, x - 1, x + 1), np.full((12, 5), 0.2)
    yield gaussian_process.function(x, band, (x, x), ODD[0], ODD[1], 0.89)
    yield gaussian_process.components(x, dict.fromkeys(ODD, band), ODD[1], 0.89)
    yield hmm.draw_transitions(np.full((5, 5), 0.2), ODD)
    yield predictive.density_overlay(x, rng.normal(size=(5, 12)), ODD[1], discrete=False)
    yield mixture.responsibilities(p, ODD)
    yield structure.edge_map(np.full((5, 5), 0.2), ODD)
    yield learners.path(x + 0.1, rng.normal(size=(12, 5)), ODD, None, ODD[1])
    table = pd.DataFrame({"elpd": x[:5], "se": x[:5], "elpd_diff": x[:5], "se_diff": x[:5]}, index=ODD)
    yield comparison.elpd_plot(table)
    yield topics.proportions(p[:10], ODD * 2)


@pytest.mark.slow(why="large")
def test_names_are_no_formulas():
    """They are drawn letter by letter, in titles, legends, texts and ticks; numbers at ticks stay as they were."""
    for picture in _pictures():
        picture.savefig(BytesIO(), format="png", dpi=30)
        words = [text for text in picture.findobj(matplotlib.text.Text) if "$" in text.get_text()]
        for text in words:
            assert not text.get_parse_math() or re.fullmatch(r"\$\\mathdefault\{.*\}\$", text.get_text()), text
    made, axes = new_figure()
    axes.set(xscale="log", xlim=(1, 1e6), xlabel="$n$")
    made.savefig(BytesIO(), format="png", dpi=30)
    assert all(tick.label1.get_parse_math() for tick in axes.xaxis.get_major_ticks())
    assert not axes.xaxis.label.get_parse_math()


def test_names_that_begin_with_an_underscore_are_in_legends():
    made = mixture.responsibilities(np.full((12, 5), 0.2), ODD)
    assert [text.get_text().strip() for text in made.axes[0].get_legend().get_texts()] == ODD


def test_all_figures_come_from_one_place():
    folder = Path(bayeslab.plots.__file__).parents[1]
    makers = [f.name for f in folder.rglob("*.py") if re.search(r"Figure\(\w*=|pyplot|plt\.", f.read_text())]
    assert makers == ["figure.py"] or makers == []


def test_the_legend_of_states_lists_the_states_that_are_drawn():
    """Those on the path and those with a visible probability in the ribbon; a state of neither is left out."""
    codes = np.array([0, 0, 2, 2])
    chances = np.array([[0.9, 0.7, 0, 0], [0, 0, 1e-3, 0], [0.1, 0, 0.999, 1], [0, 0.3, 0, 0]])
    labels = ("y", "day", "title")
    drawing = hmm.draw_states(np.arange(4.0), np.arange(4.0), codes, chances, ["a", "b", "c", "d"], labels, [])
    shown = [text.get_text() for text in drawing.axes[0].get_legend().get_texts()]
    assert shown == ["state a", "state c", "state d"]
    chain = hmm.Drawn("z", codes, chances, ["a", "b", "c", "d"])
    drawing = hmm.draw_chains(np.arange(4.0), np.arange(4.0), [chain], labels, [])
    assert [text.get_text() for text in drawing.axes[0].get_legend().get_texts()] == shown


@pytest.mark.slow(why="large")
def test_a_forest_has_one_scale_and_a_single_panel_room_for_its_legend():
    values = {"a": np.random.default_rng(0).normal(size=(2, 50))}
    names, intervals = draws.forest(values, "means").axes
    assert not names.axison and intervals.axison
    made = draws.prior_densities(values, values, "posterior over prior")
    made.savefig(BytesIO(), format="png", dpi=50)
    boxes = [part.get_window_extent() for part in (made._suptitle, made.legends[0])]
    assert not boxes[0].overlaps(boxes[1])
