"""The kernels of the judged device and their speed: every field, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    activities,
    types_named,
    windows_at,
)

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernels import Kernels
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import Evidence
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.trace.tables import ACTIVITY_KINDS

CODES = {kind: code for code, kind in enumerate(ACTIVITY_KINDS.categories)}
NO_OP, LINEAR = range(2)
OPS = SimpleNamespace(
    ops=pl.DataFrame(
        {
            "name": ["", "net/linear"],
            "type": ["", "MatMul"],
            "category": ["Unknown", "dot"],
            "evidence": [OpEvidence.NONE, OpEvidence.HLO],
        }
    )
)
SIZES = "(f16[16,16], f16[16,20])"
# Name, op, precision, its evidence, whether eligible; count, time in steps and in all.
KERNELS = (
    ("void half_gemm<a>(b)", LINEAR, "16", "name", True, 8, 403, 500),
    ("sgemm", LINEAR, "32", "hlo", True, 4, 800, 900),
    ("nccl", NO_OP, None, None, None, 4, 1000, 1000),
    ("softmax_k", NO_OP, "32", "default", None, 6, 90, 95),
    ("elsewhere", LINEAR, "32", "name", True, 1, 5000, 5000),
    ("other_half", LINEAR, "16", "shape", True, 4, 240, 240),
    ("tf_gemm", LINEAR, "tf32", "hlo", True, 8, 100, 100),
    ("supposed", LINEAR, "32", "default", True, 4, 80, 80),
    ("half_supposed", LINEAR, "16", "default", True, 4, 8, 8),
    ("dgemm", LINEAR, "64", "hlo", False, 4, 8, 8),
)
ON_OTHER_DEVICE, COLLECTIVE, SIZED = 4, 2, (0, 1, 5, 6, 7, 8, 9)
TABLE = pl.DataFrame(
    [
        (
            number,
            int(number == ON_OTHER_DEVICE),
            row[0],
            "net/linear" if row[1] else "",
            *row[2:4],
            number == 0,
            *row[4:],
        )
        for number, row in enumerate(KERNELS)
    ],
    schema={
        "class": pl.Int32,
        "device": pl.Int32,
        "kernel_name": pl.String,
        "op_name": pl.String,
        "precision": pl.String,
        "precision_evidence": pl.String,
        "uses_tensor_core": pl.Boolean,
        "tensor_core_eligible": pl.Boolean,
        "count": pl.Int64,
        "step_ps": pl.Int64,
        "total_ps": pl.Int64,
    },
    orient="row",
)
# Activities of device 0, unless told, by class; the third step has the median length.
MADE = (
    ("kernel", 0, 1999, 1, 0),
    ("kernel", 0, 2000, 20, 0),
    ("kernel", 0, 2030, 5, 3),
    ("kernel", 0, 2040, 6, 3),
    ("kernel", 0, 2050, 6, 3),
    ("h2d", 0, 2010, 90, 10),
    ("kernel", 1, 2060, 70, 4),
    ("kernel", 0, 3099, 30, 1),
    # No kernel, so that no two kernels overlap: each instant would count once.
    ("collective", 0, 3100, 99, 1),
)
ACTIVITY = activities(
    *(row[:4] for row in MADE),
    event=[None, 2, 1, 0, 1, 1, 0, None, 2],
    bytes=[None] * 5 + [64] + [None] * 3,
).with_columns(stream=pl.Series([7, 7, 7, 7, 7, 8, 7, 7, 7], dtype=pl.Int64))
CLASSES = SimpleNamespace(
    code=np.array([row[4] for row in MADE], np.int32),
    rows=pl.DataFrame(
        {
            "kind": [
                CODES["collective" if number == COLLECTIVE else "kernel"]
                for number in range(len(KERNELS))
            ]
            + [CODES["h2d"]],
            "op": [each[1] for each in KERNELS] + [NO_OP],
            "shape": [int(number in SIZED) - 1 for number in range(11)],
        }
    ),
)
TRACE = Tables(
    "a:b",
    strings=[SIZES],
    device_activity=ACTIVITY,
    events=pl.DataFrame({"track": [0, 1, 1], "type": [0, 1, 2]}),
    event_types=types_named("softmax_k", "copy", "half_gemm"),
    tracks=pl.DataFrame({"name": ["stream 0", "stream 7"]}),
)
# Five steps, of which one was not recorded and one is the first; three are measured.
WINDOWS = windows_at(
    *((0, 1000), (1000, 2000), (2000, 3100), (3100, 9000), (9000, 10200)),
    flags=[[], ["unrecorded"], [], ["warm_up", "outlier"], []],
)


def judged(**fields: Any) -> Any:
    usual = {
        "host": "a:b",
        "device": 0,
        "label": "a:b:0",
        "step_source": "marker",
        "step_confidence": 0.75,
        "total_ps": 3301,
        "window_ps": (1000, 1101, 1200),
    }
    account = SimpleNamespace(**(usual | fields))
    return SimpleNamespace(judged=lambda: account)


def work(account: Any = None, *, table: Any = TABLE, trace: Any = TRACE) -> Any:
    known = {
        "kernels": table if table is OTHER else Kernels(table, None),
        "activity_classes": CLASSES,
        "activity_ops": OPS,
        "windows": WINDOWS,
        "trace": trace,
    }
    return kernel_work.function(
        account_signals=account or judged(),
        **{name: {"a:b": value, "z": ABSENT} for name, value in known.items()},
    )


def test_every_field_of_the_kernels_of_a_device() -> None:
    """Four steps were recorded; 16-bit products of this shape last 160 / 3 ps."""
    found = work()
    assert (found.label, found.steps, found.has_steps) == ("a:b:0", 4, True)
    assert (found.step_confidence, found.step_ps) == (0.75, 1100)
    # Without the collective: it is no computation.
    assert found.device_ps == 200 + 100 + 60 + 25 + 22 + 20 + 2 + 2
    rows = found.rows
    assert rows["class"].to_list() == [2, 1, 0, 5, 6, 3, 7, 8, 9]
    assert rows["time_ps"].to_list() == [250, 200, 100, 60, 25, 22, 20, 2, 2]
    assert rows["count"].to_list() == [1.0, 1.0, 2.0, 1.0, 2.0, 1.5, 1.0, 1.0, 1.0]
    assert rows["kernel"].to_list()[2:4] == ["half_gemm", "other_half"]
    assert rows["full_name"][2] == "void half_gemm<a>(b)"
    linear = [None, *["net/linear"] * 4, None, *["net/linear"] * 3]
    assert rows["op"].to_list() == linear
    for column, value in (("op_type", "MatMul"), ("category", "dot")):
        of_ops = [None if op is None else value for op in linear]
        assert rows[column].to_list() == of_ops
    narrow, wide = "16", "32"
    assert rows["precision"].to_list() == [
        *(None, wide, narrow, narrow, "tf32", wide, wide, narrow, "64")
    ]
    assert rows["told"].to_list() == [True] * 5 + [False] * 3 + [True]
    assert rows["matrix_units"].to_list() == [False, False, True] + [False] * 6
    assert rows["eligible"].to_list() == [
        *(None, True, True, True, True, None, True, True, False)
    ]
    assert rows["plain"].to_list() == [False] * 5 + [True] + [False] * 3
    assert rows["collective"].to_list() == [True] + [False] * 8
    shape = "MatMul 16x16 16x20"
    assert rows["shape"].to_list() == [
        *(None, shape, shape, shape, shape, None, shape, shape, None)
    ]
    assert rows["odd_size"].to_list() == [*(None, 20, 20, 20, 20, None, 20, 20, None)]
    # The TF32 kernels, of 12.5 ps each, are faster than the narrow ones.
    assert rows["speedup"].to_list() == [
        *(None, pytest.approx(200 / (160 / 3)), None, None, 1.0),
        *(None, None, None, None),
    ]
    assert found.share(rows[1:3]) == pytest.approx(100 * 300 / 431)
    assert (found.runs.count, found.runs.rows["class"].to_list()) == (1, [3])


def test_the_step_of_median_length_is_shown() -> None:
    found = work()
    assert found.shown.to_dict(as_series=False) == {
        "kind": ["kernel", "h2d", "kernel", "kernel", "kernel", "kernel"],
        "stream": [7, 8, 7, 7, 7, 7],
        "start_ps": [2000, 2010, 2030, 2040, 2050, 3099],
        "end_ps": [2020, 2100, 2035, 2046, 2056, 3129],
        "bytes": [None, 64, None, None, None, None],
        "event": [2, 1, 1, 0, 1, None],
        "class": [0, 10, 3, 3, 3, 1],
    }
    # The longest of each class; of equal ones the first.
    longest = found.longest
    assert longest["class"].to_list() == [10, 1, 0, 3]
    assert longest["start_ps"].to_list() == [2010, 3099, 2000, 2040]
    # A copy is no kernel, so that it is not looked up.
    assert found.tracks == {2: ("stream 7", "half_gemm"), 0: ("stream 0", "softmax_k")}


def test_the_longest_kernels_of_some_rows_are_evidence() -> None:
    found = work()

    def seen(at: int, end: int, track: str | None, *ops: str) -> Evidence:
        return Evidence(
            host="a:b", device=0, track=track, start_ps=at, end_ps=end, ops=ops
        )

    half = seen(2000, 2020, "stream 7", "half_gemm")
    softmax = seen(2040, 2046, "stream 0", "softmax_k")
    assert found.evidence(found.rows, 3) == (seen(3099, 3129, None), half, softmax)
    assert found.evidence(found.rows, 1) == (seen(3099, 3129, None),)
    kernels = found.rows.filter(pl.col("class").is_in([0, 3]))
    assert found.evidence(kernels, 3) == (half, softmax)
    assert found.evidence(found.rows[:0], 3) == ()


@pytest.mark.parametrize(
    ("account", "table"),
    [
        (judged(step_source=None, window_ps=()), TABLE),
        (judged(), TABLE.with_columns(step_ps=pl.lit(None, pl.Int64))),
    ],
)
def test_without_steps_all_kernels_are_counted(account: Any, table: Any) -> None:
    found = work(account, table=table)
    assert (found.steps, found.has_steps) == (1, False)
    assert found.rows["time_ps"][:3].to_list() == [1000, 900, 500]
    assert found.rows["count"][:3].to_list() == [4.0, 4.0, 8.0]


def test_times_are_known_without_the_length_of_a_step() -> None:
    assert work(judged(window_ps=())).step_ps == 3301


def test_without_sizes_or_narrow_kernels_there_is_no_speedup() -> None:
    wide = TABLE.filter(pl.col("precision") != "16")
    assert work(table=wide).rows["speedup"].to_list() == [None] * len(
        work(table=wide).rows
    )
    # Kernels that took no time do not show how fast others could be.
    instant = TABLE.with_columns(
        step_ps=pl.when(pl.col("precision") == "16").then(0).otherwise("step_ps")
    )
    assert work(table=instant).rows["speedup"].to_list() == [None] * 9
    nothing = TABLE.filter(pl.col("class") == COLLECTIVE)
    assert (work(table=nothing).device_ps, work(table=nothing).tracks) == (0, {})
    assert work(table=nothing).share(TABLE[:0].select(time_ps="step_ps")) == 0.0


def test_without_kernels_the_reason_is_told() -> None:
    assert work(judged(device=None)) == NO_KERNELS
    assert work(judged(device=3)) == NO_KERNELS
    assert work(table=OTHER) == OTHER
