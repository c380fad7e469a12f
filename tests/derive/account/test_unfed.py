"""Silence before the copy of a batch, on traces written by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import Recorder, findings

from stepscope.derive.account.topics import IdleTopics, idle_topics
from stepscope.reporting.words.findings import lead_sentence

US = 1_000_000
STEPS = 12
PERIOD_US = 20_000.0
#: The last kernel of a step ends so long after its begin: a copy and ten kernels.
BUSY_US = 540.0 + 10 * 800.0
#: From there to the call that copies the next batch.
SILENT_US = PERIOD_US + 10.0 - BUSY_US


def silent_loop(
    *, size: int = 4_000_000, late_us: float = 0.0, doing: str | None = None
) -> list[Any]:
    """A loop that marks its steps and is silent until it copies the next batch.

    Args:
        size: Bytes of a batch.
        late_us: How long after other work of the step it is copied.
        doing: What is recorded of the silence.
    """
    made = Recorder()
    for number in range(STEPS):
        begin = PERIOD_US * number
        made.mark(number, begin, 9_000.0)
        if late_us:
            made.launch(("first", 20.0, "a:Add"), begin + 10.0, begin + 20.0)
        at = begin + 30.0 + late_us
        made.copy("MemcpyH2D", at, 500.0, size=size, called=20.0)
        for place in range(10):
            kernel = ("conv", 800.0, "a:Conv2D")
            made.launch(kernel, at + 10.0 + 7 * place, at + 510.0 + 800.0 * place)
        if doing is not None:
            made.host(doing, at + 8_600.0, 11_000.0)
    return made.lines


def unfed_us(lines: list[Any]) -> float:
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    found = profile.derived("vm", idle_topics)
    assert isinstance(found, IdleTopics)
    return found.devices[0].spans["unfed"].length_ps / US


def test_silence_until_a_batch_is_copied_may_be_the_making_of_it() -> None:
    assert unfed_us(silent_loop()) == pytest.approx((STEPS - 1) * SILENT_US)


def test_the_copy_of_a_number_shows_no_batch() -> None:
    assert unfed_us(silent_loop(size=64)) == 0


def test_a_step_that_computes_before_it_copies_did_not_wait_for_the_copy() -> None:
    """Only the silence of 2,970 µs between its first kernel and the copy ends so."""
    assert unfed_us(silent_loop(late_us=3_000.0)) == STEPS * 2_970.0


@pytest.mark.parametrize("doing", ["save_checkpoint", "IteratorGetNext"])
def test_what_is_recorded_is_no_silence(doing: str) -> None:
    assert unfed_us(silent_loop(doing=doing)) < 1_000.0 * STEPS


def test_it_is_said_to_be_input_or_other_work_and_gains_what_a_loader_would() -> None:
    """Without the silence a step takes what the device is busy for."""
    found = findings(silent_loop())["input.bound"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.topics == ("unfed",)
    sentence = lead_sentence(found)
    assert sentence.startswith("Input-bound (or other work before the batch)")
    assert found.confidence <= 0.6
    assert found.saving_ms is not None
    gained_ms = SILENT_US / 1_000
    assert found.saving_ms.low <= gained_ms <= found.saving_ms.high
    assert found.saving_ms.high == pytest.approx(gained_ms + 0.5, rel=0.01)
    assert "num_workers" in " ".join(one.code or "" for one in found.actions)


def test_it_explains_that_the_device_idles_between_steps() -> None:
    found = findings(silent_loop())
    assert found["gaps.between"].explained_by == ("input.bound",)
    assert found["capture.quality"].explained_by in ((), ("input.bound",))
