"""Which thread lets another one go on, worked out by hand."""

from __future__ import annotations

import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.activities import Thread
from stepscope.derive.replay.host_nodes import find_handovers

US = 1_000_000


def spans(*microseconds: tuple[int, int]) -> Spans:
    return Spans.of([(begin * US, end * US) for begin, end in microseconds])


def thread(track: int, waits: Spans) -> Thread:
    """A thread that is there all the time, and waits for others in these calls."""
    moments = np.unique(np.concatenate([waits.start_ps, waits.end_ps]))
    return Thread(
        track=track,
        is_program=track == 0,
        alive=spans((0, 2000)),
        for_device=Spans.empty(),
        for_thread=waits,
        handed=Spans.empty(),
        dispatching=Spans.empty(),
        silent_for=False,
        moments=moments,
    )


def released(waits: Spans, other_waits: Spans) -> dict[tuple[int, int], object]:
    """(thread, end of its wait in µs) → who let it go on, and when in µs."""
    _, found = find_handovers([thread(0, waits), thread(1, other_waits)])
    return {
        (int(who), int(when) // US): None
        if source < 0
        else (int(source), int(at) // US)
        for who, when, _, source, at in zip(*found.waits, strict=True)
    }


def test_a_thread_goes_on_as_the_programs_thread_begins_to_wait() -> None:
    """As the one that runs a backward pass: it works while the program waits for it."""
    found = released(
        spans((500, 900), (1500, 1900)), spans((0, 505), (897, 1503), (1897, 2000))
    )
    assert found[1, 505] == (0, 500)
    assert found[1, 1503] == (0, 1500)
    # Its work ends as the program goes on.
    assert found[0, 900] == (1, 897)
    assert found[0, 1900] == (1, 1897)


def test_the_wait_may_begin_a_little_after_the_other_went_on() -> None:
    found = released(spans((510, 900)), spans((0, 505), (897, 2000)))
    assert found[1, 505] == (0, 505)


def test_a_thread_that_goes_on_while_the_program_runs_is_let_by_nobody_known() -> None:
    found = released(spans((1500, 1900)), spans((0, 505), (897, 2000)))
    assert found[1, 505] is None


def test_nobody_is_let_by_a_wait_that_began_before_its_own() -> None:
    """The program has waited for long when the other begins to: it hands nothing."""
    found = released(spans((500, 900)), spans((505, 600), (700, 2000)))
    assert found[1, 600] is None
