"""Files inside the page: the summary as CSV and LaTeX, and draws as CSV and NetCDF."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayeslab.report.contract import Reported
from bayeslab.report.markup import EMPTY, Markup, element, paragraph
from bayeslab.report.posterior import Quantities
from bayeslab.results.render import More, Table, headings, lines_of

__all__ = ["section"]

# Maximum size of all files in the page, in bytes; of draws in the files; and of rows of the LaTeX table.
_BYTES, _DRAWS, _ROWS = 900_000, 1_000, 200
# base64 has four letters for three bytes.
_LETTERS = 4 / 3
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def section(fit: Reported, quantities: Quantities, n_runs: int = 1) -> Markup:
    """Links to the files; empty without a summary.

    Parameters
    ----------
    n_runs
        Number of runs on the page, which share its size.
    """
    if not len(quantities.frame):
        return EMPTY
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", fit.model.name).strip("-.") or "run"
    room, links, left_out = _BYTES / n_runs / _LETTERS, list[Markup](), list[str]()
    for name, kind, words, content in _files(fit, quantities, n_runs):
        if len(content) > room:
            left_out.append(words)
            continue
        room -= len(content)
        source = f"data:{kind};base64,{b64encode(content).decode()}"
        links.append(element("li", element("a", words, href=source, download=f"{stem}{name}"), f" ({_size(content)})"))
    note = f"Left out for size: {', '.join(left_out)}; bayeslab show and the run folder have them." if left_out else ""
    inside = [element("h3", "Downloads"), element("ul", *links), paragraph(note, class_="mute") if note else EMPTY]
    return element("div", *inside, class_="downloads")


def _files(fit: Reported, quantities: Quantities, n_runs: int) -> Iterator[tuple[str, str, str, bytes]]:
    """End of the name, media type, description, and content of each file."""
    frame = quantities.frame
    yield "-summary.csv", "text/csv", "Summary as CSV", frame.to_csv(index_label="quantity").encode()
    yield "-summary.tex", "application/x-tex", "Table for LaTeX", _latex(frame).encode()
    sizes = fit.posterior.sizes
    chains, n = sizes["chain"], sizes["draw"]
    if not quantities.blocks or chains * n < 2:
        return
    # Numbers have about 9 letters in CSV.
    width = sum(block.size for block in quantities.blocks)
    most = int(min(_DRAWS, 0.5 * _BYTES / n_runs / _LETTERS / (9 * width)))
    each = max(1, min(n, most // chains))
    kept = np.unique(np.linspace(0, n - 1, each).astype(int))
    thin = f"{len(kept) * chains:,} draws" if len(kept) < n else f"All {chains * n:,} draws"
    table: dict[str, np.ndarray] = {"chain": np.repeat(np.arange(chains), len(kept)), "draw": np.tile(kept, chains)}
    for block in quantities.blocks:
        flat = np.asarray(block.values).reshape(*block.values.shape[:2], -1)[:, kept]
        if flat.dtype.kind in "fiub":
            table |= {block.label(i): flat[:, :, i].ravel() for i in range(block.size)}
    yield (
        "-draws.csv",
        "text/csv",
        f"{thin} as CSV",
        pd.DataFrame(table).to_csv(index=False, float_format="%.8g").encode(),
    )
    if 8 * width * chains * len(kept) < _BYTES / n_runs:
        posterior = fit.posterior.to_dataset().isel(draw=kept)
        yield "-draws.nc", "application/x-netcdf", f"{thin} as NetCDF", _netcdf(posterior)


def _netcdf(posterior: object) -> bytes:
    """The group ``posterior`` of a NetCDF file, which ArviZ reads."""
    import xarray as xr

    return bytes(xr.DataTree.from_dict({"posterior": posterior}).to_netcdf(engine="h5netcdf"))


def _latex(frame: pd.DataFrame) -> str:
    """A table for the LaTeX package booktabs, with the digits of the page."""
    shown = Table.of(frame)
    head = headings(shown)
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * len(head)}}}",
        r"\toprule",
        " & ".join(["", *map(_escaped, head)]) + r" \\",
        r"\midrule",
    ]
    for line in lines_of(shown, _ROWS):
        if isinstance(line, More):
            lines.append(f"% {line.n_rows} more rows of {_escaped(line.name)}")
        else:
            lines.append(" & ".join(_escaped(text) for text in (line.label, *(c.text for c in line.cells))) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    plain = "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))
    return f"${plain}$" if re.fullmatch(r"-[\d.,e+-]+", text) else plain.replace("–", "--")


def _size(content: bytes) -> str:
    return f"{len(content) / 1000:,.0f} kB" if len(content) >= 1000 else f"{len(content)} bytes"
