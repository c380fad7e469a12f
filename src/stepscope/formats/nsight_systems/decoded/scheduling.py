"""Intervals in which threads had no core, and the cause: a wait or another thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.nsight_systems.decoded.events import (
    TIMES_NS,
    process_expr,
    thread_expr,
)
from stepscope.trace.tables import OFF_CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names

#: Length of the periods for which the process's CPU use is computed, in ns.
_PERIOD_NS: Final = 10_000_000
#: Maximum number of periods; in longer recordings the periods are longer.
_MAX_PERIODS: Final = 2**16
_CPU: Final = "process CPU (percent)"
#: Python's threads ask for the interpreter's lock at this interval (in ns, with the
#: delay of a wake-up), so that a waiting thread has no core for slices of this length.
_LOCK_SLICE_NS: Final = (4_900_000, 5_500_000)
#: Minimum number of such slices of a thread that waits for the lock.
_MIN_LOCK_SLICES: Final = 3
#: Upper bound of core numbers; a larger number comes from a damaged file.
_MAX_CORES: Final = 2**16


def scheduling_turns(export: Export) -> pl.DataFrame:
    """Return the times at which threads got and lost a core, grouped by thread.

    Columns: `globalTid`, `process`, `cpu`, `start`, `on` (True if the thread got the
    core), `until` (start of the thread's next row) and `next_on` (`on` of the next
    row); both are null in a thread's last row. Rows without a thread or core are left
    out.
    """
    rows = export.frame("SCHED_EVENTS").drop_nulls()
    rows = rows.filter(
        pl.col("cpu").is_between(0, _MAX_CORES - 1),
        pl.col("start").is_between(*TIMES_NS),
        pl.col("globalTid") > 0,
    )
    ordered = rows.select(
        *("globalTid", "cpu", "start"),
        process=process_expr("globalTid", machines=export.machines),
        on=pl.col("isSchedIn") != 0,
    ).sort("globalTid", "start", maintain_order=True)
    return ordered.with_columns(
        until=pl.col("start").shift(-1).over("globalTid"),
        next_on=pl.col("on").shift(-1).over("globalTid"),
    )


def off_core(
    turns: pl.DataFrame,
    system_calls: pl.DataFrame,
    names: Names,
    *,
    threads: Sequence[int],
    shown: Callable[[int], str | None],
) -> pl.DataFrame:
    """Return the intervals in which the given threads had no core, as events.

    Slices of the length with which Python's threads wait for the interpreter's lock are
    such waits if several threads of a process have them. An interval that begins in a
    system call is a wait in that call. Every other interval is attributed to the thread
    that got the core next.

    Args:
        turns: Result of `scheduling_turns`.
        system_calls: Calls of the operating system, with `globalTid` and `name`.
        threads: Global ids of the threads.
        shown: Returns the name of a thread by its global id; None for other programs.
    """
    lost = turns.filter(
        pl.col("globalTid").is_in(list(threads)), ~pl.col("on"), pl.col("next_on")
    ).sort("start", maintain_order=True)
    calls = system_calls.select(
        "globalTid", begun="start", ended=pl.col("start") + pl.col("dur"), call="name"
    ).sort("begun", maintain_order=True)
    lost = lost.join_asof(
        calls, left_on="start", right_on="begun", by="globalTid", check_sortedness=False
    )
    holders = (
        turns.filter("on")
        .select("cpu", at="start", holder="globalTid")
        .sort("at", maintain_order=True)
    )
    lost = lost.join_asof(
        holders,
        left_on="start",
        right_on="at",
        by="cpu",
        strategy="forward",
        check_sortedness=False,
    )
    waits = pl.col("ended") > pl.col("start")
    causes = lost.select(
        lock=_waits_for_lock(lost),
        call=pl.when(waits).then("call"),
        # The core was free if no thread took it before the waiting thread continued.
        holder=pl.when(
            ~waits.fill_null(value=False) & (pl.col("at") < pl.col("until"))
        ).then("holder"),
    )
    return lost.select(
        *("start", "process"),
        dur=pl.col("until") - pl.col("start"),
        id=thread_expr("globalTid"),
        name=_names_of_waits(causes, names, shown),
    )


def _waits_for_lock(lost: pl.DataFrame) -> pl.Series:
    """Return whether each interval is a wait for the lock of Python's interpreter."""
    is_slice = (pl.col("until") - pl.col("start")).is_between(*_LOCK_SLICE_NS)
    waiting = (is_slice.sum() >= _MIN_LOCK_SLICES).over("globalTid")
    threads = pl.col("globalTid").filter("waiting").n_unique().over("process")
    marked = lost.with_columns(waiting=waiting)
    return marked.select(lock=is_slice & pl.col("waiting") & (threads > 1))["lock"]


def _names_of_waits(
    causes: pl.DataFrame, names: Names, shown: Callable[[int], str | None]
) -> pl.Series:
    distinct = causes.unique(maintain_order=True)
    texts = names.texts()
    labels = []
    for lock, call, holder in distinct.iter_rows():
        if lock and (call is None or "cond" in texts[call]):
            labels.append("waits for the lock of Python's interpreter")
        elif call is not None:
            labels.append(f"waits in {texts[call]}")
        elif holder is None:
            labels.append("no recorded thread took the core")
        else:
            labels.append(f"the core runs {shown(holder) or 'another program'}")
    numbers = [names.number(OFF_CORE + label) for label in labels]
    table = distinct.with_columns(name=pl.Series(numbers, dtype=pl.Int32))
    joined = causes.join(
        table, on=causes.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["name"]


def cpu_of_process(
    turns: pl.DataFrame, names: Names, *, process: int | None
) -> pl.DataFrame:
    """Return the CPU use of a process per period, in percent of a core, as events.

    The columns are those of events, and `value`: the use since the previous event.
    """
    own_turns = turns.filter(pl.col("process").eq_missing(pl.lit(process, pl.Int64)))
    running = own_turns.filter(pl.col("on"), pl.col("until").is_not_null())
    empty = pl.DataFrame(schema={"start": pl.Int64, "value": pl.Float64})
    values = empty if running.is_empty() else _share_by_period(running)
    return values.with_columns(
        process=pl.lit(process, pl.Int64),
        id=pl.lit(0, pl.Int64),
        name=pl.lit(names.number(_CPU), pl.Int32),
    )


def _share_by_period(running: pl.DataFrame) -> pl.DataFrame:
    """Return the process's time on cores in each period, in percent of the period."""
    begin, end = running.select(
        pl.col("start").min(), pl.col("until").max().alias("e")
    ).row(0)
    period = max(_PERIOD_NS, -(-(end - begin) // _MAX_PERIODS))
    # Cumulative time on cores, at every begin and end of an interval on a core.
    edges = pl.concat(
        [
            running.select(at="start", step=pl.lit(1, pl.Int64)),
            running.select(at="until", step=pl.lit(-1, pl.Int64)),
        ]
    ).sort("at")
    level = edges["step"].cum_sum().cast(pl.Float64)
    elapsed = edges["at"].diff().fill_null(0).cast(pl.Float64)
    total = (level.shift(1).fill_null(0.0) * elapsed).cum_sum()
    known = pl.DataFrame({"at": edges["at"], "level": level, "total": total}).unique(
        "at", keep="last", maintain_order=True
    )
    count = -(-(end - begin) // period)
    grid = pl.select(start=begin + pl.int_range(0, count + 1, dtype=pl.Int64) * period)
    nearest = grid.join_asof(known, left_on="start", right_on="at", coalesce=False)
    since = (pl.col("start") - pl.col("at")).cast(pl.Float64)
    totals = nearest.select("start", total=pl.col("total") + pl.col("level") * since)
    return totals.select(
        "start", value=pl.col("total").diff() * (100.0 / period)
    ).drop_nulls()
