"""Model files: YAML 1.2 in, a checked :class:`~bayeslab.language.spec.Model` out, and back.

A file is data. The YAML is read event by event with limits on size and depth, without tags,
anchors or aliases, and into plain Python values. The line and column of every value are stored, so
that later errors can point to it.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from bayeslab import registry
from bayeslab.errors import BayeslabError, ModelError
from bayeslab.files import ordinary_size, write_text
from bayeslab.files import shown as shortened
from bayeslab.formats.network_files import declared_variables, is_network_file
from bayeslab.language.spec import Model, Problem, parse_model

__all__ = ["Source", "dump", "load", "parse_value", "read", "read_text", "save", "schema"]

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
MAX_VALUES = 50_000
# Of a whole number: those of the largest floating-point number.
_MOST_BITS = 1024

type Path_ = tuple[Any, ...]


class Source:
    """A model with its file: the place of each value, and the folder of relative paths.

    Attributes
    ----------
    model : Model
    folder : Path
        Folder of the file.
    network : Path or None
        The network file that the model names.
    """

    def __init__(
        self, model: Model, file: Path, shown: str, places: dict[Path_, tuple[int, int]], network: Path | None = None
    ) -> None:
        self.model, self.file, self.folder, self.network = model, file, file.parent, network
        self._shown, self._places = shown, places

    def where(self, path: Path_, offset: int = 0) -> str:
        """``file:line:column`` of a value (or of its nearest parent in the file)."""
        return _where(self._shown, self._places, path, offset)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors about a value of the model, raised inside, point at its place in the file."""
        try:
            yield
        except BayeslabError as error:
            # Inference options that are not in the file were given as arguments.
            beside = error.path[:1] == ("inference",) and tuple(error.path) not in self._places
            if not error.path or beside:
                raise
            raise error.located(self.where(error.path, error.offset)) from error.__cause__


def _where(shown: str, places: dict[Path_, tuple[int, int]], path: Path_, offset: int = 0) -> str:
    exact = path in places
    while path and path not in places:
        path = path[:-1]
    line, column = places.get(path, (1, 1))
    return f"{shown}:{line}:{column + (offset if exact else 0)}"


def load(path: str | os.PathLike[str]) -> Model:
    """Read and check a model file.

    Raises
    ------
    ModelError
        The file is not valid; the message has ``file:line:column``, what was given and what is allowed.
    """
    return read(path).model


def read(path: str | os.PathLike[str]) -> Source:
    """Like :func:`load`, with the places of the values and the folder of the file."""
    file = Path(path)
    shown = shortened(path)
    if is_network_file(file):
        return _network_source(file, shown)
    text = _text(file, shown)
    written, places = _plain(text, shown)
    content = _with_network(written, file.parent, shown, places)
    try:
        model = parse_model(content)
    except Problem as problem:
        raise ModelError(problem.message, where=_where(shown, places, problem.path), code=problem.code) from None
    network = None if content is written else file.parent / written["model"]["network"]
    source = Source(model, file, shown, places, network)
    with source.located():
        registry.load("families", model.model.family).check(model, None)
    return source


def _network_source(file: Path, shown: str) -> Source:
    """A network file as a model of the family ``bayes_net``."""
    name = re.sub(r"[^\w .-]", " ", file.stem).strip(" .-")[:80] or "network"
    content = {"bayeslab": 1, "name": name, "model": {"family": "bayes_net", "network": file.name}}
    return Source(parse_model(_with_network(content, file.parent, shown, {})), file, shown, {})


def _with_network(content: Any, folder: Path, shown: str, places: dict[Path_, tuple[int, int]]) -> Any:
    """The content merged with the network file it names; variables in the model file take precedence."""
    part = content.get("model") if isinstance(content, dict) else None
    if not isinstance(part, dict) or part.get("family") != "bayes_net" or "network" not in part:
        return content
    where = _where(shown, places, ("model", "network"))
    named, variables = part["network"], part.get("variables") or {}
    if not isinstance(named, str):
        raise ModelError(f"network is the path of a network file, not {named!r:.60}", where=where, code="wrong-type")
    try:
        declared = declared_variables(folder / named)
    except ModelError as error:
        raise error if error.where else ModelError(error.message, where=where, code=error.code) from None
    for name in variables if isinstance(variables, dict) else ():
        places.setdefault(("model", "variables", name), places.get(("model", "network"), (1, 1)))
    rest = {key: value for key, value in part.items() if key not in ("network", "variables")}
    return content | {"model": rest | {"variables": declared | variables}}


def read_text(path: Path) -> str:
    """The text of a small file, such as a model file.

    Raises
    ------
    ModelError
        The file is missing, not an ordinary file, too large, empty, or not UTF-8.
    """
    return _text(path, shortened(path))


def _text(file: Path, shown: str) -> str:
    if os.path.isdir(file):
        raise ModelError(
            "this is a folder, not a model file; a run is opened by bl.open, or bayeslab show",
            where=shown,
            code="not-a-file",
        )
    try:
        size = ordinary_size(file, ModelError)
    except ModelError:
        if os.path.lexists(file) or not os.path.isdir(file.parent) or len(file.name) > 255:
            raise
        near = sorted(p.name for p in file.parent.glob("*.yaml"))
        there = f"; model files there: {', '.join(near[:6])}" if near else ""
        raise ModelError(f"no such model file{there}", where=shown, code="no-such-file") from None
    if size > MAX_BYTES:
        raise ModelError(
            f"the file has {size:,} bytes; a model file has at most {MAX_BYTES:,}", where=shown, code="too-costly"
        )
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}", where=shown, code="unreadable") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise ModelError(
            f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8",
            where=f"{shown}:{line}:{column}",
            code="not-text",
        ) from None
    if "\0" in text:
        raise ModelError("contains a NUL character; this is not a text file", where=f"{shown}:1:1", code="not-text")
    if not text.strip():
        raise ModelError("the file is empty; `bayeslab new` writes a starter", where=f"{shown}:1:1", code="malformed")
    return text


def _plain(text: str, shown: str) -> tuple[Any, dict[Path_, tuple[int, int]]]:
    """YAML text as plain values, and the (line, column) of each, counted from one."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = "1.2"
    yaml.allow_duplicate_keys = False
    try:
        _guard(text, shown)
        # The file must be a single document: compose raises for a second one.
        root = yaml.compose(StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = (error.problem or error.context or "not valid YAML").split("\n")[0]
        if "".join(text.splitlines()[line - 1 : line]).partition(": ")[2].lstrip().startswith("["):
            message += "; an expression that starts with [ and has brackets inside needs quotes"
        raise ModelError(f"not valid YAML: {message}", where=f"{shown}:{line}:{column}", code="malformed") from None
    except (YAMLError, ValueError, RecursionError) as error:
        message = str(error).split("\n")[0]
        raise ModelError(f"not valid YAML: {message}", where=f"{shown}:1:1", code="malformed") from None
    places: dict[Path_, tuple[int, int]] = {}
    return (_value(root, (), places, shown) if root is not None else None), places


def _guard(text: str, shown: str) -> None:
    """Refuse YAML features that plain data do not need, before anything is built."""
    depth = values = documents = 0
    for event in YAML(typ="safe", pure=True).parse(StringIO(text)):
        mark = getattr(event, "start_mark", None)
        where = f"{shown}:{mark.line + 1}:{mark.column + 1}" if mark else shown
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if event.version or event.tags:
                raise ModelError("YAML directives (%) are not allowed in a model file", where=where, code="malformed")
            if documents > 1:
                raise ModelError(
                    "a second YAML document starts here; a model file has one", where=where, code="malformed"
                )
        if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor):
            raise ModelError(
                "anchors and aliases (& and *) are not allowed in a model file", where=where, code="malformed"
            )
        if isinstance(event, ScalarEvent | CollectionStartEvent):
            values += 1
            tag = getattr(event, "tag", None)
            if tag is not None and not (isinstance(event, ScalarEvent) and str(tag) == "!"):
                raise ModelError(
                    f"YAML tags such as {str(tag)[:40]} are not allowed in a model file", where=where, code="malformed"
                )
            if values > MAX_VALUES:
                raise ModelError(
                    f"more than {MAX_VALUES:,} values; put data in a table", where=where, code="too-costly"
                )
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                kind = "mappings" if isinstance(event, MappingStartEvent) else "lists"
                raise ModelError(f"{kind} nested deeper than {MAX_DEPTH} levels", where=where, code="too-deep")
        if isinstance(event, CollectionEndEvent):
            depth -= 1


def _value(node: Any, path: Path_, places: dict[Path_, tuple[int, int]], shown: str) -> Any:
    mark = node.start_mark
    quoted = 1 if getattr(node, "style", None) in ("'", '"') else 0
    places[path] = (mark.line + 1, mark.column + 1 + quoted)
    if node.id == "scalar":
        return _scalar(node, places[path], shown)
    if node.id == "sequence":
        return [_value(child, (*path, i), places, shown) for i, child in enumerate(node.value)]
    out: dict[Any, Any] = {}
    for key_node, child in node.value:
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if key_node.id != "scalar":
            raise ModelError(
                "a key must be a word, not a list or mapping", where=f"{shown}:{line}:{column}", code="malformed"
            )
        # Keys are always text, so that a state named `1` or `no` keeps its name.
        key = key_node.value
        if key in out:
            raise ModelError(f"the key '{key}' occurs twice", where=f"{shown}:{line}:{column}", code="duplicate")
        out[key] = _value(child, (*path, key), places, shown)
        if out[key] is None:
            places[(*path, key)] = (line, column)  # the value is empty: point to the key
        places.setdefault((*path, key, "[key]"), (line, column))
    return out


def _scalar(node: Any, place: tuple[int, int], shown: str) -> Any:
    text, tag = node.value, str(node.tag).rpartition(":")[2]
    if node.style in ("'", '"', "|", ">"):
        return text
    try:
        match tag:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                whole = int(text.replace("_", ""), 0 if text.lstrip("+-")[:2] in ("0x", "0o") else 10)
                if whole.bit_length() > _MOST_BITS:  # hexadecimal digits have no limit, and no message could print it
                    raise OverflowError
                return whole
            case "float":
                word = text.lower().replace("_", "").lstrip("+-").lstrip(".")
                if word in ("inf", "nan"):
                    return float(text[0].replace(".", "") + word if text[0] in "+-" else word)
                if math.isinf(number := float(text)):
                    raise OverflowError
                return number
    except OverflowError:
        raise ModelError(
            f"{text[:40]}{'…' if len(text) > 40 else ''} is beyond the largest number, 1.8e308",
            where=f"{shown}:{place[0]}:{place[1]}",
            code="too-large",
        ) from None
    except ValueError:
        raise ModelError(
            f"'{text[:40]}' is not a number", where=f"{shown}:{place[0]}:{place[1]}", code="not-a-number"
        ) from None
    return text


def parse_value(text: str) -> Any:
    """Parse one value in the syntax of model files: ``1e-3``, ``[1, 2]``, ``{mu: 0}``, text."""
    return _plain(text, "value")[0] if text.strip() else text


def dump(model: Model) -> str:
    """A model as the text of a model file."""
    out = StringIO()
    yaml = YAML()
    yaml.width = 110
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(_flowing(model.to_dict()), out)
    return out.getvalue()


def _flowing(value: Any) -> Any:
    """The value with lists of plain values in flow style, on one line."""

    if isinstance(value, dict):
        return {key: _flowing(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    out = CommentedSeq(_flowing(inner) for inner in value)
    if all(not isinstance(inner, dict | list) for inner in value):
        out.fa.set_flow_style()
    return out


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model file, replacing an existing one atomically; :func:`load` reads back an equal model."""
    write_text(Path(path), dump(model))


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of model files, for completion and checks in editors."""
    out = Model.model_json_schema()
    definitions = out.setdefault("$defs", {})
    families = []
    for name in registry.names("families"):
        part = registry.load("families", name).Spec.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(part.pop("$defs", {}))
        definitions[part["title"]] = part
        families.append({"$ref": f"#/$defs/{part['title']}"})
    definitions.pop("Family", None)
    out["properties"]["model"] = {"oneOf": families, "description": "The model: a family and its parts."}
    out["properties"]["bayeslab"]["const"] = 1
    out["required"] = ["bayeslab", "model"]
    out["title"] = "bayeslab model file"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | json.loads(json.dumps(out))
