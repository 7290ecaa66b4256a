"""Pictures of mixtures: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.plots import mixture as plots
from tests.refusals import refused


def test_ellipses_are_one_and_two_standard_deviations():
    mean, cov = np.array([[1.0, 2.0]]), np.array([[[2.0, 0.6], [0.6, 0.5]]])
    made = plots.ellipses(np.zeros((3, 2)), np.ones((3, 1)), mean, cov, ["a"], ("x", "y"))
    lines = [line for line in made.axes[0].lines if len(line.get_xdata()) > 2]
    for line, size in zip(lines, (1, 2), strict=True):
        apart = np.column_stack(line.get_data()) - mean[0]
        distance = np.sqrt(np.einsum("ni,ij,nj->n", apart, np.linalg.inv(cov[0]), apart))
        np.testing.assert_allclose(distance, size)


def test_responsibilities_fill_the_height_sorted_by_component():
    probability = np.array([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4]])
    made = plots.responsibilities(probability, ["a", "b"])
    first, second = (patch.get_data() for patch in made.axes[0].patches)
    np.testing.assert_allclose(first.values, [0.9, 0.6, 0.2])
    np.testing.assert_allclose(second.values, 1)


def test_the_trace_has_the_line_of_reference():
    traces = np.array([[-9.0, -5.0, np.nan], [-8.0, -4.0, -3.0]])
    axes = plots.em_trace(traces, reference=-3.5).axes[0]
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert drawn == [[-9.0, -5.0], [-8.0, -4.0, -3.0], [-3.5, -3.5]]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["best search", "reference"]


@pytest.mark.slow(why="statistical")
def test_pictures_of_a_fit(tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": np.r_[rng.normal(0, 1, 30), rng.normal(6, 1, 30)], "y": rng.normal(0, 1, 60), "n": rng.poisson(3, 60)}
    words = {"x": "gaussian", "y": "gaussian", "n": "poisson"}
    model = bl.Model(model=bl.Mixture(columns=["x", "y", "n"], component=words, components=2))
    fit = bl.fit(model, data, "gibbs", seed=1, progress=False, runs=None, draws=100, tune=50, chains=2)
    for what in ("components", "responsibilities", "together"):
        fit.plot_clusters(what).savefig(tmp_path / f"{what}.png", dpi=40)
    points = fit.plot_clusters(columns=["x"]).axes[0].lines
    at, total = points[-1].get_data()
    assert np.trapezoid(total, at) == pytest.approx(1, abs=0.05)
    bars = fit.plot_clusters(columns=["n"]).axes[0].lines[-1].get_ydata()
    assert bars.sum() == pytest.approx(1, abs=0.05)
    with refused("option.unknown-word", "'togther'.*'together'"):
        fit.plot_clusters("togther")
    with refused("option.not-applicable", "trace"):
        fit.plot_clusters("trace")
    with refused("option.not-applicable", "columns"):
        fit.plot_clusters(columns=["x", "n"])
