"""Dominant part of an op's device time: transfer, utilisation or compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import missing_fields, package_reasons
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.correlation import device_timeline
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_US, in_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("framework_op_stats")


class Limit(Frozen, frozen=True, eq=True):
    """A threshold of the analysis, and the reason for its value."""

    value: float
    reason: str


#: Thresholds that decide the cause.
LIMITS: Final = {
    "dominates_percent": Limit(
        50.0, "A part with more than half of the total is larger than any other part."
    ),
    "low_occupancy_percent": Limit(
        25.0,
        "Arithmetic takes about 4 cycles, and each of the 4 schedulers of a "
        "multiprocessor issues one instruction per cycle, so 16 of 64 warps hide that "
        "latency (CUDA C++ Programming Guide, multiprocessor level).",
    ),
    "known_starts_percent": Limit(
        95.0,
        "Launches from before the recording are missing, so calls of the work queued "
        "then have no start. Up to 5 % of such calls do not change a verdict.",
    ),
}

_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNEL: Final = _KINDS.index("kernel")

#: Parts of the device time; where parts overlap, the first one in this order counts.
_PARTS: Final = ("compute", "unknown", "low_occupancy", "small_grid", "transfer")
_FILLED: Final = ("compute_us", "low_occupancy_us", "small_grid_us")
_FILLS: Final = ("full", "unknown", "low_occupancy", "small_grid")


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Where the device time of the op goes; the parts add up to the total.

    If kernels are in `unknown_us`, each part that could contain them is a lower bound,
    and null if that bound is zero.

    Attributes:
        dominant: The part with more than half of the total: `transfer`, `utilisation`
            or `compute`; `mixed` if no part has that much, null if undecided.
        transfer_percent: Share of `transfer_us` in `total_us`; null if unknown.
        utilisation_percent: Share of the total in idle time, small grids and low
            occupancy; null if unknown.
        compute_percent: Share of `compute_us` in `total_us`; null if unknown.
        total_us: Sum of all parts, over all devices; null if the idle time is unknown.
        transfer_us: Time of copies, memsets and collectives while no kernel runs.
        waiting_us: Idle time of the device between the start of a call and the call's
            last activity; null if unknown.
        small_grid_us: Time of kernels with fewer blocks than multiprocessors.
        low_occupancy_us: Time of kernels with an occupancy below the threshold;
            excludes matrix products, whose threads hide latency by themselves.
        compute_us: Time of kernels that fill the device.
        unknown_us: Time of kernels whose number of blocks and occupancy are unknown.
        untested_us: Part of `compute_us` in kernels whose occupancy is unknown.
    """

    dominant: Literal["transfer", "utilisation", "compute", "mixed"] | None
    transfer_percent: float | None
    utilisation_percent: float | None
    compute_percent: float | None
    total_us: float | None
    transfer_us: float | None
    waiting_us: float | None
    small_grid_us: float | None
    low_occupancy_us: float | None
    compute_us: float | None
    unknown_us: float | None
    untested_us: float | None


class Parts(Frozen, frozen=True):
    """The disjoint parts of the device time on one host.

    Attributes:
        ps: Time by part, named as in `Cause` without the unit; `waiting` is separate.
        waiting_ps: Idle time in calls; None if the starts of too few calls are known.
        untested_ps: Part of `compute` in kernels whose occupancy is unknown.
    """

    ps: dict[str, int]
    waiting_ps: int | None
    untested_ps: int


def kernel_fill(kernels: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Determine how well each class of kernels fills its device.

    Returns:
        The rows with `blocks`, `multiprocessors`, `fill` (full, small_grid,
        low_occupancy, unknown) and `untested` (the number of blocks is known, the
        occupancy is not).
    """
    matrix = pl.col("uses_tensor_core") | pl.col("tensor_core_eligible")
    excused = matrix.fill_null(value=False)
    # Some tracers write an occupancy of 0 for "unknown"; a kernel that ran has more.
    percent = pl.when(pl.col("occupancy_percent") > 0).then("occupancy_percent")
    low = percent < LIMITS["low_occupancy_percent"].value
    known = devices.select(
        "device",
        pl.when(pl.col("cores") > 0)
        .then("cores")
        .cast(pl.Int64)
        .alias("multiprocessors"),
        (pl.col("vendor") == "AMD").fill_null(value=False).alias("in_threads"),
    )
    shaped = kernels.join(
        known, on="device", how="left", maintain_order="left"
    ).with_columns(_block_bound("least"), _block_bound("most"))
    cores = pl.col("multiprocessors")
    small = (
        pl.when(pl.col("most") < cores)
        .then(pl.lit(value=True))
        .when(pl.col("least") >= cores)
        .then(pl.lit(value=False))
    )
    return shaped.with_columns(
        pl.when(pl.col("least") == pl.col("most")).then("most").alias("blocks"),
        pl.when(small)
        .then(pl.lit("small_grid"))
        .when(low & ~excused)
        .then(pl.lit("low_occupancy"))
        .when(small.is_null() & percent.is_null())
        .then(pl.lit("unknown"))
        .otherwise(pl.lit("full"))
        .alias("fill"),
        (small.is_not_null() & percent.is_null() & ~excused).alias("untested"),
    ).drop("least", "most", "in_threads")


def _block_bound(bound: Literal["least", "most"]) -> pl.Expr:
    """Return the minimum or maximum number of blocks of a recorded grid.

    Some launch calls of AMD's runtime count a grid in threads, other launch calls count
    blocks. The recording does not show which launch call was used.
    """
    blocks, groups = pl.lit(1, pl.Int64), pl.lit(1, pl.Int64)
    for axis in "xyz":
        grid, block = pl.col(f"grid_{axis}"), pl.col(f"block_{axis}")
        blocks *= grid
        groups *= (grid + block - 1) // block
    if bound == "most":
        return blocks.alias(bound)
    return pl.when(pl.col("in_threads")).then(groups).otherwise(blocks).alias(bound)


def device_time_parts(
    profile: ProfileData, work: OpWork, fills: pl.DataFrame | None
) -> Parts:
    """Divide the device time of one host's calls, including idle time, by its use.

    Args:
        fills: Result of `kernel_fill`; None if the host has no kernels.
    """
    activity = require_available(profile.table(work.host, "device_activity"))
    classes = require_available(profile.derived(work.host, activity_classes))
    timeline = require_available(profile.derived(work.host, device_timeline))
    # Index in `_PARTS` of each class of activities, and whether it is untested.
    part = np.full(len(classes.rows), _PARTS.index("unknown"), np.int64)
    untested = np.zeros(len(classes.rows), np.bool_)
    if fills is not None and len(fills):
        numbers = {fill: number for number, fill in enumerate(_FILLS)}
        place = fills["fill"].replace_strict(numbers, return_dtype=pl.Int64)
        part[fills["class"].to_numpy()] = place.to_numpy()
        untested[fills["class"].to_numpy()] = (
            fills["untested"] & (fills["fill"] == "full")
        ).to_numpy()
    kind = codes(activity, "kind")[work.activity]
    code = classes.code[work.activity]
    of_row = np.where(kind == _KERNEL, part[code], _PARTS.index("transfer"))
    device = handles(activity, "device")[work.activity]
    start_ps = ints(activity, "start_ps")[work.activity]
    dur_ps = ints(activity, "dur_ps")[work.activity]
    part_ps = dict.fromkeys(_PARTS, 0)
    untested_ps = 0
    waiting_ps = 0
    for timeline_device in timeline.devices:
        on_device = device == timeline_device.device
        taken = Spans.empty()
        for number, name in enumerate(_PARTS):
            rows = on_device & (of_row == number)
            spans = Spans.from_events(start_ps[rows], dur_ps[rows])
            part_ps[name] += (spans - taken).length_ps
            taken |= spans
        rows = on_device & untested[code] & (kind == _KERNEL)
        tested = on_device & (of_row == 0) & ~untested[code]
        untested_ps += (
            Spans.from_events(start_ps[rows], dur_ps[rows])
            - Spans.from_events(start_ps[tested], dur_ps[tested])
        ).length_ps
        busy = Spans.from_events(timeline_device.start_ps, timeline_device.dur_ps)
        calls = np.unique(work.call[on_device])
        last = np.full(len(work.calls), np.iinfo(np.int64).min)
        np.maximum.at(last, work.call[on_device], (start_ps + dur_ps)[on_device])
        launched = work.calls["launched"].to_numpy()
        calls = calls[launched[calls]]
        begins = ints(work.calls, "start_ps")[calls]
        waits = Spans.from_events(begins, np.maximum(last[calls] - begins, 0))
        waiting_ps += (waits - busy).length_ps
    with_starts = work.calls["launched"].to_numpy()[np.unique(work.call)]
    needed = LIMITS["known_starts_percent"].value
    return Parts(
        part_ps,
        waiting_ps if 100.0 * with_starts.mean() >= needed else None,
        untested_ps,
    )


def dominant_cause(
    parts: Sequence[Parts], absent: Unavailable | None
) -> tuple[Cause, list[Missing]]:
    """Add up the parts of all hosts, and find the dominant part.

    Args:
        parts: Parts of every host whose calls launched device work.
        absent: Why no device could be analysed; None if any device could be.
    """
    if not parts:
        nothing = dict.fromkeys(Cause.__struct_fields__)
        return Cause(**nothing), [(absent or _WHY["no_work"]).missing_field("cause")]
    ps = {name: sum(part.ps[name] for part in parts) for name in _PARTS}
    untested = sum(part.untested_ps for part in parts)
    waits = [part.waiting_ps for part in parts if part.waiting_ps is not None]
    waiting = sum(waits) if len(waits) == len(parts) else None
    total = None if waiting is None else sum(ps.values()) + waiting
    poor = ps["low_occupancy"] + ps["small_grid"]
    shares: dict[str, tuple[float, float]] = {}
    if total:
        open_share, full_share = ps["unknown"] / total, ps["compute"] / total
        idle_share = (poor + (waiting or 0)) / total
        shares = {
            "transfer": (ps["transfer"] / total,) * 2,
            "utilisation": (idle_share, idle_share + open_share),
            "compute": (full_share, full_share + open_share),
        }
    percents = {
        name: 100.0 * low if low == high else None
        for name, (low, high) in shares.items()
    }
    doubtful = {"low_occupancy"} if untested else set()
    if ps["unknown"]:
        doubtful |= {"compute", "low_occupancy", "small_grid"}
    # Kernels of unknown kind may belong to these parts: zero then means unknown, and a
    # positive part is a lower bound.
    known_ps = {
        name: None if name in doubtful and not value else value
        for name, value in ps.items()
    }
    cause = Cause(
        dominant=_dominant_part(shares),
        transfer_percent=percents.get("transfer"),
        utilisation_percent=percents.get("utilisation"),
        compute_percent=percents.get("compute"),
        total_us=in_unit(total, PS_PER_US),
        waiting_us=in_unit(waiting, PS_PER_US),
        untested_us=in_unit(untested, PS_PER_US),
        **{f"{name}_us": in_unit(value, PS_PER_US) for name, value in known_ps.items()},
    )
    of_whole = _WHY["no_fill"]
    if cause.waiting_us is None:
        of_whole = _WHY["no_starts"]
    elif cause.total_us == 0:
        of_whole = _WHY["no_time"]
    reasons = dict.fromkeys(cause.__struct_fields__, of_whole)
    reasons |= dict.fromkeys(_FILLED, _WHY["no_fill"])
    return cause, missing_fields(cause, reasons, prefix="cause.")


def _dominant_part(
    shares: dict[str, tuple[float, float]],
) -> Literal["transfer", "utilisation", "compute", "mixed"] | None:
    """Return the part with over half of the time; None if unknown time may decide."""
    half = LIMITS["dominates_percent"].value / 100.0
    names: tuple[Literal["transfer", "utilisation", "compute"], ...]
    names = ("transfer", "utilisation", "compute")
    for name in names:
        if shares and shares[name][0] > half:
            return name
    if shares and all(high <= half for _, high in shares.values()):
        return "mixed"
    return None
