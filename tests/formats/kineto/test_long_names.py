"""Names and events that no program writes are cut or left out, and that is said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import complete, frame

from stepscope.errors import BadInput
from stepscope.formats.kineto.json.batches import MAX_EVENT_BYTES
from stepscope.trace.reading import texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Make = Callable[..., TraceData]


def names(trace: TraceData) -> list[str]:
    return frame(trace, "event_types")["name"].to_list()


def notes(trace: TraceData) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in frame(trace, "quality").iter_rows(named=True)}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_event_that_is_too_large_is_left_out_alone(
    trace_of: Make, place: int
) -> None:
    events = [complete("aten::mm", 10, 5), complete("aten::add", 20, 5)]
    events.insert(place, complete("huge" * (MAX_EVENT_BYTES // 2), 15, 1))
    trace = trace_of(events)
    assert names(trace) == ["aten::mm", "aten::add"]
    assert frame(trace, "events").height == 2
    note = notes(trace)["refused_events"]
    assert note["count"] == 1
    assert f"1 events of more than {MAX_EVENT_BYTES:,} bytes" in note["message"]
    assert "hugehuge" in note["message"]
    assert len(note["message"]) < 400


@pytest.mark.slow(seconds=0.6)
@pytest.mark.parametrize("piece", ["}, {", '},{"a', ",{["])
@pytest.mark.sweep(every=3)
def test_a_text_in_which_events_seem_to_follow_each_other_is_no_way_round(
    trace_of: Make, piece: str
) -> None:
    tricky = piece * (MAX_EVENT_BYTES // 3)
    begun = time.monotonic()
    trace = trace_of([complete("aten::mm", 10, 5), complete(tricky, 15, 1)])
    assert "aten::mm" in names(trace)
    assert max(map(len, names(trace))) < MAX_EVENT_BYTES
    assert time.monotonic() - begun < 60


def test_a_long_name_is_cut_and_that_is_said(trace_of: Make) -> None:
    long = "n" * 20_000
    trace = trace_of(
        [complete("aten::mm", 10, 5, args={"Note": long}), complete(long, 20, 5)]
    )
    assert names(trace) == ["aten::mm", "n" * 16_384 + "… (20,000 characters)"]
    assert notes(trace)["long_names"]["count"] == 1
    assert "16,384" in notes(trace)["long_names"]["message"]
    # Texts beside the name are no longer.
    frame(trace, "stats")
    assert max(map(len, trace.strings)) < 16_500


def test_names_as_long_as_real_ones_stay_as_they_are(trace_of: Make) -> None:
    real = "void cutlass::Kernel<" + "x" * 4200 + ">"
    trace = trace_of([complete(real, 10, 5)])
    assert names(trace) == [real]
    assert "long_names" not in notes(trace)


def test_many_long_names_are_cut_together(
    trace_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_MAX_TOTAL", 2000)
    trace = trace_of([complete(f"{at}" + "n" * 999, at * 10, 5) for at in range(5)])
    lengths = [len(name) for name in names(trace)]
    assert lengths[:2] == [1000, 1000]
    assert all(256 < length < 300 for length in lengths[2:])
    assert notes(trace)["long_names"]["count"] == 3


def test_a_million_blanks_before_no_end_cost_no_time(
    trace_of_bytes: Callable[[bytes], TraceData],
) -> None:
    begun = time.monotonic()
    trace = trace_of_bytes(
        b'{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm",'
        b'"pid":1,"tid":1,"ts":1,"dur":5}' + b" " * 10**6
    )
    assert names(trace) == ["aten::mm"]
    assert time.monotonic() - begun < 10


def test_a_field_beside_the_events_that_is_too_large_is_an_error(
    trace_of: Make,
) -> None:
    with pytest.raises(BadInput, match="'traceName' has 3,000,002 bytes"):
        trace_of([complete("aten::mm", 10, 5)], traceName="x" * 3_000_000)
