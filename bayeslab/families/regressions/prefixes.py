"""Names of the parts of one response in a model of several: with the response before them, ``y_sigma``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayeslab.language.expansion import Expansion

__all__ = ["prefixed", "renamed", "substituted", "words"]

# Text in quotes, and names that are no functions and no keywords of arguments.
_WORDS = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w.])[^\W\d]\w*(?![\w(])(?!\s*=(?!=))")

# Names in the words of comments.
_IN_TICKS = re.compile(r"(?<=`)[^\W\d]\w*(?=`)")


@dataclass(frozen=True, slots=True)
class _Renaming:
    """New names of nodes, dimensions and columns.

    Attributes
    ----------
    names : mapping of str to str
        New names by old ones; other names stay.
    """

    names: Mapping[str, str]

    def match(self, name: re.Match[str]) -> str:
        """The new name of a name in a text."""
        return self.names.get(name[0], name[0])

    def text(self, text: str) -> str:
        """An expression, or the key of a node, with new names."""
        return _WORDS.sub(self.match, text)

    def keys(self, given: Mapping[str, str]) -> dict[str, str]:
        """Texts by keys, both with new names."""
        return {self.text(key): self.text(text) for key, text in given.items()}


def substituted(text: str, parts: Mapping[str, str]) -> str:
    """An expression with other expressions in place of names."""
    return _Renaming(parts).text(text)


def words(text: str) -> set[str]:
    """The names in an expression."""
    return set(_WORDS.findall(text))


def prefixed(name: str, response: str) -> str:
    """A name with the response before it; hidden names stay hidden."""
    return f"_{response}{name}" if name.startswith("_") else f"{response}_{name}"


def renamed(expansion: Expansion, response: str, columns: Collection[str], taken: Mapping[str, str]) -> Expansion:
    """The expansion of one regression with names of a model of several.

    Parameters
    ----------
    columns
        Columns of the data: nodes that are columns keep their names.
    taken
        Computed columns so far; others of these names are renamed.
    """
    private = {key.split("[")[0] for key in expansion.nodes} | expansion.dims.keys()
    private -= {response, *columns}
    derived = expansion.derive.keys() - {response}
    if any(taken.get(name, text) != text for name, text in expansion.derive.items()):
        private |= derived
    renaming = _Renaming({name: prefixed(name, response) for name in private})
    dims: dict[str, Any] = {
        renaming.text(dim): renaming.text(entry) if isinstance(entry, str) else entry
        for dim, entry in expansion.dims.items()
    }
    comments = {renaming.text(key): _IN_TICKS.sub(renaming.match, text) for key, text in expansion.comments.items()}
    return replace(
        expansion,
        nodes=renaming.keys(expansion.nodes),
        derive=renaming.keys(expansion.derive),
        dims=dims,
        comments=comments,
    )
