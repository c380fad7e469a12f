"""Put the rules' pages of the documentation into the package, for `--explain`."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "advice"
PACKAGE = ROOT / "src" / "stepscope" / "advice" / "pages"


def copy() -> None:
    """Copy the pages; sources without the documentation keep what they came with."""
    if PAGES.is_dir():
        shutil.rmtree(PACKAGE, ignore_errors=True)
        shutil.copytree(PAGES, PACKAGE)
