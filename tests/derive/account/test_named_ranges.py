"""Time that only a range of the program names, in programs without steps and frames."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces import nsight
from tests.support.traces.kineto import complete, read_file

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


def owners(folder: Path, *ranges: dict[str, Any]) -> dict[str, tuple[float, list[str]]]:
    """Ten ops of 60 µs, 40 µs apart: the share of each owner, and its names."""
    ops = [complete("aten::mm", 100 * at, 60) for at in range(10)]
    path = folder / "worker0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*ranges, *ops]}))
    overview = document_of(read_file(path)).overview
    assert not isinstance(overview, Unavailable)
    return {
        one.owner: (one.percent, [part.name for part in one.parts])
        for one in overview.account
        if one.percent
    }


def test_a_range_names_what_lies_between_the_ops_in_it(tmp_path: Path) -> None:
    found = owners(tmp_path, complete("model_forward", 0, 1000, cat="user_annotation"))
    assert list(found) == ["host_compute"]
    percent, names = found["host_compute"]
    assert percent == pytest.approx(100.0)
    assert names == ["aten::mm", "model_forward"]


def test_without_a_range_it_is_not_explained(tmp_path: Path) -> None:
    found = owners(tmp_path)
    # The last gap has no end.
    assert found["host_compute"][0] == pytest.approx(100 * 600 / 960)
    assert found["unexplained"][0] == pytest.approx(100 * 360 / 960)


def test_ranges_alone_name_the_time_that_they_own(tmp_path: Path) -> None:
    """A frame of 10 µs: 6 find, 3 sort; the story: it was `tasks of thread pools`."""
    frames = [
        nsight.span(name, 10_000 * number + begin, 10_000 * number + end)
        for number in range(5)
        for name, begin, end in (("find", 0, 6_000), ("sort", 6_000, 9_000))
    ]
    listed = [{"id": 0, "cuDevice": 0, "name": "NVIDIA TITAN RTX"}]
    tables = {nsight.NVTX: frames, "TARGET_INFO_GPU": listed}
    file = nsight.write(tmp_path / "a.sqlite", tables)
    overview = document_of(nsight.read_file(file)).overview
    assert not isinstance(overview, Unavailable)
    (work,) = [one for one in overview.account if one.owner == "host_compute"]
    named = {part.name: part.ms for part in work.parts}
    assert named == {"find": pytest.approx(0.030), "sort": pytest.approx(0.015)}
