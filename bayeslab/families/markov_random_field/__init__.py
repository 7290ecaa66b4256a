"""Family ``markov_random_field``: discrete variables and a product of potentials, without directions.

The joint probability of the variables is the product of non-negative tables, divided by its sum over all states, the
partition function [1]_. Potentials are written as tables; images have a short form, in which neighbouring pixels are
coupled (Ising and Potts models) and pixels are observed with noise [2]_. Nothing is learned: a fit is the distribution
of the variables given the evidence.

References
----------
.. [1] Koller, Friedman (2009). Probabilistic Graphical Models. MIT Press, chapter 4.
.. [2] Geman, Geman (1984). Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images. IEEE
   Transactions on Pattern Analysis and Machine Intelligence 6, 721-741.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, hint, unknown_column
from bayeslab.families.markov_random_field.field import check_emission, graph_of
from bayeslab.families.markov_random_field.posterior import FieldPosterior
from bayeslab.families.markov_random_field.spec import MarkovRandomField
from bayeslab.language.spec import Model

__all__ = ["MarkovRandomField", "Spec", "check", "compile"]

Spec = MarkovRandomField


def check(model: Model, columns: set[str] | None) -> None:
    """Check the potentials, the evidence and the names of columns."""
    spec = model.model
    assert isinstance(spec, MarkovRandomField)
    if spec.grid is None:
        graph_of(spec, model.name)
        if columns and not columns & spec.variables.keys():
            first = next(iter(spec.variables))
            raise ModelError(
                f"the data have a column for none of the variables{hint(first, columns)}",
                path=("model", "variables"),
                code="unknown-column",
            )
        return
    check_emission(spec.grid)
    for key in ("observed", "row", "column"):
        name = getattr(spec.grid, key)
        if columns and name is not None and name not in columns:
            raise unknown_column(name, columns, ("model", "grid", key))


def compile(model: Model, data: Data) -> FieldPosterior:
    """Bind the model to its data."""
    return FieldPosterior(model, data)
