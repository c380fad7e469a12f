"""Every column of the steps that a recording contains, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import kinds_of, stored_of, tables_of

from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.steps.candidates import STEP_ROWS, CandidateSteps, SourceTables
from stepscope.derive.steps.markers import engine_iterations, find_markers
from stepscope.derive.steps.stored import (
    mark_separate_spans,
    steps_of_stored_calls,
    steps_of_stored_line,
    stored_steps,
)
from stepscope.trace.tables import INT, REF
from stepscope.unavailable import Unavailable

NO_DEVICES = Unavailable(code="NO_DEVICE_PLANE", reason="none", remedy="none")
LINE = {"name": "Steps", "kind": "derived", "derived": "steps"}

#: (track, name, start, duration) and, if it has any, its values.
Line = tuple[Any, ...]


class Recording:
    """Tables of a few lines; values may also be those of all events of a name."""

    def __init__(
        self,
        lines: list[Line],
        *,
        tracks: Any = ("main", "second"),
        shared: dict[str, dict[str, int]] | None = None,
        flags: dict[str, EventFlag] | None = None,
        devices: Any = NO_DEVICES,
    ) -> None:
        ordered = sorted(lines, key=lambda line: (line[0], line[2], -line[3]))
        names = list(dict.fromkeys(line[1] for line in ordered))
        self.strings: list[str] = []
        self.tracks, self.events = tables_of(
            [(line[0], names.index(line[1]), line[2], line[3]) for line in ordered],
            list(tracks),
        )
        values = [line[4] if len(line) > 4 else {} for line in ordered]
        self.stats = self._values("event", dict(enumerate(values)))
        of_types = {names.index(name): each for name, each in (shared or {}).items()}
        self.type_stats = self._values("type", of_types)
        self.types = pl.DataFrame({"name": names}, schema={"name": pl.String})
        numbered = {
            names.index(name): each
            for name, each in (flags or {}).items()
            if name in names
        }
        self.kinds = kinds_of(len(names), flags=numbered)
        given_tables = {"devices": devices, "event_types": self.types}
        self.trace: Any = SimpleNamespace(
            strings=self.strings, table=given_tables.__getitem__
        )

    def _handle(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def _values(self, owner: str, values: dict[int, dict[str, Any]]) -> pl.DataFrame:
        rows = [
            {
                owner: row,
                "key": self._handle(key),
                "kind": REF if isinstance(value, str) else INT,
                "value": self._handle(value) if isinstance(value, str) else value,
                "length": 0,
            }
            for row, each in sorted(values.items())
            for key, value in each.items()
        ]
        schema = {owner: pl.Int32, "key": pl.Int32, "kind": pl.UInt8}
        return pl.DataFrame(
            rows, schema=schema | {"value": pl.Int64, "length": pl.Int32}
        )

    def source(self) -> SourceTables:
        return SourceTables(
            *(self.trace, self.tracks, self.events, self.types, self.kinds),
            *(self.stats, self.type_stats),
        )

    def markers(self) -> tuple[CandidateSteps, ...]:
        return find_markers(self.source())

    def stored(self) -> pl.DataFrame:
        return stored_steps(self.source())

    def calls(self) -> CandidateSteps | None:
        return steps_of_stored_calls(self.source())

    def iterations(self) -> CandidateSteps | None:
        return engine_iterations(self.source())


def columns(found: CandidateSteps) -> dict[str, list[Any]]:
    """The columns of the steps that are not empty everywhere."""
    assert found.rows.schema == STEP_ROWS
    assert found.candidate.n == len(found.rows)
    assert found.candidate.accepted
    assert (found.candidate.coverage, found.candidate.cv) == (None, None)
    rows = found.rows.to_dict(as_series=False)
    return {name: each for name, each in rows.items() if set(each) != {None}}


def mark(
    start: int,
    dur: int,
    number: int,
    *,
    track: int = 0,
    name: str = "train",
    **values: Any,
) -> Line:
    return (track, name, start, dur, {"step_num": number, "_r": 1, **values})


# Markers.


def test_every_column_of_marked_steps() -> None:
    """The second marker is on another thread; the third has a stored name."""
    found = Recording(
        [
            mark(0, 8, 4, group_id=40),
            mark(10, 8, 6, track=1, group_id=41),
            mark(20, 9, 8, step_name="epoch 8", group_id=42),
            mark(40, 8, 10, step_name="epoch 11"),
            (0, "other", 5, 90),
        ]
    ).markers()
    assert len(found) == 1
    assert (found[0].on_device, found[0].last_end_ps) == (False, None)
    about = found[0].candidate
    assert (about.source, about.what) == ("marker", "train, epoch")
    assert (about.period_ps, about.confidence) == (10, 1.0)
    assert columns(found[0]) == {
        "step": [4, 6, 8, 10],
        "name": ["train 4", "train 6", "epoch 8", "train 10"],
        "marker": ["train", "train", "epoch", "train"],
        "start_ps": [0, 10, 20, 40],
        "end_ps": [8, 18, 29, 48],
        "track": [0, 1, 0, 0],
        "event": [0, 4, 2, 3],
        "batches": [2, 2, 2, 2],
        "group": [40, 41, 42, None],
        "cut": [False] * 4,
    }


def test_numbers_that_grow_evenly_are_numbers_of_batches() -> None:
    cases: list[tuple[list[int], int, list[int] | None]] = [
        ([1, 2, 3], 8, [1] * 3),
        ([1, 2, 3], 1, [1] * 3),  # one batch, however little is marked
        ([1, 3, 5], 5, [2] * 3),  # half of the time is marked
        ([1, 3, 5], 4, None),
        ([1, 3, 6], 8, None),
        ([5, 4, 3], 8, None),
        ([1, 1, 1], 8, None),
        ([7], 8, None),
    ]
    for numbers, length, batches in cases:
        lines = [mark(10 * at, length, number) for at, number in enumerate(numbers)]
        assert columns(Recording(lines).markers()[0]).get("batches") == batches


def test_a_recorded_number_of_batches_counts_first() -> None:
    lines = [mark(0, 8, 1, n_steps=4), mark(10, 8, 2), mark(20, 8, 3, n_steps=0)]
    found = Recording(lines).markers()[0]
    assert columns(found)["batches"] == [4, None, None]
    ones = [mark(0, 8, 1, n_steps=1), mark(10, 8, 3)]
    assert columns(Recording(ones).markers()[0])["batches"] == [1, None]
    zeros = [mark(0, 8, 1, n_steps=0), mark(10, 8, 3)]
    assert columns(Recording(zeros).markers()[0])["batches"] == [2, 2]


def test_values_of_a_type_hold_for_its_events_without_their_own() -> None:
    """A level of 1 for all of a name; one event says 0, another name has none."""
    lines: list[Line] = [
        (0, "a", 0, 8, {"step_num": 3}),
        (0, "a", 10, 8),
        (0, "a", 20, 8, {"step_num": 5, "_r": 0}),
        (0, "b", 30, 8, {"step_num": 1}),
        (0, "b", 40, 8, {"step_num": 2}),
    ]
    shared = {"a": {"step_num": 9, "_r": 1}}
    found = Recording(lines, shared=shared).markers()
    assert [each.candidate.confidence for each in found] == [1.0, 0.95]
    assert columns(found[0])["step"] == [3, 9]
    assert columns(found[1])["name"] == ["b 1", "b 2"]


def test_only_growing_numbers_without_a_root_are_markers() -> None:
    """By name and thread; a batch of Keras counts alone; others need two."""
    lines: list[Line] = [
        *((0, "grows", 10 * at, 1, {"step_num": at}) for at in (0, 1, 2)),
        *((0, "falls", 10 * at + 2, 1, {"step_num": 9 - at}) for at in (0, 1)),
        *((0, "stays", 10 * at + 4, 1, {"step_num": 4}) for at in (0, 1)),
        *((0, "single", 36, 1, {"step_num": 7}), (1, "single", 36, 1, {"step_num": 8})),
        (0, "Profiled batch", 38, 1, {"step_num": 3}),
    ]
    found = Recording(lines).markers()
    assert [each.candidate.confidence for each in found] == [0.95]
    assert columns(found[0])["name"] == [
        "grows 0",
        "grows 1",
        "grows 2",
        "Profiled batch 3",
    ]


def test_numbered_ranges_grow_on_each_thread() -> None:
    lines: list[Line] = [
        *((0, f"step {at}", 10 * at, 5) for at in (1, 2)),
        *((1, f"iter {9 - at}", 10 * at, 5) for at in (1, 2)),  # falls
        (1, "batch 5", 50, 5),  # alone
        (0, "ProfilerStep#7", 60, 5),  # known, even alone
        *((0, f"thing {at}", 70 + 10 * at, 5) for at in (1, 2)),
    ]
    found = Recording(lines).markers()
    assert [each.candidate.confidence for each in found] == [0.95]
    assert columns(found[0])["name"] == ["step 1", "step 2", "ProfilerStep#7"]
    assert columns(found[0])["marker"] == ["step", "step", "ProfilerStep"]
    assert columns(found[0])["step"] == [1, 2, 7]


@pytest.mark.parametrize("kind", [{"device": 0}, {"kind": "derived"}])
def test_only_host_threads_have_markers(kind: dict[str, Any]) -> None:
    lines: list[Line] = [
        *(mark(10 * at, 8, at) for at in range(3)),
        *((0, f"step {at}", 100 + 10 * at, 8) for at in range(3)),
    ]
    assert Recording(lines, tracks=[{"name": "x", **kind}]).markers() == ()
    assert len(Recording(lines, tracks=["x"]).markers()) == 2


@pytest.mark.parametrize(("inner", "first"), [(3, "MARKER"), (2, "ROOT")])
def test_a_single_root_around_three_other_markers_is_not_preferred(
    inner: int, first: str
) -> None:
    lines = [
        mark(0, 100, 1),
        *((0, "batch", 10 * at, 5, {"step_num": at}) for at in range(inner)),
    ]
    found = Recording(lines).markers()
    confidences = [1.0, 0.95] if first == "ROOT" else [0.95, 1.0]
    assert [each.candidate.confidence for each in found] == confidences


MARK = st.tuples(
    st.integers(0, 1), st.integers(0, 30), st.integers(0, 12), st.integers(0, 3)
)


@given(st.lists(MARK, min_size=1, max_size=8))
def test_outermost_markers_of_each_thread_are_steps_once(rows: list[Any]) -> None:
    """Names differ, so that a marker with three others inside is dropped if alone."""
    lines = [
        mark(start, dur, number, track=track, name=f"m{at % 2}")
        for at, (track, start, dur, number) in enumerate(rows)
    ]
    ordered = sorted(lines, key=lambda line: (line[0], line[2], -line[3]))
    kept: list[Line] = []
    for track in (0, 1):
        own = [line for line in ordered if line[0] == track]
        while True:
            outer: list[list[Line]] = []
            reach = -1
            for line in own:
                if line[2] + line[3] <= reach:
                    outer[-1].append(line)
                else:
                    outer.append([line])
                reach = max(reach, line[2] + line[3])
            names = [group[0][1] for group in outer]
            dropped = [
                group[0]
                for group in outer
                if len(group) > 3 and names.count(group[0][1]) == 1
            ]
            if not dropped:
                break
            own = [line for line in own if not any(line is each for each in dropped)]
        kept += [group[0] for group in outer]
    order = [
        next(at for at, each in enumerate(ordered) if each is line) for line in kept
    ]
    kept = [
        line
        for _, line in sorted(
            zip(order, kept, strict=True),
            key=lambda pair: (pair[1][2], pair[1][2] + pair[1][3], pair[0]),
        )
    ]
    # Equal numbers in a row that overlap are one step of several threads.
    expected = []
    reach = -1
    for at, line in enumerate(kept):
        same = at > 0 and kept[at - 1][4]["step_num"] == line[4]["step_num"]
        if not (same and line[2] < reach):
            expected.append((line[2], line[2] + line[3], line[4]["step_num"], line[0]))
        reach = max(reach, line[2] + line[3])
    (found,) = Recording(lines).markers()
    listed = found.rows.select("start_ps", "end_ps", "step", "track").rows()
    assert listed == expected


# Iterations of an engine.


def test_every_column_of_engine_iterations() -> None:
    """Nested and equal ones count once; the second thread's are in between."""
    lines: list[Line] = [
        *((0, "execute", 0, 8), (0, "execute", 1, 7), (0, "execute", 8, 4)),
        *((1, "execute_2", 4, 8), (0, "other", 30, 9), (0, "execute", 20, 5)),
    ]
    flags = dict.fromkeys(("execute", "execute_2"), EventFlag.ENGINE_ITERATION)
    found = Recording(lines, flags=flags).iterations()
    assert found is not None
    about = found.candidate
    assert (about.source, about.confidence, about.period_ps) == ("launch", 0.9, 4)
    assert (found.on_device, found.last_end_ps) == (False, None)
    assert columns(found) == {
        "step": [0, 1, 2, 3],
        "name": ["execute", "execute_2", "execute", "execute"],
        "start_ps": [0, 4, 8, 20],
        "end_ps": [8, 12, 12, 25],
        "track": [0, 1, 0, 0],
        "event": [0, 5, 2, 3],
        "cut": [False] * 4,
    }
    on_worker = Recording(
        lines[:1], tracks=["tf_data_x"], flags={"execute": flags["execute"]}
    )
    assert on_worker.iterations() is None


# Stored lines of steps.


def lines_of(*spans: tuple[int, str, int, int, dict[str, Any]]) -> Recording:
    tracks = [{**LINE, "device": 0}, {**LINE, "device": 3}, "main"]
    return Recording([*spans, (2, "5", 0, 9, {"group_id": 7})], tracks=tracks)


def test_every_column_of_stored_spans() -> None:
    found = lines_of(
        (0, "5", 0, 9, {"group_id": 70, "step_name": "fifth"}),
        (0, "Step 6", 10, 9, {"group_id": 71}),
        (0, "six", 20, 9, {"group_id": 72, "step_num": 8}),
        (1, "7", 5, 9, {"group_id": 70}),
    ).stored()
    assert found.to_dict(as_series=False) == {
        "event": [0, 1, 2, 3],
        "track": [0, 0, 0, 1],
        "device": [0, 0, 0, 3],
        "start_ps": [0, 10, 20, 5],
        "end_ps": [9, 19, 29, 14],
        "group": [70, 71, 72, 70],
        "number": [5, 6, 8, 7],
        "name": ["fifth", "Step 6", "six", "7"],
        "key": [70, 71, 72, 70],
    }
    assert lines_of().stored().is_empty()


@pytest.mark.parametrize(
    ("values", "names", "keys"),
    [
        ([{}] * 4, ["5", "6", "5", "x"], [0, 1, 0, 1]),  # the position in its line
        ([{}] * 4, ["5", "6", "5", "6"], [5, 6, 5, 6]),
        ([{"step_num": 9}, {}, {}, {}], ["5", "6", "5", "6"], [9, 6, 5, 6]),
        ([{"group_id": 1}] * 4, ["5", "6", "5", "x"], [1] * 4),
        ([{"group_id": 1}] * 3 + [{}], ["5", "6", "5", "6"], [5, 6, 5, 6]),
    ],
)
def test_spans_of_a_step_have_its_group_else_its_number_else_its_position(
    values: list[dict[str, Any]], names: list[str], keys: list[int]
) -> None:
    spans = [
        (at // 2, name, 10 * (at % 2), 9, value)
        for at, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    assert lines_of(*spans).stored()["key"].to_list() == keys


SPAN = st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(1, 8))


@given(st.lists(SPAN, min_size=1, max_size=7))
def test_spans_behind_a_gap_longer_than_any_span_are_apart(rows: list[Any]) -> None:
    """(key, start, length); the main spans contain the first of the longest ones."""
    stored = stored_of(
        [
            {"key": key, "start_ps": start, "end_ps": start + dur, "event": at}
            for at, (key, start, dur) in enumerate(rows)
        ]
    )
    found = dict(mark_separate_spans(stored).select("event", "apart").iter_rows())
    expected: dict[int, bool] = {}
    for key in {row[0] for row in rows}:
        own = sorted(
            (at for at, row in enumerate(rows) if row[0] == key),
            key=lambda at: rows[at][1],
        )
        longest = max(rows[at][2] for at in own)
        parts: list[list[int]] = []
        reach = None
        for at in own:
            if reach is None or rows[at][1] - reach > longest:
                parts.append([])
            parts[-1].append(at)
            reach = max(reach or 0, rows[at][1] + rows[at][2])
        best = next(at for at in own if rows[at][2] == longest)
        for part in parts:
            expected |= dict.fromkeys(part, best not in part)
    ties = len({rows[at][2] for at in expected}) < len(expected)
    if not ties:
        assert found == expected
    assert set(found) == set(expected)


def test_every_column_of_steps_of_a_stored_line() -> None:
    """Two devices; one span of the second step is far away from the others."""

    def span(at: int, key: int, start: int, end: int, **fields: Any) -> dict[str, Any]:
        plain = {"event": at, "track": at % 2, "key": key, "start_ps": start}
        return {**plain, "end_ps": end, **fields}

    found = steps_of_stored_line(
        stored_of(
            [
                span(0, 8, 20, 29, group=80, number=4, name="b"),
                span(1, 7, 0, 9, group=70, number=3, name="a"),
                span(2, 7, 4, 15, group=70, number=3),
                span(3, 8, 18, 25, group=80, number=4),
                span(4, 8, 99, 100, group=80, number=4, name="apart"),
                span(5, 9, 50, 60, group=90),
                span(6, 6, 70, 80),
            ]
        )
    )
    assert found is not None
    about = found.candidate
    assert (about.source, about.confidence, about.period_ps) == (
        "device_line",
        0.95,
        20,
    )
    assert (found.on_device, found.last_end_ps) == (True, None)
    assert columns(found) == {
        # The number, else the group, else the position.
        "step": [3, 4, 90, 3],
        "name": ["a", "b", None, None],
        "start_ps": [0, 18, 50, 70],
        "end_ps": [15, 29, 60, 80],
        "track": [1, 1, 1, 0],
        "event": [1, 3, 5, 6],
        "group": [70, 80, 90, None],
        "cut": [False] * 4,
    }
    assert steps_of_stored_line(stored_of([])) is None


# Stored calls.

CALLS = {
    "graph: a": EventFlag.FUNCTION_CALL,
    "graph: b": EventFlag.FUNCTION_CALL,
    "run": EventFlag.FUNCTION_RUN,
}


def stored(at: int, group: int | None, *, name: str = "op", dur: int = 2) -> Line:
    values: dict[str, Any] = {"step_name": str(at)}
    return (0, name, at, dur, values if group is None else values | {"group_id": group})


def test_every_column_of_stored_calls() -> None:
    """Graph b takes more time in its stored ops: 8 and 8 against 9 and 1."""
    lines: list[Line] = [
        *((0, "graph: a", 0, 20), stored(5, 1, dur=9), (0, "graph: a", 30, 20)),
        *(stored(35, 2, dur=1), (0, "graph: b", 60, 20), stored(65, 3, dur=8)),
        *((0, "graph: b", 90, 20), stored(95, 4, dur=8), stored(120, 5, dur=99)),
        *((0, "graph: a", 200, 90), stored(205, None, dur=80)),
    ]
    found = Recording(lines, flags=CALLS).calls()
    assert found is not None
    about = found.candidate
    assert (about.source, about.confidence, about.period_ps) == ("stored_call", 0.8, 30)
    assert about.what == "b, as the producer stored it"
    assert found.on_device is False
    assert columns(found) == {
        "step": [3, 4],
        "name": ["b 3", "b 4"],
        "start_ps": [65, 95],
        "end_ps": [73, 103],
        "track": [0, 0],
        "event": [5, 7],
        "group": [3, 4],
        "cut": [False, False],
    }


@pytest.mark.parametrize(
    ("outer", "inner", "length", "graph"),
    [
        ((0, 40), (3, 30), 9, "b"),  # the innermost call
        ((0, 40), (3, 11), 9, "b"),  # ends with it
        ((0, 40), (3, 10), 9, "a"),  # ends before it
        ((0, 40), (5, 30), 9, "b"),  # begins with it
        ((0, 40), (6, 30), 9, "a"),  # begins after it
        ((6, 40), (7, 30), 9, None),
    ],
)
def test_a_stored_op_belongs_to_the_innermost_call_around_it(
    outer: tuple[int, int], inner: tuple[int, int], length: int, graph: str | None
) -> None:
    """The op runs from 5 to 14; a call of another thread is around it too."""
    lines: list[Line] = [
        *((0, "graph: a", *outer), (0, "graph: b", *inner), (1, "graph: b", 0, 99)),
        stored(5, 1, dur=length),
    ]
    found = Recording(lines, flags=CALLS).calls()
    assert (None if found is None else found.rows["name"][0]) == (
        None if graph is None else f"{graph} 1"
    )


def test_a_stored_run_of_a_graph_is_a_step_without_a_call() -> None:
    lines = [stored(5, 1, name="run"), stored(15, 2, name="run"), stored(25, 3)]
    found = Recording(lines, flags=CALLS).calls()
    assert found is not None
    assert columns(found)["name"] == ["run 1", "run 2"]


def test_stored_calls_beside_a_device_or_of_input_workers_are_no_steps() -> None:
    lines = [stored(5, 1, name="run")]
    flags = CALLS
    assert Recording(lines, flags=flags).calls() is not None
    assert Recording(lines, flags=flags, devices=pl.DataFrame()).calls() is None
    assert Recording(lines, flags=flags, tracks=["tf_data_x"]).calls() is None
    assert Recording([stored(5, None, name="run")], flags=flags).calls() is None
