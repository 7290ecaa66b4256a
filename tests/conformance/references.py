"""Where references are that others computed; without them tests are skipped, and fail where nothing may be left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared"
POSTERIORDB = SHARED / "conformance" / "posteriordb"


def require(folder: Path, what: str) -> None:
    if folder.is_dir():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"the {what} are missing: {folder}")
    pytest.skip(f"the {what} are not on this machine")
