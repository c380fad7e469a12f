"""Names that no program writes are cut, wherever they stand, and that is said."""

from __future__ import annotations

import polars as pl
from tests.support.traces import blueprint

LONG = "n" * 20_000
CUT = "n" * 16_384 + "… (20,000 characters)"


def table(trace: blueprint.TraceData, name: str) -> pl.DataFrame:
    found = trace.table(name)
    assert isinstance(found, pl.DataFrame)
    return found


def test_a_long_name_is_cut_and_that_is_said() -> None:
    trace = blueprint.trace([("main", "MatMul", 0, 5), ("main", LONG, 10, 5)])
    assert table(trace, "event_types")["name"].to_list() == ["MatMul", CUT]
    notes = table(trace, "quality").filter(pl.col("kind") == "long_names")
    assert notes["count"].to_list() == [1]


def test_the_name_of_a_track_and_a_text_of_an_event_are_cut() -> None:
    trace = blueprint.trace([(LONG, "MatMul", 0, 5, {"long_name": LONG})])
    assert CUT in table(trace, "tracks")["name"].to_list()
    stats = table(trace, "stats")
    texts = [
        trace.text(value, length)
        for kind, value, length in stats.select("kind", "value", "length").iter_rows()
        if kind == 5
    ]
    texts += trace.strings
    assert CUT in texts
    assert max(map(len, texts)) == len(CUT)


def test_names_as_long_as_real_ones_stay_as_they_are() -> None:
    real = "fusion.1 = " + "f32[64,128] " * 350
    trace = blueprint.trace([("main", real, 0, 5)])
    assert table(trace, "event_types")["name"].to_list() == [real]
    assert "long_names" not in table(trace, "quality")["kind"].to_list()
