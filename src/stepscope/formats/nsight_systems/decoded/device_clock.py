"""Whether the device's times are those of the host, and how far they are off.

Two facts bound it from both sides: work begins after its launch call, and what a wait
for a stream waited for has ended when the wait returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope.formats.nsight_systems.decoded.device_work import distinct_rows
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.formats.nsight_systems.decoded.events import Names

#: Clocks that were aligned differ by some microseconds.
APART_NS: Final = 1_000_000
#: The bounds must lie as close as this for times to be moved.
_PRECISE_NS: Final = 1_000_000
#: As few waits, or as few launches, may be right by chance.
_ENOUGH: Final = 10
_STREAM: Final = "Stream Synchronize"
_NO_WAIT: Final = "StreamWaitEvent"
_KEY: Final = ("process", "device", "id")
#: A table of the numbers of calls is worth its memory up to so many places a call.
_PLACES_OF_A_CALL: Final = 8


class DeviceClock(Frozen, frozen=True, kw_only=True):
    """What waits and launches say of the clock of one device.

    Attributes:
        waits: Number of waits for a stream whose last work is known.
        outlasted: Number of those that returned more than 1 ms before its end.
        outlasted_ns: The longest such time; 0 where there is none.
        late_ns: By how much the device's times run late, where both bounds agree on it
            and it is more than 1 ms; negative where they run early. None otherwise.
    """

    waits: int
    outlasted: int
    outlasted_ns: int
    late_ns: int | None


def device_clocks(
    work: pl.DataFrame, calls: pl.DataFrame, syncs: pl.DataFrame, names: Names
) -> dict[int, DeviceClock]:
    """Look at the clock of every device; without a wait nothing is known of any.

    Args:
        work: What ran on devices.
        calls: The calls of the host.
        syncs: What devices were waited for.
        names: Numbers of names.
    """
    waits = syncs.filter(pl.col("name") == names.number(_STREAM))
    if waits.is_empty():
        return {}
    called = calls.select(
        "process",
        "correlation",
        call="name",
        called="start",
        returned=pl.col("start") + pl.col("dur"),
    )
    done = (pl.col("start") + pl.col("dur")).alias("done")
    known = calls_of(work.select(*_KEY, "correlation", "start", done), called)
    waits = waits.with_columns(correlation=pl.col("correlationId"))
    # Some releases write a stream's waits for events, which return at once, as such.
    others = [at for at, name in enumerate(names.texts()) if _NO_WAIT in name]
    waits = waits.join(
        called.filter(pl.col("call").is_in(others)),
        on=["process", "correlation"],
        how="anti",
    ).select(*_KEY, begun="start", ended=pl.col("start") + pl.col("dur"))
    # Work of a stream ends in the order of its launches: that launched last before a
    # wait has ended when the wait returns. Groups may be in any order.
    streams = [it.select(_KEY) for it in (known, waits)]
    # One key is compared in a fraction of the time of three.
    _, key = distinct_rows(pl.concat(streams))
    last = (
        waits.with_columns(key=key[known.height :])
        .sort("begun")
        .join_asof(
            known.select("returned", "done", key=key[: known.height]).sort("returned"),
            left_on="begun",
            right_on="returned",
            by="key",
            check_sortedness=False,
        )
    )
    late = last.select("device", by=pl.col("done") - pl.col("ended")).drop_nulls()
    delays = known["start"] - known["called"]
    found = {}
    for device in known["device"].unique().sort().to_list():
        beyond = late.filter(pl.col("device") == device)["by"]
        began = delays.filter(known["device"] == device)
        outlasted = beyond.filter(beyond > APART_NS)
        found[device] = DeviceClock(
            waits=len(beyond),
            outlasted=len(outlasted),
            outlasted_ns=_most(outlasted),
            late_ns=_late(beyond, began),
        )
    return found


def calls_of(work: pl.DataFrame, called: pl.DataFrame) -> pl.DataFrame:
    """Return work with its call; rows that lack a number are left out."""
    work, called = work.drop_nulls(), called.drop_nulls()
    process = _process(work)
    if process is None or process != _process(called):
        return work.join(called, on=["process", "correlation"])
    call = _only_call(called["correlation"], work["correlation"])
    if call is None:
        # One key is compared in a fraction of the time of two.
        return work.join(called.drop("process"), on="correlation")
    led = call >= 0
    if not led.all():
        work, call = work.filter(led), call[led]
    return work.hstack(called.drop("process", "correlation")[call])


def _process(frame: pl.DataFrame) -> int | None:
    """Return the process of all rows; None where they are of several, or none."""
    process = frame["process"]
    one = process.len() and (process == process[0]).all()
    return int(process[0]) if one else None


def _only_call(called: pl.Series, wanted: pl.Series) -> NDArray[np.int32] | None:
    """Return the row of the call that has each number, -1 for none.

    None where two calls have one number, or the numbers are too far apart for a table.
    """
    least, most = (int(it or 0) for it in (called.min(), called.max()))  # type: ignore[arg-type]
    if most - least >= _PLACES_OF_A_CALL * len(called):
        return None
    table = np.full(most - least + 1, -1, np.int32)
    call = np.empty(len(wanted), np.int32)
    found = kernels.match(
        called.to_numpy(),
        wanted.to_numpy(),
        least,
        table,
        call,
        np.zeros(len(called), np.int32),
    )
    unique = np.count_nonzero(table >= 0) == len(called)
    return call if found >= 0 and unique else None


def moved(work: pl.DataFrame, clocks: Mapping[int, DeviceClock]) -> pl.DataFrame:
    """Return what ran on devices in times of the host, where their clocks are known."""
    late = {one: it.late_ns for one, it in clocks.items() if it.late_ns is not None}
    if not late:
        return work
    by = pl.col("device").replace_strict(late, default=0, return_dtype=pl.Int64)
    return work.with_columns(start=pl.col("start") - by)


def _late(beyond: pl.Series, began: pl.Series) -> int | None:
    """Return the middle of what waits and launches leave, where it is narrow."""
    if min(len(beyond), len(began)) < _ENOUGH:
        return None
    least, most = _most(beyond), -_most(-began)
    middle = (least + most) // 2
    narrow = abs(most - least) <= _PRECISE_NS
    return middle if narrow and abs(middle) > APART_NS else None


def _most(values: pl.Series) -> int:
    return int(values.max() or 0)  # type: ignore[arg-type]
