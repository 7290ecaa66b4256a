"""A report as an object, and as a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bayeslab.errors import BayeslabError, OptionError
from bayeslab.files import shown, write_text
from bayeslab.report.markup import Markup, element, joined, paragraph

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
    static : callable
        The HTML, without styles and scripts, that notebooks without trust show instead of the page.
    """

    html: str
    alive: bool = False
    static: Callable[[], str] = str

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
        """The page in a frame that cannot reach the notebook; its script runs if the page is alive.

        Notebooks without trust show neither frames nor style sheets: what the style sheet hides appears instead.
        """
        allowed = "allow-scripts" if self.alive else ""
        title = "page to click on" if self.alive else "report of a fit"
        frame = element("iframe", srcdoc=self.html, sandbox=allowed, width="100%", height="600", title=title)
        hidden = element("style", Markup(".bayeslab-untrusted {display: none}"))
        note = paragraph(f"A trusted notebook shows a {title} here; .save('page.html') writes it.")
        # The HTML of fits and networks is escaped where it is made.
        instead = element("div", Markup(self.static()), note, class_="bayeslab-untrusted")
        return str(joined([hidden, instead, frame]))
