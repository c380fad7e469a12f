"""Parts of the time of an owner, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal import windows_at

from stepscope.derive.account.naming import UNNAMED, Name
from stepscope.derive.account.parts import (
    account_parts,
    interval_parts,
    largest_times,
    owner_events,
)
from stepscope.derive.account.topics import TOPICS, DeviceTopics, IdleTopics
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


def parted(idle: dict[str, Spans], **columns: Any) -> Any:
    empty = {name: Spans.empty() for name in IDLE_OWNERS}
    fields = {
        "between": Spans.of([(30, 45)]),
        "walked_by": {},
        "latency": Spans.empty(),
    }
    return SimpleNamespace(**{"device": 0, "idle": empty | idle, **fields} | columns)


def test_unnamed_parts_are_the_times_of_owners_and_topics_by_place() -> None:
    """The second window is left out: it is open."""
    windows = windows_at((10, 40), (40, 70), open_end=[False, True])
    devices = (
        parted({"input": Spans.of([(5, 15), (28, 33)]), "sync": Spans.of([(50, 60)])}),
        parted({"input": Spans.of([(11, 12)]), "peer": Spans.of([(36, 60)])}, device=1),
    )
    topics = {name: Spans.empty() for name in TOPICS}
    garbage = {"garbage": Spans.of([(20, 31), (50, 55)])}
    given_account: Any = SimpleNamespace(devices=devices, missing={"peer": WHY})
    found = account_parts(
        account=given_account,
        idle_topics=IdleTopics((DeviceTopics(0, topics | garbage),), {}),
        windows=windows,
        naming=WHY,
    )
    assert (found.window_ps, found.windows) == (30, 1)
    shown = found.rows.select("device", "owner", "place", "time_ps").rows()
    assert shown == [
        *((0, "input", "inside", 7), (0, "input", "between", 3)),
        (1, "input", "inside", 1),
    ]
    shown = found.topics.select("device", "owner", "place", "time_ps").rows()
    assert shown == [(0, "garbage", "inside", 10), (0, "garbage", "between", 1)]
    assert found.rows["name"].null_count() == 3
    assert found.rows["loop"].to_list() == [False] * 3
    assert found.callers.is_empty()


@given(st.lists(st.integers(-2, 9), max_size=9), st.integers(1, 4))
def test_the_largest_times_come_first_and_all_are_counted(
    times: list[int], most: int
) -> None:
    found = largest_times(
        np.array(times, np.int64), lambda row: (row, row + 1, row, Name("x")), most=most
    )
    ranked = sorted((-time, row) for row, time in enumerate(times) if time > 0)
    assert found.number == len(ranked)
    assert [(each.event, each.time_ps) for each in found.ran] == [
        (row, -time) for time, row in ranked[:most]
    ]
    assert all(each.start_ps == each.event == each.end_ps - 1 for each in found.ran)


def test_times_of_a_picosecond_count() -> None:
    times = np.array([1, 0, -1, 2])
    found = largest_times(times, lambda row: (row, row, row, Name("x")), most=9)
    assert [(each.event, each.time_ps) for each in found.ran] == [(3, 2), (0, 1)]
    assert found.number == 2


def test_the_longest_intervals_are_parts_without_an_event() -> None:
    found = interval_parts(Spans.of([(0, 5), (10, 30), (40, 49)]), most=2)
    assert found.number == 3
    assert [tuple(each) for each in found.ran] == [
        *((10, 30, -1, UNNAMED, 20), (40, 49, -1, UNNAMED, 9)),
    ]
    naming: Any = None
    unnamed = owner_events(
        naming, parted({}), "unexplained", Spans.of([(3, 8)]), most=5
    )
    assert [tuple(each) for each in unnamed.ran] == [(3, 8, -1, UNNAMED, 5)]
