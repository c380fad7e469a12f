"""When each device began to compute in each step, by hand."""

from __future__ import annotations

import numpy as np
import polars as pl

from stepscope.derive.step_windows.device_spans import first_compute
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NO_STEPS", reason="There are none.", remedy="Mark them.")


def activity(*rows: tuple[int, str, int]) -> pl.DataFrame:
    schema = {"device": pl.Int32, "kind": ACTIVITY_KINDS, "start_ps": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(dur_ps=pl.lit(5, pl.Int64))


WORK = activity(
    (1, "kernel", 40),
    (1, "kernel", 30),
    (0, "collective", 10),
    (0, "kernel", 20),
    (0, "kernel", 90),
    (1, "h2d", 70),
    (1, "kernel", 99),
)


def test_the_first_kernel_of_each_step_and_device_counts() -> None:
    step = np.array([0, 0, 0, 0, 1, 1, -1], np.int32)
    found = first_compute(device_activity=WORK, activity_steps=step)
    assert found.rows() == [(0, 0, 20), (0, 1, 30), (1, 0, 90)]


def test_without_steps_each_device_has_one_first_kernel() -> None:
    found = first_compute(device_activity=WORK, activity_steps=WHY)
    assert found.rows() == [(None, 0, 20), (None, 1, 30)]


def test_without_activity_there_is_no_row() -> None:
    found = first_compute(device_activity=WORK.clear(), activity_steps=WHY)
    assert found.rows() == []
