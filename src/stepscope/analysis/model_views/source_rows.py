"""Time by line of the program, over all hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.analysis.model_views.tree import NO_SOURCE, match_names
from stepscope.analysis.results.tables import share_percent, tool_tables
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.model.source_lines import LINE_TIMES, line_times, source_lines
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import activity_steps
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.derive.model.source_lines import SourceLines
    from stepscope.derive.profile_data import ProfileData

SOURCE_ROWS: Final = tool_tables("model_views")["source"]

_KEY: Final = ("file", "line", "function", "exact")
_TIMES: Final = ("host", "total_host", "device", "total_device")
#: Value of `order_by` → column to sort by; other values sort by self time.
_ORDERS: Final = {
    "cpu_micros": "host_us",
    "accelerator_micros": "device_us",
    "name": "name",
}


class SourceView(NamedTuple):
    """The rows, and which of their values are known.

    Attributes:
        host: Whether host time is known.
        device: Whether device time is known, including that of functions.
        some: Whether any time has a known line.
    """

    rows: pl.DataFrame
    host: bool
    device: bool
    some: bool


def hosts_with_functions(profile: ProfileData) -> frozenset[str]:
    """Return the hosts on which functions of the program were recorded."""
    by_host, _ = derived_by_host(profile, source_lines)
    return frozenset(
        name for name, lines in by_host.items() if len(lines.functions.line)
    )


def source_view(
    profile: ProfileData, chosen: Mapping[str, Sequence[int] | None], settings: Settings
) -> SourceView:
    """Return program lines of some hosts, in the whole recording or in some steps.

    Args:
        chosen: Host → rows of its steps; None for the whole recording.
    """
    parts = [pl.DataFrame(schema=LINE_TIMES)]
    host = device = False
    launched = True
    for name, lines in derived_by_host(profile, source_lines, chosen)[0].items():
        host |= bool(len(lines.functions.line) or len(lines.ops.line))
        device |= bool(len(lines.device_ps))
        launched &= lines.launches_known or not len(lines.device_ps)
        parts.append(_times_in_steps(profile, name, lines, chosen[name]))
    place = pl.format("{}:{}", "file", "line")
    named = pl.concat_str(place, "function", separator=" ", ignore_nulls=True)
    rows = (
        pl.concat(parts)
        .group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("library", "event").drop_nulls().first(),
            pl.col("op").sort_by("host_ps", "device_ps").drop_nulls().last(),
            # A time that is unknown on any host is unknown in the sum.
            *(
                pl.when(pl.col(f"{time}_ps").is_not_null().all() & known)
                .then(pl.col(f"{time}_ps").sum() / PS_PER_US)
                .alias(f"{time}_us")
                for time, known in zip(
                    _TIMES, (host, host, device, device), strict=True
                )
            ),
        )
        .with_columns(
            name=pl.when(pl.col("file").is_null())
            .then(pl.lit(NO_SOURCE))
            .otherwise(named),
            self_us=pl.sum_horizontal("host_us", "device_us"),
        )
    )
    has_files = bool(rows["file"].count())
    rows = rows.with_columns(
        percent=share_percent(pl.col("self_us"), float(rows["self_us"].sum()))
    )
    order = _ORDERS.get(settings.order_by, "self_us")
    ordered = _filter_rows(rows, settings).sort(
        pl.col("file").is_null(),
        order,
        "total_host_us",
        "name",
        descending=[False, order != "name", True, False],
        nulls_last=True,
    )
    return SourceView(
        ordered.select(SOURCE_ROWS.cast_columns()), host, device and launched, has_files
    )


def _times_in_steps(
    profile: ProfileData, host: str, lines: SourceLines, steps: Sequence[int] | None
) -> pl.DataFrame:
    if steps is None:
        return line_times(lines)
    step_windows = profile.derived(host, windows)
    within = Spans.empty()
    if not isinstance(step_windows, Unavailable):
        rows = step_windows.rows.filter(pl.col("step_row").is_in(list(steps)))
        within = Spans.of(rows.select("start_ps", "end_ps").iter_rows())
    step = profile.derived(host, activity_steps)
    activities = np.zeros(len(lines.device_ps), np.bool_)
    if not isinstance(step, Unavailable):
        activities = np.isin(step, np.array(steps, np.int32))
    return line_times(lines, within=within, activities=activities)


def _filter_rows(rows: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Keep the lines that pass the time thresholds and the name patterns."""
    both = pl.sum_horizontal("total_host_us", "total_device_us")
    host, device = (
        pl.col(f"total_{side}_us").fill_null(0) for side in ("host", "device")
    )
    return rows.filter(
        # The row for time without a program line is shown only if it has time.
        (both > 0) | pl.col("file").is_not_null(),
        both >= settings.min_micros,
        host >= settings.min_cpu_micros,
        device >= settings.min_accelerator_micros,
        *(
            pl.Series(match_names(rows["name"], wanted, unwanted))
            for wanted, unwanted in (
                (settings.start_name_regexes, settings.trim_name_regexes),
                (settings.show_name_regexes, settings.hide_name_regexes),
            )
        ),
    )
