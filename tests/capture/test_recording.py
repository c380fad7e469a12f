"""A plain Python program is recorded, and its file read back by every tool."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import check_every_tool, steps_of

import stepscope as ss
from stepscope._core import recorder
from stepscope.capture.recording.session import Session, current_session
from stepscope.errors import AlreadyRecording, BadUsage
from stepscope.rundir import traces_in

if TYPE_CHECKING:
    from pathlib import Path

OWN = ss.ProfilerOptions(collectors=("host",))


def events_of(path: Path) -> list[tuple[str, str, int, int]]:
    """Track, name, begin and duration in ns of every event."""
    profile = ss.open(path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = trace.table("event_types")["name"].to_list()
    tracks = trace.table("tracks")["name"].to_list()
    return [
        (
            tracks[row["track"]],
            names[row["type"]],
            row["start_ps"] // 1000,
            row["dur_ps"] // 1000,
        )
        for row in trace.table("events").iter_rows(named=True)
    ]


def notes_of(path: Path) -> list[str]:
    profile = ss.open(path)
    (host,) = profile.hosts
    messages: list[str] = profile.trace(host).table("quality")["message"].to_list()
    return messages


def test_marked_steps_are_found_with_their_numbers_and_every_tool_answers(
    tmp_path: Path,
) -> None:
    begun = time.time_ns()
    with ss.Profile(tmp_path) as run:
        for step in range(7, 15):
            with ss.Trace("train", step_num=step, _r=1):
                with ss.Trace("load", file="a.bin"):
                    time.sleep(0.002)
                time.sleep(0.002)
    profile = ss.open(tmp_path)
    assert steps_of(profile) == [("train", step) for step in range(7, 15)]
    overview = profile.tool("overview_page")
    assert (overview.step_detection.source, overview.step_detection.confidence) == (
        "marker",
        1.0,
    )
    assert all(step.duration_ms >= 4.0 for step in overview.steps)
    check_every_tool(profile)
    (host,) = profile.hosts
    environment = profile.trace(host).table("environment").row(0, named=True)
    assert begun <= environment["start_unix_ns"] <= environment["stop_unix_ns"]
    assert environment["stop_unix_ns"] <= time.time_ns()
    assert run.path == next(tmp_path.rglob("*.xplane.pb"))
    assert run.hosts == (host,)
    assert run.warnings == ()
    assert list(tmp_path.rglob("*.part")) == []


def test_times_are_those_of_the_programs_own_clock(tmp_path: Path) -> None:
    truth = []
    with ss.Profile(tmp_path, OWN) as run:
        for _ in range(20):
            before = time.monotonic_ns()
            with ss.Trace("work"):
                begin = time.monotonic_ns()
                time.sleep(0.0005)
                end = time.monotonic_ns()
            truth.append((before, begin, end, time.monotonic_ns()))
    assert run.path is not None
    rows = [row for row in events_of(run.path) if row[1] == "work"]
    # How far the profile's clock may be from ours, by each reading: however long the
    # machine pauses the program, one distance fits them all.
    at_least, at_most = [], []
    for (_, _, start, dur), (before, begin, end, after) in zip(
        rows, truth, strict=True
    ):
        at_most += [begin - start, after - (start + dur)]
        at_least += [before - start, end - (start + dur)]
    # Times are whole nanoseconds here.
    assert max(at_least) <= min(at_most) + 2


@pytest.mark.slow(seconds=0.4)
def test_the_flush_while_recording_changes_nothing(tmp_path: Path) -> None:
    """Lines, names and values of many fragments become one line each."""

    def worker() -> None:
        for _ in range(40):
            with ss.Trace("beside", kind="io", bytes=3):
                time.sleep(0.01)

    with ss.Profile(tmp_path, OWN) as run:
        thread = threading.Thread(target=worker, name="reader")
        thread.start()
        with ss.Trace("epoch", number=0):
            for step in range(40):
                with ss.StepTrace(step):
                    time.sleep(0.01)
        thread.join()
    assert run.path is not None
    rows = [
        row
        for row in events_of(run.path)
        if not row[1].startswith("garbage collection")
    ]
    tracks = {row[0] for row in rows}
    assert tracks == {"MainThread", "reader"}
    main = [row[1] for row in rows if row[0] == "MainThread"]
    assert main == ["epoch", *["train"] * 40]
    assert [row[1] for row in rows if row[0] == "reader"] == ["beside"] * 40
    assert not any("out of order" in note for note in notes_of(run.path))


def test_garbage_collections_are_seen(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, OWN) as run, ss.Trace("collecting"):
        gc.collect()
    assert run.path is not None
    assert "garbage collection" in {row[1] for row in events_of(run.path)}
    assert not any("stepscope" in repr(callback) for callback in gc.callbacks)


def test_collections_that_a_thread_of_ours_makes_are_none_of_the_programs(
    tmp_path: Path,
) -> None:
    over, collected = threading.Event(), threading.Event()

    def work() -> None:
        gc.collect()
        collected.set()
        # As long as it is listed its name is known.
        over.wait()

    thread = threading.Thread(target=work, name="stepscope-at-work")
    try:
        with ss.Profile(tmp_path, OWN) as run:
            thread.start()
            assert collected.wait(30)
    finally:
        over.set()
        thread.join()
    assert run.path is not None
    by_us = {row[1] for row in events_of(run.path) if row[0] == "stepscope-at-work"}
    assert by_us == {"garbage collection of the recorder"}


def test_functions_are_traced_by_a_decorator(tmp_path: Path) -> None:
    @ss.trace_function
    def plain(number: int) -> int:
        return number + 1

    @ss.trace_function("named", kind="x")
    def other() -> str:
        return "other"

    with ss.Profile(tmp_path, OWN) as run:
        answers = plain(1), other()
    assert answers == (2, "other")
    assert run.path is not None
    names = [row[1] for row in events_of(run.path)]
    assert any(name.endswith("plain") for name in names)
    assert "named" in names


def test_values_of_any_type_are_written_and_no_array_is_read(tmp_path: Path) -> None:
    class Heavy:
        def __str__(self) -> str:
            raise AssertionError("an array was shown")

        __repr__ = __str__

    values: dict[str, Any] = {
        "whole": -3,
        "huge": 2**70,
        "real": 0.5,
        "truth": True,
        "text": "ä",
        "raw": b"\x00\xff",
        "heavy": Heavy(),
    }
    with ss.Profile(tmp_path, OWN) as run:
        for _ in range(3):
            with ss.Trace("valued", **values):
                pass
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    stats, strings = trace.table("stats"), trace.strings
    names = {strings[key] for key in stats["key"].to_list()}
    assert set(values) <= names
    texts = trace.data.tobytes()
    for text in (str(2**70), "ä", "Heavy>"):
        assert text.encode() in texts or any(text in it for it in strings)


def test_a_second_start_names_who_records_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    with ss.Profile(tmp_path / "first", OWN) as run:
        with pytest.raises(AlreadyRecording, match=r"test_recording\.py:\d+") as told:
            ss.start(tmp_path / "second")
        with ss.Trace("after"):
            pass
    assert str(tmp_path / "first") in str(told.value)
    assert "\n" not in str(told.value)
    assert run.path is not None
    assert "after" in {row[1] for row in events_of(run.path)}
    assert not (tmp_path / "second").exists()


def test_stop_without_start_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match=r"ss\.start"):
        ss.stop()
    ss.start(tmp_path, OWN)
    assert ss.stop().path is not None
    assert current_session() is None


def test_a_block_that_raises_keeps_what_was_recorded(tmp_path: Path) -> None:
    profile = ss.Profile(tmp_path, OWN)

    def train() -> None:
        with profile, ss.Trace("doomed"):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train()
    assert profile.path is not None
    assert "doomed" in {row[1] for row in events_of(profile.path)}


def test_two_recordings_in_one_second_are_two_runs(tmp_path: Path) -> None:
    runs = []
    for _ in range(3):
        ss.start(tmp_path, OWN)
        runs.append(ss.stop())
    assert len({run.run for run in runs}) == 3
    assert len({run.path for run in runs}) == 3


def test_not_saved_it_is_in_memory_only(tmp_path: Path) -> None:
    ss.start(tmp_path, OWN)
    with ss.Trace("unsaved"):
        pass
    run = ss.stop(save=False)
    assert run.path is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    held = tmp_path / "held.xplane.pb"
    held.write_bytes(run.xspace())
    assert "unsaved" in {row[1] for row in events_of(held)}


def test_an_annotation_that_is_open_at_the_end_is_told(tmp_path: Path) -> None:
    ss.start(tmp_path, OWN)
    with ss.Trace("open"):
        run = ss.stop()
    assert any("1 annotations were open" in warning for warning in run.warnings)
    assert run.path is not None
    assert any("1 annotations were open" in note for note in notes_of(run.path))


def test_levels_asked_and_in_force_are_in_the_file(tmp_path: Path) -> None:
    """Without a framework nothing but annotations is recorded: host level 1."""
    with ss.Profile(tmp_path) as run:
        pass
    assert run.path is not None
    (note,) = (note for note in notes_of(run.path) if note.startswith("Tracer levels"))
    assert note == (
        "Tracer levels of the recording: host 1, device 0, Python 0. Asked for: "
        "host 2, device 1, Python 0."
    )


def test_recording_may_begin_later(tmp_path: Path) -> None:
    options = ss.ProfilerOptions(collectors=("host",), delay_ms=100)
    begun = time.monotonic()
    ss.start(tmp_path, options)
    with ss.Trace("early"):
        pass
    is_early = time.monotonic() < begun + 0.1
    while not recorder.is_recording():
        assert time.monotonic() < begun + 60
        time.sleep(0.01)
    with ss.Trace("late"):
        pass
    run = ss.stop()
    assert run.path is not None
    names = {row[1] for row in events_of(run.path)}
    assert "late" in names
    # A busy machine may come between, and the early one be late.
    assert not (is_early and "early" in names)
    ss.start(tmp_path, ss.ProfilerOptions(delay_ms=60_000))
    run = ss.stop()
    assert run.path is None
    assert "before it began" in run.warnings[0]


def test_equal_host_names_in_one_run_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        Session.start(tmp_path, OWN, run="both").stop()
    monkeypatch.delenv("RANK")
    for _ in range(2):
        Session.start(tmp_path, OWN, run="both").stop()
    hosts = traces_in(tmp_path / "plugins" / "profile" / "both")
    assert len(hosts) == 4
    assert [host.host.rsplit(".", 1)[-1] for host in hosts].count("1") == 1
