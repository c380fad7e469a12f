"""`blame`: what each device was waiting for while it did nothing.

The breakdown of a step says what the host was doing while a device was idle; blame
follows the work that ended the wait back to its launch. The walk stays on the union of
the step threads: the tables do not record which thread woke which.

Definition: docs/definitions/idle-time.md#blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.step_time.device_sets import DeviceSets, OneDevice
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

__all__ = ["CAUSES", "Blame", "DeviceBlame", "blame"]

#: Every instant of idle time has exactly one of these causes.
#: switch: too short to have a cause; device: the launch was queued in time, so the work
#: waited for other device work; latency: launched and on its way; then what the
#: launching host did before the launch; unknown: the recording does not show the cause.
CAUSES: Final = (
    "switch",
    "device",
    "latency",
    "input",
    "compile",
    "launch",
    "host_compute",
    "sync",
    "python",
    "unknown",
)


class DeviceBlame(Frozen, frozen=True):
    """The idle time of one device, taken apart.

    Attributes:
        device: Ordinal of the device.
        inside: Cause → idle time that ends within a step.
        between: Cause → idle time that ends with a step's first activity, or with
            none.
        starved: Idle intervals inside steps that a launch in time would have filled:
            `start_ps`, `end_ps`, `activity` (row of the activity that ended it),
            `launch` (row of that activity's launch), `after_sync` (a synchronisation
            came before that launch).
    """

    device: int
    inside: dict[str, Spans]
    between: dict[str, Spans]
    starved: pl.DataFrame


class Blame(Frozen, frozen=True):
    """The idle time of all devices, from the first window's start to the last's end.

    Attributes:
        devices: One entry per device with activity.
    """

    devices: tuple[DeviceBlame, ...]


def blame(
    *,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    correlation: Correlation,
    launch_facts: LaunchFacts,
    device_sets: DeviceSets,
    host_classes: HostClasses,
    windows: Windows,
    activity_steps: NDArray[np.int32] | Unavailable,
) -> Blame | Unavailable:
    """Give each idle instant of each device a cause.

    Args:
        device_activity: The table.
        launches: The table.
        correlation: Launch of each activity.
        launch_facts: Launch latency and shortest gap.
        device_sets: When each device was busy.
        host_classes: What the step threads did.
        windows: The windows; blame covers their hull.
        activity_steps: Step of each activity, -1 for none; without steps all idle
            time is inside.
    """
    rows = windows.rows
    if not rows.height:
        return Unavailable(
            code="NO_SAMPLES",
            reason="The profile holds no window of time.",
            remedy="Record again while the program runs.",
        )
    hull = (int(ints(rows, "start_ps").min()), int(ints(rows, "end_ps").max()))
    steps = None if isinstance(activity_steps, Unavailable) else activity_steps
    scene = _Scene(
        start_ps=ints(device_activity, "start_ps"),
        dur_ps=ints(device_activity, "dur_ps"),
        device=handles(device_activity, "device"),
        launch_of=correlation.launch_of_activity,
        called_ps=ints(launches, "start_ps"),
        returned_ps=ints(launches, "start_ps") + ints(launches, "dur_ps"),
        first=None if steps is None else _first_of_step(device_activity, steps),
        facts=launch_facts,
        host=host_classes,
    )
    return Blame(tuple(scene.blame(one, hull) for one in device_sets.devices))


def _first_of_step(
    device_activity: pl.DataFrame, steps: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return True for activities that begin as the first of a step on their device."""
    start_ps = ints(device_activity, "start_ps")
    device = handles(device_activity, "device").astype(np.int64)
    known = np.flatnonzero(steps >= 0)
    key = device[known] * (int(steps.max(initial=0)) + 1) + steps[known]
    order = np.lexsort((start_ps[known], key))
    sorted_key = key[order]
    heads = np.concatenate(([True], sorted_key[1:] != sorted_key[:-1]))
    first_start = start_ps[known][order][heads]
    group = np.cumsum(heads) - 1
    found = np.zeros(len(steps), np.bool_)
    if len(known):
        found[known[order]] = start_ps[known][order] == first_start[group]
    return found


class _Idle(Frozen, frozen=True):
    """Maximal idle intervals; what ended each and its launch, -1 for none."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    activity: NDArray[np.int64]
    launch: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Idle:
        return _Idle(
            self.start_ps[chosen],
            self.end_ps[chosen],
            self.activity[chosen],
            self.launch[chosen],
        )

    @property
    def spans(self) -> Spans:
        return Spans(self.start_ps, self.end_ps)


class _Scene(Frozen, frozen=True):
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    device: NDArray[np.int32]
    launch_of: NDArray[np.int32]
    called_ps: NDArray[np.int64]
    returned_ps: NDArray[np.int64]
    first: NDArray[np.bool_] | None
    facts: LaunchFacts
    host: HostClasses

    def blame(self, one: OneDevice, hull: tuple[int, int]) -> DeviceBlame:
        idle = self._idle(one, hull)
        between = self._between(idle)
        inside = idle.where(~between)
        return DeviceBlame(
            device=one.device,
            inside=self._causes(inside),
            between=self._causes(idle.where(between)),
            starved=self._starved_frame(inside),
        )

    def _idle(self, one: OneDevice, hull: tuple[int, int]) -> _Idle:
        gaps = one.busy.gaps(*hull)
        mine = np.flatnonzero((self.device == one.device) & (self.dur_ps > 0))
        mine = mine[np.argsort(self.start_ps[mine], kind="stable")]
        starts = self.start_ps[mine]
        at = np.searchsorted(starts, gaps.end_ps)
        at = np.minimum(at, len(mine) - 1)
        ends_it = starts[at] == gaps.end_ps
        activity = np.where(ends_it, mine[at], -1)
        launch = np.where(ends_it, self.launch_of[mine[at]], -1)
        return _Idle(gaps.start_ps, gaps.end_ps, activity, launch)

    def _between(self, idle: _Idle) -> NDArray[np.bool_]:
        if self.first is None:
            return np.zeros(len(idle.start_ps), np.bool_)
        found: NDArray[np.bool_] = (idle.activity < 0) | self.first[idle.activity]
        return found

    def _is_starved(self, idle: _Idle) -> NDArray[np.bool_]:
        """Return where the launch call returned too late to keep the device busy."""
        returned = self.returned_ps[idle.launch]
        found: NDArray[np.bool_] = (
            self._is_long(idle)
            & (idle.launch >= 0)
            & (returned > idle.start_ps - self.facts.latency_ps)
        )
        return found

    def _is_long(self, idle: _Idle) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = idle.end_ps - idle.start_ps > self.facts.switch_ps
        return found

    def _causes(self, idle: _Idle) -> dict[str, Spans]:
        long, starved = self._is_long(idle), self._is_starved(idle)
        known = idle.launch >= 0
        late = idle.where(starved)
        called = np.clip(self.called_ps[late.launch], late.start_ps, late.end_ps)
        found = {
            "switch": idle.where(~long).spans,
            "device": idle.where(long & known & ~starved).spans,
            "latency": _from_pairs(called, late.end_ps),
        }
        rest = _from_pairs(late.start_ps, called)
        for cause, spans in self._host_sets():
            found[cause] = rest & spans
            rest = rest - spans
        found["unknown"] = idle.where(long & ~known).spans | rest
        return {cause: found[cause] for cause in CAUSES}

    def _host_sets(self) -> tuple[tuple[str, Spans], ...]:
        """Return what the host did, in the order in which the breakdown charges it."""
        host = self.host
        sets = (
            ("input", host.input_wait),
            ("compile", host.compile),
            ("launch", host.launch),
            ("host_compute", host.host_compute),
            ("sync", host.sync),
            ("python", host.python),
        )
        # Sets that could not be separated stay unknown.
        return tuple(
            (cause, Spans.empty() if isinstance(spans, Unavailable) else spans)
            for cause, spans in sets
        )

    def _starved_frame(self, idle: _Idle) -> pl.DataFrame:
        late = idle.where(self._is_starved(idle))
        called = np.clip(self.called_ps[late.launch], late.start_ps, late.end_ps)
        # Where launches are known, so are the step threads and their syncs.
        sync = self.host.sync
        if isinstance(sync, Unavailable):
            sync = Spans.empty()
        drained = sync.within(late.start_ps - self.facts.latency_ps, called)
        return pl.DataFrame(
            {
                "start_ps": late.start_ps,
                "end_ps": late.end_ps,
                "activity": late.activity.astype(np.int32),
                "launch": late.launch.astype(np.int32),
                "after_sync": drained > 0,
            }
        )


def _from_pairs(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Spans:
    """Return ascending disjoint pairs as a set, without those of no length."""
    some = starts < ends
    return Spans(starts[some], ends[some])
