"""The GPUs of a file: which one an ordinal means, their clocks, and their metrics.

Two facts bound from both sides how far a device's times are off those of the host: work
begins after its launch call, and what a wait for a stream waited for has ended when the
wait returns. Nsight Systems samples metrics of whole GPUs many thousand times a second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope.formats.nsight_systems.decoded.device_work import distinct_rows
from stepscope.formats.nsight_systems.decoded.events import row_changes
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from stepscope.array_types import Int32s
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names


#: The lowest bits of a type say which GPU of the list is meant.
_GPU: Final = 0xFF
#: So many values of a metric are kept: each is the mean of a period.
_MOST_VALUES: Final = 2**12
#: `SMs Active [Throughput %]`: a metric's name, and its unit.
_WITH_UNIT: Final = re.compile(r"(?P<name>.+?) \[(?P<unit>[^\[\]]+)\]\Z")
_PERCENT: Final = re.compile(r"(?:Throughput )?%\Z")
_LOST: Final = "of metrics without a time, a value or a name"
#: Real machines have a few devices; a larger ordinal is damage.
_MOST_DEVICES: Final = 2**16
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


def gpu_metrics(
    export: Export, names: Names, refused: Counter[str], *, gpus: Mapping[int, int]
) -> pl.DataFrame:
    """Return the means of every metric over short periods, as events with `value`.

    Args:
        export: The file.
        names: Numbers of names.
        refused: Why rows were left out → how many; is added to.
        gpus: Number of a GPU in the file's list → device.
    """
    rows = export.frame("GPU_METRICS")
    given = export.frame("TARGET_INFO_GPU_METRICS").drop_nulls()
    distinct = given.unique(["typeId", "metricId"], keep="first", maintain_order=True)
    numbers = [
        names.number(_counter_name(gpus.get(type_ & _GPU, type_ & _GPU), text))
        for type_, text in distinct.select("typeId", "metricName").iter_rows()
    ]
    table = distinct.with_columns(name=pl.Series(numbers, dtype=pl.Int32))
    longest = 2**62
    known = rows.drop_nulls().filter(
        pl.col("timestamp").is_between(-longest, longest - 1),
        pl.col("value").is_finite(),
    )
    named = known.join(
        table.select("typeId", "metricId", "name"), on=["typeId", "metricId"]
    )
    if lost := rows.height - named.height:
        refused[_LOST] += lost
    first, last = named.select(
        pl.col("timestamp").min().fill_null(0),
        pl.col("timestamp").max().fill_null(0).alias("last"),
    ).row(0)
    period = max(1, -(-(last - first + 1) // _MOST_VALUES))
    return (
        named.group_by("name", (pl.col("timestamp") - first) // period)
        .agg(start=pl.col("timestamp").max(), value=pl.col("value").mean())
        # A reading is what held since the one before it.
        .sort("start", "name")
        .select(
            "start",
            "name",
            "value",
            process=pl.lit(None, pl.Int64),
            id=pl.lit(1, pl.Int64),
        )
    )


def _counter_name(device: int, text: str) -> str:
    """Return the name of a counter: `GPU 0 SMs Active (percent)`."""
    match = _WITH_UNIT.match(text.strip())
    if match is None:
        return f"GPU {device} {text.strip()}"
    unit = "percent" if _PERCENT.match(match["unit"]) else match["unit"]
    return f"GPU {device} {match['name']} ({unit})"


class Gpus(Frozen, frozen=True, kw_only=True, eq=True):
    """The devices of a file.

    Attributes:
        by_id: Number in the file's list → device.
        ordinals: (process, its ordinal) → device, for ordinals that mean another one.
        ambiguous: Ordinals of several processes of which the file does not say whether
            they mean one device.
    """

    listed: dict[int, dict[str, Any]]
    by_id: dict[int, int]
    ordinals: dict[tuple[int, int], int]
    ambiguous: frozenset[int]

    def renumber_devices(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with `process` and `device` whose devices are those of a file."""
        if not self.ordinals:
            return frame
        table = pl.DataFrame(
            [(process, own, of) for (process, own), of in self.ordinals.items()],
            schema={"process": pl.Int64, "device": pl.Int32, "meant": pl.Int32},
            orient="row",
        )
        joined = frame.join(
            table, on=["process", "device"], how="left", maintain_order="left"
        )
        meant = pl.coalesce("meant", "device").alias("device")
        return joined.with_columns(meant).drop("meant")


def find_gpus(export: Export, work: pl.DataFrame) -> Gpus:
    """Return the devices, and what the ordinals of the processes mean.

    CUDA_VISIBLE_DEVICES gives each process ordinals of its own: where two processes use
    the same one, the table of their devices decides.

    Args:
        export: The file.
        work: What ran on devices, with `process` and the process's ordinal.
    """
    by_id: dict[int, int] = {}
    listed: dict[int, dict[str, Any]] = {}
    for row in export.frame("TARGET_INFO_GPU").iter_rows(named=True):
        # Of an adapter that CUDA cannot use, or a file of 2020, not all are known. The
        # orders of `id` and of the ordinals differ.
        number = next(
            (row[it] for it in ("cuDevice", "deviceId", "id") if row[it] is not None),
            None,
        )
        if number is None or not 0 <= number < _MOST_DEVICES:
            continue
        # Where each process sees one GPU, all of them are its number 0: what they have
        # in common is known.
        before = listed.get(number, row)
        listed[number] = {it: row[it] if row[it] == before[it] else None for it in row}
        if row["id"] is not None:
            by_id[row["id"]] = number
    pairs = work.select("process", "device").filter(row_changes(["process", "device"]))
    used = pairs.unique().drop_nulls()
    counts = used["device"].value_counts().filter(pl.col("count") > 1)
    shared = frozenset(counts["device"].to_list())
    if not shared:
        return Gpus(listed=listed, by_id=by_id, ordinals={}, ambiguous=frozenset())
    table = {
        (row["pid"], row["cudaId"]): by_id.get(row["gpuId"])
        for row in export.frame("TARGET_INFO_CUDA_DEVICE").iter_rows(named=True)
    }
    meant = {pair: table.get(pair) for pair in used.iter_rows()}
    known = {pair: device for pair, device in meant.items() if device is not None}
    if len(known) < len(meant):
        return Gpus(listed=listed, by_id=by_id, ordinals={}, ambiguous=shared)
    return Gpus(listed=listed, by_id=by_id, ordinals=known, ambiguous=frozenset())


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
    known = join_calls(work.select(*_KEY, "correlation", "start", done), called)
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
            outlasted_ns=_largest_value(outlasted),
            late_ns=_lateness_between_bounds(beyond, began),
        )
    return found


def join_calls(work: pl.DataFrame, called: pl.DataFrame) -> pl.DataFrame:
    """Return work with its call; rows that lack a number are left out."""
    work, called = work.drop_nulls(), called.drop_nulls()
    process = _only_process(work)
    if process is None or process != _only_process(called):
        return work.join(called, on=["process", "correlation"])
    call = _only_call(called["correlation"], work["correlation"])
    if call is None:
        # One key is compared in a fraction of the time of two.
        return work.join(called.drop("process"), on="correlation")
    led = call >= 0
    if not led.all():
        work, call = work.filter(led), call[led]
    return work.hstack(called.drop("process", "correlation")[call])


def _only_process(frame: pl.DataFrame) -> int | None:
    """Return the process of all rows; None where they are of several, or none."""
    process = frame["process"]
    one = process.len() and (process == process[0]).all()
    return int(process[0]) if one else None


def _only_call(called: pl.Series, wanted: pl.Series) -> Int32s | None:
    """Return the row of the call that has each number, -1 for none.

    None where two calls have one number, or the numbers are too far apart for a table.
    """
    least, most = (int(it or 0) for it in (called.min(), called.max()))  # type: ignore[arg-type]
    if most - least >= _PLACES_OF_A_CALL * len(called):
        return None
    table = np.full(most - least + 1, -1, np.int32)
    call = np.empty(len(wanted), np.int32)
    found = kernels.match_launches(
        called.to_numpy(),
        wanted.to_numpy(),
        least,
        table,
        call,
        np.zeros(len(called), np.int32),
    )
    unique = np.count_nonzero(table >= 0) == len(called)
    return call if found >= 0 and unique else None


def move_to_host_clock(
    work: pl.DataFrame, clocks: Mapping[int, DeviceClock]
) -> pl.DataFrame:
    """Return what ran on devices in times of the host, where their clocks are known."""
    late = {one: it.late_ns for one, it in clocks.items() if it.late_ns is not None}
    if not late:
        return work
    by = pl.col("device").replace_strict(late, default=0, return_dtype=pl.Int64)
    return work.with_columns(start=pl.col("start") - by)


def _lateness_between_bounds(beyond: pl.Series, began: pl.Series) -> int | None:
    """Return the middle of what waits and launches leave, where it is narrow."""
    if min(len(beyond), len(began)) < _ENOUGH:
        return None
    least, most = _largest_value(beyond), -_largest_value(-began)
    middle = (least + most) // 2
    narrow = abs(most - least) <= _PRECISE_NS
    return middle if narrow and abs(middle) > APART_NS else None


def _largest_value(values: pl.Series) -> int:
    return int(values.max() or 0)  # type: ignore[arg-type]
