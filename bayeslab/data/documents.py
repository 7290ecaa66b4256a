"""Tokenisation of text: lower-case words of letters, without stop words.

A cell given as a list of words is used unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bayeslab.data.cells import WORDS_APART

__all__ = ["STOP_WORDS", "WordLimits", "chosen_words", "words_of"]

# Stop words: articles, pronouns, prepositions, conjunctions, auxiliaries and common adverbs.
_FUNCTION_WORDS = """
a about above after again against all almost also although always am among an and another any anybody anyone
anything are aren't as at be became because been before being below between both but by came can can't cannot come
could couldn't did didn't do does doesn't doing don't done down during each either else enough even ever every
everybody everyone everything few for from further get gets had hadn't has hasn't hath have haven't having he he'd
he'll he's hence her here hers herself him himself his how however i i'd i'll i'm i've if in indeed instead into is
isn't it it's its itself just least less let like likely made make many may me might mine more moreover most much
must my myself neither never next no nobody none nor not nothing now o of off often oh on once one only or other
others otherwise ought our ours ourselves out over own per perhaps put quite rather same shall shalt she she'd
she'll she's should shouldn't since so some somebody someone something soon still such than that that's the thee
their theirs them themselves then thence there therefore these they they'd they'll they're they've thine this those
thou though through throughout thus thy thyself till to together too toward towards under unless unto until up upon
us very was wasn't we we'd we'll we're we've well were weren't what whatever when whence where whereas whether
which while who whoever whole whom whose why will with within without won't would wouldn't ye yet you you'd you'll
you're you've your yours yourself yourselves
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())

# Words of letters, with apostrophes inside.
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class WordLimits:
    """Rules for the vocabulary.

    Parameters
    ----------
    stop_words : frozenset of str
    min_length : int
        Minimum number of letters of a word.
    min_documents : int
        Minimum number of documents with the word.
    max_share : float
        Maximum share of documents with the word.
    most : int
        Maximum size of the vocabulary; the most frequent words are kept.
    """

    stop_words: frozenset[str] = STOP_WORDS
    min_length: int = 2
    min_documents: int = 1
    max_share: float = 1.0
    most: int = 100_000


def words_of(text: str, *, lowercase: bool = True) -> list[str]:
    """All words of a document, in order."""
    if text.startswith(WORDS_APART):
        return text[1:].split(WORDS_APART) if len(text) > 1 else []
    words = _WORD.findall(text.lower() if lowercase else text)
    return [word.replace("’", "'") for word in words]


def chosen_words(documents: Iterable[Collection[str]], limits: WordLimits, n_documents: int) -> list[str]:
    """The vocabulary, in alphabetical order."""
    total: Counter[str] = Counter()
    among: Counter[str] = Counter()
    for words in documents:
        total.update(words)
        among.update(set(words))
    most = limits.max_share * n_documents
    kept = [
        word
        for word, n in among.items()
        if limits.min_documents <= n <= most
        and len(word) >= limits.min_length
        and word not in limits.stop_words
        and word.lower() not in limits.stop_words
    ]
    if len(kept) > limits.most:
        kept = sorted(kept, key=lambda word: (-total[word], word))[: limits.most]
    return sorted(kept)
