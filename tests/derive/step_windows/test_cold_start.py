"""A first step far longer than the others, for no visible reason, is in no mean."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import Windows, windows

US = 1_000_000


def windows_of(lines: list[tuple[Any, ...]]) -> Windows:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", windows)
    assert isinstance(found, Windows)
    return found


def train(number: int, start: float, dur: float) -> tuple[Any, ...]:
    return ("main", "train", start, dur, {"_r": 1, "step_num": number})


def begun_cold(
    *inside: tuple[str, float], again: bool = False
) -> list[tuple[Any, ...]]:
    """Twelve steps of 100 µs, the first one of 1,000; what runs in it besides."""
    lines: list[tuple[Any, ...]] = []
    at = 0.0
    for k in range(12):
        length = 1_000 if k == 0 else 100
        lines += [train(k, at, length - 10), ("main", "conv", at + 5, 50)]
        if k == 0:
            lines += [("main", name, at + 100, dur) for name, dur in inside]
        elif again:
            lines += [("main", name, at + 60, 20) for name, _ in inside]
        at += length
    return lines


@pytest.mark.parametrize("again", [False, True])
def test_a_cold_first_step_is_in_no_mean(*, again: bool) -> None:
    """It compiles nothing; what takes longer in it runs in the other steps too."""
    lines = begun_cold(*([("relu", 800)] if again else []), again=again)
    found = windows_of(lines)
    flagged = [k for k, each in enumerate(found.rows["flags"]) if "warm_up" in each]
    assert flagged == [0]
    lengths = found.measured["end_ps"] - found.measured["start_ps"]
    assert lengths.to_list() == [100 * US] * 10


@pytest.mark.parametrize(
    ("name", "us"), [("load_checkpoint", 460.0), ("backend_compile", 10.0)]
)
def test_a_first_step_is_not_cold_where_something_says_why_it_is_long(
    name: str, us: float
) -> None:
    """Half of the 900 µs that it takes too long are 450; compiling says it at once."""
    found = windows_of(begun_cold((name, us)))
    assert not any("warm_up" in each for each in found.rows["flags"])
    assert len(found.measured) == 11


def test_less_than_half_of_it_is_no_reason() -> None:
    found = windows_of(begun_cold(("load_checkpoint", 440.0)))
    assert "warm_up" in found.rows["flags"][0].to_list()
