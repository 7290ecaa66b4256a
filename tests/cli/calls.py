"""The command line, called in this process."""

from __future__ import annotations

import json
import re

import pytest

from bayeslab.cli import main


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Status, standard output and standard error of ``bayeslab WORDS``."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


#: Commands that draw or write a file, and answer nothing that a program would read.
WITHOUT_JSON = {"convert", "graph", "new", "plot", "schema", "stop"}


def refused(capsys: pytest.CaptureFixture[str], code: str, match: str, *words: object, status: int = 1) -> str:
    """Standard error of ``bayeslab WORDS``, which is refused with this code in one line that names this.

    Parameters
    ----------
    code
        The whole code, which ``--json`` tells: ``option.usage`` of a command that is not understood (status 2). Where
        the command has no ``--json``, the code of the exception is not seen, and the line has to tell.
    match
        A pattern for the thing the line names.
    """
    structured = words[0] not in WITHOUT_JSON
    found, out, err = call(capsys, *words, *(["--json"] if structured else []))
    assert found == status, err
    if structured:
        error = json.loads(out)["error"]
        assert error["code"] == code, error
    else:
        assert not out
    assert re.search(match, err), f"{match!r} is not in: {err}"
    assert "Traceback" not in err and (status == 2 or (err.startswith("error: ") and err.count("\n") == 1)), err
    return err
