"""Pictures of sampled structures: what is drawn is what was given."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from bayeslab.plots import structure as plots


def test_the_map_shows_probabilities_by_row_and_column():
    p = np.array([[0.0, 0.25, 1.0], [0.1, 0.0, 0.0], [0.0, 0.5, 0.0]])
    axes = plots.edge_map(p, ["a", "b", "c"]).axes[0]
    shown = axes.images[0].get_array()
    assert np.ma.getmaskarray(shown).diagonal().all() or np.isnan(shown.filled(np.nan).diagonal()).all()
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(np.asarray(shown)[off], p[off])
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in axes.texts}
    assert written == {(0, 1): ".25", (0, 2): "1", (1, 0): ".10", (2, 1): ".50"}
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c"]
    assert len(plots.edge_map(np.full((20, 20), 0.5), [f"v{i}" for i in range(20)]).axes[0].texts) == 0


def agreed(edges, undirected=()):
    graph = nx.DiGraph(undirected=list(undirected))
    graph.add_nodes_from("abcd")
    for u, v, p in edges:
        graph.add_edge(u, v, probability=p)
    return graph


def test_arrows_are_as_wide_as_they_are_probable_and_lines_without_direction_dashed():
    axes = plots.consensus(agreed([("a", "b", 1.0), ("b", "c", 0.6), ("a", "c", 0.55)], [("d", "a", 0.8)])).axes[0]
    arrows = [p for p in axes.patches if isinstance(p, FancyArrowPatch)]
    widths = sorted(round(p.get_linewidth(), 3) for p in arrows)
    assert widths == sorted(round(0.5 + 3.5 * p, 3) for p in (1.0, 0.6, 0.55, 0.8))
    dashed = [p for p in arrows if p.get_linestyle() not in ("-", "solid")]
    assert len(dashed) == 1 and dashed[0].get_linewidth() == pytest.approx(0.5 + 3.5 * 0.8)
    assert {t.get_text() for t in axes.texts} == {"a", "b", "c", "d", "1", ".60", ".55", ".80"}


def test_arrows_run_from_parent_to_child():
    axes = plots.consensus(agreed([("a", "b", 0.9)])).axes[0]
    (arrow,) = (p for p in axes.patches if isinstance(p, FancyArrowPatch))
    path = arrow.get_path()
    line = path.vertices[path.codes != path.CLOSEPOLY]
    place = {t.get_text(): np.array(t.get_position()) for t in axes.texts}
    # The line begins below its parent and the head, which is wider than the line, ends above the child.
    assert np.linalg.norm(line[0] - place["a"]) < np.linalg.norm(line[0] - place["b"])
    lowest = line[line[:, 1].argmax()]
    assert place["a"][1] < line[0][1] < lowest[1] < place["b"][1]


def test_lines_that_would_close_a_circle_are_drawn_all_the_same():
    axes = plots.consensus(agreed([("a", "b", 0.9), ("b", "c", 0.9)], [("c", "a", 0.7)])).axes[0]
    assert sum(isinstance(p, FancyArrowPatch) for p in axes.patches) == 3


def test_a_part_of_a_curve_is_on_the_curve():
    curve = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [1.0, 6.0]])

    def at(points, t):
        return (
            (1 - t) ** 3 * points[0]
            + 3 * t * (1 - t) ** 2 * points[1]
            + 3 * t**2 * (1 - t) * points[2]
            + t**3 * points[3]
        )

    part = plots.part(curve, 0.2, 0.7)
    for s in np.linspace(0, 1, 5):
        np.testing.assert_allclose(at(part, s), at(curve, 0.2 + 0.5 * s), atol=1e-12)


def test_traces_of_scores():
    scores = np.stack([np.linspace(-10, -5, 50), np.linspace(-9, -6, 50)])
    left, right = plots.score_traces(scores, ["0", "1"]).axes
    for line, own in zip(left.lines, scores, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), own)
    assert len(right.patches) == 2
    long = plots.score_traces(np.zeros((1, 100_000)), ["0"]).axes[0]
    assert len(long.lines[0].get_ydata()) <= 2000


def test_r_hats_are_counted():
    axes = plots.edge_r_hat(np.array([1.0, 1.001, 1.2, np.inf]), 7).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == 4 and heights[-1] == 1  # the infinite one
    assert "7 never vary" in axes.get_title(loc="left") and "1 infinite" in axes.get_title(loc="left")


def test_chains_against_the_others():
    by_chain = np.zeros((3, 2, 2))
    by_chain[:, 0, 1], by_chain[:, 1, 0] = (0.2, 0.4, 0.9), (0.5, 0.5, 0.5)
    axes = plots.chain_agreement(by_chain, np.full((2, 2), 0.01), ["0", "1", "2"]).axes[0]
    points = [c.lines[0].get_xydata() for c in axes.containers]
    np.testing.assert_allclose(points[2][0], [0.3, 0.9])
    np.testing.assert_allclose(points[0][0], [0.65, 0.2])
