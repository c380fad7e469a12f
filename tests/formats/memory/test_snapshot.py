"""Snapshots of PyTorch's allocator, by hand and for real, become a memory profile."""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from tests.support.traces.snapshots import (
    LIBRARY,
    MIB,
    SEGMENT_A,
    segment,
    snapshot,
)

import stepscope
from stepscope.analysis.memory_profile import MemoryProfileResult
from stepscope.cli.main import main
from stepscope.errors import BadInput
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.memory_profile.memory import Memory
    from stepscope.analysis.tools import ProfileWithTools


def opened(path: Path, value: object) -> ProfileWithTools:
    path.write_bytes(pickle.dumps(value, 4))
    return stepscope.open(path)


def memory_of(
    profile: ProfileWithTools, name: str = "cuda:0", **options: Any
) -> Memory:
    result = profile.tool("memory_profile", **options)
    assert isinstance(result, MemoryProfileResult)
    return result.memories[name]


def mib(memory: Memory, column: str) -> list[float | None]:
    return [
        None if it is None else it / MIB for it in memory.timeline[column].to_list()
    ]


def test_the_levels_follow_from_the_end_walked_back(tmp_path: Path) -> None:
    memory = memory_of(opened(tmp_path / "a.pickle", snapshot()))
    assert memory.timeline["time_ms"].to_list() == pytest.approx(
        [0, 0, 0, 0.02, 0.035, 0.04, 0.05]
    )
    events = ["there before"] * 2 + ["allocation"] * 3 + ["deallocation"] * 2
    assert memory.timeline["event"].to_list() == events
    assert mib(memory, "heap_bytes") == [10, 40, 48, 112, 113, 83, 19]
    # The 30 MiB that wait for a stream are no tensor's any more.
    assert mib(memory, "tensor_bytes") == [10, 40, 48, 112, 83, 83, 19]
    assert mib(memory, "reserved_bytes") == [60, 60, 60, 160, 160, 160, 160]
    assert (memory.allocations, memory.deallocations) == (3, 2)
    assert memory.unmatched_deallocations == 0
    assert memory.level == "recorded"


def test_the_peak_is_known_by_line_of_the_program(tmp_path: Path) -> None:
    memory = memory_of(opened(tmp_path / "a.pickle", snapshot()))
    assert memory.peak is not None
    assert memory.peak.memory_in_use_bytes == 113 * MIB
    held = memory.lines.select("source", "allocation_bytes", "occurrences").rows()
    assert held == [
        ("/home/me/train.py:21 step", 73 * MIB, 3),
        # The one that an event frees has no stack of who asked for it.
        (None, 30 * MIB, 1),
        ("/home/me/train.py:9 new", 10 * MIB, 1),
    ]
    assert memory.lines["share_percent"].sum() == pytest.approx(100)
    assert memory.lines["stack"][0] == (
        f"{LIBRARY}:125 forward\n/home/me/train.py:21 step"
    )
    assert memory.breakdown["allocation_bytes"].sum() == 113 * MIB


def test_the_report_names_the_lines_that_hold_most(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    opened(path, snapshot())
    done = CliRunner().invoke(main, ["report", str(path)])
    assert done.exit_code == 0, done.stderr
    assert "cuda:0: 73.0 MiB, 64.6 %: /home/me/train.py:21 step" in done.stdout
    assert "devices not recorded" in done.stdout


def test_free_memory_at_the_peak_lies_in_pieces(tmp_path: Path) -> None:
    """A has 12 MiB free behind its blocks, B 35: the largest of 47 is 35."""
    memory = memory_of(opened(tmp_path / "a.pickle", snapshot()))
    assert memory.peak is not None
    assert memory.peak.free_bytes == 47 * MIB
    assert memory.peak.fragmentation == pytest.approx(12 / 47)


def test_events_without_times_are_numbered(tmp_path: Path) -> None:
    profile = opened(tmp_path / "a.pickle", snapshot(timed=False))
    memory = memory_of(profile)
    assert mib(memory, "heap_bytes") == [10, 40, 48, 112, 113, 83, 19]
    assert "no_clock" in kinds(profile)


def kinds(profile: ProfileWithTools) -> set[str]:
    (host,) = profile.hosts
    return {note.kind for note in profile.trace(host).quality_notes()}


def test_segments_alone_are_a_snapshot_without_history(tmp_path: Path) -> None:
    """What `torch.cuda.memory_snapshot()` returns, which programs pickle themselves."""
    segments = [{**it, "segment_type": "large"} for it in snapshot()["segments"]]
    memory = memory_of(opened(tmp_path / "a.pkl", segments))
    assert memory.level == "one_instant"
    assert memory.peak is not None
    assert memory.peak.memory_in_use_bytes == 19 * MIB


def test_events_of_one_instant_make_no_peak(tmp_path: Path) -> None:
    """A history that was begun when the snapshot was taken holds one event."""
    value = snapshot()
    last = [trace[-1:] for trace in value["device_traces"]]
    memory = memory_of(opened(tmp_path / "a.pickle", {**value, "device_traces": last}))
    assert memory.level == "one_instant"


def test_a_snapshot_without_history_shows_its_instant(tmp_path: Path) -> None:
    value = snapshot()
    profile = opened(tmp_path / "a.pickle", {**value, "device_traces": []})
    memory = memory_of(profile)
    assert memory.level == "one_instant"
    assert (memory.allocations, memory.deallocations) == (0, 0)
    assert memory.peak is not None
    assert memory.peak.memory_in_use_bytes == 19 * MIB
    assert memory.peak.free_bytes == 141 * MIB
    # Free: 30 + 12 and 64 + 35 in one piece each but for blocks between them.
    assert memory.peak.fragmentation == pytest.approx(1 - 64 / 141)
    assert memory.breakdown["allocation_bytes"].sum() == 19 * MIB
    assert "no_history" in kinds(profile)


def test_events_that_end_before_the_snapshot_are_noted(tmp_path: Path) -> None:
    value = snapshot()
    value["device_traces"][0] = value["device_traces"][0][:3]
    profile = opened(tmp_path / "a.pickle", value)
    memory = memory_of(profile)
    assert "memory_snapshot_cut" in kinds(profile)
    assert memory.level == "recorded_since_start"
    assert mib(memory, "heap_bytes") == [8, 72]


def test_allocations_that_failed_are_counted(tmp_path: Path) -> None:
    value = snapshot()
    value["device_traces"][0].append({"action": "oom", "size": 7, "device_free": 3})
    assert "out_of_memory" in kinds(opened(tmp_path / "a.pickle", value))


def test_other_tools_say_why_they_have_nothing(tmp_path: Path) -> None:
    profile = opened(tmp_path / "a.pickle", snapshot())
    for name in ("overview_page", "trace_viewer", "kernel_stats", "framework_op_stats"):
        result = profile.tool(name)
        assert isinstance(result, Unavailable)
        assert result.code == "FORMAT"
        assert "torch.profiler" in result.remedy


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"segments": 5, "device_traces": []},
        {"segments": [], "device_traces": [[]]},
        {"segments": [None, 3, {}], "device_traces": [[None, 7, {}]]},
        {"segments": [segment(-1, MIB)], "device_traces": 5},
        {"segments": [{"device": 2**80, "address": 0, "total_size": 1}]},
    ],
)
def test_a_pickle_that_is_no_snapshot_is_one_clear_line(
    tmp_path: Path, value: object
) -> None:
    path = tmp_path / "a.pickle"
    # A format is known by the first bytes: these words may stand anywhere in them.
    named = value or ["segments"]
    path.write_bytes(pickle.dumps(named, 4))
    with pytest.raises(BadInput) as caught:
        stepscope.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_is_one_clear_line(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot(), 4)
    path = tmp_path / "a.pickle"
    for end in range(0, len(whole), max(len(whole) // 50, 1)):
        path.write_bytes(whole[:end])
        with pytest.raises(BadInput) as caught:
            stepscope.open(path)
        assert "\n" not in str(caught.value)


def test_events_months_apart_are_numbered(tmp_path: Path) -> None:
    """Their picoseconds have no room in 64 bits: polars raised of i128."""
    value = snapshot()
    value["device_traces"][0][0]["time_us"] = 2**52
    profile = opened(tmp_path / "a.pickle", value)
    assert "no_clock" in kinds(profile)
    assert mib(memory_of(profile), "heap_bytes")[-1] == 19


def test_sums_beyond_64_bits_are_one_clear_line(tmp_path: Path) -> None:
    value = snapshot()
    value["device_traces"][0] = [
        {"action": "alloc", "addr": place, "size": 2**50 - 1, "time_us": place}
        for place in range(2**13 + 2)
    ]
    with pytest.raises(BadInput, match=r"64 bits .* Copy the whole file again"):
        opened(tmp_path / "a.pickle", value)


def test_a_name_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    """A list within lists was written out: too deep, or a billion items long."""
    deep: list[Any] = []
    for _ in range(30):
        deep = [deep, deep]
    value = snapshot()
    stack = value["segments"][0]["blocks"][0]["frames"]
    value["segments"][0]["blocks"][0]["frames"] = [
        {**stack[-1], "filename": deep, "name": deep}
    ]
    lines = memory_of(opened(tmp_path / "a.pickle", value)).lines
    held = dict(lines.select("source", "allocation_bytes").iter_rows())
    # The older 10 MiB and the 30 that an event frees: nobody knows who asked for them.
    assert held == {"/home/me/train.py:21 step": 73 * MIB, None: 40 * MIB}


def test_impossible_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    value = snapshot()
    bad = [
        {"action": "alloc", "addr": -5, "size": 3},
        {"action": "alloc", "addr": 5, "size": 2**60},
        {"action": "alloc", "addr": True, "size": 2},
        {"action": ["alloc"], "addr": 5, "size": 2},
        {"action": "dance", "addr": 5, "size": 2},
    ]
    value["device_traces"][0] += bad
    profile = opened(tmp_path / "a.pickle", value)
    (host,) = profile.hosts
    notes = {it.kind: it for it in profile.trace(host).quality_notes()}
    assert notes["refused_events"].count == len(bad)
    assert mib(memory_of(profile), "heap_bytes")[-1] == 19


@pytest.mark.profiles
def test_a_real_snapshot_equals_a_second_count(
    shared_profile: Callable[[str], Path],
) -> None:
    """The file's trace was cut to 50 events; its segments show the end of the run."""
    path = shared_profile("memory_snapshot/drisspg_mini")
    path = path / "mini_snapshot.pickle" if path.is_dir() else path
    # No class is in this file, which is known.
    data = pickle.loads(path.read_bytes())  # noqa: S301
    (events,) = data["device_traces"]
    alive: dict[int, dict[str, Any]] = {}
    held: list[dict[str, Any]] = []
    use = most = 0
    for each in events:
        if each["action"] == "alloc":
            alive[each["addr"]] = each
        elif each["action"] == "free_completed":
            del alive[each["addr"]]
        use = sum(one["size"] for one in alive.values())
        if use > most:
            most, held = use, list(alive.values())
    asked: defaultdict[int, int] = defaultdict(int)
    for each in held:
        line = next(
            it["line"]
            for it in each["frames"]
            if it["filename"].endswith("misc/attention.py")
        )
        asked[line] += each["size"]
    profile = stepscope.open(path)
    memory = memory_of(profile, points=None)
    assert (memory.allocations, memory.deallocations) == (28, 4)
    assert memory.peak is not None
    assert memory.peak.memory_in_use_bytes == most
    assert memory.timeline["requested_bytes"].clip(0).sum() == 402_769_160
    assert memory.timeline["reserved_bytes"][-1] == 421_527_552
    found = dict(memory.lines.select("source", "allocation_bytes").iter_rows())
    assert sorted(found.values()) == sorted(asked.values())
    assert memory.timeline["heap_bytes"][-1] == use
    assert "memory_snapshot_cut" in kinds(profile)


@pytest.mark.parametrize(
    ("spread", "noted"),
    [
        # Older and without a stack: 30 of 113 MiB at the peak, then 130 of 213.
        pytest.param(30, False, id="the smaller part"),
        pytest.param(130, True, id="the larger part"),
    ],
)
def test_a_peak_of_older_blocks_says_when_to_begin(
    tmp_path: Path, spread: int, *, noted: bool
) -> None:
    value = snapshot()
    for each in value["device_traces"][0]:
        if each["addr"] == SEGMENT_A + 10 * MIB:
            each["size"] = spread * MIB
    profile = opened(tmp_path / "a.pickle", value)
    (host,) = profile.hosts
    notes = {it.kind: it for it in profile.trace(host).quality_notes()}
    assert ("memory_before_history" in notes) is noted
    if noted:
        assert notes["memory_before_history"].message.startswith("61.0 % of the peak")
