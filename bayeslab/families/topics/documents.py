"""Documents as counts of words: from text, from lists of words, or from counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.cells import WORDS_APART
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.documents import STOP_WORDS, WordLimits, chosen_words, words_of
from bayeslab.errors import DataError, hint, listed
from bayeslab.families.topics.spec import Topics
from bayeslab.language.spec import Model
from bayeslab.latents.topics.topics import Corpus
from bayeslab.memory import require_memory

# Largest number of days, each of which has concentrations to sample.
_MOST_DAYS = 10_000
# Bytes of memory for each word: its number, and its topic.
_BYTES = 12

__all__ = [
    "Documents",
    "counted",
    "documents_of",
    "every_document",
    "fitted_documents",
    "held_out_documents",
    "new_documents",
    "row_data",
]


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents and their vocabulary.

    Attributes
    ----------
    corpus : Corpus
    vocabulary : ndarray of str
    dim : str
        Name of the dimension of documents.
    labels : ndarray
        Names of the documents.
    dropped : ndarray of int, (n_documents,)
        Number of words of each document outside the vocabulary: stop words, rare and common words; for new documents
        also unknown ones.
    unknown : ndarray of int, (n_documents,)
        Number of unknown words: outside the vocabulary, but not stop words.
    languages : tuple of str
        Columns of documents in several languages, with a joint numbering of their words.
    blocks : ndarray of int, (n_languages + 1,)
        Start of each language's words.
    day : ndarray of int, (n_documents,), or None
        Day of each document, non-decreasing from 0.
    dates : ndarray
        Value of each day in the data: an integer, or a date as text.
    """

    corpus: Corpus
    vocabulary: np.ndarray
    dim: str
    labels: np.ndarray
    dropped: np.ndarray
    unknown: np.ndarray
    languages: tuple[str, ...] = ()
    blocks: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    day: np.ndarray | None = None
    dates: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @cached_property
    def counts(self) -> np.ndarray:
        """Counts of words in documents, (n_documents, n_words)."""
        keys = self.corpus.document * self.corpus.n_words + self.corpus.words
        frequencies = np.bincount(keys, minlength=self.corpus.n_documents * self.corpus.n_words)
        return np.asarray(frequencies.reshape(self.corpus.n_documents, self.corpus.n_words))

    def take(self, chosen: np.ndarray) -> Documents:
        """A subset of the documents, by index."""
        return replace(
            self,
            corpus=self.corpus.take(chosen),
            labels=self.labels[chosen],
            dropped=self.dropped[chosen],
            unknown=self.unknown[chosen],
            day=None if self.day is None else self.day[chosen],
        )

    @property
    def bounds(self) -> np.ndarray:
        """Start of the words of each language, also for a single language."""
        return self.blocks if len(self.languages) > 1 else np.array([0, self.corpus.n_words])

    @property
    def sides(self) -> np.ndarray:
        """Index of the language of each word of the vocabulary."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    @cached_property
    def word_shares(self) -> np.ndarray:
        """Share of each word among all tokens (of its language)."""
        counts = np.bincount(self.corpus.words, minlength=self.corpus.n_words).astype(float)
        for begin, end in pairwise(self.bounds):
            counts[begin:end] /= max(counts[begin:end].sum(), 1)
        return counts


def counted(n: int, noun: str) -> str:
    """A count with its noun: 1 document, 2 documents."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _spec(model: Model) -> Topics:
    assert isinstance(model.model, Topics)
    return model.model


def documents_of(model: Model, data: Data) -> Documents:
    """The fitted documents in the order of their days, without held-out ones; see :func:`every_document`."""
    return fitted_documents(model, every_document(model, data))


def fitted_documents(model: Model, every: Documents) -> Documents:
    """The fitted documents among all documents, in the order of their days."""
    chosen = _parts(model, every)[0] if _spec(model).held_out else np.arange(every.corpus.n_documents)
    if every.day is not None:
        chosen = chosen[np.argsort(every.day[chosen], kind="stable")]
    return every.take(chosen)


def held_out_documents(model: Model, every: Documents) -> Documents | None:
    """The held-out documents among all documents, if there are any."""
    return every.take(_parts(model, every)[1]) if _spec(model).held_out else None


def _parts(model: Model, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the fitted and of the held-out documents, the same in every fit."""
    n = documents.corpus.n_documents
    many = int(np.ceil(float(_spec(model).held_out) * n))
    if many >= n:
        raise DataError(f"held_out leaves no document to fit, of {n}", path=("model", "held_out"), code="no-rows")
    order = np.random.default_rng(0).permutation(n)
    return np.sort(order[many:]), np.sort(order[:many])


def every_document(model: Model, data: Data) -> Documents:
    """Read the documents from the data.

    Raises
    ------
    DataError
        A column does not exist; a document has no words; or the vocabulary has only one word.
    """
    documents = _from_counts(model, data, None) if _spec(model).counted else _from_text(model, data, None)
    _check(model, documents)
    if _spec(model).time is None:
        return documents
    day, dates = _days(model, data)
    return replace(documents, day=day, dates=dates)


def new_documents(
    model: Model, data: Data, vocabulary: Sequence[str] | np.ndarray, blocks: np.ndarray | None = None
) -> Documents:
    """New documents in the vocabulary of a fit; unknown words are counted in ``unknown`` and left out."""
    words = [str(word) for word in vocabulary]
    vocabularies = [words] if blocks is None else [words[a:b] for a, b in pairwise(blocks)]
    return _from_counts(model, data, vocabularies[0]) if _spec(model).counted else _from_text(model, data, vocabularies)


def _column(model: Model, data: Data, name: str, key: str) -> Column:
    if name not in data.dataset.columns:
        raise DataError(
            f"the data have no column '{name}'{hint(name, data.dataset.columns)}",
            path=("model", key),
            code="unknown-column",
        )
    return data.column(name)


# --------------------------------------------------------------------------------- text


def _from_text(model: Model, data: Data, vocabularies: list[list[str]] | None) -> Documents:
    names = _spec(model).text_columns
    if len(names) == 1:
        return _of_column(model, data, names[0], None if vocabularies is None else vocabularies[0])
    # New documents may have only some of the languages.
    sides = [
        _of_column(model, data, name, None if vocabularies is None else vocabularies[i])
        for i, name in enumerate(names)
        if vocabularies is None or name in data.dataset.columns
    ]
    if not sides:
        raise DataError(f"the data have none of the columns {listed(names)}", code="unknown-column")
    n, first = sides[0].corpus.n_documents, sides[0]
    sizes = [len(v) for v in vocabularies] if vocabularies is not None else [len(side.vocabulary) for side in sides]
    blocks = np.append(0, np.cumsum(sizes))
    there = [name for name in names if vocabularies is None or name in data.dataset.columns]
    tokens = [side.corpus.words + blocks[names.index(name)] for side, name in zip(sides, there, strict=True)]
    owner = np.concatenate([side.corpus.document for side in sides])
    order = np.argsort(owner, kind="stable")
    lengths = np.bincount(owner, minlength=n)
    corpus = Corpus(np.concatenate(tokens)[order], np.append(0, np.cumsum(lengths)), int(blocks[-1]))
    words = (
        np.concatenate([side.vocabulary for side in sides])
        if vocabularies is None
        else np.array([word for side_words in vocabularies for word in side_words], dtype=str)
    )
    dropped, unknown = (np.sum([getattr(side, key) for side in sides], axis=0) for key in ("dropped", "unknown"))
    return Documents(corpus, words, first.dim, first.labels, dropped, unknown, tuple(names), blocks)


def _of_column(model: Model, data: Data, name: str, vocabulary: list[str] | None) -> Documents:
    spec = _spec(model)
    column = _column(model, data, name, "text")
    if not column.text:
        raise DataError(f"column '{name}' holds numbers; documents are text, or lists of words", code="not-states")
    cells = [("" if gone else text) for text, gone in zip(column.values.tolist(), column.absent(), strict=True)]
    cut = any(text.startswith(WORDS_APART) for text in cells)
    each = [Counter(words_of(text, lowercase=spec.lowercase)) for text in cells]
    limits = _limits(spec, plain=not cut)
    words = chosen_words(each, limits, len(each)) if vocabulary is None else vocabulary
    place = {word: i for i, word in enumerate(words)}
    dim = data.dataset.rows
    labels = data.labels.get(dim, np.arange(len(each)))
    ids: list[np.ndarray] = []
    dropped, unknown = np.zeros(len(each), np.int64), np.zeros(len(each), np.int64)
    for d, counts in enumerate(each):
        numbers = np.fromiter((place[word] for word in counts if word in place), np.int32)
        repeats = np.fromiter((n for word, n in counts.items() if word in place), np.int64)
        order = np.argsort(numbers)
        ids.append(np.repeat(numbers[order], repeats[order]))
        out = [(word, n) for word, n in counts.items() if word not in place]
        dropped[d] = sum(n for _, n in out)
        unknown[d] = sum(n for word, n in out if _counts(word, limits))
    return Documents(Corpus.of(ids, len(words)), np.array(words, dtype=str), dim, labels, dropped, unknown)


def _days(model: Model, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The day of each document, from 0, and the value of each day in the data.

    Integers are days, including days without documents; text (dates such as 2024-05-01) is sorted, and each distinct
    value is a day.
    """
    name = _spec(model).time
    assert name is not None
    column = _column(model, data, name, "time")
    if np.any(gone := column.absent()):
        raise DataError(f"column '{name}' has a missing cell (row {int(np.argmax(gone)) + 1})", code="missing")
    if column.text:
        dates, day = np.unique(_dates(name, column.values), return_inverse=True)
        # Keep dates as in the data, without adding seconds.
        dates = np.array([str(date).removesuffix("T00:00:00") for date in dates])
    elif np.all(column.values == np.floor(column.values)):
        first = column.values.min()
        day = (column.values - first).astype(np.int64)
        dates = int(first) + np.arange(min(int(day.max()), _MOST_DAYS) + 1)
    else:
        raise DataError(f"column '{name}' holds days: whole numbers or dates as text", code="not-whole")
    if day.max() > _MOST_DAYS:
        raise DataError(
            f"column '{name}' spans {day.max() + 1:,} days, more than {_MOST_DAYS:,}; use longer periods",
            code="too-costly",
        )
    return np.asarray(day, np.int64), dates


def _dates(name: str, values: np.ndarray) -> np.ndarray:
    """Parse text as dates, because sorting text puts 9 after 10 and 2/1/2024 after 1/2/2024."""
    out = np.empty(len(values), "datetime64[s]")
    for i, text in enumerate(values.tolist()):
        try:
            out[i] = np.datetime64(text.strip(), "s")
        except ValueError:
            raise DataError(
                f"column '{name}', row {i + 1}: '{text}' is not a date such as 2024-05-01", code="impossible-value"
            ) from None
    if np.isnat(out).any():
        raise DataError(
            f"column '{name}', row {int(np.isnat(out).argmax()) + 1}: a date such as 2024-05-01 is missing",
            code="missing",
        )
    return out


def _counts(word: str, limits: WordLimits) -> bool:
    return len(word) >= limits.min_length and word.lower() not in limits.stop_words


def _limits(spec: Topics, *, plain: bool) -> WordLimits:
    """Limits of the vocabulary; data that are counts or lists of words have none by default."""
    given = spec.stop_words if spec.stop_words is not None else "english" if plain else "none"
    words = (
        STOP_WORDS if given == "english" else frozenset() if given == "none" else frozenset(w.lower() for w in given)
    )
    words |= frozenset(word.lower() for word in spec.more_stop_words)
    length = spec.min_length if spec.min_length is not None else 2 if plain else 1
    return WordLimits(words, length, spec.min_documents, float(spec.max_share), spec.most_words)


# --------------------------------------------------------------------------------- counts


def _from_counts(model: Model, data: Data, vocabulary: list[str] | None) -> Documents:
    """Read documents from a table with a row for each document and word."""
    spec = _spec(model)
    assert spec.document is not None
    assert spec.word is not None
    word, owner = _column(model, data, spec.word, "word"), _column(model, data, spec.document, "document")
    document = _named(owner)
    for name, column in ((spec.document, owner), (spec.word, word)):
        if np.any(gone := column.absent()):
            raise DataError(f"column '{name}' has a missing cell (row {int(np.argmax(gone)) + 1})", code="missing")
    many = np.ones(len(document), np.int64) if spec.count is None else _whole(model, data, spec.count)
    labels, rows = np.unique(document, return_inverse=True)
    all_words, at = np.unique(_named(word).astype(str), return_inverse=True)
    limits = _limits(spec, plain=False)
    if vocabulary is None:
        kept = _kept(all_words, at, rows, many, limits, len(labels))
        words = all_words[kept].tolist()
    else:
        words = vocabulary
    place = {name: i for i, name in enumerate(words)}
    lookup = np.array([place.get(name, -1) for name in all_words.tolist()], np.int64)
    numbers, known = lookup[at], lookup[at] >= 0
    order = np.lexsort((numbers[known], rows[known]))
    tokens = np.repeat(numbers[known][order], many[known][order]).astype(np.int32)
    sizes = np.bincount(rows[known], many[known], minlength=len(labels)).astype(np.int64)
    corpus = Corpus(tokens, np.append(0, np.cumsum(sizes)), len(words))
    lost = np.bincount(rows[~known], many[~known], minlength=len(labels)).astype(np.int64)
    strange = np.array([_counts(name, limits) for name in all_words.tolist()], bool)[at] & ~known
    unknown = np.bincount(rows[strange], many[strange], minlength=len(labels)).astype(np.int64)
    return Documents(corpus, np.array(words, dtype=str), spec.document, labels, lost, unknown)


def _named(column: Column) -> np.ndarray:
    """Names of documents or words: text or integers."""
    values = column.values
    if values.dtype.kind == "f" and np.all(values == np.floor(values)):
        return values.astype(np.int64)
    return values


def _whole(model: Model, data: Data, name: str) -> np.ndarray:
    values = _column(model, data, name, "count").values
    whole = values.dtype.kind in "if" and np.all(np.isfinite(values) & (values >= 0) & (values == np.floor(values)))
    if not whole:
        raise DataError(f"column '{name}' holds counts: whole numbers, 0 or more", code="not-whole")
    # Every single word has a topic.
    n_words = int(values.astype(float).sum())
    what = f"the {n_words:,} words that column '{name}' counts"
    require_memory(_BYTES * n_words, what, "divide the counts, or leave out frequent words", kind=DataError)
    return values.astype(np.int64)


def _kept(
    words: np.ndarray, at: np.ndarray, rows: np.ndarray, many: np.ndarray, limits: WordLimits, n_documents: int
) -> np.ndarray:
    """The words of the vocabulary."""
    pairs = np.unique(np.stack([at[many > 0], rows[many > 0]]), axis=1)
    among = np.bincount(pairs[0], minlength=len(words))
    total = np.bincount(at, many, minlength=len(words))
    fits = (among >= max(limits.min_documents, 1)) & (among <= limits.max_share * n_documents)
    fits &= np.array([_counts(word, limits) for word in words.tolist()], bool)
    if fits.sum() > limits.most:
        best = np.lexsort((words, -np.where(fits, total, -1)))[: limits.most]
        fits = np.isin(np.arange(len(words)), best)
    return np.asarray(fits)


# --------------------------------------------------------------------------------- checks


def _check(model: Model, documents: Documents) -> None:
    spec = _spec(model)
    limits = "stop_words, min_length, min_documents, max_share"
    if not len(documents.vocabulary):
        raise DataError(f"no word is left: loosen {limits}", code="no-values")
    empty = np.flatnonzero(documents.corpus.lengths == 0)
    if len(empty):
        first = int(empty[0])
        shown = ", ".join(str(x) for x in documents.labels[empty[:5]]) + (" ..." if len(empty) > 5 else "")
        why = (
            f"all {documents.dropped[first]} words of the first are stop words, or too rare, common or short"
            if documents.dropped[first]
            else "there is nothing in the first"
        )
        raise DataError(
            f"{len(empty)} of {counted(documents.corpus.n_documents, 'document')}"
            f" {'has' if len(empty) == 1 else 'have'} no words ({documents.dim} {shown}): {why};"
            f" leave the rows out, or loosen {limits}",
            code="no-values",
        )
    if len(documents.vocabulary) == 1:
        raise DataError(
            f"the vocabulary has one word, '{documents.vocabulary[0]}': all topics would be equal; loosen {limits}",
            code="too-few",
        )
    if isinstance(spec.topics, int) and spec.topics > documents.corpus.n_tokens:
        raise DataError(
            f"{spec.topics} topics for {documents.corpus.n_tokens} words; take fewer topics",
            path=("model", "topics"),
            code="too-few",
        )


def row_data(model: Model, data: Data, documents: Documents) -> Data:
    """The data with one row for each document, fitted or held out, and counts instead of words."""
    spec = _spec(model)
    columns: dict[str, Column] = {}
    if not spec.counted:
        columns = {n: c for n, c in data.dataset.columns.items() if n not in spec.text_columns}
    columns["n_words"] = Column(documents.corpus.lengths, (documents.dim,))
    # Most documents lack most words, so that positive counts are listed as pairs.
    keys, counts = np.unique(
        documents.corpus.document * documents.corpus.n_words + documents.corpus.words, return_counts=True
    )
    columns["counts"] = Column(counts, ("pair",))
    columns["document_of_pair"] = Column(keys // documents.corpus.n_words, ("pair",))
    columns["word_of_pair"] = Column(keys % documents.corpus.n_words, ("pair",))
    dataset = Dataset(columns, documents.dim, {})
    out = Data(
        dataset, dict(data.labels) | {documents.dim: documents.labels}, {}, data.factors & columns.keys(), data.frozen
    )
    out.origin, out.part = data.origin, data.part
    return out
