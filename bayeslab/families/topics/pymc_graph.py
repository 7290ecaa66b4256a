r"""Topics as a PyMC graph: with the topics of words summed out, or with documents as random counts of words.

A Dirichlet distribution with small concentrations has several scales at once: probabilities near zero vary over orders
of magnitude, those of words that occur do not, and which words occur is uncertain. Samplers therefore use the
coordinates of :mod:`bayeslab.latents.topics.topic_mixture_kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError
from bayeslab.families.topics.documents import Documents
from bayeslab.families.topics.spec import Topics, prior_of
from bayeslab.language.spec import Model
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topic_concentrations import ALPHA_PRIOR, BETA_PRIOR
from bayeslab.latents.topics.topics import TopicPrior

if TYPE_CHECKING:
    import pymc


__all__ = ["relabelled", "with_evidence", "written_out"]

# Largest number of parameters for which sampling the graph is feasible.
MOST_PARAMETERS = 100_000
KERNEL = "bayeslab.latents.topics.topic_mixture_kernels:density"
# Number of Gibbs sweeps for the start of chains.
_SWEEPS = 200


def with_evidence(spec: Topics, documents: Documents) -> pymc.Model:
    r"""Parameters, and log p(words | parameters) = :math:`\sum_{dw} n_{dw} \log \sum_k \theta_{dk} \phi_{kw}`."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    corpus = documents.corpus
    if (many := prior_of(spec).n_topics * (corpus.n_documents + corpus.n_words)) > MOST_PARAMETERS:
        raise ModelError(
            f"the topics of {corpus.n_documents:,} documents and {corpus.n_words:,} words have {many:,} parameters,"
            f" more than {MOST_PARAMETERS:,} for a graph; use method gibbs or variational",
            path=("model", "family"),
            code="too-costly",
        )
    prior = prior_of(spec)
    d, k, v = corpus.n_documents, prior.n_topics, corpus.n_words
    x_theta, x_phi = _start(prior, documents)
    keys, counts = np.unique(corpus.document * v + corpus.words, return_counts=True)
    built = pm.Model(coords=_coords(k, documents.vocabulary, documents.dim, documents.labels))
    with built:
        alpha, beta = _concentrations(spec, prior)
        # Names of coordinates start with _ and are not shown. A single topic has no proportions; its coordinate
        # remains.
        theta: Any = pm.Flat("_theta", shape=(d, k), initval=x_theta)
        phi: Any = pm.Flat("_phi", shape=(k, v), initval=x_phi)
        flat = pt.concatenate([theta.ravel(), phi.ravel(), alpha, pt.atleast_1d(beta)])
        pm.Potential("evidence", log_evidence(KERNEL, flat, np.array([d, k, v]), keys // v, keys % v, counts))
        pm.Deterministic("theta", _rows(theta, alpha), dims=(documents.dim, "topic"))
        pm.Deterministic("phi", _rows(phi, beta), dims=("topic", "word"))
    return built


def _rows(x: Any, concentration: Any) -> Any:
    """Rows that sum to 1, from their coordinates."""
    import pytensor.tensor as pt

    log_root = pt.switch(x < -30, x, pt.log(pt.softplus(x)))
    return pt.special.softmax(-pt.softplus(-x) / concentration + 2 * log_root, axis=1)


def _coords(k: int, vocabulary: np.ndarray, dim: str, labels: np.ndarray) -> dict[str, Any]:
    return {"topic": list(range(1, k + 1)), "word": vocabulary.tolist(), dim: labels.tolist()}


def _start(prior: TopicPrior, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of θ and φ after some Gibbs sweeps."""
    from bayeslab.latents.topics.topic_mixture_kernels import coordinate

    corpus, alpha, beta = documents.corpus, prior.alpha, prior.beta
    state = lda.run(corpus, lda.start(corpus, prior.n_topics, np.random.default_rng(0)), prior, _SWEEPS)
    theta = lda.proportions(corpus, state, prior) * (corpus.lengths + alpha.sum())[:, None]
    sizes = np.bincount(state["z"], minlength=prior.n_topics) + beta * corpus.n_words
    phi = lda.topics(corpus, state, prior) * sizes[:, None]
    x_theta = np.array([[coordinate(np.log(g), a) for g, a in zip(row, alpha, strict=True)] for row in theta])
    # Counts are integers with few distinct values.
    values, at = np.unique(phi, return_inverse=True)
    return x_theta, np.array([coordinate(np.log(g), beta) for g in values])[at].reshape(phi.shape)


def _concentrations(spec: Topics, prior: TopicPrior) -> tuple[Any, Any]:
    """Concentrations: numbers, or gamma variables if they are learned."""
    import pymc as pm
    import pytensor.tensor as pt

    alpha: Any = pt.as_tensor_variable(prior.alpha)
    if spec.alpha == "learned":
        alpha = pm.Gamma("alpha", ALPHA_PRIOR.shape, ALPHA_PRIOR.rate * prior.n_topics, dims="topic")
    beta: Any = pt.as_tensor_variable(prior.beta)
    if spec.beta == "learned":
        beta = pm.Gamma("beta", BETA_PRIOR.shape, BETA_PRIOR.rate)
    return alpha, beta


def written_out(model: Model, data: Data, documents: Documents | None) -> pymc.Model:
    """Parameters, and ``counts`` of words in each document."""
    import pymc as pm
    import pytensor.tensor as pt

    spec = model.model
    assert isinstance(spec, Topics)
    if documents is not None:
        dim, labels, vocabulary = documents.dim, documents.labels, documents.vocabulary
        lengths = documents.corpus.lengths
    else:
        dim = spec.document or model.data.rows
        for name in (dim, "word"):
            if name not in data.labels:
                raise ModelError(
                    f"to simulate without data give '{name}' a length, such as {{{name}: 50}}",
                    path=("dims",),
                    code="incomplete",
                )
        labels, vocabulary = data.labels[dim], data.labels["word"]
        lengths = np.full(len(labels), spec.words_per_document)
    prior = prior_of(spec)
    k = prior.n_topics
    built = pm.Model(coords=_coords(k, vocabulary, dim, labels))
    with built:
        alpha, beta = _concentrations(spec, prior)
        if k == 1:
            theta = pm.Deterministic("theta", pt.ones((len(labels), 1)), dims=(dim, "topic"))
        else:
            theta = pm.Dirichlet("theta", pt.ones((len(labels), 1)) * alpha, dims=(dim, "topic"))
        phi = pm.Dirichlet("phi", pt.ones((k, len(vocabulary))) * beta, dims=("topic", "word"))
        chance = pt.dot(theta, phi)
        chance = chance / chance.sum(axis=1, keepdims=True)
        pm.Multinomial("counts", n=lengths, p=chance, dims=(dim, "word"))
    return built


def relabelled(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws with matched topics, the most common first."""
    phi, theta = np.asarray(draws["phi"]), np.asarray(draws["theta"])
    mean, orders = phi[0].copy(), np.empty(phi.shape[:2], int)
    # Two passes, because the first draws were matched with few others.
    for again in (False, True):
        total = np.zeros_like(mean)
        for s, one in enumerate(phi):
            orders[s] = lda.align(mean if again or s == 0 else total / s, one)
            total += one[orders[s]]
        mean = total / len(phi)
    share = np.mean([theta[s][:, order].mean(axis=0) for s, order in enumerate(orders)], axis=0)
    orders = orders[:, np.argsort(-share, kind="stable")]
    places: dict[str, Any] = {"phi": np.s_[:, :, None], "theta": np.s_[:, None, :], "alpha": np.s_[:]}
    axes = {"phi": 1, "theta": 2, "alpha": 1}
    each = {name: name.removeprefix("_") for name in draws if name.removeprefix("_") in axes}
    return {n: np.take_along_axis(np.asarray(draws[n]), orders[places[w]], axis=axes[w]) for n, w in each.items()}
