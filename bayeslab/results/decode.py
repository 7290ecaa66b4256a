"""Hidden states over time: of a fit, of a run folder, or of a model that fixes all parameters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.families.hmm.posterior import HMMPosterior
from bayeslab.latents.chains.product import ProductChain
from bayeslab.plots.hmm import Drawn, draw_chains, draw_diagrams, draw_level, draw_states, draw_transitions
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.chains.decoding import posterior_mean
from bayeslab.posterior.contract import Posterior
from bayeslab.preparation import Source
from bayeslab.results.fitted import Fitted, bound_to, posterior_values
from bayeslab.running import opened

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["decode", "plot_states", "plot_transitions", "source_of"]


def decode(
    source: Any,
    data: Any = None,
    method: str = "viterbi",
    *,
    best: int = 1,
    sequence: str | None = None,
    draws: int = AVERAGED,
) -> pd.DataFrame:
    """Decode the hidden states of a model at each time.

    Parameters
    ----------
    source
        A fit, a run folder, or a model (or its file) that fixes all parameters.
    data
        New sequences; None: the data of the fit, or those that the file names.
    method
        ``viterbi``: the most probable path, at the posterior mean; ``posterior``: the most probable state at each
        time; ``smooth``, ``filter``, ``predict``: probabilities of all states given all rows, the rows up
        to the time, the rows before it.
    best
        Number of most probable paths (viterbi only).
    sequence
        Decode only this sequence.
    draws
        Maximum number of evenly spaced posterior draws to average over. The error of an average over n draws is their
        standard deviation over √n, a fourteenth of it for 200.

    Returns
    -------
    pandas.DataFrame
        One row per time, gaps included. ``attrs["about"]`` describes the parameters and the draws that were used;
        ``attrs["draws"]`` is the number of draws averaged over.
    """
    import pandas as pd

    if draws < 1:
        raise OptionError(f"draws is {draws}; probabilities are averaged over at least 1", code="out-of-range")
    posterior, values = source_of(source, data)
    columns, about = posterior.decoded(values, method, best, sequence, draws)
    frame = pd.DataFrame(columns)
    frame.attrs.update(about)
    return frame


def source_of(source: Any, data: Any) -> tuple[Posterior, dict[str, np.ndarray]]:
    """The model on its data, and posterior draws by name (empty if nothing was fitted)."""
    if isinstance(source, str | os.PathLike) and (Path(source) / "run.json").exists():
        source = opened(source)
    if isinstance(source, Fitted):
        bound = source.data if data is None else bound_to(source, data)
        return source.bound_model.on(bound), posterior_values(source)
    read = Source(source)
    with read.located():
        return read.posterior(data), {}


def plot_states(source: Any, data: Any = None, *, sequence: str | None = None, column: str | None = None) -> Figure:
    """Plot a sequence coloured by its most probable path over a ribbon of P(state | all rows); a level with its band.

    Parameters
    ----------
    source, data, sequence
        As for :func:`decode`. The default sequence is the first.
    column
        The column to draw; the first if left out.

    Returns
    -------
    matplotlib.figure.Figure
    """

    posterior = _hmm(source_of(source, data)[0])
    spec, model = posterior.spec, posterior.model
    column = column or spec.columns[0]
    if column not in spec.columns:
        raise OptionError(f"'{column}' is not among the columns {', '.join(spec.columns)}", code="unknown-column")
    if spec.parent is not None:
        raise ModelError("rows of trees have no order along which they could be drawn", code="not-applicable")
    resolved = posterior.resolved
    names = resolved.sequences.names.astype(str).tolist()
    sequence = names[0] if sequence is None and spec.sequence is not None else sequence
    smoothed = decode(source, data, "smooth", sequence=sequence)
    time_name = spec.time or model.data.rows
    times = _numbers(smoothed[time_name].to_numpy())
    first = 0 if sequence is None else int(resolved.sequences.offsets[names.index(sequence)])
    series = resolved.rows[first : first + len(times), resolved.position(column)]
    of = f"{spec.sequence} {sequence}: " if sequence is not None else ""
    if spec.states == "continuous":
        suffix = f"_{column}" if len(spec.columns) > 1 else ""
        level, sd = (smoothed[f"{word}{suffix}"].to_numpy() for word in ("state", "sd"))
        return draw_level(times, series, level, sd, (column, time_name, f"{of}{column} and its level"))
    path = decode(source, data, "viterbi", sequence=sequence)
    levels = [str(x) for part in resolved.parts if column in part.columns for x in part.levels_of(column)]
    if isinstance(resolved.chain, ProductChain):
        title = f"{of}{column}, most likely path and P(state | all rows)"
        chains = _chains(resolved.chain, path, smoothed)
        return draw_chains(times, series, chains, (column, time_name, title), levels)
    states = [str(s) for s in resolved.states]
    codes = np.array([states.index(str(s)) for s in path["state"]])
    chances = np.stack([smoothed[f"P(state={s})"].to_numpy() for s in resolved.states])
    title = f"{of}{column}, most likely path and P(state | all rows)"
    return draw_states(times, series, codes, chances, states, (column, time_name, title), levels)


def _chains(chain: Any, path: pd.DataFrame, smoothed: pd.DataFrame) -> list[Any]:
    """The chains of a model separately, for plotting."""

    out = []
    for name, levels in zip(chain.names, chain.levels, strict=True):
        states = [str(level) for level in levels]
        codes = np.array([states.index(str(s)) for s in path[name]])
        out.append(Drawn(name, codes, np.stack([smoothed[f"P({name}={s})"].to_numpy() for s in states]), states))
    return out


def _hmm(posterior: Posterior) -> HMMPosterior:
    if not isinstance(posterior, HMMPosterior):
        raise ModelError(f"states over time are drawn for the family hmm, not {posterior.family}", code="other-family")
    return posterior


def _numbers(values: np.ndarray) -> np.ndarray:
    return values.astype(float) if values.dtype.kind in "iuf" else np.arange(len(values), dtype=float)


def has_transitions(posterior: Posterior) -> bool:
    """Whether a model has states with one matrix of transitions, or one for each of several chains."""
    if not isinstance(posterior, HMMPosterior) or posterior.spec.states == "continuous" or posterior.spec.order != 1:
        return False
    chain = posterior.resolved.chain
    return not (isinstance(chain, ProductChain) and chain.coupling == "coupled")


def plot_transitions(source: Any, data: Any = None) -> Figure:
    """Plot the transition diagram: states on a circle, the width of arrows by transition probability.

    Parameters
    ----------
    source, data
        As for :func:`decode`; for a fit, posterior means are shown.
    """

    source_fit, draws = source_of(source, data)
    posterior = _hmm(source_fit)
    if posterior.spec.states == "continuous" or posterior.spec.order != 1:
        raise ModelError("transitions are drawn for chains of order 1", code="not-applicable")
    resolved = posterior.resolved
    parameters = resolved.chain.complete(posterior_mean(resolved, draws))
    if isinstance(resolved.chain, ProductChain):
        # Plot one diagram for each of several chains.
        if resolved.chain.coupling == "coupled":
            raise ModelError(
                "the next state of a chain depends on all chains, so a chain has no diagram; see summary",
                code="not-applicable",
            )
        named = zip(resolved.chain.names, resolved.chain.levels, strict=True)
        return draw_diagrams(
            {name: (parameters[f"transition_{name}"], [str(s) for s in levels]) for name, levels in named}
        )
    matrix = parameters["transition"]
    return draw_transitions(matrix, [str(s) for s in resolved.states])
