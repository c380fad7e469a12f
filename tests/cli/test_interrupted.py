"""Ctrl-C ends a command by one line, at any moment of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.collectors.levels import TracerLevels
from stepscope.capture.recording.assembling import Recording, spool_head

if TYPE_CHECKING:
    from pathlib import Path

#: Ctrl-C is pressed where a module is about to be imported.
PRESSED = """
import signal, sys
times, name = int(sys.argv.pop(1)), sys.argv.pop(1)
class Press:
    def find_spec(self, wanted, path=None, target=None):
        if wanted == name:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
from stepscope.__main__ import run
run()
"""


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize(
    "module",
    [
        "click",
        "stepscope.cli.main",
        "stepscope.cli.report",
        "numpy",
        "polars",
        "stepscope.reporting.compose",
    ],
)
def test_ctrl_c_while_modules_are_imported_is_one_line(
    repository: Path, module: str
) -> None:
    recorded = repository / "tests" / "data" / "tf_keras_fit"
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, "1", module, "report", recorded],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "stepscope: interrupted\n"


@pytest.mark.slow(seconds=0.4)
def test_a_second_ctrl_c_shows_nothing_more(repository: Path) -> None:
    recorded = repository / "tests" / "data" / "tf_keras_fit"
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, "3", "polars", "report", recorded],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 130
    assert done.stderr in {"stepscope: interrupted\n", ""}


@pytest.mark.slow
def test_serve_ends_by_the_ctrl_c_that_it_asks_for(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "serve", tmp_path, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Showing")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.strip() == ""


@pytest.mark.slow(seconds=1)
def test_a_host_without_events_beside_another_is_no_defect(
    repository: Path, tmp_path: Path
) -> None:
    folder = repository / "tests" / "data" / "tf_keras_fit"
    recorded = next(folder.rglob("*.xplane.pb.gz"))
    (tmp_path / "a.xplane.pb.gz").write_bytes(recorded.read_bytes())
    # What a process leaves that ended before anything was stored.
    levels = TracerLevels.asked(ss.ProfilerOptions())
    begun = Recording(
        hostname="b", begin=ClockPair.now(), asked=levels, own=levels, collectors=()
    )
    (tmp_path / "b.xplane.pb.part").write_bytes(spool_head(begun))
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Where the step time went" in done.stdout
