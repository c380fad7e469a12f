"""The tables of a tool's result, as `tables.md` in the tool's room declares them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.trace.schema import read_columns, read_tables

if TYPE_CHECKING:
    from stepscope.trace.schema import Column, TableSchema

_ROOM: Final = Path(__file__).parent


@cache
def tables_of(tool: str) -> dict[str, TableSchema]:
    """Return the declared tables of a tool by the names of their fields."""
    return read_tables(_ROOM.parent / tool / "tables.md", _shared_columns())


@cache
def _shared_columns() -> dict[str, Column]:
    """Return the columns that tables of several tools have."""
    return read_columns((_ROOM / "columns.md").read_text(encoding="utf-8"), {})
