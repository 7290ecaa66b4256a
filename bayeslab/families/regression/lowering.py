"""Lower a regression on its data to a graph: a design matrix, and nodes on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.design import Design
from bayeslab.digits import check_size
from bayeslab.errors import BayeslabError
from bayeslab.families import graph as graphs
from bayeslab.families.regression.data_remarks import remarks_of
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import Lowered, Remark
from bayeslab.families.regression.rows import Rows, complete_rows, filled, without_response
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regression.writer import Writer, problem
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula, parse_formula
from bayeslab.language.spec import Model

__all__ = ["lower", "written_places"]


def lower(model: Model, data: Data, origin: Lowered | None = None) -> Lowered:
    """Resolve a regression on its data.

    Parameters
    ----------
    origin
        The regression on the data of the fit, if the model's data are others; None: computed from the model.
    """
    assert isinstance(model.model, Regression)
    spec = model.model
    formula = parse_formula(spec.formula)
    base = lower(model, data.origin) if data.origin is not None and origin is None else origin
    remarks: list[Remark] = []
    rows = complete_rows(spec, formula, data, base)
    values = filled(spec.missing, data)
    if base is not None:
        design = base.design.on(formula, values, rows.complete)
        nodes, slopes, dims = base.nodes, list(base.slopes), dict(base.model.dims)
        centre, rest = base.centre, base.centre_rest
        base_dataset = base.data.dataset
        fixed = {
            n: c for n, c in base_dataset.columns.items() if c.dims is not None and base_dataset.rows not in c.dims
        }
    else:
        design = Design.of(
            formula, values, rows.complete, without_intercept=likelihood(spec.likelihood).levels == "ordered"
        )
        for name, column in zip(design.names, design.matrix.T, strict=True):
            check_size(column, f"the predictor '{name}'")
        for name, sizes in (("the offset", design.offset), (f"the weight '{spec.weights}'", rows.weights)):
            if sizes is not None:
                check_size(sizes, name)
        remarks = remarks_of(spec, formula, design, rows)
        written = Writer(spec, formula, design, rows, data.dataset.rows, without_response(formula, data))
        nodes, slopes, centre, dims, fixed = (
            written.nodes,
            written.slopes,
            written.centre,
            written.dims,
            written.columns,
        )
        rest = None if centre is None else design.means[1]
    columns = fixed | _columns(spec, formula, data, design, rows, centre, rest)
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
    return Lowered(
        spec, formula, lowered_model, lowered_data, design, centre, rest, rows.y, rows.levels, rows.trials,
        rows.weights, rows.limits, tuple(slopes), nodes, tuple(remarks),
    )  # fmt: skip


@contextmanager
def written_places(spec: Regression, nodes: Mapping[str, str]) -> Iterator[None]:
    """Context that gives errors in a node the place of the prior in the file."""
    try:
        yield
    except BayeslabError as error:
        text = next((nodes[str(word)] for word in error.path if str(word) in nodes), None)
        for place, written in (("priors", spec.priors), ("missing", spec.missing)):
            for name, prior in written.items():
                if str(prior) == text:
                    path = ("model", place, name)
                    raise type(error)(error.message, path=path, offset=error.offset, code=error.code) from None
        raise


def _columns(
    spec: Regression,
    formula: Formula,
    data: Data,
    design: Design,
    rows: Rows,
    centre: np.ndarray | None,
    centre_rest: np.ndarray | None,
) -> dict[str, Column]:
    """The columns of the lowered model with a value for each row."""
    dim = data.dataset.rows
    out: dict[str, Column] = {}
    matrix = design.matrix
    if centre is not None and centre_rest is not None:
        centred_at_means = design.names and centre is design.means[0]
        matrix = (design.about_means if centred_at_means else design.about(centre, centre_rest))[:, 1:]
    matrix = matrix.copy() if spec.missing else matrix
    for name in spec.missing:
        ones, twos = (_with(data, name, value, formula, design, rows.complete) for value in (1.0, 2.0))
        zeros = _with(data, name, 0.0, formula, design, rows.complete)
        moved = np.any(ones != twos, axis=0)
        if np.any(zeros[:, moved] != 0) or not np.allclose(twos[:, moved], 2 * ones[:, moved]):
            raise problem(
                f"'{name}' has a model of its own and must enter the formula linearly",
                "missing",
                name,
                code="unsupported",
            )
        rest = np.where(moved, ones, 0.0)
        matrix[:, moved] = 0.0 if centre is None else -centre[moved]
        out[f"{name}_slopes"] = Column(rest, (dim, "predictor"))
        out[name] = Column(data.dataset.columns[name].values.astype(float)[rows.complete], (dim,))
        for used in parse(spec.missing[name]).names:
            if data.has(used) and used not in out:
                out[used] = Column(np.asarray(data.term(used, role="read by a prior").value)[rows.complete], (dim,))
    if design.names:
        out["design"] = Column(matrix, (dim, "predictor"))
    if design.offset is not None:
        out["offset"] = Column(design.offset, (dim,))
    if rows.trials is not None:
        out["trials"] = Column(rows.trials.astype(np.int64), (dim,))
    if rows.limits is not None:
        out["lower"], out["upper"] = (Column(limit, (dim,)) for limit in rows.limits)
    for group in design.groups:
        out[group.name] = Column(group.labels[group.codes], (dim,))
        if group.effects != ["1"]:
            several = len(group.effects) > 1
            columns, dims = (group.columns, (dim, f"{group.name}_effect")) if several else (group.columns[:, 0], (dim,))
            out[f"design_{group.name}"] = Column(columns, dims)
    if rows.y is not None:
        out[formula.outcome] = Column(rows.y, (dim,))
    elif not out:
        out["rows"] = Column(np.zeros(len(rows.complete)), (dim,))
    if likelihood(spec.likelihood).levels == "categorical":
        contrasts = np.eye(len(rows.levels))[1:]
        out["contrasts"] = Column(contrasts, ("response_contrast", "response_level"))
    return out


def _with(data: Data, name: str, value: float, formula: Formula, design: Design, complete: np.ndarray) -> np.ndarray:
    """The design matrix with one predictor set to a number."""
    columns = dict(data.dataset.columns)
    columns[name] = Column(np.full(len(columns[name].values), value), columns[name].dims)
    for other, column in columns.items():
        if column.values.dtype.kind == "f":
            columns[other] = Column(np.nan_to_num(column.values), column.dims)
    changed = Data(
        Dataset(columns, data.dataset.rows, data.dataset.levels), data.labels, data.derive, data.factors, data.frozen
    )
    return design.on(formula, changed, complete).matrix
