"""The build backend: setuptools', with a Node.js for the page where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

sys.path.insert(0, str(Path(__file__).parent))
from web_page import NODE_PACKAGE, WEB, has_node

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def get_requires_for_build_sdist(
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """What setuptools asks for, and what builds the page."""
    return [*build_meta.get_requires_for_build_sdist(settings), *_node()]


def get_requires_for_build_wheel(
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """What setuptools asks for, and what builds the page."""
    return [*build_meta.get_requires_for_build_wheel(settings), *_node()]


def _node() -> list[str]:
    """A node unless the machine's will do; a source archive holds the built page."""
    return [NODE_PACKAGE] if WEB.is_dir() and not has_node() else []
