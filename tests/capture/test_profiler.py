"""The older API's verbs over a recording of a plain Python program."""

from __future__ import annotations

import gzip
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import stepscope as ss
from stepscope.analysis.model_views import ModelViewsResult
from stepscope.errors import AlreadyRecording, BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow(seconds=0.1)

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
@pytest.mark.sweep(every=4)
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


def worked(step: int) -> None:
    """What a program does in a step before it says so."""
    with ss.Trace(f"model/dense_{step}/MatMul:MatMul"):
        time.sleep(SLEEP_S)


def scopes(view: ss.Profiler, **options: Any) -> list[str]:
    found = view.profile_name_scope(**options).result
    assert isinstance(found, ModelViewsResult)
    return found.scope.filter(found.scope["depth"] == 2)["name"].to_list()


def test_a_step_may_be_added_when_it_is_over(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    for number in range(7, 10):
        worked(number)
        profiler.add_step(number)
    overview = ss.open(profiler.save().path or "").tool("overview_page")
    assert [step.name for step in overview.steps] == ["train 7", "train 8", "train 9"]
    assert all(step.duration_ms >= SLEEP_S * 1e3 for step in overview.steps)
    ends = [step.start_ms + step.duration_ms for step in overview.steps]
    starts = [step.start_ms for step in overview.steps]
    # Each begins where the one before ended.
    assert starts[1:] == pytest.approx(ends[:-1], abs=1e-5)
    assert scopes(profiler, step=8) == ["model/dense_8"]


def test_a_name_and_a_number_choose_the_last_steps_of_that_name(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    for number in range(4):
        worked(number)
        profiler.add_step(number)
    with ss.StepTrace(4, "test"):
        worked(4)
    profiler.save()
    assert scopes(profiler, scope="train", steps=2, order_by="name") == [
        *("model/dense_2", "model/dense_3")
    ]
    assert scopes(profiler, scope="test") == ["model/dense_4"]
    few = profiler.profile_name_scope("train", 10)
    assert few.notes == ("4 of the 10 steps asked for were recorded.",)
    assert few.notes[0] in " ".join(few.text.split())


def test_a_name_of_a_scope_chooses_what_is_in_it(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    worked(0)
    worked(1)
    found = profiler.profile_name_scope("dense_1").result
    assert isinstance(found, ModelViewsResult)
    assert found.scope["name"].to_list() == ["model/dense_1", "model/dense_1/MatMul"]
    with pytest.raises(BadUsage, match="exclude each other"):
        profiler.profile_name_scope("dense_1", start_name_regexes=["model"])


def test_a_name_that_was_not_recorded_is_a_reason_that_tells_names(
    tmp_path: Path,
) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(2))
    found = profiler.profile_name_scope("my_training_loop")
    assert isinstance(found.result, Unavailable)
    assert "'my_training_loop'" in found.result.reason
    assert "(train, model)" in found.result.remedy
    assert "my_training_loop" in found.text


def test_the_program_that_never_adds_a_step_is_recorded_from_the_start(
    tmp_path: Path,
) -> None:
    profiler = ss.Profiler(tmp_path)
    worked(0)
    rows = profiler.profile_operations().result.op
    assert rows.select("name", "occurrences").rows() == [("MatMul", 1)]


def test_the_step_that_was_seen_may_be_added_again_after_its_view(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profiler = ss.Profiler(tmp_path)
    worked(3)
    profiler.add_step(3)
    profiler.profile_operations()
    profiler.add_step(3)
    profiler.save()
    assert caplog.messages == []
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


def test_a_step_that_nobody_recorded_is_told_and_the_next_ones_are_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profiler = ss.Profiler(tmp_path)
    worked(0)
    profiler.add_step(0)
    first = profiler.save()
    profiler.add_step(1)
    # Of the recording that it began nothing is known yet.
    assert profiler.save() == first
    assert len(caplog.messages) == 1
    assert "step 1 was not recorded" in caplog.messages[0]
    profiler.add_step(2)
    worked(3)
    profiler.add_step(3)
    assert scopes(profiler) == ["model/dense_3"]
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2


def test_what_tensorflow_hands_over_besides_is_not_read_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profiler = ss.Profiler(tmp_path)
    worked(0)
    profiler.add_step(0, object())
    view = profiler.profile_graph(object())
    assert isinstance(view.result, ModelViewsResult)
    assert [one.split()[0] for one in caplog.messages] == ["run_meta", "graph"]


def test_a_copy_is_saved_into_a_file_or_a_log_directory(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path / "logs")
    recorded(profiler, range(2))
    profiler.profile_name = "profile_001"
    file = profiler.save(save_path=tmp_path / "new" / "profile.pb").path
    assert file == tmp_path / "new" / "profile.pb"
    assert len(ss.open(file).tool("overview_page").steps) == 2
    copy = profiler.save(tmp_path / "other").path
    assert copy is not None
    assert copy.parent == tmp_path / "other" / "plugins" / "profile" / "profile_001"
    assert ss.open(tmp_path / "other").run == "profile_001"
    assert "op view · profile_001" in profiler.profile_operations().text


def test_a_copy_that_cannot_be_written_is_one_line_that_says_where_it_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    profiler = ss.Profiler(tmp_path)
    with pytest.raises(BadUsage, match=r"profile\.pb: cannot be written") as caught:
        profiler.save(tmp_path / "taken" / "profile.pb")
    assert str(profiler.save().path) in str(caught.value)


def test_options_may_come_as_a_dictionary_and_names_win(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(2))
    options = {"max_depth": 1, "order_by": "name"}
    for verb in (
        *(profiler.profile_name_scope, profiler.profile_graph),
        *(profiler.profile_operations, profiler.profile_python, profiler.profile),
    ):
        found = verb(options, order_by="micros").result
        assert isinstance(found, ModelViewsResult)
        assert (found.settings.max_depth, found.settings.order_by) == (1, "micros")


def test_the_view_of_profile_is_named(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    assert profiler.profile(cmd="op").text.startswith("op view")
    with pytest.raises(BadUsage, match="view"):
        profiler.profile(cmd="tree")  # type: ignore[arg-type]


def test_a_view_prints_itself_where_its_options_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    profiler.profile_operations()
    assert capsys.readouterr().out == ""
    view = profiler.profile_operations(ss.ProfileOptionBuilder.time_and_memory())
    assert capsys.readouterr().out == view.text


def test_a_view_is_written_where_its_options_say_so(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    text, packed = tmp_path / "view.txt", tmp_path / "view.pb.gz"
    view = profiler.profile_operations(output=f"file:outfile={text}")
    assert text.read_text(encoding="utf-8") == view.text
    profiler.profile_operations(output=f"pprof:outfile={packed}")
    assert b"MatMul" in gzip.decompress(packed.read_bytes())
    with pytest.raises(BadUsage, match="cannot be written"):
        profiler.profile_operations(output=f"file:outfile={tmp_path}")


def test_advice_is_the_report_and_its_findings(tmp_path: Path) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(6))
    advice = profiler.advise({"AcceleratorUtilizationChecker": {}})
    assert "Where the step time went" in str(advice)
    assert {one.id for one in advice.findings} >= {"input.bound"}
    assert " ".join(advice.text.split()).endswith(advice.notes[0])
    with pytest.raises(BadUsage, match="OperationChecker"):
        profiler.advise({"SpeedChecker": {}})


def test_without_what_reads_recordings_one_line_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = ss.Profiler(tmp_path)
    recorded(profiler, range(1))
    monkeypatch.delitem(sys.modules, "stepscope.profiler.views", raising=False)
    monkeypatch.delattr("stepscope.profiler.views", raising=False)
    monkeypatch.setitem(sys.modules, "stepscope.reporting.compose", None)
    with pytest.raises(BadUsage) as caught:
        profiler.profile_operations()
    assert "stepscope.reporting.compose, which is not installed here" in str(
        caught.value
    )
    assert f"`stepscope show model_views {profiler.save().path}`" in str(caught.value)
