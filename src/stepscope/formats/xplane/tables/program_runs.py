"""Runs of compiled programs on cores, and the calls of the host that queue them.

Where a device runs whole programs, as a TPU does, no call of the host belongs to one
op. Each run of a program has an id, which the call carries that queues it; all ops of
the run come from that call.

Definition: docs/formats/xplane.md#executions-of-programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.xplane.decoded.recording import Recording

_RUN: Final = "run_id"
_DEVICE: Final = "device_ordinal"


class ProgramRuns(Frozen, frozen=True):
    """The queued runs of a file: arrays of equal length, by device and then start.

    The number of a run in this list is the id that its call and its ops share.

    Attributes:
        call: Row of events of the call that queued the run.
        device: Ordinal of the device.
        start_ps: When the run began on the device.
        end_ps: When it ended.
    """

    call: NDArray[np.int64]
    device: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def at(self, device: int, times_ps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the run of a device that each time lies in, -1 for none."""
        first, last = np.searchsorted(self.device, (device, device + 1)).tolist()
        if first == last:
            return np.full(len(times_ps), -1)
        begun = np.searchsorted(self.start_ps[first:last], times_ps, side="right")
        run = first + begun - 1
        within = (begun > 0) & (times_ps < self.end_ps[run])
        return np.where(within, run, -1)


def program_runs(recording: Recording) -> ProgramRuns:
    """Match the runs that devices recorded with the calls that queued them.

    The host notes an id more than once: the call is the first of them, the others tell
    that the run is done.
    """
    is_core = any(it.kind == "core" for it in recording.tracks)
    calls = _calls(recording) if is_core else {}
    found = [
        (calls[device, run], device, start, end)
        for device, run, start, end in (_runs(recording) if calls else ())
        if (device, run) in calls
    ]
    found.sort(key=lambda one: one[1:3])
    columns = np.array(found, np.int64).reshape(-1, 4).T.copy()
    return ProgramRuns(*columns)


def _calls(recording: Recording) -> dict[tuple[int, int], int]:
    """Return by device and id of a run the first event of the host that has both."""
    rows, ids = recording.host_values(_RUN)
    if not len(rows):
        return {}
    devices, told = recording.values_at([_DEVICE], rows)[_DEVICE].integers()
    numbers, known = ids.integers()
    start_ps = recording.timeline.start_ps[rows]
    found: dict[tuple[int, int], int] = {}
    for at in np.argsort(start_ps, kind="stable").tolist():
        if told[at] and known[at]:
            found.setdefault((int(devices[at]), int(numbers[at])), int(rows[at]))
    return found


def _runs(recording: Recording) -> list[tuple[int, int, int, int]]:
    """Return device, id, begin and end of each run that a device recorded."""
    line = recording.timeline
    found: list[tuple[int, int, int, int]] = []
    for track, it in enumerate(recording.tracks):
        device = it.role.device
        if it.derived != "xla_modules" or device is None:
            continue
        begin, end = int(line.event_begin[track]), int(line.event_end[track])
        ids, known = recording.values_in([_RUN], begin, end)[_RUN].integers()
        start_ps = line.start_ps[begin:end]
        end_ps = start_ps + line.dur_ps[begin:end]
        found += [
            (device, *one)
            for one, is_known in zip(
                zip(*(it.tolist() for it in (ids, start_ps, end_ps)), strict=True),
                known.tolist(),
                strict=True,
            )
            if is_known
        ]
    return found
