"""What the engine ``structure`` says while it runs."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bayeslab as bl
from bayeslab.engines.structure import Options, State, running_r_hats, work_of
from bayeslab.progress import ChainState, Terminal, html_cells, summary
from bayeslab.structure.jobs import MemorySegments, Sampler, Work, Workers, run
from tests.refusals import refused
from tests.structure._dags import random_scores, table_of


def test_running_r_hats_are_those_of_the_draws():
    table = table_of(4, random_scores(2, 2.0))
    chains = run(table, Sampler("structure"), Work(30, 0, 2, 3, 12, 1), MemorySegments(), Workers())
    score, edge = running_r_hats(table, chains)
    worst = 0.0
    for u in range(4):
        for v in range(4):
            has = [[u in table.parents(int(draw[v])) for draw in np.concatenate(chain.draws)] for chain in chains]
            halves = np.array(has, float).reshape(6, 15)
            within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
            if within > 0:
                worst = max(worst, np.sqrt(14 / 15 + between / within))
    assert edge == pytest.approx(worst, rel=1e-12) and worst > 1.0
    assert 0.95 < score < 3
    short = run(table, Sampler("structure"), Work(5, 0, 2, 3, 12, 1), MemorySegments(), Workers())
    assert np.isnan(running_r_hats(table, short)).all()


def test_segments_depend_on_the_model_only():
    for word, n in (("structure", 8), ("structure", 100), ("order", 37), ("partition", 37)):
        sampler = Sampler(word, (1.0, 0.5))
        short, long = (work_of(Options(draws=draws), sampler, n, 1) for draws in (10, 100_000))
        assert short.segment == long.segment >= 1 and short.thin == long.thin
    assert work_of(Options(segment=7, thin=3), sampler, n, 1).segment == 7


def test_the_display_shows_what_a_sampler_has_to_say():
    ours = [State(100, 10, done=50, acceptance=0.125, score=-1234.5), State(100, 10)]
    theirs = [ChainState(100, 10, done=50, divergences=3, step_size=0.25, steps=7)]

    def shown(chains, remark):
        view, stream = Terminal(), io.StringIO()
        Console(file=stream, width=150).print(view._table(chains, 12.0, remark))
        return stream.getvalue()

    text = shown(ours, "R-hat of the score 1.02")
    assert "acceptance" in text and "12.5%" in text and "-1,234.50" in text and "R-hat of the score 1.02" in text
    assert "divergences" not in text and "waiting" in text and "sampling" in text
    text = shown(theirs, "")
    assert "divergences" in text and " 3 " in text and "0.25" in text and "acceptance" not in text
    assert "acceptance 12.5%" in html_cells(ours[0]) and "divergences 3" in html_cells(theirs[0])
    assert summary(theirs, 1.0, "") == "50 of 100 draws, 0 of 1 chains done, 3 divergences, 1.0 s"
    assert summary(ours, 1.0, "soon") == "50 of 200 draws, 0 of 2 chains done, 1.0 s, soon"


def test_lines_while_it_runs(capsys):
    table = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (50, 4)), columns=list("abcd"))
    bl.fit(bl.Model(model=bl.BayesNet(structure={})), table, method="structure", draws=20, tune=0, thin=10, cores=1,
           seed=1, runs=None)  # fmt: skip
    said = capsys.readouterr().err
    assert "score table: 32 parent sets" in said
    assert "80 of 80 draws, 4 of 4 chains done" in said and "R-hat of the score" in said


def test_progress_has_words_where_there_are_no_numbers(tmp_path):
    """One chain never leaves one graph, the other never another: what is written is JSON, and says it."""
    import json

    from bayeslab.engines.structure import r_hat_in_json

    assert r_hat_in_json(1.5) == 1.5
    assert r_hat_in_json(np.inf).startswith("infinite") and r_hat_in_json(np.nan).startswith("not known yet")
    table = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (50, 3)), columns=list("abc"))
    fit = bl.fit(bl.Model(name="x", model=bl.BayesNet(structure={})), table, method="structure", draws=5, tune=0, thin=9,
                 cores=1, seed=1, runs=tmp_path, progress=False)  # fmt: skip
    text = (fit.folder / "progress.json").read_text()
    assert "null" not in text and "Infinity" not in text and "NaN" not in text
    assert json.loads(text)["r_hat_edges"].startswith("not known yet")


def test_options_that_cannot_be_are_named_without_a_place_in_a_file(tmp_path):
    (tmp_path / "m.yaml").write_text(
        "bayeslab: 1\nname: x\ndata: {table: t.csv}\nmodel: {family: bayes_net, structure: {}}\n"
    )
    (tmp_path / "t.csv").write_text("a,b\n" + "x,y\nu,v\n" * 5)
    with refused("option.out-of-range", where="inference.draws"):
        bl.fit(tmp_path / "m.yaml", draws=0)


def test_threads_give_the_same_draws():
    table = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (50, 4)), columns=list("abcd"))
    common = {"method": "structure", "draws": 20, "tune": 5, "thin": 300, "seed": 1, "runs": None, "progress": False}
    model = bl.Model(model=bl.BayesNet(structure={"exchange_every": 100}))
    one = bl.fit(model, table, cores=1, **common)
    two = bl.fit(model, table, cores=2, workers="threads", **common)
    np.testing.assert_array_equal(one.posterior["edge"], two.posterior["edge"])
