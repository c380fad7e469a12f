"""Categories of drawn rows, and means over devices, by their definitions."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER

from stepscope.analysis.steps.rows import (
    category_columns,
    mean_over_devices,
    present_categories,
    why_no_category,
)
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.unavailable import Unavailable

NO_DEVICE = Unavailable(code="NO_DEVICE_PLANE", reason="None.", remedy="Use one.")
NAMES = [owner.name for owner in OWNERS]
#: Owners of time in which a device works.
OF_DEVICES = (
    *("compute_16", "compute_tf32", "compute_32", "compute_64", "memset"),
    *("collective", "copy_within", "copy_out", "copy_in", "transfer_wait"),
)
Row = dict[str, int | None]


def drawn(seed: int) -> tuple[list[Row], dict[str, Unavailable]]:
    """Rows in which some owners are unknown or have no time; why some are missing."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    rows: list[Row] = [{} for _ in range(chance.randint(1, 4))]
    has_devices = chance.random() < 0.7
    why = {}
    for name in NAMES:
        kind = chance.choice(["zero", "zero", "some", "unknown"])
        if name == "unexplained" or (name in OF_DEVICES and not has_devices):
            kind = "some" if name == "unexplained" else "unknown"
        for row in rows:
            row[name] = chance.choice([0, 5, 20]) if kind == "some" else 0
        if kind == "unknown":
            chance.choice(rows)[name] = None
        if name != "unexplained" and chance.random() < 0.35:
            why[name] = chance.choice([ABSENT, OTHER, NO_DEVICE])
    return rows, why


def frame_of(rows: list[Row]) -> pl.DataFrame:
    columns = {f"{name}_ps": [row[name] for row in rows] for name in NAMES}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))


def owners_of(category: str) -> list[str]:
    return [owner.name for owner in OWNERS if owner.category == category]


def is_measured(name: str, rows: list[Row], why: dict[str, Unavailable]) -> bool:
    times = [row[name] for row in rows]
    return None not in times and (name not in why or any(times))


def is_shown(category: str, rows: list[Row], why: dict[str, Unavailable]) -> bool:
    measured = [name for name in owners_of(category) if is_measured(name, rows, why)]
    # What threads wait for each other is `other` where no device is known to.
    if category == "device_collectives" and "collective" not in measured:
        return False
    lost = False
    for name in owners_of(category):
        of_device = category in {"output", "device_collectives"}
        if name in why and (of_device or why[name] != NO_DEVICE):
            lost = True
    has_time = any(row[name] for name in measured for row in rows)
    return bool(measured) and (has_time or not lost or category == "other")


@pytest.mark.parametrize("seed", range(60))
def test_categories_that_can_be_shown_add_up_to_the_time_of_each_row(
    seed: int,
) -> None:
    rows, why = drawn(seed)
    table = frame_of(rows)
    shown = [category for category in CATEGORIES if is_shown(category, rows, why)]
    measured = [name for name in NAMES if is_measured(name, rows, why)]
    assert present_categories(table, why) == (shown, measured)
    expected: list[dict[str, int]] = []
    for row in rows:
        times = {
            f"{category}_ps": sum(
                row[name] or 0 for name in owners_of(category) if name in measured
            )
            for category in shown
        }
        whole = sum(time or 0 for time in row.values())
        times["other_ps"] += whole - sum(times.values())
        expected.append(times)
    assert category_columns(table, why).to_dicts() == expected


def test_without_rows_nothing_is_shown() -> None:
    assert present_categories(frame_of([]), {}) == ([], [])


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ({}, None),
        ({"sync": ABSENT}, None),
        ({"copy_in": NO_DEVICE}, NO_DEVICE),
        ({"copy_in": NO_DEVICE, "input": OTHER}, OTHER),
        ({"copy_in": ABSENT, "input": OTHER}, ABSENT),
    ],
)
def test_a_missing_device_is_the_last_reason_for_a_category(
    why: dict[str, Unavailable], reason: Unavailable | None
) -> None:
    assert why_no_category("input", why) == reason


def of_window(window: int, device: int | None, **known: Any) -> dict[str, Any]:
    """A row of a device: time by owner and what windows have."""
    times = {f"{name}_ps": known.pop(name, 0) for name in NAMES}
    about = {"host": "a", "window": window, "step": 7 + window, "name": f"s{window}"}
    about |= {"marker": "train", "batches": 2, "start_ps": 100 * window}
    about |= {"open_end": False, "flags": ["x"], "gap_ps": window, "device": device}
    measures = ("device_step_time_ps", "device_busy_ps", "device_working_ps")
    unknown: dict[str, Any] = dict.fromkeys((*measures, "idle_input_ps"))
    whole = sum(time or 0 for time in times.values())
    return {**about, **unknown, **times, "window_ps": whole, **known}


def test_a_mean_over_devices_keeps_the_sum_of_each_window() -> None:
    rows = [
        of_window(
            *(4, 1),
            input=4,
            launch=5,
            sync=1,
            device_busy_ps=3,
            device_step_time_ps=8,
            idle_input_ps=4,
        ),
        of_window(
            *(4, 0),
            input=3,
            launch=6,
            unexplained=1,
            device_busy_ps=8,
            device_step_time_ps=5,
            idle_input_ps=None,
        ),
        of_window(2, 0, compute_32=9, device_busy_ps=9, device_working_ps=7),
    ]
    found = mean_over_devices(pl.DataFrame(rows, schema_overrides={"device": pl.Int32}))
    first, second = found.to_dicts()
    assert (first["window"], first["step"], first["name"]) == (4, 11, "s4")
    assert (first["start_ps"], first["window_ps"], first["gap_ps"]) == (400, 10, 4)
    assert (first["devices"], first["rows"]) == (2, 2)
    # Of 7/2, 11/2, 1/2 and 1/2, which are 10, the first two in order are rounded up.
    times = {name: first[f"{name}_ps"] for name in NAMES if first[f"{name}_ps"]}
    assert times == {"input": 4, "launch": 6}
    assert (first["busy_least_ps"], first["busy_most_ps"]) == (3, 8)
    # Halves are rounded to even or away from zero: 11/2 is 6.
    assert (first["device_busy_ps"], first["device_step_time_ps"]) == (6, 8)
    assert (first["idle_input_ps"], first["device_working_ps"]) == (None, None)
    assert (second["window"], second["devices"], second["compute_32_ps"]) == (2, 1, 9)
    assert (second["device_busy_ps"], second["device_working_ps"]) == (9, 7)
    assert (second["busy_least_ps"], second["busy_most_ps"]) == (9, 9)


def test_rows_without_devices_are_their_own_means() -> None:
    rows = [of_window(each, None, input=each, unexplained=3) for each in (1, 2)]
    found = mean_over_devices(pl.DataFrame(rows, schema_overrides={"device": pl.Int32}))
    assert found.select("window", "devices", "rows", "input_ps").rows() == [
        (1, 0, 1, 1),
        (2, 0, 1, 2),
    ]
    assert found["busy_least_ps"].to_list() == [None, None]
