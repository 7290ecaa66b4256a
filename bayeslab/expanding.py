"""``expand``: a model of a short family, written out in the model language."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayeslab import registry
from bayeslab.errors import ModelError, listed
from bayeslab.language.expansion import Expansion, model_text
from bayeslab.language.spec import DataSource, Model
from bayeslab.preparation import ModelLike, Source

__all__ = ["Expanded", "expand", "expanded", "moved", "with_table"]


@dataclass(frozen=True)
class Expanded:
    """An expanded model with its comments.

    Attributes
    ----------
    model : Model
        Of the family ``graph``.
    expansion : Expansion
    folder : Path or None
        The folder that the paths of its data are relative to.
    """

    model: Model
    expansion: Expansion
    folder: Path | None

    def text(self, out: Path | None = None) -> str:
        """The text of the model file, with data paths relative to ``out``, or to the short model's file if None."""
        source = self.model.data if out is None or self.folder is None else moved(self.model.data, self.folder, out)
        return model_text(self.model, self.expansion, source)


def expand(model: ModelLike, data: Any = None) -> Model:
    """Write a model of a short family in the model language: the same model, node by node.

    All priors are written out, those that the family scales to the data with their numbers, so that each can be
    changed. Parameters keep their names, and the joint log density of data and parameters is the same.

    Parameters
    ----------
    model
        A model of one of the families that are short forms, or the path of a model file.
    data
        A dataframe, a mapping of arrays, a path; None for the data the file names.

    Returns
    -------
    Model
        Of the family ``graph``.

    Raises
    ------
    ModelError
        The language cannot express a part of the model; the message names the part.

    Examples
    --------
    >>> import bayeslab as bl
    >>> data = {"y": [1.0, 2.0, 4.0], "x": [1.0, 2.0, 3.0]}
    >>> short = bl.Model(model={"family": "regression", "formula": "y ~ x", "priors": {"b": "Normal(0, 1)"}})
    >>> bl.expand(short, data).model.nodes["b[predictor]"]
    'Normal(0, 1)'
    """
    return expanded(model, data).model


def expanded(model: ModelLike, data: Any = None) -> Expanded:
    """Like :func:`expand`, with the comments for the model file."""
    source = Source(model)
    with source.located():
        word = source.model.model.family
        module = registry.part("families", word, "expand")
        if module is None:
            forms = [name for name in registry.names("families") if registry.part("families", name, "expand")]
            raise ModelError(
                "the family graph is the language itself: there is nothing to expand"
                if source.model.model.is_language
                else f"models of the family {word} cannot be expanded; those of {listed(forms)} can",
                path=("model", "family"),
                code="not-applicable",
            )
        bound = source.bound(data)
        expansion: Expansion = module.expand(source.model, bound)
        out = Model(**expansion.content(with_table(source, data)))
        Source(out).posterior(bound.dataset).bound_data()
    return Expanded(out, expansion, source.file.folder if source.file else None)


def with_table(source: Source, data: Any) -> Model:
    """The model with the given data as its table, if they are a file; default priors are scaled to it."""
    if not isinstance(data, str | os.PathLike):
        return source.model
    folder = source.file.folder if source.file else Path()
    table = Path(os.path.relpath(data, folder)).as_posix()
    return source.model.model_copy(update={"data": source.model.data.model_copy(update={"table": table})})


def moved(source: DataSource, folder: Path, out: Path) -> DataSource:
    """The data section of a model file with its paths, relative to ``folder``, made relative to the file ``out``."""

    def from_there(path: str) -> str:
        return path if os.path.isabs(path) else Path(os.path.relpath(folder / path, out.parent)).as_posix()

    return source.model_copy(
        update={
            "table": from_there(source.table) if source.table else None,
            "arrays": from_there(source.arrays) if source.arrays else None,
            "tables": {dim: from_there(path) for dim, path in source.tables.items()},
        }
    )
