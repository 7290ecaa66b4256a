"""The functions of a fitted graph (nodes ``GaussianProcess``): tables and plots of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.arrays import number
from bayeslab.errors import OptionError, hint
from bayeslab.plots.figure import ACCENT, BAND, figure, plain
from bayeslab.results.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Functions", "functions_of"]


def functions_of(fit: Fitted) -> Functions:
    """See :attr:`bayeslab.results.fit.Fit.functions`."""
    names = fit.bound_model.functions()
    if not names:
        raise OptionError(
            "the model has no function among its nodes, such as f[row]: GaussianProcess(...); that of the family"
            " gaussian_process is fit.process",
            code="not-applicable",
        )
    return Functions(fit, names)


@dataclass(frozen=True, eq=False)
class Functions:
    """Posterior functions.

    Parameters
    ----------
    fit : Fitted
    names : tuple of str
        The nodes.
    """

    fit: Fitted
    names: tuple[str, ...]

    def table(self, name: str | None = None, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """The values of a function at the rows of the fit.

        Parameters
        ----------
        name
            The node; it may be left out where there is one.
        ci_prob
            Probability of the interval (equal tails).

        Returns
        -------
        pandas.DataFrame
            One row per value: its label, ``mean``, ``sd`` and the ends of the interval.
        """
        import pandas as pd

        number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
        values, labels, dim = self._values(name)
        tail = (1 - ci_prob) / 2
        low, high = np.quantile(values, [tail, 1 - tail], axis=0)
        per_cent = f"{100 * ci_prob:.3g}"
        return pd.DataFrame(
            {
                dim: labels,
                "mean": values.mean(axis=0),
                "sd": values.std(axis=0, ddof=1),
                f"eti{per_cent}_lb": low,
                f"eti{per_cent}_ub": high,
            }
        )

    def plot(self, name: str | None = None, *, column: str | None = None, ci_prob: float = 0.89) -> Any:
        """Plot a function over its rows, or over a column of its table; a matplotlib figure.

        Parameters
        ----------
        name
            The node; it may be left out where there is one.
        column
            A numeric column with the dimension of the function; None: the rows in order.
        ci_prob
            Probability of the band.
        """
        values, labels, dim = self._values(name)
        x = np.arange(len(labels)) if labels.dtype.kind in "UO" else labels
        if column is not None:
            if not self.fit.data.has(column):
                raise OptionError(
                    f"no column '{column}'{hint(column, sorted(self.fit.data.names()))}", code="unknown-column"
                )
            x = np.asarray(self.fit.data.term(column).value, dtype=float)
            if x.shape != labels.shape:
                raise OptionError(f"the column '{column}' has another dimension than {dim}", code="bad-dimensions")
        order = np.argsort(x, kind="stable")
        tail = (1 - ci_prob) / 2
        low, high = np.quantile(values, [tail, 1 - tail], axis=0)
        drawing, axes = figure()
        axes.fill_between(x[order], low[order], high[order], color=BAND, label=f"{100 * ci_prob:.3g} % interval")
        axes.plot(x[order], values.mean(axis=0)[order], color=ACCENT, label="posterior mean")
        axes.set(xlabel=column or dim, ylabel=self._name(name))
        axes.legend(frameon=False)
        plain(axes)
        return drawing

    def _name(self, name: str | None) -> str:
        if name is None and len(self.names) == 1:
            return self.names[0]
        if name not in self.names:
            raise OptionError(
                f"name one of the functions {', '.join(self.names)}"
                + ("" if name is None else f", not '{name}'{hint(name, self.names)}"),
                code="unknown-variable",
            )
        return name

    def _values(self, name: str | None) -> tuple[np.ndarray, np.ndarray, str]:
        """Draws of shape (draws, values), the labels of the values, and their dimension."""
        node = self.fit.posterior[self._name(name)]
        dim = str(node.dims[-1])
        draws = node.to_numpy()
        return draws.reshape(-1, draws.shape[-1]), np.asarray(node[dim].to_numpy()), dim
