"""Copies of each device in the judged steps: number, bandwidth and related ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, handles, ints, rows_of_kinds
from stepscope.derive.costs.operands import operands_from_text
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.names.op_names import UNANNOTATED
from stepscope.derive.run_derivation import of_each_device_or_why
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.activity_classes import ActivityClasses, Exposure
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.event_nesting import LaunchingOps
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Kind of copy on a device → name of its part in the breakdown of step time.
_OWNER: Final = {
    "h2d": "copy_in",
    "d2h": "copy_out",
    "local_copy": "copy_within",
    "p2p_copy": "copy_within",
    "transfer_wait": "transfer_wait",
}
_PAGEABLE: Final = r"(?i)pageable"
_PINNED: Final = r"(?i)pinned"
#: A launch call waits for its copy if it lasts this fraction of the copy or longer.
_MIN_BLOCKING_RATIO: Final = 0.8
#: Minimum share of similar copies that must run between the same two ops.
_MIN_VOTE_SHARE: Final = 0.8
_MAX_COPIES_NAMED: Final = 3


class CopyGroup(Frozen, frozen=True):
    """Copies in one direction for one op.

    Attributes:
        source: The op; null if unknown.
        certainty: How the op was found: "recorded" in the annotation or from the launch
            call, "by size" if only kernels of this op have a tensor of as many bytes,
            "by position" if the same ops always surround the copy; null without an op.
        per_step: Mean number of copies in a step.
        bytes_per_step: Mean number of copied bytes in a step; null if not recorded.
        bytes_per_s: Bandwidth of copies of at least 1 MiB; null without such copies.
        alone_ps: Time of the copies in which nothing else ran on the device.
        pageable_ps: Part of `alone_ps` in copies from or to pageable memory, as
            recorded or as assumed from a low bandwidth.
        blocking_ps: Part of `alone_ps` in copies whose call waited for the copy.
    """

    owner: str
    source: str | None
    certainty: str | None
    per_step: float
    bytes_per_step: float | None
    bytes_per_s: float | None
    alone_ps: int
    pageable_ps: int
    blocking_ps: int


class DeviceCopies(Frozen, frozen=True):
    """The copies of one device.

    Attributes:
        small_per_step: Mean number of copies below 64 KiB in a step.
        small_alone_ps: Time in which only copies below 64 KiB ran on the device.
        longest: Start, end and name of the copies that ran alone for longest.
    """

    groups: tuple[CopyGroup, ...]
    small_per_step: float
    small_alone_ps: int
    longest: tuple[tuple[int, int, str], ...]


class _Recorded(Frozen, frozen=True):
    """Tables of a host with which the op of a copy is found."""

    trace: TraceData
    activity: pl.DataFrame
    ops: ActivityOps | Unavailable
    classes: ActivityClasses | Unavailable
    tied: Correlation | Unavailable
    launching: LaunchingOps | Unavailable


@of_each_device_or_why
def copy_signals(
    *,
    trace: TraceData,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    correlation: Correlation | Unavailable,
    exposure: Exposure | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
    windows: Windows,
) -> dict[int | None, DeviceCopies]:
    """Describe the copies of every device."""
    recorded = _Recorded(
        trace,
        device_activity,
        activity_ops,
        activity_classes,
        correlation,
        launching_ops,
    )
    rows = _judged_copies(recorded, exposure, windows.measured)
    steps = len(windows.measured)
    return {
        device: _summed_copies(rows.filter(pl.col("device") == device), steps)
        for device in device_activity["device"].unique().sort()
    }


def _judged_copies(
    recorded: _Recorded, exposure: Exposure | Unavailable, measured: pl.DataFrame
) -> pl.DataFrame:
    activity = recorded.activity
    copies = rows_of_kinds(activity, map(ACTIVITY_CODES.__getitem__, _OWNER))
    copies = copies[windows_of_times(measured, ints(activity, "start_ps")[copies]) >= 0]
    names = require_available(recorded.trace.table("event_types"))["name"]
    source, certainty = _ops_of_copies(recorded, copies)
    rows = activity[copies].select(
        "device", "track", "start_ps", "dur_ps", "bytes", pl.col("kind").cast(pl.String)
    )
    dur_ps = ints(activity, "dur_ps")[copies]
    # Duration of each copy's launch call; 0 if unknown.
    call_ps = np.zeros(len(copies), np.int64)
    if not isinstance(recorded.tied, Unavailable):
        lasted = np.append(ints(recorded.tied.launches, "dur_ps"), 0)
        call_ps = lasted[recorded.tied.launch_of_activity[copies]]
    rows = rows.with_columns(
        name=names.gather(handles(activity, "type")[copies]),
        alone_ps=pl.Series(
            dur_ps if isinstance(exposure, Unavailable) else exposure.alone_ps[copies]
        ),
        call_ps=pl.Series(call_ps),
        source=pl.Series(source, dtype=pl.String),
        certainty=pl.Series(certainty, dtype=pl.String),
    )
    # A copy between host and device counts as pageable if its name says so. If the name
    # does not mention memory kinds, a large and slow copy counts as pageable.
    large = pl.col("bytes").fill_null(0) >= THRESHOLDS.large_copy.value
    rate = pl.col("bytes") * 1e12 / pl.col("dur_ps").clip(1)
    pageable = pl.col("name").str.contains(_PAGEABLE)
    pinned = pl.col("name").str.contains(_PINNED)
    inferred = large & (rate < THRESHOLDS.pinned_rate.value) & ~pinned
    return rows.with_columns(
        (pl.col("kind").is_in(["h2d", "d2h"]) & (pageable | inferred)).alias("pageable")
    )


def _ops_of_copies(
    recorded: _Recorded, copies: Int64s
) -> tuple[list[str | None], list[str | None]]:
    """Find the op of each copy by annotation, launch call, size or position."""
    activity, ops = recorded.activity, recorded.ops
    nothing: list[str | None] = [None] * len(copies)
    if isinstance(ops, Unavailable) or not len(copies):
        return nothing, nothing
    named = ops.ops["name"]
    weak = (
        ops.ops["evidence"].is_in([int(OpEvidence.COPY), int(OpEvidence.NONE)])
    ).to_numpy()
    own = ops.op[copies]
    texts = named.gather(own).to_list()
    names = [
        None if unnamed else text
        for text, unnamed in zip(texts, weak[own].tolist(), strict=True)
    ]
    tied, calls = recorded.tied, recorded.launching
    if not isinstance(tied, Unavailable) and not isinstance(calls, Unavailable):
        op = pl.Series(np.append(calls.op, -1)[tied.launch_of_activity[copies]])
        by_call = calls.ops["name"].gather(op.set(op < 0, None)).to_list()
        names = [name or called for name, called in zip(names, by_call, strict=True)]
    certainty = [None if name is None else "recorded" for name in names]
    sized = _op_by_size(recorded, named.filter(~pl.Series(weak)))
    sizes = activity["bytes"].gather(copies).to_list() if sized else []
    for index, size in enumerate(sizes):
        if names[index] is None and size in sized:
            names[index], certainty[index] = sized[size], "by size"
    if None not in names:
        return names, certainty
    around = _ops_around(
        activity, copies, named.gather(np.where(weak, 0, np.arange(len(weak)))), ops.op
    )
    for index, text in enumerate(around):
        if names[index] is None and text is not None:
            names[index], certainty[index] = text, "by position"
    return names, certainty


def _op_by_size(recorded: _Recorded, named: pl.Series) -> dict[int, str]:
    """Return size in bytes → op, for tensor sizes that only kernels of one op have.

    Small tensors are left out, because many ops share their sizes.
    """
    classes, ops = recorded.classes, recorded.ops
    if isinstance(classes, Unavailable) or isinstance(ops, Unavailable):
        return {}
    strings, wanted = recorded.trace.strings, set(named.to_list())
    rows = classes.rows.select(
        "shape", name=ops.ops["name"].gather(classes.rows["op"])
    ).filter((pl.col("shape") >= 0) & pl.col("name").is_in(sorted(wanted)))
    owners: dict[int, set[str]] = {}
    for handle, name in rows.unique(maintain_order=True).iter_rows():
        given = operands_from_text(strings[handle])
        for tensor in () if given is None else given.each_tensor():
            size = tensor.size_bytes
            if size is not None and size >= THRESHOLDS.small_copy.value:
                owners.setdefault(size, set()).add(name)
    return {size: next(iter(ops)) for size, ops in owners.items() if len(ops) == 1}


def _ops_around(
    activity: pl.DataFrame, copy_rows: Int64s, names: pl.Series, op: Int32s
) -> list[str | None]:
    """Describe each copy by the ops before and after it.

    A copy has None if copies of its kind and size are not mostly between the same two
    ops, or if both ops are unknown.
    """
    kind = activity["kind"].cast(pl.String)
    ordered = (
        activity.select("device", "start_ps", "bytes")
        .with_columns(row=pl.int_range(pl.len()), kind=kind, op=names.gather(op))
        .sort("device", "start_ps")
        .with_columns(
            op=pl.when(pl.col("kind").is_in(["kernel", "collective"])).then("op")
        )
        .with_columns(
            before=pl.col("op").forward_fill().over("device"),
            after=pl.col("op").backward_fill().over("device"),
        )
    )
    named = pl.all_horizontal(pl.col("before", "after") != UNANNOTATED)
    copies = ordered.filter(pl.col("row").is_in(copy_rows.tolist())).with_columns(
        pair=pl.when(named).then(pl.format("between {} and {}", "before", "after"))
    )
    key = ("device", "kind", "bytes")
    voted = copies.with_columns(votes=pl.len().over(*key, "pair") / pl.len().over(*key))
    kept = voted.select(
        "row",
        pair=pl.when(
            (pl.col("votes") >= _MIN_VOTE_SHARE) & (pl.len().over(*key) > 1)
        ).then("pair"),
    ).sort("row")
    return kept["pair"].to_list()


def _summed_copies(rows: pl.DataFrame, steps: int) -> DeviceCopies:
    large = pl.col("bytes").fill_null(0) >= THRESHOLDS.large_copy.value
    blocks = pl.col("call_ps") >= _MIN_BLOCKING_RATIO * pl.col("dur_ps")
    exposed_ps = pl.col("alone_ps")
    groups = (
        rows.group_by("kind", "source", "certainty")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("bytes").sum().alias("bytes"),
            pl.col("bytes").null_count().alias("unknown_sizes"),
            pl.col("bytes").filter(large).sum().alias("large_bytes"),
            pl.col("dur_ps").filter(large).sum().alias("large_ps"),
            exposed_ps.sum(),
            exposed_ps.filter(pl.col("pageable")).sum().alias("pageable_ps"),
            exposed_ps.filter(blocks).sum().alias("blocking_ps"),
        )
        .sort("alone_ps", "kind", "source", descending=[True, False, False])
    )
    longest = rows.sort("alone_ps", "start_ps", descending=[True, False]).head(
        _MAX_COPIES_NAMED
    )
    small = rows.filter(pl.col("bytes") < THRESHOLDS.small_copy.value)
    return DeviceCopies(
        groups=tuple(
            CopyGroup(
                owner=_OWNER[row["kind"]],
                source=row["source"],
                certainty=row["certainty"],
                per_step=row["count"] / steps,
                bytes_per_step=None if row["unknown_sizes"] else row["bytes"] / steps,
                bytes_per_s=row["large_bytes"] * 1e12 / row["large_ps"]
                if row["large_ps"]
                else None,
                alone_ps=row["alone_ps"],
                pageable_ps=row["pageable_ps"],
                blocking_ps=row["blocking_ps"],
            )
            for row in groups.iter_rows(named=True)
        ),
        small_per_step=small.height / steps,
        small_alone_ps=int(small["alone_ps"].sum()),
        longest=tuple(
            (start, start + dur, name)
            for start, dur, name in longest[["start_ps", "dur_ps", "name"]].iter_rows()
        ),
    )
