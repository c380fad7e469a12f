"""Base class of the results of tools."""

from __future__ import annotations

from html import escape

import msgspec
import polars as pl


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool; a notebook shows its single values and its tables."""

    def _repr_html_(self) -> str:
        """Return single values as a list, and tables as polars shows them."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        single = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
            for name, value in values.items()
            if isinstance(value, str | int | float)
        )
        tables = "".join(
            f"<h4>{escape(name)}</h4>{value._repr_html_()}"
            for name, value in values.items()
            if isinstance(value, pl.DataFrame)
        )
        return f"<dl>{single}</dl>{tables}"
