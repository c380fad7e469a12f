"""Every number of findings about literal kernels, worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.advice.kernels import (
    EXCHANGE,
    MS,
    OTHER,
    RULE,
    SLOW,
    UNKNOWN,
    US,
    facts_of,
    judged,
    kernel,
    signals,
    worked,
)
from tests.support.traces.literal import fields_of

from stepscope.derive.facts.devices.kernel_kinds import FusableRuns
from stepscope.derive.facts.evidence import Evidence, Part, Saving
from stepscope.derive.facts.savings.what_if_changes import Faster, Joined
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS


def test_every_number_of_products_beside_the_matrix_units(
    signals_of: Any, shares: Any
) -> None:
    """Of 10 ms 2 and 1 are such products; of the 1 a twice as fast kernel is known."""
    known = SLOW | {"time_ps": MS, "speedup": 2.0, "op": None, "op_type": None}
    shown = pl.DataFrame(
        {
            "class": [1, 2, 1, 0],
            "stream": [7] * 4,
            "start_ps": [0, 10, 50, 90],
            "end_ps": [5, 30, 60, 190],
            "event": [3, 4, None, 5],
        },
        schema_overrides={"event": pl.Int32},
    )
    work = worked(
        kernel(7.0),
        SLOW,
        known,
        kernel(50.0, **EXCHANGE),
        shown=shown,
        tracks={4: ("Stream", "sgemm"), 5: ("Stream", "gemm")},
    )
    seen = signals(signals_of, work, shares(launch=1.9))
    found = judged("tc.unused", seen)
    assert (found.status, found.severity, found.note) == ("fail", "warn", None)
    assert (found.value, found.share_percent) == (30.0, 15.0)
    assert (found.ms_per_step, found.steps_clean) == (3.0, 12)
    assert found.confidence == 0.9
    assert found.devices == ("vm:0",)
    assert found.threshold == THRESHOLDS.units_warn
    assert facts_of(found) == {"eligible": 100.0}
    assert found.parts == (
        Part(name="a/MatMul", detail="sgemm", share_percent=10.0),
        Part(name="sgemm", share_percent=5.0),
    )
    assert found.evidence == (
        Evidence(
            host="vm", device=0, track="Stream", start_ps=10, end_ps=30, ops=("sgemm",)
        ),
        Evidence(host="vm", device=0, track=None, start_ps=50, end_ps=60),
    )
    # Half of 1 ms is measured, and a third to two thirds of 2 are not.
    assert found.saving_ms == Saving(
        low=pytest.approx(0.5 + 2 / 3), high=pytest.approx(0.5 + 4 / 3), open_above=True
    )
    changes = RULE["tc.unused"].changes(seen)
    third = 1 - 1 / 3
    assert fields_of(changes) == fields_of(
        (Faster([1], (third, 1 - 2 / 3)), Faster([2], (0.5, 0.5)))
    )
    only_known = worked(kernel(7.0), known)
    measured = judged("tc.unused", signals(signals_of, only_known, shares()))
    assert measured.saving_ms == Saving(low=0.5, high=0.5)


@pytest.mark.parametrize(
    ("ms", "fields", "idle_ms", "expected"),
    [
        # 5 % of the kernels are a finding, and 20 % of the step are critical.
        (0.5, {}, 0.0, ("fail", "warn", None)),
        (0.49, {}, 0.0, ("pass", "info", None)),
        (4.0, {}, 0.0, ("fail", "critical", None)),
        (3.9, {}, 0.0, ("fail", "warn", None)),
        (4.0, {"steps": 3}, 0.0, ("fail", "critical", None)),
        (4.0, {"steps": 2}, 0.0, ("fail", "warn", None)),
        (4.0, {"step_ps": 0, "has_steps": False}, 0.0, ("fail", "warn", None)),
        # A device that waits for half of the step has another problem.
        (4.0, {}, 5.0, ("fail", "info", None)),
        (4.0, {}, 4.9, ("fail", "critical", None)),
        # 0.1 ms of each step are long enough.
        (0.1, {"device_ps": MS}, 0.0, ("fail", "warn", None)),
        (0.0999, {"device_ps": MS}, 0.0, ("pass", "info", "short")),
        (0.0999, {"device_ps": MS, "has_steps": False}, 0.0, ("fail", "warn", None)),
    ],
)
def test_levels_of_the_time_of_kernels(
    signals_of: Any,
    shares: Any,
    ms: float,
    fields: dict[str, Any],
    idle_ms: float,
    *,
    expected: tuple[str, str, str | None],
) -> None:
    work = worked(kernel(10 - ms), SLOW | {"time_ps": round(ms * MS)}, **fields)
    found = judged("tc.unused", signals(signals_of, work, shares(sync=idle_ms)))
    assert (found.status, found.severity, found.note) == expected
    has_steps = fields.get("has_steps", True)
    assert (found.ms_per_step is not None) is has_steps
    assert (found.steps_clean is not None) is has_steps
    assert (found.saving_ms is not None) is (expected[0] == "fail" and has_steps)
    assert (found.share_percent is None) is (fields.get("step_ps") == 0)
    assert bool(found.actions) is (expected[0] == "fail")
    total_ps = fields.get("step_ps", 20 * MS) if has_steps else work.device_ps
    if total_ps:
        share = 100 * round(ms * MS) / total_ps
        assert found.parts[0].share_percent == pytest.approx(share)


@pytest.mark.parametrize(
    ("ms", "unknown_ms", "status"),
    [(0.4, 0.1, "cannot_tell"), (0.4, 0.09, "pass"), (0.5, 5.0, "fail")],
)
def test_kernels_of_unknown_kind_may_change_a_verdict(
    signals_of: Any, shares: Any, ms: float, unknown_ms: float, status: str
) -> None:
    rows = [
        kernel(10 - ms - unknown_ms),
        SLOW | {"time_ps": round(ms * MS)},
        kernel(unknown_ms, **UNKNOWN),
    ]
    found = judged("tc.unused", signals(signals_of, worked(*rows), shares()))
    assert found.status == status
    if status != "cannot_tell":
        assert found.confidence == min(0.9, 1 - unknown_ms / 10)
    # A product without known units may use none; a plain kernel is no product.
    rows[2] = kernel(unknown_ms, matrix_units=None)
    found = judged("tc.unused", signals(signals_of, worked(*rows), shares()))
    assert found.status == status
    rows[2] = kernel(unknown_ms, **UNKNOWN, plain=True)
    found = judged("tc.unused", signals(signals_of, worked(*rows), shares()))
    assert found.status == ("fail" if status == "fail" else "pass")


@pytest.mark.parametrize(
    ("with_op", "remedy"),
    [(0.06, Remedy.LOOK_AT_OWN_OPS), (0.05, Remedy.RECORD_KERNEL_OPS)],
)
def test_most_unknown_kernels_have_ops_or_ops_are_to_be_recorded(
    signals_of: Any, shares: Any, with_op: float, remedy: Remedy
) -> None:
    rows = [kernel(9.5), SLOW | {"time_ps": 4 * MS // 10}]
    rows += [
        kernel(with_op, **{**UNKNOWN, "op": "x"}),
        kernel(0.1 - with_op, **UNKNOWN),
    ]
    found = judged("tc.unused", signals(signals_of, worked(*rows), shares()))
    assert found.unavailable is not None
    assert found.unavailable.remedy == remedy


def test_the_longest_kernel_of_an_op_is_told(signals_of: Any, shares: Any) -> None:
    """The first op has two kernels, of 2 and 1 ms of steps of 20."""
    shorter = SLOW | {"kernel": "short", "time_ps": MS}
    work = worked(kernel(7.0), SLOW, shorter)
    found = judged("tc.unused", signals(signals_of, work, shares()))
    assert found.parts == (Part(name="a/MatMul", detail="sgemm", share_percent=15.0),)


@pytest.mark.parametrize(
    ("capabilities", "recorded", "status"),
    [
        (((6, 1), (6, 0)), "recorded", "not_applicable"),
        (((6, 1), (7, 0)), "recorded", "fail"),
        (((6, 1), None), "recorded", "not_applicable"),
        ((None,), "recorded", "fail"),
        ((), "recorded", "fail"),
        ((), "host_only", "not_applicable"),
    ],
)
def test_matrix_units_are_judged_on_devices_that_have_them(
    signals_of: Any, shares: Any, capabilities: Any, recorded: Any, status: str
) -> None:
    device = DeviceSignals(recorded=recorded, compute_capability=capabilities)
    work = worked(kernel(8.0), SLOW)
    found = judged("tc.unused", signals(signals_of, work, shares(), device=device))
    assert found.status == status


def test_products_of_odd_sizes(signals_of: Any, shares: Any) -> None:
    odd = kernel(1.0, matrix_units=False, odd_size=30)
    others = (
        kernel(1.0, matrix_units=False),
        kernel(1.0, odd_size=9),
        kernel(1.0, matrix_units=False, odd_size=9, precision="32"),
        kernel(1.0, matrix_units=False, odd_size=9, eligible=False),
        kernel(1.0, matrix_units=False, odd_size=9, collective=True),
    )
    work = worked(kernel(4.0), odd, *others)
    found = judged("tc.dims", signals(signals_of, work, shares()))
    assert (found.status, found.ms_per_step) == ("fail", 1.0)
    assert found.value == pytest.approx(100 / 9)
    assert facts_of(found) == {"odd_size": 30}
    assert found.saving_ms == Saving(low=0.3, high=0.6)
    # Without sizes a product may be of an odd one.
    unsized = worked(kernel(9.0), kernel(1.0, matrix_units=False, sized=False))
    found = judged("tc.dims", signals(signals_of, unsized, shares()))
    assert found.status == "cannot_tell"


def test_products_that_fall_back_to_32_bit(signals_of: Any, shares: Any) -> None:
    """Of 20 ms 1 is in 32 bit, 2 in 64, and 3 in 16 bit beside the matrix units."""
    work = worked(
        kernel(8.0),
        kernel(1.0, precision="32"),
        kernel(2.0, precision="64"),
        kernel(3.0, matrix_units=False),
        kernel(1.0, precision="tf32"),
        kernel(4.0, precision="32", eligible=False),
        kernel(0.5, precision="32", reorders=True),
        kernel(0.5, precision="32", told=False),
        kernel(9.0, precision="32", collective=True),
    )
    found = judged("amp.fallback", signals(signals_of, work, shares()))
    assert (found.status, found.value, found.ms_per_step) == ("fail", 30.0, 6.0)
    assert facts_of(found) == {"narrow": 55.0}
    assert found.saving_ms == Saving(
        low=pytest.approx(2.0), high=pytest.approx(4.0), open_above=True
    )
    for narrow, status in ((1.0, "fail"), (0.99, "not_applicable")):
        work = worked(kernel(narrow), kernel(10 - narrow, precision="32"))
        found = judged("amp.fallback", signals(signals_of, work, shares()))
        assert found.status == status
    # 3 % of unknown precision may be a fallback of the 5 % that count.
    unsure = worked(kernel(9.5), kernel(0.5, precision="32", told=False))
    found = judged("amp.fallback", signals(signals_of, unsure, shares()))
    assert found.status == "cannot_tell"


@pytest.mark.parametrize(
    ("casts", "doubles", "status", "note", "value"),
    [
        (0.5, 0.0, "fail", None, 5.0),
        (0.49, 0.0, "pass", None, 4.9),
        # 1 % of 64-bit work comes before less of conversions.
        (0.09, 0.1, "fail", "doubles", 1.0),
        (0.1, 0.1, "pass", None, 1.0),
        (0.0, 0.09, "pass", None, 0.0),
    ],
)
def test_conversions_and_64_bit_work(
    signals_of: Any,
    shares: Any,
    casts: float,
    doubles: float,
    *,
    status: str,
    note: str | None,
    value: float,
) -> None:
    work = worked(
        kernel(10 - casts - doubles),
        kernel(casts, converts=True),
        kernel(doubles, precision="64"),
        kernel(9.0, precision="64", collective=True),
        step_ps=2 * MS,
    )
    found = judged("amp.cast", signals(signals_of, work, shares()))
    assert (found.status, found.note) == (status, note)
    assert found.value == pytest.approx(value)
    assert facts_of(found).get("doubles") == (
        pytest.approx(10 * doubles) if doubles else None
    )
    limit = THRESHOLDS.doubles_warn if note else THRESHOLDS.cast_warn
    assert found.threshold == limit
    changes = fields_of(RULE["amp.cast"].changes(signals(signals_of, work, shares())))
    expected = Faster([2 if note else 1], (0.5, 1 - 0.9))
    assert changes == fields_of((expected,))


def test_conversions_without_any_op_are_unknown(signals_of: Any, shares: Any) -> None:
    bare = {"op": None, "op_type": None}
    for converts, status in ((False, "cannot_tell"), (True, "fail")):
        work = worked(kernel(9.0, **bare), kernel(1.0, **bare, converts=converts))
        found = judged("amp.cast", signals(signals_of, work, shares()))
        assert found.status == status
    untyped = worked(kernel(9.5), kernel(0.5, converts=None))
    found = judged("amp.cast", signals(signals_of, untyped, shares()))
    assert found.status == "cannot_tell"


@pytest.mark.parametrize(
    ("fields", "harmful"),
    [
        ({"op_type": "aten::_softmax"}, True),
        ({"op_type": "LogSoftmax"}, True),
        ({"op_type": None, "op": None, "kernel": "softmax_warp"}, True),
        ({"op_type": "Relu"}, False),
        ({"op_type": "Softmax", "precision": "32"}, False),
        ({"op_type": "Softmax", "told": False}, False),
        ({"op_type": "Softmax", "collective": True}, False),
        ({"op_type": "Softmax", "full_name": "flash_fwd"}, False),
        ({"op_type": "Softmax", "op": "attention/Softmax"}, False),
        ({"op_type": "Softmax", "full_name": "soft<half, float>"}, False),
    ],
)
def test_a_softmax_in_16_bit(
    signals_of: Any, shares: Any, fields: dict[str, Any], *, harmful: bool
) -> None:
    work = worked(kernel(3.0, **fields), kernel(1.0))
    found = judged("amp.softmax", signals(signals_of, work, shares()))
    assert found.status == ("fail" if harmful else "pass")
    assert facts_of(found) == {"softmax_kernels": int(harmful)}
    name = fields.get("op", "a/MatMul") or "softmax_warp"
    parts = (Part(name=name, share_percent=75.0),) if harmful else ()
    assert found.parts == parts


def test_runs_that_could_be_fused(signals_of: Any, shares: Any) -> None:
    work = worked(kernel(8.0), kernel(2.0, **OTHER))
    rows = work.rows[[1]].with_columns(time_ps=pl.lit(1_500 * US))
    runs = FusableRuns(rows, 4, removable=0.6)
    for has_steps, name in ((True, "runs"), (False, "runs_in_all")):
        fused = worked(
            kernel(8.0), kernel(2.0, **OTHER), runs=runs, has_steps=has_steps
        )
        seen = signals(signals_of, fused, shares())
        found = judged("fuse.runs", seen)
        assert (found.status, found.value) == ("fail", 15.0)
        assert facts_of(found) == {name: 4, "removable": 60.0}
        if has_steps:
            assert found.saving_ms == Saving(low=0.0, high=pytest.approx(0.9))
        changes = fields_of(RULE["fuse.runs"].changes(seen))
        assert changes == fields_of((Joined([1], 3, (1.0, 0.4)),))
    assert judged("fuse.runs", signals(signals_of, work, shares())).status == "pass"


@pytest.mark.parametrize(
    ("classes", "streams", "found_at"),
    [
        # 0 convolves, and 1 and 2 reorder: next to it on its stream.
        ([1, 0, 2], [7, 7, 7], [1, 2]),
        ([1, 3, 0, 2], [7, 7, 7, 7], [2]),
        ([1, 0, 2], [8, 7, 7], [2]),
        ([1, 0, 2], [7, 7, 8], [1]),
        ([1, 2], [7, 7], []),
    ],
)
def test_reorderings_next_to_convolutions(
    signals_of: Any,
    shares: Any,
    classes: list[int],
    streams: list[int],
    found_at: list[int],
) -> None:
    reorders = kernel(1.0, **OTHER) | {"reorders": True, "full_name": "nchwToNhwc"}
    rows = [kernel(6.0, op_type="Conv2D"), reorders, reorders, kernel(2.0, **OTHER)]
    starts = [10 * at for at in range(len(classes))]
    shown = pl.DataFrame(
        {
            "class": classes,
            "stream": streams,
            "start_ps": starts,
            "end_ps": [start + 5 for start in starts],
            "event": [None] * len(classes),
        },
        schema_overrides={"event": pl.Int32},
    )
    seen = signals(signals_of, worked(*rows, shown=shown[::-1]), shares())
    found = judged("layout.transpose", seen)
    assert found.value == 10.0 * len(found_at)
    expected = (Faster(found_at, (0.5, 0.0)),) if found_at else ()
    changes = RULE["layout.transpose"].changes(seen)
    assert fields_of(changes) == fields_of(expected)
    none = worked(*rows[1:], shown=shown.clear())
    found = judged("layout.transpose", signals(signals_of, none, shares()))
    assert found.status == "not_applicable"
