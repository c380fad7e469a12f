"""The stored steps, with each instant charged to TensorFlow's largest event class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.stat_values import find_handle, rows_with_key
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DERIVED_LINES, DEVICE_ACTIVITY, TRACK_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Bools, Int64s, UInt8s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

_WHY: Final = package_reasons("compat_tensorflow")

_STEPS_LINE: Final = DERIVED_LINES.categories.to_list().index("steps")

HOST_COMPUTE: Final = 10
HOST_TO_HOST: Final = 70
HOST_TO_DEVICE: Final = 80
HOST_PREPARE: Final = 90
DEVICE_COLLECTIVES: Final = 100
HOST_WAIT_INPUT: Final = 110
DEVICE_TO_DEVICE: Final = 120
DEVICE_TO_HOST: Final = 130
DEVICE_COMPUTE_32: Final = 140
DEVICE_COMPUTE_16: Final = 150
#: Class number of events that the computation ignores; larger than all other numbers.
SKIPPED: Final = 255
#: Event class → category of the results; classes without an entry are `other`.
CLASS_CATEGORIES: Final = {
    HOST_COMPUTE: "host_compute",
    60: "compilation",
    HOST_TO_DEVICE: "input",
    HOST_PREPARE: "kernel_launch",
    DEVICE_COLLECTIVES: "device_collectives",
    HOST_WAIT_INPUT: "input",
    DEVICE_TO_DEVICE: "device_to_device",
    DEVICE_TO_HOST: "output",
    DEVICE_COMPUTE_32: "device_compute_32",
    DEVICE_COMPUTE_16: "device_compute_16",
    160: "device_to_device",
    170: "input",
}
#: Class → pattern of a host event's name. The first matching class counts; a name
#: without a match is host compute.
_HOST_RULES: Final = (
    (SKIPPED, r"^(?:train|test|TraceContext)[^/]*$"),
    (SKIPPED, r"^(?:EagerExecute|EagerLocalExecute|EagerKernelExecute|FunctionRun)"),
    (HOST_TO_DEVICE, r"(?i)^memcpyhtod|:InfeedEnqueue[A-Za-z0-9_]*$"),
    (HOST_TO_HOST, r"(?i)^memcpyhtoh"),
    (HOST_PREPARE, r"^ExecutorState::Process"),
    (HOST_WAIT_INPUT, r"^IteratorGetNext"),
)
#: Classes that a host event keeps even if the event launches device work.
_BEFORE_LAUNCH: Final = (SKIPPED, HOST_TO_DEVICE, HOST_TO_HOST)
#: Class → pattern of a device event's name. The first matching class counts; a name
#: without a match is device compute.
_DEVICE_RULES: Final = (
    (HOST_TO_DEVICE, r"(?i)^memcpyhtod"),
    (DEVICE_TO_HOST, r"(?i)^memcpydtoh"),
    (DEVICE_TO_DEVICE, r"(?i)^memcpydtod"),
    (DEVICE_COLLECTIVES, r"(?i)^nccl"),
)
_HALF_NAME: Final = r"half|fp16"
_THREAD: Final = TRACK_KINDS.categories.to_list().index("thread")


class Events(Frozen, frozen=True):
    """Classified events of the host or of the devices, one array element per event.

    Attributes:
        number: Class of the event; `SKIPPED` if the computation ignores the event.
        group: Step group stored in the file; negative for none.
        is_marker: Whether the event marks a step.
    """

    number: UInt8s
    group: Int64s
    start_ps: Int64s
    dur_ps: Int64s
    is_marker: Bools

    def without_device(self) -> Events:
        """Return the events with launch preparation counted as host compute."""
        number = np.where(self.number == HOST_PREPARE, HOST_COMPUTE, self.number)
        return msgspec.structs.replace(self, number=number.astype(np.uint8))

    def spans_of_markers(self) -> dict[int, tuple[str, int, int]]:
        """Map each step group to name, start and end of its longest marker event."""
        spans: dict[int, tuple[str, int, int]] = {}
        for row in np.flatnonzero(self.is_marker).tolist():
            group, begin = int(self.group[row]), int(self.start_ps[row])
            end = begin + int(self.dur_ps[row])
            _, first, last = spans.get(group, ("", 0, -1))
            if end - begin > last - first:
                spans[group] = (str(group), begin, end)
        return spans


def host_events(trace: TraceData, tables: Mapping[str, pl.DataFrame]) -> Events:
    """Return the events of host threads that have a stored step group."""
    events, tracks = tables["events"], tables["tracks"]
    grouped = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, StatKey.GROUP_ID)
    )
    on_host = tracks["device"].is_null().to_numpy() & (codes(tracks, "kind") == _THREAD)
    kept = on_host[handles(events, "track")[grouped.owner]] & (grouped.value >= 0)
    rows, groups = grouped.owner[kept], grouped.value[kept]
    by_name = _numbers_by_name(
        tables["event_types"]["name"], _HOST_RULES, otherwise=HOST_COMPUTE
    )
    number = by_name[handles(events, "type")[rows]].copy()
    owners = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, StatKey.STEP_NAME)
    ).owner
    is_marker: Bools = np.isin(rows, owners)
    names = tables["event_types"]["name"].str.contains(_HOST_RULES[0][1]).to_numpy()
    is_marker |= names[handles(events, "type")[rows]]
    number[is_marker] = SKIPPED
    launches = trace.table("launches")
    if not isinstance(launches, Unavailable):
        launching = np.isin(rows, handles(launches, "event"))
        number[launching & ~np.isin(number, _BEFORE_LAUNCH)] = HOST_PREPARE
    return Events(
        number,
        groups,
        ints(events, "start_ps")[rows],
        ints(events, "dur_ps")[rows],
        is_marker,
    )


def device_events(
    activity: pl.DataFrame, types: pl.DataFrame, trace: TraceData
) -> Events:
    """Return all device activity; without group or correlation id it is `SKIPPED`."""
    names = types["name"]
    by_name = _numbers_by_name(names, _DEVICE_RULES, otherwise=DEVICE_COMPUTE_32)
    half_name = names.str.contains(_HALF_NAME).to_numpy()
    group = activity["group"].fill_null(-1).to_numpy()
    correlated = activity["correlation"].is_not_null().to_numpy()
    type_of = handles(activity, "type")
    number = by_name[type_of].copy()
    shape = handles(activity, "shape")
    distinct = np.unique(shape[shape >= 0])
    texts = [trace.strings[number] for number in distinct.tolist()]
    half_shape = np.array([False, *("half" in text for text in texts)])
    place = np.where(shape >= 0, np.searchsorted(distinct, shape) + 1, 0)
    half = np.where(shape >= 0, half_shape[place], half_name[type_of])
    number[(number == DEVICE_COMPUTE_32) & half] = DEVICE_COMPUTE_16
    number[(group < 0) | ~correlated] = SKIPPED
    return Events(
        number,
        group,
        ints(activity, "start_ps"),
        ints(activity, "dur_ps"),
        np.zeros(len(group), np.bool_),
    )


def _numbers_by_name(
    names: pl.Series, rules: Sequence[tuple[int, str]], otherwise: int
) -> UInt8s:
    numbers: UInt8s = (
        pl.select(
            pl.coalesce(
                *(
                    pl.when(pl.lit(names).str.contains(pattern)).then(
                        pl.lit(number, pl.UInt8)
                    )
                    for number, pattern in rules
                )
            ).fill_null(otherwise)
        )
        .to_series()
        .to_numpy()
    )
    return numbers


class CompatStep(Frozen, frozen=True, eq=True):
    """One step as TensorFlow computes it.

    Attributes:
        start_ps: Start of the device's step, or of the step marker around it.
        duration_ps: Length of the step; the categories add up to it.
        category_ps: Category of the results → time charged to it.
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
    """Compute every stored step of the hosts as TensorFlow does.

    Returns:
        Steps by host and group; `Unavailable` if the file has no stored step groups,
        because only they determine which events belong to a step.
    """
    all_steps: list[CompatStep] = []
    for host in hosts:
        trace = profile.trace(host)
        tables = {}
        for name in ("tracks", "events", "event_types", "stats"):
            table = trace.table(name)
            if isinstance(table, Unavailable):
                return table
            tables[name] = table
        environment = trace.table("environment")
        if isinstance(environment, Unavailable) or not environment["grouped"].any():
            return _WHY["not_grouped"]
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
        spans = on_host.spans_of_markers() if on_cpu else _stored_spans(trace, tables)
        all_steps += [
            sweep.sweep_step(group, *span) for group, span in sorted(spans.items())
        ]
    return tuple(all_steps) if all_steps else _WHY["not_grouped"]


class _Sweep(Frozen, frozen=True):
    """The classified events of a host; `sweep_step` computes one step group."""

    host: str
    on_host: Events
    on_device: Events

    def sweep_step(
        self, group: int, name: str, start_ps: int, end_ps: int
    ) -> CompatStep:
        """Charge each instant to the class with the largest number that is active then.

        If the step's marker covers the given span, the step is the span of the marker.
        """
        on_host = self.on_host
        is_marker = on_host.is_marker & (on_host.group == group)
        for row in np.flatnonzero(is_marker).tolist():
            begin = int(on_host.start_ps[row])
            end = begin + int(on_host.dur_ps[row])
            if begin <= start_ps and end_ps <= end:
                start_ps, end_ps = begin, end
                break
        charged = dict.fromkeys(sorted({*CLASS_CATEGORIES.values(), "other"}), 0)
        sides = [
            (side, (side.group == group) & (side.number != SKIPPED))
            for side in (on_host, self.on_device)
        ]
        number, begun_ps, dur_ps = (
            np.concatenate([getattr(side, name)[rows] for side, rows in sides])
            for name in ("number", "start_ps", "dur_ps")
        )
        times_ps = _times_of_largest(number, begun_ps, dur_ps, start_ps, end_ps)
        for kind in np.flatnonzero(times_ps).tolist():
            charged[CLASS_CATEGORIES.get(kind, "other")] += int(times_ps[kind])
        charged["other"] += end_ps - start_ps - int(times_ps.sum())
        return CompatStep(self.host, group, name, start_ps, end_ps - start_ps, charged)


def _times_of_largest(
    number: UInt8s, start_ps: Int64s, dur_ps: Int64s, first_ps: int, last_ps: int
) -> Int64s:
    """Return the time in which each class is the largest, bound by bound.

    At equal times ends come before starts. An event without duration thus ends before
    it starts: its class stays the largest until an event of its class or of a larger
    class ends.
    """
    times = np.concatenate([start_ps + dur_ps, start_ps])
    begins = np.repeat([False, True], len(number))
    classes = np.tile(number.astype(np.int64), 2)
    order = np.lexsort((-classes, begins, times))
    active, spent = np.zeros(SKIPPED, np.int64), np.zeros(SKIPPED, np.int64)
    lengths = np.diff(np.clip(times[order], first_ps, last_ps)).tolist()
    largest = 0
    for row, length in zip(order.tolist(), lengths, strict=False):
        kind = int(classes[row])
        active[kind] += 1 if begins[row] else -1
        if begins[row]:
            largest = max(largest, kind)
        elif kind == largest:
            largest = int(np.flatnonzero(active[: kind + 1] > 0).max(initial=0))
        spent[largest] += length
    spent[0] = 0
    return spent


def _stored_spans(
    trace: TraceData, tables: Mapping[str, pl.DataFrame]
) -> dict[int, tuple[str, int, int]]:
    """Map each step group to name, start and end of its longest stored step.

    Without stored steps, a step group's range is the range of its device activity.
    """
    tracks, events = tables["tracks"], tables["events"]
    groups = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, StatKey.GROUP_ID)
    )
    is_steps = codes(tracks, "derived") == _STEPS_LINE
    kept = is_steps[handles(events, "track")[groups.owner]] & (groups.value >= 0)
    starts, durs = ints(events, "start_ps"), ints(events, "dur_ps")
    spans: dict[int, tuple[str, int, int]] = {}
    names = tables["event_types"]["name"]
    for row, group in zip(
        groups.owner[kept].tolist(), groups.value[kept].tolist(), strict=True
    ):
        begin, end = int(starts[row]), int(starts[row] + durs[row])
        if group not in spans or end - begin > spans[group][2] - spans[group][1]:
            spans[group] = (names[int(events["type"][row])], begin, end)
    if spans:
        return spans
    activity_spans = (
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
        for group, start_ps, end_ps in activity_spans.iter_rows()
    }
