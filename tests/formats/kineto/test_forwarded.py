"""Annotations of ours that PyTorch's own profiler recorded by name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.formats.kineto.test_stats import values_of
from tests.support.traces.kineto import complete, frame

from stepscope.derive.account.time_by_cause import account
from stepscope.derive.steps.chosen import Steps, steps
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import forwarded_annotation, forwarded_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]

FIRST = forwarded_name("train", {"step_num": 1, "_r": 1})
SECOND = forwarded_name("train", {"step_num": 2, "_r": 1})
OTHER = "stepscope.looks_alike"


def test_a_packed_name_is_shown_as_the_program_gave_it(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("aten::mm", 0, 5),
            complete(FIRST, 10, 5, args={"External id": 7}),
            complete(SECOND, 20, 5),
            complete(OTHER, 30, 5),
            complete("train", 40, 5),
        ]
    )
    types = frame(trace, "event_types")
    names = types["name"][frame(trace, "events")["type"]].to_list()
    assert names == ["aten::mm", "train", "train", OTHER, "train"]
    # An op of the same name stays an op; ours is a range of the program.
    said = dict(zip(types["name"], types["annotation"], strict=True))
    assert said[OTHER] is False
    ranges = types.filter(name="train").sort("op")
    assert ranges.select("op", "annotation").rows() == [(False, True), (True, False)]
    assert values_of(trace)["train"] == {"step_num": 2, "_r": 1, "External id": 7}


def test_what_only_begins_like_ours_is_a_name() -> None:
    assert forwarded_annotation(OTHER) is None
    assert forwarded_annotation("stepscope.") is None
    assert forwarded_annotation("aten::mm") is None
    found = forwarded_annotation(SECOND)
    assert found is not None
    assert (found.name, bytes(found.values)) == ("train", b'{"step_num":2,"_r":1}')


def test_both_files_of_one_recording_have_one_account(
    shared_profile: Callable[[str], Path],
) -> None:
    """`own` is PyTorch's JSON, the other what we wrote of the same events."""
    folder = shared_profile("gpu/check_torch")
    rows = []
    for path in (folder / "own.pt.trace.json.gz", folder / "plugins"):
        profile = open_profile(path)
        (host,) = profile.hosts
        found, placed = profile.derived(host, account), profile.derived(host, steps)
        assert not isinstance(found, Unavailable)
        assert isinstance(placed, Steps)
        assert placed.source == "marker"
        assert placed.rows["name"].to_list() == [f"train {n}" for n in range(6)]
        rows.append(found.rows)
    assert rows[0].equals(rows[1])
