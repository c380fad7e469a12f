"""Shares of input from literal rows, and their sums."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER

from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.steps.input_share import (
    InputShare,
    share_of_rows,
    verdict_on_share,
)
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

WHY = package_reasons("steps")
NO_DEVICE = Unavailable(code="NO_DEVICE_PLANE", reason="None.", remedy="Use one.")
COLUMNS = ("window_ps", "input_ps", "copy_in_ps", "starved_ps", "device_busy_ps")


def share(**known: Any) -> InputShare:
    fields = {
        **dict.fromkeys(("window_ps", "starved_ps", "at_most_ps"), 0),
        **dict.fromkeys(("wait_ps", "transfer_ps", "why_no_wait", "why_no_transfer")),
        **known,
    }
    return InputShare(**fields)


def of_rows(
    *rows: tuple[int | None, ...], unknown_ps: int = 0, **why: Unavailable
) -> InputShare:
    schema = dict.fromkeys(COLUMNS, pl.Int64)
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return share_of_rows(table, why, unknown_ps=unknown_ps)


def test_waits_and_transfers_of_rows_are_added_up() -> None:
    found = of_rows((100, 10, 5, 2, 40), (200, 20, 0, 0, 90), unknown_ps=7)
    assert found == share(
        window_ps=300, wait_ps=32, starved_ps=2, transfer_ps=5, at_most_ps=44
    )
    assert found.input_ps == 37
    assert found.why_no_input is None


@pytest.mark.parametrize(
    ("wait", "starved", "why", "wait_ps", "reason"),
    [
        # A wait that is unknown in any row is unknown.
        (None, 3, {}, None, WHY["not_seen"]),
        (None, 3, {"input": ABSENT}, None, ABSENT),
        # No time may be unrecorded time, if there is a reason for it.
        (0, 0, {"input": ABSENT}, None, ABSENT),
        (0, 0, {"copy_in": ABSENT}, 0, None),
        (0, 3, {"input": ABSENT}, 3, None),
        (1, 0, {"input": ABSENT}, 1, None),
    ],
)
def test_when_the_wait_is_unknown(
    wait: int | None,
    starved: int,
    why: dict[str, Unavailable],
    wait_ps: int | None,
    reason: Unavailable | None,
) -> None:
    found = of_rows((100, wait, 9, starved, 40), (100, 0, 0, 0, 0), **why)
    assert found == share(
        window_ps=200,
        wait_ps=wait_ps,
        starved_ps=starved,
        transfer_ps=9,
        at_most_ps=9 + (wait_ps or 0),
        why_no_wait=reason,
    )


@pytest.mark.parametrize(
    ("busy", "why", "at_most", "reason"),
    [
        # Of the 200 ps, 30 are waits; known work of the device is no transfer.
        ((40, 5), {"copy_in": ABSENT}, 200 - 45, ABSENT),
        ((40, None), {"copy_in": ABSENT}, 200, ABSENT),
        ((40, 5), {}, 200 - 45, WHY["not_seen"]),
        ((None, None), {"copy_in": NO_DEVICE}, 30 + 7, NO_DEVICE),
    ],
)
def test_what_input_takes_at_most_without_recorded_copies(
    busy: tuple[int | None, int | None],
    why: dict[str, Unavailable],
    at_most: int,
    reason: Unavailable,
) -> None:
    found = of_rows(
        (100, 10, None, 0, busy[0]), (100, 20, 3, 0, busy[1]), unknown_ps=7, **why
    )
    assert found == share(
        window_ps=200, wait_ps=30, at_most_ps=at_most, why_no_transfer=reason
    )


LOST_WAIT = {"wait_ps": None, "why_no_wait": ABSENT}
LOST_COPY = {"transfer_ps": None, "why_no_transfer": OTHER}


@pytest.mark.parametrize(
    ("known", "input_ps", "why"),
    [
        ({"wait_ps": 4, "transfer_ps": 3}, 7, None),
        ({"wait_ps": 0, "transfer_ps": 0}, 0, None),
        # Without the other part, the known one is a lower bound, unless it is 0.
        ({**LOST_WAIT, "transfer_ps": 3}, 3, ABSENT),
        ({**LOST_WAIT, "transfer_ps": 0}, None, ABSENT),
        ({"wait_ps": 4, **LOST_COPY}, 4, OTHER),
        ({"wait_ps": 0, **LOST_COPY}, None, OTHER),
        ({**LOST_WAIT, **LOST_COPY}, None, ABSENT),
        # Without a device nothing is transferred.
        ({"wait_ps": 0, "why_no_transfer": NO_DEVICE}, 0, NO_DEVICE),
        ({**LOST_WAIT, "why_no_transfer": NO_DEVICE}, None, ABSENT),
    ],
)
def test_input_of_known_and_unknown_parts(
    known: dict[str, Any], input_ps: int | None, why: Unavailable | None
) -> None:
    found = share(window_ps=50, **known)
    assert found.input_ps == input_ps
    assert found.why_no_input == why
    assert share(**known).why_no_input == WHY["no_time"]


def test_parts_are_percentages_of_all_windows() -> None:
    found = share(window_ps=50, wait_ps=0, transfer_ps=25, at_most_ps=50)
    assert [*found.percents().values()] == [50, 100, 0, 50]
    known = share(window_ps=50, wait_ps=25, at_most_ps=25, **LOST_COPY).percents()
    assert known["input_wait_percent"] == 50
    assert known["input_transfer_percent"] is None
    assert {*share(window_ps=0, wait_ps=5).percents().values()} == {None}


def test_sums_of_partly_unknown_shares_are_lower_bounds() -> None:
    full = share(window_ps=100, wait_ps=4, starved_ps=1, transfer_ps=0, at_most_ps=9)
    lost = share(window_ps=30, starved_ps=2, at_most_ps=30, **LOST_WAIT, **LOST_COPY)
    again = share(at_most_ps=1, why_no_wait=OTHER, why_no_transfer=ABSENT)
    assert InputShare.sum_shares([full, lost, again]) == share(
        window_ps=130,
        wait_ps=4,
        starved_ps=3,
        at_most_ps=40,
        why_no_transfer=OTHER,
    )
    assert InputShare.sum_shares([full, full]) == share(
        window_ps=200, wait_ps=8, starved_ps=2, transfer_ps=0, at_most_ps=18
    )
    assert InputShare.sum_shares([]) == share(wait_ps=0, transfer_ps=0)


WARN, CRITICAL = THRESHOLDS.input_warn.value, THRESHOLDS.input_critical.value


@pytest.mark.parametrize(
    ("percent", "begin"),
    [
        (None, "unknown"),
        (0.0, "not"),
        (WARN - 0.01, "not"),
        (WARN, "moderately"),
        (CRITICAL - 0.01, "moderately"),
        (CRITICAL, "highly"),
    ],
)
def test_the_verdict_changes_at_the_thresholds(
    percent: float | None, begin: str
) -> None:
    assert verdict_on_share(percent).lower().startswith(begin)
