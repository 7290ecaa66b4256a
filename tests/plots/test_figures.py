"""What figures show: axes where the data are, bands with their level, loops that leave their state."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from bayeslab.plots import gaussian_process, hmm, predictive

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
