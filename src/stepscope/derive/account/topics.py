"""`idle_topics`: what of the idle time is one matter, across owners of the account.

An owner says who is to blame; a topic says what was done: collecting garbage, writing a
checkpoint, reading a result back, running callbacks. Each topic is a part of the time
of some owners, and no two share an instant.

Definition: docs/where-a-steps-time-goes.md#topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_codes import HostCode
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.owned_time import Account, DeviceAccount
    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.steps.chosen import Steps

__all__ = ["TOPICS", "DeviceTopics", "IdleTopics", "idle_topics"]

#: What is done, in the order in which an instant is given to the first that holds;
#: `unnamed` is time between steps of which nothing says what was done.
TOPICS: Final = ("garbage", "writing", "read_back", "callback", "unnamed")
#: A result of at most this size is read to look at it, not to keep it.
_SMALL_BYTES: Final = 4096
#: Python's collections; what frameworks call so releases their own objects.
_COLLECTION: Final = "garbage collection"
#: A counter that only the recorder writes that keeps collections, in any program.
_WATCHED: Final = "process RSS (bytes)"
_D2H: Final = ACTIVITY_KINDS.categories.to_list().index("d2h")
_COLLECTING: Final = ("between", "host_compute")
#: Owners of the time from the end of a read-back to the next launch.
_REFILLING: Final = ("launch", "sync", "output", "between")


class DeviceTopics(Frozen, frozen=True):
    """The topics of one device, or of a host without devices.

    Attributes:
        device: Ordinal of the device; None for the step threads of the host.
        spans: Each of `TOPICS` → its instants, disjoint parts of the idle time.
    """

    device: int | None
    spans: dict[str, Spans]


class IdleTopics(Frozen, frozen=True):
    """The topics of every device.

    Attributes:
        devices: In the order of the account's.
        missing: Topic → why it could not be looked at.
    """

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
    launch_facts: LaunchFacts | Unavailable,
) -> IdleTopics:
    """Find the topics of all idle time.

    Args:
        account: The owners of the idle time.
        host_states: What the step threads did.
        steps: The steps: only marks say where a step ends on the host.
        events: The table.
        event_types: The table.
        function_frames: The functions that ran.
        function_purposes: What those of libraries are for.
        device_activity: The table, for results that were read back.
        launch_facts: The usual launch latency.
    """
    if isinstance(host_states, Unavailable):
        return IdleTopics((), dict.fromkeys(TOPICS, host_states))
    waiting = Spans.empty()
    if not isinstance(function_frames, Unavailable) and not isinstance(
        function_purposes, Unavailable
    ):
        waiting = _waits(function_frames, function_purposes)
    host = _Host.of(
        host_states,
        events,
        event_types,
        marked=not isinstance(steps, Unavailable) and steps.source == "marker",
        waits=waiting,
    )
    reads = None
    if not isinstance(device_activity, Unavailable) and not isinstance(
        launch_facts, Unavailable
    ):
        reads = _ReadBacks(device_activity, 2 * launch_facts.latency_ps)
    found = []
    for one in account.devices:
        drained = Spans.empty()
        if reads is not None and one.device is not None:
            drained = reads.drained(one, host)
        found.append(_of(one, host, drained))
    missing = {} if host.collections_seen else {"garbage": _NO_COLLECTIONS}
    return IdleTopics(tuple(found), missing)


class _Host(Frozen, frozen=True):
    """When the step threads did what."""

    marked: bool
    garbage: Spans
    collections_seen: bool
    writing: Spans
    waiting: Spans
    calling: Spans
    doing: Spans
    work: Spans

    @classmethod
    def of(
        cls,
        states: HostStates,
        events: pl.DataFrame,
        event_types: pl.DataFrame,
        *,
        marked: bool,
        waits: Spans,
    ) -> _Host:
        sets = [states.classes.by_thread.get(track, {}) for track in states.doing]

        def union(*wanted: HostCode) -> Spans:
            return Spans.union_of(
                found[code] for found in sets for code in wanted if code in found
            )

        rows = events.with_row_index("row").filter(
            pl.col("type").is_in(_types(event_types, _COLLECTION))
        )
        mine = rows.filter(pl.col("track").is_in(list(states.doing)))
        watched = _types(event_types, _WATCHED)
        work = states.classes.host_compute
        return cls(
            marked=marked,
            garbage=Spans.from_events(ints(mine, "start_ps"), ints(mine, "dur_ps")),
            collections_seen=bool(watched) or bool(len(rows)),
            writing=union(HostCode.OUTPUT) | Spans.union_of(states.writing.values()),
            waiting=union(HostCode.SYNC, HostCode.READ_BACK),
            calling=union(HostCode.LAUNCH),
            doing=Spans.union_of(states.doing.values()) - waits,
            work=Spans.empty() if isinstance(work, Unavailable) else work,
        )


def _of(one: DeviceAccount, host: _Host, drained: Spans) -> DeviceTopics:
    idle = one.idle
    writing = idle["output"] & host.writing
    if one.device is None:
        # What is read back while ops still run is waited for by the step itself.
        reading = idle["sync"]
        chores = idle["between"] | (idle["host_compute"] - host.work)
    else:
        reading = (idle["output"] - writing) | idle["sync"] | drained
        chores = idle["between"]
        if host.marked:
            chores = chores | idle["host_compute"] | (idle["launch"] - one.latency)
    chores = chores & one.between
    wanted = {
        "garbage": _union(idle, _COLLECTING) & host.garbage,
        "writing": writing,
        "read_back": reading,
        "callback": chores & host.doing,
        "unnamed": chores - host.doing,
    }
    left = _union(idle, idle)
    found = {}
    for topic in TOPICS:
        found[topic] = wanted[topic] & left
        left = left - found[topic]
    return DeviceTopics(one.device, found)


def _union(idle: Mapping[str, Spans], owners: Iterable[str]) -> Spans:
    return Spans.union_of(idle[owner] for owner in owners)


def _types(event_types: pl.DataFrame, name: str) -> list[int]:
    found: list[int] = np.flatnonzero((event_types["name"] == name).to_numpy()).tolist()
    return found


def _waits(frames: FunctionFrames, purposes: FunctionPurposes) -> Spans:
    """Return where functions wait for a device, whatever they do there."""
    chosen = purposes.purpose == FunctionPurpose.SYNC
    start = frames.start_ps[chosen]
    return Spans.from_events(start, frames.end_ps[chosen] - start)


class _ReadBacks(Frozen, frozen=True):
    """What it cost that the host waited for the device to be done."""

    activity: pl.DataFrame
    soon_ps: int

    def drained(self, one: DeviceAccount, host: _Host) -> Spans:
        """Return the idle time from the end of a wait to the next activity.

        The host stopped waiting as the device had nothing left to do: what it launched
        only then could have been queued before. It waits in a call that synchronises,
        or in the call of a copy of a small result.
        """
        free = Spans.union_of(one.idle.values())
        begin = free.start_ps
        soon = begin + self.soon_ps
        waited = _waited(host.waiting, begin, soon)
        copied = np.isin(begin, self._copied(one.device))
        called = np.where(copied, _waited(host.calling, begin, soon), 0)
        # Without the wait the host would have come so much earlier, and no more.
        length = np.minimum(free.end_ps - begin, np.maximum(waited, called))
        after = Spans.from_events(begin[length > 0], length[length > 0])
        # What is named in it has other reasons.
        named = one.idle["between"] & host.doing
        return (after & _union(one.idle, _REFILLING)) - named

    def _copied(self, device: int | None) -> NDArray[np.int64]:
        """Return the ends of copies of small results."""
        rows = (codes(self.activity, "kind") == _D2H) & (
            handles(self.activity, "device") == device
        )
        size = self.activity["bytes"].fill_null(_SMALL_BYTES + 1)
        rows &= (size <= _SMALL_BYTES).to_numpy()
        start_ps, dur_ps = (
            ints(self.activity, "start_ps"),
            ints(self.activity, "dur_ps"),
        )
        ends: NDArray[np.int64] = (start_ps + dur_ps)[rows]
        return ends


def _waited(
    spans: Spans, begin_ps: NDArray[np.int64], soon_ps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how long a set lasted at some instants, 0 where it did not end soon."""
    if not len(spans):
        return np.zeros(len(begin_ps), np.int64)
    at = np.searchsorted(spans.start_ps, begin_ps, side="left") - 1
    held = (at >= 0) & (spans.end_ps[at] >= begin_ps) & (spans.end_ps[at] <= soon_ps)
    found: NDArray[np.int64] = np.where(held, begin_ps - spans.start_ps[at], 0)
    return found


_NO_COLLECTIONS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Garbage collections were not recorded.",
    remedy="Record with stepscope, which keeps them.",
)
