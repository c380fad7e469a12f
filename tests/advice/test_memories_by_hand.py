"""Rules about memory: slopes, limits and whole findings, worked out by hand."""

from __future__ import annotations

import math
import statistics
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.advice.memories import GIB, memory, told

from stepscope.advice.rules.memory import device_memory
from stepscope.derive.facts.evidence import Evidence, Part
from stepscope.thresholds import THRESHOLDS

MIB = 2**20


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(-20, 20)), min_size=2, max_size=12
    )
)
def test_slopes_are_those_of_all_pairs(rows: list[tuple[int, int]]) -> None:
    steps = np.cumsum([gap for gap, _ in rows]).astype(np.float64)
    use = np.array([value for _, value in rows], np.float64)
    slopes = sorted(
        float((use[later] - use[first]) / (steps[later] - steps[first]))
        for first in range(len(rows))
        for later in range(first + 1, len(rows))
    )
    slope, low = device_memory._theil_sen_slope(steps, use)
    assert slope == pytest.approx(statistics.median(slopes))
    # Sen: of C slopes, the lower limit has the rank (C - 1.96 s) / 2, where s is the
    # deviation of Kendall's sum without ties.
    count = len(rows)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    rank = max(int((len(slopes) - 1.96 * deviation) / 2), 0)
    assert low == slopes[rank]


def test_steps_at_one_time_have_no_slope() -> None:
    assert device_memory._theil_sen_slope(np.zeros(3), np.arange(3.0)) == (0.0, 0.0)
    assert device_memory._theil_sen_slope(np.zeros(0), np.zeros(0)) == (0.0, 0.0)
    # Two samples of one time, and one later: both pairs count.
    steps, use = np.array([0.0, 0.0, 2.0]), np.array([0.0, 4.0, 6.0])
    assert device_memory._theil_sen_slope(steps, use) == (2.0, 1.0)


def growing(mib: float, steps: int = 12, begin_gib: float = 18.0, **more: Any) -> Any:
    """A memory that grows by so much in each step."""
    least = tuple(round(begin_gib * GIB + mib * MIB * at) for at in range(steps))
    at_step = tuple(float(at) for at in range(steps))
    return memory(**{"least_bytes": least, "at_step": at_step, **more})


def test_everything_about_two_memories_that_grow(signals_of: Any) -> None:
    grown = (Part(name="Pack", share_percent=40.0),)
    memories = (
        growing(50, name="GPU_0_bfc"),
        growing(80, 10, name="GPU_1_bfc", grown=grown),
        growing(0, name="GPU_2_bfc"),
    )
    finding = device_memory.judge_leak(signals_of(told(*memories)))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.value == pytest.approx(100 * 80 / (40 * 1024))
    assert finding.threshold == THRESHOLDS.leak_growth
    assert finding.devices == ("vm:GPU_0_bfc", "vm:GPU_1_bfc")
    assert finding.parts == grown
    assert finding.inputs == ("allocations", "memory_replay", "windows")
    facts = {fact.name: (fact.value, fact.note) for fact in finding.facts}
    assert facts["growth_mib"] == (80.0, "vm:GPU_1_bfc")
    # 22 GiB less nine steps.
    assert facts["steps_left"][0] == pytest.approx((22 * 1024 - 9 * 80) / 80)
    assert facts["steps"][0] == 10
    passing = device_memory.judge_leak(
        signals_of(told(memories[2], growing(20, grown=grown)))
    )
    assert (passing.status, passing.severity, passing.parts) == ("pass", "info", ())
    assert passing.devices == ("vm:GPU_2_bfc", "vm:GPU_0_bfc")
    facts = {fact.name: (fact.value, fact.note) for fact in passing.facts}
    assert facts["growth_mib"] == (20.0, "vm:GPU_0_bfc")
    assert facts["steps_left"][0] is None


@pytest.mark.parametrize(
    ("left", "severity"), [(900, "critical"), (989, "critical"), (990, "warn")]
)
def test_a_memory_is_full_soon_if_it_is_within_the_limit(
    signals_of: Any, monkeypatch: pytest.MonkeyPatch, left: int, severity: str
) -> None:
    """After the last of 12 steps so many steps fit."""
    size = 64 * MIB * (left + 11)
    limits = msgspec.structs.replace(
        THRESHOLDS,
        leak_soon=msgspec.structs.replace(THRESHOLDS.leak_soon, value=990),
        leak_growth=msgspec.structs.replace(THRESHOLDS.leak_growth, value=0.05),
    )
    one = growing(64, begin_gib=0.0, capacity_bytes=size)
    monkeypatch.setattr(device_memory, "THRESHOLDS", limits)
    finding = device_memory.judge_leak(signals_of(told(one)))
    assert (finding.status, finding.severity) == ("fail", severity)


@pytest.mark.parametrize(
    ("steps", "at_step", "status"),
    [
        (9, range(9), "fail"),
        (8, range(8), "cannot_tell"),
        # Nine samples within fewer steps.
        (9, [0, 1, 2, 3, 4, 5, 6, 7, 7.9], "cannot_tell"),
        (9, [0, 1, 2, 3, 4, 5, 6, 7, 8], "fail"),
    ],
)
def test_growth_over_nine_steps_is_judged(
    signals_of: Any, steps: int, at_step: Any, status: str
) -> None:
    one = growing(80, steps, at_step=tuple(map(float, at_step)))
    assert device_memory.judge_leak(signals_of(told(one))).status == status


def test_growth_has_to_go_on_at_half_of_its_pace(signals_of: Any) -> None:
    """The first six steps gain 100 MiB each, and the last six fewer."""
    for later, status in ((60, "fail"), (20, "pass")):
        mib = [100 * at for at in range(6)] + [500 + later * at for at in range(1, 7)]
        least = tuple(round(18 * GIB + each * MIB) for each in mib)
        one = growing(1, least_bytes=least)
        assert device_memory.judge_leak(signals_of(told(one))).status == status


@pytest.mark.parametrize(
    ("used", "status", "severity", "critical"),
    [
        (0.9199, "pass", "info", False),
        (0.92, "fail", "warn", False),
        (0.9699, "fail", "warn", False),
        (0.97, "fail", "critical", True),
    ],
)
def test_a_memory_is_nearly_full_or_full_from_its_limit_on(
    signals_of: Any,
    used: float,
    status: str,
    severity: str,
    critical: bool,  # noqa: FBT001 - a parameter
) -> None:
    alive = tuple(Part(name=name, share_percent=9.0) for name in ("Pad", "Conv"))
    size = 10_000 * GIB
    one = memory(
        peak_bytes=round(used * 10_000) * GIB, capacity_bytes=size, alive=alive
    )
    finding = device_memory.judge_peak(signals_of(told(one)))
    assert (finding.status, finding.severity) == (status, severity)
    limit = THRESHOLDS.memory_critical if critical else THRESHOLDS.memory_warn
    assert (finding.value, finding.unit) == (used, "ratio")
    assert finding.threshold == limit
    assert finding.parts == (alive if status == "fail" else ())
    assert finding.inputs == ("allocations", "memory_replay")
    seen = Evidence(
        host="vm", device=None, track="GPU_0_bfc", start_ps=5, end_ps=5, ops=("Pad",)
    )
    assert finding.evidence == ((seen,) if status == "fail" else ())
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["capacity_gib"] == 10_000
    assert facts["used"] == pytest.approx(100 * used)


@pytest.mark.parametrize(
    ("memories", "devices"),
    [
        # What was not counted from the beginning is at least as full as it seems.
        ([memory(counted=False, peak_gib=36.9)], ("vm:GPU_0_bfc",)),
        (
            [memory(counted=False, peak_gib=36.7), memory(name="other", peak_gib=2)],
            ("vm:other",),
        ),
        (
            [memory(name="b", peak_gib=3), memory(name="a", peak_gib=3)],
            ("vm:a", "vm:b"),
        ),
        ([memory(name="process", peak_gib=36.9)], ("vm:process",)),
        (
            [memory(name="process", peak_gib=3), memory(peak_gib=2)],
            ("vm:process", "vm:GPU_0_bfc"),
        ),
        ([memory(name="process", peak_gib=36.7)], ()),
        ([memory(counted=False, peak_gib=36.7)], ()),
        ([], ()),
    ],
)
def test_memories_are_listed_from_the_fullest_on(
    signals_of: Any, memories: list[Any], devices: tuple[str, ...]
) -> None:
    finding = device_memory.judge_peak(signals_of(told(*memories)))
    assert (finding.status == "cannot_tell") is (not devices)
    assert finding.devices == devices


@pytest.mark.parametrize(
    ("free", "share", "fails"),
    [
        # A tenth of 40 GiB has to be free, and no piece may be so large.
        (4, 0.25, True),
        (3.9, 0.25, False),
        (5, 0.2, False),
        (4.9, 0.2, True),
        (4, 0.19, False),
        (8, 0.5, False),
        (8, 0.5625, True),
    ],
)
def test_pieces_matter_where_none_is_a_tenth_of_the_memory(
    signals_of: Any,
    free: float,
    share: float,
    fails: bool,  # noqa: FBT001 - a parameter
) -> None:
    one = memory(free_bytes=round(free * GIB), fragmentation=share)
    whole = memory(name="whole", free_bytes=0, fragmentation=0.1)
    signals = signals_of(told(whole, one))
    finding = device_memory.judge_fragmentation(signals)
    assert finding.status == ("fail" if fails else "pass")
    assert finding.severity == ("warn" if fails else "info")
    assert finding.devices == ("vm:GPU_0_bfc",)
    assert (finding.value, finding.unit) == (share, "ratio")
    assert finding.threshold == THRESHOLDS.fragmented
    facts = {fact.name: fact.value for fact in finding.facts}
    # Three digits are told.
    assert facts == {
        "free_gib": pytest.approx(free, rel=0.005),
        "largest_gib": pytest.approx((1 - share) * free, rel=0.005),
    }
    seen = Evidence(host="vm", device=None, track="GPU_0_bfc", start_ps=5, end_ps=5)
    assert finding.evidence == ((seen,) if fails else ())


def test_the_memory_in_most_pieces_is_told_and_all_are_listed(signals_of: Any) -> None:
    memories = [
        memory(name=name, free_bytes=4 * GIB, fragmentation=share)
        for name, share in (("a", 0.3), ("b", 0.6), ("c", 0.1))
    ]
    signals = signals_of(told(*memories))
    finding = device_memory.judge_fragmentation(signals)
    assert (finding.value, finding.devices) == (0.6, ("vm:a", "vm:b"))
    # What is in more pieces, but hardly free, is not told where others matter.
    hardly = memory(name="d", free_bytes=GIB, fragmentation=0.9)
    signals = signals_of(told(*memories, hardly))
    finding = device_memory.judge_fragmentation(signals)
    assert (finding.value, finding.devices) == (0.6, ("vm:a", "vm:b"))
