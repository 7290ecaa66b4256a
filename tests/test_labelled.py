"""Groups of arrays with named dimensions do what xarray's datasets do."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayeslab.labelled import Variable, grouped, groups_of, of_dataset

VALUES = np.arange(24.0).reshape(2, 3, 4)
GROUP = grouped(
    {"x": (("chain", "draw", "k"), VALUES), "y": (("draw", "chain"), VALUES[:, :, 0].T), "w": ((), 1.0)},
    {"chain": np.array([4, 7]), "k": np.array(["a", "b", "c", "d"])},
    {"seed": 1},
)
DATASET = GROUP.to_dataset()


@pytest.mark.parametrize("order", [("chain", "draw", ...), ("k", ...), (..., "chain"), ("draw", "k", "chain"), (...,)])
def test_transpose(order):
    here, there = GROUP["x"].transpose(*order), DATASET["x"].transpose(*order)
    assert here.dims == there.dims
    np.testing.assert_array_equal(here.values, there.values)


def test_lengths_and_labels():
    assert GROUP.sizes == dict(DATASET.sizes)
    for dim in ("chain", "draw", "k"):
        np.testing.assert_array_equal(GROUP[dim].values, DATASET[dim].values)
    assert "k" in GROUP
    assert "draw" not in GROUP
    with pytest.raises(KeyError):
        GROUP["nothing"]


def test_variables_are_changed_added_and_left_out():
    after = GROUP.changed({"y": VALUES[:, :, 1].T, "v": Variable(("k",), np.ones(4))})
    wanted = DATASET.assign(y=(("draw", "chain"), VALUES[:, :, 1].T), v=(("k",), np.ones(4)))
    assert after.to_dataset().identical(wanted)
    assert GROUP.to_dataset().identical(DATASET)
    assert list(GROUP.without(["x"]).coords) == ["chain"]
    assert GROUP.only(["y", "w"]).to_dataset().identical(DATASET[["y", "w"]])


def test_a_tree_and_back():
    tree = xr.DataTree.from_dict({"posterior": DATASET, "other": DATASET[["w"]]})
    groups = groups_of(tree)
    assert list(groups) == ["posterior", "other"]
    assert groups["posterior"].to_dataset().identical(DATASET)
    assert of_dataset(DATASET)["x"].attrs == {}
