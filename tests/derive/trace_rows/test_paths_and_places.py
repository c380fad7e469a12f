"""Paths of ops, sections and lanes: small tables, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.literal import fields_of
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    tables_of,
    types_of,
)

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.intervals.nesting import nest_events
from stepscope.derive.trace_rows.drawn_rows import (
    TraceTimeline,
    _launch_flows,
    trace_timeline,
)
from stepscope.derive.trace_rows.lanes import index_lanes
from stepscope.derive.trace_rows.op_spans import (
    _order_by_stream,
    computing_rows,
    dense_texts,
    paths_of_ops,
)
from stepscope.derive.trace_rows.step_lines import DerivedLine, Names, no_spans
from stepscope.derive.trace_rows.tracks import (
    SECTIONS,
    Lane,
    recorded_rows,
    sections_and_tracks,
)
from stepscope.unavailable import Unavailable

GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")

#: name, type, framework op, its type, evidence, module, program, file, line
OPS = [
    ("a/b/x", "X", None, None, OpEvidence.ANNOTATION, None, None, None, None),
    ("b/y", None, None, None, OpEvidence.ANNOTATION, "f", None, "t.py", 3),
    ("dot.1", "dot", "a/b//z", "Z", OpEvidence.HLO, "f", 7, "t.py", None),
    ("dot.2", "dot", None, None, OpEvidence.HLO_NAME, "f", 8, None, None),
    ("MemcpyH2D", "copy", None, None, OpEvidence.COPY, None, None, None, None),
    ("a/a/x", "X", None, None, OpEvidence.LAUNCH, "f", 7, "t.py", 3),
]


def test_each_view_has_the_path_of_each_op() -> None:
    ops = pl.DataFrame(
        [(*row[:4], int(row[4]), *row[5:]) for row in OPS],
        schema={
            **dict.fromkeys(("name", "type", "framework_op"), pl.String()),
            "framework_type": pl.String(),
            "evidence": pl.UInt8(),
            "module": pl.String(),
            "program": pl.Int64(),
            "source_file": pl.String(),
            "source_line": pl.Int64(),
        },
        orient="row",
    )
    names = Names(types_of(["X"]).with_columns(display_name=pl.lit(None, pl.String)))
    paths = paths_of_ops(ops, ["call.1::dot.1", "dot.1", "call.1::call.1"], names)
    shown, full = names.name_texts()

    def spelled(found: Any) -> list[list[str]]:
        numbers: dict[int, tuple[int, ...]] = {}
        rows: list[list[int]] = []
        for levels in found.level.tolist():
            known = [number for number in levels if number >= 0]
            # Beyond the last level there is nothing.
            assert levels == known + [-1] * (len(levels) - len(known))
            for depth, number in enumerate(known):
                path = tuple(known[: depth + 1])
                assert numbers.setdefault(number, path) == path
            rows.append([int(found.name[number]) for number in known])
        every = [tuple(row[: k + 1]) for row in rows for k in range(len(row))]
        # One number for each distinct path of shown and full names.
        assert len(numbers) == len(set(every)) == len(found.name)
        assert found.has_path().tolist() == [int(bool(row)) for row in rows]
        return [[shown[code] for code in row] for row in rows]

    assert {
        view: spelled(each) for view, each in paths.items() if view != "xla_ops"
    } == {
        "name_scope": [["a", "b"], ["b"], ["a", "b"], [], [], ["a", "a"]],
        "framework_ops": [["X"], ["b/y"], ["Z"], [], [], ["X"]],
        "xla_modules": [[], ["f"], ["f(7)"], ["f(8)"], [], ["f(7)"]],
        "source": [[], ["t.py:3"], ["t.py"], [], [], ["t.py:3"]],
    }
    assert spelled(paths["xla_ops"]) == [
        ["call.1", "dot.1"],
        ["dot.1"],
        ["call.1", "call.1"],
    ]
    # Ops are shown by their types, and have the names of the program.
    named = set(zip(shown.to_list(), full.to_list(), strict=True))
    assert {("X", "a/b/x"), ("Z", "a/b//z"), ("X", "a/a/x"), ("b/y", None)} <= named


def test_texts_have_codes_whatever_their_handles() -> None:
    code, texts = dense_texts(np.array([4, -1, 0, 4], np.int32), list("abcde"))
    assert code[1] == -1
    assert [texts[each] for each in code[[0, 2, 3]]] == ["e", "a", "e"]
    assert sorted(texts) == ["a", "e"]
    code, texts = dense_texts(np.array([-1, -1], np.int32), [])
    assert (code.tolist(), texts) == ([-1, -1], [])


def test_streams_that_compute_come_first_then_those_with_most_activities() -> None:
    rows = [
        *[(1, 0, "h2d", 0, 10 * k, 5) for k in range(4)],
        (2, 0, "kernel", 0, 0, 5),
        *[(3, 0, "collective", 0, 10 * k, 5) for k in range(2)],
        *[(4, 0, "memset", 0, 10 * k, 5) for k in range(4)],
        (5, 1, "d2h", 0, 0, 5),
        (6, 1, "transfer_wait", 0, 0, 5),
    ]
    activity = activity_of(rows)
    computes = computing_rows(activity)
    kinds = {"kernel", "collective", "transfer_wait"}
    assert computes.tolist() == [row[2] in kinds for row in rows]
    assert _order_by_stream(activity, computes) == {3: 0, 2: 1, 1: 2, 4: 3, 6: 0, 5: 1}


def test_sections_are_devices_then_the_host_then_others() -> None:
    named = ("/other", "/host:CPU [2]", "/made:CPU", "/host:CPU", "/device:CUSTOM:1")
    tracks, _ = tables_of(
        [(track, 0, 0, 5) for track in range(8) if track != 6],
        [
            {"plane": named[0], "kind": "counters"},
            {"plane": named[2]},
            {"plane": named[1], "process": 2},
            {"plane": named[3]},
            {"plane": "/device:GPU:1", "device": 1, "kind": "stream"},
            {"plane": "/device:GPU:0", "device": 0, "kind": "stream"},
            # Without events a plane is not shown.
            {"plane": "/device:GPU:2", "device": 2, "kind": "stream"},
            {"plane": named[4], "kind": "counters"},
        ],
    )
    devices = pl.DataFrame(
        {"device": [1, 1, 5], "name": ["B", "again", "C"]},
        schema={"device": pl.Int32, "name": pl.String},
    )
    for table, label in ((devices, "B"), (GONE, None), (devices.head(0), None)):
        sections, arranged = sections_and_tracks(tracks, [], table, {})
        assert dict(sections.schema) == SECTIONS
        assert sections.rows() == [
            ("/device:GPU:0", "device", "/device:GPU:0", 0, None, None),
            ("/device:GPU:1", "device", "/device:GPU:1", 1, None, label),
            (named[4], "device", named[4], None, None, None),
            ("Host Threads", "host", named[1], None, 2, None),
            ("Host Threads", "host", named[3], None, None, None),
            (named[2], "host", named[2], None, None, None),
            (named[0], "other", named[0], None, None, None),
        ]
        assert arranged.select("section", "source").rows() == list(
            enumerate([5, 4, 7, 2, 3, 1, 0])
        )


def test_tracks_of_a_host_are_ordered_by_kind_then_id() -> None:
    views = ["framework_ops", "name_scope"]
    tracks, _ = tables_of(
        [(track, 0, 0, 5) for track in range(7)],
        [
            {"name": "counts", "kind": "counters", "id": 1},
            {"name": "late", "id": 9},
            {"name": "early", "id": 3},
            {"name": "costs", "kind": "overhead", "id": 2},
            {"name": "beside", "kind": "asynchronous", "id": 2},
            *(
                {"name": view, "kind": "derived", "derived": view, "id": 1}
                for view in views
            ),
        ],
    )
    lines = [
        DerivedLine("framework_ops", None, 2, no_spans()),
        DerivedLine("name_scope", None, 2, no_spans()),
        DerivedLine("step_windows", None, None, no_spans()),
    ]
    _, arranged = sections_and_tracks(tracks, lines, GONE, {})
    assert arranged.select("name", "id", "line").rows() == [
        ("Step windows", None, 2),
        ("name_scope", 1, None),
        ("framework_ops", 1, None),
        ("early", 3, None),
        ("Framework Name Scope - early", 3, 1),
        ("Framework Ops - early", 3, 0),
        ("late", 9, None),
        ("beside", 2, None),
        ("costs", 2, None),
        ("counts", 1, None),
    ]


def test_arrows_ascend_by_the_event_of_the_device() -> None:
    rows = [(1, 0, "kernel", 0, 10 * k, 5) for k in range(4)]
    activity = activity_of(rows, event=[30, 10, None, 20])
    launches = [(0, 0, 100 * k, 5) for k in range(3)]
    flows = _launch_flows(correlation_of(activity, launches, [2, 0, 1, -1]))
    assert flows.device_event.tolist() == [10, 30]
    assert flows.launch_event.tolist() == [0, 2]
    assert flows.correlation.tolist() == [1, 3]
    none = _launch_flows(GONE)
    assert not len(none.device_event) + len(none.launch_event) + len(none.correlation)


def test_events_that_fold_or_overhang_have_rows_of_their_own() -> None:
    """The third event outlives the first; events of type 1 are not drawn.

    On the last thread two spans that overlap ran elsewhere. Depths stay as they are.
    """
    tracks, events = tables_of(
        [
            *((0, 0, 0, 10), (0, 0, 2, 3)),
            *((1, 0, 0, 100), (1, 0, 10, 20), (1, 0, 90, 20)),
            *((2, 0, 0, 10), (2, 1, 2, 2), (2, 1, 3, 1), (2, 0, 5, 3), (2, 0, 6, 4)),
        ],
        ["plain", "overhanging", "folded", "empty"],
    )
    nesting = nest_events(tracks, events)
    row, lanes = recorded_rows(
        tracks,
        events,
        nesting,
        flat_rows=np.array([8, 9]),
        undrawn=np.array([False, True]),
    )
    assert row.tolist() == [0, 1, 0, 1, 2, 0, 3, 4, 1, 2]
    assert fields_of(tuple(lanes)) == fields_of(
        (
            (Lane(0, 2, "main"),),
            (Lane(0, 2, "main"), Lane(2, 1, "overlap")),
            (
                *(Lane(0, 1, "main"), Lane(1, 1, "overlap"), Lane(2, 1, "overlap")),
                Lane(3, 2, "undrawn"),
            ),
            (),
        )
    )
    assert nesting.depth.tolist() == [0, 1, 0, 1, 1, 0, 1, 2, 1, 2]


def test_asynchronous_events_have_no_rows_inside_of_each_other() -> None:
    trace = blueprint.trace(
        [
            ("main", "outer", 0, 100),
            ("main", "waits", 10, 60, {"_a": 1}),
            ("main", "also waits", 20, 20, {"_a": 1}),
            ("main", "waits again", 80, 5, {"_a": 1}),
        ]
    )
    found = blueprint.profile(trace).derived("vm", trace_timeline)
    assert isinstance(found, TraceTimeline)
    assert found.row.tolist() == [0, 1, 2, 1]
    assert found.lanes.rows() == [
        (0, 0, 0, 1, "main"),
        (0, 1, 1, 1, "overlap"),
        (0, 2, 2, 1, "overlap"),
    ]


def test_coarse_slices_hold_sixteen_spans_on_average() -> None:
    cases: list[tuple[int, int, int, int]] = [
        # 64 spans of one lane have two buckets of at least 16 spans and two slices:
        # half of 63 gaps of 10 ps is 315 ps, which 2**9 exceeds.
        (64, 1, 10, 9),
        (95, 1, 10, 9),
        # Three buckets; 950 / 3 is 316. Of 16 and 17 ps the greater needs 2**5.
        (96, 1, 10, 9),
        (64, 2, 10, 10),
        (33, 1, 8, 9),
        (32, 1, 8, 8),
        (2, 1, 0, 0),
    ]
    for spans, lanes, gap, level in cases:
        start = np.arange(spans) * gap
        found = index_lanes(
            start,
            np.zeros(spans, np.int64),
            np.arange(spans).astype(np.int32) % lanes,
            lanes=lanes,
            many_spans=spans,
        )
        assert found.coarse is not None
        assert found.coarse.level == level
        fewer = index_lanes(
            start,
            np.zeros(spans, np.int64),
            np.arange(spans).astype(np.int32) % lanes,
            lanes=lanes,
            many_spans=spans + 1,
        )
        assert fewer.coarse is None


@pytest.mark.parametrize(("last", "level"), [(2**61 - 1, 61), (2**61, None)])
def test_buckets_are_no_longer_than_times_allow(last: int, level: int | None) -> None:
    start, none = np.array([0, last]), np.zeros(2, np.int32)
    found = index_lanes(start, none.astype(np.int64), none, lanes=1, many_spans=1)
    assert (None if found.coarse is None else found.coarse.level) == level
