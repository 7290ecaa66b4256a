"""A report as a value, and as a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bayeslab.errors import BayeslabError, OptionError
from bayeslab.files import shown, write_text
from bayeslab.report.markup import element

__all__ = ["Report", "check_path"]


def check_path(path: str | os.PathLike[str], *, force: bool) -> None:
    """Refuse a path before any work: an existing file without ``force``, a folder, or one in no folder.

    Raises
    ------
    OptionError
        The page cannot be written there.
    """
    where = shown(path)
    if os.path.isdir(path):
        raise OptionError("this is a folder: give the name of a file to write", where=where, code="not-a-file")
    if not os.path.isdir(Path(path).parent):
        raise OptionError("there is no such folder to write to", where=where, code="no-such-file")
    if os.path.lexists(path) and not force:
        raise OptionError("the file is there already; force=True replaces it", where=where, code="file-exists")


@dataclass(frozen=True)
class Report:
    """A report: one HTML page that needs nothing else.

    Attributes
    ----------
    html : str
        The text of the page.
    """

    html: str

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page to a file, completely or not at all.

        Parameters
        ----------
        path
            The file.
        force
            Whether an existing file is replaced.

        Raises
        ------
        OptionError
            The file exists and ``force`` is not set, or its folder does not exist.
        """
        file = Path(path)
        check_path(file, force=force)
        try:
            write_text(file, self.html)
        except OSError as error:
            raise BayeslabError(
                f"cannot be written: {error.strerror}", where=shown(file), code="cannot-write"
            ) from None
        return file

    def __repr__(self) -> str:
        return f"<bayeslab.Report of {len(self.html.encode()):,} bytes; .save('page.html') writes it>"

    def _repr_html_(self) -> str:
        """The page in a frame in which no script runs."""
        return str(element("iframe", srcdoc=self.html, sandbox="", width="100%", height="600", title="report of a fit"))
