"""The parts of the overview about ops: top ops, precision, placement, functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.ops.rows import (
    NO_COSTS,
    device_costs,
    device_side,
    host_costs,
    host_side,
    work_rates,
)
from stepscope.analysis.results.statistics import percent_of
from stepscope.analysis.results.tables import missing_fields, package_reasons
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.columns.arrays import ints
from stepscope.derive.device.precision import (
    PrecisionEvidence,
    precision,
    why_precisions_unknown,
)
from stepscope.derive.host.function_calls import EXPENSIVE_MODES, function_calls
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.database import (
    PROGRAM_EVIDENCE,
    device_ops,
    host_ops,
    op_placement,
)
from stepscope.frozen import Frozen
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("overview_page")

_TOP: Final = 10
_DATASET: Final = OpCategory.DATASET.name.lower()


class TopOp(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ops with the most self time.

    Attributes:
        rank: Rank by self time; 1 is the longest.
        host_or_device: Side whose ops are listed: `Host` or `Device`.
        name: Name of the op.
        category: Type of the op; null if unknown.
        self_time_us: Self time of the op, summed over hosts and devices.
        self_time_percent: Share of the self time of all named ops of the side.
        cumulative_percent: Total share of this op and all ops of better rank.
        occurrences: Number of executions; null if unknown.
        flop_rate_gflops: Floating-point operations per time, in GFLOP/s; null if the
            number of operations is unknown.
        tensor_core_eligible: Whether Tensor Cores could run the op; null if unknown.
        tensor_core_used: Whether Tensor Cores ran the op; null if unknown.
        hosts: Hosts on which the op ran.
    """

    rank: int
    host_or_device: str
    name: str
    category: str | None
    self_time_us: float
    self_time_percent: float
    cumulative_percent: float
    occurrences: int | None
    flop_rate_gflops: float | None
    tensor_core_eligible: bool | None
    tensor_core_used: bool | None
    hosts: tuple[str, ...]


class PrecisionShares(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel time by precision, without copies and collectives.

    Attributes:
        compute_16bit_percent: Share of kernel time computing in 16 bits or fewer; null
            if no kernel is known to do so and the precision of many is unknown.
        compute_32bit_percent: Share of kernel time computing in 32 bits or more,
            including TF32 and 64 bits; null if no kernel is known to do so and the
            precision of many is unknown.
        compute_tf32_percent: Part of `compute_32bit_percent` in which Tensor Cores
            shorten 32-bit operands (TF32); null if no such kernel is known and the
            precision of many kernels is unknown.
        compute_64bit_percent: Part of `compute_32bit_percent` that computes in 64 bits;
            null if no such kernel is known and the precision of many is unknown.
        default_evidence_percent: Share of kernel time of unknown precision.
        kernels_16bit_count: Number of kernels that compute in 16 bits or fewer; null if
            `compute_16bit_percent` is null.
        kernels_total_count: Number of kernels that compute.
    """

    compute_16bit_percent: float | None
    compute_32bit_percent: float | None
    compute_tf32_percent: float | None
    compute_64bit_percent: float | None
    default_evidence_percent: float
    kernels_16bit_count: int | None
    kernels_total_count: int


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """On which side ops ran, host or device; input pipeline ops count separately.

    Attributes:
        host_op_percent: Share of op executions without device work; null if unknown.
        device_op_percent: Share of op executions with device work; null if unknown.
        host_self_time_percent: Self time of ops on hosts, as a share of the self time
            of all ops; null if unknown.
        device_self_time_percent: Self time of ops on devices, as a share of the self
            time of all ops; null if unknown.
        host_executions: Number of op executions without device work; null if unknown.
        device_executions: Number of op executions with device work; null if unknown.
        dataset_executions: Number of executions of input pipeline ops, which the shares
            exclude; null if unknown.
    """

    host_op_percent: float | None
    device_op_percent: float | None
    host_self_time_percent: float | None
    device_self_time_percent: float | None
    host_executions: int | None
    device_executions: int | None
    dataset_executions: int | None


class Eager(msgspec.Struct, frozen=True, kw_only=True):
    """Percentage of ops' self time in ops that ran eagerly, outside graph functions."""

    host_percent: float | None
    device_percent: float | None


class PlacementOfRun(Frozen, frozen=True, eq=True):
    """On which side the ops of a run ran, as far as known.

    Attributes:
        is_training: Whether gradients or updates of parameters were seen.
        missing: Why fields of `placement` and `eager` are null.
    """

    placement: Placement | None
    eager: Eager | None
    is_training: bool | None
    missing: tuple[Missing, ...]


class FunctionMode(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one graph function in one mode.

    Attributes:
        name: Name of the graph function.
        mode: How the calls were executed, as recorded: concrete, traced-xla,
            notTraced-nonXla, eager, …
        calls: Number of calls.
        self_time_us: Time of the calls without nested calls of functions.
        percent: Share of the self time of all calls of graph functions; null if the
            calls took no time.
        tracing_count: Number of traces since the program began; null if not recorded.
    """

    name: str
    mode: str
    calls: int
    self_time_us: float
    percent: float | None
    tracing_count: int | None


class Functions(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of graph functions.

    Attributes:
        expensive_percent: Share of the self time of all calls in calls that traced or
            ran eagerly; null if the calls took no time.
        calls: Calls by function and mode, longest first.
    """

    expensive_percent: float | None
    calls: tuple[FunctionMode, ...]


def top_ops_of(
    profile: ProfileData,
) -> tuple[tuple[TopOp, ...] | None, tuple[Missing, ...]]:
    """Return the ten longest named ops of devices or, without devices, of hosts."""
    device = device_side(profile)
    evidence = [int(code) for code in PROGRAM_EVIDENCE]
    rows, side = device.rows.filter(pl.col("evidence").is_in(evidence)), "Device"
    absent = device.absent
    lacking: list[Missing] = []
    activities = [profile.table(host, "device_activity") for host in profile.hosts]
    if not len(device.rows) and all(
        isinstance(activity, Unavailable) and activity.code == "NO_DEVICE_PLANE"
        for activity in activities
    ):
        host = host_side(profile)
        rows, side = host.rows.filter(pl.col("category") != _DATASET), "Host"
        lacking += [
            why.missing_field(f"top_ops.{field}")
            for why in list(device.absent.values())[:1]
            for field in ("tensor_core_eligible", "tensor_core_used")
        ]
        absent = host.absent
    total_ps = int(rows["self_ps"].sum())
    if not total_ps:
        why = next(iter(absent.values()), _WHY["no_names"])
        return None, (why.missing_field("top_ops"),)
    top = rows.head(_TOP)
    costs = device_costs(profile) if side == "Device" else host_costs(profile)
    top = top.hstack(work_rates(top, costs))
    if top["measured_flop_rate"].null_count():
        lacking.append(NO_COSTS.missing_field("top_ops.flop_rate_gflops"))
    top_ops, running = [], 0
    for rank, row in enumerate(top.iter_rows(named=True), start=1):
        running += row["self_ps"]
        tensor_ps, unknown_ps = row["tensor_core_ps"], row["tensor_core_unknown_ps"]
        names_silent = tensor_ps is None or (unknown_ps and not tensor_ps)
        top_ops.append(
            TopOp(
                rank=rank,
                host_or_device=side,
                name=row["name"],
                category=row["type"],
                self_time_us=row["self_ps"] / PS_PER_US,
                self_time_percent=100.0 * row["self_ps"] / total_ps,
                cumulative_percent=100.0 * running / total_ps,
                occurrences=row["occurrences"],
                flop_rate_gflops=row["measured_flop_rate"],
                tensor_core_eligible=row["tensor_core_eligible"],
                tensor_core_used=None if names_silent else tensor_ps > 0,
                hosts=tuple(row["hosts"]),
            )
        )
    return tuple(top_ops), tuple(lacking)


def precision_shares(profile: ProfileData) -> PrecisionShares | Unavailable:
    """Return kernel time by precision, over all hosts with devices."""
    time = dict.fromkeys(("all", "16", "tf32", "fp64", "default"), 0)
    narrow = total = 0
    why: Unavailable | None = None
    for host in profile.hosts:
        activity = profile.table(host, "device_activity")
        width = profile.derived(host, precision)
        if isinstance(activity, Unavailable):
            why = activity
            continue
        if isinstance(width, Unavailable):
            why = width
            continue
        dur = ints(activity, "dur_ps")
        computes = width.bits > 0
        masks = {
            "all": computes,
            "16": width.bits == 16,
            "tf32": computes & width.tf32,
            "fp64": computes & width.fp64,
            "default": computes & (width.evidence == PrecisionEvidence.DEFAULT),
        }
        for name, mask in masks.items():
            time[name] += int(dur[mask].sum())
        narrow += int(np.count_nonzero(masks["16"]))
        total += int(np.count_nonzero(computes))
    if not time["all"]:
        return why or _WHY["no_kernels_of_ops"]
    time["32"] = time["all"] - time["16"] - time["default"]
    shares = {name: 100.0 * value / time["all"] for name, value in time.items()}
    unknown = why_precisions_unknown(time["default"] / time["all"]) is not None
    # If the precision of many kernels is unknown, a share of 0 means unknown.
    known = {
        name: None if unknown and not share else share for name, share in shares.items()
    }
    narrow_share = known["16"]
    return PrecisionShares(
        compute_16bit_percent=narrow_share,
        compute_32bit_percent=known["32"],
        compute_tf32_percent=known["tf32"],
        compute_64bit_percent=known["fp64"],
        default_evidence_percent=shares["default"],
        kernels_16bit_count=None if narrow_share is None else narrow,
        kernels_total_count=total,
    )


def missing_of_precision(shares: PrecisionShares | None) -> list[Missing]:
    """Return the reasons for null shares of precision."""
    if shares is None:
        return []
    why = why_precisions_unknown(shares.default_evidence_percent / 100)
    reasons = {} if why is None else dict.fromkeys(shares.__struct_fields__, why)
    return missing_fields(shares, reasons, prefix="precision.")


def op_placements(profile: ProfileData) -> PlacementOfRun:
    """Measure where ops ran, how much ran eagerly, and whether the run trains."""
    by_host, absent = derived_by_host(profile, op_placement)
    if not by_host:
        why = next(reversed(absent.values()), _WHY["no_names"])
        fields = ("op_placement", "eager", "is_training")
        return PlacementOfRun(None, None, None, tuple(map(why.missing_field, fields)))
    parts = {
        name: [getattr(placed, name) for placed in by_host.values()]
        for name in (
            *("host_executions", "device_executions", "dataset_executions"),
            *("host_self_ps", "device_self_ps"),
            *("host_eager_self_ps", "device_eager_self_ps"),
        )
    }
    total = {
        name: None if None in values else sum(values) for name, values in parts.items()
    }
    executions = _side_percents(total["host_executions"], total["device_executions"])
    times = _side_percents(total["host_self_ps"], total["device_self_ps"])
    placement = Placement(
        host_op_percent=executions[0],
        device_op_percent=executions[1],
        host_self_time_percent=times[0],
        device_self_time_percent=times[1],
        host_executions=total["host_executions"],
        device_executions=total["device_executions"],
        dataset_executions=total["dataset_executions"],
    )
    eager = Eager(
        host_percent=percent_of(total["host_eager_self_ps"], total["host_self_ps"]),
        device_percent=percent_of(
            total["device_eager_self_ps"], total["device_self_ps"]
        ),
    )
    answers = [placed.is_training for placed in by_host.values()]
    known = [training for training in answers if training is not None]
    training = any(known) if known else None
    # A null's reason: its host or device is absent, or no event shows it.
    no_host = next(iter(derived_by_host(profile, host_ops)[1].values()), None)
    no_device = next(iter(derived_by_host(profile, device_ops)[1].values()), None)
    unseen = _WHY["not_told"]
    reasons = dict.fromkeys(placement.__struct_fields__, no_device or no_host or unseen)
    sides = {"host_percent": no_host or unseen, "device_percent": no_device or unseen}
    missing = [
        *missing_fields(placement, reasons, prefix="op_placement."),
        *missing_fields(eager, sides, prefix="eager."),
    ]
    if training is None:
        missing.append(_WHY["no_names"].missing_field("is_training"))
    return PlacementOfRun(placement, eager, training, tuple(missing))


def _side_percents(
    host: int | None, device: int | None
) -> tuple[float | None, float | None]:
    both = None if host is None or device is None else host + device
    return percent_of(host, both), percent_of(device, both)


def graph_functions(profile: ProfileData) -> Functions | Unavailable:
    """Return the calls of graph functions on all hosts."""
    frames, absent = derived_by_host(profile, function_calls)
    if not frames:
        return next(reversed(absent.values()), _WHY["no_names"])
    merged = (
        pl.concat(frames.values())
        .group_by("name", "mode")
        .agg(pl.col("calls", "self_ps").sum(), pl.col("tracing_count").max())
        .sort("self_ps", "name", "mode", descending=[True, False, False])
    )
    total_ps = int(merged["self_ps"].sum())
    expensive = merged.filter(pl.col("mode").is_in(EXPENSIVE_MODES))["self_ps"].sum()
    return Functions(
        expensive_percent=percent_of(int(expensive), total_ps),
        calls=tuple(
            FunctionMode(
                name=row["name"],
                mode=row["mode"],
                calls=row["calls"],
                self_time_us=row["self_ps"] / PS_PER_US,
                percent=percent_of(row["self_ps"], total_ps),
                tracing_count=row["tracing_count"],
            )
            # This loop runs once per function of the program, not per event.
            for row in merged.iter_rows(named=True)
        ),
    )
