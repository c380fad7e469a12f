"""The lines of the program with their time, over all hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.analysis.model_views.tree import NO_SOURCE
from stepscope.analysis.results.patterns import whole
from stepscope.analysis.results.tables import tables_of
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.model.source_lines import LINE_TIMES, line_times, source_lines
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.assignment import activity_steps
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.derive.model.source_lines import SourceLines
    from stepscope.derive.profile_data import ProfileData

SOURCE_ROWS: Final = tables_of("model_views")["source"]

_KEY: Final = ("file", "line", "function", "exact")
_TIMES: Final = {
    "host_us": "host_ps",
    "total_host_us": "total_host_ps",
    "device_us": "device_ps",
    "total_device_us": "total_device_ps",
}
#: Order of the options → column; any other order is that of the self times.
_ORDERS: Final = {
    "cpu_micros": "host_us",
    "accelerator_micros": "device_us",
    "name": "name",
}


class SourceView(NamedTuple):
    """The rows, and what was recorded of them.

    Attributes:
        rows: Columns `SOURCE_ROWS`.
        host: Whether host time is known.
        device: Whether device time is known, of functions too.
        some: Whether a line is known of anything.
    """

    rows: pl.DataFrame
    host: bool
    device: bool
    some: bool


def with_functions(profile: ProfileData) -> frozenset[str]:
    """Return the hosts on which functions of the program were recorded."""
    found = {name: profile.derived(name, source_lines) for name in profile.hosts}
    return frozenset(
        name
        for name, lines in found.items()
        if not isinstance(lines, Unavailable) and len(lines.functions.line)
    )


def source_view(
    profile: ProfileData,
    chosen: Mapping[str, Sequence[int] | None],
    settings: Settings,
) -> SourceView:
    """List the lines of some hosts, in all of the recording or in some steps.

    Args:
        chosen: Host → rows of its steps; None for all of the recording.
        settings: Thresholds of time, names and the order count.
    """
    parts = []
    host = device = False
    launched = True
    for name, steps in chosen.items():
        found = profile.derived(name, source_lines)
        if isinstance(found, Unavailable):
            continue
        host |= bool(len(found.functions.line) or len(found.ops.line))
        device |= bool(len(found.device_ps))
        launched &= found.launches_known or not len(found.device_ps)
        parts.append(_timed(profile, name, found, steps))
    empty = pl.DataFrame(schema=LINE_TIMES)
    summed = (
        pl.concat([empty, *parts])
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("library", "event").drop_nulls().first(),
            pl.col("op").sort_by("host_ps", "device_ps").drop_nulls().last(),
            # What is not known on one host is not known of all.
            *(
                pl.when(pl.col(one).is_not_null().all()).then(pl.col(one).sum())
                for one in _TIMES.values()
            ),
        )
    )
    rows = _rows(summed, settings, host=host, device=device)
    some = bool(summed["file"].count())
    return SourceView(rows, host, device and launched, some)


def _timed(
    profile: ProfileData, host: str, found: SourceLines, steps: Sequence[int] | None
) -> pl.DataFrame:
    if steps is None:
        return line_times(found)
    of_host = profile.derived(host, windows)
    within = Spans.empty()
    if not isinstance(of_host, Unavailable):
        mine = of_host.rows.filter(pl.col("step_row").is_in(list(steps)))
        within = Spans.of(mine.select("start_ps", "end_ps").iter_rows())
    step = profile.derived(host, activity_steps)
    activities = np.zeros(len(found.device_ps), np.bool_)
    if not isinstance(step, Unavailable):
        activities = np.isin(step, np.array(steps, np.int32))
    return line_times(found, within=within, activities=activities)


def _rows(
    summed: pl.DataFrame, settings: Settings, *, host: bool, device: bool
) -> pl.DataFrame:
    known = {"host": host, "device": device}
    times = [
        (
            pl.col(ps) / PS_PER_US
            if known["device" if "device" in us else "host"]
            else pl.lit(None, pl.Float64)
        )
        .cast(pl.Float64)
        .alias(us)
        for us, ps in _TIMES.items()
    ]
    place = pl.format("{}:{}", "file", "line")
    named = pl.concat_str(place, "function", separator=" ", ignore_nulls=True)
    rows = summed.with_columns(
        *times,
        name=pl.when(pl.col("file").is_null()).then(pl.lit(NO_SOURCE)).otherwise(named),
    ).with_columns(self_us=pl.sum_horizontal("host_us", "device_us"))
    total = rows["self_us"].sum()
    percent = 100 * pl.col("self_us") / total if total else pl.lit(None, pl.Float64)
    rows = rows.with_columns(percent=percent)
    rows = rows.filter(_wanted(rows, settings))
    order = _ORDERS.get(settings.order_by, "self_us")
    return rows.sort(
        pl.col("file").is_null(),
        order,
        "total_host_us",
        "name",
        descending=[False, order != "name", True, False],
        nulls_last=True,
    ).select(SOURCE_ROWS.cast_columns())


def _wanted(rows: pl.DataFrame, settings: Settings) -> pl.Expr:
    """Return which lines the thresholds of time and the patterns of names leave."""
    least = {
        "total_host_us": settings.min_cpu_micros,
        "total_device_us": settings.min_accelerator_micros,
    }
    both = pl.sum_horizontal("total_host_us", "total_device_us")
    # Where each time has a line, there is none without.
    wanted = (both >= settings.min_micros) & ((both > 0) | pl.col("file").is_not_null())
    for column, limit in least.items():
        wanted &= pl.col(column).fill_null(0) >= limit
    for shown in (settings.start_name_regexes, settings.show_name_regexes):
        wanted &= pl.lit(_matching(rows, shown))
    for hidden in (settings.trim_name_regexes, settings.hide_name_regexes):
        wanted &= ~pl.lit(_matching(rows, hidden))
    return wanted


def _matching(rows: pl.DataFrame, patterns: Collection[str]) -> pl.Series:
    return pl.Series(whole(rows["name"], list(patterns)))
