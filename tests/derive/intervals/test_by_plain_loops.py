"""Nesting, flattening and choosing of rows, against plain loops over instants."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.intervals.nesting import (
    flatten_rows,
    flatten_tracks,
    innermost_rows,
    nest_events,
    nest_subset,
)
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.trace.tables import TRACK_KINDS

#: Start and duration of the rows of a track, in any order.
Rows = list[tuple[int, int]]

ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), max_size=8)
TRACKS = st.lists(ROWS, min_size=1, max_size=3)


class PlainNesting(NamedTuple):
    parent: list[int]
    depth: list[int]
    self_ps: list[int]
    overhangs: int


def by_start(rows: Rows) -> list[int]:
    """Longer rows before shorter ones that begin with them."""
    return sorted(range(len(rows)), key=lambda row: (rows[row][0], -rows[row][1]))


def running(rows: Rows, at: int) -> list[int]:
    """Rows in which an instant is, by start."""
    return [row for row in by_start(rows) if rows[row][0] <= at < sum(rows[row])]


def plain_nesting(rows: Rows) -> PlainNesting:
    """The parent is what began last of all that still runs when a row begins."""
    parent, depth, overhangs = [-1] * len(rows), [0] * len(rows), 0
    order = by_start(rows)
    for place, row in enumerate(order):
        start = rows[row][0]
        around = [other for other in order[:place] if sum(rows[other]) > start]
        if around:
            parent[row] = around[-1]
            depth[row] = depth[around[-1]] + 1
            overhangs += sum(rows[row]) > sum(rows[around[-1]])
    own = [0] * len(rows)
    for at in range(30):
        if rows_at := running(rows, at):
            own[rows_at[-1]] += 1
    return PlainNesting(parent, depth, own, overhangs)


def tables(tracks: list[Rows], kind: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    ends = np.cumsum([len(rows) for rows in tracks])
    frame = pl.DataFrame(
        {
            "kind": pl.Series([kind] * len(tracks), dtype=TRACK_KINDS),
            "event_begin": ends - [len(rows) for rows in tracks],
            "event_end": ends,
        }
    )
    times = [row for rows in tracks for row in rows]
    return frame, pl.DataFrame(
        {
            "start_ps": pl.Series([start for start, _ in times], dtype=pl.Int64),
            "dur_ps": pl.Series([dur for _, dur in times], dtype=pl.Int64),
        }
    )


@given(tracks=TRACKS)
def test_rows_nest_in_what_began_last_and_still_runs(tracks: list[Rows]) -> None:
    found = nest_events(*tables(tracks, "thread"))
    expected = [plain_nesting(rows) for rows in tracks]
    begins = np.cumsum([0, *(len(rows) for rows in tracks)]).tolist()
    assert found.parent.tolist() == [
        above + begin if above >= 0 else -1
        for each, begin in zip(expected, begins, strict=False)
        for above in each.parent
    ]
    assert found.depth.tolist() == [depth for each in expected for depth in each.depth]
    assert found.self_ps.tolist() == [own for each in expected for own in each.self_ps]
    assert found.overhangs.tolist() == [each.overhangs for each in expected]


@given(tracks=TRACKS, skipped=st.integers(0, 2))
def test_a_subset_nests_as_the_whole_of_it(tracks: list[Rows], skipped: int) -> None:
    """The rows of a subset are in the order of a file, so they ascend."""
    ordered = [[rows[row] for row in by_start(rows)] for rows in tracks]
    times = np.array([row for rows in ordered for row in rows], np.int64).reshape(-1, 2)
    track = np.repeat(np.arange(len(tracks)) + skipped, [len(rows) for rows in tracks])
    found = nest_subset(times[:, 0], times[:, 1], track=track.astype(np.int32))
    whole = nest_events(*tables(ordered, "thread"))
    assert found.parent.tolist() == whole.parent.tolist()
    assert found.depth.tolist() == whole.depth.tolist()
    assert found.self_ps.tolist() == whole.self_ps.tolist()
    last = int(track[-1]) if len(track) else -1
    assert (
        found.overhangs.tolist()
        == [
            *[0] * skipped,
            *whole.overhangs.tolist(),
        ][: last + 1]
    )


@given(tracks=TRACKS, at=st.lists(st.integers(-1, 22), max_size=6))
def test_the_innermost_row_is_the_last_that_began_of_those_that_run(
    tracks: list[Rows], at: list[int]
) -> None:
    nested = tables(tracks, "thread")
    parent = nest_events(*nested).parent
    begin = 0
    for rows in tracks:
        found = innermost_rows(
            np.array(at, np.int64),
            nested[1]["start_ps"].to_numpy(),
            nested[1]["dur_ps"].to_numpy(),
            parent,
            rows=(begin, begin + len(rows)),
        )
        expected = [running(rows, time)[-1:] for time in at]
        assert found.tolist() == [begin + row[0] if row else -1 for row in expected]
        begin += len(rows)


def plain_classes(rows: Rows, codes: list[int], sticky: set[int]) -> dict[int, Spans]:
    times: dict[int, list[tuple[int, int]]] = {}
    for at in range(30):
        coded = [row for row in running(rows, at) if codes[row]]
        # The outermost sticky code counts, else the innermost code.
        chosen = [row for row in coded if codes[row] in sticky][:1] or coded[-1:]
        if chosen:
            times.setdefault(codes[chosen[0]], []).append((at, at + 1))
    return {code: Spans.of(pairs) for code, pairs in times.items()}


@given(rows=ROWS, data=st.data())
def test_an_instant_has_the_code_of_its_innermost_row(
    rows: Rows, data: st.DataObject
) -> None:
    code = [data.draw(st.integers(1, 3)) for _ in rows]
    starts, durs = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    found = flatten_rows(starts, durs, np.array(code, np.uint8))
    assert found == plain_classes(rows, code, set())


@given(tracks=TRACKS, data=st.data())
def test_each_track_is_divided_for_itself(
    tracks: list[Rows], data: st.DataObject
) -> None:
    codes = [[data.draw(st.integers(0, 3)) for _ in rows] for rows in tracks]
    code = np.array([each for of_track in codes for each in of_track], np.uint8)
    found = flatten_tracks(*tables(tracks, "thread"), code)
    alike = flatten_tracks(*tables(tracks, "thread"), code, alike={3: 1})
    for track, (rows, own) in enumerate(zip(tracks, codes, strict=True)):
        expected = plain_classes(rows, own, set())
        assert found.get(track, {}) == expected
        merged = [1 if each == 3 else each for each in own]
        assert alike.get(track, {}) == plain_classes(rows, merged, set())
    assert all(sets for sets in found.values())


def test_a_sticky_code_goes_on_for_what_it_contains() -> None:
    rows = [(0, 20), (2, 10), (3, 4), (4, 1), (14, 3)]
    codes = [1, 2, 3, 1, 3]
    starts, durs = (np.array([row[k] for row in rows]) for k in (0, 1))
    found = flatten_rows(starts, durs, np.array(codes, np.uint8), sticky=[2, 3])
    assert found == plain_classes(rows, codes, {2, 3})
    assert found[2] == Spans.of([(2, 12)])
    assert found[3] == Spans.of([(14, 17)])


@given(tracks=TRACKS, chosen=ROWS, data=st.data())
def test_rows_of_a_track_that_meet_a_set(
    tracks: list[Rows], chosen: Rows, data: st.DataObject
) -> None:
    ordered = [[rows[row] for row in by_start(rows)] for rows in tracks]
    codes = [[data.draw(st.integers(0, 3)) for _ in rows] for rows in ordered]
    table = TrackRows.from_tables(*tables(ordered, "thread"))
    code = np.array([each for own in codes for each in own], np.uint8)
    spans = Spans.of([(start, start + dur) for start, dur in chosen])
    covered = {at for start, dur in chosen for at in range(start, start + dur)}
    begin = 0
    for track, (rows, own) in enumerate(zip(ordered, codes, strict=True)):
        wanted = [
            row for row, each in enumerate(own) if each in {1, 3} and rows[row][1]
        ]
        meeting = [
            row for row in wanted if covered & set(range(rows[row][0], sum(rows[row])))
        ]
        outer = [
            row
            for row in meeting
            if not any(
                sum(rows[other]) > rows[row][0] for other in wanted if other < row
            )
        ]
        for outermost, expected in ((False, meeting), (True, outer)):
            found = table.meeting_rows(
                track, spans, code=code, wanted=[1, 3], outermost=outermost
            )
            assert found.tolist() == [begin + row for row in expected]
        assert table.track_rows(track) == slice(begin, begin + len(rows))
        whole = Spans.of([(start, start + dur) for start, dur in rows])
        assert table.covered_spans(table.track_rows(track)) == whole
        picked = np.array([each == 1 for each in own], np.bool_)
        some = [row for row, each in zip(rows, own, strict=True) if each == 1]
        assert table.covered_spans(table.track_rows(track), picked) == Spans.of(
            [(start, start + dur) for start, dur in some]
        )
        begin += len(rows)
    for wanted_code in range(4):
        is_wanted = np.arange(4) == wanted_code
        has = table.tracks_having(code.astype(np.int32), is_wanted)
        assert has.tolist() == [wanted_code in own for own in codes]
    nothing = table.tracks_having(code.astype(np.int32), np.zeros(4, np.bool_))
    assert not nothing.any()


def test_what_is_meant_by_quickly_is_at_most_the_given_time() -> None:
    """Events of code 1 begin something, those of code 2 only take time."""
    rows = [(0, 3, 1), (10, 2, 1), (15, 4, 2), (26, 11, 1), (48, 5, 1), (64, 1, 1)]
    start, dur, code = (np.array([row[k] for row in rows]) for k in range(3))
    begins = np.zeros(256, np.uint8)
    begins[1] = 1
    found = Spans.unite_near_starts(
        start, dur, code=code.astype(np.uint8), begins=begins, most_ps=10
    )
    # From 0 to 10 is not too long; 16 from 10 are, so 10 has its own 2. Then 7 are
    # free from 19 to 26; 26 is longer than 10 itself; 11 are free from 37 to 48; 48
    # has its own 5; 11 are free from 53 to 64; the last has its own 1.
    assert found == Spans.of([(0, 12), (19, 26), (48, 53), (64, 65)])


def test_the_union_of_sets_in_any_order() -> None:
    sets = [Spans.of([(k, k + 1)]) for k in (4, 0, 2)] + [Spans.of([(1, 2), (5, 8)])]
    assert Spans.union_of(sets) == Spans.of([(0, 3), (4, 8)])
    assert Spans.union_of([]) == Spans.empty()


def test_whole_intervals_that_meet_another_set() -> None:
    spans = Spans.of([(0, 5), (7, 9), (12, 20), (30, 31)])
    other = Spans.of([(4, 7), (9, 12), (13, 14), (15, 16), (31, 40)])
    assert spans.meeting(other) == Spans.of([(0, 5), (12, 20)])
    assert spans.meeting(Spans.empty()) == Spans.empty().meeting(spans) == Spans.empty()


def test_a_set_shows_at_most_four_of_its_intervals() -> None:
    four = Spans.of((n, n + 1) for n in range(0, 8, 2))
    assert repr(four) == "Spans.of([(0, 1), (2, 3), (4, 5), (6, 7)])"
    five = Spans.of((n, n + 1) for n in range(0, 10, 2))
    assert repr(five) == "Spans.of([(0, 1), (2, 3), (4, 5), (6, 7), … 5 in all])"
