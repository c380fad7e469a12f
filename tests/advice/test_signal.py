"""A signal is worked out when a rule asks for it, and once."""

from __future__ import annotations

from typing import Any

from stepscope.advice.signals.signal import Signal, Signals, signal


@signal("breakdown")
def waiting(_profile: Any, _thresholds: Any) -> int:
    return 7


def test_a_signal_is_worked_out_when_it_is_asked_for_and_kept() -> None:
    asked = []

    def value_of(wanted: Signal[Any]) -> Any:
        asked.append(wanted)
        return wanted.compute(None, None)  # type: ignore[arg-type]

    signals = Signals(value_of)
    assert asked == []
    assert [signals.of(waiting), signals.of(waiting)] == [7, 7]
    assert asked == [waiting]
