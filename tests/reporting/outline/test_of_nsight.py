"""What a report on a database of Nsight Systems advises: what can be done there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.conftest import PROFILES
from tests.support.traces.nsight import (
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    call,
    copy,
    global_id,
    kernel,
    span,
    write,
)

import stepscope as ss
from stepscope.advice.registry import RULES
from stepscope.cli.output import Progress
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.reporting.document import Document

#: Options and verbs of profilers of frameworks, and marks that these alone record.
OF_OTHERS = re.compile(
    r"prof\.step|torch\.profiler\.(?:schedule|profile)|tf\.profiler|profile_batch"
    r"|jax\.profiler\.(?:Step|start_trace)|ss\.(?:Trace|StepTrace)"
)
MS = 1_000_000
#: What each kernel takes, in an order without a pattern.
LENGTHS = (31, 5, 19, 7, 53, 2, 41, 9)


def program(folder: Path) -> Path:
    """A program in C++: 300 ms of setting the device up, then kernels and no step."""
    calls = [call("cudaMalloc_v3020", 10 * MS, 310 * MS, 900)]
    kernels = []
    at = 320 * MS
    for number, length in enumerate(LENGTHS, start=1):
        calls.append(call("cudaLaunchKernel_v7000", at, at + 5_000, number))
        kernels.append(
            kernel(f"solve_{number}(float *)", at + 9_000, at + length * MS, number)
        )
        # In one pause nothing was recorded.
        at += (length + 60 * (number == 4)) * MS + 10_000
    calls.append(call("cudaDeviceSynchronize_v3020", at, at + 1_000, 901))
    return write(folder / "solver.sqlite", {RUNTIME: calls, KERNEL: kernels})


def copying(folder: Path) -> Path:
    """Steps with a copy that nothing hides, between kernels that nothing names."""
    ranges, calls, kernels, copies = [], [], [], []
    for step in range(8):
        at = 10 * MS * step
        ranges.append(span(f"step {step}", at, at + 9 * MS))
        calls.append(call("cudaMemcpyAsync_v3020", at, at + 5_000, 2 * step + 1))
        copies.append(copy(1, at + 9_000, at + 3 * MS, 2 * step + 1, srcKind=1))
        calls.append(
            call("cudaLaunchKernel_v7000", at + 6_000, at + 8_000, 2 * step + 2)
        )
        kernels.append(kernel("gemm", at + 3 * MS, at + 9 * MS, 2 * step + 2))
    tables = {NVTX: ranges, RUNTIME: calls, KERNEL: kernels, MEMCPY: copies}
    return write(folder / "copying.sqlite", tables)


def sampled(folder: Path) -> Path:
    """Steps of 10 ms: for 6 ms `prepare` runs, and then a kernel for 3 ms."""
    ranges, calls, kernels, looks, stacks = [], [], [], [], []
    for step in range(8):
        at = 10 * MS * step
        ranges.append(span(f"step {step}", at, at + 9_900_000))
        calls.append(call("cudaLaunchKernel_v7000", at + 6 * MS, at + 6_005_000, step))
        kernels.append(kernel("gemm", at + 6_009_000, at + 9 * MS, step))
        calls.append(
            call("cudaStreamSynchronize_v3020", at + 6_006_000, at + 9_001_000, 50)
        )
        for half_ms in range(13):
            number = len(looks) + 1
            looks.append(
                {
                    "id": number,
                    "start": at + half_ms * MS // 2,
                    "globalTid": global_id(thread=1),
                }
            )
            stacks += [
                {
                    "id": number,
                    "symbol": symbol,
                    "module": "/home/me/solver",
                    "unresolved": None,
                    "stackDepth": depth,
                }
                for depth, symbol in enumerate(("prepare(float*)", "main", "_start"))
            ]
    tables = {
        NVTX: ranges,
        RUNTIME: calls,
        KERNEL: kernels,
        "COMPOSITE_EVENTS": looks,
        "SAMPLING_CALLCHAINS": stacks,
    }
    return write(folder / "sampled.sqlite", tables)


def composed(path: Path) -> Document:
    return compose_report(ss.open(path), Progress(stages=9))


def text_of(document: Document) -> str:
    return " ".join(
        plain_text(as_text.render(report_outline(document), width=100)).split()
    )


def finding_of(document: Document, rule: str) -> Finding:
    return next(one for one in document.findings if one.id == rule)


def test_nothing_that_only_a_framework_s_profiler_can_do_is_advised(
    tmp_path: Path,
) -> None:
    document = composed(program(tmp_path))
    said = text_of(document)
    assert OF_OTHERS.findall(said) == []
    assert "To name the unexplained time: put NVTX ranges" in said
    steps = finding_of(document, "capture.steps")
    assert {one.recorder for one in steps.actions} == {"nsight"}
    assert any("nvtxRangePush" in (one.code or "") for one in steps.actions)
    first_use = finding_of(document, "capture.window")
    assert first_use.note == "start_up"
    assert any("--delay-s" in (one.code or "") for one in first_use.actions)


def test_a_compiler_is_not_missed_where_the_device_is_set_up(tmp_path: Path) -> None:
    document = composed(program(tmp_path))
    assert finding_of(document, "xla.off").status == "pass"


def test_work_of_a_compiled_program_is_not_to_be_vectorised(tmp_path: Path) -> None:
    """`prepare` is a function of the program's own file that samples found."""
    document = composed(sampled(tmp_path))
    found = finding_of(document, "host.work")
    assert found.status == "fail"
    assert [one.function for one in found.parts][:1] == ["prepare"]
    texts = [one.text for one in found.actions]
    assert any("CPU profiler" in text for text in texts)
    assert not any("Vectorise" in text for text in texts)


def test_a_recording_of_pytorch_keeps_the_options_of_its_profiler(
    tmp_path: Path,
) -> None:
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 1,
            "tid": 1,
            "ts": 100.0 * at**1.5,
            "dur": 20.0 + at,
        }
        for at in range(6)
    ]
    path = tmp_path / "a.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    actions = finding_of(composed(path), "capture.steps").actions
    assert [one.code for one in actions if one.framework == "PyTorch"] == [
        "prof.step()"
    ]
    assert all(one.recorder != "nsight" for one in actions)


def test_what_tells_how_to_record_says_whose_recordings_it_is_for() -> None:
    """No action of a rule asks a recording for what another profiler does."""
    for rule in RULES:
        for action in rule.item.declared_actions.values():
            said = f"{action.text} {action.code}"
            if OF_OTHERS.search(said):
                assert action.recorder == "framework", (rule.item.id, said)
            if re.search(r"nsys|NVTX|nvtx", said):
                assert action.recorder == "nsight", (rule.item.id, said)


def test_a_copy_between_work_without_a_name_has_none_itself(tmp_path: Path) -> None:
    found = finding_of(composed(copying(tmp_path)), "copy.exposed")
    assert found.status == "fail"
    assert [(one.name, one.detail) for one in found.parts] == [
        ("the copy to the device", None)
    ]


# Slow: a whole report of each database.
@pytest.mark.slow
@pytest.mark.profiles
@pytest.mark.parametrize(
    "name",
    [
        str(path.relative_to(PROFILES))
        for folder in ("nsys_sqlite", "nsys_ladder")
        for path in sorted((PROFILES / folder).rglob("*.sqlite*"))
    ],
)
def test_real_databases_are_not_asked_for_what_frameworks_record(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    said = text_of(composed(shared_profile(name)))
    assert OF_OTHERS.findall(said) == []
    assert "(no annotation) and" not in said
