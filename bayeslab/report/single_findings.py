"""Posteriors of all variables given each single finding, computed beforehand, for networks too large for a page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.networks import Network

__all__ = ["SingleFindings", "single_findings", "too_large"]

# Maximum numbers of findings, and of entries of the junction tree times findings (10¹⁰ take about a minute).
_FINDINGS, _WORK = 3_000, 1e10
# Stands for all states of a variable whose probabilities are, as rounded, those without findings.
_UNCHANGED = 65_535


@dataclass(frozen=True, eq=False)
class SingleFindings:
    """What one finding says about every variable.

    Attributes
    ----------
    prior : ndarray of int
        The probability of each state of each variable, in units of 1/10,000, without findings.
    impossible : list of int
        The states of probability 0, counted over all variables.
    table : str
        One row for each state of each variable, which is observed. For each variable it has either the probabilities of
        its states, in the same units, or 65,535 where all of them are those of ``prior``. The numbers have 16 bits,
        the low byte first, in base 64.
    """

    prior: np.ndarray
    impossible: list[int]
    table: str


def single_findings(net: Network, share: float = 1.0) -> SingleFindings:
    """The posteriors given each state of each variable of a discrete network.

    Parameters
    ----------
    share
        The part of the limit on time that may be used.

    Raises
    ------
    OptionError
        They would take too long.
    """
    sizes = np.array([len(states) for states in net.states.values()])
    n = int(sizes.sum())
    if n > _FINDINGS or n * net.tree.forecast.total_entries > share * _WORK:
        raise too_large(net)
    given = np.full((n + 1, len(sizes)), -1)
    given[np.arange(n), np.repeat(np.arange(len(sizes)), sizes)] = np.concatenate([np.arange(size) for size in sizes])
    answers = net.tree.query_many(given)
    all_rows = np.concatenate([answers.marginals[name] for name in net.states], axis=1)
    possible = np.isfinite(answers.log_evidence)
    units = np.rint(1e4 * np.where(possible[:, None], all_rows, all_rows[-1])).astype(int)
    rows, prior = units[:-1], units[-1]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    unchanged = np.repeat(np.logical_and.reduceat(rows == prior, starts, axis=1), sizes, axis=1)
    first = np.zeros(n, bool)
    first[starts] = True
    numbers = np.where(unchanged, _UNCHANGED, rows)[~unchanged | first]
    table = b64encode(numbers.astype("<u2").tobytes()).decode()
    return SingleFindings(prior, [int(k) for k in np.flatnonzero(~possible)], table)


def too_large(net: Network) -> OptionError:
    n = sum(len(states) for states in net.states.values())
    return OptionError(
        f"the network is too large for a page, even with single findings only ({len(net.states):,} variables,"
        f" {n:,} states): ask one question at a time by bayeslab query NETWORK --given VARIABLE=STATE, with"
        " --approximate likelihood_weighting where the exact answer takes too long",
        code="too-large",
    )
