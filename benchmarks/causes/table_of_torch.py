"""Run a generated program under PyTorch's profiler, and write the names of its rows.

    python table_of_torch.py PROGRAM WRITTEN

Five steps are profiled, with Python's stacks: the table of many more takes minutes.
WRITTEN gets a JSON list: the names of the rows of the profiler's table, as
`table(sort_by="self_cpu_time_total")` sorts them.
"""

import json
import runpy
import sys
from pathlib import Path

import torch
from truth_clock import TruthClock

#: The table's first rows.
_ROWS = 10
#: Number of steps that are profiled.
_STEPS = 5


def main(program: str, written: str) -> None:
    """Profile a program, and write the names."""
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True
    )
    profile_steps(profiler)
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")
    rows = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)
    Path(written).write_text(json.dumps([row.key for row in rows[:_ROWS]]))


def profile_steps(profiler: torch.profiler.profile) -> None:
    """Let the program's clock start and stop the profiler."""
    begin_step = TruthClock.begin_step
    profiled = []

    def begin_profiled_step(clock: TruthClock) -> bool:
        goes_on = begin_step(clock)
        plan = clock._plan  # noqa: SLF001 - the clock knows which steps are timed
        if clock.step == plan["skip"]:
            profiler.start()
            profiled.append(clock.step)
        elif profiled and (not goes_on or clock.step == plan["skip"] + _STEPS):
            profiler.stop()
            profiled.clear()
        return goes_on

    TruthClock.begin_step = begin_profiled_step  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
