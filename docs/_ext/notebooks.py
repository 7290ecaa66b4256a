"""Pages of the notebooks, with the outputs that they hold, and a gallery of them.

Before Sphinx looks for pages, ``notebooks/*.ipynb`` are written as Markdown below ``docs/notebooks``: cells of text as
they are, code as code, outputs as HTML, pictures or text. Nothing is run.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_GALLERY = """# Notebooks

These notebooks go through whole analyses. They lie in the folder `notebooks` of the project, with all outputs; every
picture links to its page.

"""


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the pictures that it shows by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(_fence(source, "python"))
            for output in cell["outputs"]:
                parts += _output(output, name, pictures)
    return "\n\n".join(parts) + "\n", pictures


def _output(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> list[str]:
    if output["output_type"] == "stream":
        return [_fence("".join(output["text"]), "text")]
    data = {
        kind: "".join(value) if isinstance(value, list) else value for kind, value in output.get("data", {}).items()
    }
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(data["image/png"])
        return [f"![output of the code above]({file})"]
    if "text/html" in data:
        return [_fence(data["text/html"], "{raw} html")]
    return [_fence(data["text/plain"], "text")] if "text/plain" in data else []


def _fence(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def summary(text: str) -> tuple[str, str]:
    """The title of a page and the first paragraph below it."""
    title, _, rest = text.partition("\n")
    return title.removeprefix("# ").strip(), " ".join(rest.strip().split("\n\n")[0].split())


def write_pages(source: Path, target: Path) -> list[str]:
    """Write the pages of the notebooks in a folder, and the gallery; the names of the pages."""
    target.mkdir(exist_ok=True)
    names, gallery = [], _GALLERY
    for path in sorted(source.glob("*.ipynb")):
        text, pictures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        _write(target / f"{path.stem}.md", text.encode())
        for file, content in pictures.items():
            _write(target / file, content)
        title, about = summary(text)
        gallery += f"## [{title}]({path.stem}.md)\n\n{about}\n\n"
        if pictures:
            gallery += f"[![{title}]({next(iter(pictures))}){{width=360px}}]({path.stem}.md)\n\n"
        names.append(path.stem)
    gallery += "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
    _write(target / "index.md", gallery.encode())
    return names


def _write(path: Path, content: bytes) -> None:
    """Files that are as they should be keep their time, so that Sphinx does not build their pages again."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def setup(app: Sphinx) -> dict[str, bool]:
    docs = Path(app.srcdir)
    app.connect("builder-inited", lambda _: write_pages(docs.parent / "notebooks", docs / "notebooks") and None)
    return {"parallel_read_safe": True}
