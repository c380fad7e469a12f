"""Device time by precision: every field of all hosts' kernels, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
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
from stepscope.derive.device.precision import PrecisionEvidence
from stepscope.derive.facts.devices.kernel_precision import (
    checking_kernels,
    finite_checks,
    narrow_kernels,
    precision_signals,
)
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.unavailable import Unavailable

US = 1_000_000
NAMES = types_named("void gemm<float>(int)", "wide_mm", "softmax_k", "half_mm", "copy")
NO_OP, LINEAR, REGION, CAST = range(4)
OPS = SimpleNamespace(
    ops=pl.DataFrame(
        {
            "name": ["", "net/linear", "Compiled Region: 0", "net/cast"],
            "type": ["", "MatMul", None, "Cast"],
            "evidence": [
                OpEvidence.NONE,
                OpEvidence.HLO,
                OpEvidence.LAUNCH,
                OpEvidence.ANNOTATION,
            ],
        }
    )
)
# Class: type, op, device; bits, fp64, tf32, evidence; eligible; its kernels' times.
NAME, SHAPE, HLO, DEFAULT = (
    PrecisionEvidence.NAME,
    PrecisionEvidence.SHAPE,
    PrecisionEvidence.HLO,
    PrecisionEvidence.DEFAULT,
)
CLASSES = (
    ((0, LINEAR, 0), (32, 0, 0, NAME), 1, (40, 20)),
    ((4, NO_OP, 0), (0, 0, 0, 0), 0, (900,)),
    ((1, REGION, 0), (32, 0, 1, SHAPE), 1, (30,)),
    ((2, CAST, 0), (32, 0, 0, NAME), -1, (5,)),
    ((3, LINEAR, 0), (16, 0, 0, HLO), 1, (7, 6)),
    ((1, NO_OP, 0), (32, 0, 0, DEFAULT), 1, (8,)),
    ((3, None, 0), (16, 0, 0, NAME), -1, (9,)),
    ((1, CAST, 0), (32, 0, 0, DEFAULT), -1, (2,)),
    ((1, NO_OP, 0), (32, 0, 0, SHAPE), -1, (1,)),
    ((0, NO_OP, 1), (32, 0, 0, SHAPE), 1, (10,)),
    ((3, CAST, 1), (16, 0, 0, NAME), 0, (3,)),
)
EVENTS = Tables(
    events=pl.DataFrame({"track": [0, 1], "type": [0, 3]}),
    event_types=NAMES,
    tracks=pl.DataFrame({"name": ["stream 0", "stream 1"]}),
)


def host_of(classes: Any = CLASSES, trace: Any = EVENTS) -> Any:
    """A host whose kernels run one after another, in us, in the order of classes."""
    rows, code = [], []
    at = 0
    for number, (of, *_, durations) in enumerate(classes):
        for dur in durations:
            rows.append(("kernel", of[2], at * US, dur * US))
            code.append(number)
            at += dur
    total = np.array([sum(each[3]) * US for each in classes], np.int64)
    count = np.array([len(each[3]) for each in classes], np.int64)
    handles = pl.DataFrame(
        [each[0] for each in classes],
        schema=dict.fromkeys(("type", "op", "device"), pl.Int32),
        orient="row",
    )
    made: Any = narrow_kernels
    return made(
        trace=trace,
        device_activity=activities(
            *rows, event=([0, None, None, 1] + [None] * len(rows))[: len(rows)]
        ),
        event_types=NAMES,
        precision=SimpleNamespace(
            of_class=np.array([each[1] for each in classes], np.uint8).reshape(-1, 4)
        ),
        tensor_cores=SimpleNamespace(
            of_class=np.array([(0, each[2], 0) for each in classes], np.int8)
        ),
        activity_classes=SimpleNamespace(code=np.array(code, np.int32), rows=handles),
        class_totals=SimpleNamespace(all=SimpleNamespace(count=count, total=total)),
    )


# The long copy lies in the second step, which is an outlier.
WINDOWS = windows_at(
    (0, 60 * US),
    (60 * US, 960 * US),
    (960 * US, 1000 * US),
    (1000 * US, 1020 * US),
    (1020 * US, 1042 * US),
    flags=[[], ["outlier"], [], [], []],
)
LENGTHS = (60, 900, 40, 20, 22)
ACCOUNT = SimpleNamespace(
    rows=pl.DataFrame(
        [
            (window, device, 0, length * US)
            for window, length in enumerate(LENGTHS)
            for device in (0, 1)
            if (window, device) != (4, 0)
        ],
        schema={
            "window": pl.Int32,
            "device": pl.Int32,
            "compile_ps": pl.Int64,
            "window_ps": pl.Int64,
        },
        orient="row",
    )
)
STEPS = SimpleNamespace(source="marker", confidence=0.75)


def signals(hosts: Any = None, **given: Any) -> Any:
    hosts = {"vm": host_of()} if hosts is None else hosts
    usual = {
        "trace": EVENTS,
        "account": ACCOUNT,
        "activity_ops": OPS,
        "steps": STEPS,
        "windows": WINDOWS,
    }
    of_hosts = {
        name: dict.fromkeys(hosts, value) for name, value in (usual | given).items()
    }
    return precision_signals.function(narrow_kernels=hosts, **of_hosts)


def test_every_field_of_the_precision_of_kernels() -> None:
    """Device 0 has three judged steps of 60, 40 and 20 us, with 90 wide us in them."""
    found = msgspec.structs.asdict(signals())
    causes = found.pop("causes")
    assert [(each.cause, each.share_percent) for each in causes] == [
        ("net/linear", pytest.approx(75 * 60 / 100)),
        ("wide_mm", pytest.approx(75 * 30 / 100)),
        ("gemm", pytest.approx(75 * 10 / 100)),
    ]
    assert found == {
        "compute_ps": 141 * US,
        "narrow_ps": (13 + 9 + 3) * US,
        "eligible_ps": (60 + 30 + 13 + 8 + 10) * US,
        "eligible_narrow_ps": 13 * US,
        "eligible_tf32_ps": 30 * US,
        "eligible_unknown_ps": 8 * US,
        # The softmax computes no product, so that it is not eligible.
        "undecided_ps": (9 + 2 + 1) * US,
        "undecided_narrow_ps": (9 + 2) * US,
        "undecided_16_ps": 9 * US,
        "undecided_with_op_ps": (2 + 1) * US,
        # 60 us in the first step, and the TF32 kernel in the third; thirds of them.
        "wide_per_step_ps": 20 * US,
        "tf32_per_step_ps": 10 * US,
        "step_confidence": 0.75,
        "step_ps": 40 * US,
        "steps": 3,
        "kernels": 12,
        "narrow_kernels": 4,
        "evidence_percent": {
            "hlo": pytest.approx(100 * 13 / 121),
            "shape": pytest.approx(100 * 40 / 121),
            "name": pytest.approx(100 * 60 / 121),
            "default": pytest.approx(100 * 8 / 121),
        },
        # Of a region that holds any op, and without an op, the kernel is named.
        "largest": (
            Fact(name="largest_op", value=60.0, unit="us", note="net/linear"),
            Fact(name="largest_op", value=30.0, unit="us", note="wide_mm"),
            Fact(name="largest_op", value=10.0, unit="us", note="gemm"),
        ),
        "devices": ("vm:0", "vm:1"),
        "evidence": (
            shown(0, 40, ("stream 0", "void gemm<float>(int)")),
            shown(960, 30, ("stream 1", "half_mm")),
            shown(40, 20),
        ),
    }


def shown(at: int, dur: int, named: tuple[str, str] | None = None) -> Evidence:
    return Evidence(
        host="vm",
        device=0,
        track=named[0] if named else None,
        start_ps=at * US,
        end_ps=(at + dur) * US,
        ops=(named[1],) if named else (),
    )


@pytest.mark.parametrize(
    "given",
    [
        {"windows": ABSENT},
        {"account": ABSENT},
        {"windows": windows_at((0, 60 * US), has_steps=False)},
        {"account": SimpleNamespace(rows=ACCOUNT.rows.filter(pl.col("device") == 1))},
    ],
)
def test_without_steps_there_are_no_means(given: Any) -> None:
    found = signals(**given)
    assert (found.wide_per_step_ps, found.tf32_per_step_ps) == (None, None)
    assert (found.step_ps, found.steps, found.causes) == (None, 0, ())
    assert found.compute_ps == 141 * US


def test_kernels_outside_the_steps_are_in_no_mean() -> None:
    """Of two kernels of 40 and 20 us, the only step holds the first."""
    found = signals(
        {"vm": host_of(CLASSES[:1])},
        windows=windows_at((0, 40 * US)),
        account=SimpleNamespace(rows=ACCOUNT.rows[:1]),
    )
    assert (found.wide_per_step_ps, found.tf32_per_step_ps) == (40 * US, 0)
    assert (found.steps, found.eligible_ps) == (1, 60 * US)


def test_ops_are_named_if_ops_and_types_were_recorded() -> None:
    unnamed = signals(activity_ops=ABSENT)
    assert (unnamed.largest, unnamed.causes) == ((), ())
    untyped = signals(trace=Tables(), steps=ABSENT)
    assert (untyped.largest, untyped.step_confidence) == ((), 0.0)
    # Of a kernel with an unknown event, neither track nor name is known.
    assert untyped.evidence[0] == shown(0, 40)


def test_ops_of_equal_time_are_named_in_order() -> None:
    classes = tuple(
        ((type_, op, 0), (32, 0, 0, NAME), 1, (4,))
        for type_, op in ((1, NO_OP), (0, NO_OP), (2, CAST), (3, NO_OP))
    )
    found = signals({"vm": host_of(classes)})
    assert [fact.note for fact in found.largest] == ["gemm", "half_mm", "net/cast"]


def test_small_shares_are_no_causes() -> None:
    """An op of one part in a hundred is named, one of less is not."""
    for dur, named in ((100, 2), (101, 1)):
        classes = (
            ((0, LINEAR, 0), (32, 0, 0, NAME), 1, (dur - 1,)),
            ((1, CAST, 0), (32, 0, 0, NAME), 1, (1,)),
        )
        found = signals({"vm": host_of(classes)})
        assert len(found.largest) == 2
        assert len(found.causes) == named


def test_the_busiest_host_has_the_steps_and_all_hosts_the_sums() -> None:
    little = host_of(CLASSES[:1])
    found = signals({"a": little, "b": ABSENT, "vm": host_of()})
    assert found.compute_ps == (141 + 60) * US
    assert (found.kernels, found.narrow_kernels, found.steps) == (14, 4, 3)
    assert found.devices == ("vm:0", "vm:0", "vm:1")
    assert found.eligible_ps == (121 + 60) * US
    assert found.evidence_percent["name"] == pytest.approx(100 * 120 / 181)
    assert found.largest[0].value == 60.0


def test_without_kernels_a_hosts_reason_is_told() -> None:
    empty = host_of(CLASSES[1:2])
    assert signals({"a": empty, "b": OTHER}) == OTHER
    assert signals({"a": empty}) == NO_KERNELS


# --- checks of gradients ---


CHECKS = types_named("isfinite", "gemm", "multi_tensor_scale_check")


def test_kernels_that_check_gradients_are_counted() -> None:
    activity = activities(*[("kernel", 0, 0, 1)] * 4, type=[0, 1, 2, 2])
    assert checking_kernels(event_types=CHECKS, device_activity=activity) == 3
    assert checking_kernels(event_types=NAMES, device_activity=activity) is None


def test_checks_of_all_hosts_add_up() -> None:
    def checks(*counts: Any) -> Any:
        hosts = dict(zip("abc", counts, strict=False))
        return finite_checks.function(checking_kernels=hosts)

    assert checks(3, ABSENT, 4) == 7
    assert checks(ABSENT, OTHER) == ABSENT
    assert checks(None, ABSENT) is None
    unnamed = checks(0, None)
    assert isinstance(unnamed, Unavailable)
    assert unnamed.code == "NO_KERNEL_DETAILS"
