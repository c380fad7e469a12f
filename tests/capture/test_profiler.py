"""The older API's verbs over a recording of a plain Python program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.analysis.model_views import ModelViewsResult
from stepscope.errors import AlreadyRecording, BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

SLEEP_S = 0.004


def recorded(profiler: ss.Profiler, steps: range) -> None:
    for number in steps:
        with profiler.add_step(number), ss.Trace("model/dense/MatMul:MatMul"):
            time.sleep(SLEEP_S)


def test_added_steps_are_the_steps_of_the_recording(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(7, 10))
    run = profiler.save()
    assert run.path is not None
    steps = ss.open(run.path).tool("overview_page").steps
    assert [step.step for step in steps] == [7, 8, 9]


def test_saving_again_without_new_steps_gives_the_same_run(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    assert profiler.save() == profiler.save()
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_steps_added_after_a_view_are_a_recording_of_their_own(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(2))
    first = profiler.save()
    recorded(profiler, range(2, 5))
    second = profiler.save()
    assert first.path != second.path
    assert second.path is not None
    steps = ss.open(second.path).tool("overview_page").steps
    assert [step.step for step in steps] == [2, 3, 4]


@pytest.mark.parametrize(
    ("verb", "view"),
    [
        ("profile_name_scope", "scope"),
        ("profile_graph", "graph"),
        ("profile_operations", "op"),
        ("profile_python", "code"),
    ],
)
def test_each_verb_gives_its_view_as_text_and_as_a_result(
    tmp_path: Path, verb: str, view: str
) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(3))
    found = getattr(profiler, verb)(order_by="micros", min_micros=1.0)
    assert isinstance(found.result, ModelViewsResult)
    assert found.result.view == view
    assert found.result.settings.min_micros == 1.0
    assert str(found) == found.text
    assert f"{view} view" in found.text


def test_an_op_costs_what_it_took(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(3))
    rows = profiler.profile_operations().result.op
    (row,) = rows.filter(rows["name"] == "MatMul").iter_rows(named=True)
    assert row["occurrences"] == 3
    assert row["total_us"] >= 3 * SLEEP_S * 1e6
    whole = profiler.profile_operations(step=1).result.op
    (one,) = whole.filter(whole["name"] == "MatMul").iter_rows(named=True)
    assert one["occurrences"] == 1


def test_a_program_without_ops_gets_a_reason_as_text(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    with profiler.add_step(0):
        pass
    found = profiler.profile_operations()
    assert isinstance(found.result, Unavailable)
    assert found.result.reason.split()[0] in found.text


def test_looking_before_any_step_names_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="add a step first"):
        ss.Profiler(tmp_path).profile_graph()
    with pytest.raises(BadUsage, match="add a step first"):
        ss.Profiler(tmp_path).save()


def test_an_option_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    with pytest.raises(BadUsage, match="min_microseconds"):
        profiler.profile_graph(min_microseconds=1)


def test_who_records_already_is_named_and_goes_on(tmp_path: Path) -> None:
    with ss.Profile(tmp_path):
        with (
            pytest.raises(AlreadyRecording, match="already recording"),
            ss.Profiler(tmp_path).add_step(0),
        ):
            pass
        with pytest.raises(AlreadyRecording):
            ss.start(tmp_path)


def test_a_step_that_raises_ends_where_it_raised(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    with pytest.raises(ValueError, match="lost"), profiler.add_step(0):
        raise ValueError("lost")
    recorded(profiler, range(1, 2))
    path = profiler.save().path
    assert path is not None
    assert [s.step for s in ss.open(path).tool("overview_page").steps] == [0, 1]
