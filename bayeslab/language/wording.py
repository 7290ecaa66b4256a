"""Messages for invalid values: pydantic's errors in the wording of bayeslab's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from bayeslab.errors import hint

__all__ = ["code_of", "expected", "parameter_sentence", "place", "subject", "type_words"]

_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "is_instance_of": "a mapping",
    "none_required": "left out",
    "invalid_key": "a mapping whose keys are texts",
    "string_pattern_mismatch": "letters, digits, spaces, '.', '_' and '-', a letter or a digit first and last",
    "finite_number": "a finite number",
}
# Errors in a part of an alternative that itself has the right type.
_TOLD_OTHERWISE = ("value_error", "extra_forbidden", "missing")
_SIGNS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "≥"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "≤"),
}


# Error codes by pydantic's types of wrong values; all other types are wrong-type.
CODES = {
    "extra_forbidden": "unknown-key",
    "missing": "missing-key",
    "literal_error": "unknown-word",
    "too_short": "wrong-length",
    "too_long": "wrong-length",
    "string_too_short": "wrong-length",
    "string_too_long": "wrong-length",
    "finite_number": "not-finite",
    "string_pattern_mismatch": "bad-name",
    "int_from_float": "not-whole",
} | dict.fromkeys(_SIGNS, "out-of-range")


def code_of(errors: Sequence[Mapping[str, Any]]) -> str:
    """The error code from pydantic's errors about one value; a union has one error per alternative.

    A rule of the spec (:class:`~bayeslab.errors.Flaw`) has its own code. Errors of an alternative with the right type
    take precedence over others, and a text that is not among the words of a literal is an unknown word.
    """
    rule = next((error for error in errors if error["type"] == "value_error"), None)
    if rule is not None:
        return str(getattr(rule.get("ctx", {}).get("error"), "code", "not-allowed"))
    kinds = [CODES.get(error["type"], "wrong-type") for error in errors]
    if "unknown-word" in kinds and not isinstance(errors[kinds.index("unknown-word")].get("input"), str):
        kinds = [kind for kind in kinds if kind != "unknown-word"] or ["wrong-type"]
    return next((kind for kind in kinds if kind != "wrong-type"), "wrong-type")


def expected(errors: Iterable[Mapping[str, Any]]) -> str:
    """The allowed values in words, from the errors about one value; a union has one error per alternative."""
    words = dict.fromkeys(_expected(error) for error in errors if error["type"] not in _TOLD_OTHERWISE)
    if "a number" in words:
        words.pop("a whole number", None)
    return " or ".join(words)


def _expected(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _TYPES:
        return _TYPES[kind]
    if kind in _SIGNS:
        key, sign = _SIGNS[kind]
        return f"a number {sign} {context[key]:{'g' if isinstance(context[key], float) else ',d'}}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind in ("too_short", "string_too_short"):
        return f"at least {_units(error, context['min_length'])}"
    if kind in ("too_long", "string_too_long"):
        return f"at most {_units(error, context['max_length'])}"
    return "of another kind"


def _units(error: Mapping[str, Any], number: int) -> str:
    one, several = ("letter", "letters") if str(error["type"]).startswith("string") else ("entry", "entries")
    return f"{number:,} {one if number == 1 else several}"


def _kind(error: Mapping[str, Any]) -> str:
    """The allowed value as a noun."""
    words = _expected(error)
    return f"a list of {words}" if error["type"] in ("too_short", "too_long") else words


def parameter_sentence(errors: Sequence[Mapping[str, Any]], given: Any, name: str = "") -> str:
    """The allowed and the given value in one line, from pydantic's errors about one value.

    Parameters
    ----------
    errors
        Errors of the value; a union has one per alternative.
    """
    rule = next((e for e in errors if e["type"] == "value_error"), None)
    if rule is not None:
        return f"'{name}': {rule['msg'].removeprefix('Value error, ')}"
    words = [word for e in errors if e["type"] == "literal_error" for word in _words(e)]
    others = list(dict.fromkeys(_kind(e) for e in errors if e["type"] != "literal_error"))
    if isinstance(given, str) and words:
        return f"'{name}' has no word '{given}'{hint(given, words)}"
    # Errors of an alternative with the right type take precedence.
    inside = [e for e in errors if e["type"] not in _TYPES and e["type"] != "literal_error"]
    others = list(dict.fromkeys(_kind(e) for e in inside)) or others
    quoted = [f"'{word}'" if isinstance(word, str) else str(word) for word in words]
    entries = any(isinstance(part, int) for e in errors for part in e["loc"])
    named = f"each entry of '{name}'" if entries else f"'{name}'"
    return f"{named} is {' or '.join([*others, *quoted])}; given: {given!r}"


def _words(error: Mapping[str, Any]) -> list[Any]:
    """The words of a literal, which pydantic reports as text: 'a', 'b' or 'c'."""
    text = error["ctx"]["expected"].replace(" or ", ", ")
    parts = [part.strip() for part in text.split(", ")]
    return [part.strip("'") if part.startswith("'") else int(part) for part in parts]


def place(loc: Sequence[str | int], content: Any) -> tuple[str | int, ...]:
    """The path of a value inside the validated content, without pydantic's names of alternatives (not keys)."""
    out: list[str | int] = []
    for part in loc:
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif isinstance(content, list | tuple) and isinstance(part, int) and part < len(content):
            content = content[part]  # an entry, where it was a key above
        else:
            continue
        out.append(part)
    return tuple(out)


def subject(path: Sequence[str | int]) -> str:
    """The name of the value at a path, as the subject of a sentence."""
    named = [str(part) for part in path if not isinstance(part, int)]
    numbers = [str(part + 1) for part in path[len(path) - _trailing(path) :] if isinstance(part, int)]
    whole = f"'{named[-1]}'" if named else "the value"
    return f"entry {', '.join(numbers)} of {whole}" if numbers else whole


def _trailing(path: Sequence[str | int]) -> int:
    count = 0
    while count < len(path) and isinstance(path[-1 - count], int):
        count += 1
    return count


def type_words(kind: Any) -> str:
    """A type in the words of a model file, such as ``number or list``."""
    kind = getattr(kind, "__value__", kind)  # the value of a `type X = ...` alias
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_words(inner[0])
    if origin is Literal:
        return " or ".join(str(word) for word in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_words(part) for part in inner))
    if origin is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "mapping"
    if origin is list:
        return "list"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing"}
    return words.get(kind, "any")
