"""`roofline_model`: ops and kernels by intensity and rate, under the device's roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import polars as pl

from stepscope.analysis.ops.rows import NO_COSTS, NO_OPS
from stepscope.analysis.results.tables import (
    declared_reasons,
    missing_columns,
    room_reasons,
    tables_of,
)
from stepscope.analysis.roofline_model.roofs import (
    MEASURED,
    NO_HOST_PEAKS,
    NO_PEAKS,
    ROOF_ROWS,
    points,
    roof_rows,
    unknown_percent,
)
from stepscope.analysis.roofline_model.work import (
    kernel_work,
    measured_alone,
    op_work,
    with_counters,
)
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.measured import measured_kernels
from stepscope.derive.ops.costs import kernel_costs, op_costs
from stepscope.derive.ops.database import device_ops
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.options import RooflineModelOptions
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = room_reasons("roofline_model")

_TABLES: Final = tables_of("roofline_model")
OP_ROWS: Final = _TABLES["ops"]
KERNEL_ROWS: Final = _TABLES["kernels"]

#: What is asked of each host for the options as they are.
NEEDS: Final = (
    device_ops,
    device_peaks,
    kernel_costs,
    kernels,
    measured_kernels,
    op_costs,
)

#: Why a column of ops or kernels holds nothing.
_REASONS: Final = declared_reasons(
    OP_ROWS,
    {
        "type": (
            "NOT_RECORDED",
            "Record with the framework's own profiler, which writes it.",
        ),
        "lacks": ("NO_SAMPLES", "Nothing to do."),
    },
)
#: Columns of points that hold nothing where peaks are not known.
_OF_PEAKS: Final = (
    *("roof_gflops_per_s", "of_compute_percent", "of_memory_percent"),
    *("of_roof_percent", "bound_by"),
)
_OF_WORK: Final = (
    *("flops", "accessed_bytes", "operational_intensity", "gflops_per_s", "gb_per_s"),
)


class RooflineModelResult(msgspec.Struct, frozen=True, kw_only=True):
    """Ops and kernels of all selected hosts.

    Attributes:
        ops: One row per op: those of the devices, else those of the hosts.
        kernels: One row per kernel and op.
        roofs: What the units of the devices in use can do at best.
        ops_on: Where the ops ran: `device` or `host`; null where there are none.
        unknown_ops_percent: Share of the ops' time of ops without a place in the chart,
            because their operations or bytes are not known; null without ops.
        unknown_kernels_percent: Share of the kernels' time of kernels without a place
            in the chart; null without kernels.
        measured_kernels: Number of kernels whose work was counted by Nsight Compute.
        missing: What could not be looked at.
    """

    ops: Annotated[pl.DataFrame, OP_ROWS]
    kernels: Annotated[pl.DataFrame, KERNEL_ROWS]
    roofs: Annotated[pl.DataFrame, ROOF_ROWS]
    ops_on: str | None
    unknown_ops_percent: float | None
    unknown_kernels_percent: float | None
    measured_kernels: int
    missing: tuple[Missing, ...]


def analyse(
    profile: ProfileData, options: RooflineModelOptions
) -> RooflineModelResult | Unavailable:
    """Place ops and kernels by operations per byte and operations per second.

    Definition: docs/tools/roofline_model.md.
    """
    work, side = op_work(profile)
    on_device = any(
        not isinstance(profile.derived(host, kernels), Unavailable)
        for host in profile.hosts
    )
    counted = kernel_work(profile, work) if on_device else measured_alone(profile)
    if not len(work) and not len(counted):
        return next(iter(side.absent.values()), NO_OPS)
    if on_device:
        work = with_counters(work, counted)
    ops = points(work, OP_ROWS, options)
    found = points(counted, KERNEL_ROWS, options)
    roofs = roof_rows(profile, options)
    ops_on = ("device" if on_device else "host") if len(ops) else None
    no_peaks = NO_HOST_PEAKS if ops_on == "host" else NO_PEAKS
    return RooflineModelResult(
        ops=ops,
        kernels=found,
        roofs=roofs,
        ops_on=ops_on,
        unknown_ops_percent=unknown_percent(ops),
        unknown_kernels_percent=unknown_percent(found),
        measured_kernels=int((found["evidence"] == MEASURED).sum()),
        missing=(
            *_missing_fields(roofs, ops, found, side.absent, no_peaks),
            *_missing_columns(ops, found, roofs, no_peaks),
        ),
    )


def _missing_fields(
    roofs: pl.DataFrame,
    ops: pl.DataFrame,
    found: pl.DataFrame,
    absent: dict[str, Unavailable],
    no_peaks: Unavailable,
) -> list[Missing]:
    missing = []
    if roofs.is_empty():
        missing.append(no_peaks.for_field("roofs"))
    if ops.is_empty():
        why = next(iter(absent.values()), NO_OPS)
        missing += [
            why.for_field(field) for field in ("ops", "ops_on", "unknown_ops_percent")
        ]
    if found.is_empty():
        missing += [
            _WHY["host_ops"].for_field(field)
            for field in ("kernels", "unknown_kernels_percent")
        ]
    return missing


def _missing_columns(
    ops: pl.DataFrame,
    found: pl.DataFrame,
    roofs: pl.DataFrame,
    no_peaks: Unavailable,
) -> list[Missing]:
    missing = []
    for name, rows in (("ops", ops), ("kernels", found)):
        counted = (rows["evidence"] == MEASURED).any()
        no_work = _WHY["not_counted"] if counted else NO_COSTS
        no_place = rows["operational_intensity"].null_count() == len(rows)
        reasons = dict.fromkeys(_OF_WORK, no_work)
        reasons |= dict.fromkeys(
            _OF_PEAKS, no_work if no_place and len(roofs) else no_peaks
        )
        reasons |= {key: why for key, why in _REASONS.items() if key in rows.columns}
        missing += missing_columns(rows, reasons, prefix=f"{name}.")
    return missing
