"""Which events, threads and functions name the time of causes, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import windows_at
from tests.support.traces.literal_functions import frames_of, named
from tests.support.traces.literal_tables import kinds_of, steps_of, tables_of, types_of

from stepscope.derive.account.naming import Naming, naming
from stepscope.derive.host.function_lines import FunctionLines
from stepscope.derive.intervals.spans import TrackRows
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.threads import EVIDENCE
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
#: Kinds of events.
NAMES = (
    *("train", "call", "range", "frame", "op", "sync", "read", "launch", "api"),
    *("allocate", "pool", "wait", "file", "other"),
)
TRAIN, CALL, RANGE, FRAME, OP, SYNC, READ, LAUNCH, API = range(9)
ALLOCATE, POOL, WAIT, FILE, OTHER = range(9, 14)
CLASSES = {
    SYNC: HostClass.SYNC,
    READ: HostClass.READ_BACK,
    LAUNCH: HostClass.LAUNCH,
    API: HostClass.API,
    WAIT: HostClass.SYSTEM_WAIT,
    FILE: HostClass.FILE_READ,
}
FLAGS = {
    CALL: EventFlag.PJIT,
    RANGE: EventFlag.ANNOTATION,
    FRAME: EventFlag.PYTHON_FRAME,
    ALLOCATE: EventFlag.ALLOCATOR,
    POOL: EventFlag.THREADPOOL,
}
TYPES = types_of(NAMES).with_columns(annotation=pl.lit(value=True))
#: Threads 0 to 3, and a stream of a device that the program drives.
TRACKS: list[Any] = ["a", "b", "c", "d", {"name": "gpu", "kind": "stream", "device": 0}]
Line = tuple[int, int, int, int]


def naming_of(
    lines: list[Line],
    *,
    driving: tuple[int, ...] = (4, 1),
    marked: tuple[int, ...] = (),
    recorded: tuple[int, ...] = (),
    frames: Any = WHY,
    ran: Any = WHY,
    ops: tuple[int, ...] = (OP,),
    flags: dict[int, EventFlag] = FLAGS,
) -> Naming:
    tracks, events = tables_of(lines, TRACKS)
    evidence = np.zeros((len(EVIDENCE), len(TRACKS), 2), np.bool_)
    evidence[EVIDENCE.index("marker"), list(marked), 1] = True
    evidence[EVIDENCE.index("ops"), 3] = True
    classes: Any = SimpleNamespace(
        threads=SimpleNamespace(
            driving_tracks=lambda: list(driving), by_evidence=evidence
        ),
        by_thread={track: {} for track in recorded},
        rows=TrackRows.from_tables(tracks, events),
    )
    return naming(
        windows=windows_at((0, 50), (50, 90), (90, 99), open_end=[False, False, True]),
        steps=steps_of([0], marker=["train"], name=["other"]),
        tracks=tracks,
        events=events,
        event_types=TYPES,
        event_kinds=kinds_of(len(NAMES), classes=CLASSES, flags=flags, ops=ops),
        host_classes=classes,
        function_frames=frames,
        function_lines=ran,
    )


def chosen(flags: Any) -> list[str]:
    return [name for name, flag in zip(NAMES, flags.tolist(), strict=True) if flag]


def test_kinds_of_events_that_name_time_or_do_not() -> None:
    found = naming_of([(0, CALL, 5, 5), (1, OTHER, 0, 9)])
    # An op has the name of the op.
    expected = [f"op{OP}" if name == "op" else name for name in NAMES]
    assert found.names.to_list() == expected
    assert chosen(found.marks) == ["train", "other"]
    passing = ["sync", "read", "launch", "api", "allocate", "pool"]
    assert chosen(found.passing) == passing
    assert chosen(found.calls) == ["call"]
    assert chosen(found.system) == ["wait", "file"]
    assert found.types.tolist() == [CALL, OTHER]
    # The last window is open.
    assert [bound.tolist() for bound in found.windows] == [[0, 50], [50, 90]]
    assert found.lines == {0: "a", 1: "b", 2: "c", 3: "d"}
    assert (found.off_core, found.frames, found.ran) == ({}, None, None)
    assert found.function_tracks == ()


def test_threads_that_drive_steps_come_first_and_those_without_ranges_not_at_all() -> (
    None
):
    """The thread 2 has a range; the thread 3 has only a function."""
    lines = [(2, RANGE, 0, 5), (3, FRAME, 0, 5), (4, RANGE, 0, 5), (0, OTHER, 0, 5)]
    assert naming_of(lines).threads == (1, 2)
    assert naming_of(lines, recorded=(3, 1)).threads == (1, 3, 2)
    assert naming_of(lines, driving=(), recorded=(3, 2, 0)).threads == (3, 2, 0)


@pytest.mark.parametrize(
    ("marked", "program"), [((), 2), ((0, 1), 1), ((0,), 0), ((3,), 2)]
)
def test_the_program_s_thread_is_the_marked_one_with_most_calls(
    marked: tuple[int, ...], program: int
) -> None:
    """Calls are 1, 2 and 3; the thread 3 has none and is no thread of the steps."""
    lines = [(0, CALL, 0, 1), *((1, CALL, 9 * at, 1) for at in range(2))]
    lines += [(2, RANGE, 9 * at, 1) for at in range(3)]
    lines += [(0, OTHER, 9 * at, 1) for at in range(1, 9)]
    found = naming_of(lines, marked=marked)
    assert found.threads == (1, 0, 2)
    assert found.program == program


def test_without_threads_no_thread_is_the_program_s() -> None:
    found = naming_of([(0, OTHER, 0, 5)], driving=(4,))
    assert (found.threads, found.program) == ((), None)


def test_functions_of_the_program_s_thread_come_first_then_of_its_modules() -> None:
    """The thread 2 is the program's; a module began on 3; the thread 1 drives steps."""
    lines = [(2, RANGE, 0, 5), (1, OTHER, 0, 5)]
    work, module = named("work"), named("<module>")
    rows = [(0, track, 0, 9, -1) for track in range(3)]
    frames = frames_of([work, module], *rows, (1, 3, 0, 9, -1))
    assert naming_of(lines, frames=frames).function_tracks == (2, 3, 1, 0)
    assert naming_of(lines, frames=frames).frames is frames
    plain = frames_of([work], *rows, (0, 3, 0, 9, -1))
    assert naming_of(lines, frames=plain).function_tracks == (2, 1, 0, 3)


def test_ops_and_calls_and_functions_of_python_are_ops() -> None:
    lines = [(0, OTHER, 0, 5)]
    assert naming_of(lines).has_ops
    calls = {CALL: EventFlag.PJIT}
    assert naming_of(lines, ops=(), flags=calls).has_ops
    assert not naming_of(lines, ops=(), flags={}).has_ops
    python = frames_of([named("work")], (0, 0, 0, 9, -1))
    assert naming_of(lines, ops=(), flags={}, frames=python).has_ops


def test_lines_count_if_one_is_known() -> None:
    def ran(*lines: int) -> FunctionLines:
        zero = np.zeros(len(lines), np.int64)
        return FunctionLines(
            *(zero.astype(np.int32), zero, zero + 1, zero.astype(np.int32)),
            *(np.array(lines, np.int32), {}),
        )

    known = ran(-1, 7)
    assert naming_of([(0, OTHER, 0, 5)], ran=known).ran is known
    assert naming_of([(0, OTHER, 0, 5)], ran=ran(-1, -1)).ran is None
