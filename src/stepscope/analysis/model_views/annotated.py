"""The annotated calls of a host and what each of them cost, in all steps or in some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.derive.device.correlation import correlation
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.model.annotation_calls import AnnotationCalls
    from stepscope.derive.profile_data import ProfileData


class LaunchedWork(Frozen, frozen=True):
    """The activities of devices, and the annotated call that launched each.

    Attributes:
        call: int32 by row of device_activity; -1 for none.
        start_ps: int64 by row of device_activity.
        dur_ps: int64 by row of device_activity.
        device: int32 by row of device_activity; ordinal of its device.
        launches: int64 by call; its own launch calls with recorded work.
    """

    call: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    device: NDArray[np.int32]
    launches: NDArray[np.int64]


class Annotated(Frozen, frozen=True):
    """The annotated calls of one host.

    Attributes:
        host: Name of the host.
        found: All calls.
        chosen: By call: whether it counts.
        work: What they launched, or why nothing is known of it.
        step_rows: Steps of the host that the chosen calls may be in; None where the
            host has none.
    """

    host: str
    found: AnnotationCalls
    chosen: NDArray[np.bool_]
    work: LaunchedWork | Unavailable
    step_rows: pl.DataFrame | None

    def device_ps(self) -> NDArray[np.int64]:
        """Return by call the time of the device work that it launched itself."""
        if isinstance(self.work, Unavailable):
            return np.zeros(len(self.chosen), np.int64)
        return sums(self.work.call, self.work.dur_ps, len(self.chosen))

    def launches(self) -> NDArray[np.int64]:
        """Return by call its own launch calls with recorded work."""
        if isinstance(self.work, Unavailable):
            return np.zeros(len(self.chosen), np.int64)
        return self.work.launches


def annotated(
    profile: ProfileData, host: str, chosen_steps: Sequence[int] | None
) -> Annotated | Unavailable:
    """Look at the annotated calls of a host.

    Args:
        chosen_steps: Rows of the steps in which calls have to begin to count; None for
            every call.
    """
    found = profile.derived(host, annotation_calls)
    if isinstance(found, Unavailable):
        return found
    of_host = profile.derived(host, steps)
    rows = None
    if not isinstance(of_host, Unavailable) and not of_host.on_device:
        rows = of_host.rows.with_row_index("row")
    chosen = np.ones(len(found.event), np.bool_)
    if chosen_steps is not None:
        chosen = np.isin(found.step, np.array(chosen_steps, np.int32))
        rows = None if rows is None else rows[list(chosen_steps)]
    return Annotated(host, found, chosen, _work(profile, host, found), rows)


def sums(
    at: NDArray[np.int32], values: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Add up values by place; those at -1 are left out."""
    return totals_by(at, values, count=count).total


def _work(
    profile: ProfileData, host: str, found: AnnotationCalls
) -> LaunchedWork | Unavailable:
    if isinstance(found.of_activity, Unavailable):
        return found.of_activity
    if isinstance(found.of_launch, Unavailable):
        return found.of_launch
    activity = present(profile.table(host, "device_activity"))
    made = present(profile.derived(host, correlation)).activity_count_of_launch > 0
    return LaunchedWork(
        call=found.of_activity,
        start_ps=ints(activity, "start_ps"),
        dur_ps=ints(activity, "dur_ps"),
        device=handles(activity, "device"),
        launches=sums(found.of_launch, made.astype(np.int64), len(found.event)),
    )
