"""Lines of samples: what their names and ids say."""

from __future__ import annotations

import pytest

from stepscope.xspace.samples_line import SamplesKind, SamplesLine


@pytest.mark.parametrize(
    "kind", ["functions", "functions_beside", "source_lines", "core_time"]
)
@pytest.mark.parametrize("thread", [7, 2**28 + 7])
def test_a_line_is_read_back_as_it_was_written(kind: SamplesKind, thread: int) -> None:
    line = SamplesLine(thread, "main, 2 a second", 12.5, kind)
    assert SamplesLine.of(line.id, line.name) == line


@pytest.mark.parametrize("rate", ["0", "1e999", "e", "-1", ""])
def test_a_line_that_nobody_looked_at_in_time_holds_no_samples(rate: str) -> None:
    assert SamplesLine.of(2**30 + 7, f"samples of main, {rate} a second") is None


def test_other_lines_hold_no_samples() -> None:
    assert SamplesLine.of(7, "samples of main, 100 a second") is None
    assert SamplesLine.of(2**30 + 7, "main") is None
