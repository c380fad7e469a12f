"""XProf opens what we record, and sees the same hosts, steps and names."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

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
