"""Pictures of latent features: what is drawn is what was given."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from bayeslab.plots import latent_features as plots


def test_loadings_are_bars():
    values = np.array([[1.0, -0.5, 0.2], [0.0, 2.0, -0.3]])
    made = plots.loadings(values, np.full((2, 3), 0.1), ["a", "b"])
    assert len(made.axes) == 3
    for j, axes in enumerate(made.axes):
        assert [bar.get_width() for bar in axes.patches] == values[:, j].tolist()
        assert axes.get_title() == f"feature {j + 1}"
    assert [t.get_text() for t in made.axes[0].get_yticklabels()] == ["a", "b"]


def test_images_share_one_scale():
    values = np.arange(24.0).reshape(2, 3, 4) - 4
    made = plots.images(values, np.array([1.0, 0.5]))
    shown = [axes.images[0] for axes in made.axes[:2]]
    assert all(np.array_equal(image.get_array(), v) for image, v in zip(shown, values, strict=True))
    assert {image.get_clim() for image in shown} == {(-19.0, 19.0)}
    assert "50 %" in made.axes[1].get_title()
    assert plots.images(np.zeros((0, 3, 4)))


def test_rows_and_number():
    active = np.array([[0.1, 1.0], [0.9, 0.0], [1.0, 1.0]])
    made = plots.rows(active, binary=True)
    assert made.axes[0].images[0].get_array().shape == (3, 2)
    assert sorted(made.axes[0].images[0].get_array()[:, 0]) == [0.1, 0.9, 1.0]
    assert plots.rows(active - 0.5, binary=False).axes[0].images[0].get_clim() == (-0.5, 0.5)
    bars = plots.number(np.array([4, 4, 5, 7])).axes[0].patches
    assert [bar.get_height() for bar in bars] == [0.5, 0.25, 0.25]
