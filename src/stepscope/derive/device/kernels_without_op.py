"""The note on kernels that belong to no op, with the reasons and their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.device.attribution import NoOp
from stepscope.trace.quality import QualityNote
from stepscope.units import duration_text

if TYPE_CHECKING:
    from stepscope.derive.device.attribution import ActivityOps

__all__ = ["kernels_without_op"]

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
    kernel = device_activity["kind"].is_in(["kernel", "collective"])
    rows = (
        device_activity.select("dur_ps")
        .with_columns(reason=pl.Series(activity_ops.no_op.astype(np.int64)))
        .filter(kernel)
    )
    without = (
        rows.filter(pl.col("reason") != int(NoOp.NAMED))
        .group_by("reason")
        .agg(pl.len(), pl.col("dur_ps").sum())
        .sort("dur_ps", "reason", descending=[True, False])
    )
    if without.is_empty():
        return []
    count, spent = int(without["len"].sum()), int(without["dur_ps"].sum())
    total = int(rows["dur_ps"].sum())
    share = f", {100 * spent / total:.1f} % of kernel time" if total else ""
    reasons = "; ".join(
        f"{number:,} ({duration_text(took)}): {_REASONS[NoOp(reason)]}"
        for reason, number, took in without.iter_rows()
    )
    return [
        QualityNote(
            kind="kernels_without_op",
            severity="info",
            count=count,
            scope="device activity",
            message=f"{count:,} of {rows.height:,} kernels ({duration_text(spent)}"
            f"{share}) belong to no op. {reasons}.",
        )
    ]
