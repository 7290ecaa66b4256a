"""The command line, called in this process."""

from __future__ import annotations

import pytest

from bayeslab.cli import main


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Status, standard output and standard error of ``bayeslab WORDS``."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err
