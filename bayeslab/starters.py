"""Commented model files to start from: a template of each family, with the columns of a table where one is given."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from bayeslab import registry
from bayeslab.data.cells import number_in
from bayeslab.data.dataset import Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS
from bayeslab.errors import DataError, ModelError, OptionError, hint, listed, printable
from bayeslab.families.regression.spec import PARTS
from bayeslab.files import shown
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.model_file import parse_value
from bayeslab.language.spec import PREDICTED, TRUTHS, ColumnName, DataSource, Problem, parse_model, plain_name

__all__ = ["FAMILIES", "starter"]

_GRAPH = """\
# A bayeslab model file. Check it with    bayeslab check {file}
# try the priors with                     bayeslab simulate {file}
# and fit it with                         bayeslab fit {file} --data your.csv
bayeslab: 1
name: {name}
about: One sentence on what the model is for.

# data:                       # where the data are (or give --data)
#   table: your.csv           # relative to this file; one row an observation
#   rows: obs                 # what the rows are called
#   derive:                   # computed columns; mean and sd keep their values for predictions
#     z: (height - mean(height)) / sd(height)
data:
  rows: obs

dims:
  obs: 20                     # without data: how many rows to simulate. With data, remove this.

model:
  family: graph
  nodes:
    # name: expression         A distribution makes the node random; its names and parameters are PyMC's.
    # name[dim]: expression    One value for each level; a text column of that name is an index: a[group]
    a: Normal(0, 10)
    b: Normal(0, 1)
    sigma: HalfNormal(5)
    x[obs]: index(obs) / 10                # deterministic; with data, a column called x instead
    y[obs]: Normal(a + b * x, sigma)       # observed as soon as the data have a column called y

inference: {{method: auto, draws: 1000, chains: 4}}
seed: 1
"""

_BAYES_NET = """\
# A bayeslab model file: a Bayes net. Check it with    bayeslab check {file}
# ask it with                         bayeslab query {file} --given wet_grass=yes
# learn what is left out with         bayeslab fit {file} --data your.csv
bayeslab: 1
name: {name}
about: One sentence on what the model is for.

# data:                       # where the data are (or give --data)
#   table: your.csv           # a column for each variable that was observed; cells may be empty
data:
  rows: case

model:
  family: bayes_net
  # network: your.bif         # variables may also come from a network file; `learn: all` forgets its tables
  variables:
    # name: {{states: [..], parents: [..], table: ..}}   Without a table it is learned; a single number is
    #                                                  the probability of the first state.
    rain: {{states: [yes, no], table: 0.2}}
    sprinkler: {{states: [on, off], parents: [rain], table: {{yes: 0.01, no: 0.4}}}}
    wet_grass:
      states: [yes, no]
      parents: [sprinkler, rain]
      table:
        "on, yes": 0.99
        "on, no": 0.9
        "off, yes": 0.8
        default: 0.0
      # noisy_or: {{sprinkler: 0.9, rain: 0.8}}          instead of the table: each cause acts by itself
  # hidden: [rain]            # never observed: summed out
  # prior: {{pseudocount: 1}}   # of every cell of the tables that are learned
seed: 1
"""
_HEAD = """\
# A bayeslab model file. Check it with    bayeslab check {file}
# and fit it with                         bayeslab fit {file} --data your.csv
# `bayeslab new NAME --family FAMILY --data your.csv` writes one for the columns of a table.
bayeslab: 1
name: {name}
about: One sentence on what the model is for.

data:
  # table: your.csv           # relative to this file; one row an observation
  rows: obs                   # what a row is

"""
_REGRESSION = (
    _HEAD
    + """\
model:
  family: regression
  formula: y ~ x + z + (1 | group)     # columns of the table; (1 + x | group): slopes that differ between groups
  # formula: {{mu: y ~ x, sigma: ~ x}}   # a formula for each parameter of the likelihood: sigma that varies with x
  likelihood: gaussian                 # or student_t, bernoulli, poisson, negative_binomial, ordered, gamma, ...
  # priors: {{x: "Normal(0, 1)"}}        # default: weak, scaled to the data; `bayeslab check` shows them
  # shrinkage: horseshoe               # for many predictors, most of which matter little
seed: 1
"""
)
_REGRESSIONS = (
    _HEAD
    + """\
model:
  family: regressions
  responses:                  # a regression for each, of the same rows, with all that the family regression has
    weight: {{formula: weight ~ age + (1 | p | group)}}     # effects with the same id, p, are correlated
    length: {{formula: length ~ age + (1 | p | group)}}
    ill: {{formula: ill ~ weight, likelihood: bernoulli}}   # a response can be a predictor of others
  # residuals: [weight, length]         # normal responses whose residuals are correlated
  # mi(weight), in a formula, is a response with missing cells, which are inferred
seed: 1
"""
)
_MIXTURE = (
    _HEAD
    + """\
model:
  family: mixture
  columns: [x, y]
  components: 2               # or [1, 2, 3, 4]: the number is chosen; or dirichlet_process
  component: gaussian         # or student_t, poisson, categorical, any distribution by its name
  # order: x                  # names components by this column's mean
seed: 1
"""
)
_HMM = (
    _HEAD
    + """\
model:
  family: hmm
  columns: [y]                # rows in order of time
  states: 2                   # or names: [calm, storm]
  # sequence: person          # column that separates sequences
  emission: gaussian          # or categorical, poisson, student_t, any distribution by its name
seed: 1
"""
)
_PROCESS = (
    _HEAD
    + """\
model:
  family: gaussian_process
  target: y
  kernel: "Matern52(x)"       # sums and products: ExpQuad(x) + Periodic(x, 1)
  # likelihood: poisson       # default: gaussian
seed: 1
"""
)
_TOPICS = (
    _HEAD
    + """\
model:
  family: topics
  text: text                  # a column with one document in each row
  topics: 10                  # or hdp: as many as the texts need
seed: 1
"""
)
_FEATURES = (
    _HEAD
    + """\
model:
  family: latent_features
  columns: [a, b, c, d]
  kind: gaussian              # factor analysis; or binary, whose features rows have or lack
  features: 2                 # or ibp, with kind: binary: as many as the rows need
seed: 1
"""
)
_FIELD = (
    _HEAD
    + """\
model:
  family: markov_random_field
  variables:
    left: [low, high]
    right: [low, high]
  potentials:                 # non-negative tables; they need not sum to one
    - {{variables: [left, right], table: [[3, 1], [1, 3]]}}
    - {{variables: [left], table: {{low: 1, high: 2}}}}
  given: {{right: high}}        # evidence, or a table of one row
seed: 1
"""
)
_HYPOTHESES = (
    _HEAD
    + """\
model:
  family: hypotheses
  observed: candy             # a column; each hypothesis says how probable its values are
  hypotheses:
    fair: {{prior: 0.9, likelihood: {{cherry: 0.5, lime: 0.5}}}}
    limes_only: {{prior: 0.1, likelihood: {{cherry: 0, lime: 1}}}}
seed: 1
"""
)
_LEARNER = (
    _HEAD
    + """\
model:
  family: learner
  learner: random_forest      # `bayeslab learners` lists them and their options
  target: y                   # names: classification; numbers: regression
  # inputs: [a, b]            # default: all other columns
seed: 1
"""
)

_TEMPLATES = {
    "graph": _GRAPH,
    "regression": _REGRESSION,
    "regressions": _REGRESSIONS,
    "bayes_net": _BAYES_NET,
    "mixture": _MIXTURE,
    "hmm": _HMM,
    "gaussian_process": _PROCESS,
    "topics": _TOPICS,
    "latent_features": _FEATURES,
    "markov_random_field": _FIELD,
    "hypotheses": _HYPOTHESES,
    "learner": _LEARNER,
}
FAMILIES = tuple(_TEMPLATES)

_WORDS_OF_YAML = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
# At most this many predictors enter a starter; words with more levels than this are groups.
_PREDICTORS, _FEW_LEVELS, _NET_LEVELS = 10, 6, 12
# Mean number of words of a cell from which on a column is a text, and largest number that is taken for a count.
_TEXT, _LARGEST_COUNT = 5, 1000
# Names of the results of mixtures, hidden states, features and topics.
_VIEWS = frozenset(("state", "component", "z", "feature", "weights"))
# Rows of the table while its columns are described: no column is called so, and would be left out as their labels.
_NO_COLUMN = "__rows"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, what it holds (numbers, counts, two values, words, groups, names, an index, text), and its levels.

    ``name`` is its name in the model, ``header`` its name in the table.
    """

    name: str
    kind: str
    levels: tuple[str, ...]
    missing: int
    header: str = ""

    @property
    def remark(self) -> str:
        n = len(self.levels)
        kinds = {
            "numbers": "numbers",
            "counts": "counts",
            "two": f"two values, {' and '.join(self.levels)}",
            "words": f"{n} levels",
            "groups": f"{n} groups",
            "names": "a name of each row",
            "index": "consecutive numbers",
            "text": "text",
            "constant": "one value only",
            "mixed": "numbers and words: correct its cells, or list it under `text` or its words under `missing`",
            "unnamed": "a name that models cannot use: `rename` it under `data`",
        }
        renamed = f", called {self.name} in the model" if self.name != self.header else ""
        return kinds[self.kind] + (f", {self.missing} cells missing" if self.missing else "") + renamed


def starter(family: str, name: str, file: str, table: Path | None = None, target: str | None = None) -> str:
    """The text of a model file to start from.

    Parameters
    ----------
    family : str
        One of :data:`FAMILIES`.
    name : str
        The model's name.
    file : str
        The name of the file, for the commands in its comments; a table is named relative to its folder.
    table : Path, optional
        A table whose columns the model uses. Without it the template shows a made-up example.
    target : str, optional
        The column to predict; default: the last one that is not a name of the rows.

    Raises
    ------
    OptionError
        The family has no starter, the target is not a column, or the family has no target.
    DataError
        The table cannot be read, has no columns that suit the family, or has columns whose names the family cannot
        use.
    """
    if family not in FAMILIES:
        raise OptionError(
            f"there is no starter of the family '{family}'{hint(family, FAMILIES)}", code="unknown-family"
        )
    if table is None:
        if target is not None:
            raise OptionError("a target is a column of a table: give --data too", code="conflict")
        return _TEMPLATES[family].format(name=_quoted(name), file=file)
    columns = _columns(table)
    names = {column.header: column.name for column in columns.values()}
    if target is not None and target not in names:
        raise OptionError(f"the table has no column '{target}'{hint(target, names)}", code="unknown-column")
    if family not in _WRITERS:
        raise OptionError(f"a model of the family '{family}' cannot be guessed from a table", code="unsupported")
    body = _WRITERS[family](columns, None if target is None else names[target])
    rows = _free("obs", columns)
    renamed = [f"{new}: {_quoted(header)}" for header, new in names.items() if new != header]
    relative = os.path.relpath(table, Path(file).parent)
    head = [
        f"# Check this file with    bayeslab check {file}",
        f"# and fit it with         bayeslab fit {file}",
        "bayeslab: 1",
        f"name: {_quoted(name)}",
        "about: One sentence on what the model is for.",
        f"data: {{table: {_quoted(relative)}, rows: {rows}"
        + (f", rename: {{{', '.join(renamed)}}}" if renamed else "")
        + "}",
    ]
    remarks = [f"#   {printable(f'{column.header}: {column.remark}')}" for column in columns.values()]
    text = "\n".join([*head, "# Columns of the table:", *remarks, *body, "seed: 1", ""])
    try:
        model = parse_model(parse_value(text))
        registry.load("families", family).check(model, None)
    except (ModelError, Problem) as error:
        raise DataError(
            f"no {family} model can be made of these columns: {error.message}", where=shown(table), code="bad-name"
        ) from None
    return text


# ---------------------------------------------------------------------------------------- columns


def _columns(table: Path) -> dict[str, _Column]:
    """The columns by their names in the model; a name with another meaning there gets an underscore."""
    dataset: Dataset = read_dataset(DataSource(rows=_NO_COLUMN), None, table)
    out = {name: _described(name, column.values, column.absent()) for name, column in dataset.columns.items()}
    if not out:
        raise DataError("the table has no columns", where=shown(table), code="no-columns")
    plain = Counter(map(plain_name, out))  # columns that are called alike in models
    described = [
        column if _is_name(name) and plain[plain_name(name)] == 1 else replace(column, kind="unnamed")
        for name, column in out.items()
    ]
    return {
        name: replace(column, name=name, header=column.name)
        for column in described
        for name in [_free(f"{column.name}_", out) if _has_meaning(column.name) else column.name]
    }


def _has_meaning(name: str) -> bool:
    """True if models or results use the name for something else."""
    tables = (PARTS, _VIEWS, FUNCTIONS, DISTRIBUTIONS, MODIFIERS)
    return any(name in table for table in tables) or PREDICTED.fullmatch(name) is not None


def _is_name(name: str) -> bool:
    """True if a model can name the column."""
    try:
        TypeAdapter(ColumnName).validate_python(name)
    except ValidationError:
        return False
    return True


def _described(name: str, values: np.ndarray, absent: np.ndarray) -> _Column:
    present, missing = values[~absent], int(absent.sum())
    distinct = np.unique(present)
    if values.dtype.kind == "U":
        levels = tuple(map(str, distinct))
        spaces = np.mean([len(str(cell).split()) for cell in present]) if present.size else 0
        numbers = sum(number_in(word) is not None for word in levels)
        if len(levels) < 2:
            kind = "constant"
        elif 0 < numbers < len(levels):
            kind = "mixed"
        elif spaces >= _TEXT:
            kind = "text"
        elif len(levels) == 2:
            kind = "two"
        elif len(levels) <= _FEW_LEVELS:
            kind = "words"
        else:
            kind = "names" if len(levels) > 0.9 * present.size else "groups"
        return _Column(name, kind, levels, missing)
    whole = bool(np.all(present == np.floor(present)))
    counting = whole and present.size > 0 and present.min() >= 0 and present.max() <= _LARGEST_COUNT
    if distinct.size < 2:
        kind = "constant"
    elif distinct.size == 2 and whole and set(distinct.tolist()) == {0, 1}:
        return _Column(name, "two", ("0", "1"), missing)
    elif counting and not (distinct.size == present.size and np.all(np.diff(distinct) == 1)):
        kind = "counts"
    else:
        kind = "index" if counting else "numbers"
    return _Column(name, kind, tuple(f"{x:g}" for x in distinct) if distinct.size == 2 else (), missing)


def _of(columns: Mapping[str, _Column], *kinds: str, but: str | None = None) -> list[_Column]:
    return [column for column in columns.values() if column.kind in kinds and column.name != but]


def _needed(found: Sequence[_Column], least: int, what: str) -> list[_Column]:
    if len(found) < least:
        raise DataError(f"this family needs {what}, and the table has {len(found)} such columns", code="no-columns")
    return list(found)


def _target(columns: Mapping[str, _Column], given: str | None, *kinds: str) -> _Column:
    if given is not None:
        if columns[given].kind not in kinds:
            raise DataError(f"'{given}' cannot be the target: it is {columns[given].remark}", code="impossible-value")
        return columns[given]
    return _needed(_of(columns, *kinds), 1, "a column to predict")[-1]


def _quoted(name: str) -> str:
    """A name as YAML reads it back."""
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", name) and name.lower() not in _WORDS_OF_YAML
    return name if plain else json.dumps(name, ensure_ascii=False)


def _in_formula(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in TRUTHS else f"`{name}`"


def _flow(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


# --------------------------------------------------------------------------------------- families


def _regression(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    y = _target(columns, given, "numbers", "counts", "two", "words")
    inputs = _of(columns, "numbers", "counts", "two", "words", but=y.name)[:_PREDICTORS]
    groups = _of(columns, "groups", but=y.name)
    terms = [_in_formula(x.name) for x in inputs] + [f"(1 | {_in_formula(g.name)})" for g in groups]
    likelihood, why = {
        "numbers": ("gaussian", "or student_t with outliers, lognormal or gamma for positive numbers"),
        "counts": ("negative_binomial", "or poisson, where the variance equals the mean"),
        "two": ("bernoulli", ""),
        "words": ("ordered", "levels in the order that `dims` gives"),
    }[y.kind]
    order = f"dims: {{{_quoted(y.name)}: {_flow(y.levels)}}}     # in order, smallest first"
    formula = f"{_in_formula(y.name)} ~ {' + '.join(terms) or '1'}"
    first = _quoted(inputs[0].name) if inputs else "intercept"
    return [
        *([order] if y.kind == "words" else []),
        "model:",
        "  family: regression",
        f"  formula: {json.dumps(formula, ensure_ascii=False) if '`' in formula else formula}",
        f"  likelihood: {likelihood}" + (f"          # {why}" if why else ""),
        f'  # priors: {{{first}: "Normal(0, 1)"}}    # default: weak, scaled to the data',
        "  # shrinkage: horseshoe       # for many predictors, most of which matter little",
    ]


def _regressions(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    named = {name: column for name, column in columns.items() if plain_name(name) == name and name not in PARTS}
    possible = _of(named, "numbers", "counts", "two")
    if given is not None:
        possible = [*(x for x in possible if x.name != given), _target(named, given, "numbers", "counts", "two")]
    responses = _needed(possible, 2, "two columns to predict, whose names are names of nodes")[-2:]
    names = [y.name for y in responses]
    inputs = [x for x in _of(columns, "numbers", "counts", "two", "words") if x.name not in names][:_PREDICTORS]
    groups = [g for g in _of(columns, "groups") if g.name not in names]
    terms = [_in_formula(x.name) for x in inputs] + [f"(1 | p | {_in_formula(g.name)})" for g in groups[:1]]
    words = {"numbers": "gaussian", "counts": "negative_binomial", "two": "bernoulli"}
    out = ["model:", "  family: regressions", "  responses:"]
    for y in responses:
        formula = f"{y.name} ~ {' + '.join(terms) or '1'}"
        text = json.dumps(formula, ensure_ascii=False) if "`" in formula else formula
        out += [f"    {_quoted(y.name)}:", f"      formula: {text}", f"      likelihood: {words[y.kind]}"]
    first, second = names
    out.append(
        f"  # a response can be a predictor of the other: {second} ~ {first}, or mi({first}) if it has missing cells"
    )
    if all(y.kind == "numbers" for y in responses):
        out.append(f"  # residuals: {_flow(names)}       # residuals that are correlated")
    return out


def _graph(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    y = _target(columns, given, "numbers")
    complete = [x for x in _of(columns, "numbers", "counts", but=y.name) if not x.missing]
    inputs = [x for x in complete if x.name not in TRUTHS][:3]
    clash = [x.name for x in (y, *inputs) if re.fullmatch(r"[A-Za-z_]\w*", x.name) is None]
    if clash:
        raise DataError(
            f"nodes are names without spaces or signs, unlike {listed(clash)}: use `rename` under `data`",
            code="bad-name",
        )
    rows = _free("obs", columns)
    a, sigma, *slopes = (_free(name, columns) for name in ("a", "sigma", *(f"b_{x.name}" for x in inputs)))
    nodes = [f"    {name}: Normal(0, {10 if name == a else 1})" for name in (a, *slopes)]
    terms = [f"{b} * ({x.name} - mean({x.name})) / sd({x.name})" for b, x in zip(slopes, inputs, strict=True)]
    mean = " + ".join([a, *terms])
    return [
        "# Priors are in the units of the data: change them to what you know.",
        "model:",
        "  family: graph",
        "  nodes:",
        *nodes,
        f"    {sigma}: HalfNormal(10)",
        f"    {y.name}[{rows}]: Normal({mean}, {sigma})",
    ]


def _free(name: str, columns: Iterable[str]) -> str:
    """A name that no column has."""
    taken = set(map(plain_name, columns))
    while name in taken:
        name += "_"
    return name


def _bayes_net(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    found = _needed(
        [c for c in _of(columns, "two", "words", "groups") if len(c.levels) <= _NET_LEVELS], 2, "two columns of words"
    )
    return [
        "model:",
        "  family: bayes_net",
        "  variables:",
        *(f"    {_quoted(c.name)}: {{states: {json.dumps(list(c.levels), ensure_ascii=False)}}}" for c in found),
        "  structure: {score: bdeu}     # unknown, so sampled; or remove it and give `parents: [..]` above",
    ]


def _mixture(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    found = _needed(_of(columns, "numbers", "counts"), 1, "a column of numbers")
    return [
        "model:",
        "  family: mixture",
        f"  columns: {_flow([c.name for c in found[:_PREDICTORS]])}",
        "  components: [1, 2, 3, 4]     # the number is chosen; or one number, or dirichlet_process",
        "  component: gaussian",
    ]


def _hmm(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    found = _needed(_of(columns, "numbers", "counts"), 1, "a column of numbers")
    return [
        "# The rows are in order of time. `sequence: COLUMN` separates several sequences.",
        "model:",
        "  family: hmm",
        f"  columns: {_flow([c.name for c in found[:_PREDICTORS]])}",
        "  states: 2",
    ]


def _process(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    y = _target(columns, given, "numbers", "counts")
    complete = [c for c in _of(columns, "numbers", "counts", "index", but=y.name) if not c.missing]
    inputs = _needed(complete, 1, "a column of numbers without missing cells, beside the target")
    x = _in_formula(inputs[0].name)
    return [
        "model:",
        "  family: gaussian_process",
        f"  target: {_quoted(y.name)}",
        f"  kernel: {json.dumps(f'Matern52({x})')}         # sums and products: ExpQuad(x) + Periodic(x, 1)",
    ]


def _topics(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    text = _needed(_of(columns, "text"), 1, "a column of text")[-1]
    return [
        "model:",
        "  family: topics",
        f"  text: {_quoted(text.name)}",
        "  topics: 10     # or hdp: as many as the texts need",
    ]


def _features(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    found = _needed(_of(columns, "numbers", "counts"), 3, "three columns of numbers")
    return [
        "model:",
        "  family: latent_features",
        f"  columns: {_flow([c.name for c in found])}",
        "  kind: gaussian",
        "  features: 2",
    ]


def _learner(columns: Mapping[str, _Column], given: str | None) -> list[str]:
    complete = {name: column for name, column in columns.items() if not column.missing}
    y = _target(columns if given else complete, given, "numbers", "counts", "two", "words", "groups")
    inputs = _needed(
        _of(columns, "numbers", "counts", "two", "words", "groups", but=y.name), 1, "columns to predict from"
    )
    missing = any(column.missing for column in inputs)
    return [
        "model:",
        "  family: learner",
        "  learner: random_forest       # `bayeslab learners` lists them",
        f"  target: {_quoted(y.name)}",
        f"  inputs: {_flow([column.name for column in inputs])}",
        *(["  task: classification"] if len(y.levels) == 2 else []),
        *(["  impute: median"] if missing else []),
    ]


_WRITERS = {
    "regression": _regression,
    "regressions": _regressions,
    "graph": _graph,
    "bayes_net": _bayes_net,
    "mixture": _mixture,
    "hmm": _hmm,
    "gaussian_process": _process,
    "topics": _topics,
    "latent_features": _features,
    "learner": _learner,
}
