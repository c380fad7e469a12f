"""Tiles of real profiles: nothing disappears, and every kernel can be reached."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.traces.tiles import TrackSlices, track_tile, track_window

import stepscope
from stepscope.analysis.timeline import (
    details as trace_details,
)
from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.spans import host_timeline
from stepscope.analysis.timeline.tiles import (
    TILE_BUCKETS,
    Rows,
)
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

PROFILES = [
    "gpu_jax_amd/jax08_gemm",
    "gpu_tf/t4_healthy",
    "gpu_tf/v100_large",
    "gpu_tf/xprof_gpu_multi_worker",
    "jax_cpu/python_tracer",
    "kineto/resnet50_num_workers_0",
    "tf_cpu/healthy",
    "torch_cpu/schedule_dataloader",
    "tpu/tpu_inference_2",
]
WITH_KERNELS = [
    "gpu_jax_amd/jax08_gemm",
    "gpu_tf/t4_healthy",
    "gpu_tf/v100_large",
    "gpu_tf/xprof_gpu_multi_worker",
]


@cache
def opened(path: Path) -> ProfileData:
    return stepscope.open(path)


@pytest.fixture
def profile(
    request: pytest.FixtureRequest, shared_profile: Callable[[str], Path]
) -> ProfileData:
    return opened(shared_profile(request.param))


def about(profile: ProfileData) -> TrackCatalogue:
    found = track_catalogue(profile, profile.hosts[0])
    assert isinstance(found, TrackCatalogue)
    return found


def tiles(profile: ProfileData, *, level: int) -> Iterator[TrackSlices]:
    """All tiles of all tracks of a level, side by side."""
    shown = about(profile)
    assert shown.begin_ps is not None
    assert shown.end_ps is not None
    width = TILE_BUCKETS << level
    for track in range(shown.tracks.height):
        for index in range(shown.begin_ps // width, shown.end_ps // width + 1):
            found = track_tile(
                profile,
                shown.host,
                track=track,
                level=level,
                index=index,
                rows=Rows.ALL,
            )
            assert isinstance(found, TrackSlices)
            yield found


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("profile", PROFILES, indirect=True)
@pytest.mark.sweep(every=3)
def test_every_level_counts_every_span_and_all_time(profile: ProfileData) -> None:
    shown = about(profile)
    host = shown.host
    timeline = profile.derived(host, trace_timeline)
    events = profile.table(host, "events")
    dur_ps = events["dur_ps"].to_numpy()
    recorded = shown.tracks["source"].is_not_null().to_numpy()
    assert shown.tracks["spans"].to_numpy()[recorded].sum() == events.height
    for track in range(shown.tracks.height):
        begin, end, kind = shown.tracks.select("begin", "end", "kind").row(track)
        durs = dur_ps if recorded[track] else timeline.slices.dur_ps
        busy = set()
        for level in range(shown.coarsest_level + 1):
            found = track_window(
                profile,
                host,
                track=track,
                begin_ps=shown.begin_ps or 0,
                end_ps=(shown.end_ps or 0) + 1,
                bucket_ps=1 << level,
                rows=Rows.ALL,
            )
            assert isinstance(found, TrackSlices)
            assert found.slices["count"].sum() == end - begin
            busy.add(found.slices["busy_ps"].sum())
        (all_levels,) = busy
        # What stands for other work may be idle in part.
        whole = durs[begin:end].sum()
        assert all_levels == whole or (kind == "derived" and all_levels < whole)


@pytest.mark.parametrize("profile", PROFILES, indirect=True)
@pytest.mark.parametrize("closer", [0, 3])
def test_tiles_side_by_side_hold_every_span_once(
    profile: ProfileData, closer: int
) -> None:
    shown = about(profile)
    counts = np.zeros(shown.tracks.height, np.int64)
    for found in tiles(profile, level=max(0, shown.coarsest_level - closer)):
        begun_here = found.slices.filter(found.slices["start_ps"] >= found.begin_ps)
        counts[found.track] += begun_here["count"].sum()
    assert counts.tolist() == shown.tracks["spans"].to_list()


@pytest.mark.parametrize("profile", WITH_KERNELS, indirect=True)
def test_every_kernel_is_a_slice_of_its_own_at_the_finest_level(
    profile: ProfileData,
) -> None:
    host = profile.hosts[0]
    activity = profile.table(host, "device_activity")
    kernels = activity.filter(activity["kind"] == "kernel")
    assert kernels.height
    sources = about(profile).tracks["source"].to_list()
    for event, source, start, dur in kernels[
        ["event", "track", "start_ps", "dur_ps"]
    ].iter_rows():
        found = track_tile(
            profile,
            host,
            track=sources.index(source),
            level=0,
            index=start // TILE_BUCKETS,
        )
        assert isinstance(found, TrackSlices)
        mine = found.slices.filter(found.slices["item"] == event)
        assert mine.select("start_ps", "end_ps", "busy_ps", "count").rows() == [
            (start, start + dur, dur, 1)
        ]


@pytest.mark.profiles
def test_one_tile_holds_the_streams_of_a_run_as_they_are_known(
    shared_profile: Callable[[str], Path],
) -> None:
    """GPU 4 and 6: 665 kernels each, 14,825.385 and 14,865.363 µs; 94 and 113 copies;
    GPU 1: 19 copies, 33.792 µs.
    """
    profile = opened(shared_profile("gpu_tf/xprof_gpu_multi_worker"))
    shown = about(profile)
    found: dict[tuple[str, bool], list[int]] = {}
    for tile in tiles(profile, level=shown.coarsest_level + 1):
        name, section = shown.tracks.select("name", "section").row(tile.track)
        if name.startswith("Stream"):
            key = (shown.sections["name"][section], "Compute" in name)
            sums = found.setdefault(key, [0, 0])
            sums[0] += tile.slices["count"].sum()
            sums[1] += tile.slices["busy_ps"].sum()
    assert found["/device:GPU:4", True] == [665, 14_825_385_000]
    assert found["/device:GPU:6", True] == [665, 14_865_363_000]
    assert found["/device:GPU:4", False][0] == 94
    assert found["/device:GPU:6", False][0] == 113
    assert found["/device:GPU:1", False] == [19, 33_792_000]


@pytest.mark.parametrize("profile", WITH_KERNELS, indirect=True)
def test_arrows_lead_from_calls_to_activities_that_name_them(
    profile: ProfileData,
) -> None:
    host = profile.hosts[0]
    shown = host_timeline(profile, host)
    assert not isinstance(shown, Unavailable)
    flows = shown.timeline.flows
    work, call = flows.device_event[:1], flows.launch_event[:1]
    assert len(work)
    tracks = [int(shown.track_of_events(end.astype(int))[0]) for end in (work, call)]
    found = trace_details.details_of_span(
        profile, host, track=tracks[0], item=int(work[0])
    )
    assert not isinstance(found, Unavailable)
    assert found.launched_by is not None
    assert found.launched_by.track == tracks[1]
    assert found.launched_by.item == call[0]
