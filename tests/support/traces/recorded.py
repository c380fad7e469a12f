"""Real recordings as lists of moments that a test changes and writes back.

A recording is read with nothing of ours: protobuf for an XSpace, the standard library
for PyTorch's JSON. What a change means for the account can so be worked out from the
moments by hand, and the changed file goes the whole way from bytes to sentences.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepscope.xspace.vocabulary import forwarded_annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

_PS_PER_NS: Final = 1000
_PS_PER_US: Final = 1_000_000
#: Categories of PyTorch's device work → what it is.
_DEVICE_WORK: Final = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "memset",
    "gpu_user_annotation": "other",
}


@dataclass(eq=False)
class Moment:
    """One event of a recording.

    Attributes:
        thread: Thread or stream that it is of.
        name: Its name.
        kind: `host`; of a device `kernel`, `copy`, `memset`, or `other` for what only
            repeats these.
        start_ps: When it began, by the file's own clock.
        dur_ps: How long it lasted.
        correlation: Number that a launch call shares with the work that it led to.
        step: Number of the step that it marks.
        source: The event in the file.
    """

    thread: Hashable
    name: str
    kind: str
    start_ps: int
    dur_ps: int
    correlation: int | None
    step: int | None
    source: Any

    @property
    def end_ps(self) -> int:
        return self.start_ps + self.dur_ps

    @property
    def on_device(self) -> bool:
        return self.kind != "host"


class Recording(Protocol):
    """A file whose moments may be changed, left out, and written again."""

    moments: list[Moment]

    def write(self, folder: Path) -> Path:
        """Write what the moments are now; return the file."""
        ...


def recording(path: Path) -> Recording:
    """Read a recorded file: an XSpace, or a trace of PyTorch."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return TorchTrace(data) if ".json" in path.name else Space(data, path.name)


class Space:
    """An XSpace."""

    def __init__(self, data: bytes, name: str) -> None:
        # Only tests that change an XSpace need protobuf.
        from tests.support.xspace.proto import XSpaceMessage  # noqa: PLC0415

        self._name = name.removesuffix(".gz")
        self._space = XSpaceMessage()
        self._space.ParseFromString(data)
        self._lines: list[tuple[Any, Any, list[Moment]]] = []
        self.moments: list[Moment] = []
        for plane in self._space.planes:
            keys = {key: one.name.decode() for key, one in plane.stat_metadata.items()}
            for line in plane.lines:
                found = [_of_space(plane, keys, line, event) for event in line.events]
                self._lines.append((plane, line, found))
                self.moments += found

    def write(self, folder: Path) -> Path:
        left = set(map(id, self.moments))
        for plane, line, before in self._lines:
            moments = [one for one in before if id(one) in left]
            types = {
                one.name.decode(): key for key, one in plane.event_metadata.items()
            }
            events = []
            begin_ps = min(
                [line.timestamp_ns * _PS_PER_NS, *(one.start_ps for one in moments)]
            )
            line.timestamp_ns = begin_ps // _PS_PER_NS
            for one in moments:
                if one.name not in types:
                    types[one.name] = max(types.values()) + 1
                    named = plane.event_metadata[types[one.name]]
                    named.id, named.name = types[one.name], one.name.encode()
                event = type(one.source)()
                event.CopyFrom(one.source)
                event.metadata_id = types[one.name]
                event.offset_ps = one.start_ps - line.timestamp_ns * _PS_PER_NS
                event.duration_ps = one.dur_ps
                events.append(event)
            del line.events[:]
            line.events.extend(events)
        path = folder / self._name
        path.write_bytes(self._space.SerializeToString())
        return path


def _of_space(plane: Any, keys: dict[int, str], line: Any, event: Any) -> Moment:
    stats = {
        keys.get(one.metadata_id, ""): one.int64_value or one.uint64_value
        for one in event.stats
    }
    kind = "host"
    name = plane.event_metadata[event.metadata_id].name.decode()
    if plane.name.startswith(b"/device:"):
        details = {"kernel_details": "kernel", "memcpy_details": "copy"}
        kind = next((kind for key, kind in details.items() if key in stats), "other")
        if name.startswith("Memset"):
            kind = "memset"
    return Moment(
        thread=(plane.name, line.id),
        name=name,
        kind=kind,
        start_ps=line.timestamp_ns * _PS_PER_NS + event.offset_ps,
        dur_ps=event.duration_ps,
        correlation=stats.get("correlation_id"),
        step=stats.get("step_num"),
        source=event,
    )


class TorchTrace:
    """A trace of PyTorch's own profiler."""

    def __init__(self, data: bytes) -> None:
        # A double holds less than a nanosecond of such times: texts become decimals.
        self._document = json.loads(data, parse_float=Decimal)
        timed: list[dict[str, Any]] = []
        self._flows: list[dict[str, Any]] = []
        self._rest: list[dict[str, Any]] = []
        for event in self._document["traceEvents"]:
            kind = event.get("ph")
            if kind in ("s", "f"):
                self._flows.append(event)
            else:
                (timed if kind in ("X", "i") else self._rest).append(event)
        self.moments = [_of_torch(event) for event in timed]
        #: An arrow has no event: it begins and ends where events of its thread begin.
        self._begins = {
            (event["pid"], event["tid"], event["ts"]): one
            for event, one in zip(timed, self.moments, strict=True)
        }

    def write(self, folder: Path) -> Path:
        left = set(map(id, self.moments))
        moved = [
            {**one.source, "name": one.name, "ts": one.start_ps / _PS_PER_US}
            | ({"dur": one.dur_ps / _PS_PER_US} if "dur" in one.source else {})
            for one in self.moments
        ]
        flows = []
        for event in self._flows:
            at = self._begins.get((event["pid"], event["tid"], event["ts"]))
            if at is not None and id(at) in left:
                flows.append({**event, "ts": at.start_ps / _PS_PER_US})
        path = folder / "changed.pt.trace.json"
        events = [*self._rest, *moved, *flows]
        changed = {**self._document, "traceEvents": events}
        path.write_text(json.dumps(changed, default=float))
        return path


def _of_torch(event: dict[str, Any]) -> Moment:
    args = event.get("args", {})
    name = event["name"]
    _, mark, number = name.partition("ProfilerStep#")
    # Marks of stepscope's own are packed into their names.
    ours = forwarded_annotation(name)
    values = {} if ours is None else json.loads(bytes(ours.values))
    return Moment(
        thread=(event["pid"], event["tid"]),
        name=name,
        kind=_DEVICE_WORK.get(event.get("cat", ""), "host"),
        start_ps=int(event["ts"] * _PS_PER_US),
        dur_ps=int(event.get("dur", 0) * _PS_PER_US),
        correlation=args.get("correlation"),
        step=int(number) if mark else values.get("step_num"),
        source=event,
    )


def calls_of(moments: Sequence[Moment]) -> dict[int, Moment]:
    """The launch call of each correlation number that has one."""
    return {
        one.correlation: one
        for one in moments
        if one.kind == "host" and one.correlation is not None
    }


def move_host(changed: Recording, later: Callable[[int], int]) -> None:
    """Move all times of the host, and device work with the call that launched it.

    The work begins as long after the begin of its call as before; work without a call
    moves as the host does.
    """
    calls = calls_of(changed.moments)
    begins = {number: one.start_ps for number, one in calls.items()}
    for one in changed.moments:
        if one.on_device:
            called = begins.get(one.correlation or -1, one.start_ps)
            one.start_ps += later(called) - called
        else:
            end = later(one.end_ps)
            one.start_ps = later(one.start_ps)
            one.dur_ps = end - one.start_ps


def slow_host(changed: Recording, factor: int) -> None:
    """Let all that the host does take `factor` times as long."""
    zero = min(one.start_ps for one in changed.moments)
    move_host(changed, lambda at: zero + factor * (at - zero))


def stretch(changed: Recording, at_ps: int, by_ps: int) -> None:
    """Let what the host does at one instant take longer; all later is later."""
    move_host(changed, lambda at: at + by_ps if at > at_ps else at)


def shift_device(changed: Recording, by_ps: int) -> None:
    """Move the clock of the devices."""
    for one in changed.moments:
        if one.on_device:
            one.start_ps += by_ps


def drop(changed: Recording, chosen: Callable[[Moment], bool]) -> None:
    """Leave out moments."""
    changed.moments = [one for one in changed.moments if not chosen(one)]
