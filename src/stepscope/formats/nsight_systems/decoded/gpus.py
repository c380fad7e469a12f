"""The GPUs of a file: the device of each ordinal, clock offsets, and GPU metrics.

Two facts give bounds of the clock offset between a device and the host. Device activity
begins after its launch call. A wait for a stream returns after the awaited activity has
ended. Nsight Systems samples metrics of whole GPUs many thousand times per second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope.formats.assemble import MAX_DEVICES
from stepscope.formats.nsight_systems.decoded.device_work import distinct_rows
from stepscope.formats.nsight_systems.decoded.events import TIMES_NS, row_changes
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from stepscope.array_types import Int32s
    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.events import Names


#: Mask of a metric type's id: its lowest bits are the number of the GPU in the file.
_GPU: Final = 0xFF
#: Maximum number of values kept per metric; each value is the mean of a period.
_MAX_VALUES: Final = 2**12
#: Name and unit of a metric, as in `SMs Active [Throughput %]`.
_WITH_UNIT: Final = re.compile(r"(?P<name>.+?) \[(?P<unit>[^\[\]]+)\]\Z")
_PERCENT: Final = re.compile(r"(?:Throughput )?%\Z")
_LOST: Final = "of metrics without a time, a value or a name"
#: Maximum clock offset that is not corrected, in ns; most offsets are a few us.
MAX_CLOCK_OFFSET_NS: Final = 1_000_000
#: A clock offset is corrected only if its bounds are at most this far apart, in ns.
_PRECISE_NS: Final = 1_000_000
#: Minimum number of waits and of launches; fewer may suggest an offset by chance.
_MIN_WAITS: Final = 10
_STREAM: Final = "Stream Synchronize"
_NO_WAIT: Final = "StreamWaitEvent"
_KEY: Final = ("process", "device", "id")
#: Maximum size of the lookup table of call numbers, in entries per call.
_MAX_ENTRIES_PER_CALL: Final = 8


def gpu_metrics(
    export: Export, names: Names, refused: Counter[str], *, gpus: Mapping[int, int]
) -> pl.DataFrame:
    """Return the means of every metric over short periods, as events with `value`.

    Args:
        refused: Reason → number of refused rows; this function adds to the counts.
        gpus: Number of a GPU in the file's list → device.
    """
    rows = export.frame("GPU_METRICS")
    metrics = export.frame("TARGET_INFO_GPU_METRICS").drop_nulls()
    distinct = metrics.unique(["typeId", "metricId"], keep="first", maintain_order=True)
    numbers = [
        names.number(_counter_name(gpus.get(type_ & _GPU, type_ & _GPU), text))
        for type_, text in distinct.select("typeId", "metricName").iter_rows()
    ]
    table = distinct.with_columns(name=pl.Series(numbers, dtype=pl.Int32))
    known = rows.drop_nulls().filter(
        pl.col("timestamp").is_between(*TIMES_NS),
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
    period = max(1, -(-(last - first + 1) // _MAX_VALUES))
    return (
        named.group_by("name", (pl.col("timestamp") - first) // period)
        .agg(start=pl.col("timestamp").max(), value=pl.col("value").mean())
        # A value is the mean up to its timestamp, so a period gets its last timestamp.
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
    """Return the name of a counter, such as `GPU 0 SMs Active (percent)`."""
    match = _WITH_UNIT.match(text.strip())
    if match is None:
        return f"GPU {device} {text.strip()}"
    unit = "percent" if _PERCENT.match(match["unit"]) else match["unit"]
    return f"GPU {device} {match['name']} ({unit})"


class Gpus(Frozen, frozen=True, kw_only=True, eq=True):
    """The devices of a file.

    Attributes:
        by_id: Number of a GPU in the file's list → device.
        ordinals: (process, its ordinal) → device, if ordinals differ by process.
        ambiguous: Ordinals that several processes use, perhaps for different devices.
    """

    listed: dict[int, dict[str, Any]]
    by_id: dict[int, int]
    ordinals: dict[tuple[int, int], int]
    ambiguous: frozenset[int]

    def renumber_devices(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the ordinal of the file, not of the process, as `device`."""
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
    """Return the devices of a file, and the device of each process's ordinals.

    CUDA_VISIBLE_DEVICES gives each process different ordinals. If two processes use one
    ordinal, the recorded device tables show whether they mean the same device.

    Args:
        work: Device activity, with `process` and the process's ordinal.
    """
    by_id: dict[int, int] = {}
    listed: dict[int, dict[str, Any]] = {}
    rows = list(export.frame("TARGET_INFO_GPU").iter_rows(named=True))
    # An adapter without CUDA (of the processor, or of another vendor) has neither an
    # ordinal nor a compute capability, and is not a device of the program.
    with_cuda = [
        row for row in rows if (row["cuDevice"], row["computeMajor"]) != (None, None)
    ]
    for row in with_cuda or rows:
        # Some columns are null in files of 2020. The orders of `id` and of the ordinals
        # differ.
        number = next(
            (
                row[column]
                for column in ("cuDevice", "deviceId", "id")
                if row[column] is not None
            ),
            None,
        )
        if number is None or not 0 <= number < MAX_DEVICES:
            continue
        # If each process sees one GPU, all GPUs have number 0: keep only equal values.
        before = listed.get(number, row)
        listed[number] = {
            column: row[column] if row[column] == before[column] else None
            for column in row
        }
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
    recorded = {pair: table.get(pair) for pair in used.iter_rows()}
    known = {pair: device for pair, device in recorded.items() if device is not None}
    if len(known) < len(recorded):
        return Gpus(listed=listed, by_id=by_id, ordinals={}, ambiguous=shared)
    return Gpus(listed=listed, by_id=by_id, ordinals=known, ambiguous=frozenset())


class DeviceClock(Frozen, frozen=True, kw_only=True):
    """Estimate of the clock of one device, from waits and launches.

    Attributes:
        waits: Number of waits for a stream whose last activity is known.
        outlasted: Number of waits that returned over 1 ms before the activity's end.
        outlasted_ns: Longest time from a wait's return to the activity's end, in ns.
        late_ns: Clock offset of the device (positive if its times are late), in ns;
            None unless the offset has close bounds and exceeds 1 ms.
    """

    waits: int
    outlasted: int
    outlasted_ns: int
    late_ns: int | None


def device_clocks(
    work: pl.DataFrame, calls: pl.DataFrame, syncs: pl.DataFrame, names: Names
) -> dict[int, DeviceClock]:
    """Estimate the clock of every device; if there are no waits, return no clocks."""
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
    end = (pl.col("start") + pl.col("dur")).alias("done")
    known = join_calls(work.select(*_KEY, "correlation", "start", end), called)
    waits = waits.with_columns(correlation=pl.col("correlationId"))
    # Some releases record `StreamWaitEvent` calls as waits, but they return at once.
    no_wait = [number for number, name in enumerate(names.texts()) if _NO_WAIT in name]
    waits = waits.join(
        called.filter(pl.col("call").is_in(no_wait)),
        on=["process", "correlation"],
        how="anti",
    ).select(*_KEY, begun="start", ended=pl.col("start") + pl.col("dur"))
    # Activities of a stream end in launch order. When a wait returns, the last activity
    # launched before it has ended. The order of the streams does not matter.
    streams = [frame.select(_KEY) for frame in (known, waits)]
    # Joining on one key is several times faster than on three.
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
    clocks = {}
    for device in known["device"].unique().sort().to_list():
        beyond = late.filter(pl.col("device") == device)["by"]
        began = delays.filter(known["device"] == device)
        outlasted = beyond.filter(beyond > MAX_CLOCK_OFFSET_NS)
        clocks[device] = DeviceClock(
            waits=len(beyond),
            outlasted=len(outlasted),
            outlasted_ns=_largest_value(outlasted),
            late_ns=_lateness_between_bounds(beyond, began),
        )
    return clocks


def join_calls(work: pl.DataFrame, called: pl.DataFrame) -> pl.DataFrame:
    """Return device activity with its launch call, without rows that contain nulls."""
    work, called = work.drop_nulls(), called.drop_nulls()
    process = _only_process(work)
    if process is None or process != _only_process(called):
        return work.join(called, on=["process", "correlation"])
    call = _only_call(called["correlation"], work["correlation"])
    if call is None:
        # Joining on one key is several times faster than on two.
        return work.join(called.drop("process"), on="correlation")
    led = call >= 0
    if not led.all():
        work, call = work.filter(led), call[led]
    return work.hstack(called.drop("process", "correlation")[call])


def _only_process(frame: pl.DataFrame) -> int | None:
    """Return the process of all rows; None if there are several or none."""
    process = frame["process"]
    is_single = process.len() and (process == process[0]).all()
    return int(process[0]) if is_single else None


def _only_call(called: pl.Series, wanted: pl.Series) -> Int32s | None:
    """Return for each wanted call number the row of that call, or -1 if none.

    The result is None if two calls share a number or the table would be too large.
    """
    lowest, highest = (int(bound or 0) for bound in (called.min(), called.max()))  # type: ignore[arg-type]
    if highest - lowest >= _MAX_ENTRIES_PER_CALL * len(called):
        return None
    table = np.full(highest - lowest + 1, -1, np.int32)
    call = np.empty(len(wanted), np.int32)
    status = kernels.match_launches(
        called.to_numpy(),
        wanted.to_numpy(),
        lowest,
        table,
        call,
        np.zeros(len(called), np.int32),
    )
    unique = np.count_nonzero(table >= 0) == len(called)
    return call if status >= 0 and unique else None


def move_to_host_clock(
    rows: pl.DataFrame, clocks: Mapping[int, DeviceClock]
) -> pl.DataFrame:
    """Convert device activity to host times, for devices with a known clock offset."""
    late = {
        device: clock.late_ns
        for device, clock in clocks.items()
        if clock.late_ns is not None
    }
    if not late:
        return rows
    by = pl.col("device").replace_strict(late, default=0, return_dtype=pl.Int64)
    return rows.with_columns(start=pl.col("start") - by)


def _lateness_between_bounds(beyond: pl.Series, began: pl.Series) -> int | None:
    """Return the middle between the bounds of the clock offset, if they are close."""
    if min(len(beyond), len(began)) < _MIN_WAITS:
        return None
    lower, upper = _largest_value(beyond), -_largest_value(-began)
    middle = (lower + upper) // 2
    narrow = abs(upper - lower) <= _PRECISE_NS
    return middle if narrow and abs(middle) > MAX_CLOCK_OFFSET_NS else None


def _largest_value(values: pl.Series) -> int:
    return int(values.max() or 0)  # type: ignore[arg-type]
