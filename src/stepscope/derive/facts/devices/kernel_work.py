"""The compute kernels of the judged device, by kernel and op, and their speed."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, handles, ints
from stepscope.derive.device.activity_classes import overlap_factor
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernel_names import is_plain_kernel, plain_name
from stepscope.derive.facts.devices.kernel_kinds import (
    FusableRuns,
    fusable_runs,
    kernel_traits,
)
from stepscope.derive.facts.evidence import Evidence, event_labels
from stepscope.derive.run_derivation import of_run
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.kernels import Kernels
    from stepscope.derive.facts.step_shares import AccountSignals
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Maximum number of classes (those with most time) whose tracks are looked up.
_MAX_TRACKED_CLASSES: Final = 200


class KernelWork(Frozen, frozen=True, kw_only=True, dict=True):
    """The kernels of the judged device; times in ps, per step if there are steps.

    Attributes:
        label: The device, `host:device`.
        steps: Number of steps over which times are averaged; 1 without steps.
        has_steps: Whether there are steps.
        step_confidence: Confidence in the steps, 0 to 1; 0 without steps.
        step_ps: Mean length of a judged step.
        device_ps: Time of all kernels except collectives.
        rows: One row per kernel, op and launch shape, most time first: `class`,
            `kernel` (name without types), `full_name`, `op` and `op_type` (null if
            unknown), `category` (HLO opcode or op type), `precision` ("16", "32", "64",
            "tf32"; null unknown), `told` (whether there is evidence for the precision),
            `matrix_units` and `eligible` (null unknown), `plain` (whether its name
            shows that it computes no products), `collective`, `converts` (whether it
            only changes the element type; null if types were not recorded), `reorders`
            (whether it only changes the order of elements, by its name), `odd_size` (a
            size of a product that is not a multiple of 8; null for none, or not
            recorded), `sized` (whether sizes were recorded), `shape` (op type and sizes
            of a product; null if not recorded), `speedup` (speed of 16-bit kernels of
            this shape in the recording relative to this kernel, at least 1; null
            without such kernels), `count`, `time_ps`.
        shown: Activities in a typical step, by start: `class` (-1 if not a kernel),
            `kind`, `stream`, `start_ps`, `end_ps`, `bytes` (or null), `event`.
        tracks: Track name and kernel name by row of events, for kernels of `shown`.
        runs: Runs of consecutive kernels in `shown` that a compiler could fuse.
        is_alone: Whether the kernels were only measured one at a time, not recorded.
    """

    label: str
    steps: int = 1
    has_steps: bool = False
    step_confidence: float = 0.0
    step_ps: int
    device_ps: int
    rows: pl.DataFrame
    shown: pl.DataFrame
    tracks: dict[int, tuple[str | None, str]]
    runs: FusableRuns
    is_alone: bool = False

    def share(self, chosen: pl.DataFrame) -> float:
        """Return the given rows' share of the time of all compute kernels."""
        return 100 * int(chosen["time_ps"].sum()) / max(self.device_ps, 1)

    @cached_property
    def longest(self) -> pl.DataFrame:
        """The longest row of each class in `shown`, longest first."""
        return _longest_by_class(self.shown)

    def evidence(self, chosen: pl.DataFrame, count: int) -> tuple[Evidence, ...]:
        """Return when kernels of some rows run in the typical step, longest first."""
        if not len(chosen):
            return ()
        wanted = set(chosen["class"].to_list())
        longest = self.longest.iter_rows(named=True)
        chosen_rows = (row for row in longest if row["class"] in wanted)
        host, _, device = self.label.rpartition(":")
        return tuple(
            Evidence.of_range(
                *(host, int(device), row["start_ps"], row["end_ps"]),
                track=track,
                op=name,
            )
            for row in islice(chosen_rows, count)
            for track, name in (self.tracks.get(row["event"], (None, None)),)
        )


@of_run
def kernel_work(
    *,
    account_signals: AccountSignals,
    kernels: OfHosts[Kernels],
    activity_classes: OfHosts[ActivityClasses],
    activity_ops: OfHosts[ActivityOps],
    windows: OfHosts[Windows],
    trace: OfHosts[TraceData],
) -> KernelWork | Unavailable:
    """Describe the kernels of the judged device."""
    judged = account_signals.judged()
    if judged.device is None:
        return NO_KERNELS
    table = kernels[judged.host]
    if isinstance(table, Unavailable):
        return table
    of_host = require_available(trace[judged.host])
    classes = require_available(activity_classes[judged.host])
    placed = require_available(windows[judged.host])
    named = require_available(activity_ops[judged.host])
    has_steps = judged.step_source is not None and bool(table.rows["step_ps"].count())
    steps = 1
    if has_steps:
        flags = placed.rows["flags"]
        steps = len(flags) - int(flags.list.contains("unrecorded").sum())
    rows = _kernel_rows(
        table, classes, named, judged.device, steps, has_steps=has_steps
    )
    factor = overlap_factor(
        require_available(of_host.table("device_activity")), judged.device
    )
    if factor < 1.0:
        time = (pl.col("time_ps") * factor).cast(pl.Int64)
        rows = rows.with_columns(pl.when("collective").then("time_ps").otherwise(time))
    rows = rows.hstack(kernel_traits(rows, classes.rows["shape"], of_host.strings))
    rows = rows.with_columns(speedup=_narrow_speedups(rows))
    if not rows.height:
        return NO_KERNELS
    shown = _typical_step_rows(of_host, judged.device, placed, classes)
    # Track and name are looked up for the longest kernel of each class in `shown`.
    wanted = pl.col("class").is_in(rows["class"].head(_MAX_TRACKED_CLASSES).implode())
    events = _longest_by_class(shown.filter(wanted))["event"].drop_nulls()
    return KernelWork(
        label=judged.label,
        steps=steps,
        has_steps=has_steps,
        step_confidence=judged.step_confidence,
        step_ps=judged.total_ps // max(len(judged.window_ps), 1),
        device_ps=int(rows["time_ps"].filter(~rows["collective"]).sum()),
        rows=rows,
        shown=shown,
        tracks=event_labels(of_host, events.to_list()),
        runs=fusable_runs(rows, shown),
    )


def _narrow_speedups(rows: pl.DataFrame) -> pl.Series:
    """Return by row the speed-up of 16-bit kernels that have equal product sizes."""
    known = rows.filter(pl.col("told") & ~pl.col("collective"))
    known = known.filter((pl.col("precision") == "16") & pl.col("shape").is_not_null())
    if not len(known):
        return pl.Series("speedup", [None] * len(rows), dtype=pl.Float64)
    narrow = known.group_by("shape").agg(
        narrow_ps=pl.col("time_ps").sum() / pl.col("count").sum()
    )
    mean_ps = pl.col("time_ps") / pl.col("count")
    faster = pl.max_horizontal(mean_ps / pl.col("narrow_ps"), 1.0)
    wide = pl.col("precision").is_in(["32", "64", "tf32"]) & (pl.col("narrow_ps") > 0)
    return rows.join(narrow, on="shape", how="left", maintain_order="left").select(
        pl.when(wide & pl.col("told")).then(faster).alias("speedup")
    )["speedup"]


def _kernel_rows(
    table: Kernels,
    classes: ActivityClasses,
    named: ActivityOps,
    device: int,
    steps: int,
    *,
    has_steps: bool,
) -> pl.DataFrame:
    of_device = table.rows.filter(pl.col("device") == device)
    kinds = classes.rows["kind"].gather(of_device["class"])
    op = classes.rows["op"].gather(of_device["class"])
    silent = named.ops["evidence"].gather(op) == OpEvidence.NONE
    time = pl.col("step_ps" if has_steps else "total_ps")
    names = of_device["kernel_name"]
    plain_of = {name: plain_name(name) for name in names.unique().to_list()}
    is_plain = {name: is_plain_kernel(name) for name in plain_of}
    all_names = names.to_list()
    return (
        of_device.with_columns(
            kernel=pl.Series([plain_of[name] for name in all_names], dtype=pl.String),
            full_name=names,
            op_type=named.ops["type"].gather(op),
            category=named.ops["category"].gather(op),
            silent=silent,
            collective=kinds == ACTIVITY_CODES["collective"],
            plain=pl.Series([is_plain[name] for name in all_names], dtype=pl.Boolean),
        )
        .select(
            "class",
            "kernel",
            "full_name",
            pl.when(~pl.col("silent")).then("op_name").alias("op"),
            pl.when(~pl.col("silent")).then("op_type").alias("op_type"),
            pl.when(~pl.col("silent")).then("category").alias("category"),
            "precision",
            pl.col("precision_evidence").ne_missing("default").alias("told"),
            pl.col("uses_tensor_core").alias("matrix_units"),
            pl.col("tensor_core_eligible").alias("eligible"),
            "plain",
            "collective",
            pl.col("count") / steps,
            (time // steps).cast(pl.Int64).alias("time_ps"),
        )
        .sort("time_ps", "class", descending=[True, False])
    )


def _typical_step_rows(
    trace: TraceData, device: int, windows: Windows, classes: ActivityClasses
) -> pl.DataFrame:
    """Return the device's activities in the typical step: that of median length."""
    steps = windows.measured
    steps = steps.with_columns(dur=pl.col("end_ps") - pl.col("start_ps"))
    step = steps.sort("dur", "start_ps").row(len(steps) // 2, named=True)
    activity = require_available(trace.table("device_activity"))
    start = ints(activity, "start_ps")
    inside = np.flatnonzero(
        (start >= step["start_ps"])
        & (start < step["end_ps"])
        & (handles(activity, "device") == device)
    )
    return (
        activity[inside]
        .select(
            "kind",
            "stream",
            "start_ps",
            (pl.col("start_ps") + pl.col("dur_ps")).alias("end_ps"),
            "bytes",
            "event",
        )
        .with_columns(pl.Series("class", classes.code[inside]))
        .sort("start_ps", maintain_order=True)
    )


def _longest_by_class(shown: pl.DataFrame) -> pl.DataFrame:
    return (
        shown.with_columns(dur=pl.col("end_ps") - pl.col("start_ps"))
        .sort("dur", "start_ps", descending=[True, False])
        .unique("class", keep="first", maintain_order=True)
    )
