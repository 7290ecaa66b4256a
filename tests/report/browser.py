"""Pages in a real browser: Debian's Chromium, without a network."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from bayeslab.report.style import SCRIPT

__all__ = ["CHROMIUM", "attribute", "dom", "needs_browser", "scripted"]

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def dom(page: str, folder: Path, *options: str) -> str:
    """The page after its script has run, with further options of Chromium. Errors of the script and violations of its policy fail the test."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    words = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        *options,
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert ":CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def scripted(page: str, script: str) -> str:
    """The page with a second script at its end, which plays the reader; the policy admits both scripts."""
    policy = " ".join(f"'sha256-{b64encode(sha256(s.encode()).digest()).decode()}'" for s in (SCRIPT, script))
    page = re.sub(r"script-src '[^']*'|script-src &#x27;.*?&#x27;", f"script-src {policy}", page, count=1)
    return page.replace("</body>", f"<script>{script}</script></body>")


def attribute(text: str, name: str) -> str:
    """The first value of an attribute."""
    return html.unescape(re.search(rf'{name}="([^"]*)"', text)[1])
