"""`xla.recompile`: compiling that goes on, that of the first steps, and once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import findings, on_host, together

from stepscope.advice.rules.compilation.compiling import judge_recompiled as evaluate
from stepscope.derive.facts.hosts.compilations import CompiledFunction, compile_signals
from stepscope.reporting.words.findings import lead_sentence

RULE = "xla.recompile"
LEAD = 2_500.0
MOVED = "tensor 'x' size mismatch at index 0. expected 8, actual 12"


def compiled(*steps: int, name: str = "compilation of train_step", **stats: Any) -> Any:
    """Bc in which some steps compile for 2 ms before their ops."""
    lines = on_host(lead_us=LEAD)
    begins = [line[2] for line in lines if line[1] == "train"]
    return lines + [
        ("main", name, begins[step] + 100.0, 2_000.0, stats) for step in steps
    ]


def test_a_function_that_is_compiled_in_many_steps_is_found_and_named() -> None:
    lines = compiled(*range(2, 19, 2), reason=MOVED)
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.share_percent == pytest.approx(100 * 9 * 2 / (20 * 10), abs=0.001)
    assert (found.parts[0].name, found.parts[0].detail) == ("train_step", MOVED)
    assert found.because == ("shapes", "repeats")
    assert found.saving_ms is not None
    # 18 ms in 20 steps.
    assert found.saving_ms.high == pytest.approx(18 / 20)
    assert found.saving_ms.low == 0.0


def test_stages_that_lie_in_each_other_count_once_under_the_name_of_the_function() -> (
    None
):
    lines = compiled(*range(2, 19, 2))
    inner = [
        (track, "backend_compile", start + 500.0, 1_000.0)
        for track, name, start, *_ in lines
        if name.startswith("compilation")
    ]
    once, twice = (
        findings(each, devices=None)[RULE] for each in (lines, lines + inner)
    )
    assert [one.name for one in twice.parts] == ["train_step"]
    assert twice.share_percent == once.share_percent


def test_a_function_that_is_traced_again_by_tensorflow_is_found() -> None:
    lines = compiled(
        *range(2, 19, 2), name="train_step", tf_function_call="traced-nonXla"
    )
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.parts[0].name) == ("fail", "train_step")


def test_a_stage_that_names_no_function_is_that_of_the_call_around_it() -> None:
    """As JAX's own profiler has it: a call, within it the stage, and nothing else."""
    lines = compiled(*range(2, 19, 2), name="backend_compile_and_load")
    calls = [
        ("main", f"PjitFunction({name})", start - early, lasts + 2 * early)
        for _, stage, start, lasts, *_ in lines
        if stage == "backend_compile_and_load"
        for name, early in (("train_step", 20.0), ("epoch", 40.0))
    ]
    found = findings(lines + calls, devices=None)[RULE]
    assert (found.status, [one.name for one in found.parts]) == (
        *("fail", ["train_step"]),
    )
    assert "most of it train_step, in 9 of these 18 steps" in lead_sentence(found)


def test_a_device_that_waits_for_a_compilation_is_found() -> None:
    lines = together(fetch_us=3_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    lines = [line for line in lines if line[1] != "IteratorGetNext"] + [
        ("main", "XlaCompile:#module=jit_step,id=3#", begin, 2_900.0)
        for begin in begins
    ]
    found = findings(lines)[RULE]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.parts[0].name == "jit_step"


def test_the_same_cost_in_the_first_steps_is_warm_up() -> None:
    found = findings(compiled(0, 1), devices=None)[RULE]
    assert (found.status, found.note) == ("pass", "warm_up")


def test_one_compilation_for_the_last_batch_of_an_epoch_is_a_note() -> None:
    found = findings(compiled(15), devices=None)[RULE]
    assert found.status == "pass" or found.severity == "info"


def test_what_compiles_without_holding_a_step_up_passes() -> None:
    lines = on_host() + [
        ("compiler", "compilation of next_step", 10_000.0 * at + 300.0, 2_000.0)
        for at in range(2, 18)
    ]
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.note) == ("pass", None)
    assert found.share_percent == 0.0


@pytest.mark.parametrize("table", ["events"])
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(compiled(*range(2, 19)), devices=None, without=table)[RULE]
    assert found.status == "cannot_tell"


@pytest.mark.parametrize(
    ("ms", "status"), [(0.21, "fail"), (0.19, "pass"), (0.0, "pass")]
)
def test_a_fiftieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    signals = signals_of(shares(compile=ms), {compile_signals: {}})
    assert evaluate(signals).status == status


def test_too_few_steps_cannot_tell_whether_it_comes_back(
    signals_of: Any, shares: Any
) -> None:
    one = shares(steps=2, compile=5.0)
    finding = evaluate(signals_of(one, {compile_signals: {}}))
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None
    assert "compilation continues" in finding.unavailable.reason


def test_a_reason_that_is_no_shape_is_told_as_it_is(
    signals_of: Any, shares: Any
) -> None:
    function = CompiledFunction("step", 9, 9_000, reason="len(L['xs']) == 2")
    one = shares(compile=2.0)
    given = {compile_signals: {"vm": (function,)}}
    finding = evaluate(signals_of(one, given))
    assert finding.because == ("repeats",)
    assert finding.parts[0].detail == "len(L['xs']) == 2"
    assert all(action.cause == "any" for action in finding.actions)


def test_an_unseen_owner_cannot_tell(signals_of: Any, shares: Any) -> None:
    one = shares(compile=2.0, missing=["compile"])
    finding = evaluate(signals_of(one, {compile_signals: {}}))
    assert finding.status == "cannot_tell"


def test_the_function_of_the_program_that_compiles_is_named() -> None:
    lines = compiled(*range(2, 19, 2))
    lines += [
        ("main", "/app/play.py(11): collect", start - 10.0, 2_050.0)
        for _, name, start, *_ in lines
        if name.startswith("compilation")
    ]
    found = findings(lines, devices=None)[RULE]
    assert [part.name for part in found.parts] == ["collect", "train_step"]
    assert lead_sentence(found).startswith(
        "Compilation continues after the first steps, called from `collect` "
        "(play.py:11): "
    )
