"""Results whose long tables are cut: a page takes the rest table by table."""

from __future__ import annotations

import msgspec
import polars as pl

__all__ = ["Cut", "cut"]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was cut.

    Attributes:
        table: Its dotted name.
        rows: How many it has.
        given: How many were left.
    """

    table: str
    rows: int
    given: int


def cut(result: msgspec.Struct, *, rows: int) -> tuple[msgspec.Struct, list[Cut]]:
    """The same result with no table longer than `rows`, and what was cut."""
    cuts: list[Cut] = []
    changed = _cut(result, "", rows, cuts)
    assert isinstance(changed, msgspec.Struct)  # noqa: S101 - tells the type only
    return changed, cuts


def _cut(value: object, path: str, rows: int, cuts: list[Cut]) -> object:
    if isinstance(value, pl.DataFrame):
        if value.height <= rows:
            return value
        cuts.append(Cut(table=path, rows=value.height, given=rows))
        return value.head(rows)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = _all(fields, path, rows, cuts)
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        return {**value, **_all(value, path, rows, cuts)}
    if isinstance(value, tuple | list) and len(value) > rows and _is_rows(value):
        cuts.append(Cut(table=path, rows=len(value), given=rows))
        return value[:rows]
    return value


def _all(
    values: dict[str, object], path: str, rows: int, cuts: list[Cut]
) -> dict[str, object]:
    """What had to change."""
    changed = {}
    for name, one in values.items():
        new = _cut(one, f"{path}.{name}" if path else str(name), rows, cuts)
        if new is not one:
            changed[name] = new
    return changed


def _is_rows(value: tuple[object, ...] | list[object]) -> bool:
    return all(isinstance(one, msgspec.Struct | dict) for one in value)
