"""`input.bound` over literal signals: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

from stepscope.advice.finding import CauseShare, Saving
from stepscope.advice.rules.input_bound import evaluate
from stepscope.advice.signals.model import DeviceSignals
from stepscope.advice.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
US = 1_000_000


def test_a_device_idle_while_the_host_fetches_is_input_bound(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([3.0] * 12, part="fetch", step_ms=13.0)
    finding = evaluate(signals_of(input=input_of(one)), THRESHOLDS)
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert round(finding.share_percent, 1) == 23.1
    assert finding.ms_per_step == 3.0
    assert finding.saving_ms == Saving(low=1.5, high=3.0)
    assert (finding.steps_hit, finding.steps_clean) == (12, 12)
    assert finding.causes == (CauseShare(cause="fetch", share_percent=300 / 13),)
    assert {action.cause for action in finding.actions} == {"fetch"}


def test_fetches_on_a_prefetch_thread_are_no_waiting(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="fetch")
    found = input_of(one, hidden_fetch_ps={"vm:0": (40.0 * US,) * 12})
    finding = evaluate(signals_of(input=found), THRESHOLDS)
    assert (finding.status, finding.note) == ("pass", None)
    assert finding.value == 0.0
    assert finding.actions == ()


def test_slow_fetches_under_a_busy_device_pass_with_a_hint(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="fetch")
    found = input_of(one, hidden_fetch_ps={"vm:0": (6.0 * MS,) * 12})
    finding = evaluate(signals_of(input=found), THRESHOLDS)
    assert (finding.status, finding.severity) == ("pass", "info")
    assert finding.note == "hidden"
    assert finding.actions


def test_slow_fetches_in_a_few_steps_are_no_habit(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="fetch")
    means = (6.0 * MS,) * 9 + (10.0 * US,) * 3
    finding = evaluate(
        signals_of(input=input_of(one, hidden_fetch_ps={"vm:0": means})), THRESHOLDS
    )
    assert (finding.status, finding.note) == ("pass", None)


def test_exposed_copies_of_the_batch_count_and_get_their_own_remedy(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series(
        [],
        part="fetch",
        window_ps=(10 * MS,) * 12,
        parts_ps={"fetch": (0,) * 12, "transfer": (2 * MS,) * 12},
        unknown_ps=(0,) * 12,
        working_ps=(5 * MS,) * 12,
    )
    finding = evaluate(signals_of(input=input_of(one)), THRESHOLDS)
    assert finding.status == "fail"
    assert finding.causes == (CauseShare(cause="transfer", share_percent=20.0),)
    assert {action.cause for action in finding.actions} == {"transfer"}


def test_one_step_never_exceeds_a_warning(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([62.0], part="fetch", step_ms=100.0)
    finding = evaluate(signals_of(input=input_of(one)), THRESHOLDS)
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.note == "few_steps"
    assert finding.confidence == 0.5


def test_a_large_effect_in_few_steps_is_critical_and_a_middling_one_is_not(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    def severity(share: float) -> str:
        one = series([share] * 4, part="fetch", step_ms=100.0)
        return evaluate(signals_of(input=input_of(one)), THRESHOLDS).severity

    assert (severity(35.0), severity(25.0)) == ("critical", "warn")


def test_the_effect_must_show_in_most_steps(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([1.0] * 6 + [0.0] * 5, part="fetch")
    finding = evaluate(signals_of(input=input_of(one)), THRESHOLDS)
    assert finding.status == "pass"
    assert (finding.steps_hit, finding.steps_clean) == (6, 11)


def test_tiny_times_are_no_finding_whatever_their_share(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.09] * 12, part="fetch", step_ms=0.5)
    assert evaluate(signals_of(input=input_of(one)), THRESHOLDS).status == "pass"


def test_unrecorded_fetches_beside_unknown_time_cannot_tell(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="fetch", device=None, unknown_ps=(6 * MS,) * 12)
    finding = evaluate(
        signals_of(input=input_of(one, consumer_recorded=False)), THRESHOLDS
    )
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None
    assert finding.unavailable.code == "NO_TFDATA_EVENTS"
    assert "60 %" in finding.unavailable.reason


def test_little_unknown_time_cannot_hide_a_finding(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="fetch", device=None, unknown_ps=(MS // 3,) * 12)
    finding = evaluate(
        signals_of(input=input_of(one, consumer_recorded=False)), THRESHOLDS
    )
    assert finding.status == "pass"


def test_absent_signals_cannot_tell_for_their_own_reason(signals_of: Any) -> None:
    why = Unavailable(code="CORRUPT", reason="Torn.", remedy="Copy it again.")
    finding = evaluate(signals_of(input=why), THRESHOLDS)
    assert (finding.status, finding.unavailable) == ("cannot_tell", why)


def test_without_steps_there_is_no_share_of_the_step(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([900.0], part="fetch", step_ms=1000.0, step_confidence=0.0)
    finding = evaluate(signals_of(input=input_of(one)), THRESHOLDS)
    assert finding.status == "cannot_tell"
    assert finding.unavailable is not None
    assert finding.unavailable.code == "NO_STEPS"


def test_a_silent_device_may_pass_but_never_fail(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    silent = DeviceSignals(recorded="silent", sign="/device:GPU:0 is listed")

    def judged(effect_ms: float) -> Any:
        one = series([effect_ms] * 12, part="fetch", device=None)
        return evaluate(signals_of(device=silent, input=input_of(one)), THRESHOLDS)

    assert judged(0.1).status == "pass"
    assert judged(5.0).status == "cannot_tell"
    assert judged(5.0).unavailable.code == "NO_DEVICE_EVENTS"


def test_the_busiest_device_is_judged_and_the_others_are_listed(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    idle = series([9.0] * 12, part="fetch", device=1, working_ps=(MS,) * 12)
    busy = series([0.1] * 12, part="fetch", device=0, working_ps=(9 * MS,) * 12)
    finding = evaluate(signals_of(input=input_of(idle, busy)), THRESHOLDS)
    assert finding.status == "pass"
    assert finding.devices == ("vm:0", "vm:1")


def test_without_devices_the_host_that_waits_most_is_judged(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    first = series([0.8] * 12, part="fetch", device=None, host="a")
    second = series([2.9] * 12, part="fetch", device=None, host="b")
    finding = evaluate(signals_of(input=input_of(first, second)), THRESHOLDS)
    assert finding.devices == ("b", "a")
    assert round(finding.share_percent) == 29


def test_times_three_times_as_long_change_no_share(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    def judged(scale: int) -> Any:
        one = series(
            [3.0 * scale] * 12, part="fetch", step_ms=13.0 * scale, device=None
        )
        return evaluate(signals_of(input=input_of(one)), THRESHOLDS)

    once, thrice = judged(1), judged(3)
    assert thrice.share_percent == once.share_percent
    assert (thrice.status, thrice.severity) == (once.status, once.severity)
    assert thrice.ms_per_step == 3 * once.ms_per_step


def test_the_order_of_devices_changes_nothing(
    signals_of: Any, input_of: Any, series: Any
) -> None:
    one = series([3.0] * 12, part="fetch", device=0)
    two = series([1.0] * 12, part="fetch", device=1, working_ps=(MS,) * 12)
    forward = evaluate(signals_of(input=input_of(one, two)), THRESHOLDS)
    backward = evaluate(signals_of(input=input_of(two, one)), THRESHOLDS)
    assert forward == backward
