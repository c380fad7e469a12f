"""The rows of the pod viewer: one per worker and step of the run, in picoseconds.

A worker is one device of one host; a host without devices is one worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import sum_of_known
from stepscope.analysis.results.tool import start_unix_ns
from stepscope.analysis.steps.measured_hosts import measured_rows
from stepscope.derive.collectives.arguments import host_collectives
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.collectives.waits import (
    HostClock,
    align_clocks,
    collective_waits,
    matched_collectives,
    waiting_spans,
    without_contradictions,
)
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.derive.step_windows.device_spans import first_compute
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable_series
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.steps.measured_hosts import StepMatching
    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.array_types import Int64s
    from stepscope.derive.collectives.waits import HostClock
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.device_sets import DeviceSets

#: Columns of a row in addition to those of `HostSteps.rows`.
WORKER_COLUMNS: Final[dict[str, pl.DataType]] = {
    "slot": pl.Int64(),  # index of the step in the run
    "shared": pl.Boolean(),  # whether other hosts can have the same step
    "counted": pl.Boolean(),  # whether statistics include the window
    "aligned_start_ps": pl.Int64(),  # on the clock of the reference host
    # Start of compute (of the window if there is no device), on the reference clock or,
    # if the host's clock is not aligned, on the host's clock.
    "begin_ps": pl.Int64(),
    "work_ps": pl.Int64(),  # device work without collectives
    "collective_wait_ps": pl.Int64(),  # part of the charged collectives that is waiting
    "transfer_ps": pl.Int64(),  # part of the charged collectives that moves data
    "untold_ps": pl.Int64(),  # part of the charged collectives that may be either
    "waited_for_ps": pl.Int64(),  # time that other workers waited for it, summed
}
#: Causes of device time other than collectives.
_OWN_WORK: Final = tuple(
    name for name in BUSY_OWNERS if name not in ("collective", "transfer_wait")
)
#: Cause just before collectives in the order in which overlapping time is charged.
_BEFORE_COLLECTIVES: Final = "memset"
_SPLIT: Final = ("collective_wait_ps", "transfer_ps", "untold_ps")

SLOTS: Final[dict[str, pl.DataType]] = {
    "host": pl.String(),
    "window": pl.Int32(),  # row of the host's windows
    "slot": pl.Int64(),  # index of the step in the run
    "shared": pl.Boolean(),  # whether other hosts can have the same step
}

#: Columns of collectives that are compared between workers.
_COMPARED: Final[dict[str, pl.DataType]] = {
    "host": pl.String(),
    "device": pl.Int32(),  # null for a collective of a thread
    "window": pl.Int32(),
    "kind": pl.String(),
    "group": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
#: Clock alignments precise enough to compare times inside a step.
_TIED_BY_COLLECTIVES = ("reference", "collectives")


class WorkerCollectives(Frozen, frozen=True):
    """The collectives of a run.

    Attributes:
        calls: One row per call with `host`, `window`, `device`, `kind`, `start_ps`,
            `dur_ps`, `instance`, `members`, `wait_ps` and `waited_for_ps`; no rows
            without collectives.
        absent: Host → why it has no collectives.
    """

    calls: pl.DataFrame
    clocks: Mapping[str, HostClock]
    absent: Mapping[str, Unavailable]


def worker_collectives(
    run: ProfileData, hosts: Sequence[HostSteps], slots: pl.DataFrame
) -> WorkerCollectives:
    """Match the collectives of all devices of all hosts."""
    frames = [pl.DataFrame(schema=_COMPARED)]
    absent: dict[str, Unavailable] = {}
    for host in hosts:
        calls = _collective_calls(run, host)
        if isinstance(calls, Unavailable):
            absent[host.host] = calls
        else:
            frames.append(calls.select(*_COMPARED))
    calls = pl.concat(frames).join(
        slots.select("host", "window", pl.col("slot").alias("step")),
        on=["host", "window"],
        how="left",
        maintain_order="left",
    )
    matched = matched_collectives(calls)
    shared_steps = {}
    for host in hosts:
        shared_slots = slots.filter((pl.col("host") == host.host) & pl.col("shared"))
        rows = shared_slots.join(host.by_window, on="window")
        # This loop runs once per step, not per event.
        shared_steps[host.host] = {
            slot: (start, dur)
            for slot, start, dur in rows.select("slot", "start_ps", "window_ps").rows()
        }
    clocks = align_clocks(
        {host.host: start_unix_ns(run, host.host) for host in hosts},
        matched,
        shared_steps,
    )
    tied = pl.DataFrame(
        [
            (
                clock.host,
                clock.shift_ps if clock.source in _TIED_BY_COLLECTIVES else None,
                clock.doubt_ps,
            )
            for clock in clocks.values()
        ],
        schema={"host": pl.String, "shift_ps": pl.Int64, "doubt_ps": pl.Int64},
        orient="row",
    )
    on_one_clock = matched.join(tied, on="host", how="left", maintain_order="left")
    waits = collective_waits(without_contradictions(on_one_clock))
    return WorkerCollectives(waits.drop("shift_ps", "doubt_ps"), clocks, absent)


def _collective_calls(run: ProfileData, host: HostSteps) -> pl.DataFrame | Unavailable:
    """Return the collectives of a host's devices or, without devices, of its threads.

    The columns are those of `_COMPARED`.
    """
    calls = run.derived(host.host, collective_calls)
    if not isinstance(calls, Unavailable):
        calls = calls.with_columns(host=pl.lit(host.host))
        if not host.windows.has_steps:
            return calls.with_columns(window=pl.lit(0, pl.Int32))
        rows = host.windows.rows.with_row_index("window").select(
            pl.col("window").cast(pl.Int32), "step_row"
        )
        return calls.join(rows, on="step_row", how="left", maintain_order="left")
    if host.rows["device"].null_count() == 0:
        return calls
    calls = run.derived(host.host, host_collectives)
    if isinstance(calls, Unavailable):
        return calls
    # A thread's collective belongs to the window in which it begins.
    window = windows_of_times(host.windows.rows, ints(calls, "start_ps"))
    return calls.with_columns(
        nullable_series("window", window.astype(np.int32), window >= 0),
        device=pl.lit(None, pl.Int32),
        host=pl.lit(host.host),
    )


def joined_steps(hosts: Sequence[HostSteps], matching: StepMatching) -> pl.DataFrame:
    """Number the steps of the run, and assign windows to them.

    Hosts that do not run in lock step share no step, even if step numbers are equal.
    Steps with numbers are joined by number, even if some hosts lack one of the steps. A
    step number that occurs twice on a host means two steps.

    Returns:
        Columns `SLOTS`, by slot and in the order of the hosts.
    """
    joined = matching.in_lock_step and matching.by in ("step_num", "time")
    frames = []
    for order, host in enumerate(hosts):
        rows = host.by_window[["window", "step"]]
        key = matching.key.get(host.host) if joined else None
        if key is None:
            key = np.full(len(rows), -1, np.int64)
        elif matching.by == "step_num":
            key = rows["step"].to_numpy()
        together = key >= 0
        number = np.where(together, key, np.arange(len(rows), dtype=np.int64))
        # The number -1 instead of a host's number means that hosts can share the step.
        owner = np.where(together, -1, order).astype(np.int64)
        frames.append(
            rows.select(
                pl.lit(host.host).alias("host"),
                "window",
                pl.lit(order).alias("order"),
                pl.Series("owner", owner),
                pl.Series("number", number),
            )
        )
    keyed = pl.concat(frames).with_columns(
        turn=pl.int_range(pl.len()).over("host", "owner", "number")
    )
    # Shared steps come first, in the order of the run, then steps of a single host.
    slot = pl.struct("owner", "turn", "number").rank("dense").cast(pl.Int64) - 1
    return (
        keyed.with_columns(slot=slot, shared=pl.col("owner") < 0)
        .sort("slot", "order", "window")
        .select(*SLOTS)
    )


def worker_rows(
    run: ProfileData,
    hosts: Sequence[HostSteps],
    slots: pl.DataFrame,
    collectives: WorkerCollectives,
) -> pl.DataFrame:
    """Return all known values of each worker in each step.

    Args:
        slots: Result of `joined_steps`.

    Returns:
        The columns of `HostSteps.rows` and `WORKER_COLUMNS`, by slot, host and device.
    """
    waited = (
        collectives.calls.filter(pl.col("window").is_not_null())
        .group_by("host", "window", "device")
        .agg(sum_of_known("waited_for_ps"))
    )
    frames = []
    for order, host in enumerate(hosts):
        counted = measured_rows(host, ())["window"].unique()
        rows = host.rows.join(
            slots, on=["host", "window"], how="inner", maintain_order="left"
        ).with_columns(
            # Whether statistics include the window.
            counted=pl.col("window").is_in(counted.to_list()),
            order=pl.lit(order),
        )
        rows = _add_starts(run, host, rows, clock=collectives.clocks[host.host])
        # A worker without a device has no device work.
        worked = pl.sum_horizontal(f"{name}_ps" for name in _OWN_WORK)
        rows = rows.with_columns(
            work_ps=pl.when(pl.col("device").is_not_null()).then(worked)
        )
        host_calls = collectives.calls.filter(pl.col("host") == host.host)
        rows = _add_waits(run.derived(host.host, device_sets), host, rows, host_calls)
        frames.append(
            rows.join(
                waited,
                on=["host", "window", "device"],
                how="left",
                nulls_equal=True,
                maintain_order="left",
            )
        )
    return pl.concat(frames).sort("slot", "order", "device").drop("order")


def _add_starts(
    run: ProfileData, host: HostSteps, rows: pl.DataFrame, *, clock: HostClock
) -> pl.DataFrame:
    """Add the starts of the step and of its compute, on the reference clock."""
    # Without alignment, the devices of a host still share the host's own clock.
    shift = clock.shift_ps or 0
    started = rows.with_columns(
        aligned_start_ps=pl.col("start_ps") + pl.lit(clock.shift_ps, pl.Int64),
        begin_ps=pl.col("start_ps") + shift,
    )
    first = run.derived(host.host, first_compute)
    if isinstance(first, Unavailable):
        return started
    windows = host.windows.rows.with_row_index("window").select(
        pl.col("window").cast(pl.Int32), "step_row"
    )
    starts = windows.join(first, on="step_row", nulls_equal=True).drop("step_row")
    return (
        started.join(starts, on=["window", "device"], how="left", maintain_order="left")
        .with_columns(
            begin_ps=pl.when(pl.col("device").is_null())
            .then("begin_ps")
            .otherwise(pl.col("first_compute_ps") + shift)
        )
        .drop("first_compute_ps")
    )


def _add_waits(
    sets: DeviceSets | Unavailable,
    host: HostSteps,
    rows: pl.DataFrame,
    calls: pl.DataFrame,
) -> pl.DataFrame:
    """Split the charged collectives of each row; null if the split is unknown.

    For a worker without a device, all collectives of its threads are split.
    """
    if not len(calls):
        return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _SPLIT)
    starts = ints(host.windows.rows, "start_ps")
    ends = ints(host.windows.rows, "end_ps")
    if isinstance(sets, Unavailable):
        split = _parts_by_window(waiting_spans(calls), None, starts, ends)
    else:
        parts = []
        for device in sets.devices:
            waits = waiting_spans(calls.filter(pl.col("device") == device.device))
            exposed = [device.idle_until(_BEFORE_COLLECTIVES, spans) for spans in waits]
            parts.append(_parts_by_window(exposed, device.device, starts, ends))
        split = pl.concat(parts)
    explained = pl.col("collective_wait_ps") + pl.col("transfer_ps")
    known = (explained > 0) | (pl.col("untold_ps") == 0)
    return rows.join(
        split,
        on=["window", "device"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        pl.when(known).then(name).alias(name)
        for name in ("collective_wait_ps", "transfer_ps")
    )


def _parts_by_window(
    parts: Sequence[Spans], device: int | None, starts: Int64s, ends: Int64s
) -> pl.DataFrame:
    """Return the time of each part of `_SPLIT` in each window of a worker."""
    return pl.DataFrame(
        {
            "window": pl.int_range(len(starts), dtype=pl.Int32, eager=True),
            **{
                name: spans.within(starts, ends)
                for name, spans in zip(_SPLIT, parts, strict=True)
            },
        }
    ).with_columns(device=pl.lit(device, pl.Int32))
