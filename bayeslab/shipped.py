"""The example models that come with bayeslab, with their data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayeslab.errors import OptionError, RunError, hint
from bayeslab.language.model_file import load, parse_value, read_text
from bayeslab.language.spec import Model

__all__ = ["copy_example", "example_names", "example_path", "load_example"]


def _folder() -> Path:
    """The folder of the examples: inside the installed package, or ``models/`` of a clone."""
    package = Path(__file__).parent
    installed = package / "examples"
    return installed if installed.is_dir() else package.parent / "models"


def example_names() -> list[str]:
    """Names of the example models, in alphabetical order."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def example_path(name: str) -> Path:
    """The model file of an example; its data are in the folder ``data`` beside it.

    Parameters
    ----------
    name : str
        One of :func:`example_names`.

    Raises
    ------
    OptionError
        There is no example of this name.
    """
    names = example_names()
    if name not in names:
        raise OptionError(f"there is no example '{name}'{hint(name, names)}", code="unknown-word")
    return _folder() / f"{name}.yaml"


def load_example(name: str) -> Model:
    """An example model, with its data.

    Parameters
    ----------
    name : str
        One of the names that ``bayeslab examples`` lists.

    Returns
    -------
    Model

    Raises
    ------
    OptionError
        There is no example of this name.

    Examples
    --------
    >>> import bayeslab as bl
    >>> bl.load_example("eight_schools").name
    'eight-schools'
    """
    return load(example_path(name))


def copy_example(name: str, to: Path, *, overwrite: bool = False) -> list[Path]:
    """Copy an example's model file and the files that it names into a folder, which is created.

    Returns
    -------
    list of Path
        The copies, the model file first.

    Raises
    ------
    OptionError
        There is no example of this name.
    RunError
        Another file of the same name exists and may not be overwritten, or a file cannot be written.
    """
    source = example_path(name)
    named = [source.name, *dict.fromkeys(_named_files(parse_value(read_text(source)), source.parent))]
    copies = [to / file for file in named]
    originals = [source.parent / file for file in named]
    there = next((copy for file, copy in zip(originals, copies, strict=True) if _differs(copy, file)), None)
    if there is not None and not overwrite:
        raise RunError("exists already; --force overwrites it", where=str(there), code="file-exists")
    try:
        for file, copy in zip(originals, copies, strict=True):
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not (copy.exists() and copy.samefile(file)):
                shutil.copyfile(file, copy)
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(to), code="cannot-write") from None
    return copies


def _differs(copy: Path, original: Path) -> bool:
    """Whether a path exists and is anything but a copy of the original."""
    return copy.exists() and not (copy.is_file() and copy.read_bytes() == original.read_bytes())


def _named_files(value: Any, folder: Path) -> Iterator[str]:
    """Texts in a model file that are the names of files below its folder."""
    if isinstance(value, dict):
        for entry in value.values():
            yield from _named_files(entry, folder)
    elif isinstance(value, list):
        for entry in value:
            yield from _named_files(entry, folder)
    elif isinstance(value, str) and "." in value and _is_file_below(folder, value):
        yield value


def _is_file_below(folder: Path, name: str) -> bool:
    file = folder / name
    return len(name) < 200 and file.is_file() and folder.resolve() in file.resolve().parents
