"""What PyTorch recorded is freed when a recording ends, not when garbage is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import interpreter, run_program, steps_of

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


#: Counts what PyTorch has recorded after two of its four steps. An annotation is open
#: meanwhile, and the second half has gradients of its own.
COUNTED: Final = """
import sys, torch
import stepscope as ss
from stepscope.capture.recording.session import Session

weights = torch.ones(8, 8, requires_grad=True)
recording = Session.start(sys.argv[1])
outer = ss.Trace("outer")
for number in range(4):
    if number == 2:
        counted = recording.count_events()
    if number == 1:
        outer.__enter__()
    with ss.StepTrace(number):
        for _ in range(number + 1):
            (weights @ weights).sum().backward()
    if number == 2:
        outer.__exit__(None, None, None)
run = recording.stop()
print(counted, len(run.warnings), sum(it > 0 for it in [recording.count_events()]))
"""


def test_counting_what_was_recorded_loses_none_of_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COUNTED)
    done = run_program(interpreter("torch"), program, tmp_path / "logs")
    counted, warnings, afterwards = map(int, done.stdout.split())
    assert (warnings, afterwards) == (0, 0)
    profile = ss.open(tmp_path / "logs")
    (host,) = profile.hosts
    events = require_available(profile.table(host, "events"))
    names = require_available(profile.table(host, "event_types"))["name"].to_list()
    ops = [names[it] for it in events["type"].to_list()]
    # 1 + 2 + 3 + 4 passes, of one product and two for its gradients each.
    assert ops.count("aten::mm") == 3 * 10
    assert ops.count("autograd::engine::evaluate_function: MmBackward0") == 10
    assert [step for _, step in steps_of(profile)] == [0, 1, 2, 3]
    # Of the first two steps: three of the ten passes.
    assert 0 < counted < len(ops) / 2


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
