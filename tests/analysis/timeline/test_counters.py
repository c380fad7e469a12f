"""Counters of the timeline: their values at any resolution, and against the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis.timeline.counters import (
    COUNTER_COLUMNS,
    RANGE_COLUMNS,
    CounterTile,
    counter_curves_of,
    counter_ranges,
    counter_tile,
)
from stepscope.analysis.timeline.tiles import TILE_BUCKETS
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.errors import BadUsage
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

US = 1_000_000


def sampled(samples: list[tuple[int, float]]) -> ProfileData:
    lines: list[blueprint.Line] = [
        ("_counters_", "level", at, 0, {"counter_value": value})
        for at, value in samples
    ]
    return blueprint.profile(blueprint.trace([("main", "work", 0, 1), *lines]))


def tile(profile: ProfileData, *, level: int, index: int) -> CounterTile:
    host = profile.hosts[0]
    track = require_available(profile.derived(host, trace_timeline)).tracks.height
    found = counter_tile(profile, host, tracks=[track], level=level, index=index)
    assert isinstance(found, CounterTile)
    assert found.samples.schema == COUNTER_COLUMNS
    return found


@pytest.mark.slow(seconds=0.4)
@settings(max_examples=20)
@given(
    samples=st.lists(
        st.tuples(st.integers(0, 40), st.integers(-9, 9).map(float)), min_size=1
    ),
    level=st.integers(12, 26),
)
def test_the_value_at_any_time_is_the_last_one_set(
    samples: list[tuple[int, float]], level: int
) -> None:
    samples.sort(key=lambda one: one[0])
    profile = sampled(samples)
    width = TILE_BUCKETS << level
    for index in {0, 20 * US // width, 41 * US // width + 1}:
        found = tile(profile, level=level, index=index)
        rows = found.samples.select("start_ps", "min", "max", "last", "count").rows()
        inside = [
            (at * US, value)
            for at, value in samples
            if found.begin_ps <= at * US < found.end_ps
        ]
        before = [value for at, value in samples if at * US < found.begin_ps]
        if before:
            start, least, most, last, count = rows.pop(0)
            assert start < found.begin_ps
            assert (least, most, last, count) == (before[-1],) * 3 + (1,)
        assert sum(count for *_, count in rows) == len(inside)
        for start, least, most, last, count in rows:
            bucket = [
                value
                for at, value in inside
                if (at - found.begin_ps) >> level == (start - found.begin_ps) >> level
            ]
            assert (min(bucket), max(bucket), bucket[-1]) == (least, most, last)
            assert len(bucket) == count


def test_memory_in_use_is_that_of_the_memory_profile(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = stepscope.open(shared_profile("gpu/torch_memory"))
    (host,) = profile.hosts
    found = {
        curve.name: curve
        for curve in counter_curves_of(profile, host)
        if curve.unit == "bytes"
    }
    told = profile.tool("memory_profile")
    for name, memory in told.memories.items():
        (curve,) = [one for shown, one in found.items() if shown.endswith(f": {name}")]
        assert curve.value.max() == memory.peak.memory_in_use_bytes
        at = int(np.flatnonzero(curve.value == curve.value.max())[-1])
        assert curve.time_ps[at] / 1e9 == pytest.approx(memory.peak.time_ms)
        assert len(curve.value) == memory.allocations + memory.deallocations


@pytest.mark.parametrize("track", [0, 3, -1])
def test_a_track_that_is_no_counter_is_refused(track: int) -> None:
    with pytest.raises(BadUsage, match="is not a counter"):
        counter_tile(sampled([(1, 1.0)]), "vm", tracks=[track], level=1, index=0)


def test_the_mean_of_a_counter_weighs_values_by_how_long_they_last() -> None:
    """0 from 10 to 20 µs, then 30 to 30 µs, then 6."""
    profile = sampled([(10, 0.0), (20, 30.0), (30, 6.0)])

    def reached(begin_us: int, end_us: int) -> list[tuple[float, ...]]:
        found = counter_ranges(
            profile, profile.hosts[0], begin_ps=begin_us * US, end_ps=end_us * US
        )
        assert found.schema == RANGE_COLUMNS
        return found.select("least", "mean", "greatest").rows()

    assert reached(10, 30) == [(0.0, 15.0, 30.0)]
    assert reached(0, 20) == [(0.0, 0.0, 0.0)]
    # The value before the window lasts into it.
    assert reached(25, 35) == [(6.0, 18.0, 30.0)]
    assert reached(22, 28) == [(30.0, 30.0, 30.0)]
    assert reached(40, 50) == [(6.0, 6.0, 6.0)]
    assert reached(0, 10) == []
