"""The section on requests: latencies where the program served any."""

from __future__ import annotations

from typing import Any

from tests.support.results.pages import host_loop, page, section
from tests.support.traces import blueprint

MORE = "  more: stepscope show inference_profile PATH"


def served(*requests: tuple[float, float, int]) -> Any:
    """A trace of requests: start, latency and batch size of each."""
    return blueprint.trace(
        [
            ("main", "serve", start, dur, {"request_id": row, "batch_size": size})
            for row, (start, dur, size) in enumerate(requests)
        ]
    )


def test_latencies_stand_in_all_and_by_batch_size() -> None:
    trace = served((0, 100, 1), (200, 200, 1), (500, 300, 2), (1500, 500, 2))
    lines = section(page(trace), "Requests")
    assert lines is not None
    # Four in 2 ms; the two middle ones take 200 and 300 µs.
    assert lines[0] == (
        "  4 requests, 2,000.0 a second · latency p50 250 µs · p99 500 µs · max 500 µs"
    )
    assert [one.split() for one in lines[2:4]] == [
        ["1", "2", "150", "µs", "200", "µs", "150", "µs"],
        ["2", "2", "400", "µs", "500", "µs", "200", "µs"],
    ]
    assert lines[4:] == [MORE]


def test_one_batch_size_needs_no_table() -> None:
    lines = section(page(served((0, 100, 4), (200, 100, 4))), "Requests")
    assert lines is not None
    assert len(lines) == 2
    assert lines[1] == MORE


def test_a_program_that_serves_nothing_has_no_section_and_lacks_nothing() -> None:
    text = page(blueprint.trace(host_loop()))
    assert section(text, "Requests") is None
    assert "inference_profile" not in text
