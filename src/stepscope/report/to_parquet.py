"""A table as Parquet, types and nesting kept."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["render"]


def render(frame: pl.DataFrame) -> bytes:
    """The whole file."""
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()
