"""Network files in circulation, the same nets in every format, and files of ours read by other programs.

What the other programs cannot do (pyAgrum 3.3.1, pgmpy 1.1.2) and is not tested here: pyAgrum reads
XDSL and UAI with the first parent changing fastest, also files by GeNIe; pgmpy reads UAI with the
child changing slowest and no exponents; pyAgrum's BIF has no quotes, its numbers are floats of 32 bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayeslab.formats.network_files import read_network, write_network
from bayeslab.formats.nodes import identifiers
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.conformance.references import SHARED, require

FOLDER = SHARED / "data" / "networks"


# Nodes, arcs and free parameters that the bnlearn repository gives.
SIZES = {
    "alarm": (37, 46, 509),
    "andes": (223, 338, 1157),
    "asia": (8, 8, 18),
    "cancer": (5, 4, 10),
    "child": (20, 25, 230),
    "earthquake": (5, 4, 10),
    "hailfinder": (56, 66, 2656),
    "hepar2": (70, 123, 1453),
    "insurance": (27, 52, 1008),
    "link": (724, 1125, 14211),
    "munin1": (186, 273, 15622),
    "pigs": (441, 592, 5618),
    "sachs": (11, 17, 178),
    "survey": (6, 6, 21),
    "water": (32, 66, 10083),
    "win95pts": (76, 112, 574),
}


def network(name: str) -> DiscreteNetwork:
    require(FOLDER, "networks")
    return read_network(FOLDER / f"{name}.bif")


def difference(given: DiscreteNetwork, wanted: DiscreteNetwork) -> float:
    """The largest difference of two entries; names, states and parents (in any order) must agree."""
    worst = 0.0
    assert dict(given.states) == dict(wanted.states)
    for variable, above in wanted.parents.items():
        own = given.parents[variable]
        assert set(own) == set(above)
        table = given.tables[variable].transpose(*(own.index(p) for p in above), len(above))
        worst = max(worst, float(np.abs(table - wanted.tables[variable]).max()))
    return worst


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    net = network(name)
    assert (len(net.states), net.graph.number_of_edges(), net.n_parameters) == SIZES[name]


@pytest.mark.parametrize("name", ["alarm", "asia", "survey"])
@pytest.mark.parametrize(("ending", "error"), [("bifxml", 1e-15), ("dsl", 1e-15), ("xdsl", 1e-15), ("net", 3e-8)])
def test_other_formats_agree_with_bif(name, ending, error):
    """The NET files have numbers rounded to 32 bits."""
    wanted = network(name)
    assert difference(read_network(FOLDER / "other_formats" / f"{name}.{ending}"), wanted) <= error


@pytest.mark.parametrize("name", ["alarm", "asia", "survey"])
def test_uai_agrees_with_bif(name):
    wanted = network(name)
    given = read_network(FOLDER / "other_formats" / f"{name}.uai")
    to = dict(zip(given.states, wanted.states, strict=True))
    named = DiscreteNetwork(
        wanted.states,
        {to[v]: tuple(to[p] for p in above) for v, above in given.parents.items()},
        {to[v]: table for v, table in given.tables.items()},
    )
    assert difference(named, wanted) <= 1e-15


@pytest.mark.slow(why="conformance")
@pytest.mark.parametrize("name", SIZES)
def test_through_every_format_and_back(name, tmp_path):
    """Not one bit of a table, one name or one place in an order changes."""
    first = net = network(name)
    for ending in ("xdsl", "net", "xmlbif", "bif"):
        write_network(net, tmp_path / f"a.{ending}")
        net = read_network(tmp_path / f"a.{ending}")
    assert list(net.states.items()) == list(first.states.items())
    assert dict(net.parents) == dict(first.parents)
    assert all(np.array_equal(net.tables[v], first.tables[v]) for v in first.states)


# -- files of ours, read by others


def odd(variable: str = "A", state: str = "s") -> DiscreteNetwork:
    states = {variable: (state, "other"), "B": ("x", "y", "z"), "C": ("x", "y")}
    tables = {variable: [0.1, 0.9], "B": [0.25, 0.25, 0.5], "C": np.random.default_rng(1).dirichlet([1, 1], (2, 3))}
    return DiscreteNetwork(states, {"C": (variable, "B")}, tables)


NAMES = [{}, {"state": "1"}, {"state": "yes"}, {"state": "None"}, {"variable": "None"}, {"variable": "x-y"}]
MORE_NAMES = [{"variable": "1"}, {"state": "<5"}, {"state": "12-17"}, {"variable": "größe"}]
SPACES = [{"variable": "a b"}, {"state": "a b"}, {"state": "a|b"}, {"state": "a,b"}, {"variable": "a|b"}]


def peer_ids(net: DiscreteNetwork, ending: str) -> dict[str, str]:
    """The names that another program sees."""
    return identifiers(list(net.states), letter_first=ending == "xdsl") if ending in ("net", "xdsl") else {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ending", "names"),
    [("bif", n) for n in NAMES] + [(e, n) for e in ("bifxml", "net") for n in NAMES + MORE_NAMES + SPACES],
    ids=str,
)
def test_pyagrum_reads_odd_names(ending, names, tmp_path):
    pytest.importorskip("pyagrum")
    net = odd(**names)
    path = tmp_path / f"a.{ending}"
    write_network(net, path)
    assert agrum_difference(path, net, peer_ids(net, ending)) < 1e-7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["alarm", "asia", "survey", "hailfinder"])
@pytest.mark.parametrize("ending", ["bif", "bifxml", "net"])
def test_pyagrum_reads_networks(name, ending, tmp_path):
    pytest.importorskip("pyagrum")
    net = network(name)
    path = tmp_path / f"a.{ending}"
    write_network(net, path)
    assert agrum_difference(path, net, {}) < 1e-7


def agrum_difference(path: Path, net: DiscreteNetwork, ids: dict[str, str]) -> float:
    import pyagrum

    other = pyagrum.loadBN(str(path))
    worst = 0.0
    for variable, table in net.tables.items():
        cpt = other.cpt(ids.get(variable, variable))
        place = pyagrum.Instantiation(cpt)
        scope = (*net.parents[variable], variable)
        for index in np.ndindex(table.shape):
            for name, code in zip(scope, index, strict=True):
                place.chgVal(ids.get(name, name), int(code))
            worst = max(worst, abs(cpt.get(place) - table[index]))
    return worst


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ending", "names"),
    [(e, n) for e in ("bif", "net") for n in NAMES + MORE_NAMES]
    + [(e, n) for e in ("xml", "xdsl") for n in NAMES + MORE_NAMES + SPACES],
    ids=str,
)
def test_pgmpy_reads_odd_names(ending, names, tmp_path):
    pytest.importorskip("pgmpy")
    net = odd(**names)
    path = tmp_path / f"a.{ending}"
    write_network(net, path)
    assert pgmpy_difference(path, net, peer_ids(net, ending)) == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["alarm", "asia", "survey", "child"])
@pytest.mark.parametrize("ending", ["bif", "xml", "xdsl", "net"])
def test_pgmpy_reads_networks(name, ending, tmp_path):
    pytest.importorskip("pgmpy")
    net = network(name)
    path = tmp_path / f"a.{ending}"
    write_network(net, path)
    assert pgmpy_difference(path, net, {}) == 0


def pgmpy_difference(path: Path, net: DiscreteNetwork, ids: dict[str, str]) -> float:
    from pgmpy import readwrite

    kind = {"bif": "BIFReader", "xml": "XMLBIFReader", "xdsl": "XDSLReader", "net": "NETReader"}[path.suffix[1:]]
    model = getattr(readwrite, kind)(str(path)).get_model()
    worst = 0.0
    for variable, table in net.tables.items():
        factor = model.get_cpds(ids.get(variable, variable)).to_factor()
        scope = [ids.get(name, name) for name in (*net.parents[variable], variable)]
        values = factor.values.transpose([factor.variables.index(name) for name in scope])
        worst = max(worst, float(np.abs(values - table).max()))
    return worst
