"""Every number of findings about ops, precision and metrics, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.advice.kernels import (
    MS,
    RULE,
    facts_of,
    judged,
    kernel,
    signals,
    worked,
)
from tests.support.traces.literal import fields_of

from stepscope.derive.facts.devices.kernel_limits import measured_work, op_roofs
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.savings.what_if_changes import Faster

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals


def roofs(*rows: tuple[str, float, float | None, str]) -> pl.DataFrame:
    columns = {"op": pl.String, "share": pl.Float64, "of_limit": pl.Float64}
    return pl.DataFrame(rows, schema={**columns, "bound": pl.String}, orient="row")


def hot(signals_of: Any, account: Any, table: pl.DataFrame, **fields: Any) -> Signals:
    work = worked(kernel(8.0, op="b"), kernel(2.0, op="a"), **fields)
    return signals(signals_of, work, account, extra={op_roofs: table})


def test_a_slow_op_with_much_time(signals_of: Any, shares: Any) -> None:
    """`a` reaches 15 % of its roof, a quarter of what is good, in 2.5 of 10 ms."""
    table = roofs(("b", 60.0, 30.0, "compute"), ("a", 25.0, 15.0, "memory"))
    seen = hot(signals_of, shares(), table)
    found = judged("op.hot", seen)
    assert (found.status, found.severity) == ("fail", "warn")
    assert (found.value, found.ms_per_step) == (15.0, 2.5)
    assert found.because == ("memory",)
    assert found.parts == (Part(name="a", share_percent=12.5),)
    assert found.saving_ms == Saving(low=0.0, high=pytest.approx(1.875))
    assert facts_of(found) == {"op_share": 25.0}
    changes = RULE["op.hot"].changes(seen)
    assert fields_of(changes) == fields_of((Faster([1], (1.0, 0.25)),))
    # Without steps its share is that of all kernels.
    whole = judged("op.hot", hot(signals_of, shares(), table, has_steps=False))
    assert whole.parts == (Part(name="a", share_percent=25.0),)
    assert (whole.ms_per_step, whole.steps_clean, whole.saving_ms) == (None,) * 3


@pytest.mark.parametrize(
    ("rows", "idle_ms", "status", "severity"),
    [
        ([("a", 24.9, 15.0, "memory")], 0.0, "fail", "info"),
        ([("a", 25.0, 15.0, "memory")], 5.0, "fail", "info"),
        ([("a", 25.0, 15.0, "memory")], 4.9, "fail", "warn"),
        ([("a", 10.0, 29.9, "memory")], 0.0, "fail", "info"),
        ([("a", 10.0, 30.0, "memory")], 0.0, "pass", "info"),
        ([("a", 9.9, 15.0, "memory")], 0.0, "pass", "info"),
        ([("a", 10.0, None, "memory")], 0.0, "cannot_tell", "info"),
        (
            [("a", 10.0, None, "compute"), ("b", 10.0, 5.0, "memory")],
            0.0,
            "fail",
            "info",
        ),
        ([("a", 9.9, None, "memory")], 0.0, "pass", "info"),
        ([("a", 30.0, 90.0, "memory")], 0.0, "pass", "info"),
    ],
)
def test_levels_of_hot_ops(
    signals_of: Any,
    shares: Any,
    rows: list[Any],
    idle_ms: float,
    *,
    status: str,
    severity: str,
) -> None:
    seen = hot(signals_of, shares(sync=idle_ms), roofs(*rows))
    found = judged("op.hot", seen)
    assert (found.status, found.severity) == (status, severity)
    assert bool(RULE["op.hot"].changes(seen)) is (status == "fail")


# --- the share of 16-bit work ---


@pytest.mark.parametrize(
    ("fields", "status", "severity", "note"),
    [
        ({}, "pass", "info", None),
        ({"eligible_narrow_ps": 50}, "pass", "info", None),
        ({"eligible_narrow_ps": 49}, "fail", "warn", None),
        # A tenth of all work has to be eligible.
        ({"eligible_narrow_ps": 49, "compute_ps": 1000}, "fail", "warn", None),
        (
            {"eligible_narrow_ps": 49, "compute_ps": 1001},
            "fail",
            "info",
            "share_of_all",
        ),
        (
            {"eligible_narrow_ps": 49, "compute_ps": 1001, "narrow_ps": 101},
            *("pass", "info", None),
        ),
        ({"eligible_narrow_ps": 20, "eligible_tf32_ps": 30}, "fail", "info", "tf32"),
        ({"eligible_narrow_ps": 20, "eligible_tf32_ps": 29}, "fail", "warn", None),
        (
            {"eligible_narrow_ps": 20, "eligible_unknown_ps": 29},
            *("fail", "warn", None),
        ),
        (
            {"eligible_narrow_ps": 20, "eligible_unknown_ps": 30},
            *("cannot_tell", "info", None),
        ),
        (
            {"eligible_narrow_ps": 21, "eligible_unknown_ps": 29},
            *("cannot_tell", "info", None),
        ),
        # 30 % that may be products could change the verdict, 29 % not.
        (
            {
                "eligible_narrow_ps": 40,
                "compute_ps": 200,
                "undecided_ps": 60,
                "undecided_narrow_ps": 60,
            },
            *("cannot_tell", "info", None),
        ),
        (
            {
                "eligible_narrow_ps": 40,
                "compute_ps": 200,
                "undecided_ps": 59,
                "undecided_narrow_ps": 59,
            },
            *("fail", "warn", None),
        ),
        # A pass is in doubt by any product that may be wide.
        (
            {"eligible_narrow_ps": 50, "compute_ps": 200, "undecided_ps": 1},
            *("cannot_tell", "info", None),
        ),
        (
            {
                "eligible_narrow_ps": 50,
                "compute_ps": 200,
                "undecided_ps": 1,
                "undecided_16_ps": 1,
                "undecided_narrow_ps": 1,
            },
            *("pass", "info", None),
        ),
        ({"compute_ps": 0}, "cannot_tell", "info", None),
        ({"eligible_ps": 0, "eligible_narrow_ps": 0}, "pass", "info", None),
        # Less than 1 % of a step is little.
        (
            {"eligible_narrow_ps": 0, "wide_per_step_ps": 99, "step_ps": 10_000},
            *("fail", "info", "little"),
        ),
        (
            {"eligible_narrow_ps": 0, "wide_per_step_ps": 100, "step_ps": 10_000},
            *("fail", "warn", None),
        ),
    ],
)
def test_levels_of_16_bit_work(
    signals_of: Any,
    precision_of: Any,
    fields: dict[str, int],
    *,
    status: str,
    severity: str,
    note: str | None,
) -> None:
    usual = {"compute_ps": 150, "narrow_ps": 0, "eligible_ps": 100}
    usual |= {"eligible_narrow_ps": 100, "step_ps": None}
    seen = signals_of(precision=precision_of(**usual | fields))
    found = judged("amp.share", seen)
    assert (found.status, found.severity, found.note) == (status, severity, note)


def test_every_number_of_wide_work(
    signals_of: Any, shares: Any, precision_of: Any
) -> None:
    """Of a step of 20 ms 4 are in 32 bit and 2 in TF32; 1 of each has a fast twin."""
    wide, tf32 = (
        kernel(2.0, precision=name, matrix_units=name == "tf32")
        for name in ("32", "tf32")
    )
    twins = [row | {"speedup": 4.0, "time_ps": MS} for row in (wide, tf32)]
    others = [
        wide | {"told": False},
        wide | {"eligible": False},
        wide | {"collective": True},
        kernel(3.0),
    ]
    work = worked(wide, tf32, *twins, *others)
    precision = precision_of(
        compute_ps=200,
        narrow_ps=30,
        eligible_ps=100,
        eligible_narrow_ps=20,
        eligible_tf32_ps=10,
        eligible_unknown_ps=5,
        wide_per_step_ps=4 * MS,
        tf32_per_step_ps=2 * MS,
        step_ps=20 * MS,
        devices=("vm:0", "vm:1"),
        evidence_percent={"name": 75.0},
        largest=(Fact(name="largest_op", value=1.0, unit="us", note="x"),),
    )
    seen = signals(signals_of, work, shares(), precision=precision)
    found = judged("amp.share", seen)
    assert (found.status, found.value, found.share_percent) == ("fail", 20.0, 30.0)
    assert (found.ms_per_step, found.steps_clean) == (6.0, 12)
    assert found.confidence == 0.9
    assert facts_of(found) == {
        "eligible_of_compute": 50.0,
        "narrow_of_compute": 15.0,
        "tf32_of_eligible": 10.0,
        "unknown_of_eligible": 5.0,
        "wide_per_step": 4_000.0,
        "tf32_per_step": 2_000.0,
        "narrow_kernels": 20,
        "kernels": 150,
        "decided_by_name": 75.0,
        "largest_op": 1.0,
    }
    # Of each 1 ms three quarters are measured; of 3 and 1 the gains are assumed.
    assert found.saving_ms == Saving(
        low=pytest.approx(1.5 + 3 * (1 - 1 / 1.3) + (1 - 1 / 1.1)),
        high=pytest.approx(1.5 + 3 * (1 - 1 / 3) + 1 / 2),
        open_above=True,
    )
    changes = RULE["amp.share"].changes(seen)
    assert fields_of(changes) == fields_of(
        (
            Faster([0], (1 / 1.3, 1 / 3)),
            Faster([1], (1 / 1.1, 1 / 2)),
            Faster([2], (0.25, 0.25)),
            Faster([3], (0.25, 0.25)),
        )
    )
    # Of another device's kernels no twins are known.
    other = precision_of(
        **{name: getattr(precision, name) for name in precision.__struct_fields__}
        | {"devices": ("vm:1", "vm:0")}
    )
    found = judged("amp.share", signals(signals_of, work, shares(), precision=other))
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(4 * (1 - 1 / 3) + 2 / 2)


# --- measured kernels ---


def measured(
    signals_of: Any, shares: Any, *metrics: dict[str, Any], **fields: Any
) -> Signals:
    """Kernels of 2, 1, … ms with metrics, beside one of the rest of 10 ms."""
    rows = [kernel(2.0 / (at + 1)) for at in range(len(metrics))]
    work = worked(*rows, device_ps=10 * MS, **fields)
    table = work.rows.hstack(
        pl.DataFrame(list(metrics), infer_schema_length=None).with_columns(
            confidence=pl.Series([0.8, 0.7][: len(metrics)])
        )
    )
    return signals(signals_of, work, shares(), extra={measured_work: table})


@pytest.mark.parametrize(
    ("conflicts", "status", "value", "high"),
    [
        ((20.0, 19.9), "fail", 20.0, 0.4),
        ((50.0, 30.0), "fail", 30.0, 1.3),
        ((19.9, 10.0), "pass", 0.0, None),
        # What was not measured may have the fault.
        ((None, 10.0), "cannot_tell", None, None),
        ((50.0, None), "fail", 20.0, 1.0),
    ],
)
def test_bank_conflicts_of_measured_kernels(
    signals_of: Any,
    shares: Any,
    conflicts: tuple[float | None, float | None],
    *,
    status: str,
    value: float | None,
    high: float | None,
) -> None:
    metrics = [
        {"bank_conflict_percent": percent, "stall_percent": 7.0}
        for percent in conflicts
    ]
    found = judged("kernel.conflicts", measured(signals_of, shares, *metrics))
    assert (found.status, found.value) == (status, value)
    if high is not None:
        assert found.saving_ms == Saving(low=0.0, high=pytest.approx(high))
        facts = facts_of(found)
        assert (facts["conflicts"], facts["stall"]) == (conflicts[0], 7.0)
        assert facts["unmeasured"] == (10.0 if None in conflicts else 0.0)
        assert found.confidence == (0.7 if value == 30.0 else 0.8)


@pytest.mark.parametrize(
    ("metrics", "share"),
    [
        # Of 1000 bytes in L1 10 sectors are 320; without bytes 10 of 40 sectors.
        ({"local_memory_sectors": 10.0, "l1_bytes": 1000.0}, 0.32),
        ({"local_memory_sectors": 10.0}, 0.25),
        ({"local_memory_sectors": 0.0, "l1_bytes": 0.0}, 0.0),
        ({"local_memory_sectors": 10.0, "l1_bytes": 320.0 * 10}, 0.1),
        ({"local_memory_sectors": 10.0, "l1_bytes": 3201.0}, None),
        ({"local_memory_sectors": 10.0, "l1_bytes": 100.0}, 1.0),
    ],
)
def test_spilled_registers_of_measured_kernels(
    signals_of: Any, shares: Any, metrics: dict[str, float], share: float | None
) -> None:
    usual = {"global_load_sectors": 20.0, "global_store_sectors": 10.0}
    usual |= {"registers": 200.0, "local_memory_sectors": 0.0, "l1_bytes": None}
    schema = {"l1_bytes": pl.Float64}
    table = pl.DataFrame([usual | metrics], schema_overrides=schema)
    seen = measured(signals_of, shares, table.row(0, named=True))
    found = judged("kernel.spills", seen)
    if not share:
        assert found.status == "pass"
        return
    assert found.status == "fail"
    assert facts_of(found)["local"] == pytest.approx(100 * share)
    assert facts_of(found)["registers"] == 200.0
    assert found.saving_ms == Saving(low=0.0, high=pytest.approx(2 * share))


def test_kernels_bound_by_memory(signals_of: Any, shares: Any) -> None:
    for compute, saved in ((60.0, 0.25), (20.0, 0.5)):
        metrics = {"bound": "memory", "compute_percent": compute}
        metrics |= {"memory_level": "l2", "dram_percent": 30.0}
        seen = measured(signals_of, shares, metrics | {"memory_percent": 80.0})
        found = judged("kernel.bound", seen)
        assert found.value == 20.0
        assert facts_of(found)["memory"] == 80.0
        assert facts_of(found)["compute"] == compute
        if found.saving_ms is not None:
            assert found.saving_ms.high == pytest.approx(2 * saved)
