"""Whether a recording shows how its program gets the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.input_pipeline.input_ops import input_ops
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import typical
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

UNASKED: Final = Unavailable(
    code="NO_TFDATA_EVENTS",
    reason="No event shows the program asking for its next batch, so waiting for "
    "input cannot be distinguished from other time without a known cause.",
    remedy=Remedy.NAME_FETCH,
)
#: Time that may hold the making of batches where no request for one was recorded.
UNTOLD: Final = ("between_ps", "unexplained_ps")


def asks(profile: ProfileData, host: str) -> bool:
    """Return whether the recording of a host shows a request for a batch."""
    classes = profile.derived(host, host_classes)
    if not isinstance(classes, Unavailable) and len(classes.input_wait):
        return True
    ops = profile.derived(host, input_ops)
    return not isinstance(ops, Unavailable) and ops.pipeline_calls > 0


def may_hide_input(rows: pl.DataFrame) -> bool:
    """Return whether rows without any wait for input hold time of unknown cause."""
    told = typical(rows)
    waits = told["input_ps"]
    if waits.null_count() or waits.sum():
        return False
    return bool(told.select(pl.sum_horizontal(UNTOLD).sum()).item())
