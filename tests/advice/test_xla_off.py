"""`xla.off`: late launches without a compiler, with one, and shapes that change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.advice.memories import memory, told
from tests.support.traces.training import (
    KERNELS,
    ahead,
    allocating,
    findings,
    on_host,
    paced,
    together,
)

from stepscope.advice.engine import add_memory_warning
from stepscope.advice.registry import RULES
from stepscope.advice.rules.compilation.compiling import judge_uncompiled as evaluate
from stepscope.derive.facts.devices.device_fill import compiled_percent

if TYPE_CHECKING:
    from stepscope.advice.item import Rule
    from stepscope.derive.facts.memory_use import MemoryUse

RULE = "xla.off"


def compiled(lines: list[Any]) -> list[Any]:
    """The same kernels, as instructions of a compiled program."""
    return [
        (*line[:4], {**line[4], "hlo_op": "fusion.1", "hlo_module": "jit_step"})
        if line[0].startswith("gpu")
        else line
        for line in lines
    ]


def test_late_launches_of_a_program_that_is_not_compiled_are_a_note() -> None:
    found = findings(paced(early_us=10.0))
    assert (found[RULE].status, found[RULE].severity) == ("fail", "info")
    assert found[RULE].explained_by == ("launch.delay",)
    assert found["launch.delay"].status == "fail"


@pytest.mark.slow(seconds=0.4)
def test_the_compiled_twin_is_not_asked() -> None:
    found = findings(compiled(paced(early_us=10.0)))[RULE]
    assert found.status == "not_applicable"


def test_generated_kernels_are_compiled_too() -> None:
    lines = [
        (track, name.replace("fused_half_kernel", "triton_poi_fused_add_0"), *rest)
        for track, name, *rest in paced(early_us=10.0)
    ]
    assert findings(lines)[RULE].status == "not_applicable"


def test_launches_in_time_need_no_compiler() -> None:
    assert findings(together())[RULE].status == "pass"


@pytest.mark.slow(seconds=0.4)
def test_shapes_that_change_come_first() -> None:
    lines = paced(early_us=10.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        ("main", "XlaCompile:#module=f#", begin + 3_600.0, 1_500.0) for begin in begins
    ]
    found = findings(lines)[RULE]
    assert (found.status, found.note) == ("pass", "shapes")


ELEMENTWISE = ("elementwise_kernel", 30.0, "a/Add:Add")


def test_runs_that_a_compiler_would_join_are_a_reason_too() -> None:
    found = findings(together(kernels=[*KERNELS[:20], *[ELEMENTWISE] * 120]))
    assert found["launch.delay"].status == "pass"
    assert found["fuse.runs"].status == "fail"
    finding = found[RULE]
    assert (finding.status, finding.note) == ("fail", "fusable")
    assert finding.explained_by == ("fuse.runs",)
    facts = {one.name: one.value for one in finding.facts}
    # 3.6 of 9.86 ms are in runs, three quarters of which may go at most.
    assert facts["joint"] == pytest.approx(75 * 3.6 / 9.83, abs=0.5)
    assert finding.severity == "warn"
    assert finding.saving_ms is None


def test_how_full_the_memory_is_stands_beside() -> None:
    facts = {one.name: one.value for one in findings(allocating())[RULE].facts}
    assert facts["memory_used"] == pytest.approx(75.0)


def test_a_run_on_the_host_alone_is_not_applicable() -> None:
    assert findings(on_host(), devices=None)[RULE].status == "not_applicable"


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
@pytest.mark.sweep(every=3)
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(paced(early_us=10.0), without=table)[RULE]
    assert found.status == "cannot_tell"


@pytest.mark.parametrize(
    ("percent", "launch_ms", "status"),
    [
        (29.0, 0.31, "fail"),
        (31.0, 0.31, "pass"),
        # Whether kernels stand in runs is not known.
        (29.0, 0.29, "cannot_tell"),
        (71.0, 0.31, "not_applicable"),
        (None, 0.31, "cannot_tell"),
    ],
)
def test_each_limit_decides(
    signals_of: Any, shares: Any, percent: float | None, launch_ms: float, status: str
) -> None:
    given = {compiled_percent: {"vm:0": percent}} | told()
    signals = signals_of(shares(launch=launch_ms), given)
    assert evaluate(signals).status == status


def test_waits_that_lost_records_may_be_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    one = shares(launch=0.35, fields={"lost_ps": 2_000_000_000})
    signals = signals_of(one, {compiled_percent: {"vm:0": 0.0}})
    finding = evaluate(signals)
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None


@pytest.mark.parametrize(
    ("memories", "level", "torch", "said"),
    [
        ((memory(peak_gib=36.7),), 2, "reduce-overhead'", False),
        ((memory(peak_gib=36.9),), 1, "needs more memory", True),
        # The fullest device decides: every device runs the compiled program.
        ((memory(peak_gib=10.0), memory(name="GPU_1_bfc", peak_gib=39.0)), 1, "", True),
        # The headroom of the devices is unknown.
        ((), 2, "reduce-overhead'", False),
        ((memory(capacity_bytes=None),), 2, "", False),
        ((memory(peak_gib=39.0, counted=False),), 2, "", False),
        ((memory(name="process", peak_gib=39.5),), 2, "", False),
    ],
)
def test_the_level_of_compilation_follows_the_headroom(
    signals_of: Any,
    shares: Any,
    *,
    memories: tuple[MemoryUse, ...],
    level: int,
    torch: str,
    said: bool,
) -> None:
    given = {compiled_percent: {"vm:0": 0.0}} | told(*memories)
    finding = evaluate(signals_of(shares(launch=3.1), given))
    assert finding.status == "fail"
    levels = {one.env for one in finding.actions if one.framework == "TensorFlow"}
    assert levels == {f"TF_XLA_FLAGS=--tf_xla_auto_jit={level}"}
    (code,) = (one.code for one in finding.actions if one.framework == "PyTorch")
    assert code is not None
    assert torch in code
    assert any("nearly full" in one.text for one in finding.actions) is said


@pytest.mark.parametrize(("peak_gib", "warned"), [(30.0, False), (38.9, True)])
def test_a_recorded_program_with_a_full_memory_is_warned(
    *, peak_gib: float, warned: bool
) -> None:
    allocations = allocating(peak_gib=peak_gib)[len(ahead()) :]
    found = findings(paced(early_us=10.0) + allocations)
    for rule in ("launch.delay", RULE):
        assert found[rule].status == "fail"
        texts = [action.text for action in found[rule].actions]
        assert any("nearly full" in text for text in texts) is warned
    # It is one warning for all frameworks, and one for TensorFlow.
    ids = {action.id for action in found["launch.delay"].actions}
    assert ({"watch_memory", "compile_at_level_one"} <= ids) is warned


@pytest.mark.parametrize(("peak_gib", "warned"), [(36.7, False), (36.9, True)])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.item.compiling])
def test_every_advice_to_compile_has_the_warning(
    signals_of: Any, rule: Rule, peak_gib: float, *, warned: bool
) -> None:
    advised = rule.item.chosen(*rule.item.declared_actions)
    finding = rule.item.finding("fail", actions=advised)
    signals = signals_of(told(memory(peak_gib=peak_gib)))
    actions = add_memory_warning(finding, rule.item, signals).actions
    if not warned:
        assert actions == advised
        return
    ids = [action.id for action in actions]
    place = ids.index("watch_memory")
    assert ids[place + 1] == "compile_at_level_one"
    assert ids[place - 1] == rule.item.compiling[-1]
    # Advice that compiles nothing needs no warning.
    other = tuple(one for one in advised if one.id not in rule.item.compiling)
    alone = rule.item.finding("fail", actions=other)
    assert add_memory_warning(alone, rule.item, signals) == alone
