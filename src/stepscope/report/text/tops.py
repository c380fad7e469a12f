"""The ops and kernels with most time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.report.page import table, wrapped
from stepscope.report.words.names import percent, us
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.report.document import Document
    from stepscope.report.page import Align, Line

_SHOWN: Final = 5
_CLOSELY: Final = (
    "One of them closely, down to what dominates it: "
    "stepscope show framework_op_stats PATH --op NAME"
)


def top_ops(document: Document, width: int) -> list[Line]:
    """Write the ops with most self time: on devices, or on the host without any."""
    result = document.ops
    if isinstance(result, Unavailable):
        if document.is_plain:
            return []
        return wrapped(f"{result.reason} {result.remedy}", width, indent=2)
    rows = result.rows
    device = rows.filter(pl.col("host_or_device") == "Device")
    side, chosen = ("device", device) if device.height else ("host", rows)
    top = chosen.sort("total_self_time_us", descending=True).head(_SHOWN)
    # Ops of PyTorch have no type but their name, and what is named in parentheses, as
    # "(no annotation)", has none: their types would take the room of the names.
    named_ops = top.filter(~pl.col("name").str.starts_with("("))
    typed = bool((named_ops["type"] != named_ops["name"]).any())
    body = [
        (
            row["name"],
            *((row["type"] or "–",) if typed else ()),
            f"{row['occurrences']:,}",
            us(row["total_self_time_us"]),
            _share(row[f"{side}_self_percent"]),
        )
        for row in top.iter_rows(named=True)
    ]
    if not body:
        return wrapped("No op was recorded.", width, indent=2)
    named: tuple[str, ...] = (f"op on the {side}", *(("type",) if typed else ()))
    header = (*named, "runs", "self time", "of all ops")
    align: list[Align] = ["<", ">", ">", ">"]
    if typed:
        align.insert(0, "<")
    lines = table(header, body, align=align, width=width, stretch=0)
    return [*lines, *wrapped(_CLOSELY, width, indent=2, role="dim")]


def top_kernels(document: Document, width: int) -> list[Line]:
    """Write the kernels with most total time; none in a run without a device."""
    result = document.kernels
    if isinstance(result, Unavailable):
        return []
    body = [
        (
            row["kernel_name"],
            f"{row['occurrences']:,}",
            us(row["total_us"]),
            us(row["avg_us"]),
            _share(row["device_time_percent"]),
        )
        for row in result.by_kernel.head(_SHOWN).iter_rows(named=True)
    ]
    if not body:
        return wrapped("No kernel was recorded.", width, indent=2)
    header = ("kernel", "runs", "total", "mean", "of all kernels")
    return table(header, body, align=("<", ">", ">", ">", ">"), width=width, stretch=0)


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)
