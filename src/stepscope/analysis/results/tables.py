"""The declared tables of results, and reasons for null columns and fields."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.analysis.results.walk import struct_fields
from stepscope.trace.schema import read_columns, read_reasons, read_tables
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepscope.trace.schema import Column, TableSchema

#: Types of values without fields or members; nearly all values have one of these types.
_WITHOUT_PARTS: Final = frozenset((type(None), float, int, str, bool))

#: Reason of a null without a more specific reason.
NOT_RECORDED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="This capture does not contain this value.",
    remedy="Record with a tracer of the framework that writes this value, if any.",
)

_RESULTS_FOLDER: Final = Path(__file__).parent


@cache
def tool_tables(tool: str) -> dict[str, TableSchema]:
    """Return the declared tables of a tool, by name of the result's field."""
    return read_tables(_RESULTS_FOLDER.parent / tool / "tables.md", _shared_columns())


@cache
def package_reasons(package: str) -> dict[str, Unavailable]:
    """Return the reasons why values in a tool's results can be missing, by key."""
    return read_reasons(_RESULTS_FOLDER.parent / package / "reasons.md")


@cache
def _shared_columns() -> dict[str, Column]:
    return read_columns((_RESULTS_FOLDER / "columns.md").read_text("utf-8"), {})


def null_paths(value: object, path: str = "") -> Iterator[str]:
    """Yield dotted names of a result's null values; members of a list share a name."""
    return _null_paths((value,), path)


def _null_paths(values: tuple[Any, ...], path: str) -> Iterator[str]:
    """Yield the names of null values among values with the same name, and inside them.

    With a thousand steps, one pass per field is much faster than one pass per step.
    """
    # Types are in order of appearance, so that every process yields names in one order.
    kinds = dict.fromkeys(map(type, values))
    if type(None) in kinds:
        yield path
    for kind in kinds:
        if kind in _WITHOUT_PARTS:
            continue
        alike = (
            values if len(kinds) == 1 else tuple(v for v in values if type(v) is kind)
        )
        for name, inner in _parts_by_name(kind, alike):
            yield from _null_paths(inner, f"{path}.{name}".strip("."))


def _parts_by_name(
    kind: type, values: tuple[Any, ...]
) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """Return the members of values of one type by name; the name is empty for lists."""
    if issubclass(kind, msgspec.Struct):
        columns = zip(*map(msgspec.structs.astuple, values), strict=True)
        return zip(kind.__struct_fields__, columns, strict=False)
    if issubclass(kind, dict):
        return (
            (name, tuple(member[name] for member in values if name in member))
            for name in dict.fromkeys(chain.from_iterable(values))
        )
    if issubclass(kind, tuple | list):
        return (("", tuple(chain.from_iterable(values))),)
    return ()


def with_every_null(
    parts: Iterable[tuple[str, object]],
    missing: Sequence[Missing],
    *,
    repeats: Sequence[str] = (),
) -> tuple[Missing, ...]:
    """Add an entry for each null that none of the given entries explains.

    An entry explains its field and all members of the field.

    Args:
        parts: Fields of a result with their values.
        missing: Entries that exist already.
        repeats: Prefixes of fields that repeat fields of the result: the entry of
            `summary.x` also explains `by_host.summary.x`.
    """
    known = {known_entry.field: known_entry for known_entry in missing}
    entries = [*distinct_entries(missing)]
    paths = dict.fromkeys(
        path for name, value in parts for path in null_paths(value, name)
    )
    for path in paths:
        if _explaining_entry(path, known) is None:
            entry = NOT_RECORDED.missing_field(path)
            for prefix in repeats:
                why = _explaining_entry(path.removeprefix(f"{prefix}."), known)
                if path.startswith(f"{prefix}.") and why is not None:
                    entry = msgspec.structs.replace(why, field=f"{prefix}.{why.field}")
                    break
            known[entry.field] = entry
            entries.append(entry)
    return tuple(entries)


def distinct_entries(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    """Return one entry, the last, for each field and code, in order of appearance."""
    return tuple({(entry.field, entry.code): entry for entry in missing}.values())


def _explaining_entry(path: str, known: dict[str, Missing]) -> Missing | None:
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        entry = known.get(".".join(parts[:count]))
        if entry is not None:
            return entry
    return None


def declared_reasons(
    table: TableSchema, causes: Mapping[str, tuple[str, str]]
) -> dict[str, Unavailable]:
    """Return reasons for columns that have no value, in the words of the table.

    Args:
        table: Table that declares the meaning of null in each column.
        causes: Column → code and remedy.
    """
    return {
        column.name: Unavailable(
            code=causes[column.name][0],
            reason=f"{column.null}.",
            remedy=causes[column.name][1],
        )
        for column in table.columns
        if column.name in causes
    }


def missing_fields(
    value: object, reasons: Mapping[str, Unavailable], *, prefix: str = ""
) -> list[Missing]:
    """Return one entry for each null field of a struct or dict.

    Args:
        reasons: Field → why the field can be null.
        prefix: Text before the field's name in the entry.
    """
    fields = struct_fields(value) or {}
    return [
        why.missing_field(f"{prefix}{field}")
        for field, why in reasons.items()
        if fields[field] is None
    ]


def missing_columns(
    frame: pl.DataFrame,
    reasons: Mapping[str, Unavailable],
    *,
    prefix: str,
    where: pl.Expr | None = None,
) -> list[Missing]:
    """Return one entry for each column that is null in every row; none without rows.

    Args:
        reasons: Column → why the whole column can be null.
        prefix: Text before the column's name in the entry.
        where: Rows that can have a value; None means all rows.
    """
    rows = frame if where is None else frame.filter(where)
    if not len(rows):
        return []
    return [
        why.missing_field(f"{prefix}{column}")
        for column, why in reasons.items()
        if rows[column].null_count() == len(rows)
    ]


def largest_slices(
    frame: pl.DataFrame, *, label: str, value: str, slices: int = 10
) -> pl.DataFrame:
    """Return the largest slices of a whole, and a slice `other` for the rest.

    Returns:
        Columns `name`, `value`'s, and `percent`, which is null if the whole is zero.
    """
    # Python loops suffice: a result has few rows, and polars queries start slowly.
    sums: Counter[str] = Counter()
    for name, part in zip(frame[label], frame[value], strict=True):
        sums["(unknown)" if name is None else name] += part or 0
    ordered = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    schema = {"name": pl.String(), value: frame.schema[value]}
    largest = pl.DataFrame(ordered[:slices], schema=schema, orient="row")
    if len(ordered) > slices:
        other = "other", sum(part for _, part in ordered[slices:])
        largest = pl.concat([largest, pl.DataFrame([other], schema, orient="row")])
    return largest.with_columns(
        share_percent(pl.col(value), sums.total()).alias("percent")
    )


def share_percent(part: pl.Expr, total: float) -> pl.Expr:
    """Return a part as a percentage of a whole; null if the whole is zero."""
    return 100.0 * part / total if total else pl.lit(None, pl.Float64)


_UNITS: Final = {"_us": PS_PER_US, "_ms": PS_PER_MS}


def declared_rows(rows: pl.DataFrame, table: TableSchema) -> pl.DataFrame:
    """Return the columns of a table; those in µs and ms may be given as `…_ps`."""
    return rows.with_columns(
        (pl.col(f"{name[:-3]}_ps") / _UNITS[name[-3:]]).alias(name)
        for name in table.dtypes()
        if name[-3:] in _UNITS and name not in rows.columns
    ).select(table.cast_columns())


def shared_value(column: str) -> pl.Expr:
    """Return the value that all rows have; `mixed` if values differ, null for none."""
    values = pl.col(column).drop_nulls().unique()
    shared = pl.when(values.len() > 1).then(pl.lit("mixed")).otherwise(values.first())
    return shared.alias(column)


def sum_of_known(column: str) -> pl.Expr:
    """Return the sum of the known values of a column; null if all are unknown."""
    values = pl.col(column)
    return pl.when(values.is_not_null().any()).then(values.sum()).alias(column)


def complete_sum(values: pl.Expr) -> pl.Expr:
    """Return the sum of the values; null if any is unknown."""
    return pl.when(values.null_count() == 0).then(values.sum())
