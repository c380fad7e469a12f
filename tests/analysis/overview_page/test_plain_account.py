"""The causes of the mean step from literal rows, with their named parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.support.traces.literal import Derived

from stepscope.analysis.overview_page.account import (
    AccountEntry,
    AccountPart,
    account_entries,
)
from stepscope.derive.account.parts import PART_ROWS, account_parts
from stepscope.derive.step_time.owners import OWNERS

MS = 10**9
#: Owner → its category.
CATEGORY = {owner.name: owner.category for owner in OWNERS}


def rows_of(*rows: dict[str, Any], fill: int | None = 0) -> pl.DataFrame:
    """Rows of devices and windows; owners that are not given have the other time."""
    empty = dict.fromkeys((f"{owner.name}_ps" for owner in OWNERS), fill)
    schema = {"device": pl.Int32, "window": pl.Int32, "window_ps": pl.Int64}
    return pl.DataFrame(
        [{**empty, **row} for row in rows],
        schema={**schema, **dict.fromkeys(empty, pl.Int64)},
    )


def host_of(
    name: str, measured: pl.DataFrame, between: pl.DataFrame | None = None
) -> Any:
    if between is None:
        between = measured.with_columns(pl.exclude("device", "window") * 0)
    account = SimpleNamespace(between=between.select("device", "window", "^i.*$"))
    return SimpleNamespace(host=name, measured=measured, account=account)


def parts_of(windows: int, *rows: dict[str, Any]) -> Any:
    frame = pl.DataFrame(
        [{**dict.fromkeys(PART_ROWS), "place": "inside", **row} for row in rows],
        schema=PART_ROWS,
    )
    return SimpleNamespace(rows=frame, windows=windows)


def entries(hosts: list[Any], **parts: Any) -> tuple[AccountEntry, ...]:
    run: Any = Derived({account_parts: parts} if parts else {})
    return account_entries(run, hosts, ())


def entry(
    device: int | None, owner: str, ms: float, percent: float, **more: Any
) -> Any:
    return AccountEntry(
        host=more.pop("host", "a"),
        device=device,
        owner=owner,
        category=CATEGORY[owner],
        ms=pytest.approx(ms),
        percent=pytest.approx(percent),
        between_ms=more.get("between_ms"),
        parts=more.get("parts"),
    )


def test_causes_of_a_device_are_means_over_its_steps_longest_first() -> None:
    measured = rows_of(
        {"device": 1, "window": 4, "window_ps": 10 * MS, "copy_in_ps": 10 * MS},
        {"device": 0, "window": 4, "window_ps": 10 * MS, "input_ps": 4 * MS}
        | {"compute_32_ps": 6 * MS, "sync_ps": None},
        {"device": 0, "window": 6, "window_ps": 30 * MS, "input_ps": 2 * MS}
        | {"compute_32_ps": 27 * MS, "sync_ps": 1 * MS},
    )
    between = rows_of(
        {"device": 0, "window": 4, "input_ps": 1 * MS},
        # A window that is not measured does not count.
        {"device": 0, "window": 5, "input_ps": 50 * MS},
        {"device": 0, "window": 6, "input_ps": 2 * MS},
        {"device": 1, "window": 4, "input_ps": 7 * MS},
    )
    other = rows_of({"device": None, "window": 0, "window_ps": 8 * MS, "input_ps": MS})
    assert entries([host_of("a", measured, between), host_of("b", other)]) == (
        # Of two steps of 40 ms in all.
        entry(0, "compute_32", 33 / 2, 100 * 33 / 40),
        entry(0, "input", 6 / 2, 100 * 6 / 40, between_ms=pytest.approx(3 / 2)),
        entry(1, "copy_in", 10, 100),
        entry(None, "input", 1, 100 / 8, between_ms=0, host="b"),
    )


def test_named_parts_of_a_cause_add_up_with_one_for_all_further_ones() -> None:
    measured = rows_of(
        *(
            {"device": 0, "window": number, "window_ps": 300 * MS, "input_ps": 252 * MS}
            for number in range(2)
        )
    )
    # 22, 21, … 1 ms, of which the second has no name; the rest is 251 ms.
    named = [
        {"device": 0, "owner": "input", "time_ps": number * MS}
        | {"name": None if number == 21 else f"n{number}", "place": "between"}
        for number in range(22, 0, -1)
    ]
    named[0] |= {"detail": "d", "function": "f", "file": "f.py", "line": 3}
    others = [{"device": 1, "owner": "input", "name": "x", "time_ps": 9 * MS}]
    found = entries([host_of("a", measured)], a=parts_of(2, *named, *others))
    shown = [
        AccountPart(name=f"n{number}", place="between", ms=number / 2)
        for number in (22, *range(20, 1, -1))
    ]
    shown[0] = AccountPart(
        name="n22",
        detail="d",
        place="between",
        function="f",
        file="f.py",
        line=3,
        ms=11,
    )
    left = 252 - (22 + sum(range(2, 21))) / 2
    rest = AccountPart(place="between", ms=pytest.approx(left))
    (only,) = found
    assert only.parts == (*shown, rest)


def test_parts_are_shown_only_of_all_measured_steps() -> None:
    measured = rows_of(
        {"device": 0, "window": 0, "window_ps": 9 * MS, "input_ps": 4 * MS}
        | {"sync_ps": 5 * MS}
    )
    part = {"device": 0, "owner": "input", "name": "x", "time_ps": 4 * MS}
    whole = entries([host_of("a", measured)], a=parts_of(1, part))
    assert [one.parts for one in whole] == [
        None,
        (AccountPart(name="x", place="inside", ms=4.0),),
    ]
    for windows in (0, 2):
        found = entries([host_of("a", measured)], a=parts_of(windows, part))
        assert [one.parts for one in found] == [None, None]
