"""`trace_details`: what is known of one span, and what is said to be unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis.timeline import (
    details as trace_details,
)
from stepscope.analysis.timeline import (
    search as trace_search,
)
from stepscope.analysis.timeline.catalogue import TrackCatalogue, track_catalogue
from stepscope.analysis.timeline.details import SpanDetails
from stepscope.analysis.timeline.relatives import Launch
from stepscope.analysis.timeline.search import Direction
from stepscope.analysis.timeline.spans import Place
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")


def of(
    profile: ProfileData,
    name: str,
    *,
    from_us: int = 0,
    direction: Direction = Direction.NEXT,
) -> SpanDetails:
    """The details of the first recorded span of a full name from some time on."""
    place = trace_search.find_span(
        profile, "vm", f"/^{name}$/", from_ps=from_us * US, direction=direction
    )
    assert isinstance(place, Place)
    found = trace_details.details_of_span(
        profile, "vm", track=place.track, item=place.item
    )
    assert isinstance(found, SpanDetails)
    return found


def missing(found: SpanDetails) -> dict[str, str]:
    return {one.field: one.code for one in found.missing}


def test_a_kernel_leads_to_its_launch_call_and_back() -> None:
    profile = blueprint.profile(blueprint.a1())
    kernel = of(profile, "ampere_sgemm_32x32", from_us=2000)
    assert (kernel.start_ps, kernel.dur_ps) == (2420 * US, 100 * US)
    assert kernel.launched_by is not None
    assert kernel.launched_by.name == "cuLaunchKernel"
    assert kernel.launched_by.start_ps == 2220 * US
    # Six activities a step, and this is the second of the third step.
    assert kernel.launched_by.correlation == 14
    call = trace_details.details_of_span(
        profile, "vm", track=kernel.launched_by.track, item=kernel.launched_by.item
    )
    assert isinstance(call, SpanDetails)
    (back,) = call.launched or ()
    assert (back.track, back.item) == (kernel.track, kernel.item)
    assert call.launched_count == 1
    assert call.launched_by is None


def test_a_kernel_tells_its_op_its_step_and_its_launch_shape() -> None:
    kernel = of(blueprint.profile(blueprint.a1()), "ampere_sgemm_32x32", from_us=2000)
    assert kernel.section.startswith("/device:GPU:0")
    assert kernel.category == "device_compute_32"
    assert kernel.step == 102
    assert kernel.activity is not None
    assert kernel.activity.kind == "kernel"
    assert (kernel.activity.op, kernel.activity.op_type) == (
        "model/dense_1/MatMul",
        "MatMul",
    )
    assert kernel.activity.op_evidence == "annotation"
    assert kernel.activity.launch == Launch(
        grid=(10, 1, 1),
        block=(128, 1, 1),
        registers=32,
        static_shared_memory_bytes=0,
        dynamic_shared_memory_bytes=100,
        shared_memory_bytes=100,
        occupancy_percent=50,
    )
    assert kernel.same_name.count == 8
    assert kernel.same_name.total_ps == 800 * US
    assert missing(kernel) == {}


def test_what_a_kernel_does_not_carry_is_missing_and_no_zero() -> None:
    bare = of(
        blueprint.profile(
            blueprint.trace([("gpu:0/7(Compute)", "mystery", 10, 5)], devices={0: {}})
        ),
        "mystery",
    )
    assert bare.activity is not None
    assert bare.activity.launch is None
    assert bare.activity.op is None
    told = missing(bare)
    assert told["activity.launch"] == "NO_KERNEL_DETAILS"
    assert told["activity.op"] == "NOT_RECORDED"
    assert "step" in told


def test_a_copy_tells_its_size_and_rate() -> None:
    stream = "gpu:0/8(MemcpyH2D)"
    profile = blueprint.profile(
        blueprint.trace(
            [
                (stream, "MemcpyH2D", 0, 4, {"memcpy_details": "size:8000 dest:0"}),
                (stream, "MemcpyH2D ", 10, 4),
                (stream, " MemcpyH2D", 20, 0, {"memcpy_details": "size:8 dest:0"}),
            ]
        )
    )
    copy = of(profile, "MemcpyH2D")
    assert copy.activity is not None
    assert copy.activity.bytes == 8000
    assert copy.activity.bytes_per_s == 2e9
    assert copy.category == "input"
    unknown = of(profile, "MemcpyH2D ")
    assert unknown.activity is not None
    assert unknown.activity.bytes is None
    assert missing(unknown)["activity.bytes"] == "NOT_RECORDED"
    instant = of(profile, " MemcpyH2D")
    assert instant.activity is not None
    assert instant.activity.bytes_per_s is None
    assert missing(instant)["activity.bytes_per_s"] == "ZERO_DENOMINATOR"


def test_a_host_event_tells_its_values_its_nesting_and_its_rank() -> None:
    stats = {"level": 2, "share": 0.5, "text": "hello", "_pt": 7}
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("main", "train", 0, 1000, {"_r": 1, "step_num": 41}),
                ("main", "outer", 100, 300, stats),
                ("main", "work", 110, 50),
                ("main", "work", 200, 10),
                ("main", "work", 300, 10),
                ("main", "work", 2000, 5),
            ]
        )
    )
    outer = of(profile, "outer")
    assert outer.arguments == {"level": 2, "share": 0.5, "text": "hello"}
    assert outer.self_ps == 230 * US
    assert outer.step == 41
    work = of(profile, "work", from_us=150)
    assert work.start_ps == 200 * US
    assert work.parent is not None
    assert work.parent.item == outer.item
    assert outer.children is not None
    assert [each.start_ps // US for each in outer.children] == [110, 200, 300]
    assert work.item in [each.item for each in outer.children]
    assert (outer.children_count, work.children, work.children_count) == (3, (), 0)
    assert outer.parent is not None
    assert outer.parent.name == "train"
    before, after = work.same_name.previous, work.same_name.next
    assert before is not None
    assert after is not None
    assert (before.start_ps, after.start_ps) == (110 * US, 300 * US)
    assert of(profile, "work").same_name.previous is None
    assert of(profile, "work", from_us=1000).same_name.next is None
    assert work.row == outer.row + 1
    assert (work.same_name.count, work.same_name.percentile) == (4, 75)
    assert of(profile, "work", from_us=500).step is None
    assert outer.activity is None
    # A host without a device has no arrows, and says why.
    assert outer.launched is None
    assert missing(outer)["launched"] == "NO_DEVICE_PLANE"


def test_a_derived_span_has_no_time_of_its_own() -> None:
    profile = blueprint.profile(blueprint.a1())
    timeline = profile.derived("vm", trace_timeline)
    (track,) = [
        row
        for row, view in enumerate(timeline.tracks["view"])
        if view == "framework_ops" and timeline.tracks["source"][row] is None
    ][:1]
    item = timeline.tracks["begin"][track]
    found = trace_details.details_of_span(profile, "vm", track=track, item=item)
    assert isinstance(found, SpanDetails)
    assert found.self_ps is None
    assert missing(found) == {"self_ps": "NOT_RECORDED"}
    assert found.step == 100
    assert found.busy_ps == 100 * US
    # Its values are those of its first kernel.
    assert found.arguments_of is not None
    assert found.arguments_of.name == "volta_fp16_s884gemm"
    assert found.arguments is not None
    assert found.arguments["correlation_id"] == 1


def test_launch_statistics_are_of_all_calls_and_not_of_the_first() -> None:
    profile = blueprint.profile(blueprint.a1())
    timeline = profile.derived("vm", trace_timeline)
    track = timeline.tracks["view"].to_list().index("launch_stats")
    item = timeline.tracks["begin"][track]
    found = trace_details.details_of_span(profile, "vm", track=track, item=item)
    assert isinstance(found, SpanDetails)
    # Six calls of 5 µs each.
    assert found.arguments == {
        "num_launches": 6,
        "max_launch_time_us": 5.0,
        "avg_launch_time_us": 5.0,
    }
    assert found.arguments_of is None
    assert found.category == "kernel_launch"


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("stats", {"arguments"}),
        ("launches", {"launched", "launched_by", "launched_count"}),
        ("device_activity", {"launched", "launched_by", "launched_count"}),
    ],
)
def test_without_a_table_what_it_tells_is_missing(table: str, fields: set[str]) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, ABSENT)
    call = of(profile, "cuLaunchKernel")
    told = {one.field: one.code for one in call.missing}
    assert {field: told.get(field) for field in fields} == dict.fromkeys(
        fields, "CORRUPT"
    )
    assert all(getattr(call, field) is None for field in fields)


def test_an_item_of_another_track_is_refused() -> None:
    profile = blueprint.profile(blueprint.a1())
    kernel = of(profile, "ampere_sgemm_32x32")
    with pytest.raises(BadUsage, match="no item"):
        trace_details.details_of_span(profile, "vm", track=kernel.track, item=10**6)
    with pytest.raises(BadUsage, match="no track"):
        trace_details.details_of_span(profile, "vm", track=99, item=0)


def test_a_kernel_comes_from_the_line_that_the_line_of_source_names(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = stepscope.open(shared_profile("gpu/jax_healthy_without_graphs"))
    (host,) = profile.hosts
    about = track_catalogue(profile, host)
    assert isinstance(about, TrackCatalogue)
    views = about.tracks["view"].to_list()
    begin, end = about.tracks.select("begin", "end").row(views.index("source"))
    sources = set()
    for item in range(begin, end):
        found = trace_details.details_of_span(
            profile, host, track=views.index("source"), item=item
        )
        assert isinstance(found, SpanDetails)
        # The line sums up what runs below it; the details ask its first kernel.
        assert found.source == found.full_name
        sources.add(found.source)
    assert len(sources) > 1
    assert all(one.rpartition(":")[2].isdigit() for one in sources if one)
