"""XProf opens what we record, and sees the same hosts, steps and names."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import (
    interpreter,
    only_file,
    run_program,
    xprof_steps,
)

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]

PROGRAM = """
import sys, time
import stepscope as ss
with ss.Profile(sys.argv[1]):
    with ss.Trace("epoch", number=0):
        for step in range(3, 9):
            with ss.StepTrace(step):
                with ss.Trace("load", file="a.bin"):
                    time.sleep(0.003)
                with ss.Trace("compute"):
                    time.sleep(0.002)
"""
HOSTS = """
import json, sys
from xprof.convert import raw_to_tool_data as convert
names = convert.xspace_to_tool_names([sys.argv[1]])
data, _ = convert.xspace_to_tool_data([sys.argv[1]], "trace_viewer", {})
trace = data.decode() if isinstance(data, bytes) else data
print(json.dumps({"tools": names, "trace": trace}))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logdir = tmp_path_factory.mktemp("recorded")
    subprocess.run([sys.executable, "-c", PROGRAM, logdir], check=True, timeout=120)
    (path,) = logdir.rglob("*.xplane.pb")
    return path


@pytest.fixture(scope="module")
def shown(recorded: Path) -> list[dict[str, Any]]:
    """The events of XProf's trace viewer."""
    done = subprocess.run(
        [interpreter("xprof"), "-c", HOSTS, recorded],
        check=True,
        capture_output=True,
        timeout=120,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["tools"]
    trace = json.loads(answer["trace"])
    events: list[dict[str, Any]] = trace["traceEvents"]
    return events


def test_xprof_shows_every_annotation_with_its_length(
    recorded: Path, shown: list[dict[str, Any]]
) -> None:
    theirs: dict[str, list[float]] = {}
    for event in shown:
        if event.get("ph") == "X":
            # It shows a step as `train 3`.
            name = event["name"].split()[0]
            theirs.setdefault(name, []).append(event["dur"])
    profile = ss.open(recorded)
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = trace.table("event_types")["name"].gather(trace.table("events")["type"])
    for name, count in (("epoch", 1), ("train", 6), ("load", 6), ("compute", 6)):
        ours = trace.table("events")["dur_ps"].filter(names == name).to_list()
        assert len(ours) == count
        assert sorted(theirs[name]) == pytest.approx(
            sorted(dur / 1e6 for dur in ours), abs=0.001
        )


def test_xprof_finds_the_steps_and_what_belongs_to_each(
    shown: list[dict[str, Any]],
) -> None:
    """By the marker's `_r` and `step_num`, without which it finds no step."""
    steps = [event for event in shown if event.get("name", "").startswith("train ")]
    assert [event["args"]["step_num"] for event in steps] == list("345678")
    groups = [event["args"]["group_id"] for event in steps]
    loads = [event for event in shown if event.get("name") == "load"]
    assert [event["args"]["group_id"] for event in loads] == groups
    assert len(set(groups)) == 6


def test_xprof_lists_the_host_and_its_thread(shown: list[dict[str, Any]]) -> None:
    named = {
        (event["name"], event["args"]["name"])
        for event in shown
        if event.get("ph") == "M" and "name" in event.get("args", {})
    }
    assert any(name.endswith("/host:CPU") for kind, name in named)
    assert ("thread_name", "MainThread") in named


def test_times_begin_at_the_recordings_start_not_in_1970(
    shown: list[dict[str, Any]],
) -> None:
    begins = [event["ts"] for event in shown if event.get("ph") == "X"]
    assert 0 <= min(begins) < 60e6
    assert max(begins) < 600e6


TORCH = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
if sys.argv[1:2] == ["records itself"]:
    import stepscope as ss
    for _ in range(3): step()
    with ss.Profile(sys.argv[2]):
        for number in range(11, 21):
            with ss.StepTrace(number, name="step"): step()
else:
    for _ in range(25): step()
"""
STEPS = """
import json, sys
from xprof.convert import raw_to_tool_data as convert
data, _ = convert.xspace_to_tool_data([sys.argv[1]], "input_pipeline_analyzer", {})
(steps,) = [
    table for table in json.loads(data)
    if table.get("cols") and table["cols"][0]["id"] == "stepnum"
]
columns = [column["id"] for column in steps["cols"]]
rows = [dict(zip(columns, (it["v"] for it in row["c"]))) for row in steps["rows"]]
print(json.dumps(rows))
"""


def analysed_steps(path: Path) -> list[dict[str, Any]]:
    """The steps of XProf's input pipeline analyzer, which its overview shows too.

    Of more than five steps it leaves out the first and the last, whoever recorded them:
    it takes them for cut off.
    """
    done = subprocess.run(
        [interpreter("xprof"), "-c", STEPS, path],
        check=True,
        capture_output=True,
        timeout=120,
    )
    steps: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return steps


@pytest.mark.parametrize("how", ["run", "records itself"])
def test_xprof_analyses_the_steps_of_pytorch_on_a_cpu(how: str, tmp_path: Path) -> None:
    program, python = tmp_path / "train.py", interpreter("torch")
    program.write_text(TORCH, encoding="utf-8")
    logdir = tmp_path / "stepscope-logs"
    if how == "run":
        command = (
            sys.executable,
            "-m",
            "stepscope",
            "run",
            "--no-report",
            "--steps",
            "10",
            "--",
            python,
            program,
        )
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        subprocess.run(command, check=True, cwd=tmp_path, timeout=300, env=environment)
    else:
        run_program(python, program, how, logdir)
    path = only_file(logdir)
    assert xprof_steps(path) == list(range(11, 21))
    steps = analysed_steps(path)
    assert [it["stepnum"] for it in steps] == [f"step {n}" for n in range(12, 20)]
    # Each has its ops; without them XProf shows no step.
    assert all(it["hostComputeTimeMs"] > 0 for it in steps)


@pytest.mark.parametrize("scene", ["torch_healthy", "torch_overlap", "torch_graph"])
def test_xprof_analyses_the_steps_of_pytorch_on_a_gpu(
    scene: str, repository: Path, tmp_path: Path
) -> None:
    folder = repository / "tests" / "data" / "gpu" / scene
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    (stored,) = (folder / "plugins").rglob("*.xplane.pb.gz")
    path = tmp_path / stored.stem
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    steps = analysed_steps(path)
    assert [it["stepnum"] for it in steps] == [
        str(number) for number in range(1, truth["steps"] - 1)
    ]
    assert all(it["deviceComputeTimeMs"] > 0 for it in steps)
