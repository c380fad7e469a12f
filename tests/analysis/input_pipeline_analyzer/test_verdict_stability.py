"""What does not matter does not change the breakdown or the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.analysis.tools import ProfileWithTools
from stepscope.formats.opening import open_hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.overview_page import OverviewPageResult
    from stepscope.trace.model import TraceData

PROFILES = (
    "gpu_tf/t4_healthy",
    "gpu_tf/turing_launch_bound",
    "tf_cpu/keras_fit/train",
    "tf_cpu/input_bound",
    "jax_cpu/annotations",
)
TIMED = ("events", "launches", "device_activity", "allocations", "iterators")
#: Tables whose column `event` is a row of events.
POINTING = ("stats", "launches", "device_activity", "allocations", "iterators")


def trace_of(path: Path) -> TraceData:
    _, traces = open_hosts(path)
    return next(iter(traces.values()))


def page(trace: TraceData) -> OverviewPageResult:
    profile = ProfileWithTools("run", {trace.host: trace})
    return profile.tool("overview_page")


def frames(trace: TraceData, *names: str) -> dict[str, pl.DataFrame]:
    tables = {name: trace.table(name) for name in names}
    return {name: it for name, it in tables.items() if isinstance(it, pl.DataFrame)}


def moved(trace: TraceData, *, shift_ps: int = 0, factor: int = 1) -> TraceData:
    """Every time of the profile shifted, and every length multiplied."""
    at = pl.col("start_ps") * factor + shift_ps
    changed = {
        name: frame.with_columns(
            at,
            *((pl.col("dur_ps") * factor,) if "dur_ps" in frame.columns else ()),
        )
        for name, frame in frames(trace, *TIMED).items()
    }
    environment = frames(trace, "environment")["environment"]
    changed["environment"] = environment.with_columns(
        pl.col("begin_ps", "end_ps") * factor + shift_ps
    )
    return blueprint.substitute(trace, **changed)


def with_tracks_reversed(trace: TraceData) -> TraceData:
    """The same events with the tracks, and so all rows, in another order."""
    tables = frames(trace, "tracks", "events", *POINTING, "aggregates")
    tracks, events = tables["tracks"], tables["events"]
    order = np.arange(tracks.height)[::-1]
    rows = np.concatenate(
        [
            np.arange(tracks["event_begin"][int(old)], tracks["event_end"][int(old)])
            for old in order
        ]
    )
    new_row = np.empty(len(rows), np.int32)
    new_row[rows] = np.arange(len(rows), dtype=np.int32)
    new_track = np.empty(len(order), np.int32)
    new_track[order] = np.arange(len(order), dtype=np.int32)
    lengths = (tracks["event_end"] - tracks["event_begin"]).to_numpy()[order]
    ends = np.cumsum(lengths)
    changed = {
        "tracks": tracks[order].with_columns(
            event_begin=pl.Series(ends - lengths), event_end=pl.Series(ends)
        ),
        "events": events[rows].with_columns(
            track=pl.Series(new_track)[events[rows]["track"]]
        ),
    }
    for name in (*POINTING, "aggregates"):
        if name not in tables:
            continue
        frame = tables[name]
        if "track" in frame.columns:
            frame = frame.with_columns(track=pl.Series(new_track)[frame["track"]])
        if "event" in frame.columns:
            frame = frame.with_columns(event=pl.Series(new_row)[frame["event"]])
            keys = ["event"] if name != "allocations" else ["start_ps", "event"]
            frame = frame.sort(keys, maintain_order=True)
        changed[name] = frame
    return blueprint.substitute(trace, **changed)


def with_kernel_names_shuffled(trace: TraceData, *, seed: int) -> TraceData:
    """Kernels exchange names with kernels; copies and host events keep theirs."""
    tables = frames(trace, "event_types", "device_activity")
    if "device_activity" not in tables:
        pytest.skip("no kernels to rename")
    kernels = tables["device_activity"].filter(pl.col("kind") == "kernel")
    types = kernels["type"].unique().sort().to_numpy()
    names = tables["event_types"]["name"].to_numpy().copy()
    names[types] = names[np.random.default_rng(seed).permutation(types)]
    renamed = tables["event_types"].with_columns(pl.Series("name", names))
    return blueprint.substitute(trace, event_types=renamed)


def assert_same(found: OverviewPageResult, expected: OverviewPageResult) -> None:
    assert found.bottleneck == expected.bottleneck
    assert found.breakdown_ms == expected.breakdown_ms
    assert found.breakdown_detail_ms == expected.breakdown_detail_ms
    assert found.phases_ms == expected.phases_ms
    assert [step.breakdown_ms for step in found.steps] == [
        step.breakdown_ms for step in expected.steps
    ]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("shift_ps", [-1_234_567_891, 10**15])
@pytest.mark.sweep(every=3)
def test_when_a_profile_was_recorded_does_not_matter(
    name: str, shift_ps: int, shared_profile: Callable[[str], Path]
) -> None:
    trace = trace_of(shared_profile(name))
    assert_same(page(moved(trace, shift_ps=shift_ps)), page(trace))


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.sweep(every=3)
def test_a_clock_that_runs_twice_as_fast_keeps_the_verdict(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    trace = trace_of(shared_profile(name))
    before, after = page(trace), page(moved(trace, factor=2))
    assert after.bottleneck == before.bottleneck
    assert after.step_time_ms.mean == pytest.approx(2 * (before.step_time_ms.mean or 0))
    for category, time in before.breakdown_ms.items():
        # Why a device idles depends on absolute times: the latency of a launch is
        # capped, and silence is long from 1 ms on
        # (docs/where-a-steps-time-goes.md#idle-time).
        idle = ("kernel_launch", "host_compute", "other")
        slack = 0.1 * after.step_time_ms.mean if category in idle else 0.02 * time
        assert after.breakdown_ms[category] == pytest.approx(2 * time, abs=slack + 0.01)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.sweep(every=3)
def test_the_order_of_tracks_and_rows_does_not_matter(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    trace = trace_of(shared_profile(name))
    assert_same(page(with_tracks_reversed(trace)), page(trace))


@pytest.mark.parametrize("name", ["gpu_tf/t4_healthy", "gpu_tf/turing_launch_bound"])
@pytest.mark.parametrize("seed", [1, 2])
def test_names_of_kernels_of_one_precision_do_not_matter(
    name: str, seed: int, shared_profile: Callable[[str], Path]
) -> None:
    trace = trace_of(shared_profile(name))
    found, expected = page(with_kernel_names_shuffled(trace, seed=seed)), page(trace)
    if "device_compute_16" not in found.breakdown_ms:
        # Names that tell no width may now be those of most of the time: then it is
        # unknown that nothing computes in other widths than 32 bit.
        assert expected.breakdown_ms["device_compute_16"] == 0
        expected = without_widths(expected)
    assert_same(of_any_width(found), of_any_width(expected))


def of_any_width(result: OverviewPageResult) -> OverviewPageResult:
    """Kernels whose name tells no width count with 32 bit: other names move there."""
    times = dict(result.breakdown_detail_ms)
    times["compute_32"] += times.pop("compute_unknown")
    times["compute_32"] = pytest.approx(times["compute_32"])
    return msgspec.structs.replace(result, breakdown_detail_ms=times)


def without_widths(result: OverviewPageResult) -> OverviewPageResult:
    def less(times: dict[str, float]) -> dict[str, float]:
        left_out = {"device_compute_16", "compute_16", "compute_tf32", "compute_64"}
        return {name: ms for name, ms in times.items() if name not in left_out}

    replace = msgspec.structs.replace
    return replace(
        result,
        breakdown_ms=less(result.breakdown_ms),
        breakdown_detail_ms=less(result.breakdown_detail_ms),
        steps=tuple(
            replace(step, breakdown_ms=less(step.breakdown_ms)) for step in result.steps
        ),
    )
