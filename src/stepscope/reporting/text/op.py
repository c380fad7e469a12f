"""Pages of text for one op or scope in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline.cells import (
    UNKNOWN,
    bytes_cell,
    count_cell,
    known,
    rate_cell,
    reason_parts,
    table_of_rows,
    text_cell,
    us_cell,
)
from stepscope.reporting.outline.parts import Break, Heading, Paragraph, Table, outlined
from stepscope.reporting.page import bar
from stepscope.reporting.words.names import FILL_TEXTS, percent, us

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import polars as pl

    from stepscope.analysis.framework_op_stats.detail import OpDetailResult
    from stepscope.reporting.outline.cells import TableColumn
    from stepscope.reporting.outline.parts import Part

_MAX_ROWS: Final = 10
_BAR: Final = 30
#: Tables of the result that the page names for `--table`.
_TABLES: Final = ("rows", "calls", "kernels", "copies", "launches", "shapes")
#: Fields whose missing values only the page of all ops explains.
_OF_THE_ROWS: Final = ("rows", "pies", "device_idle_us", "host_idle_us")

_CAUSE: Final = {
    "transfer": "Transfer dominates: most of the op's device time is data movement.",
    "utilisation": "Low utilisation dominates: for most of the op's device time the "
    "device waits or is only partly used.",
    "compute": "Compute dominates: for most of the op's device time kernels fill the "
    "device.",
    "mixed": "No cause dominates: transfer, utilisation and compute share the op's "
    "device time.",
}
#: Field of `Cause`, and its name on the page.
_PARTS: Final = (
    ("transfer_us", "copies, memsets and collectives"),
    ("waiting_us", "device idle, waiting for the op"),
    ("small_grid_us", "kernels with too few blocks"),
    ("low_occupancy_us", "kernels with low occupancy"),
    ("compute_us", "kernels that fill the device"),
    ("unknown_us", "kernels with unknown launch shape"),
)


_flop_rate_cell: Final = known(
    lambda rate: f"{rate:,.4g}" if rate < 1 else f"{rate:,.0f}"
)
_OPS: Final[tuple[TableColumn, ...]] = (
    ("op", "name", text_cell),
    ("type", "type", text_cell),
    ("side", "host_or_device", text_cell),
    ("runs", "occurrences", count_cell),
    ("total", "total_time_us", us),
    ("self", "total_self_time_us", us),
)
_KERNELS: Final[tuple[TableColumn, ...]] = (
    ("kernel", "kernel_name", text_cell),
    ("runs", "occurrences", count_cell),
    ("total", "total_us", us),
    ("mean", "avg_us", us),
    ("fills", "fill", lambda fill: FILL_TEXTS.get(fill, UNKNOWN)),
    ("grid", "grid_dim", text_cell),
    ("block", "block_dim", text_cell),
    ("regs", "registers", count_cell),
    ("shared B", "shared_memory_bytes", count_cell),
    ("occupancy", "occupancy_percent", known("{:.0f} %".format)),
    (
        "limited by",
        "occupancy_limiter",
        lambda limit: text_cell(limit).replace("_", " "),
    ),
)
_COPIES: Final[tuple[TableColumn, ...]] = (
    ("copy", "name", text_cell),
    ("kind", "kind", text_cell),
    ("runs", "occurrences", count_cell),
    ("total", "total_us", us),
    ("mean", "avg_us", us),
    ("size", "bytes", bytes_cell),
    ("GiB/s", "gib_per_s", rate_cell),
)
_LAUNCHES: Final[tuple[TableColumn, ...]] = (
    ("launch call", "name", text_cell),
    ("calls", "calls", count_cell),
    ("total", "total_us", us),
    ("mean", "avg_us", us),
    ("started", "activities", count_cell),
    ("on an idle device", "idle_launches", count_cell),
    ("median wait", "median_wait_us", us_cell),
)
_SHAPES: Final[tuple[TableColumn, ...]] = (
    ("shape", "shape", text_cell),
    ("calls", "calls", count_cell),
    ("on devices", "device_us", us_cell),
    ("on hosts", "host_us", us_cell),
    ("GFLOP/s", "measured_flop_rate", _flop_rate_cell),
    ("GiB/s", "measured_memory_bw", _flop_rate_cell),
)


@outlined
def op_outline(
    result: OpDetailResult, *, title: str, others: Sequence[str]
) -> Iterator[Part]:
    """Write the time of an op, its cause, its kernels and copies, and its calls.

    Args:
        others: Names of tables that can be shown or exported in full.
    """
    yield Paragraph(title, strong=True)
    yield Paragraph(result.selected, role="heading", indent=0)
    yield from _head_parts(result)
    yield Heading("Cause")
    yield from _cause_parts(result)
    for heading, body in (
        ("In the tables of ops", _costliest_rows(result.rows, _OPS, left={0, 1, 2})),
        (
            "Kernels",
            _costliest_rows(
                result.kernels,
                _KERNELS,
                left={0, 4, 10},
                expendable=("shared B", "block", "grid", "regs", "mean"),
            ),
        ),
        ("Copies and memsets", _costliest_rows(result.copies, _COPIES, left={0, 1})),
        (
            "Launches",
            _costliest_rows(result.launches, _LAUNCHES, expendable=("started", "mean")),
        ),
        ("Shapes", _costliest_rows(result.shapes, _SHAPES)),
        ("Calls", _call_rows(result)),
    ):
        if shown := tuple(body):
            yield Heading(heading)
            yield from shown
    yield Break()
    names = ", ".join(name for name in others if name in _TABLES)
    yield Paragraph(f"Full tables (--table NAME): {names}.")
    own = [
        entry
        for entry in result.missing
        if entry.field.partition("[")[0] not in _OF_THE_ROWS
    ]
    own = [entry for entry in own if entry.field.partition(".")[0] not in _OF_THE_ROWS]
    yield from reason_parts(own)


def _head_parts(result: OpDetailResult) -> Iterator[Part]:
    count = result.call_count
    if count is None:
        return
    calls = f"{count:,} call{'s' if count != 1 else ''}"
    ops = result.rows["name"].n_unique()
    yield Paragraph(calls if ops == 1 else f"{calls} of {ops} ops")
    share = result.share
    if share.steps is None:
        return
    steps = f"{share.steps} step{'s' if share.steps != 1 else ''}"
    parts = []
    if share.device_percent is not None:
        parts.append(f"{percent(share.device_percent)} on the device")
        if share.exposed_percent is not None:
            exposed = percent(share.exposed_percent)
            parts[-1] += f" ({exposed} while nothing else ran there)"
    if share.host_percent is not None:
        parts.append(f"{percent(share.host_percent)} on the host")
    if parts:
        yield Paragraph(f"Share of the step, over {steps}: {', '.join(parts)}")


def _cause_parts(result: OpDetailResult) -> Iterator[Part]:
    cause = result.cause
    default_text = "The dominating cause is unknown; the reason is below."
    yield Paragraph(_CAUSE.get(cause.dominant or "", default_text))
    rows = tuple(
        (
            what,
            us(value),
            percent(100.0 * value / cause.total_us) if cause.total_us else UNKNOWN,
            bar(value / cause.total_us, _BAR) if cause.total_us else "",
        )
        for name, what in _PARTS
        if (value := getattr(cause, name))
    )
    if rows:
        yield Table(("", "", "", ""), rows, left=frozenset({0, 3}))
    if cause.untested_us:
        yield Paragraph(
            f"The occupancy is unknown for {us(cause.untested_us)} of the kernels that "
            "fill the device by their number of blocks."
        )


def _costliest_rows(
    rows: pl.DataFrame | None,
    columns: Sequence[TableColumn],
    *,
    left: Collection[int] = (0,),
    expendable: tuple[str, ...] = (),
) -> Iterator[Part]:
    if rows is None or rows.is_empty():
        return
    shown = rows.head(_MAX_ROWS)
    table = table_of_rows(shown, columns, left=frozenset(left), expendable=expendable)
    yield table.without_unknown()
    yield from _rows_not_shown_note(rows.height)


def _call_rows(result: OpDetailResult) -> Iterator[Part]:
    several = result.rows["name"].n_unique() > 1
    hosts = result.calls["host"].n_unique() > 1
    with_shapes = not several and result.shapes is not None
    rows = tuple(
        (
            (row["op"] if several else row["shape"] if with_shapes else None)
            or f"call {row['call']:,}",
            row["host"] if hosts else count_cell(row["step"]),
            f"{row['start_ms']:,.3f}",
            us_cell(row["host_us"]),
            us_cell(row["device_us"]),
            us_cell(row["waiting_us"]),
            *(count_cell(row[name]) for name in ("launches", "kernels", "copies")),
            bytes_cell(row["copy_bytes"]),
        )
        for row in result.calls.head(_MAX_ROWS).iter_rows(named=True)
    )
    header = (
        *("longest first", "host" if hosts else "step", "at ms", "on host"),
        *("on device", "device idle", "launches", "kernels", "copies", "copied"),
    )
    expendable = ("copied", "launches", "copies", "at ms", "kernels")
    if rows:
        yield Table(header, rows, expendable=expendable).without_unknown()
    yield from _rows_not_shown_note(result.call_count or 0)


def _rows_not_shown_note(count: int) -> Iterator[Part]:
    if count > _MAX_ROWS:
        yield Paragraph(f"{count - _MAX_ROWS:,} of {count:,} rows are not shown.")
