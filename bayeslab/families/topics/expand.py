"""Expand a topic model of counts in the model language: the topic of each row is a label that is summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.topics.documents import documents_of
from bayeslab.families.topics.spec import Topics, prior_of
from bayeslab.language.expansion import Expansion, check_columns, number, numbers, unsupported
from bayeslab.language.spec import Model
from bayeslab.latents.topics.topic_concentrations import ALPHA_PRIOR, BETA_PRIOR

__all__ = ["expand"]

_LABEL = "topic_of_row"


def expand(model: Model, data: Data) -> Expansion:
    """Write the model as nodes of the language.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    spec = model.model
    assert isinstance(spec, Topics)
    _check(spec)
    documents = documents_of(model, data)
    _whole(spec, data, documents.vocabulary, documents.corpus.n_tokens)
    document, word, row, prior = str(spec.document), str(spec.word), data.dataset.rows, prior_of(spec)
    dims: dict[str, Any] = {"topic": prior.n_topics, "vocabulary": word}
    for name, labels in ((document, documents.labels), (word, documents.vocabulary)):
        if not data.dataset.columns[name].text:
            dims[name] = [str(label) for label in labels]
    alpha, beta = numbers(prior.alpha), number(prior.beta)
    nodes, comments = dict[str, str](), dict[str, str]()
    if spec.alpha == "learned":
        alpha, nodes["alpha[topic]"] = "alpha", f"Gamma({ALPHA_PRIOR.shape}, {ALPHA_PRIOR.rate * prior.n_topics})"
        comments["alpha[topic]"] = "Concentration of topics in a document: small where documents have few."
    if spec.beta == "learned":
        beta, nodes["beta"] = "beta", f"Gamma({BETA_PRIOR.shape}, {BETA_PRIOR.rate})"
        comments["beta"] = "Concentration of words in a topic: small where topics have few."
    theta, phi = f"theta[{document}, topic]", "phi[topic, vocabulary]"
    nodes[theta] = f"Dirichlet({alpha})" if prior.n_topics > 1 else "1"
    comments[theta] = "Shares of topics in each document."
    nodes[phi] = f"Dirichlet({beta})"
    comments[phi] = "Probabilities of words in each topic."
    nodes[f"{_LABEL}[{row}]"] = f"Categorical(theta[{document}, topic])"
    comments[f"{_LABEL}[{row}]"] = (
        "The topic of a word. It has no data: fits sum it out exactly and compute it afterwards."
    )
    nodes[f"{word}[{row}]"] = f"Categorical(phi[{_LABEL}, vocabulary])"
    comments[f"{word}[{row}]"] = "The words, row by row."
    if spec.count is not None:
        chance = f"dot(theta[{document}, topic], phi[topic, {word}], topic)"
        nodes["repeated"] = f"Potential(sum(({spec.count} - 1) * log({chance})))"
        comments["repeated"] = (
            f"Each row counts as often as its {spec.count} says: its log likelihood is there once already, and this"
            " adds the rest."
        )
    check_columns(nodes, dims, data.dataset.columns, (document, word), "word")
    about = (
        f"{prior.n_topics} topics (latent Dirichlet allocation), written out in the model language. Topics are"
        " exchangeable: their numbers mean nothing, and chains may swap them."
    )
    return Expansion(nodes, {}, dims, comments, about)


def _check(spec: Topics) -> None:
    """Refuse parts that the language does not have."""
    if spec.topics == "hdp":
        raise unsupported("a graph has a fixed number of topics", "topics")
    if not spec.counted:
        raise unsupported(
            "documents are texts, which the language does not split into words: give a table with a row for each"
            " document and word, with `document`, `word` and `count`",
            *(["text"] if spec.text is not None else []),
        )
    if spec.time is not None:
        raise unsupported("topics that change from day to day cannot be expanded yet", "time")
    if spec.held_out:
        raise unsupported("a graph has no held-out documents", "held_out")


def _whole(spec: Topics, data: Data, vocabulary: np.ndarray, tokens: int) -> None:
    """Check that every row belongs to the model and has a count of at least one."""
    word, n = data.dataset.columns[str(spec.word)], len(data.labels[data.dataset.rows])
    counts = np.ones(n) if spec.count is None else np.asarray(data.dataset.columns[spec.count].values, float)
    levels = {str(value) for value in word.values.tolist()}
    if word.absent().any() or levels != set(vocabulary.tolist()) or not np.all(counts >= 1) or counts.sum() != tokens:
        raise unsupported(
            "some rows are not used (stop words, rare words, counts of zero), and a graph uses every row: leave them"
            " out of the table",
            "word",
        )
