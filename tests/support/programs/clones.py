"""Copies of the checkout, for builds that must not change it."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: What a build of the package reads, besides folders.
FILES = (
    *("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md"),
    *("THIRD_PARTY.txt", "pyproject.toml", "setup.py"),
)


def clone(folder: Path, *, package: bool = False, left_out: str = "static") -> Path:
    """Copy the files that a build of the page, or of the package, reads.

    Args:
        folder: Where to; made if need be.
        package: Whether to copy what only the package is built from, compiled kernels
            included: they have tests of their own.
        left_out: A pattern of names that are not copied: the built page by default.
    """
    shutil.copytree(
        ROOT / "web", folder / "web", ignore=shutil.ignore_patterns("node_modules")
    )
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", left_out)
    folders = ("build_tools", "docs/advice", "src") if package else ("build_tools",)
    for name in folders:
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in FILES if package else ():
        shutil.copy2(ROOT / name, folder / name)
    return folder
