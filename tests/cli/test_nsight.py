"""`stepscope ncu` and `stepscope nsys`, with tools that only note how they are called.

No GPU was at hand: that the calls are what the tools take follows their documentation.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.support.traces.nsight_compute import launch, line, long, wide, write

from stepscope.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

TIME = "gpu__time_duration.sum"
RAW = wide({TIME: "ns"}, [(launch(0, "gemm"), ("1,500",))])
DETAILS = long(
    line(*launch(0, "gemm"), "S", "", "", "", "Rule", "OPT", "Do it.", "global", "7")
)
TOOL = """#!{python}
import json, os, pathlib, signal, subprocess, sys
register_only = os.environ.get("NSYS_NVTX_PROFILER_REGISTER_ONLY")
with open({calls!r}, "a") as file:
    file.write(json.dumps([sys.argv[1:], register_only]) + "\\n")
arguments = sys.argv[1:]
if "--import" in arguments:
    print(pathlib.Path({pages!r}, arguments[-1]).read_text())
    sys.exit(0)
{rest}
"""
#: Runs the program, which stands last, and writes a report.
NCU = """
report = arguments[arguments.index("--export") + 1]
status = subprocess.call(arguments[arguments.index("--export") + 2:])
pathlib.Path(report).write_bytes(b"NVR\\0")
sys.exit(status)
"""
NSYS = """
at = next(at for at, one in enumerate(arguments) if one.startswith("--output="))
name = arguments[at].partition("=")[2]
status = subprocess.call(arguments[at + 1:])
pathlib.Path(name + ".nsys-rep").write_bytes(b"NVIDIA Tegra Pro")
sys.exit(status)
"""


class Machine:
    """A folder with tools, in which commands run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.calls = folder / "calls"
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", str(self.tools), prepend=os.pathsep)
        monkeypatch.delenv("NSYS_NVTX_PROFILER_REGISTER_ONLY", raising=False)
        pages = folder / "pages"
        pages.mkdir()
        write(pages / "raw", RAW)
        write(pages / "details", DETAILS)

    def install(self, name: str, rest: str) -> None:
        tool = self.tools / name
        tool.write_text(
            TOOL.format(
                python=sys.executable,
                calls=str(self.calls),
                pages=str(self.folder / "pages"),
                rest=rest,
            ),
            encoding="utf-8",
        )
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, list(arguments))

    def called(self) -> list[list[Any]]:
        return [json.loads(text) for text in self.calls.read_text().splitlines()]


@pytest.fixture(name="machine")
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    machine.install("ncu", NCU)
    machine.install("nsys", NSYS)
    return machine


def test_kernels_are_measured_and_their_table_is_kept(machine: Machine) -> None:
    code = "import sys; sys.exit(3)"
    done = machine.run(
        *("ncu", "--kernel", "gemm.*", "--range", "step", "--skip", "4"),
        *("--count", "9", "-o", "mine", "--", "-c", code),
    )
    # The status is the program's.
    assert done.exit_code == 3
    (called, _), raw, details = machine.called()
    assert called == [
        *("--set", "full", "--target-processes", "all"),
        *("--kernel-name", "regex:^(?:gemm.*)$"),
        *("--nvtx", "--nvtx-include", "step/"),
        *("--launch-skip", "4", "--launch-count", "9"),
        *("--force-overwrite", "--export", "mine.ncu-rep"),
        *(sys.executable, "-c", code),
    ]
    assert [one[0][-1] for one in (raw, details)] == ["raw", "details"]
    table = (machine.folder / "mine.csv").read_text(encoding="utf-8")
    assert TIME in table
    assert "Do it." in table
    # The whole call can be copied.
    assert "--nvtx-include step/" in done.stderr
    assert "--kernels mine.csv" in done.stderr


@pytest.mark.slow(seconds=0.4)
def test_the_kernels_of_an_op_are_those_that_it_launched(
    machine: Machine, repository: Path
) -> None:
    recorded = repository / "tests" / "data" / "gpu" / "torch_healthy"
    done = machine.run(
        *("ncu", "--op", "aten::addmm", "--beside", str(recorded), "--", "-c", "")
    )
    assert done.exit_code == 0
    called = machine.called()[0][0]
    chosen = called[called.index("--kernel-name") + 1]
    assert chosen.startswith("regex:^(?:")
    assert "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT" in chosen
    assert "vectorized_elementwise_kernel" not in chosen
    # The report on the recording, with what was measured.
    assert "Where the step time went" in done.stderr


def test_a_timeline_is_recorded_and_its_database_reported(machine: Machine) -> None:
    with closing(sqlite3.connect(machine.folder / "made")) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    copy = "import shutil; shutil.copy('made', 'mine.sqlite')"
    done = machine.run(
        *("nsys", "--range", "train", "--delay-s", "2", "--duration-s", "5"),
        *("-o", "mine", "--no-report", "--", "-c", copy),
    )
    assert done.exit_code == 0
    ((called, register_only),) = machine.called()
    assert called == [
        *("profile", "--trace=cuda,nvtx,osrt,cudnn,cublas", "--sample=none"),
        *("--cpuctxsw=none", "--export=sqlite", "--force-overwrite=true"),
        "--wait=primary",
        *("--capture-range=nvtx", "--nvtx-capture=train", "--capture-range-end=stop"),
        *("--delay=2", "--duration=5", "--output=mine"),
        *(sys.executable, "-c", copy),
    ]
    assert register_only == "0"
    assert "wrote mine.sqlite" in done.stderr


def test_a_program_may_say_itself_when_to_record(machine: Machine) -> None:
    """PyTorch does so with torch.cuda.profiler.start and stop."""
    machine.run("nsys", "--profiler-api", "--no-report", "--", "-c", "")
    machine.run("ncu", "--profiler-api", "--", "-c", "")
    nsys, ncu = (called[0] for called in machine.called()[:2])
    at = nsys.index("--capture-range=cudaProfilerApi")
    assert nsys[at + 1] == "--capture-range-end=stop"
    assert ncu[ncu.index("--profile-from-start") + 1] == "off"


def test_two_ranges_for_one_timeline_are_refused(machine: Machine) -> None:
    done = machine.run("nsys", "--profiler-api", "--range", "x", "--", "-c", "")
    assert done.exit_code == 2
    assert "--range or --profiler-api" in done.stderr
    assert not machine.calls.exists()


def test_a_recording_without_its_importer_names_both_commands(machine: Machine) -> None:
    """Nsight Systems 2023.4 does so where a library of its importer is missing."""
    code = "open('timeline.qdstrm', 'w').write('x'); import sys; sys.exit(3)"
    machine.install("nsys", NSYS.replace(".nsys-rep", ".other"))
    done = machine.run("nsys", "--", "-c", code)
    assert done.exit_code == 3
    assert "QdstrmImporter -i timeline.qdstrm" in done.stderr
    assert "nsys export --type sqlite timeline.nsys-rep" in done.stderr


def test_a_report_without_its_database_names_the_command(machine: Machine) -> None:
    done = machine.run("nsys", "--", "-c", "import sys; sys.exit(5)")
    assert done.exit_code == 5
    assert "nsys export --type sqlite timeline.nsys-rep" in done.stderr


@pytest.mark.parametrize("name", ["ncu", "nsys"])
def test_a_signal_that_ends_the_tool_is_the_status_of_a_shell(
    machine: Machine, name: str
) -> None:
    machine.install(name, "os.kill(os.getpid(), signal.SIGTERM)")
    done = machine.run(name, "--", "-c", "")
    assert done.exit_code == 128 + signal.SIGTERM
    assert "wrote no report" in done.stderr


@pytest.mark.parametrize("name", ["ncu", "nsys"])
def test_a_machine_without_the_tool_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.nvidia.PLACES", {name: ()})
    done = CliRunner().invoke(main, [name, "--", "-c", ""])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"({name}) is not on this machine" in done.stderr
    assert "CUDA" in done.stderr


@pytest.mark.parametrize("name", ["ncu", "nsys"])
@pytest.mark.parametrize(
    "command",
    [
        ("-m", "stepscope", "run", "--", "x.py"),
        ("{tools}/nsys", "profile", "x"),
        ("{tools}/ncu", "x"),
        ("python", "{tools}/nsys", "profile", "x"),
    ],
)
def test_two_tools_that_trace_the_gpu_are_refused(
    machine: Machine, name: str, command: tuple[str, ...]
) -> None:
    words = [word.replace("{tools}", str(machine.tools)) for word in command]
    done = machine.run(name, "--", *words)
    assert done.exit_code == 2
    assert "CUPTI" in done.stderr
    assert not machine.calls.exists()


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *(("ncu", suffix) for suffix in (".ncu-rep", ".csv")),
        *(("nsys", suffix) for suffix in (".qdstrm", ".nsys-rep", ".sqlite")),
    ],
)
def test_nothing_is_overwritten_unasked(
    machine: Machine, name: str, suffix: str
) -> None:
    kept = machine.folder / f"mine{suffix}"
    kept.write_text("kept")
    done = machine.run(name, "-o", "mine", "--", "-c", "")
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert kept.read_text() == "kept"
    assert not machine.calls.exists()


def test_an_op_without_a_recording_is_one_line(machine: Machine) -> None:
    done = machine.run("ncu", "--op", "MatMul", "--", "-c", "")
    assert done.exit_code == 2
    assert "--beside" in done.stderr
    assert not machine.calls.exists()


def test_a_table_that_cannot_be_written_keeps_the_programs_status(
    machine: Machine,
) -> None:
    (machine.folder / "pages" / "raw").unlink()
    done = machine.run("ncu", "--", "-c", "import sys; sys.exit(4)")
    assert done.exit_code == 4
    assert "cannot read" in done.stderr
