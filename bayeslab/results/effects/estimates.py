"""Estimates with their posterior draws: a table of means, intervals and probabilities, and contrasts of estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.plots.effects import intervals
from bayeslab.results.tails import heavy

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Effects", "check_columns", "check_interval", "check_rope", "draws_array", "formatted"]

_STATISTICS = ("mean", "sd", "median", "pd", "in_rope", "chain", "draw", "estimate")


@dataclass(frozen=True, eq=False)
class Effects:
    """Estimates of expected outcomes, comparisons, slopes or other quantities, with their posterior draws.

    Attributes
    ----------
    title : str
        The quantity and its rows.
    draws : xarray.DataArray
        Dimensions (chain, draw, estimate); coordinates along ``estimate`` identify each estimate.
    null : float or None
        The value of no effect: 0 for differences and slopes, 1 for ratios, None for expected outcomes.
    ci_prob : float
        Probability of the equal-tailed interval.
    rope : tuple of float or None
        The region of practical equivalence, as its lower and upper end.
    like : Any
        A dataframe; the table is of the same kind.
    ratios : bool
        Whether the estimates are ratios of random quantities, which may have no mean.
    left_out : mapping of str to str
        Predictors without an estimate, where all were asked for, and why.
    """

    title: str
    draws: xr.DataArray
    null: float | None
    ci_prob: float = 0.89
    rope: tuple[float, float] | None = None
    like: Any = None
    ratios: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> pd.DataFrame:
        """Term, contrast, group and level of each estimate."""
        import pandas as pd

        return pd.DataFrame({str(n): c.to_numpy() for n, c in self.draws.coords.items() if c.dims == ("estimate",)})

    def _array(self) -> np.ndarray:
        """The draws, shape (estimate, chain, draw)."""
        return self.draws.transpose("estimate", "chain", "draw").to_numpy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        array = self._array()
        flat = array.reshape(len(array), -1)
        out = self.labels
        if flat.shape[1] == 1:  # a point estimate
            return out.assign(mean=flat[:, 0])
        tail, percent = (1 - self.ci_prob) / 2, f"{100 * self.ci_prob:g}"
        with np.errstate(invalid="ignore"):  # infinite draws
            low, middle, high = np.quantile(flat, [tail, 0.5, 1 - tail], axis=1)
        # Where there is no mean, the column has the median.
        meanless = ~np.isnan(heavy(array)) | ~np.isfinite(flat).all(axis=1) if self.ratios else np.zeros(len(flat))
        meanless = meanless.astype(bool)
        with np.errstate(invalid="ignore"):
            out["mean"] = np.where(meanless, np.nan, flat.mean(axis=1))
            out["sd"] = np.where(meanless, np.nan, flat.std(axis=1, ddof=1))
        if meanless.any():
            out["median"] = middle
        out[f"eti{percent}_lb"], out[f"eti{percent}_ub"] = low, high
        if self.null is not None:
            above, below = (flat > self.null).mean(axis=1), (flat < self.null).mean(axis=1)
            out["pd"] = np.maximum(above, below)
        if self.rope is not None:
            out["in_rope"] = ((flat >= self.rope[0]) & (flat <= self.rope[1])).mean(axis=1)
        return out

    @property
    def table(self) -> Any:
        """One row per estimate, as a dataframe of the kind of the data (pandas by default).

        ``mean``, ``sd`` and the ends of the equal-tailed interval summarise the draws. ``pd`` is the probability of
        direction [1]_: the posterior probability that the effect has the more probable sign (for a ratio: that it is
        above 1, or below). ``in_rope`` is the posterior probability of the region of practical equivalence [2]_.

        References
        ----------
        .. [1] Makowski, Ben-Shachar, Chen, Lüdecke (2019). Indices of effect existence and significance in the
           Bayesian framework. Frontiers in Psychology 10, 2767.
        .. [2] Kruschke (2018). Rejecting or accepting parameter values in Bayesian estimation. Advances in Methods and
           Practices in Psychological Science 1(2).
        """
        if type(self.like).__module__.startswith("polars"):
            import polars

            return polars.from_pandas(self._table)
        return self._table.copy()

    def with_rope(self, low: float, high: float) -> Effects:
        """The same estimates with the posterior probability of a region of practical equivalence.

        Parameters
        ----------
        low, high
            The ends of the region, which is closed.
        """
        return replace(self, rope=check_rope((low, high)))

    def contrasts(self, kind: Literal["pairwise", "reference", "sequential"] = "pairwise") -> Effects:
        """Differences between the estimates with their draws, such as differences of an effect between groups.

        Parameters
        ----------
        kind
            ``pairwise``: each estimate minus each one above it in the table. ``reference``: each minus the first.
            ``sequential``: each minus the one above it.

        Raises
        ------
        OptionError
            There are fewer than two estimates, or too many for all pairs.
        """
        labels, n = self.labels, self.draws.sizes["estimate"]
        if n < 2:
            raise OptionError("contrasts need two or more estimates, and there is one", code="not-applicable")
        match kind:
            case "pairwise":
                pairs = [(b, a) for a in range(n) for b in range(a + 1, n)]
            case "reference":
                pairs = [(b, 0) for b in range(1, n)]
            case "sequential":
                pairs = [(b, b - 1) for b in range(1, n)]
            case _:
                raise OptionError(f"kind is pairwise, reference or sequential, not {kind!r}", code="unknown-word")
        if len(pairs) > 10_000:
            raise OptionError(
                f"{n:,} estimates have {len(pairs):,} pairs, too many: use kind='reference' or 'sequential'",
                code="too-large",
            )
        varied = [name for name in labels if labels[name].astype(str).nunique() > 1] or list(labels)[:1]
        names = [", ".join(map(_text, row)) for row in labels[varied].itertuples(index=False)]
        first, second = (np.array(side) for side in zip(*pairs, strict=True))
        values = self._array()
        columns: dict[str, Any] = {"contrast": [f"{names[b]} - {names[a]}" for b, a in pairs]}
        made = draws_array(np.moveaxis(values[first] - values[second], 0, -1), self.draws, columns)
        return replace(self, title=f"contrasts: {self.title}", draws=made, null=0.0, rope=None)

    def plot(self) -> Any:
        """Plot the estimates with their intervals; a matplotlib figure."""
        frame = self._table
        labels = [", ".join(map(_text, row)) for row in self.labels.itertuples(index=False)]
        percent = f"{100 * self.ci_prob:g}"
        center = frame["mean"].where(frame["mean"].notna(), frame.get("median", frame["mean"]))
        ends = [frame.get(f"eti{percent}_{side}", center).to_numpy() for side in ("lb", "ub")]
        return intervals(labels, center.to_numpy(), ends[0], ends[1], self.title, self.null)

    def __len__(self) -> int:
        return self.draws.sizes["estimate"]

    def __repr__(self) -> str:
        return "\n".join([self.title, formatted(self._table, 30), *self._notes()])

    def _notes(self) -> list[str]:
        return [f"{name} is left out: {why}" for name, why in self.left_out.items()]

    def _repr_html_(self) -> str:
        shown = self._table.to_html(index=False, float_format=lambda x: f"{x:.4g}", border=0)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p>{escape(self.title)}</p>{shown}{notes}"


def formatted(frame: pd.DataFrame, max_rows: int | None = None) -> str:
    """The table as text."""
    return frame.to_string(index=False, float_format=lambda x: f"{x:.4g}", max_rows=max_rows)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def draws_array(values: np.ndarray, like: Any, columns: dict[str, Any]) -> xr.DataArray:
    """Draws of shape (chain, draw, estimate) with the coordinates of ``like`` and columns for the estimates."""
    import xarray as xr

    coords: dict[str, Any] = {
        "chain": ("chain", like["chain"].to_numpy()),
        "draw": ("draw", like["draw"].to_numpy()),
    }
    return xr.DataArray(
        values,
        dims=("chain", "draw", "estimate"),
        coords=coords | {name: ("estimate", np.asarray(column)) for name, column in columns.items()},
        name="effect",
    )


def check_interval(ci_prob: float) -> float:
    """Check the probability of an interval and return it."""
    if isinstance(ci_prob, bool) or not isinstance(ci_prob, int | float) or not 0 < ci_prob < 1:
        raise OptionError(f"ci_prob must lie between 0 and 1, not {ci_prob!r}", code="out-of-range")
    return float(ci_prob)


def check_rope(rope: Any) -> tuple[float, float] | None:
    """Check the ends of a region of practical equivalence and return them."""
    if rope is None:
        return None
    try:
        low, high = (float(end) for end in rope)
    except (TypeError, ValueError):
        raise OptionError(
            f"rope is two numbers, its lower and its upper end, not {rope!r}", code="wrong-type"
        ) from None
    if not low <= high:
        raise OptionError(f"rope: the lower end {low:g} is above the upper end {high:g}", code="out-of-range")
    return low, high


def check_columns(names: Sequence[str]) -> None:
    """Refuse columns with the name of a column of the table of estimates."""
    for name in names:
        if name in _STATISTICS or name.startswith("eti"):
            raise OptionError(f"by: '{name}' is a column of the table of effects: rename it", code="reserved-name")
