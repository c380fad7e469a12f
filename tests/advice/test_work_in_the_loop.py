"""`host.work` of lines that work in the training loop itself, in no function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import BF16, MATMUL, Recorder, findings, on_host

from stepscope.reporting.words.findings import lead_sentence, part_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

TRAIN = "$/app/train.py:9 train"
STEPS = [10_000.0 * number for number in range(20)]
TORCH = "$/opt/lib/python3.12/site-packages/torch/nn/modules/module.py:50 Module._call"
NUMPY = "$/opt/lib/python3.12/site-packages/numpy/lib/arrays.py:50 unique"


def looks(hz: int = 1000) -> tuple[str, str]:
    return f"samples of main, {hz} a second", f"source lines of main, {hz} a second"


def in_the_loop(
    *lines: tuple[int, float],
    calls: str | None = None,
    begins: Sequence[float] = STEPS,
    hz: int = 1000,
) -> list[Any]:
    """What looks find: `train` around all steps, at lines for so many µs of each.

    Args:
        lines: (line, µs) in the order in which they run.
        calls: What the first of them calls, all the time.
        begins: When the steps begin.
        hz: Looks a second.
    """
    functions, numbered = looks(hz)
    last = begins[-1] + sum(length for _, length in lines)
    found: list[Any] = [(functions, TRAIN, begins[0], last - begins[0])]
    for begin in begins:
        at = begin
        if calls is not None:
            found.append((functions, calls, begin, lines[0][1]))
        for number, length in lines:
            stat = {"source_line": number}
            found.append((numbered, TRAIN, at, length, stat))
            if calls is not None and at == begin:
                # A line of a library is told by its function.
                found.append((numbered, calls, at, length, {"source_line": 51}))
            at += length
    return found


def work(*lines: tuple[int, float], **more: Any) -> Any:
    """The finding over steps of 10 ms whose ops run in the last four."""
    base = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    return findings(base + in_the_loop(*lines, **more), devices=None)["host.work"]


def test_a_line_of_the_loop_is_found() -> None:
    """Line 13 works for 6 ms of each 10, then line 14 runs the ops."""
    found = work((13, 6_000.0), (14, 4_000.0))
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.parts[0].lines == (13, 13)
    assert found.parts[0].share_percent == pytest.approx(60.0, abs=0.1)
    assert lead_sentence(found) == (
        "Work on the host: `train` (train.py, line 13) takes 60.0 % of the step, "
        "during which no op of a model runs."
    )
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(6.0)


def test_lines_that_follow_each_other_are_one_piece_of_work() -> None:
    """Lines 12, 13 and, after an empty one, 15; line 16 runs the ops."""
    found = work((12, 1_500.0), (13, 1_000.0), (15, 3_500.0), (16, 4_000.0))
    assert found.parts[0].lines == (12, 15)
    assert found.parts[0].share_percent == pytest.approx(60.0, abs=0.1)
    assert (part_shares(found) or "").startswith(
        "`train` (train.py, lines 12 to 15, mostly line 15) 60.0 %"
    )


def test_what_a_library_does_for_a_line_is_the_lines_own() -> None:
    found = work((13, 6_000.0), (14, 4_000.0), calls=NUMPY)
    assert (found.status, found.parts[0].lines) == ("fail", (13, 13))


def test_what_a_framework_does_for_a_line_is_the_models() -> None:
    """Calling modules takes time in which no op runs: no work to take out of the loop.

    So it is with the line that runs the ops.
    """
    found = work((13, 6_000.0), (14, 4_000.0), calls=TORCH)
    assert all(part.lines is None for part in found.parts)
    assert found.status == "pass"


def test_a_line_that_runs_the_ops_is_the_step() -> None:
    """Of ten ms of line 14, no op runs in six: it may wait for what was not seen."""
    found = work((14, 10_000.0))
    assert found.status == "pass"
    assert all(part.lines is None for part in found.parts)


def test_functions_that_a_line_calls_are_told_by_themselves() -> None:
    """`tokenise`, called in line 13 for 5.5 of its 6 ms, has a name of its own."""
    functions, numbered = looks()
    base = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    lines = base + in_the_loop((13, 6_000.0), (14, 4_000.0))
    for begin in STEPS:
        call = ("$/app/train.py:2 tokenise", begin + 500.0, 5_500.0)
        lines += [(functions, *call), (numbered, *call, {"source_line": 3})]
    found = findings(lines, devices=None)["host.work"]
    assert (found.parts[0].name, found.parts[0].lines) == ("tokenise", None)


def test_looks_that_come_seldom_say_together_how_long_a_line_takes() -> None:
    """Steps of 4 ms, a look each 10: 10 of 20 at line 13, which works 2.4 of each 4 ms.

    What lies around a look is of whole steps, of which ops take 1.6 ms. The looks stand
    for 10 ms each, without the 10 µs between two steps, of which two are in each.
    """
    begins = [4_000.0 * number for number in range(50)]
    base = [
        it
        for it in on_host(steps=50, step_us=4_000.0, lead_us=2_400.0)
        if it[1] != "IteratorGetNext"
    ]
    functions, numbered = looks(100)
    lines = [*base, (functions, TRAIN, 0.0, 200_000.0)]
    for at in range(20):
        # The look is in the middle of its ten ms; lines 13 and 14 change places so
        # that it finds each where it runs.
        middle = 10_000.0 * at + 5_000.0
        line = 13 if middle % 4_000.0 < 2_400.0 else 14
        stat = {"source_line": line}
        lines.append((numbered, TRAIN, middle - 5_000.0, 10_000.0, stat))
    assert len(begins) == 50
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].lines) == ("fail", (13, 13))
    assert found.parts[0].share_percent == pytest.approx(100 * 99.8 / 199.99, abs=0.1)


def test_where_a_device_waits_for_a_line_of_the_loop_it_is_named() -> None:
    """Of each 10 ms the device waits for 6: line 13 of the loop works meanwhile.

    With 5 µs from each step's last kernel to the end of its mark, but the last one's,
    these are 120.095 of 199.99 ms: enough for a function that is not the loop to be
    named with all that it calls.
    """
    made = Recorder()
    for number, begin in enumerate(STEPS):
        made.mark(number, begin, 9_990.0)
        for at in range(4):
            launched = begin + 6_000.0 + 10.0 * at
            made.launch((BF16, 990.0, MATMUL), launched, begin + 6_010.0 + 995.0 * at)
    lines = made.lines + in_the_loop((13, 6_000.0), (14, 4_000.0))
    found = findings(lines)["host.work"]
    assert (found.status, found.parts[0].detail) == ("fail", "line 13")
    assert found.parts[0].share_percent == pytest.approx(60.05, abs=0.01)
    assert lead_sentence(found) == (
        "Work on the host takes 60.1 % of the step, the largest part of it in `train` "
        "(train.py:9), most of it in line 13: 60.1 %."
    )
