"""The critical path adds up to the step, and names what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import replayed as by_hand
from tests.support.traces.replayed import US

from stepscope.derive.account.host_states import host_states
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.replay.critical import (
    PATH_ROWS,
    CriticalPath,
    Silences,
    critical_path,
    path_owners,
)
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.traces import blueprint
    from tests.support.traces.replayed import Program

    Programs = Callable[[Sequence[blueprint.Line]], Program]


def path_of(found: Program) -> CriticalPath:
    path = found.profile.derived("vm", critical_path)
    assert isinstance(path, CriticalPath)
    return path


def test_pieces_of_a_window_follow_each_other_and_fill_it(program: Programs) -> None:
    for lines in (by_hand.launch_bound(), by_hand.device_bound(), by_hand.loading()):
        found = program(lines)
        path, sampled = path_of(found), found.graph.sampled
        assert dict(path.rows.schema) == PATH_ROWS
        for number, window in enumerate(sampled.rows.tolist()):
            mine = path.rows.filter(pl.col("window") == window)
            ends = mine["start_ps"] + mine["dur_ps"]
            assert mine["start_ps"][0] == sampled.bounds_ps[number]
            assert ends[-1] == sampled.bounds_ps[number + 1]
            assert (ends[:-1] == mine["start_ps"][1:]).all()


def test_the_path_of_a_device_bound_step_is_its_kernels(program: Programs) -> None:
    path = path_of(program(by_hand.device_bound()))
    shares = dict(path.share("owner").select("owner", "percent").iter_rows())
    # The last window ends with its kernel: 2 µs less than those of the others.
    assert shares["compute_32"] == pytest.approx(100 * 8 * 998 / (8 * 1000 - 2))
    assert path.share("name")["name"][0] == "sgemm"


def test_the_path_of_a_launch_bound_step_is_its_thread(program: Programs) -> None:
    found = program(by_hand.launch_bound())
    path = path_of(found)
    owners, tracks = path.share("owner"), path.share("track")
    assert owners["owner"][0] == "launch"
    assert owners["percent"][0] == pytest.approx(100, abs=1)
    assert tracks["track"][0] == found.track("main")


def pieces_of_window(path: CriticalPath, window: int) -> pl.DataFrame:
    """The pieces of one window, neighbours of one kind put together."""
    same = ("track", "name", "owner")
    fresh = pl.any_horizontal(
        [pl.col(column).ne_missing(pl.col(column).shift()) for column in same]
    )
    return (
        path.rows.filter(pl.col("window") == window)
        .with_columns(run=fresh.fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.col("owner", "why", "start_ps").first(), pl.col("dur_ps").sum())
        .drop("run")
    )


def test_a_step_that_waits_passes_through_what_it_waits_for(program: Programs) -> None:
    """10 µs launch, 595 µs of kernel, then 395 µs of the host to the next step."""
    found = program(by_hand.synchronising())
    path = path_of(found)
    window = int(found.graph.sampled.rows[0])
    pieces = pieces_of_window(path, window)
    begin = found.graph.sampled.first_ps
    assert [
        (owner, why, (start - begin) / US, dur / US)
        for owner, why, start, dur in pieces.iter_rows()
    ][:2] == [("launch", "launch", 0.0, 10.0), ("compute_32", "work", 10.0, 595.0)]
    work = pieces.filter(pl.col("owner") == "host_compute")
    assert work["dur_ps"].sum() / US == pytest.approx(370, abs=25)


def test_a_step_of_one_piece_has_a_path_though_nothing_follows_another(
    program: Programs,
) -> None:
    """A graph without edges was an IndexError."""
    found = program([by_hand.step(0, 0, 1000)])
    assert not len(found.graph.edges.kind)
    assert path_of(found).share("owner")["percent"].to_list() == [100.0]


def test_what_comes_next_is_what_is_left_of_the_path(program: Programs) -> None:
    found = program(by_hand.synchronising())
    accounted = found.profile.derived("vm", account)
    assert not isinstance(accounted, Unavailable)
    sets = found.profile.derived("vm", device_sets)
    classes = found.profile.derived("vm", host_classes)
    assert not isinstance(sets, Unavailable)
    assert not isinstance(classes, Unavailable)
    said = path_owners(
        found.graph,
        found.without("host_compute"),
        account=accounted,
        host_states=found.profile.derived("vm", host_states),
        device_sets=sets,
        silences=Silences(found.graph, classes, sets.any_device.busy),
    )
    owner, percent = next(iter(said.items()))
    assert owner == "compute_32"
    assert sum(said.values()) == pytest.approx(100)
    # 595 of 630 µs; the last step ends 10 earlier.
    assert percent == pytest.approx(100 * 8 * 595 / (8 * 630 - 10))
