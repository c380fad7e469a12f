"""A reader of Chrome trace JSON of its own: what a viewer makes of a file.

It shares no code with the writer: the standard library parses, and times are read as
exact decimals, so that a picosecond that is lost is seen.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Place = tuple[int, int]


@dataclass(frozen=True)
class Shown:
    """One slice, instant or sample: times in picoseconds."""

    place: Place
    phase: str
    start_ps: int
    dur_ps: int
    name: str
    category: str | None
    args: dict[str, Any]


@dataclass(frozen=True)
class TraceFile:
    """A trace as a viewer sees it.

    Attributes:
        head: The fields beside the events.
        processes: Number → name.
        threads: (process, thread) → name, in the order of the sort indices.
        shown: Slices, instants and samples, in the order of the file.
        arrows: (start, end) of each arrow: place and time in picoseconds.
    """

    head: dict[str, Any]
    processes: dict[int, str]
    threads: dict[Place, str]
    shown: list[Shown]
    arrows: list[tuple[tuple[Place, int], tuple[Place, int]]]

    def on(self, thread: str, process: str | None = None) -> list[Shown]:
        """What the threads of one name show."""
        places = {
            place
            for place, name in self.threads.items()
            if name == thread and process in {None, self.processes[place[0]]}
        }
        return [each for each in self.shown if each.place in places]


def read_trace(source: Path | bytes) -> TraceFile:
    """Read a file, compressed or not, or its bytes."""
    data = source if isinstance(source, bytes) else source.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    head = json.loads(data, parse_float=Decimal, parse_constant=_refused)
    events = head.pop("traceEvents")
    named: dict[str, dict[Place, Any]] = defaultdict(dict)
    for event in events:
        if event["ph"] == "M":
            (value,) = event["args"].values()
            named[event["name"]][event["pid"], event["tid"]] = value
    order = named["thread_sort_index"]
    rank = {place[0]: value for place, value in named["process_sort_index"].items()}
    threads = sorted(
        named["thread_name"].items(), key=lambda it: (rank[it[0][0]], order[it[0]])
    )
    return TraceFile(
        head=head,
        processes={place[0]: name for place, name in named["process_name"].items()},
        threads=dict(threads),
        shown=[_shown(event) for event in events if event["ph"] in "XiC"],
        arrows=_arrows(events),
    )


def broken_nesting(trace: TraceFile) -> list[tuple[Shown, Shown]]:
    """Pairs of slices of one thread of which neither contains the other."""
    found = []
    threads: dict[Place, list[Shown]] = defaultdict(list)
    for each in trace.shown:
        if each.phase == "X":
            threads[each.place].append(each)
    for slices in threads.values():
        open_: list[Shown] = []
        for each in sorted(slices, key=lambda it: (it.start_ps, -it.dur_ps)):
            while open_ and open_[-1].start_ps + open_[-1].dur_ps <= each.start_ps:
                open_.pop()
            if open_ and end(open_[-1]) < end(each):
                found.append((open_[-1], each))
            open_.append(each)
    return found


def end(shown: Shown) -> int:
    """The end of a slice in picoseconds."""
    return shown.start_ps + shown.dur_ps


def counted(shown: list[Shown]) -> Counter[tuple[int, int, str]]:
    """How often each (start, duration, name) occurs."""
    return Counter((each.start_ps, each.dur_ps, each.name) for each in shown)


def _shown(event: dict[str, Any]) -> Shown:
    if event["ph"] == "i":
        assert event["s"] == "t"
    return Shown(
        place=(event["pid"], event["tid"]),
        phase=event["ph"],
        start_ps=_ps(event["ts"]),
        dur_ps=_ps(event.get("dur", Decimal(0))),
        name=event["name"],
        category=event.get("cat"),
        args=event.get("args", {}),
    )


def _arrows(
    events: list[dict[str, Any]],
) -> list[tuple[tuple[Place, int], tuple[Place, int]]]:
    starts, ends = {}, {}
    for event in events:
        if event["ph"] in "sf":
            side = starts if event["ph"] == "s" else ends
            key = event["cat"], event["name"], event["id"]
            assert key not in side
            side[key] = (event["pid"], event["tid"]), _ps(event["ts"])
    assert starts.keys() == ends.keys()
    return [(starts[key], ends[key]) for key in starts]


def _ps(microseconds: Decimal | int) -> int:
    exact = Decimal(microseconds) * 1_000_000
    assert exact == exact.to_integral_value()
    return int(exact)


def _refused(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")
