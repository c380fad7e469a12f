"""What TensorFlow itself computed at capture time, as an oracle for tests and sceptics.

Its classification counts copies as compute and takes the device's span for the step
(spec: tools, section 5.4). The numbers here follow it to the nanosecond; the tools'
own numbers differ where it is wrong, and their pages say how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.overview_ops import Eager, Placement
from stepscope.analysis.statistics import statistics_of
from stepscope.analysis.step_summary import Step, StepSummary, bottleneck_of
from stepscope.derive.arrays import codes, handles, ints
from stepscope.derive.attribution import OpEvidence
from stepscope.derive.breakdown import CATEGORIES
from stepscope.derive.spans import Spans
from stepscope.derive.stat_values import find_handle, rows_with_key
from stepscope.trace.tracks import DERIVED_LINES, TRACK_KINDS
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

__all__ = ["CompatStep", "compat_placement", "compat_steps", "compat_summary"]

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
#: Larger than any class: an event that the sweep leaves out.
_SKIPPED: Final = 255

#: Event class → category of the results; what is not listed is `other`.
_CATEGORIES: Final = {
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
#: First match of a host event's name; what matches none is host compute.
_HOST_RULES: Final = (
    (_SKIPPED, r"^(?:train|test|TraceContext)[^/]*$"),
    (_SKIPPED, r"^(?:EagerExecute|EagerLocalExecute|EagerKernelExecute|FunctionRun)"),
    (HOST_TO_DEVICE, r"(?i)^memcpyhtod|:InfeedEnqueue[A-Za-z0-9_]*$"),
    (HOST_TO_HOST, r"(?i)^memcpyhtoh"),
    (HOST_PREPARE, r"^ExecutorState::Process"),
    (HOST_WAIT_INPUT, r"^IteratorGetNext"),
)
#: Classes that a correlation id overrides.
_BEFORE_LAUNCH: Final = (_SKIPPED, HOST_TO_DEVICE, HOST_TO_HOST)
#: First match of a device event's name; what matches none is compute.
_DEVICE_RULES: Final = (
    (HOST_TO_DEVICE, r"(?i)^memcpyhtod"),
    (DEVICE_TO_HOST, r"(?i)^memcpydtoh"),
    (DEVICE_TO_DEVICE, r"(?i)^memcpydtod"),
    (DEVICE_COLLECTIVES, r"(?i)^nccl"),
)
_HALF_NAME: Final = r"half|fp16"
_STEPS_LINE: Final = DERIVED_LINES.categories.to_list().index("steps")
_THREAD: Final = TRACK_KINDS.categories.to_list().index("thread")


@dataclass(frozen=True, slots=True)
class CompatStep:
    """One step as TensorFlow would have written it.

    Attributes:
        host: Host.
        group: Stored step group.
        name: Name of the stored step.
        start_ps: Begin of the device's step, or of the marker around it.
        duration_ps: Its length; the categories add up to it.
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
    """Every stored step of the hosts, swept as TensorFlow swept it.

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


def compat_summary(
    steps: Sequence[CompatStep],
) -> tuple[tuple[Step, ...], StepSummary, tuple[Missing, ...]]:
    """The steps as a page shows them, and their means."""
    frame = pl.DataFrame(
        [{"step_ps": step.duration_ps, **step.category_ps} for step in steps]
    )
    times, missing = statistics_of(
        frame["step_ps"], field="step_time_ms", scale=PS_PER_MS
    )
    total = int(frame["step_ps"].sum())
    sums = {name: int(frame[name].sum()) for name in CATEGORIES}
    shares = {
        name: 100.0 * value / total if total else None for name, value in sums.items()
    }
    busy = sum(sums[name] for name in _ON_DEVICE)
    busy_percent = 100.0 * busy / total if total else None
    summary = StepSummary(
        step_count=len(steps),
        row_count=len(steps),
        step_time_ms=times,
        device_step_time_ms=times,
        breakdown_ms={
            name: value / len(steps) / PS_PER_MS for name, value in sums.items()
        },
        breakdown_std_ms={
            name: statistics_of(frame[name], field=name, scale=PS_PER_MS)[0].std
            for name in CATEGORIES
        },
        breakdown_percent=shares,
        breakdown_detail_ms={},
        overlapped_ms=None,
        device_execution_percent=busy_percent,
        kernel_launch_percent=shares["kernel_launch"],
        input_percent=shares["input"],
        idle_percent=None if busy_percent is None else 100.0 - busy_percent,
        any_device=None,
        bottleneck=bottleneck_of(shares["input"]),
    )
    absent = tuple(
        _NOT_IN_COMPAT.for_field(field)
        for field in (
            "breakdown_detail_ms",
            "overlapped_ms",
            "any_device",
            "op_placement.host_self_time_percent",
            "op_placement.device_self_time_percent",
            "op_placement.dataset_executions",
            "steps.device_working_ms",
            "steps.idle_input_ms",
            "steps.gap_ms",
            "steps.device_busy_ms",
        )
    )
    return tuple(map(_step, steps)), summary, (*missing, *absent)


def compat_placement(
    profile: ProfileData, hosts: Sequence[str]
) -> tuple[Placement, Eager] | Unavailable:
    """Shares of op executions as TensorFlow counts them.

    It counts input pipeline ops as host ops, ops that launch device work on both
    sides, and on the device only what carries an annotation.
    """
    executions = device_executions = 0
    time = eager = device_time = device_eager = 0
    for host in hosts:
        host_ops = profile.derived(host, "host_ops")
        device_ops = profile.derived(host, "device_ops")
        placed = profile.derived(host, "op_placement")
        for value in (host_ops, device_ops, placed):
            if isinstance(value, Unavailable):
                return value
        annotated = device_ops.rows.filter(pl.col("evidence").is_in(_ANNOTATED))
        executions += int(host_ops.rows["occurrences"].sum())
        device_executions += int(annotated["occurrences"].sum())
        time += int(host_ops.rows["self_ps"].sum())
        eager += int(host_ops.rows["eager_self_ps"].sum())
        device_time += placed.device_self_ps or 0
        device_eager += placed.device_eager_self_ps or 0
    both = executions + device_executions
    placement = Placement(
        host_op_percent=100.0 * executions / both if both else None,
        device_op_percent=100.0 * device_executions / both if both else None,
        host_self_time_percent=None,
        device_self_time_percent=None,
        host_executions=executions,
        device_executions=device_executions,
        dataset_executions=None,
    )
    return placement, Eager(
        host_percent=100.0 * eager / time if time else None,
        device_percent=100.0 * device_eager / device_time if device_time else None,
    )


_ANNOTATED: Final = [
    int(evidence)
    for evidence in (OpEvidence.HLO, OpEvidence.HLO_NAME, OpEvidence.ANNOTATION)
]
#: Categories that are all device time under these rules.
_ON_DEVICE: Final = (
    "device_compute_16",
    "device_compute_32",
    "device_collectives",
    "device_to_device",
    "output",
)
_NOT_IN_COMPAT: Final = Unavailable(
    code="NOT_RECORDED",
    reason="TensorFlow's own results do not have this.",
    remedy="Use the tool without compat.",
)


def _step(step: CompatStep) -> Step:
    return Step(
        step=step.group,
        name=step.name,
        host=step.host,
        start_ms=step.start_ps / PS_PER_MS,
        duration_ms=step.duration_ps / PS_PER_MS,
        device_step_time_ms=step.duration_ps / PS_PER_MS,
        flags=(),
        breakdown_ms={name: step.category_ps[name] / PS_PER_MS for name in CATEGORIES},
        device_working_ms=None,
        idle_input_ms=None,
        gap_ms=None,
        device_busy_ms=None,
        device_busy_least_ms=None,
        device_busy_most_ms=None,
    )


_NOT_GROUPED: Final = Unavailable(
    code="NO_STEPS",
    reason="The file holds no stored step groups, so the events that its producer "
    "counted as steps are unknown.",
    remedy="Use the tool without compat; it finds the steps itself.",
)


def _steps_of(profile: ProfileData, host: str) -> list[CompatStep] | Unavailable:
    trace = profile.trace(host)
    tables = {}
    for name in ("tracks", "events", "event_types", "stats", "device_activity"):
        table = trace.table(name)
        if isinstance(table, Unavailable):
            return table
        tables[name] = table
    if not _is_grouped(trace):
        return _NOT_GROUPED
    swept = _device_events(tables["device_activity"], tables["event_types"], trace)
    sweep = _Sweep(host, _host_events(trace, tables), swept)
    spans = _stored_spans(trace, tables)
    return [sweep.step(group, *span) for group, span in sorted(spans.items())]


def _is_grouped(trace: TraceData) -> bool:
    environment = trace.table("environment")
    return not isinstance(environment, Unavailable) and bool(
        environment["grouped"].any()
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Events:
    """Classified events of one side."""

    number: NDArray[np.uint8]
    group: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    is_marker: NDArray[np.bool_]

    def of_group(self, group: int, number: int) -> Spans:
        rows = (self.group == group) & (self.number == number)
        return Spans.from_events(self.start_ps[rows], self.dur_ps[rows])


@dataclass(frozen=True, eq=False, slots=True)
class _Sweep:
    """The classified events of a host, ready to be swept group by group."""

    host: str
    on_host: _Events
    on_device: _Events

    def step(self, group: int, name: str, start_ps: int, end_ps: int) -> CompatStep:
        """Charge each instant to the largest class that is active."""
        start_ps, end_ps = self._with_marker(group, start_ps, end_ps)
        left = Spans.of([(start_ps, end_ps)])
        charged = dict.fromkeys(sorted({*_CATEGORIES.values(), "other"}), 0)
        numbers = np.union1d(self.on_host.number, self.on_device.number)
        for number in sorted(numbers.tolist(), reverse=True):
            if number == _SKIPPED:
                continue
            active = self.on_host.of_group(group, number) | self.on_device.of_group(
                group, number
            )
            category = _CATEGORIES.get(number, "other")
            charged[category] += (left & active).length_ps
            left = left - active
        charged["other"] += left.length_ps
        return CompatStep(self.host, group, name, start_ps, end_ps - start_ps, charged)

    def _with_marker(self, group: int, start_ps: int, end_ps: int) -> tuple[int, int]:
        """The marker's span where it includes the device's, as TensorFlow chose."""
        events = self.on_host
        for row in np.flatnonzero(events.is_marker & (events.group == group)).tolist():
            begin = int(events.start_ps[row])
            end = begin + int(events.dur_ps[row])
            if begin <= start_ps and end_ps <= end:
                return begin, end
        return start_ps, end_ps


def _first_match(names: pl.Series, rules: Sequence[tuple[int, str]]) -> pl.Expr:
    return pl.coalesce(
        *(
            pl.when(pl.lit(names).str.contains(pattern)).then(pl.lit(number, pl.UInt8))
            for number, pattern in rules
        )
    )


def _numbers_by_name(
    names: pl.Series, rules: Sequence[tuple[int, str]], otherwise: int
) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = (
        pl.select(_first_match(names, rules).fill_null(otherwise))
        .to_series()
        .to_numpy()
    )
    return found


def _host_events(trace: TraceData, tables: Mapping[str, pl.DataFrame]) -> _Events:
    events, tracks = tables["events"], tables["tracks"]
    found = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, "group_id")
    )
    on_host = tracks["device"].is_null().to_numpy() & (codes(tracks, "kind") == _THREAD)
    kept = on_host[handles(events, "track")[found.owner]] & (found.value >= 0)
    rows, groups = found.owner[kept], found.value[kept]
    by_name = _numbers_by_name(
        tables["event_types"]["name"], _HOST_RULES, otherwise=HOST_COMPUTE
    )
    number = by_name[handles(events, "type")[rows]].copy()
    is_marker = _with_stat(trace, tables["stats"], "step_name", rows)
    names = tables["event_types"]["name"].str.contains(_HOST_RULES[0][1]).to_numpy()
    is_marker |= names[handles(events, "type")[rows]]
    number[is_marker] = _SKIPPED
    launches = trace.table("launches")
    if not isinstance(launches, Unavailable):
        launching = np.isin(rows, handles(launches, "event"))
        number[launching & ~np.isin(number, _BEFORE_LAUNCH)] = HOST_PREPARE
    return _Events(
        number,
        groups,
        ints(events, "start_ps")[rows],
        ints(events, "dur_ps")[rows],
        is_marker,
    )


def _with_stat(
    trace: TraceData, stats: pl.DataFrame, key: str, rows: NDArray[np.int32]
) -> NDArray[np.bool_]:
    owners = rows_with_key(stats, "event", find_handle(trace.strings, key)).owner
    chosen: NDArray[np.bool_] = np.isin(rows, owners)
    return chosen


def _device_events(
    activity: pl.DataFrame, types: pl.DataFrame, trace: TraceData
) -> _Events:
    names = types["name"]
    by_name = _numbers_by_name(names, _DEVICE_RULES, otherwise=DEVICE_COMPUTE_32)
    half_name = names.str.contains(_HALF_NAME).to_numpy()
    group = activity["group"].fill_null(-1).to_numpy()
    correlated = activity["correlation"].is_not_null().to_numpy()
    type_of = handles(activity, "type")
    number = by_name[type_of].copy()
    shape = handles(activity, "shape")
    half_shape = np.array([False, *("half" in text for text in _texts(trace, shape))])
    distinct = np.unique(shape[shape >= 0])
    place = np.where(shape >= 0, np.searchsorted(distinct, shape) + 1, 0)
    half = np.where(shape >= 0, half_shape[place], half_name[type_of])
    number[(number == DEVICE_COMPUTE_32) & half] = DEVICE_COMPUTE_16
    number[(group < 0) | ~correlated] = _SKIPPED
    return _Events(
        number,
        group,
        ints(activity, "start_ps"),
        ints(activity, "dur_ps"),
        np.zeros(len(group), np.bool_),
    )


def _texts(trace: TraceData, handle: NDArray[np.int32]) -> list[str]:
    return [trace.strings[number] for number in np.unique(handle[handle >= 0]).tolist()]


def _stored_spans(
    trace: TraceData, tables: Mapping[str, pl.DataFrame]
) -> dict[int, tuple[str, int, int]]:
    """Group → name, begin and end of its longest stored step, else of its activity."""
    tracks, events = tables["tracks"], tables["events"]
    found = rows_with_key(
        tables["stats"], "event", find_handle(trace.strings, "group_id")
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
