"""Numbers of one memory from literal rows: use before, facts, and warnings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from stepscope.analysis.memory_profile.memory import (
    Facts,
    MemoryPeak,
    MemoryWarning,
    memory_facts,
    passed_thresholds,
)
from stepscope.analysis.memory_profile.rows import MemoryView
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = ("allocated_bytes", "stack_bytes", "heap_bytes", "free_bytes", "peak_bytes")
SCHEMA = {
    "kind": pl.String,
    **dict.fromkeys(("address", *SIZES, "capacity_bytes"), pl.Int64),
    "older_counted": pl.Boolean,
}
FREED = {"kind": "deallocate"}
HELD = {"kind": "held"}


def view_of(
    *events: dict[str, Any],
    rows: Sequence[int] | None = None,
    known: Sequence[bool] = (),
    heap: Sequence[int] = (),
    in_use: Sequence[int] = (),
    source: Sequence[int] = (),
    replayed: bool = False,
) -> MemoryView:
    """A memory of these events, by default allocations and all of its host's rows."""
    empty = {**dict.fromkeys(SCHEMA), "kind": "allocate"}
    table = pl.DataFrame([{**empty, **event} for event in events], schema=SCHEMA)
    chosen = list(range(len(events)) if rows is None else rows)
    memory: Any = SimpleNamespace(
        rows=np.array(chosen),
        known=np.array(known or [True] * len(chosen)),
        heap_bytes=np.array(heap or [0] * len(chosen)),
        in_use_bytes=np.array(in_use or heap or [0] * len(chosen)),
        replayed=replayed,
        peak=None,
    )
    replay: Any = SimpleNamespace(source=np.array(source or [-1] * len(events)))
    steps: Any = None
    return MemoryView(table, replay, memory, steps, ())


@pytest.mark.parametrize(
    ("first", "before"),
    [
        ({"allocated_bytes": 100}, (200, 20)),
        ({**FREED, "allocated_bytes": 100}, (400, 20)),
        # The size of what is freed is that of its allocation.
        (FREED, (340, 20)),
    ],
)
def test_the_use_before_all_events_follows_from_the_first(
    first: dict[str, Any], before: tuple[int | None, int]
) -> None:
    view = view_of(
        *({"allocated_bytes": 40}, {"allocated_bytes": 7}, first),
        {"allocated_bytes": 1},
        rows=(2, 3),
        known=(True, False),
        heap=(300, 301),
        in_use=(320, 330),
        source=(1, 1, 0, 1),
    )
    assert view.use_after(-1) == before
    assert view.use_after(0) == (300, 20)
    assert view.use_after(1) == (None, 0)


def test_the_use_before_an_event_without_size_or_use_is_unknown() -> None:
    unsized = view_of({"allocated_bytes": 5}, FREED, rows=(1,), heap=(30,))
    assert unsized.use_after(-1) == (None, 0)
    unknown = view_of({"allocated_bytes": 5}, known=(False,), heap=(30,))
    assert unknown.use_after(-1) == (None, 0)


@pytest.mark.parametrize(
    ("counted", "replayed", "uncounted"),
    [
        ((True, True, False), False, False),
        ((True, False, True), False, True),
        ((None, None, False), False, False),
        ((True, False, True), True, False),
    ],
)
def test_older_blocks_are_not_counted_where_an_event_of_the_memory_says_so(
    counted: tuple[bool | None, ...], *, replayed: bool, uncounted: bool
) -> None:
    events = [{"older_counted": each} for each in counted]
    view = view_of(*events, rows=(0, 1), replayed=replayed)
    assert view.older_uncounted == uncounted


def test_older_blocks_are_known_where_the_memory_lists_one() -> None:
    assert view_of({}, HELD).older_known
    assert not view_of({}, HELD, rows=(0,)).older_known


def test_facts_of_a_memory_are_of_its_own_events() -> None:
    parts = {"stack_bytes": 1, "heap_bytes": 10, "free_bytes": 100}
    view = view_of(
        {**FREED, "capacity_bytes": 9_999, "peak_bytes": 9_999, "address": 1},
        {**parts, "peak_bytes": 40},
        {**FREED, **parts, "free_bytes": 500, "peak_bytes": 50},
        {**FREED, **parts, "capacity_bytes": 300},
        {**HELD, **parts, "free_bytes": None},
        rows=(1, 2, 3, 4),
        heap=(10, 20, 30, 5),
    )
    assert memory_facts(view) == Facts(
        frees=2,
        held=1,
        placed=False,
        capacity=511,
        least_capacity=111,
        lifetime_peak=50,
    )


def test_a_lifetime_peak_is_no_less_than_the_heap_and_unknown_without_record() -> None:
    assert memory_facts(view_of({"peak_bytes": 5}, heap=(8,))).lifetime_peak == 8
    unknown = memory_facts(view_of({"address": 4}, heap=(8,)))
    assert unknown == Facts(0, 0, True, None, None, None)  # noqa: FBT003 - a field


@pytest.mark.parametrize(
    ("events", "placed"),
    [(({"address": 4}, {}), True), (({}, HELD), False), ((HELD, HELD), True)],
)
def test_frees_can_be_matched_by_addresses_or_where_there_are_none(
    events: tuple[dict[str, Any], ...], *, placed: bool
) -> None:
    assert memory_facts(view_of(*events)).placed == placed


NEARLY, FULL = THRESHOLDS.memory_warn.value, THRESHOLDS.memory_critical.value
DIVIDED = THRESHOLDS.fragmented.value
LEAST_FREE = round(THRESHOLDS.worth_defragmenting.value * 10_000)


def peak_of(in_use: int, free: int | None, divided: float | None) -> MemoryPeak:
    fields = dict.fromkeys(MemoryPeak.__struct_fields__)
    known = {"memory_in_use_bytes": in_use, "free_bytes": free}
    return MemoryPeak(**fields | known | {"fragmentation": divided})


def full(value: float, severity: str, threshold: float) -> MemoryWarning:
    return MemoryWarning(
        kind="near_capacity",
        severity=severity,
        value=pytest.approx(value),
        threshold=threshold,
    )


def divided(value: float) -> MemoryWarning:
    return MemoryWarning(
        kind="fragmentation", severity="warning", value=value, threshold=DIVIDED
    )


@pytest.mark.parametrize(
    ("peak", "warnings"),
    [
        ((9_199, 0, None), ()),
        ((9_200, 0, None), (full(0.92, "warning", NEARLY),)),
        ((9_699, 0, None), (full(0.9699, "warning", NEARLY),)),
        ((9_700, 0, None), (full(0.97, "critical", FULL),)),
        ((9_700, 1_000, 0.5), (full(0.97, "critical", FULL), divided(0.5))),
        ((10, LEAST_FREE, DIVIDED), (divided(DIVIDED),)),
        ((10, LEAST_FREE - 1, DIVIDED), ()),
        ((10, LEAST_FREE, DIVIDED - 0.001), ()),
        ((10, None, 0.9), ()),
        ((10, 9_000, None), ()),
    ],
)
def test_warnings_of_a_peak_at_their_thresholds(
    peak: tuple[int, int | None, float | None], warnings: tuple[MemoryWarning, ...]
) -> None:
    assert passed_thresholds(peak_of(*peak), 10_000) == warnings
    for unknown in (None, 0):
        assert passed_thresholds(peak_of(*peak), unknown) == ()


def test_without_a_peak_nothing_is_warned_of() -> None:
    assert passed_thresholds(None, 10_000) == ()
