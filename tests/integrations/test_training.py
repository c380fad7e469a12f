"""Recording a training, its parts and its last lines, without any library."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.trainers import recorded_ranges, recorded_steps

import stepscope as ss
from stepscope.capture.recording.session import current_session
from stepscope.errors import BadUsage
from stepscope.integrations import optimizer_steps, shared_run, training
from stepscope.integrations.training import Training

if TYPE_CHECKING:
    from pathlib import Path

OWN = ss.ProfilerOptions(collectors=("host",))
pytestmark = pytest.mark.slow(seconds=0.5)


def make_training(logdir: Path, **chosen: Any) -> Training:
    asked = {"wait": 1, "warmup": 0, "active": 3, "options": OWN, "report": False}
    return Training(logdir, {**asked, **chosen})  # type: ignore[typeddict-item]


def test_steps_continue_the_numbers_of_a_checkpoint(tmp_path: Path) -> None:
    recording = make_training(tmp_path)
    recording.begin_training(first_step=100)
    for _ in range(8):
        recording.next_step()
    recording.end_training()
    (run,) = recording.runs
    assert recorded_steps(tmp_path) == {run.hosts[0]: [101, 102, 103]}
    assert current_session() is None


def test_a_part_belongs_to_no_step(tmp_path: Path) -> None:
    """As in a trainer that evaluates after the second step, and saves."""
    recording = make_training(tmp_path, active=4)
    recording.begin_training()
    recording.next_step()
    recording.end_step()
    for _ in range(3):
        recording.begin_part("evaluate")
    recording.begin_step()
    # At the end of an epoch, a step has begun that is none.
    recording.begin_part("save_checkpoint")
    recording.begin_step()
    for _ in range(5):
        recording.next_step()
    recording.end_training()
    assert list(recorded_steps(tmp_path).values()) == [[1, 2, 3, 4]]
    ranges = recorded_ranges(tmp_path)
    assert {"evaluate": 1, "save_checkpoint": 1}.items() <= ranges.items()


def test_a_long_part_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_MAX_PART_S", 0.0)
    recording = make_training(tmp_path, active=4)
    recording.begin_training()
    recording.next_step()
    recording.next_step()
    recording.begin_part("evaluate")
    assert current_session() is not None
    recording.begin_part("evaluate")
    assert current_session() is None
    recording.begin_step()
    recording.next_step()
    recording.end_training()
    assert list(recorded_steps(tmp_path).values()) == [[1]]
    assert recorded_ranges(tmp_path)["evaluate"] == 1


def test_repeated_recordings_of_a_shared_run_have_names_in_their_order(
    tmp_path: Path,
) -> None:
    recording = make_training(tmp_path, repeat=3, active=1)
    recording.begin_training()
    for _ in range(7):
        recording.next_step()
    recording.end_training()
    first, second, third = (run.run for run in recording.runs)
    assert (second, third) == (f"{first}_0001", f"{first}_0002")
    assert list(recorded_steps(tmp_path).values()) == [[5]]


def test_a_training_that_raised_does_not_block_the_next(tmp_path: Path) -> None:
    raised = make_training(tmp_path / "raised", wait=0)
    raised.begin_training()
    raised.next_step()
    recording = make_training(tmp_path / "next", wait=0)
    recording.begin_training()
    for _ in range(4):
        recording.next_step()
    recording.end_training()
    assert list(recorded_steps(tmp_path / "raised").values()) == [[0]]
    assert list(recorded_steps(tmp_path / "next").values()) == [[0, 1, 2]]


def test_a_recording_that_cannot_start_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = make_training(tmp_path / "second", wait=0)
    with ss.Profile(tmp_path / "first", OWN):
        recording.begin_training()
        for _ in range(4):
            recording.next_step()
        recording.end_training()
    assert recording.runs == ()
    assert "recording stops: already recording since" in caplog.text


def test_a_fault_ends_the_recording_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recording = make_training(tmp_path)
    recording.begin_training()
    recording.next_step()
    monkeypatch.setattr(training.Schedule, "step", lambda _: 1 / 0)
    recording.next_step()
    recording.next_step()
    assert current_session() is None
    recording.end_training()
    assert caplog.messages == ["recording stops: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize("chosen", [{"active": 0}, {"wait": -1}])
def test_wrong_numbers_are_refused_at_once(
    tmp_path: Path, chosen: dict[str, int]
) -> None:
    (name,) = chosen
    with pytest.raises(BadUsage, match=name):
        make_training(tmp_path, **chosen)


def record_steps(logdir: Path, **chosen: Any) -> Training:
    recording = make_training(logdir, report=True, **chosen)
    recording.begin_training()
    for _ in range(6):
        with ss.Trace("work"):
            sum(range(10_000))
        recording.next_step()
    recording.end_training()
    return recording


def test_the_end_prints_headline_advice_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_steps(tmp_path)
    lines = capsys.readouterr().err.strip().splitlines()
    report = ss.report(tmp_path)
    assert lines[0] == f"stepscope: {' '.join(report.headline.split())}"
    assert lines[-1] == f"stepscope: all findings: stepscope report {tmp_path}"


def test_the_end_prints_nothing_on_other_ranks_or_if_not_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_training(tmp_path, wait=0).begin_training()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    record_steps(tmp_path)
    assert capsys.readouterr().err == ""


def test_the_end_says_what_a_report_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stepscope.reporting.from_python", None)
    record_steps(tmp_path)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "which this environment lacks" in line
    assert line.endswith(f"stepscope report {tmp_path}")


def test_a_report_that_fails_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.reporting.from_python.report", lambda _: 1 / 0)
    record_steps(tmp_path)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("stepscope: no report could be made (ZeroDivisionError: ")


def test_the_end_waits_for_the_files_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.1.xplane.pb.part"
    other.touch()
    looks: list[float] = []

    def store_after_two_looks(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            other.rename(tmp_path / "other.1.xplane.pb")

    monkeypatch.setattr(shared_run.time, "sleep", store_after_two_looks)
    shared_run.wait_for_files(tmp_path)
    assert len(looks) == 2


def test_importing_integrations_imports_no_library() -> None:
    program = (
        "import sys, stepscope as ss; ss.integrations; ss.keras\n"
        "libraries = {'torch', 'transformers', 'lightning', 'accelerate', 'ray'}\n"
        "print(sorted(libraries & sys.modules.keys()), 'polars' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] False\n"


def test_an_unknown_integration_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_library"):
        _ = ss.integrations.no_such_library


def test_a_training_that_ends_before_its_window_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record_steps(tmp_path, wait=50)
    (line,) = caplog.messages
    assert line.startswith("nothing was recorded")
    assert not list(tmp_path.rglob("*.pb"))


def test_a_second_end_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lightning ends its profiler after `fit`, and after `test` again."""
    recording = record_steps(tmp_path)
    capsys.readouterr()
    recording.end_training()
    assert capsys.readouterr().err == ""


def test_a_recording_does_not_begin_in_the_range_where_one_ends(tmp_path: Path) -> None:
    """PyTorch calls the hook within the range of the optimizer."""
    with pytest.raises(BadUsage, match="Give wait=1"):
        optimizer_steps.make_training(tmp_path, {"wait": 0, "warmup": 0, "repeat": 0})
