"""What is said of a recording that consists of anything but its steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces import blueprint

from stepscope.derive.facts.outside_steps import outside_steps
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable, require_available

#: Keras on the CPU: a graph is built for 640 ms, then three steps of 10 ms run.
GRAPH = ("main", "tf.function-graph_building", 10_000, 640_000)
STEPS = [
    line
    for number in range(3)
    for line in (
        (
            "main",
            "train",
            960_000 + 10_000 * number,
            9_990,
            {"_r": 1, "step_num": number},
        ),
        ("main", "conv/Relu:Relu", 960_100 + 10_000 * number, 9_000),
    )
]


def trace_of(*lines: tuple[Any, ...]) -> Any:
    return blueprint.trace([("main", "imports", 0, 10), *lines])


def test_the_first_call_is_told_before_the_steps() -> None:
    """Only "90 % of the step is host compute" was said: of 3 % of the recording."""
    document = document_of(trace_of(GRAPH, *STEPS))
    assert document.headline.text == (
        "The steps are only 3.0 % of the recording; 64.6 % is compilation, mostly "
        "tf.function-graph_building. 90.0 % of the step is host compute, mostly Relu."
    )
    assert document.headline.owner == "host_compute"
    assert document.headline.percent == pytest.approx(90, abs=0.1)


@pytest.mark.parametrize(
    "lines",
    [
        # The steps are 30 of 290 ms.
        [("main", "tf.function-graph_building", 700_000, 260_000), *STEPS],
        # What the rest is was not recorded: the program may have ended.
        [*STEPS, ("main", "f", 3_000_000, 10)],
        [*STEPS, ("main", "Buffer Flush", 1_000_000, 2_000_000)],
        # There are no steps.
        [GRAPH],
    ],
)
def test_else_the_steps_are_the_recording(lines: list[tuple[Any, ...]]) -> None:
    profile = blueprint.profile(blueprint.trace(lines))
    assert profile.of_run(outside_steps) is None


def test_another_value_of_a_derivation_changes_what_depends_on_it() -> None:
    profile = blueprint.profile(trace_of(GRAPH, *STEPS))
    assert require_available(profile.derived("vm", windows)).has_steps
    why = Unavailable(code="NO_STEPS", reason="None.", remedy="Mark them.")
    whole = profile.replace_value("steps", why)
    assert whole.derived("vm", steps) is why
    assert not require_available(whole.derived("vm", windows)).has_steps
    # The run itself is unchanged.
    assert require_available(profile.derived("vm", windows)).has_steps
