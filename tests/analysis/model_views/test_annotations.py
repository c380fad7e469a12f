"""Time per annotation: the tree of named ranges, and one of them closely."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kept_promises import check_frame
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis import model_views
from stepscope.analysis.model_views import (
    AnnotationDetailResult,
    ModelViewsResult,
    Options,
)
from stepscope.analysis.model_views.annotation_rows import (
    ANNOTATION_ROWS,
    top_annotations,
)
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

DATA = Path(__file__).resolve().parents[2] / "data"
#: Two steps of 100 µs: loading (20, 10 of it decoding), then computing, which launches
#: two overlapping kernels on two streams and a third inside a range of its own.
LINES: list[blueprint.Line] = [
    line
    for at in range(2)
    for base in [100 * at]
    for line in [
        ("main", "train", base, 90, {"_r": 1, "step_num": 7 + at}),
        ("main", "load", base + 5, 20),
        ("main", "decode", base + 10, 10),
        ("main", "compute", base + 30, 40),
        ("main", "net/MatMul:MatMul", base + 31, 6),
        ("main", "cuLaunchKernel", base + 32, 2, {"correlation_id": 10 * at + 1}),
        ("main", "cuLaunchKernel", base + 35, 2, {"correlation_id": 10 * at + 2}),
        ("main", "head", base + 50, 10),
        ("main", "cuLaunchKernel", base + 51, 2, {"correlation_id": 10 * at + 3}),
        # Launched between the steps' ranges.
        ("main", "cuLaunchKernel", base + 92, 2, {"correlation_id": 10 * at + 4}),
    ]
]
DEVICE: list[blueprint.Line] = [
    line
    for at in range(2)
    for base in [100 * at]
    for line in [
        ("gpu:0/7", "mm", base + 40, 10, {"correlation_id": 10 * at + 1}),
        ("gpu:0/8", "copy", base + 45, 10, {"correlation_id": 10 * at + 2}),
        ("gpu:0/7", "softmax", base + 60, 4, {"correlation_id": 10 * at + 3}),
        ("gpu:0/7", "log", base + 95, 3, {"correlation_id": 10 * at + 4}),
    ]
]
HOST_ONLY = [line for line in LINES if line[1] != "cuLaunchKernel"]


def trained(host: str = "vm") -> ProfileData:
    return blueprint.profile(blueprint.trace([*LINES, *DEVICE], host=host))


def analysed(profile: ProfileData, **options: Any) -> ModelViewsResult:
    result = model_views.analyse(profile, Options(**options))
    assert isinstance(result, ModelViewsResult), result
    return result


def closely(profile: ProfileData, name: str, **options: Any) -> AnnotationDetailResult:
    result = analysed(profile, op=name, **options)
    assert isinstance(result, AnnotationDetailResult)
    return result


def reasons(result: ModelViewsResult) -> dict[str, str]:
    return {one.field: one.code for one in result.missing}


def test_ranges_nest_and_hold_what_was_launched_in_them() -> None:
    rows = analysed(trained()).annotation
    assert check_frame(ANNOTATION_ROWS, rows) == []
    columns = ("name", "parent", "depth", "occurrences", "total_us", "self_us")
    assert rows.select(columns).rows() == [
        ("train", None, 1, 2, 180.0, 60.0),
        ("compute", 0, 2, 2, 80.0, 60.0),
        ("head", 1, 3, 2, 20.0, 20.0),
        ("load", 0, 2, 2, 40.0, 20.0),
        ("decode", 3, 3, 2, 20.0, 20.0),
    ]
    device = ("name", "total_device_us", "device_us", "device_busy_us", "launches")
    assert rows.select(device).rows() == [
        ("train", 48.0, 0.0, 38.0, 6),
        # 10 and 10 overlap by 5: 15 busy, and 4 of the head.
        ("compute", 48.0, 40.0, 38.0, 6),
        ("head", 8.0, 8.0, 8.0, 2),
        ("load", 0.0, 0.0, 0.0, 0),
        ("decode", 0.0, 0.0, 0.0, 0),
    ]
    per_step = dict(rows.select("name", "step_us").iter_rows())
    assert per_step == {
        "train": 90.0,
        "compute": 40.0,
        "head": 10.0,
        "load": 20.0,
        "decode": 10.0,
    }
    assert rows["step_device_us"].to_list()[:3] == [24.0, 24.0, 4.0]
    assert rows["percent"].to_list()[0] == 100.0


def test_work_launched_in_no_range_is_told() -> None:
    assert analysed(trained()).unannotated_device_us == 6.0


def test_steps_add_up_to_the_whole() -> None:
    whole = analysed(trained()).annotation
    parts = [analysed(trained(), step=step).annotation for step in (7, 8)]
    assert [len(part) for part in parts] == [5, 5]
    for column in ("occurrences", "total_us", "device_us", "device_busy_us"):
        both = parts[0][column] + parts[1][column]
        assert both.to_list() == whole[column].to_list()


def test_hosts_and_threads_add_up() -> None:
    two = blueprint.profile(
        blueprint.trace([*LINES, *DEVICE], host="a"),
        blueprint.trace([*LINES, *DEVICE], host="b"),
    )
    once, twice = analysed(trained()).annotation, analysed(two).annotation
    for column in ("occurrences", "self_us", "total_device_us", "launches"):
        assert twice[column].to_list() == [2 * value for value in once[column]]
    assert twice["step_us"].to_list() == once["step_us"].to_list()


@pytest.mark.slow(seconds=0.3)
def test_options_choose_among_ranges() -> None:
    def names(**options: Any) -> list[str]:
        return analysed(trained(), **options).annotation["name"].to_list()

    assert names(max_depth=1) == ["train"]
    assert names(hide_name_regexes=("compute", "load")) == ["train", "decode", "head"]
    assert names(order_by="name") == ["train", "compute", "head", "load", "decode"]
    assert names(min_micros=30.0) == ["train", "compute", "load"]
    assert names(min_accelerator_micros=1.0) == ["train", "compute", "head"]
    few = analysed(trained(), select=("occurrence",)).annotation
    assert few.columns == ["id", "parent", "depth", "name", "occurrences", "launches"]


def test_without_a_device_its_columns_are_null_and_the_reason_is_given() -> None:
    result = analysed(blueprint.profile(blueprint.trace(HOST_ONLY)))
    rows = result.annotation
    assert rows["self_us"].sum() == 180.0
    for column in ("total_device_us", "device_us", "device_busy_us", "launches"):
        assert rows[column].null_count() == len(rows)
        assert reasons(result)[f"annotation.{column}"] == "NO_DEVICE_PLANE"
    assert reasons(result)["unannotated_device_us"] == "NO_DEVICE_PLANE"


def test_without_launch_calls_device_time_is_null_and_never_zero() -> None:
    trace = blueprint.trace([*HOST_ONLY, *DEVICE])
    result = analysed(blueprint.profile(trace))
    for column in ("device_us", "step_device_us"):
        assert result.annotation[column].null_count() == len(result.annotation)
        assert f"annotation.{column}" in reasons(result)
    assert result.unannotated_device_us is None


def test_without_steps_there_is_no_time_per_step() -> None:
    ids = {"correlation_id": 1}
    lines = [
        ("main", "load", 0, 5),
        ("main", "load", 10, 5),
        ("main", "cuLaunchKernel", 11, 1, ids),
        ("gpu:0/7", "mm", 20, 5, ids),
    ]
    result = analysed(blueprint.profile(blueprint.trace(lines)))
    assert result.annotation["device_us"].to_list() == [5.0]
    for column in ("step_us", "step_device_us"):
        assert result.annotation[column].to_list() == [None]
        assert f"annotation.{column}" in reasons(result)


def test_a_program_of_nothing_but_ranges_is_shown_by_them() -> None:
    trace = blueprint.trace([("main", "load", 0, 5), ("main", "solve", 10, 15)])
    result = analysed(blueprint.profile(trace))
    assert result.view == "annotation"
    assert result.annotation["name"].to_list() == ["solve", "load"]
    assert reasons(result)["op"] == "HOST_LEVEL"


def test_a_program_without_ranges_says_how_to_name_some() -> None:
    profile = blueprint.profile(blueprint.trace([("main", "a/MatMul:MatMul", 0, 5)]))
    result = analysed(profile)
    assert len(result.annotation) == 0
    assert reasons(result)["annotation"] == "NOT_RECORDED"
    assert isinstance(model_views.analyse(profile, Options(op="load")), Unavailable)


ranges = st.lists(
    st.tuples(
        st.sampled_from(["main", "worker"]),
        st.sampled_from(["load", "compute", "save"]),
        st.integers(0, 60),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.slow(seconds=0.6)
@given(ranges)
def test_the_roots_hold_the_time_that_threads_spent_in_ranges(
    lines: list[tuple[str, str, int, int]],
) -> None:
    trace = blueprint.trace(sorted(lines, key=lambda one: one[0]))
    rows = analysed(blueprint.profile(trace)).annotation
    instants = {
        (thread, at)
        for thread, _, start, dur in lines
        for at in range(start, start + dur)
    }
    assert rows["self_us"].sum() == pytest.approx(len(instants))
    roots = rows.filter(pl.col("parent").is_null())
    assert roots["total_us"].sum() == pytest.approx(len(instants))
    assert rows["occurrences"].sum() == len(lines)


@pytest.mark.parametrize(
    "run", ["torch_healthy", "jax_healthy", "jax_input_bound", "kernels", "torch_graph"]
)
def test_all_work_of_real_devices_is_in_one_range_or_in_none(run: str) -> None:
    profile = stepscope.open(str(DATA / "gpu" / run))
    result = analysed(profile)
    activity = profile.table(profile.hosts[0], "device_activity")
    assert not isinstance(activity, Unavailable)
    rows, outside = result.annotation, result.unannotated_device_us
    assert outside is not None
    whole = int(activity["dur_ps"].sum()) / 1e6
    assert rows["device_us"].sum() + outside == pytest.approx(whole)
    assert (rows["device_busy_us"] <= rows["total_device_us"] + 1e-6).all()
    roots = rows.filter(pl.col("parent").is_null())
    assert roots["total_us"].sum() == pytest.approx(rows["self_us"].sum())


# ------------------------------------------------------------------- one closely


def test_one_annotation_closely() -> None:
    detail = closely(trained(), "compute").detail
    assert (detail.call_count, detail.host_us, detail.launches) == (2, 80.0, 6)
    assert detail.device_us == 48.0
    calls = detail.calls.select("rank", "step", "host_us", "host_self_us")
    assert calls.rows() == [(1, 7, 40.0, 30.0), (2, 8, 40.0, 30.0)]
    assert detail.calls["start_ms"].to_list() == pytest.approx([0.03, 0.13])
    assert detail.by_step is not None
    assert detail.by_step.rows() == [
        ("vm", 7, 1, 40.0, 24.0, 3),
        ("vm", 8, 1, 40.0, 24.0, 3),
    ]
    assert detail.ops is not None
    assert detail.ops.rows() == [("net/MatMul", "MatMul", 2, 12.0)]
    assert detail.kernels is not None
    assert detail.kernels.select("name", "occurrences", "total_us").rows() == [
        ("copy", 2, 20.0),
        ("mm", 2, 20.0),
        ("softmax", 2, 8.0),
    ]


def test_its_tree_begins_with_it() -> None:
    result = closely(trained(), "compute")
    assert (result.view, result.annotation["name"].to_list()) == (
        "annotation",
        ["compute", "head"],
    )
    # The other views stay whole.
    assert result.scope["name"].to_list() == analysed(trained()).scope["name"].to_list()


def test_one_step_of_it() -> None:
    detail = closely(trained(), "compute", step=8).detail
    assert (detail.call_count, detail.host_us, detail.device_us) == (1, 40.0, 24.0)


def test_a_range_inside_one_of_its_name_counts_its_time_once() -> None:
    lines = [("main", "visit", 0, 100), ("main", "visit", 20, 30)]
    detail = closely(blueprint.profile(blueprint.trace(lines)), "visit").detail
    assert (detail.call_count, detail.host_us) == (2, 100.0)
    assert detail.calls["host_us"].to_list() == [100.0, 30.0]


def test_the_calls_listed_can_be_limited_and_the_longest_comes_first() -> None:
    lines = [("main", "load", 100 * at, 10 + at) for at in range(5)]
    profile = blueprint.profile(blueprint.trace(lines))
    detail = closely(profile, "load", most_calls=2).detail
    assert (detail.call_count, detail.calls["host_us"].to_list()) == (5, [14.0, 13.0])


def test_what_is_not_known_of_it_is_null_with_a_reason() -> None:
    result = closely(blueprint.profile(blueprint.trace(HOST_ONLY)), "load")
    detail = result.detail
    assert (detail.device_us, detail.launches, detail.kernels) == (None, None, None)
    for field in ("device_us", "launches", "kernels"):
        assert reasons(result)[f"detail.{field}"] == "NO_DEVICE_PLANE"


def test_a_name_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadUsage, match="no annotation 'comput'; the nearest: compute"):
        analysed(trained(), op="comput")


# ------------------------------------------------------------------ in the report


def test_the_costliest_ranges_of_the_program_without_marks_of_steps() -> None:
    found = top_annotations(trained(), 2)
    assert [(one.name, one.total_us, one.step_us) for one in found] == [
        ("compute", 80.0, 40.0),
        ("load", 40.0, 20.0),
    ]
    assert [one.total_device_us for one in found] == [48.0, 0.0]
    marks = blueprint.profile(
        blueprint.trace([line for line in LINES if line[1] == "train"])
    )
    assert top_annotations(marks, 3) == ()


def test_ranges_of_equal_cost_are_in_the_order_of_their_names() -> None:
    lines = [
        ("main", name, 10 * at, 5) for at, name in enumerate(("save", "load", "eval"))
    ]
    found = top_annotations(blueprint.profile(blueprint.trace(lines)), 2)
    assert [one.name for one in found] == ["eval", "load"]
