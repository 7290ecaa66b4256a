"""The hidden states of a fit: paths, probabilities, pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bayeslab.errors import OptionError
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.results.decode import decode, has_transitions, plot_states, plot_transitions
from bayeslab.results.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["States", "applicable", "states_of"]


def states_of(fit: Fitted) -> States:
    """See :attr:`bayeslab.results.fit.Fit.states`."""
    if fit.bound_model.view != "states" and not fit.bound_model.hidden_paths():
        raise OptionError(
            "the model has no hidden states: they are those of the family hmm, and of nodes such as"
            " z[t]: MarkovChain(P)",
            code="not-applicable",
        )
    return States(fit)


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has."""
    iterated = fit.has_group("em") or fit.has_group("variational")
    there = {"path": True, "transitions": has_transitions(fit.bound_model), "trace": iterated}
    return tuple(name for name, applies in there.items() if applies)


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states, given the data.

    Parameters
    ----------
    fit : Fitted
    """

    fit: Fitted

    def path(self, data: Any = None, *, best: int = 1, sequence: str | None = None) -> pd.DataFrame:
        """The most probable path at the posterior mean of the parameters (Viterbi).

        Parameters
        ----------
        data
            New sequences; None: the data of the fit.
        best
            Number of paths, the most probable first.
        sequence
            Decode only this sequence.

        Returns
        -------
        pandas.DataFrame
            One row per time: its state, and the probability of that state at that time given all rows.
        """
        return decode(self.fit, data, "viterbi", best=best, sequence=sequence)

    def probabilities(
        self,
        data: Any = None,
        *,
        given: Literal["all", "past", "before"] = "all",
        sequence: str | None = None,
        draws: int = AVERAGED,
    ) -> pd.DataFrame:
        """The probability of each state at each time, averaged over posterior draws.

        Parameters
        ----------
        data
            New sequences; None: the data of the fit.
        given
            The rows to condition on: ``all`` rows (smoothing), the rows up to the time (``past``, filtering), or the
            rows ``before`` it (prediction).
        sequence
            Only this sequence.
        draws
            Maximum number of posterior draws to average over.

        Returns
        -------
        pandas.DataFrame
            One row per time, one column ``P(state=...)`` per state.
        """
        ways = {"all": "smooth", "past": "filter", "before": "predict"}
        if given not in ways:
            raise OptionError(f"given is all, past or before, not {given!r}", code="unknown-word")
        return decode(self.fit, data, ways[given], sequence=sequence, draws=draws)

    def plot(
        self,
        what: Literal["path", "transitions"] = "path",
        *,
        sequence: str | None = None,
        column: str | None = None,
    ) -> Figure:
        """Plot the states of a model of the family hmm.

        Parameters
        ----------
        what
            ``path``: a column coloured by the most probable path, over a ribbon of probabilities; ``transitions``: a
            diagram of the chain.
        sequence, column
            For ``path``: the sequence and the column to plot; default: the first.
        """
        if what not in ("path", "transitions"):
            raise OptionError(f"a picture of states is path or transitions, not {what!r}", code="unknown-word")
        if what == "transitions":
            return plot_transitions(self.fit)
        return plot_states(self.fit, sequence=sequence, column=column)
