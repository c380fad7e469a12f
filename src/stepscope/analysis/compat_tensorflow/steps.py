"""The stored steps, each instant charged to the largest class that is active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.compat_tensorflow.classes import (
    CLASS_CATEGORIES,
    SKIPPED,
    Events,
    device_events,
    host_events,
)
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DEVICE_ACTIVITY
from stepscope.trace.tracks import DERIVED_LINES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

_STEPS_LINE: Final = DERIVED_LINES.categories.to_list().index("steps")


class CompatStep(Frozen, frozen=True, eq=True):
    """One step as TensorFlow would have written it.

    Attributes:
        host: Name of the host.
        group: Stored step group.
        name: Name of the stored step.
        start_ps: Begin of the device's step, or of the marker around it.
        duration_ps: Length of the step; the categories add up to it.
        category_ps: The ten categories of the results.
    """

    host: str
    group: int
    name: str
    start_ps: int
    duration_ps: int
    category_ps: dict[str, int]


def compat_steps(
    profile: ProfileData, hosts: Sequence[str]
) -> tuple[CompatStep, ...] | Unavailable:
    """Sweep every stored step of the hosts as TensorFlow swept it.

    Returns:
        Steps in order of hosts and groups; `Unavailable` where the producer stored no
        step groups, because only they say which events the sweep saw.
    """
    found: list[CompatStep] = []
    for host in hosts:
        steps = _steps_of(profile, host)
        if isinstance(steps, Unavailable):
            return steps
        found += steps
    if not found:
        return _NOT_GROUPED
    return tuple(found)


_NOT_GROUPED: Final = Unavailable(
    code="NO_STEPS",
    reason="The file holds no stored step groups, so the events that its producer "
    "counted as steps are unknown.",
    remedy="Use the tool without compat; it finds the steps itself.",
)


def _steps_of(profile: ProfileData, host: str) -> list[CompatStep] | Unavailable:
    trace = profile.trace(host)
    tables = {}
    for name in ("tracks", "events", "event_types", "stats"):
        table = trace.table(name)
        if isinstance(table, Unavailable):
            return table
        tables[name] = table
    if not _is_grouped(trace):
        return _NOT_GROUPED
    activity = trace.table("device_activity")
    on_cpu = isinstance(trace.table("devices"), Unavailable)
    if isinstance(activity, Unavailable):
        if not on_cpu:
            return activity
        activity = pl.DataFrame(schema=DEVICE_ACTIVITY.dtypes())
    tables["device_activity"] = activity
    swept = device_events(activity, tables["event_types"], trace)
    on_host = host_events(trace, tables)
    sweep = _Sweep(host, on_host.without_device() if on_cpu else on_host, swept)
    spans = on_host.marked() if on_cpu else _stored_spans(trace, tables)
    return [sweep.step(group, *span) for group, span in sorted(spans.items())]


def _is_grouped(trace: TraceData) -> bool:
    environment = trace.table("environment")
    return not isinstance(environment, Unavailable) and bool(
        environment["grouped"].any()
    )


class _Sweep(Frozen, frozen=True):
    """The classified events of a host, ready to be swept group by group."""

    host: str
    on_host: Events
    on_device: Events

    def step(self, group: int, name: str, start_ps: int, end_ps: int) -> CompatStep:
        """Charge each instant to the largest class that is active."""
        start_ps, end_ps = self._with_marker(group, start_ps, end_ps)
        left = Spans.of([(start_ps, end_ps)])
        charged = dict.fromkeys(sorted({*CLASS_CATEGORIES.values(), "other"}), 0)
        numbers = np.union1d(self.on_host.number, self.on_device.number)
        for number in sorted(numbers.tolist(), reverse=True):
            if number == SKIPPED:
                continue
            active = self.on_host.of_group(group, number) | self.on_device.of_group(
                group, number
            )
            category = CLASS_CATEGORIES.get(number, "other")
            charged[category] += (left & active).length_ps
            left = left - active
        charged["other"] += left.length_ps
        return CompatStep(self.host, group, name, start_ps, end_ps - start_ps, charged)

    def _with_marker(self, group: int, start_ps: int, end_ps: int) -> tuple[int, int]:
        """Return the marker's span if it includes the given one, else the given one."""
        events = self.on_host
        for row in np.flatnonzero(events.is_marker & (events.group == group)).tolist():
            begin = int(events.start_ps[row])
            end = begin + int(events.dur_ps[row])
            if begin <= start_ps and end_ps <= end:
                return begin, end
        return start_ps, end_ps


def _stored_spans(
    trace: TraceData, tables: Mapping[str, pl.DataFrame]
) -> dict[int, tuple[str, int, int]]:
    """Map groups to name, begin and end of their longest stored step or activity."""
    tracks, events = tables["tracks"], tables["events"]
    found = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, StatKey.GROUP_ID)
    )
    is_steps = codes(tracks, "derived") == _STEPS_LINE
    kept = is_steps[handles(events, "track")[found.owner]] & (found.value >= 0)
    starts, durs = ints(events, "start_ps"), ints(events, "dur_ps")
    spans: dict[int, tuple[str, int, int]] = {}
    names = tables["event_types"]["name"]
    for row, group in zip(
        found.owner[kept].tolist(), found.value[kept].tolist(), strict=True
    ):
        begin, end = int(starts[row]), int(starts[row] + durs[row])
        if group not in spans or end - begin > spans[group][2] - spans[group][1]:
            spans[group] = (names[int(events["type"][row])], begin, end)
    if spans:
        return spans
    hulls = (
        tables["device_activity"]
        .filter(pl.col("group") >= 0)
        .group_by("group")
        .agg(
            pl.col("start_ps").min(),
            (pl.col("start_ps") + pl.col("dur_ps")).max().alias("end_ps"),
        )
    )
    return {
        group: (str(group), start_ps, end_ps)
        for group, start_ps, end_ps in hulls.iter_rows()
    }
