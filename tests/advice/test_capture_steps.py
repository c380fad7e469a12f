"""`capture.steps`: no steps, marks that leave the input out, and a super-step."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import Recorder, ahead, findings, together

from stepscope.advice.engine import signals_of
from stepscope.advice.rules.recording_quality.recorded_steps import (
    judge_step_marks as evaluate,
)
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.derive.facts.judged_steps import HostSteps, step_signals
from stepscope.derive.steps.candidates import Candidate
from stepscope.reporting.words.findings import finding_headline
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

RULE = "capture.steps"


def unlike() -> list[Any]:
    """Kernels that repeat in no order, without marks."""
    made = Recorder()
    lengths = (310.0, 50.0, 190.0, 70.0, 530.0, 20.0, 410.0, 90.0)
    start = 100.0
    for at, dur in enumerate(lengths):
        made.launch((f"kernel_{at}", dur, f"op_{at}:Mul"), start - 20.0, start)
        start += dur * 2
    return made.lines


def fetched_outside(*, wait_us: float) -> list[Any]:
    """Marks that begin after the batch was fetched."""
    made = Recorder()
    for number in range(12):
        begin = 10_000.0 * number
        made.host("IteratorGetNext", begin, wait_us)
        made.mark(number, begin + wait_us + 10.0, 9_900.0 - wait_us)
        made.host("m/MatMul:MatMul", begin + wait_us + 20.0, 9_800.0 - wait_us)
    return made.lines


@pytest.mark.slow(seconds=0.3)
def test_marked_steps_pass_in_both_bases() -> None:
    for lines in (together(), ahead()):
        found = findings(lines)[RULE]
        assert (found.status, found.value) == ("pass", 1.0)


def test_a_recording_without_anything_that_repeats_has_no_steps() -> None:
    found = findings(unlike())[RULE]
    # It may hold one step, or the program's start: that is no flaw of the recording.
    assert (found.status, found.severity, found.note) == ("fail", "info", "one_shot")
    assert found.saving_ms is None


def test_without_steps_only_what_was_searched_is_said_not_to_repeat() -> None:
    """Ranges of the program can repeat: one was told "nothing that repeats" of 304."""
    said = finding_headline(findings(unlike())[RULE])
    # The program may mark steps that are longer than the recording.
    assert "the recording contains no step marks" in said
    assert "neither ops nor launches repeat" in said


#: A program whose first step holds the whole recording.
LONG_STEP = """
import sys, time
import stepscope as ss
with ss.StepTrace(0):
    ss.start(sys.argv[1])
    time.sleep(0.05)
    ss.stop()
"""


@pytest.mark.slow(seconds=2)
def test_a_program_with_a_step_longer_than_the_recording_is_not_said_to_mark_none(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", LONG_STEP, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    profile = open_profile(tmp_path)
    found = evaluate(signals_of(profile))
    assert (found.status, found.note) == ("fail", "plain")
    assert finding_headline(found).startswith("No step mark was recorded")
    assert "record for longer" in finding_headline(found)
    page = profile.tool("input_pipeline_analyzer")
    assert isinstance(page, InputPipelineResult)
    assert not [one for one in page.missing if "not mark" in one.reason]


def test_a_batch_fetched_outside_the_marks_is_found() -> None:
    found = findings(fetched_outside(wait_us=2_000.0), devices=None)[RULE]
    assert (found.status, found.severity, found.note) == ("fail", "warn", "outside")
    outside = next(fact for fact in found.facts if fact.name == "outside")
    assert outside.value == pytest.approx(20.0, abs=2.0)


def test_a_short_fetch_outside_is_no_matter() -> None:
    found = findings(fetched_outside(wait_us=50.0), devices=None)[RULE]
    assert found.status == "pass"


def test_gradients_summed_over_four_batches_are_regular() -> None:
    made = Recorder()
    for number in range(48):
        begin = 2_500.0 * number
        if number % 4 == 0:
            made.mark(number // 4, begin, 9_990.0)
        made.launch(("gemm", 2_000.0, "m/MatMul:MatMul"), begin + 20.0, begin + 40.0)
        if number % 4 == 3:
            made.launch(("adam", 300.0, "m/Adam:Adam"), begin + 100.0, begin + 2_100.0)
    assert findings(made.lines)[RULE].status == "pass"


def test_steps_that_the_kernels_repeat_carry_a_confidence() -> None:
    lines = [line for line in together() if line[1] != "train"]
    found = findings(lines)[RULE]
    assert found.value is not None
    assert found.value < 1.0


def test_without_events_it_never_passes() -> None:
    assert findings(together(), without="events")[RULE].status != "pass"


def tried_steps(what: str, count: int, confidence: float) -> Candidate:
    return Candidate(*("period", what, count, 10, 0.9, 0.9), confidence, accepted=False)


def host(**fields: Any) -> HostSteps:
    usual: dict[str, Any] = {
        "source": "period",
        "confidence": 0.9,
        "count": 12,
        "anchor": "host",
        "period_ps": 10_000_000_000,
        "left_out": {},
        "tried": (tried_steps("a kernel", 12, 0.9),),
        "requests": 0,
        "outside_percent": None,
        "begins_ns": None,
    }
    return HostSteps(**(usual | fields))


@pytest.mark.parametrize(
    ("fields", "status", "severity"),
    [
        ({}, "pass", "info"),
        ({"confidence": 0.79}, "fail", "info"),
        ({"confidence": 0.81}, "pass", "info"),
        ({"outside_percent": 1.1}, "fail", "warn"),
        ({"outside_percent": 0.9}, "pass", "info"),
        ({"source": None, "confidence": 0.0}, "fail", "warn"),
        ({"source": None, "requests": 7}, "not_applicable", "info"),
    ],
)
def test_each_limit_decides(
    signals_of: Any, fields: Any, status: str, severity: str
) -> None:
    signals = signals_of({step_signals: {"vm": host(**fields)}})
    finding = evaluate(signals)
    assert (finding.status, finding.severity) == (status, severity)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("__inference_one_step_on_iterator_1612", "Mark the steps with stepscope's"),
        ("__inference_train_function_805", "Mark each step, with the batch fetch"),
    ],
)
def test_keras_3_does_not_mark_its_steps_as_keras_2_does(name: str, first: str) -> None:
    """Whoever recorded `fit` was told that it marks its own steps."""
    lines = [
        ("main", f"EagerLocalExecute: {name}", 0, 900),
        *(("main", f"layer_{at}/Mul:Mul", 100 * at, 50 + at) for at in range(8)),
    ]
    found = findings(lines)[RULE]
    assert found.actions[0].text.startswith(first)
    said = " ".join(action.text for action in found.actions)
    assert ("`Model.fit` of Keras 2 marks" in said) == ("train_function" in name)


def test_the_host_whose_steps_are_least_known_is_named(signals_of: Any) -> None:
    hosts = {"a": host(), "b": host(source=None, confidence=0.0), "c": host()}
    finding = evaluate(signals_of({step_signals: hosts}))
    assert finding.devices == ("b",)


def test_what_repeats_surely_and_is_no_step_is_not_called_unsure(
    signals_of: Any,
) -> None:
    """A thousand runs of one kernel."""
    tried = (tried_steps("kernel jacobi", 1000, 0.9),)
    signals = signals_of({step_signals: {"vm": host(source=None, tried=tried)}})
    text = finding_headline(evaluate(signals))
    assert "most frequent repetition (1,000 times) is not a training" in text
    assert "0.9" not in text


@pytest.mark.parametrize(
    ("found", "said"),
    [(0.597, "candidate is 0.59, below the required 0.6"), (0.52, "is 0.52, below")],
)
def test_a_confidence_that_is_too_small_is_not_rounded_to_what_is_needed(
    signals_of: Any, found: float, said: str
) -> None:
    tried = (tried_steps("kernel gemm", 9, found),)
    signals = signals_of({step_signals: {"vm": host(source=None, tried=tried)}})
    assert said in finding_headline(evaluate(signals))
