"""Advice is given for each category with time, what steps wait for first."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.analysis import input_pipeline_analyzer
from stepscope.analysis.input_pipeline_analyzer.next_steps import next_steps
from stepscope.derive.verdicts.input_actions import action_for_category

#: 400 µs in all; nothing is known of the files that are read on demand.
SPENT = {
    "preprocessing": 100.0,
    "advanced_file_read": 0.0,
    "demanded_file_read": None,
    "enqueue": 60.0,
    "unclassified": 240.0,
}
PERCENT = {"preprocessing": 25, "enqueue": 15, "unclassified": 60}


@pytest.mark.parametrize(
    ("leading", "outside", "order"),
    [
        (None, False, ("unclassified", "preprocessing", "enqueue")),
        ("fetch", False, ("unclassified", "preprocessing", "enqueue")),
        ("transfer", False, ("enqueue", "unclassified", "preprocessing")),
        (
            "transfer",
            True,
            ("outside_markers", "enqueue", "unclassified", "preprocessing"),
        ),
        (
            "starved",
            True,
            (
                *("outside_markers", "not_recorded"),
                *("unclassified", "preprocessing", "enqueue"),
            ),
        ),
    ],
)
def test_the_order_and_the_shares_of_categories(
    leading: str | None, order: tuple[str, ...], *, outside: bool
) -> None:
    found = next_steps(SPENT, outside_markers=outside, leading=leading)
    assert [one.category for one in found] == list(order)
    for one in found:
        assert one.self_time_us == SPENT.get(one.category)
        assert one.self_time_percent == PERCENT.get(one.category)
        # A call that sends takes 60 µs: a small copy.
        facts = ("copies_are_small",)
        assert one.advice == action_for_category(one.category, facts).text


@pytest.mark.parametrize(
    ("sends", "copy_us", "is_small"),
    [(3, 0.0, False), (4, 99.9, True), (4, 100.0, False), (0, 0.0, False)],
)
def test_copies_are_small_below_a_hundred_microseconds(
    sends: int, copy_us: float, *, is_small: bool
) -> None:
    spent = {"enqueue": 300.0}
    (step,) = next_steps(spent, outside_markers=False, sends=sends, copy_us=copy_us)
    facts = ("copies_are_small",) if is_small else ()
    assert step.advice == action_for_category("enqueue", facts).text
    assert (step.self_time_us, step.self_time_percent) == (300, 100)


def test_where_enqueuing_takes_longest_fetches_still_come_first() -> None:
    spent = {"enqueue": 500.0, "preprocessing": 1.0}
    for leading, first in ((None, "enqueue"), ("fetch", "preprocessing")):
        found = next_steps(spent, outside_markers=False, leading=leading)
        assert found[0].category == first


def test_without_time_there_is_no_advice() -> None:
    assert (
        next_steps({"enqueue": None, "preprocessing": 0.0}, outside_markers=False) == ()
    )


@pytest.mark.parametrize(("longest_us", "is_small"), [(179, True), (180, False)])
def test_the_mean_copy_to_the_devices_of_all_hosts_decides(
    longest_us: int, *, is_small: bool
) -> None:
    """Copies of 60 µs on each host and one more; those to the host do not count."""
    recorded = []
    for host, copies in (("a", (60, longest_us)), ("b", (60,))):
        lines: list[blueprint.Line] = []
        for step in range(2):
            begin = 1000 * step
            sent = ("main", "x:InfeedEnqueue", begin + 10, 20)
            lines += [("main", "train", begin, 900, {"_r": 1, "step_num": step}), sent]
        for number, dur in enumerate(copies):
            lines.append(("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 200 * number, dur))
        lines.append(("gpu:0/9(MemcpyD2H)", "MemcpyD2H", 500, 400))
        recorded.append(blueprint.trace(lines, host=host))
    options = input_pipeline_analyzer.Options()
    result = input_pipeline_analyzer.analyse(blueprint.profile(*recorded), options)
    assert isinstance(result, input_pipeline_analyzer.InputPipelineResult)
    facts = ("copies_are_small",) if is_small else ()
    advice = {one.category: one.advice for one in result.next_steps}
    assert advice["enqueue"] == action_for_category("enqueue", facts).text
