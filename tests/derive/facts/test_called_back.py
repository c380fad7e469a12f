"""Functions that ops call back on a literal host, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.support.traces.literal import Tables, events_at
from tests.support.traces.literal_functions import frames_of, named

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.host.function_purposes import FunctionPurposes

CALL, GRAPH, DEBUG = (named(name, library=True) for name in ("call", "graph", "debug"))
MAKE, CHECK, SHOW = (named(name) for name in ("make", "check", "show"))
NAMES = [CALL, MAKE, CHECK, DEBUG, SHOW, GRAPH]
#: Threads of a framework (7) and of Python (1); a quarter of a call is cut at each end.
ROWS = (
    *((0, 1, 400, 500, -1), (1, 1, 400, 500, 0)),
    *((0, 7, 0, 100, -1), (1, 7, 0, 100, 2)),
    *((5, 7, 200, 300, -1), (2, 7, 200, 300, 4)),
    *((3, 7, 600, 700, -1), (4, 7, 600, 700, 6)),
)
EVENTS = ("PyFunc", "pure_callback.1", "NoPyFunction", None, "a/EagerPyFunc_3")


def time_of(name: Any, time_ps: int) -> Any:
    if isinstance(name, str) or name is None:
        return SimpleNamespace(
            name=name, function=None, file=None, line=None, time_ps=time_ps
        )
    return SimpleNamespace(
        name=name.function,
        function=name.function,
        file=name.file,
        line=name.line,
        time_ps=time_ps,
    )


def called(
    *events: tuple[int, int, int, int],
    inside: tuple[Any, ...] = (),
    debugging: tuple[Any, ...] = (),
    hz: float | None = 1e11,
    device: int | None = None,
) -> CalledBack | None:
    """Events: type, track (1 or 2 drive steps, 3 does not), start and duration."""
    tracks = [track for _, track, *_ in events]

    def track_rows(track: int) -> slice:
        begin = sum(each < track for each in tracks)
        return slice(begin, begin + tracks.count(track))

    def named_times(owner: str, *, place: str = "any") -> tuple[Any, ...]:
        known = {("host_compute", "inside"): inside, ("debugging", "any"): debugging}
        return known[owner, place]

    other = SimpleNamespace(device=0)
    own = SimpleNamespace(device=device, total_ps=1000, named=named_times)
    found: CalledBack | None = called_back.function(
        trace=Tables(events=events_at(*events)),
        step_shares=(other, own),
        function_frames=frames_of(NAMES, *ROWS, hz=hz, of_framework=frozenset({7})),
        function_purposes=FunctionPurposes(
            np.zeros(0, np.uint8),
            {
                "calls_back": (0,),
                "calls_back_from_graph": (5,),
                "calls_back_to_debug": (3,),
            },
        ),
        host_states=SimpleNamespace(
            classes=SimpleNamespace(
                threads=SimpleNamespace(driving_tracks=lambda: [1, 2]),
                rows=SimpleNamespace(track_rows=track_rows),
            )
        ),
        naming=SimpleNamespace(names=EVENTS),
    )
    return found


def part_of(name: Any, percent: float) -> Part:
    return Part.from_function(name, percent)


def test_an_op_calls_the_function_whose_samples_it_holds() -> None:
    cases: list[tuple[Any, tuple[Part, ...]]] = [
        # 50 of the 100 ps of samples of `make` are in the op; the other call is not.
        ([(0, 1, 0, 100)], (part_of(MAKE, 30.0),)),
        ([(0, 1, 25, 50)], (part_of(MAKE, 30.0),)),
        ([(0, 1, 26, 50)], ()),
        # Two runs of the op, on two threads.
        ([(0, 1, 25, 30), (0, 2, 55, 20)], (part_of(MAKE, 30.0),)),
        # Of two functions the one with more samples in the op.
        ([(0, 1, 0, 300)], (part_of(MAKE, 30.0),)),
        ([(0, 1, 26, 300)], (part_of(CHECK, 30.0),)),
        ([(0, 1, 225, 25)], (part_of(CHECK, 30.0),)),
        ([(0, 1, 226, 24)], ()),
        # Other ops, and threads that do not drive steps.
        ([(1, 1, 0, 100)], ()),
        ([(2, 1, 0, 100)], ()),
        ([(3, 1, 0, 100)], ()),
        ([(0, 3, 0, 100)], ()),
    ]
    for events, works in cases:
        found = called(*events, inside=(time_of("PyFunc", 300),))
        assert found == CalledBack(works, ())


def test_exact_calls_have_no_margin() -> None:
    """`make` ran for 200 ps, of which the op has 100."""
    ops = (time_of("PyFunc", 300),)
    works = (part_of(MAKE, 30.0),)
    assert called((0, 1, 0, 100), inside=ops, hz=None) == CalledBack(works)
    assert called((0, 1, 1, 100), inside=ops, hz=None) == CalledBack()


def test_functions_and_ops_of_one_function_are_summed() -> None:
    found = called(
        *((0, 1, 0, 100), (1, 2, 200, 100), (4, 2, 600, 100)),
        inside=(
            *(time_of("PyFunc", 100), time_of("pure_callback.1", 250)),
            *(time_of(MAKE, 50), time_of(CHECK, 500), time_of("NoPyFunction", 400)),
            *(time_of(None, 90), time_of("a/EagerPyFunc_3", 0)),
        ),
        debugging=(time_of("a/EagerPyFunc_3", 20), time_of(SHOW, 70)),
    )
    # `check` only runs on a framework's thread: its time is its op's.
    assert found == CalledBack(
        (part_of(CHECK, 25.0), part_of(MAKE, 15.0)), (part_of(SHOW, 2.0),)
    )


def test_a_host_with_devices_calls_nothing_back() -> None:
    assert called((0, 1, 0, 100), inside=(time_of("PyFunc", 300),), device=1) is None
