"""The model as a validated, frozen object: the content of a model file."""

from __future__ import annotations

import hashlib
import json
import keyword
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal
from unicodedata import normalize

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from bayeslab import registry
from bayeslab.errors import (
    Flaw,
    ModelError,
    Reason,
    hint,
    listed,
)
from bayeslab.language.wording import code_of, expected, place, subject

__all__ = [
    "FORMAT",
    "PREDICTED",
    "RESERVED",
    "TRUTHS",
    "ColumnName",
    "DataSource",
    "Family",
    "Folding",
    "Identifier",
    "Model",
    "Problem",
    "Spec",
    "columns_once",
    "node_name",
    "parse_model",
    "plain_name",
    "unquoted",
]

FORMAT = 1

# Maximum length of a dimension; its positions take half a gigabyte.
_MOST_LEVELS = 50_000_000
# Keys of the data section that determine how data are read.
_READING = ("rows", "dims", "rename", "missing", "text", "derive")
# Dimensions that PyMC and ArviZ reserve.
RESERVED = frozenset(("chain", "draw", "sample", "__sample__"))
# Columns of the table of predictions, which labels of rows must not use.
PREDICTED = re.compile(r"mean|sd|median|node|probability|most_probable|eti\d+_[lu]b")
_IDENTIFIER = re.compile(r"[^\W\d]\w*\Z")


def _identifier(word: str) -> str:
    word = normalize("NFKC", word)
    if not _IDENTIFIER.match(word):
        raise Flaw(f"'{word}' is not a name: use letters, digits and _, not starting with a digit", code="bad-name")
    if word in RESERVED:
        raise Flaw(f"'{word}' is reserved by the results format; choose another name", code="reserved-name")
    return word


def _column_name(word: str) -> str:
    if not word.strip() or len(word) > 200 or any(ord(letter) < 32 or letter == "`" for letter in word):
        raise Flaw(
            f"{word[:60]!r} is not a name of a column, which has 1 to 200 characters and no backtick: give the column"
            " another name under data.rename",
            code="bad-name",
        )
    return _identifier(plain_name(word))


def columns_once(value: Any) -> Any:
    """Validate a mapping by columns: two keys for the same column are refused."""
    plain = [plain_name(key) for key in value if isinstance(key, str)] if isinstance(value, Mapping) else []
    twice = next((name for at, name in enumerate(plain) if name in plain[:at]), None)
    if twice is not None:
        raise Flaw(f"two keys are the column '{twice}'", code="duplicate")
    return value


# Words that are values in expressions; a column with such a name is renamed.
TRUTHS = ("True", "False", "None")


def plain_name(column: str) -> str:
    """The name of a column in results: each run of characters that are not valid in names becomes one ``_``.

    >>> [plain_name(name) for name in ("age", "Blood pressure (mmHg)", "log(y)", "2nd", "%", "kg/m²", "True")]
    ['age', 'Blood_pressure_mmHg', 'log_y', 'column_2nd', 'column', 'kg_m2', 'column_True']
    """
    # Normalised like names in Python: the micro sign becomes the letter mu, m² becomes m2.
    column = normalize("NFKC", column)
    if column in TRUTHS:
        return f"column_{column}"
    if column.isidentifier():
        return column
    word = "".join(letter if f"a{letter}".isidentifier() else " " for letter in column)
    word = "_".join(word.split())
    return word if word.isidentifier() else f"column_{word}".rstrip("_")


def node_name(column: str) -> str:
    """A column or an expression as the name of a node: a plain name that is not a Python keyword."""
    word = plain_name(column)
    return f"{word}_" if keyword.iskeyword(word) else word


def unquoted(text: str) -> str:
    """A text with names in backticks replaced by plain names; text within other quotes is unchanged.

    >>> unquoted("mean(`a b`) + u['`']")
    "mean( a_b ) + u['`']"
    """
    if "`" not in text:
        return text

    def plainly(match: re.Match[str]) -> str:
        return f" {plain_name(match[1])} " if match[1] is not None else match[0]

    return re.sub(r"'[^']*'|\"[^\"]*\"|`([^`]+)`", plainly, text)


Identifier = Annotated[str, AfterValidator(_identifier)]
# The name of a table's column, of any form; stored as its plain name.
ColumnName = Annotated[str, AfterValidator(_column_name)]
Label = str | bool | int | float


class Spec(BaseModel):
    """Base of all specs: frozen, without unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)


class DataSource(Spec):
    """The data section: the place of the data and the names of their dimensions."""

    table: str | None = Field(default=None, description="A table (.csv, .tsv, .parquet, .json), relative to the file.")
    rows: Identifier = Field(default="obs_id", description="Name of the dimension of the table's rows.")
    streamed: bool = Field(
        default=False,
        description="Whether the table is larger than memory: a .parquet or .csv file, or many (`big/*.parquet`), whose"
        " rows DuckDB folds to distinct rows with counts, or to means and covariances. For models that need no more.",
    )
    tables: dict[Identifier, str] = Field(
        default_factory=dict,
        description="Further tables, one per dimension: the key is the dimension of the rows; a column of the same "
        "name has the dimension's levels, in the table's order.",
    )
    arrays: str | None = Field(default=None, description="A JSON file: {name: number or nested lists}.")
    dims: dict[Identifier, list[Identifier]] = Field(
        default_factory=dict, description="Dimension names of arrays; one-dimensional ones default to `rows`."
    )
    rename: dict[Identifier, str] = Field(
        default_factory=dict,
        description="New names of columns: new name, name in the data. Example: `pressure: Blood pressure (mmHg)`.",
    )
    missing: list[str | int | float] = Field(
        default_factory=list,
        description="Words and numbers for missing cells, such as ['?', -999], besides empty cells, NA, N/A, NaN,"
        " nan and null. A word that reads as a number also marks that number as missing in numeric columns from any"
        " source.",
    )
    text: list[ColumnName] = Field(
        default_factory=list,
        description="Columns to read as factors, whatever their cells look like (codes such as 1 and 01). In them only"
        " empty cells and the words of `missing` are missing.",
    )
    derive: dict[Identifier, str] = Field(
        default_factory=dict,
        description="Computed columns: name: expression over columns. Reductions (mean, sd, ...) keep the "
        "values of the fit when the model predicts new data.",
    )
    labels: dict[ColumnName, str] = Field(
        default_factory=dict,
        description="Titles of columns in plots and tables. Example: `radon: Radon level`.",
    )
    units: dict[ColumnName, str] = Field(
        default_factory=dict, description="Units of columns, which plots and tables add. Example: `radon: pCi/L`."
    )

    def title(self, column: str) -> str:
        """The label of a column, or its name, with its unit.

        >>> source = DataSource(labels={"radon": "Radon level"}, units={"radon": "pCi/L", "area": "m²"})
        >>> source.title("radon"), source.title("area"), source.title("floor")
        ('Radon level (pCi/L)', 'area (m²)', 'floor')
        """
        known, unit = self.labels.get(column, column), self.units.get(column)
        return f"{known} ({unit})" if unit else known


@dataclass(frozen=True, slots=True)
class Folding:
    """What a model needs of the rows of a table: the distinct values of some columns, and sums over others.

    Attributes
    ----------
    distinct : frozenset of str
        Columns of which the model needs each combination of values, and how many rows have it.
    summed : frozenset of str
        Columns of numbers of which it needs means and covariances within each combination.
    chain : tuple of (str, tuple of str)
        If the model needs less of complete rows than counts of whole rows: the distinct columns in an order, each with
        the earlier ones together with which its counts suffice; these are counted together with one another before.
    advice : str
        What to do if there are too many combinations.
    """

    distinct: frozenset[str]
    summed: frozenset[str] = frozenset()
    chain: tuple[tuple[str, tuple[str, ...]], ...] = ()
    advice: str = "round the numbers among them in a column of the table, or leave out columns"


class Family(Spec):
    """Base of the model families; the name in the file is the module's name."""

    family: str
    # Whether the family uses the original names of columns; otherwise plain names.
    any_names: ClassVar[bool] = False
    # Whether it uses the rows of one table only, so that a column of another is an error.
    of_rows: ClassVar[bool] = True
    # Whether it is the model language, in which the user writes the nodes.
    is_language: ClassVar[bool] = False
    # Whether it is a learner: trained, without a posterior.
    is_learner: ClassVar[bool] = False

    def __init__(self, **content: Any) -> None:
        """Validate the content; errors of pydantic become one line, as for a model file."""
        try:
            super().__init__(**content)
        except ValidationError as error:
            problem = Problem.first(error, {("model",): type(self).model_fields}, content, ("model",))
            raise ModelError(problem.message, path=problem.path, code=problem.code) from None

    @abstractmethod
    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """Names of the observed nodes whose values the model predicts.

        Parameters
        ----------
        columns
            Names of the data's columns; empty if the data are not known.
        """

    def factors(self, dims: Collection[str]) -> set[str]:
        """Dimensions that the model indexes by a column of the same name.

        Default: those that the file declares.

        Parameters
        ----------
        dims
            Dimensions that the file declares.
        """
        return set(dims)

    def chosen_outcome(self) -> str | None:
        """The outcome that the file chooses for predictions; default None."""
        return None

    def named_inputs(self) -> list[str]:
        """The input columns in the file, in order; default: none."""
        return []

    def distributions(self, outcome: str) -> set[str]:
        """Names of the distributions in the file for an outcome; default: none."""
        return set()

    def takes_gaps(self) -> bool:
        """Whether cells of the columns may be missing; default: they may."""
        return True

    def folding(self, columns: Set[str], numbers: Set[str]) -> Folding | Reason:
        """What the model needs of the rows of a table that is larger than memory, or why it needs them all.

        Default: it needs them all.

        Parameters
        ----------
        columns
            All columns, computed ones among them.
        numbers
            Those of numbers.
        """
        return Reason(f"the family {self.family} needs every row in memory", code="unsupported")

    def levels(self) -> dict[str, list[str]]:
        """Ordered levels of columns that the model declares; those of other columns come from the data."""
        return {}

    def categories(self, data: Any) -> Mapping[str, str | None]:
        """Categorical outcomes, each with the dimension whose labels are its levels (None: its own dimension).

        ``data`` is a :class:`~bayeslab.data.bound.Data` in which these outcomes still have their own levels.
        """
        return {}


class Model(Spec):
    """A model: the validated content of a model file.

    Parameters
    ----------
    model
        A family's spec (such as ``bl.Graph(nodes={...})``) or a mapping with the key ``family``.
    data, dims, inference, seed, name, about
        As in the model file.
    """

    bayeslab: Literal[1] = Field(default=1, description="Format version of the file.")
    name: Annotated[str, Field(pattern=r"^[^\W]([\w .-]*\w)?$", max_length=80)] = Field(
        default="model", description="Short name; also the name of the run folder."
    )
    about: str = Field(default="", description="What the model is for, in a sentence or two.")
    data: DataSource = Field(default_factory=lambda: DataSource())
    dims: dict[ColumnName, list[Label] | int | str] = Field(
        default_factory=dict,
        description="Dimensions: a list of labels, a length n (with levels 0, 1, ..., n - 1), or the name of another"
        " dimension (a twin).",
    )
    model: Family
    inference: dict[str, Any] = Field(default_factory=dict, description="method and the engine's options.")
    seed: int | None = Field(default=None, ge=0, description="Seed of all random numbers.")

    def __init__(self, **content: Any) -> None:
        try:
            self._fill(content)
        except Problem as problem:
            raise ModelError(problem.message, where=problem.dotted, code=problem.code) from None

    def _fill(self, content: dict[str, Any]) -> None:
        _check_text(content, ())
        content = _with_family(content)
        try:
            super().__init__(**content)
        except ValidationError as error:
            raise Problem.first(error, {(): Model.model_fields, ("data",): DataSource.model_fields}, content) from None

    @field_validator("dims")
    @classmethod
    def _dims(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, entry in value.items():
            if isinstance(entry, int) and entry < 1:
                raise Flaw(f"dimension '{name}' has length {entry}; a length is at least 1", code="out-of-range")
            if isinstance(entry, int) and entry > _MOST_LEVELS:
                given = f"{entry:,}" if entry < 10**30 else "of more than 30 digits"
                raise Flaw(
                    f"dimension '{name}' has length {given}; a length is at most {_MOST_LEVELS:,}", code="out-of-range"
                )
            if isinstance(entry, list) and (not entry or len({str(x) for x in entry}) < len(entry)):
                raise Flaw(f"dimension '{name}' needs at least one label, each label once", code="duplicate")
            if isinstance(entry, str) and isinstance(value.get(entry), str):
                raise Flaw(f"dimension '{name}' is a twin of '{entry}', which is itself a twin", code="contradiction")
        return value

    def factors(self) -> set[str]:
        """Dimensions that the model indexes by a column of the same name."""
        return self.model.factors(self.dims)

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """Names of the observed nodes whose values the model predicts from data with these columns."""
        return self.model.outcomes(columns)

    def declared(self) -> dict[str, frozenset[str]]:
        """Levels that the model declares, by column, as text."""
        dims = {name: entry for name, entry in self.dims.items() if isinstance(entry, list)}
        return {name: frozenset(map(str, words)) for name, words in (dims | self.model.levels()).items()}

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data without defaults; ``Model(**d)`` restores it."""
        out = self.model_dump(mode="json", exclude_defaults=True)
        out["model"] = {"family": self.model.family} | self.model.model_dump(mode="json", exclude_defaults=True)
        return {"bayeslab": FORMAT, "name": self.name} | out

    def digest(self) -> str:
        """SHA-256 of the parts that determine the posterior (without names, descriptions and paths)."""
        content = self.to_dict()
        source = {k: v for k, v in content.pop("data", {}).items() if k in _READING}
        kept = {k: content.get(k) for k in ("dims", "model")} | {"data": source}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


class Problem(Exception):
    """An error in a model: the path of the value, and a message of one line."""

    def __init__(self, path: tuple[Any, ...], message: str, *, code: str) -> None:
        super().__init__(message)
        self.path, self.message, self.code = path, message, code

    @property
    def dotted(self) -> str | None:
        return ".".join(str(part) for part in self.path) or None

    @classmethod
    def first(
        cls,
        error: ValidationError,
        allowed: Mapping[tuple[str, ...], Iterable[str]],
        content: Mapping[str, Any],
        prefix: tuple[Any, ...] = (),
    ) -> Problem:
        """The first problem pydantic found in some content; ``allowed`` has the keys a mapping at a path may have."""
        errors = error.errors(include_url=False)
        problem = errors[0]
        path = prefix + place(problem["loc"], content) + (problem["loc"][-1:] if problem["type"] == "missing" else ())
        code = code_of([problem])
        match problem["type"]:
            case "extra_forbidden" if path[:1] == ("model",) and len(path) == 2 and path[1] in Model.model_fields:
                return cls(path, f"'{path[-1]}' stands at the top level, beside 'model', not in it", code="misplaced")
            case "extra_forbidden":
                return cls(path, f"unknown key '{path[-1]}'{hint(path[-1], allowed.get(path[:-1], ()))}", code=code)
            case "missing":
                return cls(path[:-1], f"the key '{path[-1]}' is missing", code=code)
            case "value_error":
                # An error about a part of the value has its own path.
                more = getattr(problem.get("ctx", {}).get("error"), "path", ())
                return cls(path + tuple(more), problem["msg"].removeprefix("Value error, "), code=code)
            case _:
                given = str(problem.get("input"))[:60]
                if path[:1] == ("dims",):
                    text = f"a dimension is a list of labels, a length, or another dimension, not {given!r}"
                    return cls(path[:2], text, code=code)
                same = [e for e in errors if prefix + place(e["loc"], content) == path]
                return cls(path, f"{subject(path)} is {expected(same)}; given: {given!r}", code=code_of(same))


def parse_model(content: Any) -> Model:
    """Plain data to a :class:`Model`, or :class:`Problem` with the path of what is wrong."""
    if not isinstance(content, Mapping):
        raise Problem(
            (), f"a model file is a mapping of keys to values, not {type(content).__name__}", code="wrong-type"
        )
    version = content.get("bayeslab")
    if version is None:
        raise Problem((), f"the first key must be 'bayeslab: {FORMAT}', the version of the format", code="missing-key")
    if version != FORMAT or isinstance(version, bool):
        raise Problem(
            ("bayeslab",),
            f"unknown format version {version!r}; this bayeslab reads version {FORMAT}",
            code="unknown-format",
        )
    model = Model.__new__(Model)
    model._fill(dict(content))
    return model


_SURROGATE = re.compile("[\ud800-\udfff]")


def _check_text(value: Any, path: tuple[Any, ...]) -> None:
    """Refuse surrogate code points, which cannot be stored in a file, anywhere in the content of a model."""
    if isinstance(value, str):
        if half := _SURROGATE.search(value):
            raise Problem(
                path, f"holds {half[0]!r}, half of a letter (a lone surrogate), which no file can hold", code="not-text"
            )
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            _check_text(key, (*path, key, "[key]"))
            _check_text(entry, (*path, key))
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            _check_text(entry, (*path, place))
    elif isinstance(value, BaseModel):
        _check_text(dict(value), path)


def _with_family(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its family spec built, so that its problems keep their full paths."""
    value = content.get("model")
    if value is None or isinstance(value, Family):
        return content
    if not isinstance(value, Mapping) or not isinstance(value.get("family"), str):
        raise Problem(
            ("model",), f"needs the key 'family': one of {listed(registry.names('families'))}", code="missing-key"
        )
    word = value["family"]
    if not registry.known("families", word):
        raise Problem(
            ("model", "family"),
            f"unknown family '{word}'{hint(word, registry.names('families'))}",
            code="unknown-family",
        )
    spec = registry.load("families", word).Spec
    try:
        return content | {"model": spec.model_validate(dict(value))}
    except ModelError as error:
        if not error.path:
            raise
        raise Problem(error.path, error.message, code=error.code) from None
