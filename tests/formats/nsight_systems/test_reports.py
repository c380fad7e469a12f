"""Reports of Nsight Systems: exported by the tool of this machine, or one command."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from tests.support.traces.kineto import check_all, frame
from tests.support.traces.nsight import KERNEL, kernel, write

from stepscope.errors import BadInput
from stepscope.formats.opening import open_hosts, read

REPORT = b"NVIDIA Tegra Profiler Report 1.\n"
#: Notes how it is called, and writes the database that lies ready.
EXPORTS = """
open({asked!r}, "a").write(repr(sys.argv[1:]) + chr(10))
(output,) = [it for it in sys.argv if it.startswith("--output=")]
shutil.copy({ready!r}, output.partition("=")[2])
"""


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, body: str, **names: str
) -> None:
    tools = folder / "tools"
    tools.mkdir()
    tool = tools / "nsys"
    text = f"#!{sys.executable}\nimport shutil, sys\n{body.format(**names)}"
    tool.write_text(text, encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)


def report_in(folder: Path, name: str = "--help.nsys-rep") -> Path:
    (folder / "in").mkdir()
    path = folder / "in" / name
    path.write_bytes(REPORT)
    return path


def one_line(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        open_hosts(path)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", ["--help.nsys-rep", "old.qdrep"])
def test_a_report_is_exported_by_the_tool_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ready = write(tmp_path / "ready.sqlite", {KERNEL: [kernel("gemm", 0, 5, 1)]})
    asked = tmp_path / "asked"
    install(tmp_path, monkeypatch, EXPORTS, asked=str(asked), ready=str(ready))
    report = report_in(tmp_path, name)
    trace = read(report)
    check_all(trace)
    assert len(frame(trace, "device_activity")) == 1
    environment = frame(trace, "environment").row(0, named=True)
    assert environment["file"].endswith(name)
    assert environment["file_bytes"] == len(REPORT)
    (called,) = asked.read_text().splitlines()
    assert called.startswith("['export', '--type=sqlite', '--output=")
    assert called.endswith(f"'{report}']")
    # Neither the database nor its folder stays.
    assert [it.name for it in report.parent.iterdir()] == [name]
    written = called.split("--output=")[1].split("'")[0]
    assert not Path(written).parent.exists()


def test_the_tool_is_found_where_its_installer_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = write(tmp_path / "ready.sqlite", {KERNEL: [kernel("gemm", 0, 5, 1)]})
    asked = tmp_path / "asked"
    install(tmp_path, monkeypatch, EXPORTS, asked=str(asked), ready=str(ready))
    monkeypatch.setenv("PATH", str(tmp_path))
    places = {"nsys": (str(tmp_path / "tool*").lstrip("/"),)}
    monkeypatch.setattr("stepscope.nvidia.PLACES", places)
    assert len(frame(read(report_in(tmp_path)), "device_activity")) == 1


def test_a_report_without_the_tool_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.nvidia.PLACES", {"nsys": ()})
    report = report_in(tmp_path)
    assert f"nsys export --type sqlite {report}" in one_line(report)


def test_a_report_that_the_tool_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "sys.exit('newer\\nreport')")
    said = one_line(report_in(tmp_path))
    assert "exit status 1): newer report" in said
    assert said.endswith("or a newer one.")


def test_a_report_of_which_nothing_is_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "print('Exportation error')")
    assert "exit status 0): Exportation error" in one_line(report_in(tmp_path))


def test_a_database_beside_its_report_is_read_instead_of_it(tmp_path: Path) -> None:
    report = report_in(tmp_path, "timeline.nsys-rep")
    write(report.parent / "timeline.sqlite", {KERNEL: [kernel("gemm", 0, 5, 1)]})
    _, traces = open_hosts(report.parent)
    (trace,) = traces.values()
    assert len(frame(trace, "device_activity")) == 1
