"""The spool: what a kill at any byte, a full disk and a small budget leave."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.xspace.wire import sized

import stepscope as ss
from stepscope.capture.base.spool import Fragment, Spool
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData

START_NS = 1_800_000_000_000_000_000
#: Events of each fragment: name, begin and duration in ns. The long one began before
#: what its predecessors hold, as an epoch's annotation does.
FRAGMENTS = [
    [("load", 10, 5), ("compute", 20, 5)],
    [("load", 30, 5), ("compute", 40, 5)],
    [("epoch", 5, 60), ("load", 50, 5)],
]


def fragment(events: Sequence[tuple[str, int, int]]) -> Fragment:
    space = XSpaceBuilder("vm", start_ns=None)
    line = space.plane("/host:CPU").line(77, name="MainThread")
    for name, begin, dur in events:
        stats = {"file": f"{name}.bin", "number": begin}
        line.event(name, offset_ps=begin * 1000, dur_ps=dur * 1000, stats=stats)
    return Fragment(space.to_bytes(), len(events))


def head() -> bytes:
    space = XSpaceBuilder("vm", start_ns=None)
    space.environment().stat("profile_start_time", Unsigned(START_NS))
    return space.to_bytes()


def new_spool(folder: Path, *, max_bytes: int = 2**20) -> Spool:
    return Spool(folder / "vm.xplane.pb.part", head=head(), max_bytes=max_bytes)


def events_of(path: Path) -> list[tuple[str, int, int]]:
    """Name, begin and duration in ns of every event, in the order of the table."""
    return events_in(ss.open(path))


def events_in(profile: ProfileData) -> list[tuple[str, int, int]]:
    (trace,) = profile.traces.values()
    events, types = trace.table("events"), trace.table("event_types")
    names = types["name"].to_list()
    return [
        (names[row["type"]], row["start_ps"] // 1000, row["dur_ps"] // 1000)
        for row in events.iter_rows(named=True)
    ]


def notes_of(path: Path) -> set[str]:
    return notes_in(ss.open(path))


def notes_in(profile: ProfileData) -> set[str]:
    (host,) = profile.hosts
    return set(profile.traces[host].table("quality")["kind"])


def test_an_unfinished_recording_is_read_in_order_and_says_so(tmp_path: Path) -> None:
    spool = new_spool(tmp_path)
    for events in FRAGMENTS:
        spool.append_fragment(fragment(events))
    expected = sorted(event for events in FRAGMENTS for event in events)
    assert spool.path is not None
    assert events_of(spool.path) == sorted(expected, key=lambda event: event[1])
    assert "unfinished_recording" in notes_of(spool.path)
    assert "unordered_tracks" not in notes_of(spool.path)
    spool.leave_file()


@pytest.mark.slow(seconds=0.8)
def test_torn_at_every_byte_of_the_last_fragment_the_others_are_whole(
    tmp_path: Path,
) -> None:
    spool = new_spool(tmp_path)
    for events in FRAGMENTS[:2]:
        spool.append_fragment(fragment(events))
    assert spool.path is not None
    before = spool.path.read_bytes()
    spool.append_fragment(fragment(FRAGMENTS[2]))
    whole = spool.path.read_bytes()
    spool.leave_file()
    expected = [event for events in FRAGMENTS[:2] for event in events]
    everything = events_of(spool.path)
    # The host's name comes after the fragment's plane, which is whole before it is.
    plane_end = len(whole) - len(sized(4, b"vm"))
    torn = tmp_path / "torn.xplane.pb.part"
    for size in range(len(before), len(whole)):
        torn.write_bytes(whole[:size])
        profile = ss.open(torn)
        found = events_in(profile)
        assert found == (everything if size >= plane_end else expected), size
        is_torn = size not in {len(before), plane_end}
        assert ("damaged_file" in notes_in(profile)) == is_torn, size
    assert plane_end - len(before) > 100


def test_a_disk_that_refuses_leaves_whole_fragments_and_the_rest_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some bytes of the second fragment the disk is full, and later not."""
    spool = new_spool(tmp_path)
    spool.append_fragment(fragment(FRAGMENTS[0]))
    assert spool.path is not None
    stored = spool.path.read_bytes()
    write = os.pwrite
    calls = Counter[str]()

    def full(file: int, body: Any, at: int) -> int:
        calls["write"] += 1
        if calls["write"] == 1:
            return write(file, bytes(body)[:7], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    spool.append_fragment(fragment(FRAGMENTS[1]))
    monkeypatch.undo()
    assert spool.path.read_bytes() == stored
    assert spool.refused is not None
    spool.append_fragment(fragment(FRAGMENTS[2]))
    joined = tmp_path / "joined.xplane.pb.part"
    joined.write_bytes(spool.read_content())
    expected = {event for events in FRAGMENTS for event in events}
    assert set(events_of(joined)) == expected
    assert set(events_of(spool.path)) == {*FRAGMENTS[0], *FRAGMENTS[2]}
    spool.remove_file()
    assert list(tmp_path.glob("vm*")) == []


@pytest.mark.parametrize("second_file", ["possible", "refused"])
def test_beyond_the_budget_the_oldest_give_way_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second_file: str
) -> None:
    one = fragment([("load", 10, 5)])
    if second_file == "refused":

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "replace", refuse)
    spool = new_spool(tmp_path, max_bytes=10 * len(one.xspace))
    for number in range(100):
        spool.append_fragment(fragment([("load", 10 + number % 10, 5)]))
    kept = tmp_path / "kept.xplane.pb.part"
    kept.write_bytes(spool.read_content())
    left = events_of(kept)
    assert 4 <= len(left) <= 10
    assert len(left) + spool.dropped_events == 100
    assert spool.path is not None
    on_disk = len(events_of(spool.path))
    assert (on_disk == len(left)) == (second_file == "possible")
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []
    assert "unfinished_recording" in notes_of(spool.path)
    spool.leave_file()


def test_a_file_that_cannot_be_removed_stays_and_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(_: Path, **__: bool) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    spool = Spool(tmp_path / "part", head=fragment([]).xspace, max_bytes=2**20)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refusing)
        spool.remove_file()
    assert spool.refused is not None
    assert (tmp_path / "part").exists()


def test_a_program_that_has_closed_all_its_files_may_end_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = os.close

    def closed_before(file: int) -> None:
        close(file)
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    spool = Spool(tmp_path / "part", head=fragment([]).xspace, max_bytes=2**20)
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", closed_before)
        spool.leave_file()
    spool.remove_file()
    assert not (tmp_path / "part").exists()


def test_without_a_file_all_is_in_memory(tmp_path: Path) -> None:
    spool = Spool(None, head=head(), max_bytes=2**20)
    spool.append_fragment(fragment(FRAGMENTS[0]))
    held = tmp_path / "held.xplane.pb.part"
    held.write_bytes(spool.read_content())
    assert events_of(held) == FRAGMENTS[0]
    spool.remove_file()


def test_a_finished_file_counts_instead_of_what_was_left_beside_it(
    tmp_path: Path,
) -> None:
    spool = new_spool(tmp_path)
    spool.append_fragment(fragment(FRAGMENTS[0]))
    spool.leave_file()
    space = XSpaceBuilder("vm", start_ns=START_NS, stop_ns=START_NS + 100)
    space.plane("/host:CPU").line(1, name="MainThread").event("whole", dur_ps=1000)
    space.write(tmp_path / "vm.xplane.pb")
    assert events_of(tmp_path) == [("whole", 0, 1)]
