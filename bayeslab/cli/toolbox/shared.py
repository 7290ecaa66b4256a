"""Arguments that several commands take, and their output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperCommand

from bayeslab.errors import BayeslabError, OptionError, printable

__all__ = [
    "Command",
    "DataOption",
    "FileArgument",
    "ForceOption",
    "JsonOption",
    "LossOption",
    "RunArgument",
    "SeedOption",
    "assignments",
    "check_output",
    "elsewhere",
    "evidence",
    "output",
    "print_json",
    "read_loss",
    "screened",
    "unscreened",
]

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A model file.", show_default=False)]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, such as runs/radon.", show_default=False)
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", "-d", help="Data: .csv .tsv .parquet .json; default: the data that the model file names."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of all random numbers.")]
LossOption = Annotated[
    str | None,
    typer.Option(
        "--loss",
        metavar="LOSS",
        help="Loss of each action: {ACTION: {STATE: NUMBER}}, a file with it, or the name of a loss.",
    ),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes that work in parallel.")
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://host:8786, whose workers do the work.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
# Parameters of functions whose argument or option has another name.
_SPELLED = {"model": "FILE", "progress": "--quiet", "n": "-n"}


class Command(TyperCommand):
    """A command that refuses an option of one value that is given twice, of which the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command's name."""
        order: list[Any] = [*self.make_parser(ctx).parse_args(args=list(args))[2]] if args else []
        for option in order:
            single = option.param_type_name == "option" and not option.multiple
            if single and order.count(option) > 1 and (not option.is_flag or option.secondary_opts):
                raise typer.BadParameter(f"{option.opts[0]} is given twice; give it once")
        return list(super().parse_args(ctx, args))


class _Screen:
    """Standard output with control characters, which names of columns, levels and files may contain, escaped."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:

        return self.stream.write(printable(text, keep="\n\t"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def screened() -> Iterator[None]:
    """A context in which standard output escapes control characters, so that names cannot alter the terminal."""
    before = sys.stdout
    sys.stdout = cast(TextIO, _Screen(before))
    try:
        yield
    finally:
        sys.stdout = before


def unscreened() -> TextIO:
    """Standard output without escaping, for code that colours it and escapes names itself."""
    return sys.stdout.stream if isinstance(sys.stdout, _Screen) else sys.stdout


def print_json(content: Any) -> None:
    """Print JSON on standard output; NaN and infinity become null."""
    print(json.dumps(_plain(content), ensure_ascii=False, indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return str(value) if isinstance(value, Path) else value


def read_loss(given: str | None) -> Any:
    """The name of a loss, or a loss as ``{action: {state: number}}``, read from the text itself or from a file."""
    from bayeslab.decisions.loss import LOSSES
    from bayeslab.language.model_file import parse_value, read_text

    if given is None or given in LOSSES:
        return given
    path = Path(given)
    known = not given.lstrip().startswith("{") and os.path.exists(path)
    content = parse_value(read_text(path) if known else given)
    if not isinstance(content, dict) or not all(isinstance(entry, dict) for entry in content.values()):
        example = "{act: {yes: 0, no: 1}, wait: {yes: 5, no: 0}}"
        raise OptionError(
            f"a loss is {{ACTION: {{STATE: NUMBER}}}} or a file of that, such as {example}; not '{given}'",
            code="wrong-type",
        )
    for action, entry in content.items():
        for state, cost in entry.items():
            if isinstance(cost, bool) or not isinstance(cost, int | float):
                raise OptionError(
                    f"action '{action}': the loss for the state '{state}' is a number, not {cost!r}", code="wrong-type"
                )
    return content


def assignments(words: list[str], written: Mapping[str, Any] | None = None, option: str = "--set") -> dict[str, Any]:
    """Parse ``key=value`` pairs; values are read as in a model file.

    Parameters
    ----------
    written
        Keys for which the command has its own option, mapped to that option. None allows the key to be set, because
        the option itself was not given.

    Raises
    ------
    typer.BadParameter
        A word without a key, a repeated key, or a key that has its own option.
    """
    from bayeslab.language.model_file import parse_value

    out: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} takes KEY=VALUE, not '{word}'")
        name = key.strip().replace("-", "_")
        if other := (written or {}).get(name):
            raise typer.BadParameter(f"{option} {word}: {name} is written as {other}")
        if name in out:
            raise typer.BadParameter(f"{option} {name}=... is written twice")
        out[name] = parse_value(value)
    return out


def elsewhere(function: Callable[..., Any]) -> dict[str, str]:
    """The argument or option for each parameter of a function that is not one of its further ``**options``.

    ``--set`` cannot give these.
    """
    named = [p.name for p in signature(function).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    return {name: _SPELLED.get(name, f"--{name.replace('_', '-')}") for name in named}


def evidence(
    words: list[str],
    variables: Collection[str],
    states: Mapping[str, Sequence[str]],
    option: str = "--given",
    *,
    form: str = "VARIABLE=STATE",
) -> dict[str, Any]:
    """Parse ``variable=state`` pairs; variable and state may themselves contain ``=``.

    Parameters
    ----------
    variables
        All variables, those with numbers for values too.
    states
        The states of each discrete variable.
    option, form
        How errors name the option and what it takes.

    Returns
    -------
    dict of str to str, float or dict
        Of each variable its state, its number, or ``{state: likelihood}``. A word that is the name of a state is that
        state, also where it could be read as a number or a mapping.

    Raises
    ------
    typer.BadParameter
        A word without ``=``, or a variable given twice.
    """
    out: dict[str, Any] = {}
    for word in words:
        cuts = [i for i, letter in enumerate(word) if letter == "="]
        if not cuts:
            raise typer.BadParameter(f"{option} takes {form}, not '{word}'")
        cut = next((i for i in cuts if word[:i].strip() in variables), cuts[0])
        variable, text = word[:cut].strip(), word[cut + 1 :].strip()
        if variable in out:
            raise typer.BadParameter(f"{option} has '{variable}' twice")
        out[variable] = _evidence_of(text, variable, variables, states)
    return out


def _evidence_of(text: str, variable: str, variables: Collection[str], states: Mapping[str, Sequence[str]]) -> Any:
    from bayeslab.language.model_file import parse_value

    if text in states.get(variable, ()):
        return text
    if text.startswith("{"):
        value = parse_value(text)
        return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else text
    if variable in variables and variable not in states:
        value = parse_value(text)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else text
    return text


def check_output(out: Path | None, *inputs: Path | None, force: bool) -> None:
    """Refuse an output file before any work: one of the inputs always, an existing file unless ``force`` is set.

    Parameters
    ----------
    out
        The file to write; None for none.
    *inputs
        What the command reads: tables, networks, model files (whose tables are read too), run folders.

    Raises
    ------
    OptionError
        The path is an input, a folder, in a folder that does not exist, or an existing file without ``force``.
    """
    from bayeslab.files import shown

    if out is None:
        return
    where = shown(out)
    for source in inputs:
        for read in () if source is None else _read_from(source):
            if os.path.realpath(read) == os.path.realpath(out) or (
                out.exists() and read.exists() and out.samefile(read)
            ):
                raise OptionError(
                    "this file is an input: give another name for the output", where=where, code="file-exists"
                )
    if os.path.isdir(out):
        raise OptionError("this is a folder: give the name of a file", where=where, code="not-a-file")
    if not os.path.isdir(out.parent):
        raise OptionError("its folder does not exist", where=where, code="no-such-file")
    if os.path.lexists(out) and not force:
        raise OptionError("the file exists; --force replaces it", where=where, code="file-exists")


def _read_from(source: Path) -> list[Path]:
    """The files that are read when this source is given."""
    from bayeslab.language.model_file import read

    if os.path.isdir(source):
        return [
            *source.glob("*.json"),
            *source.glob("*.yaml"),
            *source.rglob("*.npz"),
            *source.glob("result.zarr/**/*"),
        ]
    files = [source]
    if source.suffix.lower() in (".yaml", ".yml"):
        try:
            content = read(source)
        except BayeslabError:  # reported when it is read
            return files
        data = content.model.data
        named = [data.table, data.arrays, *data.tables.values()]
        files += [content.folder / name for name in named if name is not None]
        files += [] if content.network is None else [content.network]
    return files


def output(path: Path | None, text: str) -> None:
    """Write text to a file (completely or not at all), or to standard output."""
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from bayeslab.files import shown, write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise BayeslabError(f"cannot be written: {error.strerror}", where=shown(path), code="cannot-write") from None
