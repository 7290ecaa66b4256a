"""``fit.plot()`` and ``bayeslab plot RUN``: the picture that suits the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.cli import main
from bayeslab.plots.predictive import density_overlay
from tests.refusals import refused

RNG = np.random.default_rng(2)
A = RNG.random(60) < 0.4
STATES = pd.DataFrame(
    {"smoking": A, "cough": RNG.random(60) < np.where(A, 0.9, 0.2), "snow": RNG.random(60) < 0.5}
).map(lambda x: "yes" if x else "no")


@pytest.fixture(scope="module")
def structures(tmp_path_factory):
    model = bl.Model(name="s", model={"family": "bayes_net", "structure": {}})
    options = {"draws": 200, "chains": 2, "cores": 1}
    return bl.fit(model, STATES, "structure", runs=tmp_path_factory.mktemp("runs"), progress=False, seed=1, **options)


@pytest.mark.slow(why="statistical")
def test_structures_are_drawn_by_their_edges(structures, capsys):
    figure = structures.plot()
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(structures.structures.names)
    edges = structures.structures.edges().set_index(["source", "target"])["probability"]
    shown = axes.images[0].get_array()
    names = list(structures.structures.names)
    for (a, b), p in edges.items():
        assert shown[names.index(a), names.index(b)] == pytest.approx(p)
    assert structures.plot("consensus").axes
    with pytest.raises(SystemExit) as ended:
        main(["plot", str(structures.folder)])
    assert ended.value.code == 0
    assert "edges.png" in capsys.readouterr().out
    assert (structures.folder / "edges.png").exists()
    with refused("option.unknown-word", "'edge'.*'edges'"):
        structures.plot("edge")
    with refused("option.not-applicable", "bayes_net"):
        structures.plot("edges", columns=["snow"])


def test_a_check_of_states_has_their_names_on_its_axis():
    yes_no = {"states": ["yes", "no"]}
    model = bl.Model(model={"family": "bayes_net", "variables": {"smoking": yes_no, "snow": yes_no}})
    fit = bl.fit(model, STATES[["smoking", "snow"]], runs=None, progress=False, seed=1, draws=50)
    axes = fit.plot().axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["yes", "no"]
    np.testing.assert_allclose(axes.get_xticks(), [0, 1])


def test_the_first_picture_of_a_family():
    model = bl.Model(model={"family": "mixture", "columns": ["x"], "components": 2})
    fit = bl.fit(
        model, {"x": np.r_[RNG.normal(size=20), RNG.normal(9, 1, 20)]}, "em", runs=None, progress=False, seed=1
    )
    assert [a.get_xlabel() for a in fit.plot().axes] == [a.get_xlabel() for a in fit.plot_clusters().axes]


@pytest.mark.parametrize(("most", "axis"), [(1, "share"), (9, "frequency (square-root scale)"), (400, "density")])
def test_discrete_outcomes_have_a_bar_for_each_value(most, axis):
    """Frequencies of the data are bars; whole numbers that span hundreds have densities."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, most + 1, size=(50, 20)).astype(float)
    axes = density_overlay(drawn[0], drawn, "claims", discrete=True).axes[0]
    assert axes.get_ylabel() == axis
    if most < 60:
        counts = np.bincount(drawn[0].astype(int), minlength=most + 1) / (20 if most == 1 else 1)
        assert [bar.get_height() for bar in axes.patches] == counts.tolist()


def test_densities_of_positive_outcomes_end_at_zero():
    rng = np.random.default_rng(0)
    drawn = rng.exponential(size=(60, 400))
    axes = density_overlay(drawn[0], drawn, "y", discrete=False).axes[0]
    assert axes.get_xlim()[0] == 0 and all(line.get_xdata().min() >= 0 for line in axes.lines)
    # The density of the exponential distribution at 0 is 1; unreflected curves have half of it.
    starts = [line.get_ydata()[0] for line in axes.lines[:-1]]
    assert np.mean(starts) == pytest.approx(0.9, abs=0.12)
