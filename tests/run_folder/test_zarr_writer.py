"""Stores written without zarr, read by xarray, against xarray's own writer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import xarray as xr

from bayeslab.labelled import Group, Variable, grouped, of_dataset
from bayeslab.run_folder.zarr_writer import write_store

RNG = np.random.default_rng(11)
DRAWS = ("chain", "draw")
GROUPS = {
    "posterior": grouped(
        {
            "mu": (DRAWS, RNG.normal(size=(4, 50))),
            "b": ((*DRAWS, "county"), RNG.normal(size=(4, 50, 3))),
            "z": ((*DRAWS, "row"), RNG.integers(0, 3, (4, 50, 200))),
            "small": ((*DRAWS,), RNG.integers(-5, 5, (4, 50)).astype(np.int8)),
            "single": (DRAWS, RNG.normal(size=(4, 50)).astype(np.float32)),
            "flag": ((*DRAWS, "row"), RNG.random((4, 50, 200)) < 0.5),
            "broken": (DRAWS, np.where(RNG.random((4, 50)) < 0.1, np.nan, np.inf)),
            "a b ü": (DRAWS, np.zeros((4, 50))),
        },
        {"chain": np.arange(4), "draw": np.arange(50), "county": np.array(["Ü", "b c", ""])},
        {"seed": 3, "log_evidence": np.float64(-1.5), "runs": (1.0, 2.0), "how": "draws", "nan": float("nan")},
    ),
    "constant_data": grouped(
        {
            "one": ((), 3.5),
            "none": (("nothing",), np.zeros(0)),
            "word": (("day",), np.array(["x", "yy"])),
            "turned": (("day", "county"), np.arange(6.0).reshape(3, 2).T),
            "backward": (("county",), np.arange(6.0)[::-2]),
        },
        {"day": np.array(["2020-01-01", "2020-02-29"], "datetime64[D]"), "county": np.array(["a", "b", "c"])},
    ),
    "completions": grouped(
        {"state": ((*DRAWS, "cell"), np.zeros((1, 2, 3), np.int64))},
        {"row": ("cell", np.array([0, 0, 4])), "variable": ("cell", np.array(["a", "b", "a"]))},
    ),
}


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_datatree(folder, engine="zarr", consolidated=False).load()


@pytest.fixture
def ours(tmp_path):
    write_store(tmp_path / "ours", GROUPS)
    return read(tmp_path / "ours")


def test_values_and_labels_are_those_that_were_written(ours):
    for name, group in GROUPS.items():
        there, wanted = ours[name].to_dataset(), group.to_dataset()
        assert there.attrs.pop("variables") == list(group.data_vars)
        for variable in wanted.variables:
            assert there[variable].dims == wanted[variable].dims
            assert (variable in there.coords) == (variable in wanted.coords)
            np.testing.assert_array_equal(there[variable].values, wanted[variable].values)
            if wanted[variable].dtype.kind in "biuf":
                assert there[variable].dtype == wanted[variable].dtype
    attrs = ours["posterior"].attrs
    assert attrs["seed"] == 3
    assert attrs["log_evidence"] == -1.5
    assert attrs["runs"] == [1.0, 2.0]
    assert np.isnan(attrs["nan"])


def test_a_store_is_read_as_that_of_xarray(tmp_path, ours):
    tree = xr.DataTree.from_dict({name: group.to_dataset() for name, group in GROUPS.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree.to_zarr(tmp_path / "theirs", consolidated=False, mode="w")
    theirs = read(tmp_path / "theirs")
    for name in GROUPS:
        here = ours[name].to_dataset()
        xr.testing.assert_equal(here, theirs[name].to_dataset()[list(here.data_vars)])


def test_the_same_groups_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_store(tmp_path / name, GROUPS)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert files
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


def test_states_are_compressed(tmp_path):
    group = grouped({"z": ((*DRAWS, "row"), RNG.integers(0, 3, (4, 100, 200)))})
    write_store(tmp_path / "x", {"posterior": group})
    size = sum(path.stat().st_size for path in (tmp_path / "x").rglob("*") if path.is_file())
    assert size < group["z"].values.nbytes / 4


@pytest.mark.parametrize("values", [np.array([1, None], object), np.array([1j])])
def test_what_a_store_cannot_hold_is_refused(tmp_path, values):
    with pytest.raises(TypeError, match="cannot be stored"):
        write_store(tmp_path / "x", {"g": Group({"v": Variable(("k",), values)})})


def test_groups_and_datasets_become_each_other():
    for group in GROUPS.values():
        back = of_dataset(group.to_dataset())
        assert list(back.data_vars) == list(group.data_vars)
        assert str(back.attrs) == str(group.attrs)
        assert back.sizes == group.sizes
        assert all(np.shares_memory(back[n].values, v.values) or not v.values.size for n, v in group.data_vars.items())
