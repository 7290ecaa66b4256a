"""Lower a regression on its data to a graph: a design matrix, and nodes on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.design import Design
from bayeslab.digits import check_size
from bayeslab.errors import BayeslabError, ModelError, hint
from bayeslab.families import graph as graphs
from bayeslab.families.regression.coefficients import problem
from bayeslab.families.regression.data_remarks import remarks_of
from bayeslab.families.regression.formulas import PREDICTED, Formulas, Names, placed
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import LinearPredictor, Lowered, Remark, link_of
from bayeslab.families.regression.nonlinear import NonLinear
from bayeslab.families.regression.rows import Rows, complete_rows, filled, without_response
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regression.writer import Writer, varies
from bayeslab.language.expressions import parse
from bayeslab.language.indexing import labels_are_numbers
from bayeslab.language.spec import Model

__all__ = ["lower", "written_places"]


def lower(model: Model, data: Data, origin: Lowered | None = None, *, gaps: bool = False) -> Lowered:
    """Resolve a regression on its data.

    Parameters
    ----------
    origin
        The regression on the data of the fit, if the model's data are others; None: computed from the model.
    gaps
        Whether rows of the fit without a response are kept, for a model in which their responses are unknowns.
    """
    assert isinstance(model.model, Regression)
    spec, formulas = model.model, model.model.formulas
    base = lower(model, data.origin) if data.origin is not None and origin is None else origin
    remarks: list[Remark] = []
    rows = complete_rows(spec, formulas, data, base, gaps=gaps)
    values = filled(spec.missing, data)
    if base is not None:
        predictors = {
            p.names.parameter: _on(p, values, rows, formulas.path(p.names.parameter)) for p in base.predictors
        }
        nodes, dims = base.nodes, dict(base.model.dims)
        base_dataset = base.data.dataset
        fixed = {
            n: c for n, c in base_dataset.columns.items() if c.dims is not None and base_dataset.rows not in c.dims
        }
    else:
        _refuse_numbers_of_groups(formulas, values, model.dims.keys())
        designs = _designs(spec, formulas, values, rows)
        varying = {parameter: design for parameter, design in designs.items() if not parameter or varies(design)}
        remarks = remarks_of(spec, formulas, varying, rows)
        written = Writer(spec, designs, rows, data.dataset.rows, without_response(formulas.mean, data))
        nodes, dims, fixed = written.nodes, written.dims, written.columns
        predictors = {
            parameter: LinearPredictor(
                Names(parameter), formulas.all[parameter],
                link_of(spec, parameter), design,
                centre := written.centres[parameter], None if centre is None else design.means[1],
                tuple(written.slopes[parameter]),
            )
            for parameter, design in varying.items()
        }  # fmt: skip
    columns = fixed | _columns(spec, data, predictors, rows)
    lowered_model = Model(
        name=model.name, about=model.about, data={"rows": data.dataset.rows}, dims=dims,
        model=graphs.Graph(nodes={**nodes}), seed=model.seed,
    )  # fmt: skip
    row_names = data.labels[data.dataset.rows][rows.complete] if data.dataset.rows in data.labels else None
    levels = (
        {}
        if row_names is None or np.array_equal(row_names, np.arange(len(row_names)))
        else {data.dataset.rows: row_names}
    )
    dataset = Dataset(columns, data.dataset.rows, levels)
    with written_places(spec, nodes):
        graphs.check(lowered_model, set(columns))
    lowered_data = bind(lowered_model, dataset, lowered_model.factors())
    main = predictors.pop("")
    return Lowered(
        spec, lowered_model, lowered_data, main, predictors, rows.y, rows.levels, rows.trials, rows.weights,
        rows.limits, nodes, tuple(remarks),
    )  # fmt: skip


def _refuse_numbers_of_groups(formulas: Formulas, values: Data, declared: Set[str]) -> None:
    """Refuse a column of numbers that is a grouping factor and a predictor: its slope would become effects of levels.

    A column whose levels are listed under ``dims`` is a factor everywhere.
    """
    for parameter, formula in formulas.all.items():
        for name in sorted((formula.with_slopes() & formulas.factors()) - declared):
            term = values.term(name, missing=True)
            if term.codes is not None and values.labels[name].dtype.kind in "iuf":
                raise ModelError(
                    f"'{name}' holds numbers, and is a predictor and a grouping factor: for its slope use a copy,"
                    f" data.derive: {{{name}_number: {name} * 1}}; for an effect of each level write C({name})",
                    path=formulas.path(parameter),
                    code="conflict",
                )


def _designs(spec: Regression, formulas: Formulas, values: Data, rows: Rows) -> dict[str, Design]:
    """The design of each formula at the rows of the fit, by parameter."""
    ordered = likelihood(spec.likelihood).levels == "ordered"
    out: dict[str, Design] = {}
    for parameter, formula in formulas.all.items():
        with placed(formulas.path(parameter)):
            if isinstance(formula, NonLinear):
                design = Design.empty(rows.complete)
            else:
                design = Design.of(formula, values, rows.complete, without_intercept=ordered and not parameter)
        for name, column in zip(design.names, design.matrix.T, strict=True):
            check_size(column, f"the predictor '{name}'")
        if design.offset is not None:
            check_size(design.offset, "the offset")
        out[parameter] = design
    if rows.weights is not None:
        check_size(rows.weights, f"the weight '{spec.weights}'")
    return out


def _on(predictor: LinearPredictor, values: Data, rows: Rows, path: tuple[str, ...]) -> LinearPredictor:
    """The linear predictor on other data, with the coding of the fit."""
    if isinstance(predictor.formula, NonLinear):
        return replace(predictor, design=Design.empty(rows.complete))
    with placed(path):
        return replace(predictor, design=predictor.design.on(predictor.formula, values, rows.complete))


def _quantity(name: str, values: Data, rows: Rows) -> np.ndarray:
    """A column of a non-linear formula at the complete rows."""
    term = values.term(name, missing=True)
    if term.codes is not None:
        raise ModelError(
            f"'{name}' is a factor, and a non-linear formula uses numbers: let a parameter depend on the factor, with"
            f" its formula ~ {name}",
            path=("model", "formula", PREDICTED),
            code="not-numbers",
        )
    column = np.broadcast_to(np.asarray(term.value, float), len(values.labels[values.dataset.rows]))
    column = column[rows.complete]
    check_size(column, f"the predictor '{name}'")
    return column


@contextmanager
def written_places(spec: Regression, nodes: Mapping[str, str]) -> Iterator[None]:
    """Context that gives errors in a node the place of the prior in the file."""
    try:
        yield
    except BayeslabError as error:
        text = next((nodes[str(word)] for word in error.path if str(word) in nodes), None)
        written = {("priors", *path): prior for path, prior in spec.placed_priors().items()}
        written |= {("missing", name): prior for name, prior in spec.missing.items()}
        for path, prior in written.items():
            if prior == text:
                unknown = path[0] == "priors" and error.code == "model.unknown-name"
                message = _no_parameter(prior, error.offset, nodes) if unknown else error.message
                raise type(error)(message, path=("model", *path), offset=error.offset, code=error.code) from None
        raise


def _no_parameter(prior: str, offset: int, nodes: Mapping[str, str]) -> str:
    """The message about the name at an offset of a prior; it may be that of a column, which priors cannot use."""
    word = re.match(r"\w+", prior.encode()[offset:].decode())
    name = word[0] if word else prior
    known = {node.partition("[")[0] for node in nodes}
    known = {node for node in known if not node.startswith(("_", "pick_", "design"))}
    return (
        f"'{name}' is no parameter of this regression, and a prior uses no column of the data{hint(name, known)}; if it"
        f" is a hyperparameter, give it a prior too, under a name that no predictor has"
    )


def _columns(spec: Regression, data: Data, predictors: Mapping[str, LinearPredictor], rows: Rows) -> dict[str, Column]:
    """The columns of the lowered model with a value for each row."""
    dim, main = data.dataset.rows, predictors[""]
    out = _missing_columns(spec, data, main, rows) if spec.missing else {}
    for predictor in predictors.values():
        design, names = predictor.design, predictor.names
        if design.names and names.of("design") not in out:
            out[names.of("design")] = Column(predictor.matrix, (dim, names.of("predictor")))
        if design.offset is not None:
            out[names.of("offset")] = Column(design.offset, (dim,))
        for group in design.groups:
            label = names.group(group.name)
            out[group.name] = Column(group.labels[group.codes], (dim,))
            if group.effects != ["1"]:
                several = len(group.effects) > 1
                columns, dims = (group.columns, (dim, f"{label}_effect")) if several else (group.columns[:, 0], (dim,))
                out[f"design_{label}"] = Column(columns, dims)
        for rise in design.rises:
            of = names.group(rise.of)
            out[f"steps_{of}"] = Column(rise.steps, (dim, f"{of}_step"))
            if rise.name != rise.of:
                out[f"rest_{names.group(rise.name)}"] = Column(rise.rest, (dim,))
        for curve in design.curves:
            label = names.group(curve.name)
            out[f"waves_{label}"] = Column(curve.waves, (dim, f"{label}_wave"))
            if curve.by and curve.codes is not None:
                out[curve.by] = Column(curve.labels[curve.codes], (dim,))
        for each in design.measured:
            out[each.predictor], out[f"error_{each.of}"] = Column(each.x, (dim,)), Column(each.error, (dim,))
            if not each.alone:
                out[f"rest_{names.group(each.name)}"] = Column(each.rest, (dim,))
        for area in design.areas:
            out[area.factor] = Column(area.labels[area.codes], (dim,))
        for members in design.members:
            label = names.group(members.name)
            for k in range(len(members.factors)):
                codes = members.codes[:, k]
                out[f"member_{label}_{k + 1}"] = Column(members.labels[codes] if members.numbered else codes, (dim,))
                if members.columns:
                    out[f"weight_{label}_{k + 1}"] = Column(members.weights[:, k], (dim,))
    if isinstance(main.formula, NonLinear):
        for name in main.formula.columns:
            out[name] = Column(_quantity(name, data, rows), (dim,))
    if rows.trials is not None:
        out["trials"] = Column(rows.trials.astype(np.int64), (dim,))
    if rows.limits is not None:
        out["lower"], out["upper"] = (Column(limit, (dim,)) for limit in rows.limits)
    if rows.y is not None:
        out[main.formula.outcome] = _response_column(rows, dim, likelihood(spec.likelihood).levels == "categorical")
    elif not out:
        out["rows"] = Column(np.zeros(len(rows.complete)), (dim,))
    if likelihood(spec.likelihood).levels == "categorical":
        contrasts = np.eye(len(rows.levels))[1:]
        out["contrasts"] = Column(contrasts, ("response_contrast", "response_level"))
    return out


def _response_column(rows: Rows, dim: str, categorical: bool) -> Column:
    """The response: numbers, or positions of its levels; words where positions would be read as levels themselves."""
    assert rows.y is not None
    if not (categorical and labels_are_numbers(np.array(rows.levels))):
        return Column(rows.y, (dim,))
    absent = np.isnan(rows.y)
    words = np.array(rows.levels)[np.where(absent, 0, rows.y).astype(np.int64)]
    # Declared levels are words whatever they look like: -1 and 0.5 too.
    return Column(words, (dim,), absent if absent.any() else None, order=tuple(map(str, rows.levels)))


def _missing_columns(spec: Regression, data: Data, main: LinearPredictor, rows: Rows) -> dict[str, Column]:
    """The design matrix without the predictors that have models, these predictors, and what their models read."""
    dim, out = data.dataset.rows, {}
    matrix = main.matrix.copy()
    for name in spec.missing:
        ones, twos = (_with(data, name, value, main, rows.complete) for value in (1.0, 2.0))
        zeros = _with(data, name, 0.0, main, rows.complete)
        moved = np.any(ones != twos, axis=0)
        if np.any(zeros[:, moved] != 0) or not np.allclose(twos[:, moved], 2 * ones[:, moved]):
            raise problem(
                f"'{name}' has a model of its own and must enter the formula linearly",
                "missing",
                name,
                code="unsupported",
            )
        rest = np.where(moved, ones, 0.0)
        matrix[:, moved] = 0.0 if main.centre is None else -main.centre[moved]
        out[f"{name}_slopes"] = Column(rest, (dim, "predictor"))
        out[name] = Column(data.dataset.columns[name].values.astype(float)[rows.complete], (dim,))
        for used in parse(spec.missing[name]).names:
            if data.has(used) and used not in out:
                out[used] = Column(np.asarray(data.term(used, role="read by a prior").value)[rows.complete], (dim,))
    if main.design.names:
        out["design"] = Column(matrix, (dim, "predictor"))
    return out


def _with(data: Data, name: str, value: float, main: LinearPredictor, complete: np.ndarray) -> np.ndarray:
    """The design matrix with one predictor set to a number."""
    columns = dict(data.dataset.columns)
    columns[name] = Column(np.full(len(columns[name].values), value), columns[name].dims)
    for other, column in columns.items():
        if column.values.dtype.kind == "f":
            columns[other] = Column(np.nan_to_num(column.values), column.dims)
    changed = Data(
        Dataset(columns, data.dataset.rows, data.dataset.levels), data.labels, data.derive, data.factors, data.frozen
    )
    return main.design.on(main.formula, changed, complete).matrix
