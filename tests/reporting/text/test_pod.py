"""The page of the workers: what is said of the slowest, and of the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.traces import blueprint

from stepscope.analysis import pod_viewer
from stepscope.analysis.pod_viewer import Options, PodViewerResult
from stepscope.analysis.pod_viewer.comparison import SlowestWorker
from stepscope.reporting.outline import as_text
from stepscope.reporting.text import pod as text_pod
from stepscope.reporting.words.pages import page_sentences

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData


def result(*traces: TraceData) -> PodViewerResult:
    found = pod_viewer.analyse(blueprint.profile(*traces), Options())
    assert isinstance(found, PodViewerResult)
    return found


def page(found: PodViewerResult, *, width: int = 200, **fields: Any) -> str:
    shown = msgspec.structs.replace(found, **fields)
    outline = text_pod.pod_outline(
        shown, title="Pod viewer", doubts=["Careful."], others=["steps"]
    )
    return as_text.render_page(outline, width=width)


def slowest(**fields: Any) -> SlowestWorker:
    told: dict[str, Any] = {
        "host": "b",
        "device": 0,
        "by": "collectives",
        "steps": 3,
        "of_steps": 4,
        "waited_for_ms": 2.5,
        "cause": "input",
        "excess_ms": {"input": 0.8},
    }
    return SlowestWorker(**(told | fields))


def test_workers_stand_side_by_side_with_their_breakdown() -> None:
    text = page(result(blueprint.a1(), blueprint.a5_host_b()))
    assert "Careful." in text
    (vm,) = [
        each for each in text.splitlines() if each.startswith("  vm, device 0  1.0")
    ]
    assert vm.split("  ")[-1] == "Kernel launch"
    shares = [each for each in text.splitlines() if each.startswith("  b, device 0")][
        -1
    ]
    # 16-bit 100, 32-bit 110 of 1000 µs; nothing is compiled, so that is no column.
    # Launches of the first step take 405 µs and those of six others 505, the rest is
    # 245 and 145; the last step is cut.
    assert {"10.0", "11.0", "49.1", "15.9"} <= set(shares.split())
    assert "compile" not in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "The other workers wait for b, device 0, in 3 of 4 steps."),
        ({}, "The other workers waited for it in collectives, 2.50 ms in total."),
        ({}, "It spends 800 µs a step more on input than the median of the other "),
        ({"of_steps": 1, "steps": 1}, "The other workers wait for b, device 0.\n"),
        (
            {"cause": "late_start", "excess_ms": {"late_start": 4.0}},
            "It starts its steps 4.00 ms later than the median of the other workers",
        ),
        ({"by": "device_work", "waited_for_ms": None}, "Its device works longest."),
        (
            {"by": "step_time", "waited_for_ms": None, "device": None, "cause": None},
            "b is the slowest worker",
        ),
    ],
)
@pytest.mark.sweep(every=3)
def test_the_slowest_is_named_with_the_evidence(
    fields: dict[str, Any], said: str
) -> None:
    both = result(blueprint.a1(), blueprint.a5_host_b())
    assert said in page(both, slowest=slowest(**fields))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("collectives", "to within 7.00 µs"),
        ("recorded", "the error of these clocks is not known"),
        ("steps", "to within a step"),
        ("none", "start times are not compared"),
    ],
)
def test_how_surely_the_hosts_are_compared_is_said(source: str, said: str) -> None:
    both = result(blueprint.a1(), blueprint.a5_host_b())
    first, second = both.clocks
    other = msgspec.structs.replace(second, source=source, doubt_us=7.0)
    assert said in page(both, clocks=(first, other))


def test_one_worker_has_nobody_to_be_compared_with() -> None:
    text = page(result(blueprint.a1()))
    assert "There is only one worker" in text
    assert "clocks" not in text.split("Full tables")[0]


def test_what_is_not_known_is_no_column_but_has_its_reason() -> None:
    text = page(result(blueprint.a2()))
    assert "others waited for it" not in text
    assert "lists no device" in text or "contains no device" in text


def test_a_narrow_screen_keeps_the_numbers() -> None:
    text = page(result(blueprint.a1(), blueprint.a5_host_b()), width=60)
    assert "1.00 ms" in text


def test_nothing_is_said_of_steps_where_none_is_known() -> None:
    found = result(blueprint.a1(), blueprint.a5_host_b())
    whole = msgspec.structs.replace(found.steps[0], step=None, name=None)
    for cause, said in (
        ("input", "It spends 800 µs more on input than the median of the other "),
        ("late_start", "It starts to compute 800 µs later than the median of"),
    ):
        late = slowest(of_steps=1, steps=1, cause=cause, excess_ms={cause: 0.8})
        shown = msgspec.structs.replace(found, steps=(whole,), slowest=late)
        words = page_sentences("pod_viewer", shown)
        assert said in words["because"]
        assert words["together"] == (
            "No steps are known: the whole recording is compared."
        )
        assert "step" not in words["because"]
