"""Put the rules' pages of the documentation into the package, for `--explain`."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "advice"
PACKAGE = ROOT / "src" / "stepscope" / "advice" / "pages"


def copy() -> None:
    """Copy the pages; a checkout without documentation has none to copy."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    if PAGES.is_dir():
        shutil.copytree(PAGES, PACKAGE)
