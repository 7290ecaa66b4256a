"""Progress in words: how far, and how long it will still take."""

from __future__ import annotations

import pytest

from bayeslab.progress import ChainState, Lines, Progress, duration


@pytest.mark.parametrize(
    ("done", "seconds", "words"),
    [
        ((0, 0), 10.0, None),  # nothing to go by
        ((10, 0), 1.0, None),  # too early to say
        ((500, 500), 60.0, "about 3 min 0 s left"),
        ((1900, 1980), 100.0, None),  # as good as done
        ((2000, 2000), 100.0, None),
        ((20, 20), 600.0, "about 16 h 30 min left"),
    ],
)
def test_time_that_is_left(done, seconds, words, capsys):
    chains = [ChainState(total=2000, tune=1000, done=d, finished=d == 2000) for d in done]
    Lines().show(chains, seconds, "")
    line = capsys.readouterr().err
    assert f"{sum(done):,} of 4,000 draws" in line
    assert (words in line) if words else ("left" not in line)


def test_chains_of_an_earlier_part_do_not_count(capsys):
    """A resumed run's rate is that of the draws made now."""
    kept = ChainState(total=2000, tune=1000, done=2000, finished=True, resumed=True)
    Lines().show([kept, ChainState(total=2000, tune=1000, done=200)], 10.0, "")
    assert "about 1 min 30 s left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0123, "0.012 s"), (3.21, "3.2 s"), (59.9, "60 s"), (75.2, "1 min 15 s"), (7300, "2 h 1 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_silent_progress_says_nothing(capsys):
    progress = Progress(None)
    progress.note("x")
    progress.begin([ChainState(total=10, tune=5)])
    progress.refresh()
    progress.close()
    assert capsys.readouterr() == ("", "")
