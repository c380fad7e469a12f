"""Steps of real recordings, as recorded and with what announces them taken out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import Steps, steps
from stepscope.formats.opening import read
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

Shared = "Callable[[str], Path]"

#: Tables whose column `event` is a row of events.
_POINT_AT_EVENTS = ("stats", "device_activity", "launches", "allocations", "iterators")


#: Values and step groups that announce steps.
_STEP_KEYS = ("step_num", "_r", "group_id", "step_name")


def trace_of(folder: Path, file: str = "") -> TraceData:
    """The first recording in a folder whose file name contains a text."""
    return read(min(path for path in folder.rglob("*.xplane.pb*") if file in path.stem))


def steps_of(trace: TraceData) -> Steps | Unavailable:
    found: Steps | Unavailable = blueprint.profile(trace).derived(trace.host, steps)
    return found


def without_markers(trace: TraceData) -> TraceData:
    """The recording without marker events, step numbers, groups and step lines."""
    events, stats, tracks = (
        trace.table(name) for name in ("events", "stats", "tracks")
    )
    names = trace.table("event_types")["name"]
    keys = {handle for handle, text in enumerate(trace.strings) if text in _STEP_KEYS}
    number = [h for h, text in enumerate(trace.strings) if text == "step_num"]
    marked = stats.filter(pl.col("key").is_in(number))["event"].unique().to_list()
    ranges = names.str.contains(r"^(?:ProfilerStep#|step \d+$)").to_numpy()
    steps_lines = tracks["derived"].cast(pl.String).eq_missing("steps").to_numpy()
    gone = np.zeros(len(events), bool)
    gone[marked] = True
    gone |= ranges[events["type"].to_numpy()]
    gone |= steps_lines[events["track"].to_numpy()]
    kept = ~gone
    row = np.where(kept, np.cumsum(kept) - 1, -1)
    renumbered = pl.Series(row, dtype=pl.Int32)
    tables = {"events": events.filter(pl.Series(kept))}
    before = np.concatenate([[0], np.cumsum(kept)])
    tables["tracks"] = tracks.with_columns(
        pl.Series(edge, before[tracks[edge].to_numpy()], dtype=pl.Int64)
        for edge in ("event_begin", "event_end")
    )
    for name in _POINT_AT_EVENTS:
        table = trace.table(name)
        if isinstance(table, pl.DataFrame):
            moved = renumbered.gather(table["event"]).alias("event")
            tables[name] = table.with_columns(moved).filter(pl.col("event") >= 0)
    tables["stats"] = tables["stats"].filter(~pl.col("key").is_in(keys))
    if "device_activity" in tables:
        tables["device_activity"] = tables["device_activity"].with_columns(
            group=pl.lit(None, pl.Int64)
        )
    return blueprint.substitute(trace, **tables)


#: (recording, file, (source, confidence), step numbers in order) as the manifest says.
RECORDED = [
    ("tf_cpu/keras_fit", "", ("marker", 0.95), range(4, 14)),
    ("tf_cpu/healthy", "", ("marker", 1.0), range(30)),
    ("tf_cpu/input_bound", "", ("marker", 1.0), range(20)),
    ("tf_cpu/sequential_map", "", ("marker", 1.0), range(20)),
    ("tf_cpu/xla", "", ("marker", 1.0), range(15)),
    ("tf_cpu/mirrored", "", ("marker", 1.0), range(15)),
    ("tf_cpu/two_workers", "6009", ("marker", 1.0), range(49, 242)),
    ("tf_cpu/two_workers", "6010", ("marker", 1.0), range(226, 417)),
    ("tf_cpu/tf215_python_tracer", "", ("marker", 1.0), None),
    ("tf_cpu/eager_1m", "", ("marker", 1.0), range(700)),
    ("jax_cpu/steps", "", ("marker", 1.0), range(40)),
    ("jax_cpu/annotations", "", ("marker", 1.0), None),
    ("jax_cpu/python_tracer", "", ("marker", 1.0), None),
    ("gpu_tf/t4_healthy", "", ("device_line", 0.95), range(1)),
    ("gpu_tf/t4_starved", "", ("device_line", 0.95), range(1)),
    ("gpu_tf/v100_large", "", ("device_line", 0.95), range(1)),
    ("gpu_tf/turing_launch_bound", "", ("device_line", 0.95), range(1)),
    ("gpu_tf/xprof_gpu_multi_worker", "179", ("device_line", 0.95), range(1)),
    ("gpu_tf/xprof_gpu_multi_worker", "180", ("device_line", 0.95), range(1)),
]
#: How many steps the manifest names for those whose numbers it does not.
COUNTED = {
    "tf_cpu/tf215_python_tracer": 10,
    "jax_cpu/annotations": 15,
    "jax_cpu/python_tracer": 15,
}


@pytest.mark.parametrize(
    ("name", "file", "expected", "numbers"),
    RECORDED,
    ids=[f"{name}{file}" for name, file, *_ in RECORDED],
)
def test_announced_steps_are_all_found(
    shared_profile: Shared,
    name: str,
    file: str,
    expected: tuple[str, float],
    numbers: range | None,
) -> None:
    found = steps_of(trace_of(shared_profile(name), file))
    assert isinstance(found, Steps), found
    assert (found.source, found.confidence) == expected
    if numbers is not None:
        assert found.rows["step"].to_list() == list(numbers)
    else:
        assert len(found.rows) == COUNTED[name]


def test_forty_unmarked_iterations_of_a_compiled_program(
    shared_profile: Shared,
) -> None:
    found = steps_of(trace_of(shared_profile("jax_cpu/nosteps")))
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("period", 40)
    assert found.confidence == pytest.approx(0.90)


def test_two_hundred_unmarked_eager_iterations(shared_profile: Shared) -> None:
    found = steps_of(trace_of(shared_profile("tf_cpu/no_step_markers")))
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("period", 200)
    assert found.confidence == pytest.approx(0.90)
    # All ops of the program repeat, those of the last iteration too.
    assert found.candidates[0].what.startswith("equal passes of the ")
    assert found.candidates[0].coverage == 1.0


def test_requests_on_three_threads_are_steps_that_begin_with_the_request(
    shared_profile: Shared,
) -> None:
    trace = trace_of(shared_profile("tf_cpu/inference"))
    found = steps_of(trace)
    assert isinstance(found, Steps), found
    per_thread = found.rows["track"].value_counts()["count"].to_list()
    assert per_thread == [40, 40, 40]
    names = trace.table("event_types")["name"]
    events = trace.table("events")
    requests = events.filter(names.gather(events["type"]) == "serve_request")
    assert found.rows["start_ps"].to_list() == requests["start_ps"].sort().to_list()


@pytest.mark.profiles
def test_five_calls_of_a_compiled_program_on_eight_devices(
    shared_profile: Shared,
) -> None:
    found = steps_of(trace_of(shared_profile("gpu_jax_amd/jax08_conv")))
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("launch", 5)


@pytest.mark.profiles
def test_hundred_runs_of_a_program_on_a_device_line(shared_profile: Shared) -> None:
    found = steps_of(trace_of(shared_profile("tpu/tpu_inference_2")))
    assert isinstance(found, Steps), found
    assert (found.source, len(found.rows)) == ("launch", 100)


@pytest.mark.profiles
def test_different_kernels_one_after_another_are_no_steps(
    shared_profile: Shared,
) -> None:
    found = steps_of(trace_of(shared_profile("gpu_jax_amd/jax08_gemm")))
    assert isinstance(found, Unavailable)


@pytest.mark.profiles
@pytest.mark.parametrize("evidence", ["all", "without ops", "without launch shapes"])
@pytest.mark.parametrize(
    "name",
    [
        "t4_healthy",
        "t4_starved",
        "v100_large",
        "turing_launch_bound",
        "xprof_gpu_multi_worker",
    ],
)
def test_layers_of_a_single_step_are_not_taken_for_steps(
    shared_profile: Shared, name: str, evidence: str
) -> None:
    trace = without_markers(trace_of(shared_profile(f"gpu_tf/{name}")))
    gone = {
        "all": [],
        "without ops": ["op", "hlo_op"],
        "without launch shapes": ["op", "hlo_op", "geometry"],
    }[evidence]
    activity = trace.table("device_activity")
    activity = activity.with_columns(
        pl.lit(None, activity.schema[column]).alias(column) for column in gone
    )
    found = steps_of(blueprint.substitute(trace, device_activity=activity))
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"


MARKED = [
    (name, file)
    for name, file, (source, _), _ in RECORDED
    if source == "marker" and name != "jax_cpu/python_tracer"
]


@pytest.mark.parametrize(
    ("name", "file"), MARKED, ids=["".join(each) for each in MARKED]
)
@pytest.mark.sweep(every=3)
def test_without_markers_the_same_steps_are_inferred(
    shared_profile: Shared, name: str, file: str
) -> None:
    """Each marker begins within 2 % of a step of where a step was inferred to begin,
    or in the pause before it, in which nothing is seen that could decide."""
    trace = trace_of(shared_profile(name), file)
    marked = steps_of(trace)
    found = steps_of(without_markers(trace))
    assert isinstance(marked, Steps)
    assert isinstance(found, Steps), found
    assert found.inferred
    assert found.confidence >= 0.80
    assert abs(len(found.rows) - len(marked.rows)) <= 1
    start = marked.rows["start_ps"].to_numpy()
    tolerance = 0.02 * np.median(np.diff(start))
    inferred = found.rows["start_ps"].to_numpy()
    earliest = inferred - found.rows["slack_ps"].to_numpy() - tolerance
    at = np.searchsorted(inferred + tolerance, start)
    matched = at < len(inferred)
    matched[matched] = earliest[at[matched]] <= start[matched]
    # A capture may cut the step at either end.
    assert matched[1:-1].all(), start[~matched]
    assert matched.sum() >= len(start) - 1


def test_where_a_cycle_has_two_equal_pauses_confidence_is_not_high(
    shared_profile: Shared,
) -> None:
    """A sort runs between the markers: the cycle could begin before or after it."""
    found = steps_of(without_markers(trace_of(shared_profile("jax_cpu/python_tracer"))))
    assert isinstance(found, Steps), found
    assert len(found.rows) == 15
    assert 0.60 <= found.confidence < 0.80


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("name", "golden_ps", "stopping_ps"),
    [
        ("t4_healthy", 164_082_911_000, 7_680_000),
        ("t4_starved", 3_758_409_873_000, 1_592_255_000),
        ("v100_large", 406_027_600_000, 1_726_335_000),
        ("turing_launch_bound", 11_964_460_000, 917_124_000),
    ],
)
def test_window_and_device_step_time_are_of_the_stored_step_without_the_stop(
    shared_profile: Shared, name: str, golden_ps: int, stopping_ps: int
) -> None:
    """Keras' `LogicalAnd` (whether to stop) is in the stored step, after the last copy.

    The recording ends there: it is no work of the step.
    """
    trace = trace_of(shared_profile(f"gpu_tf/{name}"))
    (stored,) = steps_of(trace).rows.iter_rows(named=True)
    assert stored["end_ps"] - stored["start_ps"] == golden_ps
    step_windows = blueprint.profile(trace).derived(trace.host, windows)
    row = step_windows.rows.row(0, named=True)
    assert row["end_ps"] - row["start_ps"] == golden_ps - stopping_ps
    assert row["device_step_time_ps"] == golden_ps - stopping_ps


@pytest.mark.profiles
def test_step_time_of_two_devices_is_the_longer_stored_span(
    shared_profile: Shared,
) -> None:
    trace = trace_of(shared_profile("gpu_tf/xprof_gpu_multi_worker"))
    step_windows = blueprint.profile(trace).derived(trace.host, windows)
    assert step_windows.rows["device_step_time_ps"].to_list() == [21_310_352_000]
    stored = step_windows.device_spans.drop_nulls("stored_start_ps")
    assert stored["device"].to_list() == [4, 6]
    assert stored["device_step_time_ps"].to_list() == [19_865_491_000, 21_310_352_000]


def test_steps_that_only_dispatched_last_as_long_as_their_work(
    shared_profile: Shared,
) -> None:
    """The program's own clock: all calls together, and until all results were there."""
    folder = shared_profile("jax_ahead")
    truth = json.loads((folder / "truth.json").read_text())
    trace = trace_of(folder)
    found = blueprint.profile(trace).derived(trace.host, windows)
    assert found.anchor == "executor"
    assert len(found.rows) == truth["steps"]
    covered_ms = (found.rows["end_ps"][-1] - found.rows["start_ps"][0]) / 1e9
    calls_ms = found.rows["host_period_ps"].sum() / 1e9
    assert covered_ms == pytest.approx(truth["begin_to_done_ms"], rel=0.05)
    assert calls_ms == pytest.approx(sum(truth["begin_to_begin_ms"]), rel=0.05)


@pytest.mark.parametrize("name", ["tf_cpu/healthy", "jax_cpu/steps", "tf_cpu/xla"])
def test_windows_cover_from_the_first_marker_to_the_last_without_a_hole(
    shared_profile: Shared, name: str
) -> None:
    trace = trace_of(shared_profile(name))
    profile = blueprint.profile(trace)
    rows = profile.derived(trace.host, windows).rows
    found = profile.derived(trace.host, steps).rows
    assert (rows["end_ps"][:-1] == rows["start_ps"][1:]).all()
    assert rows["start_ps"].to_list() == found["start_ps"].to_list()
    assert rows["end_ps"][-1] == found["end_ps"][-1]
