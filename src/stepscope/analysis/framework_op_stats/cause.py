"""What dominates the time of an op on the devices: transfer, utilisation or compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import room_reasons
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.correlation import device_timeline
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Missing, Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = room_reasons("framework_op_stats")


class Limit(Frozen, frozen=True, eq=True):
    """A number that decides something, and why it is this one."""

    value: float
    reason: str


#: What decides the cause.
LIMITS: Final = {
    "dominates_percent": Limit(
        50.0, "More than all the rest together: no other share can be larger."
    ),
    "low_occupancy_percent": Limit(
        25.0,
        "Arithmetic takes about 4 cycles, and 4 schedulers of a multiprocessor issue "
        "one instruction each: 16 of its 64 warps hide that latency (CUDA C++ "
        "Programming Guide, multiprocessor level). With fewer, units wait.",
    ),
    "known_starts_percent": Limit(
        95.0,
        "The begin of a recording cuts off the launches of what was queued already; "
        "that few calls without a begin change no verdict.",
    ),
}

_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNEL: Final = _KINDS.index("kernel")

#: Parts of the device time in the order in which overlapping time is charged.
_PARTS: Final = ("compute", "unknown", "low_occupancy", "small_grid", "transfer")
_FILLED: Final = ("compute_us", "low_occupancy_us", "small_grid_us")
_FILLS: Final = ("full", "unknown", "low_occupancy", "small_grid")


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of the op on the devices goes; the parts add up to the total.

    Where kernels are in `unknown_us`, each part that could hold them is a lower bound,
    and null where that bound is zero.

    Attributes:
        dominant: The part that is more than half of the total: `transfer`,
            `utilisation` or `compute`; `mixed` where none is, null where that cannot be
            decided.
        transfer_percent: Share of the total in copies, memsets and collectives; null
            where unknown.
        utilisation_percent: Share of the total in waiting, small grids and low
            occupancy; null where unknown.
        compute_percent: Share of the total in kernels that fill the device; null where
            unknown.
        total_us: Time of all parts together, over all devices; null where waiting is
            unknown.
        transfer_us: Time of copies, memsets and collectives that no kernel of the op
            hides.
        waiting_us: Time in which the device idled between the begin of a call and its
            last activity; null where unknown.
        small_grid_us: Time of kernels with fewer blocks than the device has
            multiprocessors.
        low_occupancy_us: Time of kernels below the limit of occupancy; matrix products,
            whose threads hide latency by themselves, are never counted here.
        compute_us: Time of all kernels that fill the device.
        unknown_us: Time of kernels of which neither blocks nor occupancy is known.
        untested_us: The part of `compute_us` whose occupancy is unknown.
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
    """The disjoint parts on the devices of one host.

    Attributes:
        ps: Name of `Cause` without its unit → length; without `waiting`.
        waiting_ps: None where too few begins of calls are known.
        untested_ps: Part of compute.
    """

    ps: dict[str, int]
    waiting_ps: int | None
    untested_ps: int


def kernel_fill(kernels: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Find how well each class of kernels can fill its device.

    Returns:
        The rows with `blocks`, `multiprocessors`, `fill` (full, small_grid,
        low_occupancy, unknown) and `untested` (full judging by the grid; the
        occupancy is unknown).
    """
    matrix = pl.col("uses_tensor_core") | pl.col("tensor_core_eligible")
    excused = matrix.fill_null(value=False)
    # Nothing that ran has an occupancy of 0: some tracers write it for "unknown".
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
    """Return the fewest or the most blocks that a recorded grid can mean.

    Some launch calls of AMD's runtime count a grid in threads, others in blocks, and
    the recording does not say which of them it was.
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
    """Charge the device time of one host's calls, and the waits between.

    Args:
        fills: As `kernel_fill` returns; None where the host has no kernels.
    """
    activity = require_available(profile.table(work.host, "device_activity"))
    classes = require_available(profile.derived(work.host, activity_classes))
    timeline = require_available(profile.derived(work.host, device_timeline))
    part, untested = _part_of_class(len(classes.rows), fills)
    kind = codes(activity, "kind")[work.activity]
    code = classes.code[work.activity]
    of_row = np.where(kind == _KERNEL, part[code], _PARTS.index("transfer"))
    device = handles(activity, "device")[work.activity]
    start_ps = ints(activity, "start_ps")[work.activity]
    dur_ps = ints(activity, "dur_ps")[work.activity]
    found = dict.fromkeys(_PARTS, 0)
    untested_ps = 0
    waiting_ps = 0
    for one in timeline.devices:
        mine = device == one.device
        if not mine.any():
            continue
        taken = Spans.empty()
        for number, name in enumerate(_PARTS):
            rows = mine & (of_row == number)
            spans = Spans.from_events(start_ps[rows], dur_ps[rows])
            found[name] += (spans - taken).length_ps
            taken |= spans
        rows = mine & untested[code] & (kind == _KERNEL)
        tested = mine & (of_row == 0) & ~untested[code]
        untested_ps += (
            Spans.from_events(start_ps[rows], dur_ps[rows])
            - Spans.from_events(start_ps[tested], dur_ps[tested])
        ).length_ps
        busy = Spans.from_events(one.start_ps, one.dur_ps)
        calls = np.unique(work.call[mine])
        last = np.full(len(work.calls), np.iinfo(np.int64).min)
        np.maximum.at(last, work.call[mine], (start_ps + dur_ps)[mine])
        launched = work.calls["launched"].to_numpy()
        calls = calls[launched[calls]]
        begins = ints(work.calls, "start_ps")[calls]
        waits = Spans.from_events(begins, np.maximum(last[calls] - begins, 0))
        waiting_ps += (waits - busy).length_ps
    with_work = np.unique(work.call)
    with_starts = work.calls["launched"].to_numpy()[with_work]
    needed = LIMITS["known_starts_percent"].value
    return Parts(
        found,
        waiting_ps
        if bool(len(with_starts) and 100.0 * with_starts.mean() >= needed)
        else None,
        untested_ps,
    )


def _part_of_class(count: int, fills: pl.DataFrame | None) -> tuple[Int64s, Bools]:
    """Return by class of activities the place in `_PARTS`, and whether untested."""
    part = np.full(count, _PARTS.index("unknown"), np.int64)
    untested = np.zeros(count, np.bool_)
    if fills is not None and len(fills):
        place = fills["fill"].replace_strict(
            {fill: number for number, fill in enumerate(_FILLS)}, return_dtype=pl.Int64
        )
        part[fills["class"].to_numpy()] = place.to_numpy()
        untested[fills["class"].to_numpy()] = (
            fills["untested"] & (fills["fill"] == "full")
        ).to_numpy()
    return part, untested


def dominant_cause(
    parts: Sequence[Parts], absent: Unavailable | None
) -> tuple[Cause, list[Missing]]:
    """Add up the hosts and say what dominates.

    Args:
        parts: Parts of every host whose calls put work on a device.
        absent: Why there is none, where no device could be looked at.
    """
    if not parts:
        nothing = dict.fromkeys(Cause.__struct_fields__)
        why = absent or _WHY["no_work"]
        return Cause(**nothing), [why.missing_field("cause")]
    ps = {name: sum(one.ps[name] for one in parts) for name in _PARTS}
    untested = sum(one.untested_ps for one in parts)
    waits = [one.waiting_ps for one in parts if one.waiting_ps is not None]
    waiting = sum(waits) if len(waits) == len(parts) else None
    total = None if waiting is None else sum(ps.values()) + waiting
    poor = ps["low_occupancy"] + ps["small_grid"]
    shares: dict[str, tuple[float, float]] = {}
    if total:
        open_share = ps["unknown"] / total
        shares = {
            "transfer": (ps["transfer"] / total,) * 2,
            "utilisation": _share_range((poor + (waiting or 0)) / total, open_share),
            "compute": _share_range(ps["compute"] / total, open_share),
        }
    percents = {
        name: 100.0 * low if low == high else None
        for name, (low, high) in shares.items()
    }
    doubtful = {"low_occupancy"} if untested else set()
    if ps["unknown"]:
        doubtful |= {"compute", "low_occupancy", "small_grid"}
    # A zero may be unknown time; what is not zero is at least so much.
    known_ps = {
        name: None if name in doubtful and not value else value
        for name, value in ps.items()
    }
    cause = Cause(
        dominant=_dominant_part(shares),
        transfer_percent=percents.get("transfer"),
        utilisation_percent=percents.get("utilisation"),
        compute_percent=percents.get("compute"),
        total_us=_to_us(total),
        waiting_us=_to_us(waiting),
        untested_us=_to_us(untested),
        **{f"{name}_us": _to_us(value) for name, value in known_ps.items()},
    )
    of_whole = _WHY["no_fill"]
    if cause.waiting_us is None:
        of_whole = _WHY["no_starts"]
    elif cause.total_us == 0:
        of_whole = _WHY["no_time"]
    return cause, [
        (_WHY["no_fill"] if name in _FILLED else of_whole).missing_field(
            f"cause.{name}"
        )
        for name in cause.__struct_fields__
        if getattr(cause, name) is None
    ]


def _share_range(low: float, more: float) -> tuple[float, float]:
    return low, low + more


def _dominant_part(
    shares: dict[str, tuple[float, float]],
) -> Literal["transfer", "utilisation", "compute", "mixed"] | None:
    """Return the part above half whatever is unknown; None where that decides."""
    half = LIMITS["dominates_percent"].value / 100.0
    names: tuple[Literal["transfer", "utilisation", "compute"], ...]
    names = ("transfer", "utilisation", "compute")
    for name in names:
        if shares and shares[name][0] > half:
            return name
    if shares and all(high <= half for _, high in shares.values()):
        return "mixed"
    return None


def _to_us(ps: int | None) -> float | None:
    return None if ps is None else ps / PS_PER_US
