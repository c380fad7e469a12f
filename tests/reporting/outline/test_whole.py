"""The page of text on literal runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.results.pages import STEP, host_loop, page
from tests.support.traces import blueprint
from tests.support.traces.nsight import NVTX, global_id, read_file, span, write

from stepscope.cli.output import Progress
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


def test_the_verdict_names_what_bounds_the_step_how_much_and_what_to_do() -> None:
    lines = page(blueprint.trace(host_loop())).splitlines()
    assert lines[0] == "stepscope · run"
    assert lines[1] == "host vm · CPU only"
    assert lines[3] == (
        "Input-bound: waiting for data takes 30.0 % of the time, 300 µs a step."
    )
    assert lines[4].startswith("Do first (input.bound): ")
    assert "with 1 worker: a step of 699 µs" in f"{lines[4]} {lines[5]}"


def test_a_healthy_run_is_told_what_its_step_is() -> None:
    text = page(blueprint.trace(host_loop(fetch=10)))
    # Of 12 steps that take 11.99 ms, MatMul takes 11.4 ms.
    assert "95.1 % of the step is host compute, mostly MatMul." in text


def test_a_bar_is_as_long_as_its_share() -> None:
    lines = page(blueprint.trace(host_loop(fetch=480)), width=98).splitlines()
    bars = {
        one[2:26].strip(): one.count("█") for one in lines if "█" in one and "%" in one
    }
    assert bars["Input"] == bars["Host compute"] == 23


def test_a_device_that_kept_silent_leads_the_page() -> None:
    lines = host_loop()
    lines.append(("main", "cuLaunchKernel", 500, 5, {"correlation_id": 1}))
    text = page(blueprint.trace(lines, devices={0: blueprint.A100}))
    head = text.split("Where the step time went")[0]
    assert head.splitlines()[3] == "! The device's work is not in this profile."
    assert "NVreg_RestrictProfilingToAdminUsers=0" in head
    assert "dcgmi profile --pause" in head


def test_nsight_systems_is_asked_for_what_it_was_not_told_to_record(
    tmp_path: Path,
) -> None:
    """Only ranges were recorded, beside a device: no framework's library is missing."""
    tables = {
        NVTX: [span("step 1", 0, 1000), span("step 2", 1000, 2000)],
        "TARGET_INFO_GPU": [{"id": 0, "cuDevice": 0, "name": "NVIDIA TITAN RTX"}],
    }
    head = page(read_file(write(tmp_path / "a.sqlite", tables))).split("Findings")[0]
    assert "! The device's work is not in this profile." in head
    assert "under `nsys profile --trace=cuda,nvtx`" in " ".join(head.split())
    assert "CUDA_HOME" not in head


def test_a_program_that_samples_find_in_calls_of_cuda_used_a_device(
    tmp_path: Path,
) -> None:
    """No GPU is listed and no call was traced; the story: it was "CPU only"."""
    thread, file = global_id(thread=1), "/home/me/solver"
    stack = ((file, "cudaMalloc"), (file, "main(int, char**)"))
    looks = range(20)
    tables = {
        NVTX: [span("solve", 0, 30_000_000)],
        "COMPOSITE_EVENTS": [
            {"id": 1 + at, "start": at * 1_000_000, "globalTid": thread} for at in looks
        ],
        "SAMPLING_CALLCHAINS": [
            {
                "id": 1 + at,
                "symbol": symbol,
                "module": module,
                "unresolved": None,
                "stackDepth": depth,
            }
            for at in looks
            for depth, (module, symbol) in enumerate(stack if at < 9 else stack[1:])
        ],
    }
    text = page(read_file(write(tmp_path / "a.sqlite", tables)))
    assert "devices not recorded" in text.splitlines()[1]
    head = " ".join(text.split("Where the")[0].split())
    assert "The program used a device (samples found it in calls" in head
    assert "A device was used, but none of its work was recorded." in head
    assert ":None" not in text


def test_a_run_on_the_cpu_is_not_accused_of_silence() -> None:
    assert "not in this profile" not in page(blueprint.trace(host_loop()))


def test_unexplained_time_is_called_so() -> None:
    lines = [
        ("main", "train", STEP * number, 990, {"_r": 1, "step_num": number})
        for number in range(5)
    ]
    lines.append(("main", "a/MatMul:MatMul", 0, 10))
    text = page(blueprint.trace(lines), width=120)
    # The steps take 4990 µs: one op takes 10 µs, and 40 µs lie between the markers.
    assert "99.0 % of the step is unexplained" in text.splitlines()[3]


@pytest.mark.profiles
def test_a_damaged_file_leads_the_page(shared_profile: Any) -> None:
    trace = open_profile(shared_profile("corrupt/truncated_60"))
    document = compose_report(trace, Progress(stages=9))
    lines = plain_text(as_text.render(report_outline(document), width=90)).splitlines()
    assert lines[3].startswith("! vm: The file is damaged at byte 216,872")


def test_without_steps_the_page_says_how_to_mark_them() -> None:
    text = page(blueprint.trace([("main", "a/MatMul:MatMul", 0, 900)]))
    assert "No steps were found: shares are of the whole recording" in text
    assert "Mark each training step" in text


def test_steps_that_differ_are_drawn_and_named() -> None:
    lines = host_loop(12)
    late = [
        (track, name, start + (20_000 if start >= 5000 else 0), *rest)
        for track, name, start, *rest in lines
    ]
    text = page(blueprint.trace(late))
    assert "outlier: step 4" in text
    drawn = next(one for one in text.splitlines() if one.strip().startswith("▁"))
    assert drawn.strip() == "▁▁▁▁█▁▁▁▁▁▁▁"


def test_hosts_stand_side_by_side() -> None:
    text = page(
        blueprint.trace(host_loop(fetch=10), host="a"),
        blueprint.trace(host_loop(fetch=500), host="b"),
    )
    rows = text.split("\nHosts\n")[1].splitlines()[1:3]
    assert [row.split()[0] for row in rows] == ["a", "b"]
    assert "1.1 %" in rows[0] or "1.0 %" in rows[0]
    assert "50.0 %" in rows[1]


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.sweep(every=3)
def test_no_line_but_a_command_is_wider_than_the_page(width: int) -> None:
    for trace in (blueprint.a1(), blueprint.a2(), blueprint.trace(host_loop())):
        wide = [
            one
            for one in page(trace, width=width).splitlines()
            if len(one) > width and not one.startswith(" " * 6)
        ]
        assert wide == []


def test_a_reason_stands_once_however_many_values_it_explains() -> None:
    text = page(blueprint.a2())
    unseen = text.split("What could not be seen")[1]
    told = [" ".join(one.split()) for one in unseen.split("  • ")[1:]]
    # What it explains stands in parentheses behind the reason.
    reasons = [one.rpartition(" (")[0] for one in told]
    assert len(reasons) == len(set(reasons)) > 1


def test_one_rank_of_many_is_called_so_and_no_device_unused() -> None:
    lines = [("gpu:0/7", "gemm", 0, 100)]
    listed = {0: blueprint.A100, 1: blueprint.A100}
    recorded = blueprint.trace(lines, devices=listed)
    assert "1 more without recorded work" in page(recorded).splitlines()[1]
    row = recorded.table("environment")
    assert not isinstance(row, Unavailable)
    of_many = row.with_columns(processes=pl.lit(16, pl.Int64), rank=pl.lit(3, pl.Int64))
    head = page(blueprint.substitute(recorded, environment=of_many)).splitlines()[1]
    assert "rank 3 of 16" in head
    assert "without recorded work" not in head


def test_work_of_a_device_that_is_not_understood_leads_the_page() -> None:
    why = Unavailable(code="UNKNOWN_DEVICE", reason="It holds x.", remedy="Ask y.")
    lines = [("main", "MatMul:MatMul", 0, 100)]
    trace = blueprint.substitute(
        blueprint.trace(lines), device_activity=why, devices=why
    )
    text = page(trace)
    assert "unsupported device" in text.splitlines()[1]
    assert "! The profile contains work of an unsupported device." in text
    assert "CPU only" not in text


def test_collectives_are_shown_with_bytes_and_rates() -> None:
    said: dict[str, Any] = {
        "Collective name": "allgather", "In msg nelems": 2**18,
        "Out msg nelems": 2**20, "dtype": "Float", "Group size": 4,
    }  # fmt: skip
    # 4 MiB in 4 ms, of which three quarters cross the link of a member.
    text = page(blueprint.trace([("gpu:0/7", "ncclDevKernel", 0, 4000, said)]))
    (row,) = (one for one in text.splitlines() if one.startswith("  all-gather"))
    assert row.split() == [
        *("all-gather", "1", "4.00", "ms", "4.00", "ms", "4.00", "MiB"),
        *("0.98", "0.73"),
    ]


def test_an_empty_recording_is_one_sentence_and_no_page_of_doubts() -> None:
    text = page(blueprint.trace([]))
    assert text.count("The profile contains no events.") == 2
    assert "Findings" not in text
    assert "What could not be seen" not in text
    assert "Mark each" not in text


def plain_page(lines: list[Any]) -> str:
    """The page of a program in which stepscope saw no framework."""
    trace = blueprint.trace(lines)
    environment = trace.table("environment")
    assert isinstance(environment, pl.DataFrame)
    recorded = environment.with_columns(collectors=pl.lit("host,python_calls"))
    return page(blueprint.substitute(trace, environment=recorded))


def test_a_program_without_a_framework_is_not_asked_for_its_ops() -> None:
    text = plain_page([("main", "work", 100 * k, 80) for k in range(3)])
    for other in ("TensorFlow", "JAX", "PyTorch", "tf.", "jax.", "prof.step()"):
        assert other not in text
    assert "ss.StepTrace" in text
    assert "Top ops" not in text
    findings = text.split("Findings")[1]
    for rule in ("mem.oom", "mem.leak", "launch.small", "launch.eager"):
        assert rule not in findings


def test_a_program_without_a_framework_is_its_functions_not_a_lack_of_steps() -> None:
    text = plain_page(
        [
            ("main", "/app/rows.py(1): <module>", 3, 997),
            ("main", "/app/rows.py(7): load", 3, 700),
            ("main", "/app/rows.py(5): parse", 3, 600),
            ("main", "/app/rows.py(9): group", 703, 290),
            # Before the first look at the stack.
            ("main", "gc.collect", 0, 1),
        ]
    )
    first, *rest = text.split("\n\n")[1].splitlines()
    assert " ".join([first, *rest]).startswith(
        "99.8 % of the recording is time in functions of the program, mostly `parse` "
        "(rows.py:5). Do first (host.work): Vectorise the named function: "
    )
    for named in (
        *("parse (rows.py:5)  60.0 %", "group (rows.py:9)  29.0 %"),
        "load (rows.py:7)  10.0 %",
    ):
        assert named in text
