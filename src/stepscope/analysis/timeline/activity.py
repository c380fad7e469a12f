"""What a device did in one span of the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import handles
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.remedies import Remedy
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_SHAPED: Final = (
    "registers",
    "static_shared_memory_bytes",
    "dynamic_shared_memory_bytes",
    "shared_memory_bytes",
    "occupancy_percent",
)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Shape and resources of a kernel; null where not recorded.

    Attributes:
        grid: Blocks along x, y and z.
        block: Threads along x, y and z.
        registers: Registers of each thread.
        static_shared_memory_bytes: Static shared memory of each block.
        dynamic_shared_memory_bytes: Dynamic shared memory of each block.
        shared_memory_bytes: Static and dynamic shared memory of each block.
        occupancy_percent: Theoretical occupancy as recorded.
    """

    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    registers: int | None
    static_shared_memory_bytes: int | None
    dynamic_shared_memory_bytes: int | None
    shared_memory_bytes: int | None
    occupancy_percent: float | None


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What a device did.

    Attributes:
        kind: Kind of activity: kernel, collective, h2d, d2h, p2p_copy, local_copy,
            memset or transfer_wait.
        device: Ordinal of the device.
        stream: Id of the stream.
        bytes: Bytes of a copy; null where not recorded.
        bytes_per_s: Size over duration; null where the size is unknown or no time
            passed.
        op: Op that the activity belongs to; null where nothing names one.
        op_type: Type of the op; null where unknown.
        op_evidence: Source of the op's name: hlo, hlo_name, annotation, copy, launch,
            none.
        launch: Launch shape and resources; null where none of them was recorded.
    """

    kind: str
    device: int
    stream: int
    bytes: int | None
    bytes_per_s: float | None
    op: str | None
    op_type: str | None
    op_evidence: str
    launch: Launch | None


_NO_DETAILS: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="This kernel carries no such launch detail.",
    remedy=Remedy.OTHER_DEVICE_TRACER,
)
_NO_SIZE: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The size of this copy was not recorded.",
    remedy=Remedy.OTHER_DEVICE_TRACER,
)
_NO_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="No time passed, so there is no rate.",
    remedy="Look at a longer copy.",
)
_NO_OP: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Neither the device event nor its launch call names an op.",
    remedy=Remedy.RECORD_OPS,
)
KERNELS: Final = ("kernel", "collective")


def gaps(activity: Activity) -> tuple[Missing, ...]:
    """Return which fields of an activity are null for want of data, and why."""
    found: list[Missing] = []
    if activity.op is None:
        found.append(_NO_OP.for_field("activity.op"))
    if activity.op_type is None:
        found.append(_NO_OP.for_field("activity.op_type"))
    if activity.kind not in KERNELS:
        if activity.bytes is None:
            found.append(_NO_SIZE.for_field("activity.bytes"))
        if activity.bytes_per_s is None:
            why = _NO_SIZE if activity.bytes is None else _NO_TIME
            found.append(why.for_field("activity.bytes_per_s"))
    elif activity.launch is None:
        found.append(_NO_DETAILS.for_field("activity.launch"))
    else:
        found += [
            _NO_DETAILS.for_field(f"activity.launch.{name}")
            for name, value in msgspec.structs.asdict(activity.launch).items()
            if value is None
        ]
    return tuple(found)


def row_of_activity(profile: ProfileData, host: str, event: int) -> int | None:
    """Return the row of device_activity that a row of events shows; None for none."""
    table = profile.table(host, "device_activity")
    if isinstance(table, Unavailable):
        return None
    found = np.flatnonzero(handles(table, "event") == event)
    return int(found[0]) if len(found) else None


def activity_of(profile: ProfileData, host: str, event: int) -> Activity | None:
    """Return the activity that a row of events shows; None of what is no activity."""
    table = profile.table(host, "device_activity")
    row = row_of_activity(profile, host, event)
    if row is None or isinstance(table, Unavailable):
        return None
    given = table.row(row, named=True)
    size, dur_ps = given["bytes"], given["dur_ps"]
    return Activity(
        kind=given["kind"],
        device=given["device"],
        stream=given["stream"],
        bytes=size,
        bytes_per_s=None if size is None or not dur_ps else size * PS_PER_S / dur_ps,
        launch=_launch(profile, host, given["geometry"]),
        **_op(profile, host, row),
    )


# Fields of `Activity` by name: their types differ.
def _op(profile: ProfileData, host: str, row: int) -> dict[str, Any]:
    ops = profile.derived(host, activity_ops)
    if isinstance(ops, Unavailable):
        return {"op": None, "op_type": None, "op_evidence": "none"}
    of_row = ops.ops.row(int(ops.op[row]), named=True)
    evidence = OpEvidence(of_row["evidence"])
    known = evidence is not OpEvidence.NONE
    return {
        "op": of_row["name"] if known else None,
        "op_type": of_row["type"] if known else None,
        "op_evidence": evidence.name.lower(),
    }


def _launch(profile: ProfileData, host: str, geometry: int | None) -> Launch | None:
    table = profile.table(host, "geometries")
    if geometry is None or isinstance(table, Unavailable):
        return None
    shape = table.row(geometry, named=True)
    grid, block = (
        tuple(shape[f"{what}_{axis}"] for axis in "xyz") for what in ("grid", "block")
    )
    return Launch(
        grid=None if None in grid else grid,
        block=None if None in block else block,
        **{name: shape[name] for name in _SHAPED},
    )
