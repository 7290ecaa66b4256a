"""Keys of the ``topics`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from bayeslab.errors import (
    Flaw,
    ModelError,
    hint,
)
from bayeslab.language.spec import ColumnName, Family
from bayeslab.latents.topics.topic_process import ProcessPrior
from bayeslab.latents.topics.topics import TopicPrior

__all__ = ["Topics", "prior_of"]

_TAKEN = {"topic", "phi", "theta", "alpha", "beta", "n_words", "counts", "pair", "document_of_pair", "word_of_pair"}


# Default concentration of words in a topic.
_BETA = 0.05


def _as_topics(value: Any) -> Any:
    if value == "hdp":
        return value
    if isinstance(value, str):
        raise Flaw(f"topics is a number of topics, or hdp, not '{value}'{hint(value, ('hdp',))}", code="unknown-word")
    if isinstance(value, bool) or not isinstance(value, int):
        raise Flaw(f"topics is a number of topics, or hdp, not {value!r}", code="wrong-type")
    if not 1 <= value <= 10_000:
        raise Flaw(f"{value} topics; at least 1 and at most 10,000", code="out-of-range")
    return value


def _as_concentration(value: Any) -> Any:
    if isinstance(value, str) and value != "learned":
        raise Flaw(f"a concentration is a positive number, or learned, not '{value}'", code="unknown-word")
    each = value if isinstance(value, list) else [value] if isinstance(value, int | float) else []
    if any(isinstance(a, bool) or not isinstance(a, int | float) or not 0 < a < 1e6 for a in each):
        raise Flaw(f"concentrations are positive numbers, not {value!r}", code="out-of-range")
    return value


def _as_step(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != "learned" and not (number and 0 <= value < 1e3):
        raise Flaw(f"tau is a standard deviation, 0 or more, or learned; not {value!r}", code="out-of-range")
    return value


def _as_stop_words(value: Any) -> Any:
    if isinstance(value, str) and value not in ("english", "none"):
        raise Flaw(f"stop_words is english, none, or a list of words, not '{value}'", code="unknown-word")
    return value


class Topics(Family):
    """A topic model: latent Dirichlet allocation, a hierarchical Dirichlet process or a dynamic topic model."""

    family: Literal["topics"] = "topics"
    topics: Annotated[int | Literal["hdp"], BeforeValidator(_as_topics)] = Field(
        description="Number of topics, or `hdp` for a hierarchical Dirichlet process, which infers the number."
    )
    text: ColumnName | Annotated[list[ColumnName], Field(min_length=2)] | None = Field(
        default=None,
        description="Column of documents, as text or lists of words (default: text). Or several columns: the same"
        " documents in several languages, which share their topic proportions.",
    )
    time: ColumnName | None = Field(
        default=None,
        description="Column with the day of each document; topic concentrations then follow a random walk from day"
        " to day.",
    )
    tau: Annotated[float | int | Literal["learned"], BeforeValidator(_as_step)] = Field(
        default="learned",
        description="With time: standard deviation of the daily step of a log concentration, or learned.",
    )
    document: ColumnName | None = Field(
        default=None, description="For data that are counts (one row for each document and word): column of documents."
    )
    word: ColumnName | None = Field(default=None, description="For data that are counts: column of words.")
    count: ColumnName | None = Field(
        default=None, description="For data that are counts: column of counts; if left out, each row counts once."
    )
    alpha: Annotated[
        float | int | list[float | int] | Literal["learned"] | None, BeforeValidator(_as_concentration)
    ] = Field(
        default=None,
        description="Dirichlet concentration of topics in a document: one number, one for each topic, or learned"
        " (asymmetric, one for each topic). Default: 1 divided by the number of topics; learned for hdp.",
    )
    gamma: float | int | None = Field(
        default=None, gt=0, description="For hdp: concentration of the topics in the corpus; learned if left out."
    )
    beta: Annotated[float | int | Literal["learned"], BeforeValidator(_as_concentration)] = Field(
        default=_BETA, description="Dirichlet concentration of words in a topic: a number, or learned."
    )
    held_out: float | int = Field(
        default=0, ge=0, lt=1, description="Share of documents that are held out to evaluate the fit."
    )
    lowercase: bool = Field(default=True, description="Whether text is converted to lower case.")
    stop_words: Annotated[list[str] | Literal["english", "none"] | None, BeforeValidator(_as_stop_words)] = Field(
        default=None,
        description="Words to leave out: english (the default for text), none (the default for lists of words and"
        " counts), or a list.",
    )
    more_stop_words: list[str] = Field(
        default_factory=list, description="Words to leave out in addition to `stop_words`."
    )
    min_length: int | None = Field(
        default=None, ge=1, description="Minimum number of letters in a word; default: 2 for text, else 1."
    )
    min_documents: int = Field(
        default=1, ge=1, description="Minimum number of documents that contain a word of the vocabulary."
    )
    max_share: float | int = Field(
        default=1, gt=0, le=1, description="Maximum share of documents that contain a word of the vocabulary."
    )
    most_words: int = Field(
        default=100_000, ge=2, description="Size limit of the vocabulary: the most frequent words are kept."
    )
    words_per_document: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Length of simulated documents, if the data do not give it.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Topics:
        if (self.document is None) != (self.word is None):
            raise Flaw("counts need the columns `document` and `word`", code="incomplete")
        if self.text is not None and self.document is not None:
            raise Flaw("give either `text`, or `document` and `word`", code="conflict")
        if self.count is not None and self.document is None:
            raise Flaw("`count` needs `document` and `word`", code="conflict")
        if self.topics == "hdp" and isinstance(self.alpha, list):
            raise Flaw("with hdp, alpha is one number, or learned", code="wrong-length")
        if self.topics != "hdp" and self.gamma is not None:
            raise Flaw("gamma needs `topics: hdp`", code="conflict")
        if isinstance(self.alpha, list) and len(self.alpha) != self.topics:
            raise Flaw(f"alpha has {len(self.alpha)} numbers; there are {self.topics} topics", code="wrong-length")
        if self.time is not None and (self.topics == "hdp" or self.counted or "learned" in (self.alpha, self.beta)):
            raise Flaw(
                "`time` needs a number of topics, documents as text, and numbers for alpha and beta",
                code="unsupported",
            )
        if self.time is not None and isinstance(self.text, list):
            raise Flaw("`time` needs documents in one language", code="unsupported")
        if isinstance(self.text, list) and (self.topics == "hdp" or self.beta == "learned"):
            raise Flaw(
                "documents in several languages need a number of topics, and a number for beta", code="unsupported"
            )
        if isinstance(self.text, list) and len(set(self.text)) < len(self.text):
            raise Flaw("a column of documents is given twice", code="duplicate")
        if self.tau != "learned" and self.time is None:
            raise Flaw("`tau` needs `time`, the column of days", code="conflict")
        for name in (*self.text_columns, *filter(None, (self.document, self.time))):
            if name in _TAKEN:
                raise Flaw(
                    f"a column called '{name}' cannot be used: results use that name; rename it", code="reserved-name"
                )
        return self

    @property
    def counted(self) -> bool:
        """Whether the data are counts of words by document."""
        return self.document is not None

    @property
    def text_columns(self) -> list[str]:
        """Columns of documents, one for each language."""
        return self.text if isinstance(self.text, list) else [self.text or "text"]

    @property
    def text_column(self) -> str:
        """The first column of documents."""
        return self.text_columns[0]

    def factors(self, dims: Collection[str]) -> set[str]:
        """The empty set: words are counted, and no column is categorical."""
        return set()

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """Names of the outcomes: the count of each word in each document."""
        return ("counts",)

    def levels(self) -> dict[str, list[str]]:
        """Text columns, without levels: texts are not categories."""
        return {} if self.counted else {name: [] for name in self.text_columns}

    @staticmethod
    def table(counts: Any, vocabulary: Any = None, documents: Any = None) -> dict[str, np.ndarray]:
        """Convert a matrix of counts to columns ``document``, ``word`` and ``count``.

        Parameters
        ----------
        counts : array or scipy sparse matrix, (n_documents, n_words)
        vocabulary, documents : sequence, optional
            Names of the words and documents; default: their numbers, the words' as text.
        """
        from scipy.sparse import coo_array

        table = coo_array(counts)
        table.sum_duplicates()
        rows, columns, values = table.row, table.col, np.asarray(table.data)
        # Keep a document without words, so that it is reported as missing.
        empty = np.setdiff1d(np.arange(table.shape[0]), rows[values != 0])
        rows, columns = np.append(rows, empty), np.append(columns, np.zeros_like(empty))
        values = np.append(values, np.zeros(len(empty), values.dtype))
        width = len(str(table.shape[1]))
        words = np.array([f"{i:0{width}d}" for i in range(table.shape[1])] if vocabulary is None else list(vocabulary))
        names = np.arange(table.shape[0]) if documents is None else np.array(list(documents))
        if len(words) != table.shape[1] or len(names) != table.shape[0]:
            raise ModelError(
                f"{len(names)} documents and {len(words)} words for counts of shape {table.shape}", code="wrong-shape"
            )
        return {"document": names[rows], "word": words[columns], "count": values}


def prior_of(spec: Topics) -> TopicPrior:
    """The concentrations; those that are learned have their start values."""
    k = _number(spec)
    alpha = spec.alpha if isinstance(spec.alpha, list | int | float) else 1.0 / k
    beta = _BETA if isinstance(spec.beta, str) else float(spec.beta)
    return TopicPrior(np.broadcast_to(np.asarray(alpha, float), (k,)).copy(), beta)


def _number(spec: Topics) -> int:
    assert isinstance(spec.topics, int)
    return spec.topics


def _process_of(spec: Topics) -> ProcessPrior:
    """Concentrations of the hierarchical process; those that are not given are learned."""

    given = {name: float(value) for name in ("alpha", "gamma") if isinstance(value := getattr(spec, name), int | float)}
    beta = _BETA if isinstance(spec.beta, str) else float(spec.beta)
    return ProcessPrior(**given, beta=beta, learn_beta=spec.beta == "learned")
