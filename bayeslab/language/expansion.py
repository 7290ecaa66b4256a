"""The expansion of a model of a short family into the model language, with comments on each part."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from textwrap import wrap
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import FoldedScalarString

from bayeslab.errors import ModelError
from bayeslab.language.spec import DataSource, Model

__all__ = ["Expansion", "check_columns", "listed_numbers", "model_text", "nested", "number", "numbers", "unsupported"]

_WIDTH = 110


# Keys of the inference section that are kept for a graph, whatever the short form's method.
_OPTIONS = ("draws", "tune", "chains", "cores", "target_accept", "max_treedepth")
_METHODS = ("auto", "nuts", "map", "laplace", "advi", "pathfinder", "smc")


def unsupported(message: str, *path: Any) -> ModelError:
    """The error for a model that the language cannot express."""
    return ModelError(message, path=("model", *path), code="unsupported")


def check_columns(
    nodes: Iterable[str], dims: Iterable[str], columns: Container[str], but: Container[str], key: str
) -> None:
    """Refuse a table with a column named like a node or a dimension of the expanded model.

    Parameters
    ----------
    nodes
        Keys of nodes, with their dimensions in brackets.
    but
        Columns that are themselves such a node or dimension.
    key
        The key under which the short form names its columns.
    """
    made = {node.split("[")[0].strip(" `") for node in nodes} | set(dims)
    for name in sorted(made):
        if name in columns and name not in but:
            raise ModelError(
                f"the table has a column '{name}', which is a part of the expanded model: rename it under data.rename",
                path=("model", key),
                code="name-clash",
            )


def number(value: float) -> str:
    """A number in the language, with all its digits."""
    value = float(value)
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def listed_numbers(values: np.ndarray) -> str:
    """Numbers as a list in the language."""
    return f"[{', '.join(number(value) for value in np.ravel(values))}]"


def nested(values: np.ndarray) -> str:
    """An array as nested lists in the language, with the last axis innermost."""
    return f"[{', '.join(nested(part) if np.ndim(part) else number(part) for part in values)}]"


def numbers(values: np.ndarray) -> str:
    """Numbers as a list, or as a single number if they are all equal."""
    first = np.ravel(values)[0]
    return number(first) if np.all(np.asarray(values) == first) else listed_numbers(values)


@dataclass(frozen=True)
class Expansion:
    """The parts of a model in the language.

    Attributes
    ----------
    nodes : mapping of str to str
        Nodes of the family ``graph``, in reading order.
    derive : mapping of str to str
        Computed columns, in addition to the model's.
    dims : mapping of str to list, int or str
        Dimensions, in addition to the model's.
    comments : mapping of str to str
        Comments to print above nodes, computed columns and dimensions, by their keys.
    about : str
        A description of the model, for the head of the file.
    """

    nodes: Mapping[str, str]
    derive: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, list[Any] | int | str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    about: str = ""

    def content(self, model: Model) -> dict[str, Any]:
        """The expanded model as plain data: the short model with the family and dependent keys replaced."""
        out = model.to_dict()
        data = dict(out.get("data", {}))
        data.pop("streamed", None)  # nodes have a value for each row
        if self.derive:
            data["derive"] = {**data.get("derive", {}), **self.derive}
        dims = {**out.get("dims", {}), **self.dims}
        whole: dict[str, Any] = {"bayeslab": out["bayeslab"], "name": out["name"]}
        whole |= {"about": out["about"]} if "about" in out else {}
        whole |= {"data": data} if data else {}
        whole |= {"dims": dims} if dims else {}
        whole["model"] = {"family": "graph", "nodes": dict(self.nodes)}
        given = out.get("inference", {})
        if given.get("method", "auto") not in _METHODS:
            given = {word: value for word, value in given.items() if word in _OPTIONS}
        whole |= {"inference": given} if given else {}
        return whole | ({"seed": out["seed"]} if "seed" in out else {})


def model_text(model: Model, expansion: Expansion, source: DataSource | None = None) -> str:
    """The text of a model file with comments.

    Parameters
    ----------
    model
        The expanded model.
    expansion
        The expansion, whose comments are printed above the parts they describe.
    source
        The data section, if its paths differ from the model's.
    """
    content = model.to_dict()
    if source is not None and "data" in content:
        content["data"] = source.model_dump(mode="json", exclude_defaults=True)
    whole = _commented(content)
    if expansion.about:
        whole.yaml_set_start_comment(_wrapped(expansion.about, 0))
    for path in (("data", "derive"), ("dims",), ("model", "nodes")):
        part, depth = whole, 2 * len(path)
        for key in path:
            part = part.get(key, CommentedMap())
        for key, value in part.items():
            if isinstance(value, str) and depth + len(key) + len(value) > _WIDTH:
                part[key] = _folded(value, depth + 2)
            if key in expansion.comments:
                part.yaml_set_comment_before_after_key(
                    key, before=_wrapped(expansion.comments[key], depth), indent=depth
                )
    yaml = YAML()
    yaml.width = 4096  # expressions and comments are folded by this module instead
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    yaml.dump(whole, out)
    return out.getvalue()


def _wrapped(text: str, indent: int) -> str:
    """A comment wrapped to lines, with indent and comment mark."""
    lines = [line for part in text.splitlines() for line in wrap(part, _WIDTH - 2 - indent) or [""]]
    return "\n".join(lines)


def _folded(text: str, indent: int) -> str:
    """A long expression folded to several lines, which YAML joins again."""
    lines = wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
    if len(lines) < 2 or " ".join(lines) != text:
        return text
    out = FoldedScalarString(text)
    ends = [0]
    for line in lines[:-1]:
        ends.append(ends[-1] + len(line) + 1)
    out.fold_pos = [end - 1 for end in ends[1:]]
    return out


def _commented(value: Any) -> Any:
    """Plain data in ruamel's types: mappings that can carry comments, and short lists on one line."""
    if isinstance(value, dict):
        return CommentedMap((key, _commented(inner)) for key, inner in value.items())
    if isinstance(value, list):
        out = CommentedSeq(_commented(inner) for inner in value)
        if all(not isinstance(inner, dict | list) for inner in value):
            out.fa.set_flow_style()
        return out
    return value
