"""Programs that run with a framework and record, and who reads what they recorded."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.analysis.tools import TOOLS
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.profile_data import ProfileData

ROOT = Path(__file__).resolve().parents[3]
#: No program of a test looks for a GPU, and none talks about having found none.
_SURROUNDINGS = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONPATH": str(ROOT / "src"),
}
_ASK_XPROF = """
import sys
from xprof.convert import raw_to_tool_data
answer, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], sys.argv[2], {})
sys.stdout.buffer.write(answer if isinstance(answer, bytes) else answer.encode())
"""


def interpreter(name: str) -> str:
    """The interpreter of a framework; a skip where it was not asked for."""
    path = ROOT / "build_tools" / "framework_venv.py"
    spec = importlib.util.spec_from_file_location("framework_venv", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while it is being executed.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not module.is_current(name):
        if os.environ.get("STEPSCOPE_FRAMEWORKS") == "required":
            pytest.fail(f"the environment of {name} is missing: run `make frameworks`")
        pytest.skip(f"the environment of {name} is not there: run `make frameworks`")
    return str(module.python_of(name))


def run_program(
    python: str,
    program: Path,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and keep what it printed."""
    done = subprocess.run(
        [python, program, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **_SURROUNDINGS, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr
    return done


def steps_of(profile: ProfileData) -> list[tuple[str, int]]:
    """Marker and number of each step of the only host."""
    (host,) = profile.hosts
    found = profile.derived(host, steps)
    assert not isinstance(found, Unavailable), found
    assert (found.source, found.confidence) == ("marker", 1.0)
    return list(found.rows.select("marker", "step").iter_rows())


def check_every_tool(profile: ProfileData) -> None:
    """Each tool answers with a result, or with a reason and a way out."""
    for tool in TOOLS:
        result = profile.tool(tool.name)
        if isinstance(result, Unavailable):
            assert result.reason, tool.name
            assert result.remedy, tool.name


def xprof_events(path: Path) -> list[dict[str, Any]]:
    """The events that XProf shows of a file, as its trace viewer has them."""
    done = subprocess.run(
        [interpreter("xprof"), "-c", _ASK_XPROF, path, "trace_viewer"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    events: list[dict[str, Any]] = json.loads(done.stdout)["traceEvents"]
    return events


def xprof_steps(path: Path) -> list[int]:
    """The numbers of the step markers that XProf shows of a file, in time order."""
    marked = [it for it in xprof_events(path) if "step_num" in it.get("args", {})]
    marked.sort(key=lambda event: float(event["ts"]))
    return [int(event["args"]["step_num"]) for event in marked]


def only_file(logdir: Path) -> Path:
    """The only profile below a log directory; nothing unfinished is beside it."""
    (path,) = logdir.rglob("*.xplane.pb")
    assert list(logdir.rglob("*.part")) == []
    return path
