"""Precision and placement of ops from literal values of two hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import ABSENT, OTHER, Derived, activities

from stepscope.analysis.overview_page.ops import (
    Eager,
    Placement,
    PlacementOfRun,
    PrecisionShares,
    missing_of_precision,
    op_placements,
    precision_shares,
)
from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.device.precision import (
    PrecisionEvidence,
    precision,
    why_precisions_unknown,
)
from stepscope.derive.ops.database import device_ops, host_ops, op_placement
from stepscope.unavailable import Unavailable

WHY = package_reasons("overview_page")
NAME, DEFAULT = PrecisionEvidence.NAME, PrecisionEvidence.DEFAULT
#: (duration, bits, whether TF32, whether 64 bits, evidence); a copy has no bits.
Kernel = tuple[int, int, bool, bool, PrecisionEvidence]
NARROW, TF32 = (16, False, False, NAME), (32, True, False, NAME)
WIDE, SINGLE = (64, False, True, NAME), (32, False, False, NAME)
UNKNOWN, COPY = (32, False, False, DEFAULT), (0, True, True, DEFAULT)


def shares_of(*hosts: Any) -> PrecisionShares | Unavailable:
    """Precisions of the activities of each host, or why a table is not there."""
    names = "abc"[: len(hosts)]
    tables: dict[str, Any] = {}
    widths: dict[str, Any] = {}
    for name, rows in zip(names, hosts, strict=True):
        if isinstance(rows, Unavailable):
            tables[name], widths[name] = rows, rows
            continue
        dur, *columns = zip(*rows, strict=True)
        bits, tf32, fp64, evidence = map(np.array, columns)
        tables[name] = activities(*(("kernel", 0, 0, each) for each in dur))
        widths[name] = SimpleNamespace(
            bits=bits, tf32=tf32, fp64=fp64, evidence=evidence
        )
    run: Any = Derived({precision: widths}, hosts=names, device_activity=tables)
    return precision_shares(run)


def test_kernel_time_of_all_hosts_is_divided_by_precision() -> None:
    found = shares_of(
        [(30, *NARROW), (20, *TF32), (500, *COPY)],
        ABSENT,
        [(10, *NARROW), (15, *WIDE), (24, *SINGLE), (1, *UNKNOWN)],
    )
    assert found == PrecisionShares(
        compute_16bit_percent=40,
        compute_32bit_percent=59,
        compute_tf32_percent=20,
        compute_64bit_percent=15,
        default_evidence_percent=1,
        kernels_16bit_count=2,
        kernels_total_count=6,
    )
    assert missing_of_precision(found) == []
    assert missing_of_precision(None) == []


def test_what_no_kernel_is_known_to_do_is_unknown_where_many_are() -> None:
    found = shares_of([(50, *UNKNOWN), (50, *TF32)])
    assert found == PrecisionShares(
        compute_16bit_percent=None,
        compute_32bit_percent=50,
        compute_tf32_percent=50,
        compute_64bit_percent=None,
        default_evidence_percent=50,
        kernels_16bit_count=None,
        kernels_total_count=2,
    )
    why = why_precisions_unknown(0.5)
    assert why is not None
    assert missing_of_precision(found) == [
        why.missing_field(f"precision.{field}")
        for field in (
            *("compute_16bit_percent", "compute_64bit_percent"),
            "kernels_16bit_count",
        )
    ]
    some = shares_of([(50, *UNKNOWN), (50, *NARROW)])
    assert isinstance(some, PrecisionShares)
    assert (some.compute_16bit_percent, some.compute_32bit_percent) == (50, None)
    assert (some.compute_tf32_percent, some.kernels_16bit_count) == (None, 1)


def test_without_kernels_the_reason_is_that_of_the_last_host_without_any() -> None:
    assert shares_of([(9, *COPY)], [(0, *NARROW)]) == WHY["no_kernels_of_ops"]
    assert shares_of(ABSENT, [(9, *COPY)]) == ABSENT
    assert shares_of(ABSENT, OTHER) == OTHER
    run: Any = Derived({precision: OTHER}, device_activity=activities())
    assert precision_shares(run) == OTHER


COUNTS = ("host_executions", "device_executions", "dataset_executions")
TIMES = (
    *("host_self_ps", "device_self_ps", "host_eager_self_ps", "device_eager_self_ps"),
)


def placed(
    counts: tuple[int | None, ...],
    times: tuple[int | None, ...],
    is_training: bool | None,  # noqa: FBT001 - a field of the value
) -> Any:
    named = dict(zip((*COUNTS, *TIMES), (*counts, *times), strict=True))
    return SimpleNamespace(**named, is_training=is_training)


def placement_of(*hosts: Any, **why: Any) -> PlacementOfRun:
    names = "abc"[: len(hosts)]
    run: Any = Derived(
        {
            op_placement: dict(zip(names, hosts, strict=True)),
            host_ops: why.get("no_host"),
            device_ops: why.get("no_device"),
        },
        hosts=names,
    )
    return op_placements(run)


def test_placement_is_that_of_the_sums_over_hosts() -> None:
    found = placement_of(
        placed((3, 1, 5), (30, 60, 15, 6), is_training=False),
        OTHER,
        placed((2, 4, 0), (20, 90, 10, 0), is_training=None),
    )
    assert found == PlacementOfRun(
        Placement(
            host_op_percent=50,
            device_op_percent=50,
            host_self_time_percent=25,
            device_self_time_percent=75,
            host_executions=5,
            device_executions=5,
            dataset_executions=5,
        ),
        Eager(host_percent=50, device_percent=4),
        is_training=False,
        missing=(),
    )


@pytest.mark.parametrize(
    ("answers", "is_training"),
    [((True, False), True), ((None, True), True), ((None, None), None)],
)
def test_a_run_trains_where_any_host_does(
    answers: tuple[bool | None, ...],
    is_training: bool | None,  # noqa: FBT001 - values
) -> None:
    found = placement_of(*(placed((1, 1, 0), (4, 4, 1, 1), each) for each in answers))
    assert found.is_training is is_training
    why = () if is_training else (WHY["no_names"].missing_field("is_training"),)
    assert found.missing == why


def test_of_a_side_that_some_host_does_not_tell_nothing_is_said() -> None:
    hosts = (
        placed((3, 1, 5), (30, 60, 15, 6), is_training=True),
        placed((2, None, 1), (0, None, 0, None), is_training=True),
    )
    for why, of_placement, of_device in (
        ({}, WHY["not_told"], WHY["not_told"]),
        ({"no_host": OTHER}, OTHER, WHY["not_told"]),
        ({"no_host": OTHER, "no_device": ABSENT}, ABSENT, ABSENT),
    ):
        found = placement_of(*hosts, **why)
        assert found.placement == Placement(
            host_op_percent=None,
            device_op_percent=None,
            host_self_time_percent=None,
            device_self_time_percent=None,
            host_executions=5,
            device_executions=None,
            dataset_executions=6,
        )
        assert found.eager == Eager(host_percent=50, device_percent=None)
        assert found.missing == (
            *(
                of_placement.missing_field(f"op_placement.{name}")
                for name in (
                    *("host_op_percent", "device_op_percent"),
                    *("host_self_time_percent", "device_self_time_percent"),
                    "device_executions",
                )
            ),
            of_device.missing_field("eager.device_percent"),
        )


def test_no_execution_and_no_time_have_no_shares() -> None:
    found = placement_of(placed((0, 0, 2), (0, 0, 0, 0), is_training=False))
    assert found.placement is not None
    shares = (found.placement.host_op_percent, found.placement.device_self_time_percent)
    assert shares == (None, None)
    assert found.eager == Eager(host_percent=None, device_percent=None)
    assert [one.field for one in found.missing][-2:] == [
        "eager.host_percent",
        "eager.device_percent",
    ]


def test_without_placement_on_any_host_the_reason_is_that_of_the_last() -> None:
    found = placement_of(ABSENT, OTHER)
    fields = ("op_placement", "eager", "is_training")
    why = tuple(OTHER.missing_field(field) for field in fields)
    assert found == PlacementOfRun(None, None, None, why)
