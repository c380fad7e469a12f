"""Collectives by kind from literal rows of two hosts, and the size of the model."""

from __future__ import annotations

import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER, Derived

from stepscope.analysis.overview_page.collectives import (
    Collective,
    collective_kinds,
    described_parameters,
    missing_of_collectives,
)
from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.collectives.calls import collectives
from stepscope.units import GIB

WHY = package_reasons("overview_page")
SCHEMA = {
    "kind": pl.String,
    **dict.fromkeys(("count", "total_ps", "exposed_ps", "bytes"), pl.Int64),
    **dict.fromkeys(("sized_ps", "bus_bytes", "bus_ps"), pl.Int64),
}
S, US = 10**12, 10**6
ROWS = {
    # (kind, count, total, exposed, bytes, their time, bytes of links, their time)
    "a": [
        ("all-gather", 2, 600 * US, 100 * US, None, 0, None, 0),
        ("all-reduce", 4, 400 * US, 0, GIB, S, None, 0),
        ("all-reduce", 1, 50 * US, 50 * US, None, 0, None, 0),
    ],
    "b": [
        ("all-reduce", 5, 150 * US, 30 * US, 2 * GIB, 2 * S, 3 * GIB, 2 * S),
        ("all-to-all", 1, 600 * US, 1 * US, 0, 5, 0, 0),
    ],
}


def run_of(**hosts: object) -> Derived:
    """A host's collectives, or why it has none."""
    frames = {
        host: pl.DataFrame(rows, schema=SCHEMA, orient="row")
        if isinstance(rows, list)
        else rows
        for host, rows in hosts.items()
    }
    return Derived({collectives: frames}, hosts=tuple(hosts))


def kinds_of(run: Derived, **given: float | None) -> object:
    asked = {"step_count": None, "parameters": None, "gib_per_s": None, **given}
    return collective_kinds(run, run.hosts, **asked)  # type: ignore[arg-type]


def test_collectives_of_a_kind_are_added_up_and_the_shortest_mean_is_kept() -> None:
    found = kinds_of(run_of(**ROWS), step_count=5)
    assert found == (
        Collective(
            kind="all-gather",
            count=2,
            count_per_step=pytest.approx(2 / 5),
            mean_us=300,
            min_over_devices_us=300,
            exposed_us=100,
            bytes=None,
            gib_per_s=None,
            bus_gib_per_s=None,
            expected_us=None,
        ),
        # As long as the gathers, and listed by name.
        Collective(
            kind="all-reduce",
            count=10,
            count_per_step=pytest.approx(10 / 3 / 5),
            mean_us=60,
            min_over_devices_us=30,
            exposed_us=80,
            bytes=3 * GIB,
            gib_per_s=pytest.approx(1),
            bus_gib_per_s=pytest.approx(1.5),
            expected_us=None,
        ),
        Collective(
            kind="all-to-all",
            count=1,
            count_per_step=pytest.approx(1 / 5),
            mean_us=600,
            min_over_devices_us=600,
            exposed_us=1,
            bytes=0,
            gib_per_s=0,
            bus_gib_per_s=None,
            expected_us=None,
        ),
    )


@pytest.mark.parametrize(
    ("parameters", "gib_per_s", "expected_us"),
    [(GIB, 2.0, 2e6), (0, 2.0, 0), (None, 2.0, None), (GIB, None, None)],
)
def test_an_all_reduce_is_expected_to_move_four_bytes_of_each_parameter(
    parameters: int | None, gib_per_s: float | None, expected_us: float | None
) -> None:
    found = kinds_of(run_of(**ROWS), parameters=parameters, gib_per_s=gib_per_s)
    assert isinstance(found, tuple)
    assert [one.expected_us for one in found] == [expected_us] * 3
    assert [one.count_per_step for one in found] == [None] * 3


def test_hosts_without_collectives_are_left_out_unless_none_has_any() -> None:
    only = kinds_of(run_of(a=ABSENT, b=ROWS["b"]))
    assert isinstance(only, tuple)
    assert [(one.kind, one.count) for one in only] == [
        ("all-to-all", 1),
        ("all-reduce", 5),
    ]
    assert kinds_of(run_of(a=ABSENT, b=OTHER)) == OTHER
    assert kinds_of(run_of(a=[])) == ()


def test_why_fields_of_collectives_are_unknown() -> None:
    found = kinds_of(run_of(**ROWS), parameters=1, gib_per_s=1.0)
    assert isinstance(found, tuple)
    of_sizes = [
        WHY["no_sizes"].missing_field("collectives.bytes"),
        WHY["no_sizes"].missing_field("collectives.gib_per_s"),
        WHY["no_groups"].missing_field("collectives.bus_gib_per_s"),
    ]
    assert missing_of_collectives(found) == of_sizes
    assert missing_of_collectives(found[1:2]) == []
    assert missing_of_collectives(found[2:]) == of_sizes[2:]
    assert missing_of_collectives(None) == []


def described(*variables: tuple[list[int] | None, bool | None]) -> pl.DataFrame:
    return pl.DataFrame(
        variables,
        schema={"shape": pl.List(pl.Int64), "trainable": pl.Boolean},
        orient="row",
    )


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        # A variable counts unless it is said not to be trained; a scalar is one.
        ((([3, 4], True), ([5], None), ([100], False), ([], True)), 12 + 5 + 1),
        ((([3, 4], True), (None, True)), None),
        ((([3, 4], True), (None, False)), 12),
        ((), 0),
    ],
)
def test_the_parameters_of_a_described_model(
    variables: tuple[tuple[list[int] | None, bool | None], ...], count: int | None
) -> None:
    run = Derived({}, parameters=described(*variables))
    assert described_parameters(run, ["vm"]) == count  # type: ignore[arg-type]


def test_the_first_host_that_describes_the_model_counts() -> None:
    tables = {"a": ABSENT, "b": described(([2], True)), "c": described(([9], True))}
    run = Derived({}, parameters=tables)
    assert described_parameters(run, ["a", "b", "c"]) == 2  # type: ignore[arg-type]
    assert described_parameters(run, ["a"]) is None  # type: ignore[arg-type]
