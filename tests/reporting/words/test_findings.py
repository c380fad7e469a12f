"""What of a finding is told, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stepscope.advice.catalogue import rule_item
from stepscope.advice.checklist import checklist
from stepscope.advice.finding import Action, Finding, Pattern
from stepscope.advice.headline import Lead
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.reporting.words.checks import stage_line
from stepscope.reporting.words.findings import (
    evidence_basis_text,
    finding_headline,
    fitting_actions,
    gain_text,
    lead_sentence,
    status_text,
)
from stepscope.reporting.words.first_sentence import first_sentence
from stepscope.reporting.words.names import part_text, plain_name
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Status

ACTIONS = tuple(
    Action(cause="fetch", framework=framework, text=f"for {framework}")
    for framework in ("any", "TensorFlow", "PyTorch", "JAX")
)
FAILING = Finding(
    id="input.bound",
    title="the step waits",
    stage=1,
    status="fail",
    actions=ACTIONS,
)


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        ((), ["any", "TensorFlow", "PyTorch", "JAX"]),
        (("PyTorch",), ["any", "PyTorch"]),
        (("JAX", "TensorFlow"), ["any", "TensorFlow", "JAX"]),
        (("MXNet",), ["any"]),
    ],
)
def test_actions_are_those_of_the_frameworks_seen(
    frameworks: tuple[str, ...], expected: list[str]
) -> None:
    told = fitting_actions(FAILING, frameworks)
    assert [action.framework for action in told] == expected


@pytest.mark.parametrize("status", ["pass", "cannot_tell", "not_applicable"])
def test_only_a_failing_finding_asks_for_a_change(status: str) -> None:
    finding = Finding(
        id="x.y",
        title="",
        stage=1,
        status=status,  # type: ignore[arg-type]
        actions=ACTIONS,
    )
    assert fitting_actions(finding, ()) == []


def test_where_no_change_is_for_the_framework_none_of_another_is_told() -> None:
    finding = msgspec.structs.replace(
        FAILING,
        actions=tuple(one for one in FAILING.actions if one.framework == "PyTorch"),
    )
    assert fitting_actions(finding, ("JAX",)) == []
    assert fitting_actions(finding, ()) == list(finding.actions) != []


def failing(**fields: Any) -> Finding:
    given = {"value": 47.0, "share_percent": 47.0, "ms_per_step": 162.0, **fields}
    return Finding(
        id="input.bound",
        title="the step waits for its data",
        stage=1,
        status="fail",
        threshold=THRESHOLDS.input_warn,
        steps_clean=28,
        **given,
    )


def passing(**fields: object) -> Finding:
    return Finding(
        id="input.bound",
        title="the step waits for its data",
        stage=1,
        status="pass",
        threshold=THRESHOLDS.input_warn,
        steps_hit=5,
        steps_clean=10,
        **fields,  # type: ignore[arg-type]
    )


def test_a_pass_of_short_steps_is_held_against_the_time_that_decided() -> None:
    facts = (
        Fact(name="effect", value=70.0, unit="us"),
        Fact(name="smallest_effect", value=100.0, unit="us"),
    )
    told = finding_headline(
        passing(note="short", value=26.4, share_percent=26.4, facts=facts)
    )
    assert told == (
        "The lost time is only 70.0 µs a step (the threshold is 100 µs). It is 26.4 % "
        "of the step only because the steps are short."
    )


def test_no_wait_at_all_is_nothing_and_no_zero() -> None:
    assert finding_headline(passing(value=0.0, share_percent=0.0)) == (
        "Data arrives in time: nothing of the time is affected (the threshold is 5 %)."
    )


BURSTS = Pattern(
    kind="bursts", steps_hit=13, steps=28, shortest_ms=93.0, longest_ms=644.0
)


def test_waits_in_bursts_say_how_many_steps_wait_and_how_long() -> None:
    told = finding_headline(failing(pattern=BURSTS))
    assert "This comes in bursts: 13 of 28 steps wait 93.0 to 644 ms." in told
    degree = Fact(name="degree", value=None, unit="count", note="Input-bound")
    assert lead_sentence(failing(pattern=BURSTS, facts=(degree,))) == (
        "Input-bound, in bursts: 13 of 28 steps wait 93.0 to 644 ms for a batch "
        "(47.0 % of the time)."
    )


def test_one_step_is_called_once_and_two_steps_have_no_pattern() -> None:
    once = Pattern(kind="once", steps_hit=1, steps=9, shortest_ms=30.0, longest_ms=30.0)
    few = Pattern(kind="every", steps_hit=2, steps=2, shortest_ms=3.0, longest_ms=4.0)
    assert "This affects one of 9 steps, by 30.0 ms." in finding_headline(
        failing(pattern=once)
    )
    assert "step:" not in finding_headline(failing(pattern=few))
    assert "every step" not in finding_headline(failing(pattern=few))


def test_a_function_is_told_with_its_file_and_line() -> None:
    part = Part(
        name="preprocess",
        function="preprocess",
        file="lib/images/image_processing.py",
        line=412,
        share_percent=57.0,
    )
    assert part_text(part) == "`preprocess` (image_processing.py:412)"
    assert part_text(Part(name="after a, before b", share_percent=1.0)) == (
        "after a, before b"
    )


def test_a_remark_of_a_rule_is_said_with_the_fact_it_names() -> None:
    facts = (Fact(name="mean_fetch", value=6000.0, unit="us"),)
    told = finding_headline(
        passing(note="hidden", value=1.0, share_percent=1.0, facts=facts)
    )
    assert "fetches find no batch ready (6.00 ms each): computation hides them" in told


def test_a_sentence_without_its_number_is_left_out() -> None:
    unmeasured = Fact(name="mean_fetch", value=None, unit="us")
    told = finding_headline(
        passing(note="hidden", value=1.0, share_percent=1.0, facts=(unmeasured,))
    )
    assert told.endswith("(the threshold is 5 %).")


@pytest.mark.parametrize(
    ("ms_per_step", "size"),
    [(3.0, "23.1 % of the time, 3.00 ms a step"), (None, "23.1 % of the time")],
)
def test_the_size_of_an_effect_is_told_as_far_as_it_is_known(
    ms_per_step: float | None, size: str
) -> None:
    finding = failing(value=23.1, share_percent=23.1, ms_per_step=ms_per_step)
    assert finding_headline(finding) == f"The step waits for its data: {size}."


def test_a_gain_that_may_be_more_says_so() -> None:
    closed = gain_text(failing(saving_ms=Saving(low=1.0, high=3.0)))
    assert closed is not None
    assert "more" not in closed
    why = "the computing speed after the change cannot be predicted"
    more = gain_text(failing(saving_ms=Saving(low=1.0, high=3.0, open_above=True)))
    assert more == f"{closed}, or more: {why}"
    either = gain_text(failing(saving_ms=Saving(low=0.0, high=3.0, open_above=True)))
    assert either == f"3.00 ms a step, perhaps less or more: {why}"


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_rule_that_failed_on_no_recorded_program_says_so(*, calibrated: bool) -> None:
    told = evidence_basis_text(failing(calibrated=calibrated))
    assert ("tested on synthetic programs only" in told) is not calibrated


@pytest.mark.parametrize(
    ("status", "calibrated", "shown"),
    [
        ("pass", True, "Pass"),
        ("pass", False, "Not confirmed"),
        ("fail", False, "Warning"),
        ("cannot_tell", False, "Cannot tell"),
    ],
)
def test_a_pass_of_a_rule_that_never_failed_is_not_shown_as_one(
    status: Status, shown: str, *, calibrated: bool
) -> None:
    finding = Finding(
        id="x.y",
        title="",
        stage=9,
        severity="warn",
        status=status,
        calibrated=calibrated,
    )
    assert status_text(finding) == shown


def test_a_stage_counts_its_passes_that_nothing_confirms() -> None:
    kinds: list[tuple[Status, bool]]
    kinds = [("pass", True), ("pass", False), ("pass", False), ("not_applicable", True)]
    findings = [
        Finding(id=f"a.{at}", title="", stage=9, status=status, calibrated=calibrated)
        for at, (status, calibrated) in enumerate(kinds)
    ]
    (stage,) = checklist(findings)
    # What is stored for programs does not change.
    assert (stage.counts, stage.unconfirmed) == ({"pass": 3, "not_applicable": 1}, 2)
    assert stage.worst == "pass"
    line = "Memory and run: 1 pass · 2 not confirmed · 1 not applicable"
    assert stage_line(stage, findings) == line
    (unseen,) = checklist(findings[1:3])
    assert unseen.worst == "unconfirmed"
    assert stage_line(unseen, findings) == "Memory and run: 2 not confirmed"


def test_without_work_for_16_bit_no_share_is_told() -> None:
    finding = Finding(id="amp.share", title="", stage=6, status="pass", value=None)
    assert finding_headline(finding) == "No kernel does work that could run in 16 bit."


@pytest.mark.parametrize(
    ("high", "explained_by", "told"),
    [
        (60.0, (), "30.0 to 60.0 ms a step"),
        (0.0, (), "none alone: other work delays the step equally long"),
        # 0.01 of 162 ms is what another finding left of its gain.
        (0.01, ("copy.exposed",), "included in the gain of copy.exposed"),
        (0.01, ("a", "b", "c"), "included in the gain of a, b and c"),
        (60.0, ("copy.exposed",), "30.0 to 60.0 ms a step"),
    ],
)
def test_a_gain_that_is_none_is_no_number(
    high: float, explained_by: tuple[str, ...], told: str
) -> None:
    saving = Saving(low=high / 2, high=high)
    assert gain_text(failing(saving_ms=saving, explained_by=explained_by)) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "void at::native::(anonymous namespace)::reduce<float, A<int>>(float*)",
            "at::native::reduce",
        ),
        (
            "void at::native::<unnamed>::distribution<float, A<int>>(int, T2)",
            "at::native::distribution",
        ),
        ("Eigen::internal::Kernel<Eigen::Half>(int)", "Eigen::internal::Kernel"),
        ("jacobi_kernel(float*, int)", "jacobi_kernel(float*, int)"),
        (
            "enumerate(DataLoader)#_Single.__next__",
            "enumerate(DataLoader)#_Single.__next__",
        ),
        ("aten::mm", "aten::mm"),
        ("$api.py:2479 block_until_ready", "block_until_ready (api.py:2479)"),
    ],
)
def test_kernels_are_named_without_their_arguments(name: str, told: str) -> None:
    assert plain_name(name) == told


def test_the_first_sentence_names_host_or_device_where_there_are_several() -> None:
    busy = Lead(kind="device", owner="busy", percent=90.0, host="rank3", device=1)
    whole = "Compute-bound: the device is busy 90.0 % of the step"
    for fields, told in (
        ({}, f"{whole}."),
        ({"hosts": 8, "devices": 2}, f"{whole} (rank3, one of 8 hosts)."),
        ({"devices": 2}, f"{whole} (device 1, one of 2 busy devices)."),
        ({"has_steps": False}, f"{whole[:-4]}recording."),
    ):
        assert first_sentence(msgspec.structs.replace(busy, **fields), ()) == told


def test_a_share_without_steps_is_of_the_recording() -> None:
    finding = Finding(
        id="capture.quality",
        title="",
        stage=0,
        status="fail",
        note="unexplained",
        share_percent=46.3,
        owners=("unexplained",),
    )
    assert finding_headline(finding).startswith(
        "46.3 % of the recording is unexplained"
    )
    with_steps = msgspec.structs.replace(finding, ms_per_step=4.0)
    assert finding_headline(with_steps).startswith("46.3 % of the step is unexplained")


@pytest.mark.parametrize(
    ("rule", "owner", "of_steps", "told"),
    [
        ("host.work", "host_compute", "delays the step", "delays the program"),
        ("host.wait", "wait", "3.0 % of the step", "3.0 % of the recording"),
        ("gap.gc", "between", "delay the steps", "delay the program"),
        ("input.bound", "input", "The step waits", "The program waits"),
    ],
)
def test_without_steps_nothing_is_said_of_steps(
    rule: str, owner: str, of_steps: str, told: str
) -> None:
    of_recording = Finding(
        id=rule,
        title=rule_item(rule).title,
        stage=0,
        status="fail",
        share_percent=3.0,
        owners=(owner,),
    )
    with_steps = msgspec.structs.replace(of_recording, ms_per_step=4.0)
    assert of_steps in finding_headline(with_steps)
    assert told in finding_headline(of_recording)
    assert "step" not in finding_headline(of_recording).replace(" a step", "")


def test_the_code_of_a_file_is_called_what_it_is() -> None:
    part = Part(
        name="<module>",
        function="<module>",
        file="/app/serve.py",
        line=1,
        share_percent=9.0,
    )
    assert part_text(part) == "the top level (serve.py:1)"
    variable = msgspec.structs.replace(part, name="LOSSES")
    assert part_text(variable) == "`LOSSES` (serve.py)"
    lead = Lead(
        kind="idle",
        owner="input",
        percent=96.9,
        has_steps=False,
        parts=(msgspec.structs.replace(part, name="lookup", function="lookup"),),
    )
    # A function says what it is; that no rule speaks of it says nothing more.
    said = first_sentence(lead, ())
    assert said.startswith("96.9 % of the recording is waiting for input")
    assert "lookup" in said
    assert "no check" not in said
    unnamed = first_sentence(msgspec.structs.replace(lead, parts=()), ())
    assert unnamed.endswith("and no check explains this time.")


@pytest.mark.parametrize(
    ("has_steps", "end"),
    [
        (False, "a recording of later steps shows whether this repeats."),
        (True, "and no check explains this time."),
    ],
)
def test_compiling_in_a_recording_without_steps_may_be_the_first_call(
    *, has_steps: bool, end: str
) -> None:
    lead = Lead(kind="idle", owner="compile", percent=85.3, has_steps=has_steps)
    assert first_sentence(lead, ()).endswith(end)
