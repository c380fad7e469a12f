"""`ss.log_to` takes every path that a report is made of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.errors import BadInput, BadUsage
from stepscope.tracking import log_to as module

if TYPE_CHECKING:
    from stepscope.tracking.log_to import Logged

DATA = Path(__file__).parent / "data"


class Run:
    """A run of a tracker, which keeps what is logged."""

    __module__ = "kept.runs"

    def __init__(self) -> None:
        self.logged: list[Logged] = []
        self.reports: list[dict[str, object]] = []

    def log(self, logged: Logged, *, step: int | None) -> None:
        assert step is None
        self.logged.append(logged)
        (report,) = (it for it in logged.files if it.name == "report.json")
        self.reports.append(json.loads(report.read_text("utf-8")))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(module, "_TRACKERS", {"kept": Run.log})
    return Run()


@pytest.mark.parametrize("place", ["log directory", "directory", "file"])
def test_a_trace_under_its_own_name_is_logged(
    place: str, run: Run, tmp_path: Path
) -> None:
    """Directories without plugins/profile were refused, and reports read them."""
    (recorded,) = (DATA / "torch_train").glob("*.json.gz")
    folder = tmp_path / "traces" if place == "log directory" else tmp_path
    folder.mkdir(exist_ok=True)
    file = Path(shutil.copy(recorded, folder))
    ss.log_to(run, file if place == "file" else tmp_path)
    (logged,), (report,) = run.logged, run.reports
    assert file in logged.files
    seen = ss.open(file).tool("overview_page")
    assert not isinstance(seen, ss.Unavailable)
    assert logged.numbers["stepscope/steps"] == seen.step_count
    assert report["schema"] == 1


def test_a_path_without_a_profile_is_refused_as_by_a_report(
    run: Run, tmp_path: Path
) -> None:
    for path in ("", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput) as of_report:
            ss.open(path)
        with pytest.raises(BadInput) as of_log:
            ss.log_to(run, path)
        assert str(of_log.value) == str(of_report.value)
    with pytest.raises(BadUsage, match="not a run of a tracker"):
        ss.log_to(object(), tmp_path)
