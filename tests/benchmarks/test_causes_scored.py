"""What was said of generated programs, scored by ids, owners and functions."""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WAITS = "slow_metric_push"
LOOPS = "python_loop"


@pytest.fixture(autouse=True)
def on_path(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))


@pytest.fixture
def scored() -> Any:
    return importlib.import_module("causes_scored")


def said(
    finding: str | None,
    owner: str | None,
    *functions: str,
    advised: tuple[str, str] | None = None,
    failing: tuple[str, ...] | None = None,
) -> Any:
    judged = importlib.import_module("judged_recordings")
    fired = ((finding,) if finding else ()) if failing is None else failing
    rule, framework = advised or (finding, "any")
    return judged.Said(
        # Words decide nothing: these name everything.
        text="`count_pairs` (a.py:3) and `push_metrics` (a.py:9) hold the step.",
        finding=finding,
        owner=owner,
        failing=fired,
        fired=fired,
        saving_ms=None,
        functions=functions,
        advice=judged.Advice(rule, "any", framework, "Do it.") if rule else None,
    )


def causes(scored: Any, **shares: float) -> list[Any]:
    drawn = importlib.import_module("causes_drawn")
    laws = {**drawn.read_laws(drawn.LAWS["first"]), "crowd": scored.CROWD}
    return [scored.Cause(laws[name], share) for name, share in shares.items()]


@pytest.mark.parametrize(
    ("finding", "owner", "functions", "expected"),
    [
        ("host.work", "host_compute", ["count_pairs"], "right"),
        ("host.work", None, ["count_pairs", "forward"], "right"),
        # The function without a finding, and a finding without the function.
        (None, "host_compute", ["forward", "count_pairs"], "right"),
        ("host.work", "host_compute", ["forward"], "partly"),
        # Its time is not waiting; the function is right.
        ("host.work", "wait", ["count_pairs"], "partly"),
        ("step.outlier", "unexplained", ["count_pairs"], "partly"),
        ("host.work", "wait", ["forward"], None),
        ("op.hot", "host_compute", ["forward"], None),
        # Host compute is nearly always true.
        (None, "host_compute", ["forward"], None),
        (None, "unexplained", [], None),
        # A rule whose advice would mislead is never right.
        ("input.bound", "host_compute", ["count_pairs"], "partly"),
        ("input.bound", "host_compute", ["forward"], None),
    ],
)
def test_the_first_sentence_fits_a_law(
    scored: Any,
    finding: str | None,
    owner: str | None,
    functions: list[str],
    expected: str | None,
) -> None:
    (one,) = causes(scored, python_loop=0.5)
    assert scored.match_law(one.law, said(finding, owner, *functions)) == expected


@pytest.mark.parametrize(
    ("owner", "expected"),
    [("wait", "right"), ("between", "right"), ("host_compute", "partly")],
)
def test_waiting_is_not_work(scored: Any, owner: str, expected: str) -> None:
    (one,) = causes(scored, slow_metric_push=0.5)
    told = said("host.work", owner, "push_metrics")
    assert scored.match_law(one.law, told) == expected
    assert scored.match_law(one.law, said(None, owner, "push_metrics")) == expected


def test_some_rules_and_owners_need_no_function(scored: Any) -> None:
    (one,) = causes(scored, compiled_anew=0.5)
    assert scored.match_law(one.law, said("xla.recompile", "compile")) == "right"
    assert scored.match_law(one.law, said(None, "compile")) == "right"
    assert scored.match_law(one.law, said("step.outlier", "compile")) == "partly"
    assert scored.match_law(one.law, said(None, "host_compute")) is None
    assert scored.match_law(one.law, said(None, "host_compute", "curve")) == "partly"
    told = said("xla.recompile", None, advised=("xla.recompile", "JAX"))
    assert scored.judge_advice([one], told, "JAX") == "right"


@pytest.mark.parametrize(
    ("smaller", "expected"), [(0.39, "partly"), (0.4, "right"), (0.45, "right")]
)
def test_the_smaller_of_two_causes_is_right_in_a_near_tie(
    scored: Any, smaller: float, expected: str
) -> None:
    found = causes(scored, slow_metric_push=0.5, python_loop=smaller)
    told = said("host.work", "host_compute", "count_pairs")
    assert scored.judge_headline(found, told) == expected
    assert scored.judge_advice(found, told, "Python") == expected


def test_what_blames_nothing_is_silent_and_what_blames_others_wrong(
    scored: Any,
) -> None:
    found = causes(scored, python_loop=0.5)
    assert scored.judge_headline(found, said(None, "host_compute")) == "silent"
    other = said(None, "host_compute", failing=("gap.gc",))
    assert scored.judge_headline(found, other) == "wrong"
    assert scored.judge_headline(found, said("gap.gc", None)) == "wrong"


def test_a_crowded_machine_may_be_named_and_need_not(scored: Any) -> None:
    told = said("host.work", "host_compute", "count_pairs")
    assert scored.judge_headline(causes(scored, python_loop=0.3, crowd=0.6), told) == (
        "right"
    )
    crowd = said("cpu.threads", "sync")
    larger = causes(scored, python_loop=0.3, crowd=0.6)
    assert scored.judge_headline(larger, crowd) == "right"
    smaller = causes(scored, python_loop=0.6, crowd=0.2)
    assert scored.judge_headline(smaller, crowd) == "partly"


@pytest.mark.parametrize(
    ("advised", "expected"),
    [
        (("host.work", "any"), "right"),
        (("host.work", "Python"), "right"),
        (("host.work", "JAX"), "right"),
        (("host.work", "PyTorch"), "wrong"),
        (("input.bound", "any"), "wrong"),
        (("op.hot", "any"), "wrong"),
        (("capture.window", "any"), "none"),
    ],
)
def test_advice_is_by_rule_and_framework(
    scored: Any, advised: tuple[str, str], expected: str
) -> None:
    found = causes(scored, python_loop=0.5)
    told = said("host.work", "host_compute", "count_pairs", advised=advised)
    assert scored.judge_advice(found, told, "JAX") == expected


def test_advice_without_the_function_is_partly_right(scored: Any) -> None:
    found = causes(scored, python_loop=0.5)
    told = said("host.work", "host_compute", "forward")
    assert scored.judge_advice(found, told, "JAX") == "partly"
    assert scored.judge_advice(found, said(None, "host_compute"), "JAX") == "none"


def program(*names: str) -> Any:
    drawn = importlib.import_module("causes_drawn")
    laws = drawn.read_laws(drawn.LAWS["first"])
    planted = tuple(
        drawn.Planted(laws[name], laws[name].slots[0], 0.4) for name in names
    )
    return drawn.Program("one", "plain", 50.0, planted, 0)


def truth(no_core: float = 0.0, steps: int = 10, **shares: float) -> Any:
    told = importlib.import_module("causes_truth")
    return told.Truth(steps, 50.0, 20.0, no_core, shares, {})


def test_causes_are_those_of_the_programs_clock(scored: Any) -> None:
    told = truth(0.15, python_loop=0.2, slow_metric_push=0.5, fetch=0.9)
    found = scored.causes_of(program(LOOPS, WAITS), told)
    names = [(one.law.name, one.share) for one in found]
    assert names == [(WAITS, 0.5), (LOOPS, 0.2), ("crowded_machine", 0.15)]
    weak = scored.score_program(
        program(LOOPS), truth(python_loop=0.05), said(None, None)
    )
    assert (weak.causes, weak.is_weak) == ((), True)


@pytest.mark.parametrize(
    ("failing", "no_core", "steps", "is_alarm"),
    [
        ((), 0.0, 10, False),
        (("host.work",), 0.0, 10, True),
        (("cpu.threads",), 0.0, 10, True),
        (("cpu.threads",), 0.3, 10, False),
        (("capture.window",), 0.0, 10, True),
        (("capture.window",), 0.0, 3, False),
    ],
)
def test_a_healthy_program_that_is_blamed_is_a_false_alarm(
    scored: Any, failing: tuple[str, ...], no_core: float, steps: int, *, is_alarm: bool
) -> None:
    told = said(None, "host_compute", failing=failing)
    found = scored.score_program(program(), truth(no_core, steps), told)
    assert found.is_false_alarm is is_alarm
    assert found.advice is None


def test_scores_are_counted_without_weak_causes(scored: Any) -> None:
    right = said("host.work", "host_compute", "count_pairs")
    wrong = said("gap.gc", None)
    found = [
        scored.score_program(program(LOOPS), truth(python_loop=0.4), right),
        scored.score_program(program(LOOPS), truth(python_loop=0.4), wrong),
        scored.score_program(program(LOOPS), truth(python_loop=0.01), wrong),
        scored.score_program(program(), truth(), wrong),
        scored.score_program(program(), truth(), said(None, "host_compute")),
    ]
    assert scored.count_scores(found) == [
        ("first sentence right", "50 %", "1 right, 0 partly, 0 silent, 1 wrong"),
        ("first advice right", "50 %", "1 right, 0 partly, 0 none, 1 wrong"),
        ("share right to 10 points, of right sentences", "–", "0 of 0"),
        ("healthy programs with a false alarm", "50 %", "1 of 2"),
    ]
    assert scored.count_scores([])[0] == (
        "first sentence right",
        "–",
        "0 right, 0 partly, 0 silent, 0 wrong",
    )


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"count_pairs": 51.0, "forward": 20.0}, True),
        ({"forward": 50.0}, None),
        ({"push_metrics": 29.0}, True),
        ({"count_pairs": 61.0, "push_metrics": 40.0}, False),
    ],
)
def test_a_share_is_that_of_a_function(
    scored: Any, shares: dict[str, float], expected: Any
) -> None:
    told = truth(0.9, python_loop=0.5, slow_metric_push=0.22)
    right = said("host.work", "host_compute", "count_pairs")
    found = scored.score_program(
        program(LOOPS, WAITS), told, dataclasses.replace(right, shares=shares)
    )
    assert found.has_right_share is expected


def test_a_rule_that_needs_no_function_tells_the_share_itself(scored: Any) -> None:
    told = said("gap.gc", None)
    for percent, expected in ((45, True), (70, False), (None, None)):
        found = scored.score_program(
            program("collections_by_hand"),
            truth(collections_by_hand=0.5),
            dataclasses.replace(told, percent=percent),
        )
        assert found.has_right_share is expected


@pytest.mark.parametrize(
    ("law", "told", "expected"),
    [
        (WAITS, ("waits",), "right"),
        (WAITS, ("functions", "waits"), "right"),
        (WAITS, ("functions",), "wrong"),
        (WAITS, (), "right"),
        (LOOPS, ("functions",), "right"),
        (LOOPS, ("waits",), "wrong"),
    ],
)
def test_advice_for_work_does_not_help_a_wait(
    scored: Any, law: str, told: tuple[str, ...], expected: str
) -> None:
    named = said("host.work", "host_compute", "count_pairs", "push_metrics")
    found = causes(scored, **{law: 0.5})
    judged = dataclasses.replace(named, causes=told)
    assert scored.judge_advice(found, judged, "JAX") == expected


def test_advice_of_another_rule_about_the_function_is_half_right(scored: Any) -> None:
    told = said("step.periodic", "host_compute", "count_pairs")
    found = causes(scored, python_loop=0.5)
    assert scored.judge_advice(found, told, "JAX") == "partly"
