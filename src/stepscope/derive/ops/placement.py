"""`op_placement`: on which side ops ran, and how many of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.ops.database import DeviceOps, HostOps

#: Evidence that names an op of the program; copies and unnamed work have none.
PROGRAM_EVIDENCE: Final = (
    OpEvidence.HLO,
    OpEvidence.HLO_NAME,
    OpEvidence.ANNOTATION,
    OpEvidence.LAUNCH,
)
#: Scopes that differentiation leaves in op names. Definition:
#: docs/definitions/phases.md#training-or-not.
_GRADIENT: Final = Pattern(r"(?:^|/)(?:gradient_tape|gradients|transpose\()[^/]*/")
_UPDATE: Final = Pattern(r"^(?:Resource)?(?:Sparse)?Apply[A-Z]")


class OpPlacement(Frozen, frozen=True):
    """Executions and self times of a host's ops.

    Definition: docs/tools/overview_page.md#other-fields.

    Attributes:
        host_executions: Executions that put no work on a device; None where it is
            unknown which do.
        device_executions: Executions of ops on devices; None without device activity.
        dataset_executions: Executions of input pipeline ops, which count neither in
            `host_executions` nor in `device_executions`.
        host_self_ps: Self time of all host ops but those of input pipelines.
        device_self_ps: Self time of all device ops; None without device activity.
        host_eager_self_ps: The part of `host_self_ps` that ran eagerly; None where
            that is recorded of no execution.
        device_eager_self_ps: The part of `device_self_ps` that ran eagerly; None where
            that is recorded of no execution.
        is_training: True where some op computes a gradient or updates parameters;
            False where ops have names and none does; None without ops.
    """

    host_executions: int | None
    device_executions: int | None
    dataset_executions: int | None
    host_self_ps: int | None
    device_self_ps: int | None
    dataset_self_ps: int | None
    host_eager_self_ps: int | None
    device_eager_self_ps: int | None
    is_training: bool | None


def op_placement(
    *, host_ops: HostOps | Unavailable, device_ops: DeviceOps | Unavailable
) -> OpPlacement | Unavailable:
    """Divide ops by side; unavailable where neither side has any."""
    if isinstance(host_ops, Unavailable) and isinstance(device_ops, Unavailable):
        return host_ops
    names: list[tuple[str, str | None]] = []
    host: dict[str, int | None] = {}
    device: dict[str, int | None] = {}
    if not isinstance(host_ops, Unavailable):
        is_dataset = pl.col("category") == int(OpCategory.DATASET)
        dataset, ops = (
            host_ops.rows.filter(is_dataset),
            host_ops.rows.filter(~is_dataset),
        )
        launching: int | None = int(ops["launching"].sum())
        if ops["launching"].null_count():
            # Without any device nothing can have been put on one.
            nothing = (
                isinstance(device_ops, Unavailable)
                and device_ops.code == "NO_DEVICE_PLANE"
            )
            launching = 0 if nothing else None
        executions = int(ops["occurrences"].sum())
        known = int(ops["eager"].sum()) + int(ops["function"].sum())
        host = {
            "executions": None if launching is None else executions - launching,
            "dataset_executions": int(dataset["occurrences"].sum()),
            "self_ps": int(ops["self_ps"].sum()),
            "dataset_self_ps": int(dataset["self_ps"].sum()),
            "eager_self_ps": int(ops["eager_self_ps"].sum()) if known else None,
        }
        names += host_ops.rows[["name", "type"]].rows()
    if not isinstance(device_ops, Unavailable):
        ours = [int(evidence) for evidence in PROGRAM_EVIDENCE]
        rows = device_ops.rows.filter(pl.col("evidence").is_in(ours))
        # Unnamed work is work, too, but the number of its executions is unknown.
        if len(rows):
            marked = pl.col("eager") + pl.col("function")
            eager_ps = pl.col("total_ps") * pl.col("eager") / marked
            of_known = rows.filter(marked > 0)
            eager = of_known.select(eager_ps.sum().round()).item()
            device = {
                "executions": int(rows["occurrences"].sum()),
                "self_ps": int(rows["total_ps"].sum()),
                "eager_self_ps": int(eager) if len(of_known) else None,
            }
        names += rows[["name", "type"]].rows()
    is_training = any(
        _GRADIENT.search(name) or _UPDATE.match(op_type or "")
        for name, op_type in names
    )
    return OpPlacement(
        host_executions=host.get("executions"),
        device_executions=device.get("executions"),
        dataset_executions=host.get("dataset_executions"),
        host_self_ps=host.get("self_ps"),
        device_self_ps=device.get("self_ps"),
        dataset_self_ps=host.get("dataset_self_ps"),
        host_eager_self_ps=host.get("eager_self_ps"),
        device_eager_self_ps=device.get("eager_self_ps"),
        is_training=is_training if names else None,
    )
