"""`idle_topics`: what the host was doing in idle time, whatever the cause.

An owner is the cause of idle time. A topic is the kind of host work: collecting
garbage, writing a checkpoint, printing from inside a step, checking whether gradients
are finite, reading a result back, running callbacks, or waiting before a batch is
copied. Each topic is a part of the time of some causes. Topics do not overlap.

Definition: docs/where-a-steps-time-goes.md#topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.account.host_states import min_work_gap_ps
from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.host_time import HostCode
from stepscope.frozen import Frozen
from stepscope.patterns import COLLECTIONS
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.time_by_cause import Account, DeviceAccount
    from stepscope.derive.device.correlation import Correlation, LaunchLatency
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps

#: Names of kernels and ops that check whether all values are finite.
FINITE_CHECK: Final = (
    r"(?i)non_?finite_check|(?:^|[^a-z])(?:is|all)_?finite(?:[^a-z]|$)|multi_?tensor_?"
    r"(?:scale|l2norm_?scale)_?check"
)
#: Maximum size of a finite check's result, in bytes.
_MAX_CHECK_RESULT_BYTES: Final = 16
#: Maximum number of activities from a finite check to the copy of its result: the
#: results for several tensors are combined first.
_MAX_ACTIVITIES_TO_COPY: Final = 8

#: Owners (causes) of time in which no event shows what the program did.
UNFED_OWNERS: Final = ("between", "unexplained")
#: Maximum bytes of a copy of scalars or indices; larger copies contain batches.
_MAX_SCALAR_BYTES: Final = 4096
#: Minimum share of the complete windows in which a batch must be copied.
_MIN_WINDOWS_WITH_BATCH: Final = 0.8


def unfed_spans(
    device: DeviceAccount,
    windows: Windows,
    correlation: Correlation,
    *,
    soon_ps: int,
    doing: Spans,
    blocked: Spans,
) -> Spans:
    """Return the long times without launches before the program copies a batch.

    Args:
        soon_ps: Minimum length of a silence, and maximum time from its end to the copy.
        blocked: The part of the idle time in which the program was blocked by something
            other than a device.
    """
    # Starts of the calls that copy at least a batch's bytes, ascending.
    activity = correlation.activity
    launch = correlation.launch_of_activity
    is_copy = codes(activity, "kind") == ACTIVITY_CODES["h2d"]
    is_copy &= handles(activity, "device") == device.device
    size = fill_nulls(activity["bytes"], 0)
    is_copy &= (size > _MAX_SCALAR_BYTES) & (launch >= 0)
    called = np.sort(ints(correlation.launches, "start_ps")[launch[is_copy]])
    rows = windows.rows.filter(~windows.rows["open_end"])
    if not rows.height or not len(called):
        return Spans.empty()
    starts, ends = ints(rows, "start_ps"), ints(rows, "end_ps")
    copies = np.searchsorted(called, ends) - np.searchsorted(called, starts)
    if (copies > 0).mean() < _MIN_WINDOWS_WITH_BATCH:
        return Spans.empty()
    silent = Spans.union_of((blocked, *(device.idle[owner] for owner in UNFED_OWNERS)))
    # Silent intervals that end at most `soon_ps` before a copy call: small kernels
    # may be launched between the end of the silence and the copy.
    silences = Spans.union_of(device.walked_by.values())
    index = np.searchsorted(called, silences.end_ps)
    next_call = np.append(called, np.iinfo(np.int64).max)[index]
    soon = next_call - silences.end_ps <= soon_ps
    unfed = (silent & Spans(silences.start_ps[soon], silences.end_ps[soon])) - doing
    return unfed.lasting(soon_ps + 1)


def scaling_gaps(
    device_activity: pl.DataFrame, event_types: pl.DataFrame, device: int | None
) -> Spans:
    """Return the time from each finite check to the first kernel after its copy."""
    is_check = event_types["name"].str.contains(FINITE_CHECK).to_numpy()
    if not is_check.any():
        return Spans.empty()
    own_rows = np.flatnonzero(handles(device_activity, "device") == device)
    start = ints(device_activity, "start_ps")[own_rows]
    order = np.argsort(start, kind="stable")
    own_rows, start = own_rows[order], start[order]
    end = start + ints(device_activity, "dur_ps")[own_rows]
    kernel = codes(device_activity, "kind")[own_rows] == ACTIVITY_CODES["kernel"]
    size = (
        device_activity["bytes"]
        .fill_null(_MAX_CHECK_RESULT_BYTES + 1)
        .to_numpy()[own_rows]
    )
    answers = codes(device_activity, "kind")[own_rows] == ACTIVITY_CODES["d2h"]
    copies = np.flatnonzero(answers & (size <= _MAX_CHECK_RESULT_BYTES))
    # Index of the last check for finite values before each copy; -1 without a check.
    rows = np.flatnonzero(kernel & is_check[handles(device_activity, "type")[own_rows]])
    index = np.searchsorted(rows, copies) - 1
    check = np.append(rows, -1)[index]
    # Index of the first kernel after each copy; the number of activities for no kernel.
    kernels = np.append(np.flatnonzero(kernel), len(kernel))
    following: Int64s = kernels[np.searchsorted(kernels, copies, side="right")]
    near = (
        (check >= 0)
        & (copies - check <= _MAX_ACTIVITIES_TO_COPY)
        & (following < len(own_rows))
    )
    begin = end[check[near]]
    return Spans.from_events(begin, np.maximum(start[following[near]] - begin, 0))


#: Topics in order of priority: an instant has the first topic that matches. `unfed` and
#: `unnamed` are time without recorded host work: `unfed` before a batch is copied to
#: the device, `unnamed` elsewhere between steps.
TOPICS: Final = (
    *("garbage", "writing", "debugging", "scaling"),
    *("read_back", "callback", "unfed", "unnamed"),
)
#: Maximum size in bytes of a result that counts as read for inspection.
_MAX_INSPECTED_BYTES: Final = 4096
#: Ops and callbacks for inspecting a program: prints, numeric checks, and the search
#: for the op that produced a wrong gradient.
_DEBUGGING: Final = (
    r"(?:^|[:/ ])(?:PrintV2|Print|CheckNumerics(?:V2)?|DebugNumericSummary(?:V[23])?"
    r"|DebugNanCount|DebugIdentity(?:V[23])?)(?::|$)"
    r"|(?i:\bdebug_?(?:callback|print)\b)|anomaly_mode\.py\b"
)
#: TensorFlow's print first runs an op that formats the tensors as text. If a program
#: has no prints, the op has another purpose.
_PRINTS: Final = r"(?:^|[:/ ])PrintV2(?::|$)"
_FORMATS: Final = r"(?:^|[:/ ])StringFormat(?::|$)"
#: Counter of stepscope's recorder, which also records garbage collections.
_WATCHED: Final = "process RSS (bytes)"
_LAUNCHING: Final = HostCode.LAUNCHING
_COLLECTING: Final = ("between", "host_compute")
#: Causes of the time between the end of reading a result back and the next launch.
_REFILLING: Final = ("launch", "sync", "output", "between")

#: Causes whose time can have a topic.
_CHECK_OWNERS: Final = ("between", "wait", "host_compute", "launch", "output", "sync")
_EVERY: Final = (*_CHECK_OWNERS, "unexplained")


class DeviceTopics(Frozen, frozen=True):
    """The topics (kinds of host work) of one device, or of a host without devices.

    Attributes:
        device: Number of the device; None for the step threads of the host.
        spans: Each of `TOPICS` → its disjoint parts of the idle time.
    """

    device: int | None
    spans: dict[str, Spans]


class IdleTopics(Frozen, frozen=True):
    """The topics (kinds of host work) of every device."""

    devices: tuple[DeviceTopics, ...]
    missing: dict[str, Unavailable]


def idle_topics(
    *,
    account: Account,
    host_states: HostStates | Unavailable,
    steps: Steps | Unavailable,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    launch_latency: LaunchLatency | Unavailable,
    windows: Windows,
    correlation: Correlation | Unavailable,
    iterators: pl.DataFrame | Unavailable,
) -> IdleTopics:
    """Find the topics (kinds of host work) of all idle time.

    Args:
        steps: The steps; only step marks show where a step ends on the host.
        iterators: The table; if batch fetches were recorded, there is no `unfed` time.
    """
    if isinstance(host_states, Unavailable):
        return IdleTopics((), dict.fromkeys(TOPICS, host_states))
    waits = Spans.empty()
    if not isinstance(function_frames, Unavailable) and not isinstance(
        function_purposes, Unavailable
    ):
        waits = function_frames.spans(function_purposes.purpose == FunctionPurpose.SYNC)
    host = _Host.observe_threads(
        host_states,
        events,
        event_types,
        marked=not isinstance(steps, Unavailable) and steps.source == "marker",
        waits=waits,
        within=Spans.union_of(
            _union_owners(device.idle, _EVERY) for device in account.devices
        ),
    )
    listed = isinstance(iterators, pl.DataFrame) and not iterators.is_empty()
    fetched = listed or len(host_states.classes.input_wait)
    copies = None if fetched or isinstance(correlation, Unavailable) else correlation
    latency_ps = None
    if not isinstance(launch_latency, Unavailable):
        latency_ps = launch_latency.latency_ps
    topics = []
    for device in account.devices:
        drained = scaling = unfed = Spans.empty()
        if not isinstance(device_activity, Unavailable) and device.device is not None:
            scaling = scaling_gaps(device_activity, event_types, device.device)
            if latency_ps is not None:
                drained = _drained_spans(device_activity, device, host, 2 * latency_ps)
                if not windows.has_steps:
                    # Nothing is launched late after the last activity of the program.
                    last_ps = int(ints(device_activity, "start_ps").max())
                    drained = drained.clip(-LIMIT_PS, last_ps)
        if copies is not None and latency_ps is not None and device.device is not None:
            unfed = unfed_spans(
                *(device, windows, copies),
                soon_ps=min_work_gap_ps(latency_ps),
                doing=host.doing,
                blocked=device.idle["sync"] - host.for_device,
            )
        topics.append(
            _topics_of_device(
                device, host, drained=drained, scaling=scaling, unfed=unfed
            )
        )
    missing = (
        {} if host.collections_recorded else {"garbage": WHY["no_garbage_collections"]}
    )
    return IdleTopics(tuple(topics), missing)


class _Host(Frozen, frozen=True):
    """What the step threads did; some fields cover only the requested time."""

    marked: bool
    garbage: Spans
    collections_recorded: bool
    debugging: Spans
    parallel_to_debugging: Spans
    writing: Spans
    waiting: Spans
    for_device: Spans
    doing: Spans
    work: Spans
    states: HostStates

    @classmethod
    def observe_threads(
        cls,
        states: HostStates,
        events: pl.DataFrame,
        event_types: pl.DataFrame,
        *,
        marked: bool,
        waits: Spans,
        within: Spans,
    ) -> _Host:
        sets = [states.classes.by_thread.get(track, {}) for track in states.threads]

        def union_codes(*wanted: HostCode) -> Spans:
            return Spans.union_of(
                by_code[code] for by_code in sets for code in wanted if code in by_code
            )

        types, rows = handles(events, "type"), states.classes.rows
        collecting = _types_named(event_types, *COLLECTIONS)
        watched = _types_named(event_types, _WATCHED).any() or (
            collecting.any() and collecting[types].any()
        )
        doing = Spans.union_of(
            (
                *(states.doing_spans(track, within) for track in states.threads),
                *(ran.sleeping for ran in states.function_spans.values()),
            )
        )
        work = states.classes.host_compute
        waiting = union_codes(HostCode.SYNC, HostCode.READ_BACK)
        debugging = _debugging_spans(states, event_types, types)
        return cls(
            marked=marked,
            garbage=Spans.union_of(
                rows.spans_of_types(states.threads, types, collecting)
            ),
            collections_recorded=bool(watched),
            debugging=Spans.union_of(debugging),
            parallel_to_debugging=Spans.union_of(
                by_code[HostCode.HOST_COMPUTE] - spent
                for by_code, spent in zip(sets, debugging, strict=True)
                if HostCode.HOST_COMPUTE in by_code
            )
            if any(map(len, debugging))
            else Spans.empty(),
            writing=union_codes(HostCode.OUTPUT)
            | Spans.union_of(
                functions.writing for functions in states.function_spans.values()
            ),
            waiting=waiting,
            for_device=waiting | waits,
            doing=doing - waits,
            work=Spans.empty() if isinstance(work, Unavailable) else work,
            states=states,
        )

    def launch_calls_around(self, times_ps: Int64s) -> Spans:
        """Return all threads' launch calls that are running at the given times."""
        classes, threads = self.states.classes, self.states.threads
        near = Spans.from_events(times_ps - 1, np.full(len(times_ps), 2))
        while True:
            calls = Spans.union_of(
                classes.code_spans(track, sets[_LAUNCHING].meeting(near))(
                    HostCode.LAUNCH
                )
                for track in threads
                if _LAUNCHING in (sets := classes.by_thread.get(track, {}))
            ).meeting(near)
            # Calls of several threads may overlap each other or touch at their ends.
            wider = near | Spans.from_events(
                calls.start_ps - 1, calls.end_ps - calls.start_ps + 2
            )
            if wider == near:
                return calls
            near = wider


def _debugging_spans(
    states: HostStates, event_types: pl.DataFrame, types: Int32s
) -> list[Spans]:
    names = event_types["name"]
    is_debugging = names.str.contains(_DEBUGGING)
    if names.str.contains(_PRINTS).any():
        is_debugging |= names.str.contains(_FORMATS)
    rows = states.classes.rows
    return rows.spans_of_types(states.threads, types, is_debugging.to_numpy())


def _topics_of_device(
    device: DeviceAccount, host: _Host, *, drained: Spans, scaling: Spans, unfed: Spans
) -> DeviceTopics:
    idle = device.idle
    writing = idle["output"] & host.writing
    if device.device is None:
        # If ops still run while the host reads a result, the step itself waits.
        reading = idle["sync"] & host.for_device
        chores = idle["between"] | idle["wait"] | (idle["host_compute"] - host.work)
        # A step goes on while another thread computes.
        debugging = host.debugging - host.parallel_to_debugging
    else:
        debugging = host.debugging
        reading = (idle["output"] - writing) | (idle["sync"] & host.for_device)
        reading = reading | drained
        chores = idle["between"] | idle["wait"]
        if host.marked:
            chores = chores | idle["host_compute"] | (idle["launch"] - device.latency)
    chores = (chores & device.between) - host.states.marks
    wanted = {
        "garbage": _union_owners(idle, _COLLECTING) & host.garbage,
        "writing": writing,
        "debugging": _union_owners(idle, _CHECK_OWNERS) & debugging,
        "scaling": _union_owners(idle, _CHECK_OWNERS) & scaling,
        "read_back": reading,
        "callback": chores & host.doing,
        "unfed": unfed,
        "unnamed": chores - host.doing,
    }
    left = _union_owners(idle, _EVERY)
    topics = {}
    for topic in TOPICS:
        topics[topic] = wanted[topic] & left
        left = left - topics[topic]
    return DeviceTopics(device.device, topics)


def _union_owners(idle: Mapping[str, Spans], owners: Iterable[str]) -> Spans:
    return Spans.union_of(idle[owner] for owner in owners)


def _types_named(event_types: pl.DataFrame, *names: str) -> Bools:
    return event_types["name"].is_in(names).to_numpy()


def _drained_spans(
    activity: pl.DataFrame, device: DeviceAccount, host: _Host, soon_ps: int
) -> Spans:
    """Return the idle time from the end of a wait to the next activity.

    The wait ended because the device had finished all activities. Activities that
    were launched only after the wait could have been queued before it. The host
    waits in a synchronising call, or in the call that copies a small result.
    """
    free = Spans.union_of(device.idle.values())
    # Times at which copies of small results end.
    rows = np.flatnonzero(
        (codes(activity, "kind") == ACTIVITY_CODES["d2h"])
        & (handles(activity, "device") == device.device)
    )
    size = fill_nulls(activity["bytes"].gather(rows), _MAX_INSPECTED_BYTES + 1)
    rows = rows[size <= _MAX_INSPECTED_BYTES]
    start_ps, dur_ps = (ints(activity, key) for key in ("start_ps", "dur_ps"))
    copied: Int64s = start_ps[rows] + dur_ps[rows]
    # Keep idle time that begins when a wait or a copy of a small result ends.
    ends = host.waiting.end_ps
    near = Spans.from_events(
        np.concatenate((ends - soon_ps, copied)),
        np.concatenate((np.full(len(ends), soon_ps + 1), np.ones(len(copied)))),
    )
    free = free.meeting(near)
    begin = free.start_ps
    until = begin + soon_ps
    waited = _wait_lengths_ps(host.waiting, begin, until)
    is_copied = np.isin(begin, copied)
    calling = host.launch_calls_around(begin[is_copied])
    called = np.where(is_copied, _wait_lengths_ps(calling, begin, until), 0)
    # Without the wait, the host would launch earlier by at most the wait's length.
    length = np.minimum(free.end_ps - begin, np.maximum(waited, called))
    after = Spans.from_events(begin[length > 0], length[length > 0])
    # Recorded host work between steps does not come from the wait.
    named = device.idle["between"] & host.doing
    return (after & _union_owners(device.idle, _REFILLING)) - named


def _wait_lengths_ps(spans: Spans, begin_ps: Int64s, soon_ps: Int64s) -> Int64s:
    """Return how long a span has lasted by `begin_ps`; 0 if it ends after `soon_ps`."""
    if not len(spans):
        return np.zeros(len(begin_ps), np.int64)
    i = np.searchsorted(spans.start_ps, begin_ps, side="left") - 1
    held = (i >= 0) & (spans.end_ps[i] >= begin_ps) & (spans.end_ps[i] <= soon_ps)
    return np.where(held, begin_ps - spans.start_ps[i], 0)
