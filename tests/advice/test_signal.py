"""A signal is worked out when a rule asks for it, and once."""

from __future__ import annotations

import inspect
from typing import Any

from stepscope.advice.engine import readers_of, signals_of
from stepscope.advice.registry import RULES
from stepscope.advice.signals.signal import Signal, Signals, signal
from stepscope.derive.profile_data import ProfileData


@signal("breakdown")
def waiting(_profile: Any, _thresholds: Any) -> int:
    return 7


def test_a_signal_is_worked_out_when_it_is_asked_for_and_kept() -> None:
    asked = []

    def value_of(wanted: Signal[Any]) -> Any:
        asked.append(wanted)
        return wanted.compute(None, None)

    signals = Signals(value_of)
    assert asked == []
    assert [signals.of(waiting), signals.of(waiting)] == [7, 7]
    assert asked == [waiting]


def test_a_signal_is_given_those_that_it_reads_which_are_worked_out_once() -> None:
    profile = ProfileData("run", {})
    asked = []

    @signal()
    def counted(_profile: Any, _thresholds: Any) -> int:
        asked.append(_profile)
        return 3

    doubled, tripled = (
        signal(reads=(counted,))(lambda _profile, _thresholds, found, by=by: by * found)
        for by in (2, 3)
    )
    signals = signals_of(profile)
    assert [signals.of(one) for one in (doubled, counted, tripled)] == [6, 3, 9]
    assert asked == [profile]


def test_every_signal_takes_the_values_of_those_that_it_reads() -> None:
    signals = {one for rule in RULES for one in rule.reads}
    assert any(one.reads for one in signals)
    for one in signals:
        taken = inspect.signature(one.compute).parameters
        assert len(taken) == 2 + len(one.reads), one.compute.__name__


def test_signals_that_are_read_beside_tools_wait_for_all_that_they_need() -> None:
    asked = []

    def value_of(wanted: Signal[Any]) -> Any:
        asked.append(wanted)
        return 0

    readers = readers_of(Signals(value_of))
    assert asked == []
    for one in readers:
        one.run()
    often = {one for rule in RULES for one in rule.reads if not one.seldom}
    assert often <= set(asked)
    assert not any(one.seldom for one in asked)
    for one, reader in zip(asked, readers, strict=True):
        every = {*one.needs, *(needed for it in one.reads for needed in it.needs)}
        assert every <= set(reader.needs), one.compute.__name__
