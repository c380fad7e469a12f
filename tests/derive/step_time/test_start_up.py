"""Where a program starts, until its device works steadily; times are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces import blueprint

from stepscope.derive.account.parts import account_parts
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.derive.step_time.start_up import start_up
from stepscope.unavailable import require_available

MS = 1_000_000_000


def host(name: str, start: float, dur: float, **stats: int) -> tuple[Any, ...]:
    return ("main", name, 1_000 * start, 1_000 * dur, *([stats] if stats else []))


def work(number: int, called: float, start: float, dur: float) -> list[tuple[Any, ...]]:
    """A kernel that occurs once, so that nothing repeats."""
    stats = {"correlation_id": number}
    name = f"kernel_{chr(96 + number)}"
    return [
        host("cudaLaunchKernel", called, 0.01, **stats),
        ("gpu:0/7(Compute)", name, 1_000 * start, 1_000 * dur, stats),
    ]


#: A model is built for 900 ms, its first call to the device creates a context, and then
#: the device works for 300 ms.
CONSTRUCTION = [host("init_model", 0, 960), host("cudaMalloc", 900, 50)]
STEADY = [*work(1, 969, 970, 100), *work(2, 971, 1070, 200)]


def profile_of(*lines: tuple[Any, ...]) -> Any:
    return blueprint.profile(blueprint.trace(list(lines)))


def spans_of(*lines: tuple[Any, ...]) -> list[tuple[int, int]]:
    found = require_available(profile_of(*lines).derived("vm", start_up))
    pairs = zip(found.start_ps.tolist(), found.end_ps.tolist(), strict=True)
    return [(start // MS, end // MS) for start, end in pairs]


def test_all_until_the_steady_work_is_start_up() -> None:
    """ "The host cannot feed the device … run the op on the device" was said of it."""
    lines = [*CONSTRUCTION, *STEADY]
    assert spans_of(*lines) == [(0, 970)]
    profile = profile_of(*lines)
    (row,) = require_available(profile.derived("vm", account)).rows.iter_rows(
        named=True
    )
    assert row["startup_ps"] == 970 * MS
    assert row["launch_ps"] == row["host_compute_ps"] == 0
    parts = require_available(profile.derived("vm", account_parts)).rows
    named = parts.filter(owner="startup", name="init_model")
    assert named["time_ps"].item() == 910 * MS
    assert named["place"].item() == "between"


def test_it_is_said_first_and_advised_to_be_done_once() -> None:
    document = document_of(blueprint.trace([*CONSTRUCTION, *STEADY]))
    assert document.headline.text == (
        "Start-up takes 76.4 % of the recording, the largest part of it init_model."
    )
    (found,) = (one for one in document.findings if one.id == "capture.window")
    assert (found.note, found.severity, found.owners) == (
        *("start_up", "warn"),
        ("startup",),
    )
    assert "Do this work once" in found.actions[0].text
    assert "Cache what start-up makes" in found.actions[1].text
    assert not any(
        "on the device" in action.text
        for one in document.findings
        for action in one.actions
        if one.status == "fail"
    )


@pytest.mark.parametrize(
    ("lines", "spans"),
    [
        # Modules that are loaded later extend it, up to the next work.
        (
            [
                *CONSTRUCTION,
                *work(1, 969, 970, 1),
                host("cuModuleLoadData", 980, 9),
                *work(2, 990, 991, 300),
            ],
            [(0, 991)],
        ),
        # The steady work has begun.
        (
            [*CONSTRUCTION, *STEADY, host("cuModuleLoadData", 1_300, 9)],
            [(0, 970)],
        ),
        # Without a context that is created, the program ran before.
        (
            [
                host("IteratorGetNext", 0, 900),
                host("cuModuleLoadData", 950, 9),
                host("cudaMalloc", 962, 0.1),
                *STEADY,
            ],
            [(950, 959)],
        ),
        # The device worked before a long call of the same name.
        (
            [*work(1, 0, 1, 1), *CONSTRUCTION, *work(2, 971, 1070, 200)],
            [],
        ),
        # The device never works: a context is created, and that is all.
        ([host("cudaFree", 100, 400), host("print", 500, 100)], [(100, 500)]),
        ([host("aten::mm", 0, 100), *STEADY], []),
    ],
)
def test_from_when_to_when(
    lines: list[tuple[Any, ...]], spans: list[tuple[int, int]]
) -> None:
    assert spans_of(*lines) == spans


def test_a_step_contains_no_start_up() -> None:
    marks = [host("train", 960 * k, 955, _r=1, step_num=k) for k in range(2)]
    assert spans_of(*marks, *CONSTRUCTION, *STEADY) == []


@pytest.mark.parametrize(
    "name",
    [
        "executor_utils::Nvrtc::CompileProgram",
        "nvrtcCompileProgram",
        "FusionKernelRuntime::compileFusionParallel",
        "FusionExecutorCache::getKernelRuntimeFor::compileNewKRT",
        "GpuLower::lower",
        "triton.compile",
        "tvm.build",
        "tensorrt: build engine",
        "IBuilder::buildSerializedNetwork",
        "XlaCompile:#module=jit_f#",
    ],
)
def test_compilers_by_name(name: str) -> None:
    profile = profile_of(host(name, 0, 10), host("FusionExecutor::runFusion", 10, 5))
    kinds = require_available(profile.derived("vm", event_kinds))
    classes = [HostClass(code) for code in kinds.host_class]
    assert sorted(classes) == [HostClass.NONE, HostClass.COMPILE]
