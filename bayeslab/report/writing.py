"""A report as an object, and as a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bayeslab.errors import BayeslabError, OptionError
from bayeslab.files import shown, write_text
from bayeslab.report.markup import element

__all__ = ["Report", "check_path"]


def check_path(path: str | os.PathLike[str], *, force: bool) -> None:
    """Check that a page can be written to a path, before any work.

    Raises
    ------
    OptionError
        The path is an existing file without ``force``, a folder, or in a folder that does not exist.
    """
    where = shown(path)
    if os.path.isdir(path):
        raise OptionError("this is a folder: give the name of a file", where=where, code="not-a-file")
    if not os.path.isdir(Path(path).parent):
        raise OptionError("its folder does not exist", where=where, code="no-such-file")
    if os.path.lexists(path) and not force:
        raise OptionError("the file exists; force=True replaces it", where=where, code="file-exists")


@dataclass(frozen=True)
class Report:
    """A report: a self-contained HTML page.

    Attributes
    ----------
    html : str
        The text of the page.
    alive : bool
        Whether its script runs in a notebook, in a frame without access to the notebook.
    """

    html: str
    alive: bool = False

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page to a file, atomically.

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
        """The page in a frame that cannot reach the notebook; its script runs if the page is alive."""
        allowed = "allow-scripts" if self.alive else ""
        title = "page to click on" if self.alive else "report of a fit"
        return str(element("iframe", srcdoc=self.html, sandbox=allowed, width="100%", height="600", title=title))
