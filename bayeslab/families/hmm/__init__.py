"""Family ``hmm``: sequences driven by a hidden state that follows a Markov chain.

Every engine sums out the states exactly by forward-backward (:mod:`bayeslab.latents.chains.forward_backward`). Its
expected counts are the statistics of EM and, by Fisher's identity, the gradient for NUTS.

References
----------
.. [1] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
.. [3] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, unknown_column
from bayeslab.families.hmm.chains import chain_of, product_of
from bayeslab.families.hmm.given_parameters import given_of
from bayeslab.families.hmm.posterior import HMMPosterior
from bayeslab.families.hmm.product_parts import check_parameters
from bayeslab.families.hmm.regression import known_regression
from bayeslab.families.hmm.spec import HMM, emission_parameters, layout_of
from bayeslab.families.hmm.truncation import limit_of, truncated
from bayeslab.families.hmm.urns import balls_of
from bayeslab.language.spec import Model

__all__ = ["HMM", "Spec", "check", "compile"]

Spec = HMM

# Columns of the table of decoded states, which also has columns with the names of sequences and times.
_DECODED = frozenset(("state", "probability", "path", "log_probability"))


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the keys can be read and that the data have the columns."""
    assert isinstance(model.model, HMM)
    if model.model.states == "infinite":
        limit_of(model.model)
    spec = truncated(model.model)
    continuous = model.model.states == "continuous"
    if spec.ranged:
        spec = spec.model_copy(update={"states": spec.ranged[1]})
    n_states = 0
    if not continuous and spec.classes is None:
        n_states = chain_of(spec).n_states
    if spec.chains is not None:
        check_parameters(spec, product_of(spec), layout_of(spec))
    elif spec.emission == "urn":
        balls_of(spec, chain_of(spec).n_states)
    elif (spec.inputs or spec.window) and spec.classes is None:
        known_regression(spec, n_states, emission_parameters(spec))
    elif not continuous and spec.emission != "observed" and spec.classes is None:
        given_of(emission_parameters(spec), layout_of(spec), n_states)
    for key in ("inputs", "transitions_on"):
        for name in getattr(spec, key):
            if columns and name not in columns:
                raise unknown_column(name, columns, ("model", key))
    labels = {"sequence": spec.sequence, "time": spec.time, "rows": model.data.rows}
    for key, name in labels.items():
        if name in _DECODED:
            raise ModelError(
                f"{key} is '{name}', and so is a column of the table of decoded states: call it otherwise"
                " (data.rename)",
                path=("data", "rows") if key == "rows" else ("model", key),
                code="reserved-name",
            )
    if not columns:
        return
    for key in ("sequence", "time", "parent"):
        name = getattr(spec, key)
        if name is not None and name not in columns and name != model.data.rows:
            raise unknown_column(name, columns, ("model", key))
    if not any(column in columns for column in spec.columns):
        raise unknown_column(spec.columns[0], columns, ("model", "columns", 0))


def compile(model: Model, data: Data) -> HMMPosterior:
    """Bind the model to its data."""
    return HMMPosterior(model, data)
