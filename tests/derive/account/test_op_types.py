"""Host work is named by types of ops: all instances, on all threads, wrappers last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.headline import choose_lead_sentence
from stepscope.derive.account.parts import account_parts
from stepscope.reporting.words.first_sentence import first_sentence

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def executors() -> ProfileData:
    """Two threads of an executor run a step of 10 ms, four times.

    The first one convolves for 2 ms, normalises for 3 and then has nothing to run; the
    second one convolves from 4 to 8 ms, in another op of the model.
    """
    lines = []
    for step in range(4):
        at = 10_000.0 * step
        lines += [
            ("main", "train", at, 10_000, {"step_num": step, "_r": 1}),
            ("pool/1", "ExecutorState::Process", at, 10_000),
            ("pool/1", "model/conv2d_1/Conv2D:Conv2D", at, 2_000),
            ("pool/1", "model/norm/FusedBatchNormV3:FusedBatchNormV3", at + 2_000, 3e3),
            ("pool/2", "ExecutorState::Process", at + 4_000, 4_000),
            ("pool/2", "model/conv2d_2/Conv2D:Conv2D", at + 4_000, 4_000),
        ]
    return blueprint.profile(blueprint.trace(lines))


def test_the_largest_type_has_all_its_instances_on_all_threads() -> None:
    """Each op had its own name, and a thread's wrapper hid the ops of the others."""
    profile = executors()
    (host,) = profile.hosts
    rows = profile.derived(host, account_parts).rows  # type: ignore[union-attr]
    work = rows.filter(owner="host_compute").select("name", "time_ps").rows()
    # The mark of the last step ends it, so all four steps are judged.
    assert {name: time_ps / 4e8 for name, time_ps in work} == pytest.approx(
        {
            "Conv2D": 60.0,
            # The normalising op runs alone for 2 of its 3 ms.
            "model/norm/FusedBatchNormV3": 20.0,
            "ExecutorState::Process": 20.0,
        }
    )


def test_the_first_sentence_has_the_share_of_the_type() -> None:
    signals = signals_of(executors())
    findings = evaluate(signals)
    lead = choose_lead_sentence(findings, signals)
    assert "mostly Conv2D (60.0 %)" in first_sentence(lead, findings)
