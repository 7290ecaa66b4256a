"""The fit of a Markov random field: probabilities, the most probable states, the partition function, and plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bayeslab.errors import OptionError
from bayeslab.plots.field import image
from bayeslab.results.fitted import Fitted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

__all__ = ["FittedField", "applicable", "field_of"]


def field_of(fit: Fitted) -> FittedField:
    """See :attr:`bayeslab.results.fit.Fit.field`."""
    if fit.bound_model.view != "field":
        raise OptionError(
            "the model has no undirected field: that is the family markov_random_field", code="not-applicable"
        )
    return FittedField(fit)


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has."""
    return ("most_probable", "probabilities") if FittedField(fit).is_image else ()


@dataclass(frozen=True, eq=False)
class FittedField:
    """The variables of a Markov random field, given the evidence.

    Parameters
    ----------
    fit : Fitted
    """

    fit: Fitted

    def probabilities(self) -> xr.Dataset:
        """Marginal probabilities of the states, one array for each variable or image.

        Returns
        -------
        xarray.Dataset
            The last dimension of a variable ``x`` is ``x_state``. Exact after method exact, beliefs after method
            loopy, shares of draws after method gibbs.
        """
        tree = self.fit.data_tree.children
        if "exact_posterior" in tree:
            return tree["exact_posterior"].to_dataset().sel(statistic="mean", drop=True)
        if "beliefs" in tree:
            return tree["beliefs"].to_dataset()
        return self.fit.posterior.to_dataset().mean(("chain", "draw"))

    def most_probable(self) -> xr.Dataset:
        """The most probable joint state of all variables (MAP): the name of the state of each.

        Exact after method exact. After method loopy, by max-product, and after method gibbs, the draw with the highest
        probability: with loops these need not be the best.
        """
        return self.fit.data_tree.children["most_probable"].to_dataset().drop_vars("log_probability", errors="ignore")

    @property
    def log_partition(self) -> float:
        """The log of the sum of the product of the potentials over all states, without the evidence.

        Raises
        ------
        OptionError
            The method is not exact.
        """
        if not self.fit.has_group("partition"):
            raise OptionError(
                f"the partition function needs method exact; this fit is by {self.fit.method}", code="not-applicable"
            )
        return float(self.fit.data_tree["partition"]["log_partition"])

    @property
    def is_image(self) -> bool:
        """Whether the first variable of the field is an array with rows and columns."""
        name = str(next(iter(self.probabilities().data_vars)))
        return self.probabilities()[name].ndim == 3

    def plot(self, what: Literal["most_probable", "probabilities"] = "most_probable") -> Figure:
        """Plot an image: the most probable labels, or the probability of the last state; a matplotlib figure.

        Raises
        ------
        OptionError
            The field is not an image, or there is no such plot.
        """
        if what not in ("most_probable", "probabilities"):
            raise OptionError(
                f"a picture of a field is most_probable or probabilities, not {what!r}", code="unknown-word"
            )
        words = self.most_probable()
        name = str(next(iter(words.data_vars)))
        if not self.is_image:
            raise OptionError("the field is not an image; fit.field.probabilities() has numbers", code="not-applicable")
        chances = self.probabilities()[name]
        if what == "probabilities":
            state = str(chances[f"{name}_state"].to_numpy()[-1])
            return image(chances.to_numpy()[..., -1], f"P({name} = {state})", words[name].dims)
        states = chances[f"{name}_state"].to_numpy().tolist()
        codes = words[name].copy(data=[[states.index(word) for word in row] for row in words[name].to_numpy().tolist()])
        return image(codes.to_numpy(), f"most probable {name}", words[name].dims, states)
