"""`core_time`: when threads were on a core or ready for one, where that was read.

Definition: docs/definitions/host-time.md#waiting-and-working.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import (
    AWAKE,
    OTHER_THREADS,
    READ,
    SYSTEM,
    SamplesLine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

_NOT_READ: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The clocks of the program's threads were not read.",
    remedy="Record with stepscope on Linux, with `python_sampling_hz` above 0.",
)


class ThreadTime(Frozen, frozen=True):
    """When a thread's clocks were read, and what they said.

    Attributes:
        seen: From the first to the last of readings in a row.
        awake: Where in that time it was on a core, or ready while others had them all.
        system: Where it was found to wait for the system, as for a file, a process or
            time to pass, and not for another thread. Only of the main thread known.
    """

    name: str
    seen: Spans
    awake: Spans
    system: Spans

    @property
    def asleep(self) -> Spans:
        """Return where it wanted no core: it slept, read, or waited for others."""
        return self.seen - self.awake


class CoreTime(Frozen, frozen=True):
    """The clocks of a process's threads.

    Attributes:
        threads: (Plane, process, system's id of the thread) → its time.
        rest: Plane and process → all other threads of the process, where any of them
            was on a core; how long these were ready for one is not known.
    """

    threads: Mapping[tuple[str, int | None, int], ThreadTime]
    rest: Mapping[tuple[str, int | None], ThreadTime]


def core_time(
    *, tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> CoreTime | Unavailable:
    """Collect what the lines of core time hold."""
    threads: dict[tuple[str, int | None, int], ThreadTime] = {}
    rest: dict[tuple[str, int | None], ThreadTime] = {}
    sampled = tracks.with_row_index("row").filter(tracks["kind"] == "samples")
    lines = sampled.select(
        *("plane", "process", "id", "name", "event_begin", "event_end")
    )
    for plane, process, line, name, begin, end in lines.rows():
        samples = SamplesLine.of(line, name)
        if samples is None or samples.kind != "core_time":
            continue
        rows = slice(begin, end)
        names = event_types["name"].gather(handles(events, "type")[rows])
        start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
        read, awake, system = (
            Spans.from_events(start[chosen], dur[chosen])
            for chosen in ((names == one).to_numpy() for one in (READ, AWAKE, SYSTEM))
        )
        time = ThreadTime(samples.thread_name, read, awake, system)
        if samples.thread == OTHER_THREADS:
            rest[plane, process] = time
        else:
            threads[plane, process, samples.thread] = time
    return CoreTime(threads, rest) if threads else _NOT_READ


def thread_places(tracks: pl.DataFrame) -> list[tuple[str, int | None, int]]:
    """Return by row of tracks where its thread is: plane, process and system's id.

    These are the keys of `CoreTime.threads`.
    """
    places = []
    for plane, process, line, name in tracks.select(
        *("plane", "process", "id", "name")
    ).rows():
        samples = SamplesLine.of(line, name)
        places.append((plane, process, line if samples is None else samples.thread))
    return places
