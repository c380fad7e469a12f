"""Collectives and all-reduces of devices, and the rate of their link, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    activities,
    fields_of,
    types_named,
    windows_at,
)

from stepscope.derive.facts.devices.all_reduces import (
    communication_signals,
    exchange_signals,
)
from stepscope.derive.facts.evidence import Evidence
from stepscope.thresholds import THRESHOLDS

US = 1_000_000
CALLS = {
    "activity": pl.Int32,
    "device": pl.Int32,
    "step_row": pl.Int32,
    "kind": pl.String,
    "bytes": pl.Int64,
    "bus_bytes": pl.Float64,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
    "exposed_ps": pl.Int64,
    "group": pl.String,
}


def calls(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Calls of the group of all workers; each device's link carries what is reduced."""
    return pl.DataFrame(
        [
            (row, device, step, kind, size, size, start, dur, exposed, None)
            for row, (device, step, kind, size, start, dur, exposed) in enumerate(rows)
        ],
        schema=CALLS,
        orient="row",
    )


# --- the exposed time of each kind ---


SUMS = pl.DataFrame(
    [
        (0, "all-gather", 70, 3),
        (0, "all-reduce", 90, 4),
        (0, "all-to-all", 70, 1),
        (2, "all-reduce", 0, 5),
    ],
    schema={
        "device": pl.Int32,
        "kind": pl.String,
        "exposed_ps": pl.Int64,
        "count": pl.Int64,
    },
    orient="row",
)
MADE = calls(
    (0, 0, "all-reduce", 1, 10, 5, 0),
    (0, 0, "all-gather", 1, 20, 9, 8),
    (0, 0, "all-reduce", 1, 40, 9, 1),
    (0, 0, "all-to-all", 1, 30, 9, 1),
    (0, 0, "all-reduce", 1, 50, 9, 0),
    (2, 0, "all-reduce", 1, 60, 9, 0),
)
TRACE = Tables(
    "a",
    device_activity=activities(
        *[("collective", 0, 0, 1)] * 6, event=[None, 1, None, 0, None, None]
    ),
    events=pl.DataFrame({"track": [0, 1], "type": [1, 0]}),
    event_types=types_named("ncclGather", "ncclAll"),
    tracks=pl.DataFrame({"name": ["stream 0", "stream 1"]}),
)


def exposed(**hosts: Any) -> Any:
    traces = dict.fromkeys(hosts, TRACE)
    sums = {host: ABSENT if of is OTHER else SUMS for host, of in hosts.items()}
    return communication_signals.function(
        trace=traces, collectives=sums, collective_calls=hosts
    )


def longest(at: int, dur: int, track: str | None, name: str) -> Evidence:
    return Evidence(
        host="a", device=0, track=track, start_ps=at, end_ps=at + dur, ops=(name,)
    )


def test_every_field_of_the_collectives_of_devices() -> None:
    found = exposed(a=MADE, b=OTHER, c=ABSENT)
    assert found.count == {"a:0": 8, "a:2": 5, "c:0": 8, "c:2": 5}
    of_zero = [("all-reduce", 90), ("all-gather", 70), ("all-to-all", 70)]
    assert list(found.exposed_ps["a:0"].items()) == of_zero
    assert found.exposed_ps["a:2"] == {"all-reduce": 0}
    # The three with most exposed time; of equal ones the earlier first.
    assert found.longest["a:0"] == (
        longest(20, 9, "stream 1", "ncclGather"),
        longest(30, 9, "stream 0", "ncclAll"),
        longest(40, 9, None, "all-reduce"),
    )
    assert found.longest["a:2"] == found.longest["c:0"] == ()


def test_without_collectives_a_hosts_reason_is_told() -> None:
    assert exposed(a=OTHER) == ABSENT
    none = communication_signals.function(
        trace={"a": TRACE}, collectives={"a": SUMS[:0]}, collective_calls={"a": MADE}
    )
    assert fields_of(none) == {"count": {}, "exposed_ps": {}, "longest": {}}
    untold = communication_signals.function(
        trace={"a": Tables("a")}, collectives={"a": SUMS}, collective_calls={"a": MADE}
    )
    assert untold.longest["a:0"] == ()


# --- the all-reduces of the judged device ---


SMALL, LARGE = 262_144, 4_194_304
BIG = 20_000_000
OF_A = calls(
    (0, 0, "all-reduce", BIG, 100, 300 * US, 50),
    (0, 0, "all-reduce", SMALL - 1, 200, 10 * US, 5),
    (0, 0, "all-gather", BIG, 300, 7, 3),
    # Of a step that no statistics use, and of none.
    (0, 1, "all-reduce", BIG, 1100, 900 * US, 70),
    (0, 2, "all-reduce", LARGE, 2100, 60 * US, 20),
    (0, 2, "all-reduce", SMALL, 2200, 11 * US, 0),
    (0, -1, "all-reduce", 2 * BIG, 5000, US, 1),
    (1, 0, "all-reduce", BIG, 90, 200 * US, 9),
    (1, 0, "all-reduce", SMALL - 1, 400, 12 * US, 9),
    (1, 0, "broadcast", 1, 500, 12 * US, 9),
)
OF_B = calls(
    (0, 0, "all-reduce", BIG, 7000, 250 * US, 8),
    (0, 0, "all-reduce", SMALL - 1, 7500, 9 * US, 8),
    (0, 2, "all-reduce", LARGE, 9000, 50 * US, 8),
    (0, 2, "all-reduce", SMALL, 9100, 13 * US, 8),
)
WINDOWS = windows_at((0, 1000), (1000, 2000), (2000, 3100), flags=[[], ["warm_up"], []])
JUDGED = SimpleNamespace(
    host="a", device=0, label="a:0", step_source="marker", step_confidence=0.75
)
UNNAMED = pl.DataFrame(
    {"device": [1, 0], "name": ["NVIDIA H100 80GB HBM3", None]},
    schema_overrides={"device": pl.Int32},
)
H100 = UNNAMED.with_columns(name=pl.Series(["x", "NVIDIA H100 80GB HBM3"]))


def reduced(
    made: dict[str, Any] | None = None, *, windows: Any = WINDOWS, devices: Any = H100
) -> Any:
    made = {"a": OF_A, "b": OF_B} if made is None else made
    return exchange_signals.function(
        account_signals=SimpleNamespace(judged=lambda: JUDGED),
        collective_calls=made,
        devices=dict.fromkeys(made, devices),
        windows={"a": windows, "b": ABSENT},
    )


def rows_of(found: Any) -> Any:
    return found.calls.rows()


def test_every_field_of_the_all_reduces() -> None:
    """The best rate is that of 20 MB in 200 us: 100 GB/s, 10 ps a byte."""
    found = reduced()
    fields = msgspec.structs.asdict(found)
    fields.pop("calls")
    assert fields == {
        "label": "a:0",
        "kinds": frozenset({"all-reduce", "all-gather"}),
        "step_source": "marker",
        "step_confidence": 0.75,
        "closed": True,
        "window_ps": (1000, 1100),
        "exposed_ps": (55, 20),
        "count": 2.0,
        "small": 0.5,
        "bytes": (BIG + SMALL - 1 + LARGE + SMALL) / 2,
        # Three steps have a large all-reduce, of which one worker made one alone.
        "least_ps": pytest.approx((200 + 900 + 50) * US / 3),
        "expected_ps": pytest.approx((2 * BIG + LARGE) * 10 / 3 + 20 * US),
        "workers": 3,
        "gb_per_s": pytest.approx(100.0, rel=1e-12),
        "rate_source": "recording",
    }
    assert found.calls.columns == [
        *("activity", "step", "bytes", "dur_ps", "least_ps", "link_ps")
    ]
    assert rows_of(found) == [
        (0, 0, BIG, 300 * US, 200 * US, pytest.approx(200 * US)),
        (1, 0, SMALL - 1, 10 * US, 9 * US, pytest.approx(10 * (SMALL - 1))),
        (4, 2, LARGE, 60 * US, 50 * US, pytest.approx(10 * LARGE)),
        (5, 2, SMALL, 11 * US, 11 * US, pytest.approx(10 * SMALL)),
    ]


def resized(row: int, **sizes: float | None) -> dict[str, Any]:
    """The calls of both hosts, with other sizes of one call of the first."""
    at = pl.int_range(pl.len()) == row
    changed = OF_A.with_columns(
        pl.when(at).then(pl.lit(size, CALLS[name])).otherwise(name).alias(name)
        for name, size in sizes.items()
    )
    return {"a": changed, "b": OF_B}


@pytest.mark.parametrize(("row", "known"), [(1, False), (3, True), (8, True)])
def test_sizes_are_known_if_all_in_the_judged_steps_are(
    row: int, *, known: bool
) -> None:
    found = reduced(resized(row, bytes=None))
    assert (found.small is None, found.bytes is None) == (not known, not known)
    assert found.count == 2.0


def test_a_step_without_all_reduces_has_no_exposed_time() -> None:
    fewer = {"a": OF_A.filter(pl.col("step_row") != 0), "b": OF_B}
    found = reduced(fewer)
    assert (found.exposed_ps, found.count) == ((0, 20), 1.0)
    assert (found.small, found.bytes) == (0.0, (LARGE + SMALL) / 2)
    single = reduced({"a": OF_A[:1], "b": OF_B})
    assert (single.count, single.small, single.bytes) == (0.5, 0.0, BIG / 2)
    none = reduced({"a": OF_A.filter(pl.col("kind") == "all-gather"), "b": OF_B[:0]})
    assert (none.exposed_ps, none.count, none.small) == ((0, 0), 0.0, None)
    assert (none.bytes, none.least_ps, none.expected_ps) == (None, 0.0, None)
    assert (none.workers, none.gb_per_s, rows_of(none)) == (0, None, [])


def test_the_nominal_rate_is_of_a_named_device_in_one_host() -> None:
    found = reduced({"a": OF_A})
    assert found.rate_source == "data sheet"
    assert found.gb_per_s == 450 * THRESHOLDS.link_share.value / 100
    # Two all-reduces had two workers; the others are not listed.
    assert [row[0] for row in rows_of(found)] == [0, 1]
    assert rows_of(found)[0][5] == pytest.approx(BIG / 337.5 * 1000)
    mixed = OF_A.filter(pl.col("kind") == "all-gather")
    assert reduced({"a": mixed}).expected_ps is None
    for unknown in (UNNAMED, UNNAMED[:1]):
        assert reduced({"a": OF_A}, devices=unknown).rate_source == "recording"


def test_for_an_unknown_device_no_rate_is_expected() -> None:
    found = reduced(devices=ABSENT)
    assert (found.gb_per_s, found.rate_source, found.expected_ps) == (None,) * 3
    assert [row[5] for row in rows_of(found)] == [None] * 4
    assert found.least_ps > 0


def test_only_a_large_all_reduce_shows_the_rate() -> None:
    """16 MiB are enough; the fastest is the one that was alone, in 900 us."""
    enough = 16_777_216
    for size, rate in ((enough, enough / 900_000), (enough - 1, None)):
        alone = resized(3, bytes=size, bus_bytes=size)["a"]
        alone = alone.filter(pl.col("step_row") == 1)
        found = reduced({"a": alone, "b": OF_B[:0]})
        assert found.gb_per_s == (None if rate is None else pytest.approx(rate))
        assert (found.expected_ps is None) == (rate is None)


def test_large_all_reduces_that_nobody_shares_count_each() -> None:
    alone = calls(
        (0, 0, "all-reduce", BIG, 100, 300 * US, 50),
        (0, 0, "all-reduce", BIG, 900, 100 * US, 50),
        (0, 2, "all-reduce", LARGE - 1, 2100, 500 * US, 50),
    )
    found = reduced({"a": alone, "b": OF_B[:0]})
    assert (found.least_ps, found.workers) == (400 * US, 0)
    assert found.gb_per_s == pytest.approx(200.0)
    # Of the link, 40 MB need 200 us; and each of the two 20 us without any data.
    assert found.expected_ps == pytest.approx(200 * US + 40 * US)


def test_an_unknown_group_hides_what_its_link_must_carry() -> None:
    found = reduced(resized(3, bus_bytes=None))
    assert (found.expected_ps, found.gb_per_s) == (None, pytest.approx(100.0))
    # A call whose traffic is unknown is not listed.
    hidden = reduced(resized(0, bus_bytes=None))
    assert [row[0] for row in rows_of(hidden)] == [1, 4, 5]


def test_without_calls_of_the_judged_host_the_reason_is_told() -> None:
    assert reduced({"a": OTHER, "b": OF_B}) == OTHER
    assert reduced({"a": OF_A, "b": OTHER}).workers == 2
