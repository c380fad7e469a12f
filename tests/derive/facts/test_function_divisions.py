"""How functions of a literal host divide their time, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.traces.literal import ABSENT, spans_of, windows_at
from tests.support.traces.literal_functions import frames_of, named

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts import function_divisions as module
from stepscope.derive.facts.hosts.function_divisions import (
    FunctionDivisions,
    RareFunctions,
    TimeDivision,
    function_divisions,
    rare_functions,
)
from stepscope.derive.host.function_purposes import FunctionPurposes
from stepscope.derive.intervals.spans import Spans

NAMES = [named(name) for name in ("work", "helper", "other")]
NAMES += [named(name, library=True) for name in ("array", "rows", "inner")]
WORK, HELPER, OTHER, ARRAY, ROWS, INNER = range(6)
NAMES.append(named("own_inside"))
#: 1000 ps of `work` on thread 1: see the self times in the test.
ROWS_OF_FRAMES = (
    (WORK, 1, 0, 1000, -1),
    (HELPER, 1, 100, 300, 0),
    (ARRAY, 1, 200, 300, 1),
    (ROWS, 1, 300, 700, 0),
    (INNER, 1, 350, 450, 3),
    (6, 1, 500, 600, 3),
    (INNER, 1, 700, 750, 0),
    (ARRAY, 2, 0, 900, -1),
    (OTHER, 2, 900, 1000, -1),
)
WHERE = [("p", 1, 0), ("p", 1, 1), ("q", 2, 2)]


def clock(seen: Spans, awake: Spans) -> Any:
    return SimpleNamespace(seen=seen, awake=awake, asleep=seen - awake)


def divisions(rows: Any = ROWS_OF_FRAMES, **fields: Any) -> FunctionDivisions:
    hz = fields.pop("hz", 1e11)
    return FunctionDivisions(
        **{
            "frames": frames_of(NAMES, *rows, hz=hz),
            "purposes": FunctionPurposes(
                np.zeros(0, np.uint8), {"works_on_rows": (ROWS,)}
            ),
            "lines": None,
            "work": {None: spans_of((0, 1000)), 0: spans_of((0, 400))},
            "places": WHERE,
            "clocks": None,
            "waits": None,
            "ops": Spans.empty(),
            **fields,
        }
    )


def part_of(kind: int, **fields: Any) -> Part:
    return replace(Part.from_function(NAMES[kind], 1.0), **fields)


def test_time_is_of_own_lines_elements_or_other_libraries() -> None:
    """`work` itself has 350 ps and `helper` 100; arrays take 100, `inner` alone 50.

    Rows take 400, of which 100 are in a library that they call, 100 in the program.
    """
    found = divisions().division_of_function(part_of(WORK), None)
    assert found == TimeDivision(55.0, 30.0, 15.0, None)
    part = part_of(HELPER)
    assert divisions().division_of_function(part, None) == TimeDivision(
        50.0, 0.0, 50.0, None
    )
    # Only what a device waits for, or only some time.
    found = divisions().division_of_function(part_of(WORK), 0)
    assert found == TimeDivision(50.0, 25.0, 25.0, None)
    only = spans_of((250, 350))
    found = divisions().division_of_function(part_of(WORK), None, only=only)
    assert found == TimeDivision(0.0, 50.0, 50.0, None, works=("works_on_rows",))
    assert divisions().division_of_function(part_of(WORK), 1) is None
    assert divisions().division_of_function(part_of(WORK, line=4), None) is None


@pytest.mark.parametrize(
    ("length", "hz", "known"),
    [(30, 1e11, True), (29, 1e11, False), (1, None, True), (0, None, False)],
)
def test_three_samples_are_needed(length: int, hz: float, *, known: bool) -> None:
    found = divisions(hz=hz).division_of_function(
        part_of(WORK),
        None,
        only=spans_of((10, 10 + length)) if length else Spans.empty(),
    )
    assert (found is not None) is known


def test_lines_of_a_function_are_divided_alone() -> None:
    def spans_of_rows(chosen: Any) -> Spans:
        spans = [spans_of((100 * at, 100 * at + 100)) for at in np.flatnonzero(chosen)]
        return Spans.union_of(spans)

    lines = SimpleNamespace(
        type=np.array([WORK, WORK, WORK, HELPER, WORK]),
        line=np.array([4, 5, 8, 6, 9]),
        spans_of_rows=spans_of_rows,
        compiled_calls=lambda _: {
            "np.sort": spans_of((100, 300)),
            "len": spans_of((500, 600)),
        },
    )
    # Lines 5 and 8 ran from 100 to 300.
    part = part_of(WORK, lines=(5, 8))
    found = divisions(lines=lines).division_of_function(part, None)
    assert found is not None
    assert (found.called, found.works) == ("np.sort", ("sorts",))
    # Half of the lines' time is in a library; in the other half they call one too.
    assert (found.own, found.libraries) == (0.0, 100.0)
    # Without lines, or for the whole function, all of its time.
    whole = TimeDivision(55.0, 30.0, 15.0, None)
    assert divisions().division_of_function(part, None) == whole
    found = divisions(lines=lines).division_of_function(part_of(WORK), None)
    assert found is not None
    assert (found.called, found.works, found.elements) == (None, (), 30.0)


def clocks_of(**given: Any) -> Any:
    own = given.get("own", clock(spans_of((0, 400)), spans_of((0, 100), (300, 400))))
    rest = given.get("rest", {("p", 1): clock(spans_of(), spans_of((150, 250)))})
    return SimpleNamespace(threads={("p", 1, 1): own}, rest=rest)


@pytest.mark.parametrize(
    ("clocks", "device", "waiting"),
    [
        # Asleep from 100 to 300, but others were awake for half of it.
        (clocks_of(), 0, 25.0),
        (clocks_of(rest={}), 0, 50.0),
        (clocks_of(rest={("q", 2): clock(spans_of(), spans_of((0, 900)))}), 0, 50.0),
        # Half of the function's 400 ps must be known.
        (clocks_of(own=clock(spans_of((0, 200)), spans_of((0, 50))), rest={}), 0, 75.0),
        (clocks_of(own=clock(spans_of((0, 199)), spans_of((0, 50))), rest={}), 0, None),
        (SimpleNamespace(threads={}, rest={}), 0, None),
    ],
)
def test_a_function_waits_while_no_thread_is_awake(
    clocks: Any, device: int, waiting: float | None
) -> None:
    found = divisions(clocks=clocks).division_of_function(part_of(WORK), device)
    assert found == TimeDivision(50.0, 25.0, 25.0, waiting)


def test_without_a_device_known_waits_count_outside_of_ops() -> None:
    own = clock(spans_of((0, 900)), spans_of())
    fields: dict[str, Any] = {"clocks": clocks_of(own=own), "ops": spans_of((0, 300))}
    waits = spans_of((200, 450), (950, 1000))
    found = divisions(**fields, waits=waits).division_of_function(part_of(WORK), None)
    assert found is not None
    assert found.waiting == 25.0
    found = divisions(**fields).division_of_function(part_of(WORK), None)
    assert found is not None
    assert found.waiting is None


def test_every_field_of_divisions_comes_from_its_table() -> None:
    frames = frames_of(NAMES, *ROWS_OF_FRAMES)
    idle = {"host_compute": spans_of((50, 400), (600, 700))}

    def device(number: int | None, between: Spans) -> Any:
        return SimpleNamespace(device=number, idle=idle, between=between)

    known: dict[str, Any] = {
        "account": SimpleNamespace(
            devices=(device(None, spans_of((300, 350))), device(1, spans_of()))
        ),
        "function_frames": frames,
        "function_purposes": FunctionPurposes(np.zeros(0, np.uint8), {}),
        "function_lines": ABSENT,
        "core_time": ABSENT,
        "host_waits": ABSENT,
        "host_classes": ABSENT,
        "windows": windows_at((0, 100), (200, 650)),
        "tracks": None,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "thread_identities", lambda _: WHERE)
        found = function_divisions.function(**known)
        assert found.work == {
            None: spans_of((50, 100), (200, 300), (350, 400), (600, 650)),
            1: spans_of((50, 100), (200, 400), (600, 650)),
        }
        assert (found.frames, found.places) == (frames, WHERE)
        assert (found.lines, found.clocks, found.waits) == (None, None, None)
        assert found.ops == Spans.empty()
        lines, clocks = object(), clocks_of()
        other: dict[str, Any] = {
            "function_lines": SimpleNamespace(known=lambda: lines),
            "core_time": clocks,
            "host_waits": {"wait": SimpleNamespace(spans=spans_of((1, 2)))},
        }
        ops = SimpleNamespace(host_compute=spans_of((3, 4)))
        found = function_divisions.function(**(known | other | {"host_classes": ops}))
        assert (found.lines, found.clocks) == (lines, clocks)
        assert (found.waits, found.ops) == (spans_of((1, 2)), spans_of((3, 4)))
        ops = SimpleNamespace(host_compute=ABSENT)
        found = function_divisions.function(**{**known, "host_classes": ops})
        assert found.ops == Spans.empty()


def test_rare_functions_are_sought_in_the_judged_steps() -> None:
    frames = frames_of(NAMES, (WORK, 1, 300, 390, -1), (HELPER, 1, 310, 380, 0))
    windows = windows_at((0, 100), (100, 200), (300, 400))
    found = rare_functions.function(function_frames=frames, windows=windows)
    assert isinstance(found, RareFunctions)
    assert found.starts_ps.tolist() == [0, 100, 300]
    assert found.ends_ps.tolist() == [100, 200, 400]
    chosen = np.array([False, False, True])
    assert found.of(chosen, 100) == part_of(WORK, share_percent=30.0)
    # What never ran explains nothing, not even no extra time.
    library = frames_of(NAMES, (ARRAY, 1, 300, 390, -1))
    found = rare_functions.function(function_frames=library, windows=windows)
    assert found.of(chosen, 0) is None
    # The program's file and what begins a thread are no functions.
    names = [named("<module>"), named("Thread._bootstrap")]
    frames = frames_of(names, (0, 1, 300, 390, -1), (1, 2, 300, 390, -1))
    found = rare_functions.function(function_frames=frames, windows=windows)
    assert found.of(chosen, 100) is None


def test_a_function_that_fills_every_step_is_not_rare() -> None:
    """It takes 200 of the long step's 1000 ps, and 10 of 100 or of 30 in others."""
    rows = [(WORK, 1, 0, 40, -1), (WORK, 1, 1000, 1200, -1)]
    frames = frames_of(NAMES, *rows)
    chosen = np.array([False, True])

    def rare(short: int) -> Part | None:
        starts, ends = np.array([0, 1000]), np.array([short, 2000])
        return RareFunctions(frames, starts, ends).of(chosen, 400)

    # A fifth of 200 ps is 40; a fifth of the share of 20 % is 4 %, which is of 1000.
    assert rare(1000) == part_of(WORK, share_percent=10.0)
    assert rare(999) is None
