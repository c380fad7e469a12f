"""`gaps.between` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.rules.idle_gaps.gaps import judge_between as evaluate
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

MS = 1_000_000_000
CALLBACK = NamedTime(
    "between", "between", "after train_function, before constant", time_ps=60 * MS
)


def test_idle_time_after_the_step_is_found_and_named(
    signals_of: Any, shares: Any
) -> None:
    one = shares(between={"between": 5.0, "launch": 1.0}, names=[CALLBACK])
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(60.0)
    assert finding.parts[0].name == "after train_function, before constant"
    assert finding.parts[0].share_percent == pytest.approx(50.0)
    assert finding.place == "between"


def test_the_same_time_inside_steps_is_another_matter(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(launch=5.0, sync=1.0)))
    assert (finding.status, finding.value) == ("pass", 0.0)


@pytest.mark.parametrize("owner", ["input", "compile", "profiler", "queued"])
def test_waiting_for_batches_between_steps_is_another_matter(
    signals_of: Any, shares: Any, owner: str
) -> None:
    finding = evaluate(signals_of(shares(between={owner: 5.0})))
    assert (finding.status, finding.value) == ("pass", 0.0)


@pytest.mark.parametrize(("gap_ms", "status"), [(0.51, "fail"), (0.49, "pass")])
def test_a_twentieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, gap_ms: float, status: str
) -> None:
    one = shares(between={"between": gap_ms})
    assert evaluate(signals_of(one)).status == status


def test_a_checkpoint_in_one_step_is_a_note(signals_of: Any, shares: Any) -> None:
    one = shares(between={"output": [0.0] * 11 + [8.0]})
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "once")


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    fault = {"between": {"between": 5.0}}
    unmarked = {"step_source": None, "step_confidence": 0.0}
    silent = DeviceSignals(recorded="silent")
    for signals in (
        signals_of(),
        signals_of(shares(**fault, fields=unmarked)),
        signals_of(shares(**fault, missing=["launch"])),
        signals_of(shares(**fault, device=None), device=silent),
    ):
        finding = evaluate(signals)
        assert finding.status == "cannot_tell"
        assert finding.unavailable is not None


def test_a_run_on_the_host_alone_is_not_applicable(
    signals_of: Any, shares: Any
) -> None:
    device = DeviceSignals(recorded="host_only")
    one = shares(device=None)
    assert evaluate(signals_of(one, device=device)).status == ("not_applicable")


def test_what_follows_the_only_step_is_not_promised_as_a_gain_of_every_step(
    signals_of: Any, shares: Any
) -> None:
    """TensorBoard's callback writes a graph as its recording of one batch ends.

    Its 30 of 41 ms were to be saved in every step, by calling callbacks less often.
    """
    fault = {"between": {"between": 5.0}, "steps": 1, "names": [CALLBACK]}
    last = evaluate(signals_of(shares(**fault, fields={"closed": False})))
    assert (last.status, last.note) == ("fail", "at_end")
    assert last.saving_ms == Saving(low=0.0, high=5.0)
    assert "Record several steps first" in last.actions[0].text
    closed = evaluate(signals_of(shares(**fault, fields={"closed": True})))
    assert closed.note == "few_steps"
    assert not any("Record several steps" in it.text for it in closed.actions)
    assert any("`tf.while_loop`" in it.text for it in closed.actions)
    several = shares(between={"between": 5.0}, steps=8, fields={"closed": False})
    assert evaluate(signals_of(several)).note != "at_end"
