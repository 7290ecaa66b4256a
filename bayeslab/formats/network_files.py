"""Reading and writing of Bayes nets in the file formats of other programs.

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

# File extensions of each format; the first is the default for new files.
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
    """Return whether a file has the extension of a network format."""
    return Path(path).suffix.lower() in _FORMAT_OF


def read_network(path: str | os.PathLike[str]) -> DiscreteNetwork | FactorGraph:
    """Read a Bayes net (or, from a UAI file of type MARKOV, a factor graph).

    Parameters
    ----------
    path : path
        The file; its extension determines the format (:data:`FORMATS`).

    Returns
    -------
    DiscreteNetwork or FactorGraph
        Variables, states and parents in the order of the file. Rows of tables are divided by their
        sums.

    Raises
    ------
    ModelError
        The file is missing, malformed, or not a Bayes net of discrete variables. The message has the file
        and, if possible, the line.

    Warns
    -----
    UserWarning
        The sum of a row of a table differs from one by more than 1e-3.
    """
    file = Path(path)
    if os.path.isdir(file):
        raise ModelError("is a folder, not a file", where=shown(file), code="not-a-file")
    return _module(_format_of(file)).read(File.at(file))


def write_network(
    network: DiscreteNetwork | FactorGraph, path: str | os.PathLike[str], format: str | None = None
) -> list[str]:
    """Write a network; reading the file gives bit-identical tables.

    Parameters
    ----------
    network : DiscreteNetwork or FactorGraph
        A factor graph can only be written as UAI.
    path : path
        The file; it is replaced atomically.
    format : str, optional
        One of :data:`WRITTEN`; default: the format of the extension.

    Returns
    -------
    list of str
        Remarks, one line each, on what the format cannot represent exactly.
    """

    file = Path(path)
    name = _format_of(file) if format is None else format
    if name not in WRITTEN:
        raise OptionError(
            f"'{name}' is not a format that is written{hint(name, WRITTEN)}", where=shown(file), code="unknown-format"
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
        given = f"'{ending:.30}' is not an ending of a network file" if ending else "the file has no ending"
        raise ModelError(f"{given}; there are {' '.join(_FORMAT_OF)}", where=shown(file), code="unknown-format")
    return _FORMAT_OF[ending]


def _module(name: str) -> Any:
    return import_module(f"bayeslab.formats.{name}")


def declared_variables(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Return the variables of a network file as in a model declaration: states, parents and table by name."""
    network = read_network(path)
    if not isinstance(network, DiscreteNetwork):
        raise ModelError(f"{path} holds an undirected model; a bayes_net is directed", code="unsupported")
    return {
        v: {"states": list(s), "parents": list(network.parents[v]), "table": network.tables[v].tolist()}
        for v, s in network.states.items()
    }
