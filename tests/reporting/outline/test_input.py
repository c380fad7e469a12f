"""The section on input: only where the program waits for it, and why it waits."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.results.pages import document_of, host_loop, page, section
from tests.support.traces import blueprint
from tests.support.traces.pipelines import steps_with_call
from tests.support.traces.waiting import for_workers

from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.tools import input_pipeline
from stepscope.reporting.page import plain_text

SLOW = blueprint.trace(steps_with_call(call=400, work=600))
MORE = "  more: stepscope show input_pipeline_analyzer PATH"
MORE_STAGES = "  more: stepscope show tf_data_bottleneck_analysis PATH"


def test_it_says_how_much_waits_what_the_host_does_and_which_stage_is_slow() -> None:
    lines = section(page(SLOW, width=100), "Input")
    assert lines is not None
    assert "highly input-bound: 40.0 % of the step time" in lines[0]
    (work,) = [one for one in lines if one.startswith("  Preprocessing ")]
    # Five calls of 400 µs, and nothing else.
    assert work.split()[1:5] == ["2.00", "ms", "100.0", "%"]
    told = " ".join(one.strip() for one in lines)
    assert (
        "The slowest stage of the pipeline is Iterator::Batch: it takes 400 µs of the "
        "longest call (400 µs)." in told
    )
    assert lines[-2:] == [MORE, MORE_STAGES]
    assert not [one for one in lines if one.startswith("  Reading ahead")]


def test_the_host_of_the_slowest_stage_is_named_where_there_are_several() -> None:
    quick = blueprint.trace(steps_with_call(call=100, work=900), host="quick")
    slow = blueprint.trace(steps_with_call(call=400, work=600), host="slow")
    lines = section(page(quick, slow, width=100), "Input")
    assert lines is not None
    assert any("The slowest stage of the pipeline on slow is " in one for one in lines)


def test_a_run_that_does_not_wait_has_no_section() -> None:
    healthy = blueprint.trace(steps_with_call(call=10, work=990))
    assert section(page(healthy), "Input") is None


def test_a_run_of_which_it_is_unknown_has_no_section() -> None:
    marked = [
        ("main", "train", 1000 * step, 900, {"_r": 1, "step_num": step})
        for step in range(4)
    ]
    text = page(blueprint.trace(marked))
    assert section(text, "Input") is None
    assert "Input: 2 cannot tell (input.bound, input.stage)" in text


def test_without_stages_nothing_is_made_up_about_them() -> None:
    lines = section(page(blueprint.trace(host_loop())), "Input")
    assert lines is not None
    assert "30.0 %" in lines[0]
    assert lines[-1] == MORE
    assert not [one for one in lines if "stage" in one or "work on input" in one]


@pytest.mark.parametrize("share", [None, 100.0])
def test_work_that_nobody_looked_at_is_named_and_not_zero(share: float | None) -> None:
    document = document_of(SLOW)
    result = document.input_pipeline
    spent = {**result.host_breakdown_us, "enqueue": None}
    shares = {**result.host_breakdown_percent, "enqueue": None}
    if share is None:
        spent = dict.fromkeys(spent)
        shares = dict.fromkeys(shares)
    changed = msgspec.structs.replace(
        result, host_breakdown_us=spent, host_breakdown_percent=shares
    )
    results = document.results | {"input_pipeline_analyzer": changed}
    document = msgspec.structs.replace(document, results=results)
    text = plain_text(as_text.render(tuple(input_pipeline(document)), width=100))
    if share is None:
        assert "work on input, threads" not in text
    else:
        assert "  Not recorded: Reading on demand, Reading ahead" in text
    assert "  Sending to the device  " not in text


def test_what_worker_processes_do_is_told_in_a_short_table() -> None:
    lines = section(page(for_workers(), width=100), "Input")
    assert lines is not None
    at = lines.index("  Time of the worker processes (1 sampled) while steps run:")
    assert lines[at + 1 : at + 3] == [
        "     82.5 %  augment (data.py:41)",
        "     17.5 %  Waiting for work",
    ]


def test_where_steps_wait_for_workers_it_says_why_nobody_looked_at_them() -> None:
    lines = section(page(for_workers(looked_at=False), width=100), "Input")
    assert lines is not None
    told = " ".join(one.strip() for one in lines)
    assert "it does not record the functions of worker processes" in told
    assert "Time of the worker processes" not in told
    # A program that waits for no workers lacks nothing.
    others = section(page(SLOW, width=100), "Input")
    assert others is not None
    assert not any("worker processes" in one for one in others)
