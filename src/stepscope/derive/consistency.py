"""`consistency`: notes on data quality that come from comparing several tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, ints
from stepscope.derive.columns.dense_codes import totals_by_code
from stepscope.derive.device.attribution import NoOp
from stepscope.derive.steps.stored import mark_separate_spans
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.array_types import Int32s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.peaks import DevicePeaks
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.memory.replay import UnrecordedDevices
    from stepscope.derive.step_time.input_between_steps import InputBetweenSteps
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

_KERNELS: Final = [ACTIVITY_CODES[kind] for kind in ("kernel", "collective")]
_REASONS: Final = {
    NoOp.NOT_ASKED: "launch calls were not recorded, or no op on the host was recorded",
    NoOp.NO_ID: "they have no id of a launch call",
    NoOp.NO_CALL: "their launch calls are not in the profile: they were made before "
    "recording began, or were not kept",
    NoOp.OUTSIDE: "their launch calls are outside of all ops",
}


def consistency(
    *,
    tracks: pl.DataFrame,
    event_nesting: Nesting | Unavailable,
    correlation: Correlation | Unavailable,
    steps: Steps | Unavailable,
    windows: Windows | Unavailable,
    activity_steps: Int32s | Unavailable,
    input_between_steps: InputBetweenSteps | Unavailable | None,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    device_peaks: DevicePeaks | Unavailable,
    unrecorded_devices: UnrecordedDevices | Unavailable,
) -> tuple[QualityNote, ...]:
    """Return notes on data quality, with the columns of the table `quality`."""
    notes: list[QualityNote] = []
    if not isinstance(unrecorded_devices, Unavailable):
        notes += unrecorded_devices.quality_notes()
    if not isinstance(event_nesting, Unavailable) and event_nesting.overhangs.any():
        overhangs = event_nesting.overhangs
        late = QualityNote(
            kind="event_outlives_parent",
            severity="info",
            count=int(overhangs.sum()),
            scope=str(tracks["name"][int(overhangs.argmax())]),
            message=f"{overhangs.sum():,} events end after their parent, most on the "
            "track named here; each instant counts for the event that started last.",
        )
        notes.append(late)
    if not isinstance(correlation, Unavailable):
        notes += correlation.notes
    if not isinstance(device_activity, Unavailable) and not isinstance(
        activity_ops, Unavailable
    ):
        notes += kernels_without_op(device_activity, activity_ops)
    if not isinstance(device_peaks, Unavailable):
        notes += device_peaks.notes
    notes += _step_notes(steps, activity_steps, windows, input_between_steps)
    return tuple(notes)


def _step_notes(
    steps: Steps | Unavailable,
    activity_steps: Int32s | Unavailable,
    windows: Windows | Unavailable,
    between: InputBetweenSteps | Unavailable | None,
) -> Iterator[QualityNote]:
    if not isinstance(steps, Unavailable):
        if steps.inferred:
            yield QualityNote(
                kind="steps_inferred",
                severity="info",
                count=len(steps.rows),
                scope="steps",
                message="The program marked no steps; they are inferred from "
                f"{steps.candidates[0].what} with a confidence of "
                f"{steps.confidence:.2f}.",
                remedy="Mark each step with Trace(name, step_num=i, _r=1).",
            )
        yield from _distant_parts(steps)
        if not isinstance(activity_steps, Unavailable) and (activity_steps < 0).any():
            count = int((activity_steps < 0).sum())
            yield QualityNote(
                kind="activity_without_step",
                severity="info",
                count=count,
                scope="device activity",
                message=f"{count:,} of {len(activity_steps):,} device activities "
                "have no step: they were launched before the first or after the last "
                "step, or no record assigns them to one.",
            )
    dispatched = 0
    if not isinstance(windows, Unavailable):
        dispatched = int(windows.rows["flags"].list.contains("dispatch_only").sum())
    if dispatched:
        yield QualityNote(
            kind="steps_dispatch_only",
            severity="warning",
            count=dispatched,
            scope="steps",
            message="The steps' markers show when work was launched: most of it ran "
            "after the last marker. The step times shown are times of the calls.",
            remedy="Wait for the result inside the marker of the last step, or before "
            "the recording is stopped.",
        )
    if between and not isinstance(between, Unavailable) and between.outside:
        yield QualityNote(
            kind="input_outside_steps",
            severity="warning",
            count=between.gaps_with_wait,
            scope="steps",
            message=f"The program waits for input in {between.gaps_with_wait:,} of "
            f"{between.gaps:,} gaps between step markers but in no marker: the dataset "
            "iterator is outside the marker.",
            remedy="Move the call that fetches the batch inside the marker's context.",
        )


def _distant_parts(steps: Steps) -> list[QualityNote]:
    """Return a note if devices ran their parts of a step at distant times."""
    if steps.source != "device_line" or not len(steps.stored):
        return []
    spans = mark_separate_spans(steps.stored)
    far = spans.filter("apart")
    if not len(far):
        return []
    main = spans.filter(~pl.col("apart") & pl.col("key").is_in(far["key"].to_list()))
    first = main.row(0, named=True)
    part = far.filter(pl.col("key") == first["key"]).row(0, named=True)
    ms = (
        max(first["start_ps"] - part["end_ps"], part["start_ps"] - first["end_ps"])
        / PS_PER_MS
    )
    devices = ", ".join(str(device) for device in sorted(set(far["device"].to_list())))
    return [
        QualityNote(
            kind="steps_apart",
            severity="warning",
            count=len(far),
            scope="steps",
            message=f"Devices worked on one step {ms:.0f} ms apart, so this step is "
            "not a period of the program: the step shown is that of device "
            f"{first['device']}; the work of device {devices} is outside of it.",
            remedy="Record later, when all devices work on each step together.",
        )
    ]


def kernels_without_op(
    device_activity: pl.DataFrame, activity_ops: ActivityOps
) -> list[QualityNote]:
    """Return a note on kernels and collectives without an op; none if all have one."""
    is_kernel = values_by_row(
        np.isin(np.arange(256), _KERNELS), codes(device_activity, "kind")
    )
    reason = np.where(is_kernel, activity_ops.no_op, np.int32(-1))
    sums = totals_by_code(reason, ints(device_activity, "dur_ps"), count=len(NoOp))
    numbers, times = sums.count.tolist(), sums.total.tolist()
    without = [cause for cause in NoOp if cause != NoOp.NAMED and numbers[cause]]
    if not without:
        return []
    without.sort(key=lambda cause: (-times[cause], cause))
    count, spent = (sum(each[cause] for cause in without) for each in (numbers, times))
    total = sum(times)
    share = f", {100 * spent / total:.1f} % of kernel time" if total else ""
    reasons = "; ".join(
        f"{numbers[cause]:,} ({duration_text(times[cause])}): {_REASONS[cause]}"
        for cause in without
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
