"""Tables of one host written out by hand, for derivations that read few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
from msgspec.structs import asdict

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.windows import Windows
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.trace.quality import QualityNote

ABSENT = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")
OTHER = Unavailable(code="NO_STEPS", reason="Nor this.", remedy="Record more.")


class Tables:
    """What derivations ask of a recording: its tables, texts and notes."""

    def __init__(
        self,
        host: str = "vm",
        *,
        strings: Sequence[str] = (),
        notes: Sequence[QualityNote] = (),
        **tables: pl.DataFrame | Unavailable,
    ) -> None:
        self.host = host
        self.strings = strings
        self.notes = tuple(notes)
        self.tables = tables

    def table(self, name: str) -> pl.DataFrame | Unavailable:
        return self.tables.get(name, ABSENT)

    def quality_notes(self) -> tuple[QualityNote, ...]:
        return self.notes


class Derived:
    """What analyses ask of a run: values and tables of its hosts."""

    def __init__(
        self,
        values: Mapping[Callable[..., Any], Any],
        *,
        hosts: Sequence[str] = ("vm",),
        **tables: Any,
    ) -> None:
        self.hosts, self.values, self.tables = hosts, values, tables

    def derived(self, host: str, wanted: Callable[..., Any]) -> Any:
        return _of_host(self.values.get(wanted, ABSENT), host)

    def table(self, host: str, name: str) -> Any:
        return _of_host(self.tables.get(name, ABSENT), host)


def _of_host(value: Any, host: str) -> Any:
    """A value of all hosts, or a host's where they are given by host."""
    return value[host] if isinstance(value, dict) else value


def windows_at(
    *bounds: tuple[int, int],
    has_steps: bool = True,
    open_end: Sequence[bool] = (),
    flags: Sequence[Sequence[str]] = (),
) -> Windows:
    """Windows from start to end; all are complete and have no flag, unless told."""
    count = len(bounds)
    rows = pl.DataFrame(
        {
            "step_row": pl.Series(range(count), dtype=pl.Int32),
            "start_ps": pl.Series([start for start, _ in bounds], dtype=pl.Int64),
            "end_ps": pl.Series([end for _, end in bounds], dtype=pl.Int64),
            "open_end": list(open_end) or [False] * count,
            "flags": pl.Series(
                [list(of) for of in flags] or [[]] * count, dtype=pl.List(pl.String)
            ),
        }
    )
    return Windows(rows, "host", has_steps, pl.DataFrame())


def types_named(*names: str | None) -> pl.DataFrame:
    """The table `event_types`."""
    return pl.DataFrame({"name": pl.Series(names, dtype=pl.String)})


def events_at(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """The table `events`: type, track, start and duration of each event."""
    columns = {"type": pl.Int32, "track": pl.Int32, "start_ps": pl.Int64}
    return pl.DataFrame(rows, schema={**columns, "dur_ps": pl.Int64}, orient="row")


def activities(
    *rows: tuple[str, int, int, int], **columns: Sequence[Any]
) -> pl.DataFrame:
    """The table `device_activity`: kind, device, start and duration of each activity.

    An activity has type 0 and no event, size or track, unless told.
    """
    table = pl.DataFrame(
        rows,
        schema={
            "kind": ACTIVITY_KINDS,
            "device": pl.Int32,
            "start_ps": pl.Int64,
            "dur_ps": pl.Int64,
        },
        orient="row",
    )
    usual: dict[str, tuple[Any, pl.DataType]] = {
        "type": (0, pl.Int32()),
        "event": (None, pl.Int32()),
        "track": (0, pl.Int32()),
        "bytes": (None, pl.Int64()),
        "op": (None, pl.String()),
        "hlo_op": (None, pl.String()),
    }
    return table.with_columns(
        pl.Series(name, columns.get(name, [value] * len(rows)), dtype=dtype)
        for name, (value, dtype) in usual.items()
    )


def spans_of(*pairs: tuple[int, int]) -> Spans:
    """Spans from start to end."""
    return Spans.of(pairs)


def fields_of(value: Any) -> Any:
    """All fields of a result and of the results in it, to compare them by value."""
    if isinstance(value, msgspec.Struct):
        return {name: fields_of(field) for name, field in asdict(value).items()}
    if isinstance(value, dict):
        return {key: fields_of(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(fields_of(part) for part in value)
    return value
