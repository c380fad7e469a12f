"""What is said first of a recording with a GPU when one thing in it is changed.

Two programs of six steps of 2 ms: in one the host launches a kernel of 12 µs every
48 µs, in the other the device waits 600 µs for each batch and then works without a
pause. Whatever is taken away, the sentence stays right, or says what is not known; the
want of a record is never called health.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import Recorder

from stepscope.reporting.compose import judge_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.reporting.document import Headline

    Change = Callable[[list[Any]], list[Any]]

pytestmark = pytest.mark.slow(seconds=0.1)

STEPS, STEP_US, KERNELS = 6, 2_000.0, 40
ADD = "model/add/AddV2:AddV2"


def starved() -> list[Any]:
    """40 kernels of 12 µs a step, 8 µs after their calls: 24 % of 2 ms."""
    made = Recorder()
    for number in range(STEPS):
        begin = STEP_US * number
        made.mark(number, begin, STEP_US - 10)
        for at in range(KERNELS):
            called = begin + 40 + 48.0 * at
            made.launch(("fused_half_kernel", 12.0, ADD), called, called + 8)
    return made.lines


def unfed() -> list[Any]:
    """A fetch of 600 µs, then 40 kernels of 33 µs with half a microsecond between."""
    made = Recorder()
    for number in range(STEPS):
        begin = STEP_US * number
        made.mark(number, begin, STEP_US - 10)
        made.host("IteratorGetNext", begin, 600.0)
        for at in range(KERNELS):
            start = begin + 640 + 33.5 * at
            made.launch(("fused_half_kernel", 33.0, ADD), begin + 610 + 7.0 * at, start)
    return made.lines


def said(lines: list[Any]) -> Headline:
    devices = {int(line[0][4]): blueprint.A100 for line in lines if on_device(line)}
    return judge_profile(
        blueprint.profile(blueprint.trace(lines, devices=devices))
    ).headline


def on_device(line: Any) -> bool:
    return bool(line[0].startswith("gpu:"))


def scaled(lines: list[Any], factor: float) -> list[Any]:
    return [
        (*line[:2], line[2] * factor, line[3] * factor, *line[4:]) for line in lines
    ]


def later(lines: list[Any], delay_us: float, *, number: int) -> list[Any]:
    """The lines again, later, with launches and steps of other numbers."""
    moved = []
    for track, name, start, dur, *more in lines:
        stats = dict(more[0]) if more else {}
        for key, first in (("correlation_id", STEPS * KERNELS), ("step_num", STEPS)):
            if key in stats:
                stats[key] += first * number
        moved.append((track, name, start + delay_us, dur, stats))
    return moved


def renamed(line: Any) -> Any:
    if not on_device(line):
        return line
    stats = {key: value for key, value in line[4].items() if key != "tf_op"}
    return (line[0], "mystery_kernel", *line[2:4], stats)


#: What says nothing of the time, or repeats it, changes no share.
HARMLESS: dict[str, Change] = {
    "nothing": lambda lines: lines,
    "kernels renamed": lambda lines: [renamed(line) for line in lines],
    "the first half alone": lambda lines: [
        line for line in lines if line[2] < STEPS * STEP_US / 2
    ],
    "the last half alone": lambda lines: [
        line for line in lines if line[2] >= STEPS * STEP_US / 2
    ],
    "ten times as long": lambda lines: scaled(lines, 10.0),
    "everything twice": lambda lines: [
        *lines,
        *later(lines, STEPS * STEP_US, number=1),
    ],
}


@pytest.mark.parametrize("change", HARMLESS, ids=HARMLESS.get and str)
@pytest.mark.parametrize(
    ("made", "finding", "percent"),
    # By hand: 100 % less 24 % of kernels; and 600 of 2,000 µs.
    [(starved, "launch.delay", 76.0), (unfed, "input.bound", 30.0)],
)
def test_a_change_of_other_things_leaves_the_sentence(
    made: Any, finding: str, percent: float, change: str
) -> None:
    headline = said(HARMLESS[change](made()))
    assert headline.finding == finding
    assert headline.percent == pytest.approx(percent, abs=2.0)


@pytest.mark.parametrize(
    ("made", "owner", "percent"), [(starved, "launch", 76.0), (unfed, "input", 30.0)]
)
def test_without_marks_the_time_has_the_same_owner(
    made: Any, owner: str, percent: float
) -> None:
    headline = said([line for line in made() if line[1] != "train"])
    assert headline.owner == owner
    assert headline.percent == pytest.approx(percent, abs=2.0)


@pytest.mark.parametrize(
    ("made", "percent"),
    # The last pause before the end of the recording is no part of it.
    [(starved, 75.0), (unfed, 28.0)],
)
def test_without_the_host_the_time_is_unexplained(made: Any, percent: float) -> None:
    headline = said([line for line in made() if on_device(line)])
    assert (headline.finding, headline.owner) == ("capture.quality", "unexplained")
    assert headline.percent == pytest.approx(percent, abs=3.0)
    assert "of the recording is unexplained" in headline.text


@pytest.mark.parametrize("made", [starved, unfed])
def test_without_the_devices_work_nothing_is_said_of_it(made: Any) -> None:
    lines = [line for line in made() if not on_device(line)]
    headline = judge_profile(
        blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    ).headline
    assert headline.text == "A device was used, but none of its work was recorded."


def test_kernels_before_their_calls_are_a_doubt_of_the_clocks() -> None:
    lines = [
        (*line[:2], line[2] - 500, *line[3:]) if on_device(line) else line
        for line in starved()
        if line[2] > 600
    ]
    headline = said(lines)
    assert headline.finding == "capture.quality"
    assert headline.text.startswith("The clocks of host and device differ")


def test_a_late_clock_makes_pauses_no_switches_of_the_device() -> None:
    """36 µs between kernels are no time that any device needs for itself."""
    late = [
        (*line[:2], line[2] + 500, *line[3:]) if on_device(line) else line
        for line in starved()
    ]
    headline = said(late)
    assert headline.owner == "queued"
    assert headline.percent == pytest.approx(74.0, abs=4.0)


@pytest.mark.slow(seconds=0.3)
def test_one_of_two_devices_alone_says_what_it_did() -> None:
    first = starved()
    second = [
        (line[0].replace("gpu:0", "gpu:1"), *line[1:]) if on_device(line) else line
        for line in later(first, 24.0, number=1)
        if line[1] != "train"
    ]
    both = said([*first, *second])
    assert both.finding == "launch.delay"
    assert "one of 2 busy devices" in both.text
    # Of the other device's launches nothing came: that is said, not that it is idle.
    alone = said(
        [line for line in [*first, *second] if not line[0].startswith("gpu:1")]
    )
    assert alone.finding == "capture.quality"
    assert alone.text.startswith("Records were lost")
