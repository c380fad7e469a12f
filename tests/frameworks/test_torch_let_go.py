"""What PyTorch recorded is freed when a recording ends, not when garbage is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: Records twice; how many of PyTorch's profilers still hold a trace after each time,
#: and how many warnings say that PyTorch was not recorded.
PROGRAM: Final = """
import gc, sys, torch
import stepscope as ss
from torch.autograd.profiler import profile

gc.disable()
for name in ("first", "second"):
    with ss.Profile(sys.argv[1] + name) as recorded, ss.StepTrace(0):
        torch.ones(8) @ torch.ones(8)
    print(sum(type(it) is profile and it.kineto_results is not None
              for it in gc.get_objects()))
    print(sum("not recorded" in it for it in recorded.run.warnings))
"""


def test_no_trace_waits_for_a_collection_that_another_thread_may_make(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run_program(interpreter("torch"), program, f"{tmp_path}/")
    # One without results must not look like a profiler of the program's own.
    assert done.stdout.split() == ["0", "0"] * 2


#: Ranges of PyTorch that begin in one recording, and end in the next.
CROSSED: Final = """
import sys, torch
from torch.profiler import record_function
import stepscope as ss
from stepscope.capture.launching.event_count import EventCount
from stepscope.capture.launching.plan import RunPlan

options = ss.ProfilerOptions(collectors=("torch", "host"))
for number in range(30):
    ranges = [record_function(f"range {at}") for at in range(500)]
    if sys.argv[2] == "schedule":
        recording = ss.schedule(
            wait=0, warmup=1, active=1, logdir=sys.argv[1], options=options
        )
        recording.__enter__()
    elif sys.argv[2] == "run":
        count = EventCount()
        count.begin_count(RunPlan("logs", "run", "notes", max_events=1), 11)
    else:
        before = ss.Profile(sys.argv[1], options=options)
        before.__enter__()
    if sys.argv[2] == "annotations":
        ranges = [ss.Trace(f"range {at}") for at in range(500)]
    for one in ranges:
        one.__enter__()
    if sys.argv[2] == "schedule":
        recording.step()
    else:
        if sys.argv[2] == "run":
            assert count.end_count() >= 500
        else:
            before.__exit__(None, None, None)
        recording = ss.Profile(sys.argv[1], options=options)
        recording.__enter__()
    torch.ones(8) @ torch.ones(8)
    for one in reversed(ranges):
        one.__exit__(None, None, None)
    recording.__exit__(None, None, None)
print("not harmed")
"""


@pytest.mark.parametrize("way", ["schedule", "run", "annotations"])
def test_a_range_may_end_after_the_recording_in_which_it_began(
    tmp_path: Path, way: str
) -> None:
    """PyTorch wrote the end of the range into freed memory: programs crashed."""
    program = tmp_path / "program.py"
    program.write_text(CROSSED)
    done = run_program(interpreter("torch"), program, tmp_path / "logs", way)
    assert done.stdout == "not harmed\n"


#: Six steps of ten products each, and room for the events of some. Products are long
#: enough that the time between steps hardly counts.
DROPPED: Final = """
import sys, torch
import stepscope as ss
from stepscope.capture.collectors.torch import activities

activities._MAX_EVENTS = activities._MAX_CALLS = 120
rows = torch.ones(256, 256)
with ss.Profile(sys.argv[1]) as recorded:
    for number in range(6):
        with ss.StepTrace(number):
            for _ in range(10):
                rows @ rows
for warning in recorded.run.warnings:
    print(warning)
"""


def test_steps_whose_events_were_dropped_are_not_judged(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DROPPED)
    done = run_program(interpreter("torch"), program, tmp_path / "logs")
    (told,) = done.stdout.splitlines()
    assert told.endswith("before the first dropped event are judged")
    profile = ss.open(tmp_path / "logs")
    (host,) = profile.hosts
    placed = require_available(profile.derived(host, windows))
    is_out = placed.rows["flags"].list.contains("unrecorded").to_list()
    # Annotations are kept before all others: all six are there.
    whole = is_out.index(True)
    assert 1 <= whole < 5
    assert is_out == [False] * whole + [True] * (6 - whole)
    # Each that is judged has all of its products; the next one lacks some.
    events = require_available(profile.table(host, "events"))
    names = require_available(profile.table(host, "event_types"))["name"].to_list()
    begins = [
        begin
        for kind, begin in events.select("type", "start_ps").iter_rows()
        if names[kind] == "aten::mm"
    ]
    spans = placed.rows.select("start_ps", "end_ps").rows()
    found = [sum(a <= it < b for it in begins) for a, b in spans]
    assert found[:whole] == [10] * whole
    assert found[whole] < 10
    # The recording shows where the last one ends too.
    overview = profile.tool("overview_page")
    assert isinstance(overview, OverviewPageResult)
    assert overview.left_out.pop("unrecorded") == 6 - whole
    assert set(overview.left_out) <= {"warm_up"}
    assert placed.measured.height == whole - overview.left_out.get("warm_up", 0) > 0
