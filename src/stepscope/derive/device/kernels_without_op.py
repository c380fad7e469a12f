"""The note on kernels that belong to no op, with the reasons and their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, ints
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.derive.device.attribution import NoOp
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.by_row import by_row
from stepscope.units import duration_text

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.device.attribution import ActivityOps

_KERNELS: Final = [
    ACTIVITY_KINDS.categories.to_list().index(kind) for kind in ("kernel", "collective")
]
_REASONS: Final = {
    NoOp.NOT_ASKED: "launch calls were not recorded, or no op on the host was",
    NoOp.NO_ID: "they carry no id that leads to a launch call",
    NoOp.NO_CALL: "their launch calls are not in the profile: they were made before "
    "recording began, or were not kept",
    NoOp.OUTSIDE: "their launch calls lie in no op",
}


def kernels_without_op(
    device_activity: pl.DataFrame, activity_ops: ActivityOps
) -> list[QualityNote]:
    """Return one note on kernels and collectives; none where all have an op."""
    is_kernel = by_row(
        np.isin(np.arange(256), _KERNELS), codes(device_activity, "kind")
    )
    reason = np.where(is_kernel, activity_ops.no_op, np.int32(-1))
    sums = totals_by(reason, ints(device_activity, "dur_ps"), count=len(NoOp))
    numbers, times = sums.count.tolist(), sums.total.tolist()
    without = [it for it in NoOp if it != NoOp.NAMED and numbers[it]]
    if not without:
        return []
    without.sort(key=lambda it: (-times[it], it))
    count, spent = (sum(each[it] for it in without) for each in (numbers, times))
    total = sum(times)
    share = f", {100 * spent / total:.1f} % of kernel time" if total else ""
    reasons = "; ".join(
        f"{numbers[it]:,} ({duration_text(times[it])}): {_REASONS[it]}"
        for it in without
    )
    return [
        QualityNote(
            kind="kernels_without_op",
            severity="info",
            count=count,
            scope="device activity",
            message=f"{count:,} of {sum(numbers):,} kernels ({duration_text(spent)}"
            f"{share}) belong to no op. {reasons}.",
        )
    ]
