"""Files of Bayes nets: read and written in the formats other programs use.

=======  =========================  =============  =====================================
format   files                      read, written  programs
=======  =========================  =============  =====================================
bif      .bif                       both           bnlearn, JavaBayes, pgmpy, pyAgrum
xmlbif   .xml .xmlbif .bifxml       both           JavaBayes, Weka, AISpace
xdsl     .xdsl                      both           GeNIe, SMILE
net      .net                       both           HUGIN
uai      .uai                       both           inference competitions
dsc      .dsc                       read           MSBN, bnlearn
dsl      .dsl                       read           older GeNIe and SMILE
=======  =========================  =============  =====================================
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.files import shown, write_text
from bayeslab.formats.nodes import File
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["FORMATS", "WRITTEN", "declared_variables", "is_network_file", "read_network", "write_network"]

# The endings of each format's files; the first is the one to give a new file.
FORMATS: dict[str, tuple[str, ...]] = {
    "bif": (".bif",),
    "xmlbif": (".xmlbif", ".xml", ".bifxml"),
    "xdsl": (".xdsl",),
    "net": (".net",),
    "uai": (".uai",),
    "dsc": (".dsc",),
    "dsl": (".dsl",),
}
WRITTEN = ("bif", "xmlbif", "xdsl", "net", "uai")

_FORMAT_OF = {ending: name for name, endings in FORMATS.items() for ending in endings}


def is_network_file(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file has the ending of a network format."""
    return Path(path).suffix.lower() in _FORMAT_OF


def read_network(path: str | os.PathLike[str]) -> DiscreteNetwork | FactorGraph:
    """Read a Bayes net (or, from a UAI file of type MARKOV, a factor graph).

    Parameters
    ----------
    path : path
        The file; its ending names the format (:data:`FORMATS`).

    Returns
    -------
    DiscreteNetwork or FactorGraph
        Variables, states and parents in the order of the file. Rows of tables are divided by their
        sums.

    Raises
    ------
    ModelError
        The file is missing, malformed, or no Bayes net of discrete variables. The message has the file
        and, where one can be named, the line.

    Warns
    -----
    UserWarning
        A row of a table sums to something more than 1e-3 from one.
    """
    file = Path(path)
    if os.path.isdir(file):
        raise ModelError("is a folder, not a file", where=shown(file), code="not-a-file")
    return _module(_format_of(file)).read(File.at(file))


def write_network(
    network: DiscreteNetwork | FactorGraph, path: str | os.PathLike[str], format: str | None = None
) -> list[str]:
    """Write a network; reading it gives the same tables to the last bit.

    Parameters
    ----------
    network : DiscreteNetwork or FactorGraph
        A factor graph can only be written as UAI.
    path : path
        Replaced at once when all is written.
    format : str, optional
        One of :data:`WRITTEN`; the ending of the file names it otherwise.

    Returns
    -------
    list of str
        Remarks, one line each: what the format could not hold as it is.
    """

    file = Path(path)
    name = _format_of(file) if format is None else format
    if name not in WRITTEN:
        raise OptionError(
            f"'{name}' is no format that is written{hint(name, WRITTEN)}", where=shown(file), code="unknown-format"
        )
    if isinstance(network, FactorGraph) and name != "uai":
        raise OptionError(
            f"a factor graph can be written as uai, not as {name}", where=shown(file), code="unknown-format"
        )
    if "" in network.states:
        raise ModelError("a variable needs a name to be written", where=shown(file), code="bad-name")
    text, remarks = _module(name).write(network)
    try:
        write_text(file, text)
    except OSError as error:
        raise ModelError(f"cannot be written: {error.strerror}", where=shown(file), code="cannot-write") from None
    return remarks


def _format_of(file: Path) -> str:
    ending = file.suffix.lower()
    if ending not in _FORMAT_OF:
        given = f"'{ending:.30}' is no ending of a network file" if ending else "the file has no ending"
        raise ModelError(f"{given}; there are {' '.join(_FORMAT_OF)}", where=shown(file), code="unknown-format")
    return _FORMAT_OF[ending]


def _module(name: str) -> Any:
    return import_module(f"bayeslab.formats.{name}")


def declared_variables(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """The variables of a network file as a model declares them: states, parents and table by name."""
    network = read_network(path)
    if not isinstance(network, DiscreteNetwork):
        raise ModelError(f"{path} holds an undirected model; a bayes_net is directed", code="unsupported")
    return {
        v: {"states": list(s), "parents": list(network.parents[v]), "table": network.tables[v].tolist()}
        for v, s in network.states.items()
    }
