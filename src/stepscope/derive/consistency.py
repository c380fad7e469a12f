"""`consistency`: doubts that show only when the tables are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.derive.device.kernels_without_op import kernels_without_op
from stepscope.derive.steps.stored import spans_apart
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.peaks import DevicePeaks
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.memory.silent_devices import UnrecordedDevices
    from stepscope.derive.step_time.input_between_steps import InputBetweenSteps
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps


def consistency(
    *,
    tracks: pl.DataFrame,
    event_nesting: Nesting | Unavailable,
    correlation: Correlation | Unavailable,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
    activity_steps: NDArray[np.int32] | Unavailable,
    input_between_steps: InputBetweenSteps | Unavailable | None,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    device_peaks: DevicePeaks | Unavailable,
    unrecorded_devices: UnrecordedDevices | Unavailable,
) -> tuple[QualityNote, ...]:
    """Return notes with the columns of `quality`, to be shown beside them."""
    notes: list[QualityNote] = []
    if not isinstance(unrecorded_devices, Unavailable):
        notes += unrecorded_devices.notes()
    if not isinstance(event_nesting, Unavailable):
        notes += _overhangs(tracks, event_nesting.overhangs)
    if not isinstance(correlation, Unavailable):
        notes += correlation.notes
    if not isinstance(device_activity, Unavailable) and not isinstance(
        activity_ops, Unavailable
    ):
        notes += kernels_without_op(device_activity, activity_ops)
    if not isinstance(device_peaks, Unavailable):
        notes += device_peaks.notes
    if not isinstance(steps, Unavailable):
        notes += _inferred(steps)
        notes += _apart(steps)
        if not isinstance(activity_steps, Unavailable):
            notes += _without_step(activity_steps)
    if not isinstance(windows, Unavailable):
        notes += _only_dispatched(windows)
    if input_between_steps is not None and not isinstance(
        input_between_steps, Unavailable
    ):
        notes += _input_outside(input_between_steps)
    return tuple(notes)


def _overhangs(tracks: pl.DataFrame, overhangs: NDArray[np.int64]) -> list[QualityNote]:
    count = int(overhangs.sum())
    if not count:
        return []
    worst = int(overhangs.argmax())
    return [
        QualityNote(
            kind="event_outlives_parent",
            severity="info",
            count=count,
            scope=str(tracks["name"][worst]),
            message=f"{count:,} events end after their parent, most on the track "
            "named here; each instant counts for the event that started last.",
        )
    ]


def _inferred(steps: Steps) -> list[QualityNote]:
    if not steps.inferred:
        return []
    return [
        QualityNote(
            kind="steps_inferred",
            severity="info",
            count=len(steps.rows),
            scope="steps",
            message="The program marked no steps; they are inferred from "
            f"{steps.candidates[0].what} with a confidence of "
            f"{steps.confidence:.2f}.",
            remedy="Mark each step with Trace(name, step_num=i, _r=1).",
        )
    ]


def _apart(steps: Steps) -> list[QualityNote]:
    """Return a note where devices ran their parts of a step far from each other."""
    if steps.source != "device_line" or not len(steps.stored):
        return []
    spans = spans_apart(steps.stored)
    apart = spans.filter("apart")
    if not len(apart):
        return []
    main = spans.filter(~pl.col("apart") & pl.col("key").is_in(apart["key"].to_list()))
    first = main.row(0, named=True)
    other = apart.filter(pl.col("key") == first["key"]).row(0, named=True)
    ms = (
        max(first["start_ps"] - other["end_ps"], other["start_ps"] - first["end_ps"])
        / PS_PER_MS
    )
    devices = ", ".join(str(one) for one in sorted(set(apart["device"].to_list())))
    return [
        QualityNote(
            kind="steps_apart",
            severity="warning",
            count=len(apart),
            scope="steps",
            message=f"Devices worked on one step {ms:.0f} ms apart, so that it is no "
            "period of the program: the step that is shown is that of device "
            f"{first['device']}, and the work of device {devices} lies outside.",
            remedy="Record later, when all devices work on each step together.",
        )
    ]


def _only_dispatched(windows: Windows) -> list[QualityNote]:
    count = int(windows.rows["flags"].list.contains("dispatch_only").sum())
    if not count:
        return []
    return [
        QualityNote(
            kind="steps_dispatch_only",
            severity="warning",
            count=count,
            scope="steps",
            message="The steps' markers show when their work was asked for: most of it "
            "ran after the last one. The step times shown are times of the calls.",
            remedy="Wait for the result inside the marker of the last step, or before "
            "the recording is stopped.",
        )
    ]


def _without_step(activity_steps: NDArray[np.int32]) -> list[QualityNote]:
    count = int((activity_steps < 0).sum())
    if not count:
        return []
    return [
        QualityNote(
            kind="activity_without_step",
            severity="info",
            count=count,
            scope="device activity",
            message=f"{count:,} of {len(activity_steps):,} device activities belong "
            "to no step: nothing ties them to one.",
        )
    ]


def _input_outside(found: InputBetweenSteps) -> list[QualityNote]:
    if not found.outside:
        return []
    return [
        QualityNote(
            kind="input_outside_steps",
            severity="warning",
            count=found.gaps_with_wait,
            scope="steps",
            message=f"The program waits for input in {found.gaps_with_wait:,} of "
            f"{found.gaps:,} gaps between step markers and in no marker: the dataset "
            "iterator is outside the marker.",
            remedy="Move the call that fetches the batch inside the marker's context.",
        )
    ]
