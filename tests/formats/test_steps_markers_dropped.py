"""Every recording that announces its steps, with what announces them taken out.

As many steps are found as were announced, give or take one that the recording cut; of
a recording of a single step, none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from tests.formats.test_steps_real_profiles import steps_of, without_markers

from stepscope.derive.steps.chosen import Steps
from stepscope.formats.opening import open_hosts
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.trace.model import TraceData

#: Two steps are no repetition.
LEAST = 3


def hosts_of(path: Path) -> Iterator[TraceData]:
    """Every host of a run; windows of one process that follow each other are runs."""
    alone = sorted(path.glob("worker*.pt.trace.json*"))
    one_process = len({file.name.partition(".")[0] for file in alone}) == 1
    for each in alone if one_process else [path]:
        yield from open_hosts(each)[1].values()


def _marks_only(trace: TraceData) -> bool:
    """Whether no framework recorded anything: marks are all there is of steps."""
    environment = trace.table("environment")
    assert not isinstance(environment, Unavailable)
    collectors = environment["collectors"][0] or "a framework"
    return not {"a framework", "torch", "jax", "tensorflow"} & {*collectors.split(",")}


def recorded(trace: TraceData, steps: Steps) -> pl.DataFrame:
    """The steps while the device was recorded, which may be later or end earlier."""
    work = trace.table("device_activity")
    if isinstance(work, Unavailable) or work.is_empty():
        return steps.rows
    first = work["start_ps"].min()
    last = (work["start_ps"] + work["dur_ps"]).max()
    ends = steps.rows["start_ps"].shift(-1, fill_value=2**62)
    return steps.rows.filter((ends > first) & (pl.col("start_ps") < last))


def check(trace: TraceData) -> None:
    announced = steps_of(trace)
    if isinstance(announced, Unavailable) or announced.inferred:
        return
    if _marks_only(trace):
        return
    found = steps_of(without_markers(trace))
    if len(announced.rows) < LEAST:
        assert isinstance(found, Unavailable), found.candidates[0]
        return
    assert isinstance(found, Steps), found
    assert found.inferred
    assert abs(len(found.rows) - len(recorded(trace, announced))) <= 1


def test_steps_are_found_without_what_announces_them(
    shared_profile: Callable[[str], Path], recorded_run: str
) -> None:
    for trace in hosts_of(shared_profile(recorded_run)):
        check(trace)
