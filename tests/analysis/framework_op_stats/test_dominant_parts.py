"""The dominant part of an op's time, from literal parts of each host."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.literal import ABSENT

from stepscope.analysis.framework_op_stats.cause import Cause, Parts, dominant_cause
from stepscope.analysis.results.tables import package_reasons

US = 1_000_000
WHY = package_reasons("framework_op_stats")


def parts(waiting: int | None = 0, untested: int = 0, **known: int) -> Parts:
    """Parts of a host in microseconds."""
    names = ("compute", "unknown", "low_occupancy", "small_grid", "transfer")
    times = {name: known.get(name, 0) * US for name in names}
    return Parts(times, None if waiting is None else waiting * US, untested * US)


def cause_of(*hosts: Parts) -> tuple[Cause, dict[str, str]]:
    """The cause, and the key of the reason of each null field."""
    cause, missing = dominant_cause(hosts, ABSENT)
    keys = {why.missing_field(""): key for key, why in WHY.items()}
    return cause, {
        one.field.removeprefix("cause."): keys[
            type(one)(field="", code=one.code, reason=one.reason, remedy=one.remedy)
        ]
        for one in missing
    }


def near(value: float) -> Any:
    return pytest.approx(value)


def test_parts_of_hosts_add_up_to_the_whole() -> None:
    first = parts(15, 5, compute=30, low_occupancy=10, small_grid=20, transfer=25)
    cause, missing = cause_of(first, parts(compute=10))
    assert cause == Cause(
        dominant="mixed",
        transfer_percent=near(100 * 25 / 110),
        utilisation_percent=near(100 * 45 / 110),
        compute_percent=near(100 * 40 / 110),
        total_us=110,
        transfer_us=25,
        waiting_us=15,
        small_grid_us=20,
        low_occupancy_us=10,
        compute_us=40,
        unknown_us=0,
        untested_us=5,
    )
    assert missing == {}


def test_low_occupancy_that_was_not_tested_is_not_zero() -> None:
    cause, missing = cause_of(parts(compute=10, untested=1), parts(transfer=5))
    assert (cause.low_occupancy_us, cause.small_grid_us) == (None, 0)
    assert (cause.compute_us, cause.dominant) == (10, "compute")
    assert missing == {"low_occupancy_us": "no_fill"}


def test_the_start_of_every_host_s_calls_must_be_known() -> None:
    hosts = parts(7, compute=60, unknown=20), parts(None, transfer=10)
    cause, missing = cause_of(*hosts)
    assert cause == Cause(
        **{
            **dict.fromkeys(Cause.__struct_fields__),
            "transfer_us": 10,
            "compute_us": 60,
            "unknown_us": 20,
            "untested_us": 0,
        }
    )
    whole = ("dominant", "total_us", "waiting_us")
    shares = ("transfer_percent", "utilisation_percent", "compute_percent")
    assert missing == {
        **dict.fromkeys((*whole, *shares), "no_starts"),
        **dict.fromkeys(("low_occupancy_us", "small_grid_us"), "no_fill"),
    }


def test_work_of_no_duration_has_no_shares() -> None:
    cause, missing = cause_of(parts())
    assert (cause.total_us, cause.waiting_us, cause.compute_us) == (0, 0, 0)
    shares = ("transfer_percent", "utilisation_percent", "compute_percent")
    assert missing == dict.fromkeys(("dominant", *shares), "no_time")


@pytest.mark.parametrize(
    ("host", "dominant", "percents"),
    [
        (parts(transfer=50, compute=50), "mixed", (50, 0, 50)),
        (parts(transfer=51, compute=49), "transfer", (51, 0, 49)),
        (parts(49, transfer=0, compute=51), "compute", (0, 49, 51)),
        (parts(21, low_occupancy=20, small_grid=10), "utilisation", (0, 100, 0)),
        # Of 100 µs, 20 may be of either.
        (parts(40, unknown=20, transfer=10, compute=30), None, (10, None, None)),
        (parts(40, unknown=10, transfer=20, compute=30), "mixed", (20, None, None)),
        (parts(20, unknown=29, compute=51), "compute", (0, None, None)),
        (parts(0, unknown=49, transfer=51), "transfer", (51, None, None)),
    ],
)
def test_a_part_dominates_with_more_than_half_whatever_the_unknown_part_is(
    host: Parts, dominant: str | None, percents: tuple[float | None, ...]
) -> None:
    cause, missing = cause_of(host)
    assert cause.dominant == dominant
    shown = (cause.transfer_percent, cause.utilisation_percent, cause.compute_percent)
    assert shown == tuple(None if part is None else near(part) for part in percents)
    unknown = host.ps["unknown"] > 0
    for name in ("utilisation_percent", "compute_percent", "small_grid_us"):
        assert missing.get(name) == ("no_fill" if unknown else None)


def test_without_work_the_reason_is_that_of_the_devices_or_that_there_was_none() -> (
    None
):
    nothing = Cause(**dict.fromkeys(Cause.__struct_fields__))
    for absent in (ABSENT, None):
        why = absent or WHY["no_work"]
        assert dominant_cause([], absent) == (nothing, [why.missing_field("cause")])
