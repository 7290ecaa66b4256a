"""Continuous hidden states: linear dynamical systems, with parameters by EM or NUTS and states by the Kalman filter.

Without a ``dimension`` every column is a random-walk level observed with noise (the local level model of [2]_):

    level_t = level_{t-1} + Normal(0, level_sd)      y_t = level_t + Normal(0, noise_sd)

With a ``dimension``, d hidden states with unit noise drive all columns: x_t = A x_{t-1} + w_t, y_t = C x_t + e_t. A
rotation of the states does not change the likelihood, so that EM finds one of many equivalent solutions [1]_.

The first level is vague: its standard deviation is a hundred times the column's.

References
----------
.. [1] Shumway, Stoffer (1982). An approach to time series smoothing and forecasting using the EM algorithm.
   Journal of Time Series Analysis 3, 253-264.
.. [2] Durbin, Koopman (2012). Time Series Analysis by State Space Methods, 2nd ed., chapter 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.sequences import Sequences
from bayeslab.errors import ModelError
from bayeslab.language.writer import PYMC, Writer
from bayeslab.latents.linear_gaussian import kalman
from bayeslab.latents.linear_gaussian.kalman import LinearGaussian
from bayeslab.posterior.answer import EMPlan
from bayeslab.posterior.averaging import AVERAGED, averaging
from bayeslab.posterior.contract import Named
from bayeslab.posterior.decoding import check_method, condition, of_sequence
from bayeslab.posterior.draws import each_draw
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.writer import ProgramWriter

if TYPE_CHECKING:
    import pymc

__all__ = [
    "FIRST_SD",
    "PRIOR_DEGREES",
    "Linear",
    "LinearProblem",
    "decoded",
    "graph",
    "log_likelihoods",
    "machine_model",
    "plan",
    "predictive",
    "priors",
]

type Values = Mapping[str, np.ndarray]

# Degrees of freedom of the inverse gamma priors of variances, and their scale in units of the column's variance.
PRIOR_DEGREES, _SCALE = 1.0, 0.01
# Standard deviation of the first state, in units of the column's.
FIRST_SD = 100.0
# Share of its estimate at which a standard deviation counts as zero.
_NEXT_TO_NOTHING = 1e-3


@dataclass(frozen=True, eq=False)
class Linear:
    """A model with continuous states, and its data.

    Attributes
    ----------
    columns : tuple of str
    dimension : int or None
        None: a level for each column.
    sequences : Sequences
    rows : ndarray (n_times, n_columns)
    centre, variances : ndarray (n_columns,)
        Centre and variance of each column in the data of the fit.
    """

    columns: tuple[str, ...]
    dimension: int | None
    sequences: Sequences
    rows: np.ndarray
    centre: np.ndarray
    variances: np.ndarray

    def position(self, column: str) -> int:
        """Position of a column in the rows."""
        return self.columns.index(column)

    @property
    def level(self) -> bool:
        return self.dimension is None

    @property
    def n_states(self) -> int:
        return self.dimension or len(self.columns)

    @property
    def learned(self) -> tuple[str, ...]:
        return ("level_sd", "noise_sd") if self.level else ("transition", "loading", "noise_sd")

    @property
    def n_free(self) -> int:
        """Number of free parameters; rotations of states of a given dimension remove d (d - 1) / 2."""
        d, p = self.n_states, len(self.columns)
        return 2 * p if self.level else d * d + p * d + p - d * (d - 1) // 2

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        along = ("feature",) if len(self.columns) > 1 else ()
        if self.level:
            return {"level_sd": along, "noise_sd": along}
        return {"transition": ("state", "state_before"), "loading": ("feature", "state"), "noise_sd": along}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        states = np.arange(1, self.n_states + 1)
        return {"feature": np.array(self.columns), "state": states, "state_before": states}

    @property
    def prior_scale(self) -> np.ndarray:
        return _SCALE * self.variances

    def system(self, values: Values) -> LinearGaussian:
        """The linear system at given values of the unknowns."""
        p, d = len(self.columns), self.n_states
        noise = np.diag(np.broadcast_to(values["noise_sd"], (p,)).astype(float) ** 2)
        if self.level:
            move = np.diag(np.broadcast_to(values["level_sd"], (p,)).astype(float) ** 2)
            vague = np.diag(FIRST_SD**2 * self.variances)
            return LinearGaussian(self.centre, vague, np.eye(p), move, np.eye(p), noise)
        offset = np.broadcast_to(self.centre, (len(self.rows), p)).copy()
        start, unit = np.zeros(d), np.eye(d)
        return LinearGaussian(start, unit, values["transition"], unit, values["loading"], noise, None, offset)

    def values(self, system: LinearGaussian) -> dict[str, np.ndarray]:
        """The inverse of :meth:`system`."""
        noise = np.sqrt(np.diag(system.observation_noise))
        out = {"noise_sd": noise}
        if self.level:
            out["level_sd"] = np.sqrt(np.diag(system.state_noise))
        else:
            out |= {"transition": system.transition, "loading": system.observation}
        scalar = len(self.columns) == 1
        return {n: v[0] if scalar and n in ("noise_sd", "level_sd") else v for n, v in out.items()}

    def start(self, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        """Start values of a search."""
        share = np.full((2, len(self.columns)), 0.5) if rng is None else rng.uniform(0.05, 0.95, (2, len(self.columns)))
        sds = np.sqrt(self.variances) * share
        scalar = len(self.columns) == 1
        noise = sds[0][0] if scalar else sds[0]
        if self.level:
            return {"level_sd": sds[1][0] if scalar else sds[1], "noise_sd": noise}
        generator = rng if rng is not None else np.random.default_rng(0)
        d, p = self.n_states, len(self.columns)
        loading = generator.standard_normal((p, d)) * np.sqrt(self.variances)[:, None] / np.sqrt(d)
        return {
            "transition": 0.7 * np.eye(d) + 0.1 * generator.standard_normal((d, d)),
            "loading": loading,
            "noise_sd": noise,
        }


# --------------------------------------------------------------------------------- EM


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """A linear dynamical system in EM's form."""

    linear: Linear
    prior: bool

    def expect(self, theta: Values) -> tuple[float, dict[str, Any]]:
        linear = self.linear
        try:
            new, evidence = kalman.em_step(
                linear.system(theta),
                linear.rows,
                linear.sequences.offsets,
                fixed=(
                    "start_mean",
                    "start_covariance",
                    *(("transition", "observation") if linear.level else ("state_noise",)),
                ),
                diagonal=("state_noise", "observation_noise"),
            )
        except (np.linalg.LinAlgError, ModelError):
            # A proposal of accelerated EM may lie outside the support.
            return -np.inf, {}
        return float(evidence.sum()), {"next": new}

    def update(self, statistics: Mapping[str, Any], theta: Values) -> dict[str, np.ndarray]:
        linear = self.linear
        parameters = linear.values(statistics["next"])
        if not self.prior:
            return parameters
        offsets = linear.sequences.offsets
        moves = int(np.maximum(np.diff(offsets) - 1, 0).sum())
        n_observed = int((~np.isnan(linear.rows)).any(axis=1).sum())
        scale = linear.prior_scale[0] if len(linear.columns) == 1 else linear.prior_scale
        for name, n in (("level_sd", moves), ("noise_sd", n_observed)):
            if name in parameters:
                parameters[name] = np.sqrt((scale + n * parameters[name] ** 2) / (PRIOR_DEGREES + n + 2))
        return parameters

    def log_prior(self, theta: Values) -> float:
        if not self.prior:
            return 0.0
        total = 0.0
        for name in ("level_sd", "noise_sd"):
            if name in theta:
                variance = np.asarray(theta[name]) ** 2
                total -= float(
                    np.sum((0.5 * PRIOR_DEGREES + 1) * np.log(variance) + 0.5 * self.linear.prior_scale / variance)
                )
        return total

    def flatten(self, theta: Values) -> np.ndarray:
        return np.concatenate(
            [np.ravel(np.log(theta[n]) if n.endswith("_sd") else theta[n]) for n in self.linear.learned]
        )

    def unflatten(self, x: np.ndarray) -> dict[str, np.ndarray]:
        out, at = {}, 0
        for name, like in self._shapes().items():
            size = int(np.prod(like))
            part = x[at : at + size].reshape(like)
            out[name] = np.exp(np.clip(part, -300, 300)) if name.endswith("_sd") else part
            at += size
        return out

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        start = self.linear.start(None)
        return {name: np.shape(start[name]) for name in self.linear.learned}


def plan(linear: Linear) -> EMPlan:
    """Plan of EM for the variances or, with a dimension, for all matrices."""
    return EMPlan(
        how="the continuous states are integrated out by the Kalman smoother",
        problem=lambda prior: LinearProblem(linear, prior),
        start=linear.start,
        values=lambda theta: {name: np.asarray(theta[name]) for name in linear.learned},
        dims=linear.dims,
        placed=lambda theta, given: {**theta, **given},
        labels=linear.labels,
        kinds={"level_sd": "positive", "noise_sd": "positive"},
        vanishing=lambda theta: _vanishing(linear, theta),
    )


def _vanishing(linear: Linear, theta: Values) -> dict[str, int]:
    """Standard deviations that can be zero without lowering the likelihood, by name."""
    problem = LinearProblem(linear, False)
    highest = problem.expect(theta)[0]
    out: dict[str, int] = {}
    for name in linear.learned:
        if not name.endswith("_sd"):
            continue
        deviations = np.asarray(theta[name], float)
        for place in np.ndindex(deviations.shape):
            less = deviations.copy()
            less[place] *= _NEXT_TO_NOTHING
            if problem.expect({**theta, name: less})[0] >= highest:
                out[name] = out.get(name, 0) + 1
    return out


# --------------------------------------------------------------------------------- densities

_TURNED = ModelError(
    "continuous states of a given dimension can be turned without changing the model: use method em",
    path=("model", "dimension"),
    code="not-identified",
)


def graph(linear: Linear, rows: str, labels: np.ndarray | None) -> pymc.Model:
    """Standard deviations, and the evidence by the Kalman filter; for simulation, the levels are drawn.

    Parameters
    ----------
    rows : str
        Dimension of the rows.
    labels : ndarray or None
        Labels of the rows to simulate; None: the graph is for a fit.

    Raises
    ------
    ModelError
        The model has a dimension: rotations leave the posterior unchanged, so that a sampler would drift.
    """
    import pymc as pm

    if not linear.level:
        raise _TURNED
    with pm.Model(coords=_coordinates(linear)) as built:
        deviations = _deviations(PYMC, linear)
        if labels is not None:
            return _simulated(linear, built, deviations, rows, labels)
        _write_evidence(PYMC, linear, deviations)
    return built


def machine_model(linear: Linear) -> MachineModel:
    """The same for a fit as a program of the density machine."""
    if not linear.level:
        raise _TURNED
    writer = ProgramWriter(_coordinates(linear))
    _write_evidence(writer, linear, _deviations(writer, linear))
    return writer.finish()


def _coordinates(linear: Linear) -> dict[str, list[str]]:
    return {"feature": list(linear.columns)} if len(linear.columns) > 1 else {}


def _deviations(writer: Writer, linear: Linear) -> dict[str, Any]:
    """Standard deviations of the levels' steps and of the noise, with priors of their variances."""
    p, begin, out = len(linear.columns), linear.start(None), dict[str, Any]()
    shape, dims = ((p,), ("feature",)) if p > 1 else ((), ())
    scale = linear.prior_scale if p > 1 else float(linear.prior_scale[0])
    for name in ("level_sd", "noise_sd"):
        given = {"alpha": PRIOR_DEGREES / 2, "beta": scale / 2}
        first = np.asarray(begin[name]) ** 2
        variance = writer.random(f"_{name.removesuffix('_sd')}_variance", "InverseGamma", given, shape, start=first)
        out[name] = writer.computed(name, writer.sqrt(variance), dims)
    return out


def _write_evidence(writer: Writer, linear: Linear, deviations: Mapping[str, Any]) -> None:
    """Write log p(data | standard deviations) by the Kalman filter."""
    p = len(linear.columns)
    known = linear.system({"level_sd": np.ones(p), "noise_sd": np.ones(p)})
    at = (np.arange(p), np.arange(p))
    level, noise = (writer.placed((p, p), at, deviations[n].reshape((p,)) ** 2) for n in ("level_sd", "noise_sd"))
    flat = [known.start_mean, known.start_covariance, known.transition, level, known.observation, noise]
    cells = np.ascontiguousarray(linear.rows)
    writer.add("evidence", writer.evidence(kalman.KERNEL, flat, cells, linear.sequences.offsets, known.flat()[1]))


def priors(linear: Linear) -> dict[str, str]:
    """The priors of the standard deviations, as text; matrices have none."""
    scale = ", ".join(f"{x:.4g}" for x in np.unique(linear.prior_scale / 2))
    text = f"sqrt(InverseGamma({PRIOR_DEGREES / 2:g}, {scale}))"
    return {name: text for name in linear.learned if name.endswith("_sd")}


class _Given:
    """A random generator whose normal numbers are given."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self._at = values.ravel(), 0

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        self._at += size
        return self._values[self._at - size : self._at].reshape(shape)


def _simulated(linear: Linear, built: pymc.Model, sds: Mapping[str, Any], rows: str, labels: np.ndarray) -> pymc.Model:
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    class Rows(Op):
        def make_node(self, noise: Any, *scales: Any) -> Apply:
            return Apply(self, [noise, *scales], [pt.dmatrix()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            system = linear.system({"level_sd": inputs[1], "noise_sd": inputs[2]})
            given: Any = _Given(inputs[0])
            outputs[0][0] = kalman.simulate(system, linear.sequences.offsets, given)[1][linear.sequences.at]

    noise = pm.Normal.dist(shape=2 * linear.sequences.n_times * len(linear.columns))
    drawn = Rows()(noise, sds["level_sd"], sds["noise_sd"])
    built.add_coord(rows, labels.tolist())
    for j, column in enumerate(linear.columns):
        pm.Deterministic(column, drawn[:, j], dims=rows)
    return built


# --------------------------------------------------------------------------------- states


def log_likelihoods(linear: Linear, draws: Values, rows: str) -> Named:
    """Log likelihood of each sequence; for a single sequence, of each row given the rows before it."""
    several = linear.sequences.n_sequences > 1
    out = []
    for values in each_draw(draws, linear.learned):
        filtered = kalman.filter_states(linear.system(values), linear.rows, linear.sequences.offsets)
        out.append(filtered.log_evidence if several else filtered.log_predictive[linear.sequences.at])
    dims = ("sequence_number",) if several else (rows,)
    return {"sequence" if several else "row": (dims, np.stack(out))}


def predictive(linear: Linear, draws: Values, rng: np.random.Generator, rows: str) -> Named:
    """Posterior predictive draws of the rows given states drawn given all observations; missing cells are
    predicted.
    """
    made = []
    for values in each_draw(draws, linear.learned):
        system = linear.system(values)
        states = kalman.sample_states(system, linear.rows, 1, rng, linear.sequences.offsets)[0][linear.sequences.at]
        mean = states @ system.observation.T
        if system.observation_offset is not None:
            mean = mean + system.observation_offset[linear.sequences.at]
        made.append(mean + rng.standard_normal(mean.shape) * np.sqrt(np.diag(system.observation_noise)))
    whole = np.stack(made)
    return {column: ((rows,), whole[:, :, j]) for j, column in enumerate(linear.columns)}


def decoded(
    linear: Linear,
    draws: Values,
    method: str,
    times: Mapping[str, np.ndarray],
    sequence: str | None,
    called: str | None,
    most: int = AVERAGED,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Mean and standard deviation of the states at every time, combined over draws."""
    check_method(method)
    method = condition(method)  # the most likely path of normal states consists of their means
    # Add the variance within draws and that of their means, with running means: no cancellation for large levels.
    mean, within, between, n = np.zeros(0), np.zeros(0), np.zeros(0), 0
    for values in each_draw(draws, linear.learned, most):
        one, variance = _states(linear, values, method)
        n += 1
        if n == 1:
            mean, within, between = one, variance, np.zeros(one.shape)
            continue
        apart = one - mean
        mean = mean + apart / n
        within, between = within + variance, between + apart * (one - mean)
    sd = np.sqrt((within + between) / n)
    sequences = linear.sequences
    names = sequences.names[sequences.sequence]
    kept = of_sequence(names, sequence)
    out = {} if called is None else {called: names[kept]}
    out |= {name: values[kept] for name, values in times.items()}
    for k in range(linear.n_states):
        suffix = "" if linear.n_states == 1 else f"_{linear.columns[k]}" if linear.level else f"_{k + 1}"
        out |= {f"state{suffix}": mean[kept, k], f"sd{suffix}": sd[kept, k]}
    how = averaging(len(draws[linear.learned[0]]), most) if n > 1 else "at the fit"
    return out, {"method": method, "about": f"{method}: mean and standard deviation of the state, {how}", "draws": n}


def _states(linear: Linear, values: Values, method: str) -> tuple[np.ndarray, np.ndarray]:
    system = linear.system(values)
    if method == "smooth":
        estimate: Any = kalman.smooth(system, linear.rows, linear.sequences.offsets)
        mean, covariance = estimate.mean, estimate.covariance
    else:
        estimate = kalman.filter_states(system, linear.rows, linear.sequences.offsets)
        mean, covariance = (
            (estimate.mean, estimate.covariance)
            if method == "filter"
            else (estimate.predicted_mean, estimate.predicted_covariance)
        )
    return mean, np.einsum("tii->ti", covariance)
