"""`input_pipeline_analyzer`: verdicts, shares, host-side work, and what is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.input import analysed, missing_of
from tests.support.traces import blueprint

from stepscope.analysis.input_pipeline_analyzer.next_steps import (
    next_steps,
    verdict_text,
)
from stepscope.analysis.steps.input_share import verdict_on_share
from stepscope.reporting.plain import plain

if TYPE_CHECKING:
    from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
    from stepscope.trace.model import TraceData


def of_lines(*lines: blueprint.Line, **more: Any) -> InputPipelineResult:
    return analysed(blueprint.profile(blueprint.trace(list(lines), **more)))


def marker(step: int, start: float, dur: float) -> blueprint.Line:
    return ("main", "train", start, dur, {"_r": 1, "step_num": step})


def test_a2_waits_a_fifth_of_its_steps_and_reads_mostly_ahead() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    # Two closed steps are too few for a critical finding.
    assert result.verdict == "moderately_input_bound"
    assert "2 steps are too few for the verdict highly input-bound." in result.text
    assert result.input_percent == result.input_wait_percent == 20.0
    assert result.input_transfer_percent is None
    assert missing_of(result)["input_transfer_percent"] == "NO_DEVICE_PLANE"
    assert result.host_breakdown_us == {
        "demanded_file_read": 90.0,
        "advanced_file_read": 360.0,
        "preprocessing": 60.0,
        "enqueue": None,  # no device was recorded to which anything is sent
        "unclassified": 0.0,
    }
    assert missing_of(result)["host_breakdown_us.enqueue"] == "NO_DEVICE_PLANE"
    columns = ("name", "count", "total_time_us", "self_time_us", "category")
    assert result.input_ops.select(columns).rows() == [
        (
            "Iterator::Prefetch::ParallelMapV2::TFRecord",
            *(3, 360.0, 360.0),
            "advanced_file_read",
        ),
        ("Iterator::Batch::TFRecord", 3, 90.0, 90.0, "demanded_file_read"),
        ("Iterator::Shuffle", 3, 60.0, 60.0, "preprocessing"),
    ]
    shares = result.input_ops["self_time_percent"].round(3).to_list()
    assert shares == [70.588, 17.647, 11.765]
    assert [step.category for step in result.next_steps] == [
        "advanced_file_read",
        "demanded_file_read",
        "preprocessing",
    ]
    assert result.largest_category == "advanced_file_read"


def test_a2_counts_closed_windows_and_draws_the_open_one() -> None:
    result = analysed(blueprint.profile(blueprint.a2()))
    shown = [
        (step.name, step.counted, step.duration_ms, step.input_ms, step.input_wait_ms)
        for step in result.steps
    ]
    assert shown == [
        ("train 50", True, 1.0, 0.2, 0.2),
        ("train 51", True, 1.0, 0.2, 0.2),
        ("train 52", False, 0.8, 0.2, 0.2),
    ]
    assert result.steps[2].input_percent_avg == 25.0
    assert result.input_percent_stats.mean == 20.0
    assert result.input_percent_stats.std == 0.0
    assert result.step_time_ms.mean == 1.0
    waiting = result.consumer_wait
    assert waiting is not None
    assert (waiting.total_ms, waiting.per_step_ms) == (0.4, 0.2)
    assert (waiting.exposed_ms, waiting.exposed_per_step_ms) == (0.4, 0.2)
    assert (waiting.waits, waiting.slow_waits, waiting.longest_ms) == (2, 2, 0.2)
    assert waiting.hidden_ms is None
    assert missing_of(result)["consumer_wait.hidden_ms"] == "NO_DEVICE_PLANE"


def test_a6_counts_exposed_transfers_and_waiting() -> None:
    result = analysed(blueprint.profile(blueprint.a6()))
    assert result.input_transfer_percent == pytest.approx(100 * 20 / 500)
    assert result.input_wait_percent == pytest.approx(100 * 60 / 500)
    assert result.input_percent == pytest.approx(16.0)
    # 80 µs a step are too short for a finding, whatever their share.
    assert result.verdict == "not_input_bound"
    assert "The input takes less than 100 µs per step." in result.text
    assert result.host_breakdown_us["enqueue"] == 0.0  # the call took no time
    # Nothing was recorded that would tell preprocessing from fetching.
    assert result.host_breakdown_us["preprocessing"] is None


@pytest.mark.parametrize(
    ("sent_us", "sends", "copy_us", "expected"),
    [
        # Eight copies, one of them a batch of 100 MB: nothing to combine.
        (25_000.0, 8, 25_000.0, "Copy the next batch from pinned memory"),
        (250_000.0, 2_501, 99.0, "Combine small pieces"),
        # Calls that only queue their copies, of weights of 400 MB each.
        (1_520.0, 96, 7_280.0, "Copy the next batch from pinned memory"),
    ],
)
def test_pieces_are_combined_only_where_they_are_small(
    sent_us: float, sends: int, copy_us: float, expected: str
) -> None:
    (step,) = next_steps(
        {"enqueue": sent_us}, outside_markers=False, sends=sends, copy_us=copy_us
    )
    assert step.advice.startswith(expected)


@pytest.mark.parametrize(
    ("slowest", "parallel"),
    [
        (None, True),
        ("Iterator::Model::Map", True),
        ("Iterator::Model::ParallelMapV2", False),
        ("Iterator::Model::MaxIntraOpParallelism::Map::Prefetch", False),
    ],
)
def test_what_has_threads_of_its_own_is_not_told_to_run_in_parallel(
    slowest: str | None, *, parallel: bool
) -> None:
    (step,) = next_steps(
        {"preprocessing": 100.0}, outside_markers=False, slowest=slowest
    )
    assert ("transformations in parallel" in step.advice) == parallel
    assert ("already has its own threads" in step.advice) != parallel


@pytest.mark.parametrize(
    ("idle", "maker", "said"),
    [
        (False, None, "Make each batch cheaper"),
        (
            False,
            "`decode` (data.py:31)",
            "cheaper, most of which is in `decode` (data.py:31)",
        ),
        # What they do is not what the steps wait for.
        (
            True,
            "`decode` (data.py:31)",
            "worker processes are idle while the step waits",
        ),
    ],
)
def test_of_workers_that_come_late_the_function_is_named(
    maker: str | None, said: str, *, idle: bool
) -> None:
    (step,) = next_steps(
        {"waiting_for_workers": 100.0},
        outside_markers=False,
        workers_idle=idle,
        workers_in=maker,
    )
    assert said in step.advice
    assert ("decode" in step.advice) == ("decode" in said)


def test_a1_shows_transfers_and_cannot_see_waiting() -> None:
    result = analysed(blueprint.profile(blueprint.a1()))
    assert result.input_percent == result.input_transfer_percent == 7.0
    assert result.verdict == "not_input_bound"
    assert "The input takes less than 100 µs per step." in result.text
    assert result.input_wait_percent is None
    assert missing_of(result)["input_wait_percent"] == "NO_TFDATA_EVENTS"
    # Of seven steps only the first 100 µs of the recording have no owner: launching
    # and queued work are no input that went unseen.
    assert result.input_at_most_percent == pytest.approx(7.0 + 10.0 / 7)
    assert "at least 7.0 %" in result.text


def test_a9_gives_each_stage_its_part_of_the_critical_path() -> None:
    result = of_lines(
        marker(0, 0, 1500),
        ("main", "Iterator::Batch", 0, 1000, {"id": 1}),
        ("main", "Iterator::Batch::Map", 100, 400, {"id": 2, "parent_id": 1}),
        (
            "main",
            "Iterator::Batch::Map::TFRecord",
            *(150, 100, {"id": 3, "parent_id": 2}),
        ),
        ("main", "Iterator::Batch::Map", 500, 400, {"id": 2, "parent_id": 1}),
        (
            "main",
            "Iterator::Batch::Map::TFRecord",
            *(550, 50, {"id": 3, "parent_id": 2}),
        ),
    )
    rows = result.input_ops.select("name", "count", "total_time_us", "self_time_us")
    assert rows.rows() == [
        ("Iterator::Batch::Map", 2, 800.0, 650.0),
        ("Iterator::Batch", 1, 1000.0, 200.0),
        ("Iterator::Batch::Map::TFRecord", 2, 150.0, 150.0),
    ]
    critical = result.input_ops["critical_time_ms"].to_list()
    assert critical == pytest.approx([0.65, 0.2, 0.15])
    assert result.bottleneck_iterator == "Iterator::Batch::Map"


def test_waiting_between_the_markers_counts_and_is_said_so() -> None:
    lines: list[blueprint.Line] = []
    for step in range(4):
        begin = 1000 * step
        lines += [
            marker(step, begin, 600),
            ("main", "a/MatMul:MatMul", begin + 10, 580),
            ("main", "IteratorGetNext", begin + 650, 300),
        ]
    result = of_lines(*lines)
    assert result.input_percent == pytest.approx(30.0)
    assert result.verdict == "highly_input_bound"
    assert result.between_steps is not None
    assert result.between_steps.outside_markers
    assert result.between_steps.wait_ms == pytest.approx(0.9)
    assert (result.between_steps.gaps, result.between_steps.gaps_with_wait) == (3, 3)
    assert result.next_steps[0].category == "outside_markers"


def test_the_range_over_devices_tells_a_device_that_hides_the_wait() -> None:
    lines: list[blueprint.Line] = []
    for step in range(2):
        begin, number = 1000 * step, {"correlation_id": step}
        lines += [
            marker(step, begin, 1000),
            ("main", "cuLaunchKernel", begin, 0, number),
            # What was launched before the fetch would be queued, not wait for it.
            ("main", "IteratorGetNext", begin, 400),
            ("main", "cuLaunchKernel", begin + 400, 0, {"correlation_id": 10 + step}),
            # No later launch explains why the devices do nothing after the last one.
            ("main", "a/MatMul:MatMul", begin + 400, 600),
            ("gpu:0/7(Compute)", "sgemm", begin, 400, number),
            (
                "gpu:1/7(Compute)",
                "sgemm",
                begin + 400,
                100,
                {"correlation_id": 10 + step},
            ),
        ]
    result = of_lines(*lines, devices={0: blueprint.A100, 1: blueprint.A100})
    step = result.steps[0]
    assert step.input_percent_avg == pytest.approx(20.0)
    assert (step.input_percent_min, step.input_percent_max) == (0.0, 40.0)
    assert step.consumer_wait_ms == pytest.approx(0.4)
    columns = ("device", "steps", "input_percent", "input_wait_percent")
    assert result.devices.select(columns).rows() == [
        (0, 2, 0.0, 0.0),
        (1, 2, 40.0, 40.0),
    ]
    waiting = result.consumer_wait
    assert waiting is not None
    assert (waiting.total_ms, waiting.exposed_ms, waiting.hidden_ms) == (0.8, 0.4, 0.4)
    # The device that works most is judged, and it does not wait.
    assert result.verdict == "not_input_bound"
    assert "that of vm:0, whose share is 0.0 %" in result.text


def test_without_any_trace_of_fetching_unexplained_time_leaves_it_open() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 900),
            ("main", "a/MatMul:MatMul", begin + 10, 500),
        ]
    result = of_lines(*lines)
    assert result.verdict == "unknown"
    assert result.input_percent is None
    assert result.input_at_most_percent == pytest.approx(50.0)
    codes = missing_of(result)
    assert codes["verdict"] == codes["input_percent"] == "NO_TFDATA_EVENTS"
    assert codes["steps.input_ms"] == codes["consumer_wait"] == "NO_TFDATA_EVENTS"
    assert set(result.host_breakdown_us.values()) == {None}
    assert codes["host_breakdown_us"] == codes["input_ops"] == "NO_TFDATA_EVENTS"


def test_without_any_trace_of_fetching_explained_steps_are_not_input_bound() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 1000),
            ("main", "a/MatMul:MatMul", begin, 980),
        ]
    result = of_lines(*lines)
    assert result.verdict == "not_input_bound"
    assert result.input_percent is None
    assert result.input_at_most_percent == pytest.approx(2.0)
    assert "at most 2.0 %" in result.text


@pytest.mark.parametrize(
    ("percent", "verdict"),
    [
        (0.0, "not_input_bound"),
        (4.99, "not_input_bound"),
        (5.0, "moderately_input_bound"),
        (19.99, "moderately_input_bound"),
        (20.0, "highly_input_bound"),
        (None, "unknown"),
    ],
)
def test_the_share_of_another_producer_is_judged_by_itself(
    percent: float | None, verdict: str
) -> None:
    assert verdict_on_share(percent) == verdict


def lock_step(host: str, wait: float) -> TraceData:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines += [
            marker(step, begin, 900),
            ("main", "IteratorGetNext", begin, wait),
            ("main", "a/MatMul:MatMul", begin + 500, 300),
            ("worker", "Iterator::Shuffle", begin, wait / 2),
        ]
    return blueprint.trace(lines, host=host)


def test_hosts_in_lock_step_add_up_and_a_pick_shows_its_own_numbers() -> None:
    traces = lock_step("a", 100), lock_step("b", 300)
    both = analysed(blueprint.profile(*traces))
    assert both.input_percent == pytest.approx(20.0)
    assert [one.input_percent for one in both.by_host] == [10.0, 30.0]
    assert [one.verdict for one in both.by_host] == [
        "moderately_input_bound",
        "moderately_input_bound",
    ]
    assert "that of b, whose share is 30.0 %" in both.text
    assert both.input_ops.select("host", "count", "self_time_us").rows() == [
        ("b", 3, 450.0),
        ("a", 3, 150.0),
    ]
    assert both.host_breakdown_us["preprocessing"] == 600.0
    assert len(both.steps) == 6
    picked = analysed(blueprint.profile(*traces), host="b")
    alone = analysed(blueprint.profile(traces[1]))
    assert plain(picked) == plain(alone)


def test_unrelated_hosts_are_judged_alone() -> None:
    other = blueprint.trace(
        [
            line
            for step in range(3)
            for line in (
                marker(700 + step, 1000 * step, 900),
                ("main", "IteratorGetNext", 1000 * step, 300),
            )
        ],
        host="b",
    )
    result = analysed(blueprint.profile(lock_step("a", 10), other))
    assert result.input_percent is None
    assert missing_of(result)["input_percent"] == "NO_SAMPLES"
    assert result.verdict == "moderately_input_bound"
    assert result.text == "b is moderately input-bound. Each host is judged separately."
    assert [one.input_percent for one in result.by_host] == pytest.approx([1.0, 30.0])


def test_where_every_step_is_left_out_nothing_is_decided() -> None:
    profile = blueprint.profile(blueprint.trace([marker(0, 0, 900)]))
    result = analysed(profile, exclude_flags=["first", "open_end"])
    assert (result.verdict, result.input_percent) == ("unknown", None)
    assert result.text == "Whether the program is input-bound is not known."
    assert missing_of(result)["verdict"] == "NO_STEPS"


def test_the_contract_fields_are_in_the_json() -> None:
    data = plain(analysed(blueprint.profile(blueprint.a2())))
    assert isinstance(data, dict)
    assert {
        *("verdict", "input_percent", "input_wait_percent", "input_transfer_percent"),
        *("step_time_ms", "host_breakdown_us", "input_ops"),
    } <= data.keys()
    assert list(data["input_ops"][0])[:7] == [
        *("name", "count", "total_time_us", "total_time_percent"),
        *("self_time_us", "self_time_percent", "category"),
    ]


@pytest.mark.parametrize(
    ("share", "has_steps", "whole", "rest"),
    [
        (0.02, True, "<0.1 % of the step time", "the rest of the step"),
        (0.02, False, "<0.1 % of the recording (no steps are known)", "the rest"),
        (4.26, True, "4.3 % of the step time", "the rest of the step"),
    ],
)
def test_the_verdict_writes_no_share_as_none_and_no_step_where_none_is_known(
    share: float, *, has_steps: bool, whole: str, rest: str
) -> None:
    said = verdict_text(
        "not_input_bound", share, share, has_steps=has_steps, decided=None
    )
    assert said.startswith(f"The program is not input-bound: {whole}")
    assert said.endswith(f" Work on {rest}.")
