"""Fetches and copies of batches of literal hosts, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    activities,
    fields_of,
    spans_of,
    types_named,
    windows_at,
)

from stepscope.derive.facts.hosts import batch_fetches
from stepscope.derive.facts.hosts.batch_fetches import (
    InputSignals,
    _mean_fetches,
    host_fetches,
    input_signals,
)

MIB = 2**20
STEPS = ((0, 100), (100, 200), (200, 300))
WAITS = ((10, 30), (90, 120), (150, 200), (300, 310))


def timeline(*devices: tuple[int, list[int], list[int]]) -> Any:
    """Devices with the rows of their activities in order of time, and their starts."""
    return SimpleNamespace(
        devices=[
            SimpleNamespace(
                device=device, rows=np.array(rows), start_ps=np.array(starts, np.int64)
            )
            for device, rows, starts in devices
        ]
    )


def fetched(**given: Any) -> InputSignals:
    tables = {
        name: given.pop(name)
        for name in ("device_activity", "event_types")
        if name in given
    }
    with mock.patch.object(
        batch_fetches,
        "records_fetches",
        lambda trace, classes: (
            (trace.host, classes.input_wait) == ("vm", spans_of(*WAITS))
        ),
    ):
        return host_fetches(
            **{
                "trace": Tables(**tables),
                "iterators": ABSENT,
                "host_classes": SimpleNamespace(input_wait=spans_of(*WAITS)),
                "device_sets": ABSENT,
                "device_timeline": ABSENT,
                "windows": windows_at(*STEPS),
                **given,
            }
        )


def test_fetches_last_for_the_mean_of_each_step_with_some() -> None:
    """Two fetches of 30 ps in the first step, of 70 ps in the second, then none."""
    sets = SimpleNamespace(
        devices=[
            SimpleNamespace(device=0, busy=spans_of((0, 20), (110, 160))),
            SimpleNamespace(device=3, busy=spans_of()),
        ]
    )
    assert fields_of(fetched(device_sets=sets)) == {
        "consumer_recorded": True,
        "parallel": None,
        "ahead": None,
        "mean_fetch_ps": {"vm": (15.0, 35.0)},
        "hidden_fetch_ps": {"vm:0": (5.0, 10.0), "vm:3": (0.0, 0.0)},
        "pieces": {},
        "pinned": frozenset(),
    }


@pytest.mark.parametrize(
    ("names", "parallel", "ahead"),
    [
        ((), None, None),
        (("Iterator::Batch", "Iterator::Batch::ParallelMapV2"), True, None),
        (("Iterator::MapAndBatch", "Iterator::MapAndBatch::Range"), True, False),
        (("Iterator::Prefetch", "Iterator::Prefetch::Batch"), False, True),
        (("_MultiProcessingDataLoaderIter", None), True, True),
    ],
)
def test_names_of_iterators_say_how_batches_are_made(
    names: tuple[str | None, ...], *, parallel: bool | None, ahead: bool | None
) -> None:
    table = pl.DataFrame({"long_name": pl.Series(names, dtype=pl.String)})
    found = fetched(iterators=table)
    assert (found.parallel, found.ahead) == (parallel, ahead)


#: Names of types: a copy from pinned memory, another, one without a name.
TYPES = types_named("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable)", None)


def copies_of(*kinds: tuple[str, int], **columns: Any) -> Any:
    """Activities of device 0, one every 10 ps: their kind and bytes."""
    rows = [(kind, 0, 10 * at, 5) for at, (kind, _) in enumerate(kinds)]
    return activities(*rows, bytes=[size for _, size in kinds], **columns)


BIG, SMALL = ("h2d", MIB), ("h2d", MIB - 1)
KERNEL, FILL = ("kernel", 9 * MIB), ("memset", 9 * MIB)
WITHIN, EXCHANGE = ("local_copy", 9 * MIB), ("collective", 9 * MIB)
BACK = ("d2h", 9 * MIB)


@pytest.mark.parametrize(
    ("kinds", "pieces"),
    [
        ([BIG], 1.0),
        ([BIG, BIG, BIG], 1.0),
        ([BIG, SMALL, BIG, FILL, BIG, BACK, BIG], 1.0),
        ([BIG, KERNEL, BIG], 2.0),
        ([KERNEL, KERNEL, BIG, KERNEL, KERNEL], 1.0),
        ([BIG, WITHIN, BIG, EXCHANGE, BIG, BIG, KERNEL], 3.0),
        ([SMALL, KERNEL, SMALL], 0.0),
    ],
)
def test_kernels_divide_large_copies_into_groups(kinds: Any, pieces: float) -> None:
    table = copies_of(*kinds)
    rows = list(range(len(kinds)))
    placed = timeline((0, rows, [10 * row for row in rows]))
    found = fetched(
        device_activity=table,
        event_types=TYPES,
        device_timeline=placed,
        windows=windows_at((0, 100)),
    )
    assert found.pieces == {"vm:0": pieces}


def test_groups_are_counted_in_each_step_of_each_device() -> None:
    """Rows are in any order; a group counts in the step in which it begins."""
    table = activities(
        *(("h2d", 0, 100, 5), ("kernel", 0, 50, 5), ("h2d", 0, 0, 5)),
        *(("h2d", 1, 210, 5), ("h2d", 0, 70, 5), ("kernel", 0, 80, 5)),
        *(("memset", 2, 80, 5), ("h2d", 0, 300, 5), ("h2d", 0, 60, 5)),
        bytes=[MIB, None, MIB, MIB, MIB, None, None, MIB, MIB],
        type=[0, 1, 0, 1, 0, 1, 1, 0, 0],
    )
    placed = timeline(
        (0, [2, 1, 8, 4, 5, 0, 7], [0, 50, 60, 70, 80, 100, 300]),
        (1, [3], [210]),
        (2, [6], [80]),
    )
    found = fetched(device_activity=table, event_types=TYPES, device_timeline=placed)
    # Device 0: two groups, one, none; device 1: none, none, one.
    assert found.pieces == {"vm:0": 1.0, "vm:1": 0.0}
    assert found.pinned == frozenset({"vm:0"})
    assert fetched(device_activity=table, event_types=TYPES).pieces == {}
    for missing in ("device_activity", "event_types"):
        known = {"device_activity": table, "event_types": TYPES, missing: ABSENT}
        without = fetched(**known, device_timeline=placed)
        assert (without.pieces, without.pinned) == ({}, frozenset())


@pytest.mark.parametrize(
    ("types", "sizes", "pinned"),
    [
        ([0, 0], [MIB, MIB], True),
        ([0, 1], [MIB, MIB], False),
        ([0, 2], [MIB, MIB], False),
        ([0, 1], [MIB, MIB - 1], True),
        ([0, 1], [MIB, None], True),
        ([0, 0], [MIB - 1, None], False),
    ],
)
def test_all_large_copies_must_be_from_pinned_memory(
    types: list[int], sizes: list[int | None], *, pinned: bool
) -> None:
    table = activities(*(("h2d", 1, 0, 5), ("h2d", 1, 10, 5)), type=types, bytes=sizes)
    found = fetched(device_activity=table, event_types=TYPES)
    assert found.pinned == (frozenset({"vm:1"}) if pinned else frozenset())


def signals(**fields: Any) -> InputSignals:
    nothing: Any = {
        "consumer_recorded": False,
        "parallel": False,
        "ahead": False,
        "mean_fetch_ps": {},
        "hidden_fetch_ps": {},
    }
    return InputSignals(**{**nothing, **fields})


@pytest.mark.parametrize("field", ["consumer_recorded", "parallel", "ahead"])
def test_fetches_of_all_hosts_are_collected(field: str) -> None:
    a = signals(
        **{field: True},
        mean_fetch_ps={"a": (1.0,)},
        hidden_fetch_ps={"a:0": (2.0,)},
        pieces={"a:0": 3.0},
        pinned=frozenset({"a:0"}),
    )
    b = signals(
        mean_fetch_ps={"b": (4.0,)},
        hidden_fetch_ps={"b:0": (5.0,)},
        pieces={"b:1": 6.0},
        pinned=frozenset({"b:1"}),
    )
    both = input_signals.function(host_fetches={"a": a, "b": b, "c": ABSENT})
    assert fields_of(both) == fields_of(
        signals(
            **{field: True},
            mean_fetch_ps={"a": (1.0,), "b": (4.0,)},
            hidden_fetch_ps={"a:0": (2.0,), "b:0": (5.0,)},
            pieces={"a:0": 3.0, "b:1": 6.0},
            pinned=frozenset({"a:0", "b:1"}),
        )
    )
    assert input_signals.function(host_fetches={"a": OTHER, "b": ABSENT}) == OTHER


def test_a_step_may_have_a_single_fetch() -> None:
    steps = windows_at((0, 100), (100, 200), (200, 300)).measured
    waits = spans_of((10, 30), (110, 115), (120, 130))
    assert _mean_fetches(steps, waits) == (20.0, 7.5)
    busy = spans_of((15, 25), (125, 160)) & waits
    assert _mean_fetches(steps, waits, within=busy) == (10.0, 2.5)
