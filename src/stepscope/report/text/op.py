"""An op or a scope looked at closely, as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, bar, line, plain_text, table, wrapped
from stepscope.report.words.names import FILL_WORDS, percent, us
from stepscope.report.words.reasons import reasons
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.analysis.framework_op_stats.cause import Cause
    from stepscope.analysis.framework_op_stats.detail import OpDetailResult
    from stepscope.report.page import Align, Line

_SHOWN: Final = 10
_BAR: Final = 30
#: A name is not cut to fewer characters than this.
_NARROWEST: Final = 24
_UNKNOWN: Final = "–"
#: Number of rows that the page shows of each table.
_TABLES: Final = ("rows", "calls", "kernels", "copies", "launches", "shapes")
#: Fields whose missing values are explained on the page of all ops, not here.
_OF_THE_ROWS: Final = ("rows", "pies", "device_idle_us", "host_idle_us")

_CAUSE: Final = {
    "transfer": "Transfer dominates: most of its device time goes into moving data.",
    "utilisation": "Utilisation dominates: for most of its device time the device "
    "waits or is not filled.",
    "compute": "Compute dominates: for most of its device time kernels fill the "
    "device.",
    "mixed": "Nothing dominates: transfer, utilisation and compute share its device "
    "time.",
}
#: (Part of `Cause`, its words, the share that it belongs to).
_PARTS: Final = (
    ("transfer_us", "copies, memsets and collectives", "transfer_percent"),
    ("waiting_us", "the device idle and waiting for it", "utilisation_percent"),
    ("small_grid_us", "kernels of too few blocks", "utilisation_percent"),
    ("low_occupancy_us", "kernels of low occupancy", "utilisation_percent"),
    ("compute_us", "kernels that fill the device", "compute_percent"),
    ("unknown_us", "kernels of unknown launch shape", None),
)


def render(
    result: OpDetailResult, *, title: str, others: Sequence[str], width: int
) -> str:
    """Write the time of an op, its cause, its parts and its calls.

    Args:
        result: The op or scope.
        title: Tool, run and hosts.
        others: Names of the tables that can be shown or exported whole.
        width: Number of characters in a line.
    """
    lines = [line(Piece(title, "title")), line(Piece(result.selected, "heading"))]
    lines += [*_head(result, width), line()]
    for heading, section in _SECTIONS:
        body = section(result, width)
        if body:
            lines += [line(Piece(heading, "heading")), *body, line()]
    names = ", ".join(name for name in others if name in _TABLES)
    lines += wrapped(f"Whole tables (--table NAME): {names}.", width, indent=2)
    own = [
        one for one in result.missing if one.field.partition("[")[0] not in _OF_THE_ROWS
    ]
    own = [one for one in own if one.field.partition(".")[0] not in _OF_THE_ROWS]
    return plain_text([*lines, *reasons(own, width)])


def _head(result: OpDetailResult, width: int) -> list[Line]:
    count = result.call_count
    if count is None:
        return []
    calls = f"{count:,} call{'s' if count != 1 else ''}"
    ops = result.rows["name"].n_unique()
    lines = wrapped(calls if ops == 1 else f"{calls} of {ops} ops", width, indent=2)
    share = result.share
    if share.steps is None:
        return lines
    steps = f"{share.steps} step{'s' if share.steps != 1 else ''}"
    parts = []
    if share.device_percent is not None:
        parts.append(f"{percent(share.device_percent)} on the device")
        if share.exposed_percent is not None:
            alone = percent(share.exposed_percent)
            parts[-1] += f" ({alone} while nothing else ran there)"
    if share.host_percent is not None:
        parts.append(f"{percent(share.host_percent)} on the host")
    if parts:
        text = f"Of the step, in {steps}: {', '.join(parts)}"
        lines += wrapped(text, width, indent=2)
    return lines


def _ops(result: OpDetailResult, width: int) -> list[Line]:
    """Write the chosen rows of the tables of all ops, if there are several."""
    body = [
        (
            row["name"],
            row["type"] or _UNKNOWN,
            row["host_or_device"],
            f"{row['occurrences']:,}",
            us(row["total_time_us"]),
            us(row["total_self_time_us"]),
        )
        for row in result.rows.head(_SHOWN).iter_rows(named=True)
    ]
    header = ("op", "type", "side", "runs", "total", "self")
    align: Sequence[Align] = ("<", "<", "<", ">", ">", ">")
    lines = _table(header, body, align, width)
    return [*lines, *_rest(len(result.rows), width)]


def _cause(result: OpDetailResult, width: int) -> list[Line]:
    cause = result.cause
    said = "What dominates is not known; the reason is below."
    lines = wrapped(_CAUSE.get(cause.dominant or "", said), width, indent=2)
    body = [
        (what, us(value), *_percent(value, cause))
        for name, what, _ in _PARTS
        if (value := getattr(cause, name))
    ]
    if body:
        align: Sequence[Align] = ("<", ">", ">", "<")
        lines += table(("", "", "", ""), body, align=align, width=width, stretch=0)[1:]
    if cause.untested_us:
        text = (
            f"The occupancy of {us(cause.untested_us)} of the kernels that fill the "
            "device is not known; their grids do."
        )
        lines += wrapped(text, width, indent=2)
    return lines


def _percent(value: float, cause: Cause) -> tuple[str, str]:
    if not cause.total_us:
        return _UNKNOWN, ""
    part = value / cause.total_us
    return percent(100.0 * part), bar(part, _BAR)


def _kernels(result: OpDetailResult, width: int) -> list[Line]:
    if result.kernels is None:
        return []
    body = [
        (
            row["kernel_name"],
            f"{row['occurrences']:,}",
            us(row["total_us"]),
            us(row["avg_us"]),
            FILL_WORDS.get(row["fill"], _UNKNOWN),
            row["grid_dim"] or _UNKNOWN,
            row["block_dim"] or _UNKNOWN,
            _number(row["registers"]),
            _number(row["shared_memory_bytes"]),
            _occupancy(row["occupancy_percent"]),
            (row["occupancy_limiter"] or _UNKNOWN).replace("_", " "),
        )
        for row in result.kernels.head(_SHOWN).iter_rows(named=True)
    ]
    header: Sequence[str] = (
        *("kernel", "runs", "total", "mean", "fills", "grid", "block", "regs"),
        *("shared B", "occupancy", "limited by"),
    )
    align: Sequence[Align] = ("<", *(">",) * 3, "<", *(">",) * 5, "<")
    lines = _table(
        header, body, align, width, ("shared B", "block", "grid", "regs", "mean")
    )
    return [*lines, *_rest(len(result.kernels), width)]


def _copies(result: OpDetailResult, width: int) -> list[Line]:
    if result.copies is None:
        return []
    body = [
        (
            row["name"],
            row["kind"],
            f"{row['occurrences']:,}",
            us(row["total_us"]),
            us(row["avg_us"]),
            _size(row["bytes"]),
            _UNKNOWN if row["gib_per_s"] is None else f"{row['gib_per_s']:,.2f}",
        )
        for row in result.copies.head(_SHOWN).iter_rows(named=True)
    ]
    header = ("copy", "kind", "runs", "total", "mean", "size", "GiB/s")
    align: Sequence[Align] = ("<", "<", *(">",) * 5)
    lines = _table(header, body, align, width)
    return [*lines, *_rest(len(result.copies), width)]


def _launches(result: OpDetailResult, width: int) -> list[Line]:
    if result.launches is None:
        return []
    body = [
        (
            row["name"],
            f"{row['calls']:,}",
            us(row["total_us"]),
            us(row["avg_us"]),
            f"{row['activities']:,}",
            f"{row['idle_launches']:,}",
            _time(row["median_wait_us"]),
        )
        for row in result.launches.head(_SHOWN).iter_rows(named=True)
    ]
    header: Sequence[str] = (
        *("launch call", "calls", "total", "mean", "started"),
        *("on an idle device", "median wait"),
    )
    align: Sequence[Align] = ("<", *(">",) * 6)
    lines = _table(header, body, align, width, ("started", "mean"))
    return [*lines, *_rest(len(result.launches), width)]


def _shapes(result: OpDetailResult, width: int) -> list[Line]:
    if result.shapes is None:
        return []
    body = [
        (
            row["shape"],
            f"{row['calls']:,}",
            _time(row["device_us"]),
            _time(row["host_us"]),
            _rate(row["measured_flop_rate"]),
            _rate(row["measured_memory_bw"]),
        )
        for row in result.shapes.head(_SHOWN).iter_rows(named=True)
    ]
    header = ("shape", "calls", "on devices", "on hosts", "GFLOP/s", "GiB/s")
    align: Sequence[Align] = ("<", *(">",) * 5)
    lines = _table(header, body, align, width)
    return [*lines, *_rest(len(result.shapes), width)]


def _calls(result: OpDetailResult, width: int) -> list[Line]:
    several = result.rows["name"].n_unique() > 1
    hosts = result.calls["host"].n_unique() > 1
    with_shapes = not several and result.shapes is not None
    body = [
        (
            (row["op"] if several else row["shape"] if with_shapes else None)
            or f"call {row['call']:,}",
            row["host"] if hosts else _number(row["step"]),
            f"{row['start_ms']:,.3f}",
            _time(row["host_us"]),
            _time(row["device_us"]),
            _time(row["waiting_us"]),
            *(_number(row[name]) for name in ("launches", "kernels", "copies")),
            _size(row["copy_bytes"]),
        )
        for row in result.calls.head(_SHOWN).iter_rows(named=True)
    ]
    header: Sequence[str] = (
        *("longest first", "host" if hosts else "step", "at ms", "on host"),
        *("on device", "device idle", "launches", "kernels", "copies", "copied"),
    )
    align: Sequence[Align] = ("<", *(">",) * 9)
    lines = _table(
        header, body, align, width, ("copied", "launches", "copies", "at ms", "kernels")
    )
    return [*lines, *_rest(result.call_count or 0, width)]


#: Sections of the page in order; one without lines is left out.
_SECTIONS: Final[
    tuple[tuple[str, Callable[[OpDetailResult, int], list[Line]]], ...]
] = (
    ("Cause", _cause),
    ("In the tables of ops", _ops),
    ("Kernels", _kernels),
    ("Copies and memsets", _copies),
    ("Launches", _launches),
    ("Shapes", _shapes),
    ("Calls", _calls),
)


def _table(
    header: Sequence[str],
    body: Sequence[Sequence[str]],
    align: Sequence[Align],
    width: int,
    expendable: Sequence[str] = (),
) -> list[Line]:
    """Lay out a table without columns that are null throughout; nothing without rows.

    Where room is short the expendable columns are dropped, one after the other.
    """
    if not body:
        return []
    shown = [
        place
        for place, cells in enumerate(zip(*body, strict=True))
        if place == 0 or set(cells) != {_UNKNOWN}
    ]
    sizes = [max(map(len, cells)) for cells in zip(header, *body, strict=True)]
    for name in expendable:
        taken = min(sizes[0], _NARROWEST) + sum(2 + sizes[place] for place in shown[1:])
        if taken + 2 > width:
            shown = [place for place in shown if header[place] != name]
    return table(
        [header[place] for place in shown],
        [[row[place] for place in shown] for row in body],
        align=[align[place] for place in shown],
        width=width,
        stretch=0,
    )


def _rest(count: int, width: int) -> list[Line]:
    if count <= _SHOWN:
        return []
    return wrapped(f"{count - _SHOWN:,} of {count:,} more.", width, indent=2)


def _time(value: float | None) -> str:
    """Write a time with its unit, and zero as `0` without one."""
    return _UNKNOWN if value is None else us(value) if value else "0"


def _rate(value: float | None) -> str:
    return (
        _UNKNOWN if value is None else f"{value:,.4g}" if value < 1 else f"{value:,.0f}"
    )


def _size(value: int | None) -> str:
    return _UNKNOWN if value is None else bytes_text(value) if value else "0"


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _occupancy(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} %"
