"""Bursts in the first step of an epoch: they come back, so they are no accident."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.headline import choose_lead_sentence
from stepscope.reporting.words.findings import pattern_sentence
from stepscope.reporting.words.first_sentence import first_sentence


def judged(
    epochs: tuple[int, ...], *, waits_ms: float, creates: bool = True
) -> tuple[Any, str]:
    """Thirty steps of 10 ms; in these the batch comes later, and an iterator begins."""
    lines: list[Any] = []
    begin = 0.0
    for number in range(30):
        wait = 1_000.0 * waits_ms if number in epochs else 50.0
        length = 10_000.0 + wait
        lines += [
            ("main", "train", begin, length - 10.0, {"_r": 1, "step_num": number}),
            ("main", "IteratorGetNext:IteratorGetNext", begin + 100.0, wait),
            ("main", "a/MatMul:MatMul", begin + 200.0 + wait, 9_700.0),
        ]
        if number in epochs and creates:
            lines.append(("main", "MakeIterator:MakeIterator", begin + 20.0, 30.0))
        begin += length
    signals = signals_of(blueprint.profile(blueprint.trace(lines)))
    findings = evaluate(signals)
    lead = choose_lead_sentence(findings, signals)
    by_id = {finding.id: finding for finding in findings}
    return by_id["input.bound"], first_sentence(lead, findings)


def test_a_burst_at_each_epoch_leads_with_how_often_it_comes() -> None:
    """Two of the 30 steps wait 60 ms, the others 0.05: 121.4 of 421.39 ms."""
    finding, first = judged((8, 18), waits_ms=60.0)
    assert (finding.note, finding.severity) == ("each_epoch", "warn")
    assert finding.share_percent == pytest.approx(100 * 121.4 / 421.39, abs=0.1)
    assert first == (
        "Input-bound, in bursts: the first step of each epoch (every 10 steps) waits "
        "60.0 ms for a batch (28.8 % of the time)."
    )
    assert pattern_sentence(finding) == (
        "This affects the first step of each epoch (every 10 steps), by 60.0 ms: 2 of "
        "30 recorded steps."
    )


def test_the_only_recorded_begin_of_an_epoch_says_that_it_comes_back() -> None:
    """Of how many steps an epoch has nothing is known."""
    finding, first = judged((12,), waits_ms=120.0)
    assert (finding.note, finding.severity) == ("each_epoch", "info")
    assert first.startswith(
        "Input-bound, in bursts: the first step of each epoch waits 120 ms for a batch"
    )


def test_a_burst_elsewhere_is_one_step() -> None:
    finding, _ = judged((12,), waits_ms=120.0, creates=False)
    assert finding.note == "once"
    # A program that begins an iterator in each step has no epochs.
    finding, _ = judged(tuple(range(30)), waits_ms=5.0)
    assert finding.note is None
