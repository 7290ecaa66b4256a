"""Family ``topics``: documents as mixtures of topics, topics as distributions of words (latent Dirichlet allocation).

The topic of every word is summed out of the likelihood or, with proportions and topics integrated out instead, drawn
word by word (:mod:`bayeslab.latents.topics.topics`). Topics are exchangeable: chains are compared after their topics
have been matched, and convergence is assessed on label-invariant quantities.

References
----------
.. [1] Blei, Ng, Jordan (2003). Latent Dirichlet allocation. JMLR 3, 993-1022.
.. [2] Griffiths, Steyvers (2004). Finding scientific topics. PNAS 101, 5228-5235.
.. [3] Hoffman, Blei, Bach (2010). Online learning for latent Dirichlet allocation. NIPS 23.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import unknown_column
from bayeslab.families.topics.posterior import TopicsPosterior
from bayeslab.families.topics.spec import Topics
from bayeslab.language.spec import Model

__all__ = ["Spec", "Topics", "check", "compile"]

Spec = Topics


def _spec(model: Model) -> Topics:
    assert isinstance(model.model, Topics)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the data have the columns that the model names."""
    spec = _spec(model)
    if not columns:
        return
    wanted = [("document", spec.document), ("word", spec.word), ("count", spec.count)] if spec.counted else []
    if not spec.counted:
        wanted = [("text", name) for name in spec.text_columns]
    for key, name in [*wanted, ("time", spec.time)]:
        if name is not None and name not in columns:
            advice = "; name the column of documents with `text`" if key == "text" and spec.text is None else ""
            raise unknown_column(name, columns, ("model", key), advice)


def compile(model: Model, data: Data) -> TopicsPosterior:
    """Bind the model to its data."""
    return TopicsPosterior(model, data)
