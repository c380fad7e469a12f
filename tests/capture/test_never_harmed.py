"""Whatever fails in a recording is reported, and the loop computes what it would."""

from __future__ import annotations

import errno
import logging
import resource
import signal
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope._core import recorder
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.registry import COLLECTORS, make_collector
from stepscope.capture.recording import saving, session
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.contract import Collector
    from stepscope.unavailable import Unavailable

#: What the loop below computes when nobody records.
LOSS = 4950
STEPS = 100


def train() -> int:
    loss = 0
    for step in range(STEPS):
        with ss.StepTrace(step):
            loss += step
    return loss


class Faulty:
    """A collector that fails at one of its calls."""

    name = "faulty"

    def __init__(self, fails_at: str) -> None:
        self.fails_at = fails_at
        self.calls: list[str] = []

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if call == self.fails_at:
            raise RuntimeError(f"{call} fails")

    def why_unavailable(self) -> Unavailable | None:
        self._called("available")
        return None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        del options, clock
        self._called("start")

    def take_fragment(self) -> Fragment:
        self._called("flush")
        return Fragment(b"", 0)

    def hand_over(self) -> Collected:
        self._called("stop")
        return Collected(b"malformed" if self.fails_at == "content" else b"")


class FaultyFramework(Faulty):
    """One that is not asked for fragments, as the frameworks' collectors."""

    take_fragment = None  # type: ignore[assignment]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Faulty]]:
    """The collector that is put into this list takes part in every recording."""
    used: list[Faulty] = []

    def make(name: str) -> Collector:
        return used[0] if name == "faulty" else make_collector(name)

    monkeypatch.setitem(COLLECTORS, "faulty", ("", ""))
    monkeypatch.setattr(session, "make_collector", make)
    yield used
    assert session.current_session() is None


def numbers_of_steps(logdir: Path) -> list[int]:
    return [step.step for step in ss.open(logdir).tool("overview_page").steps]


@pytest.mark.parametrize("call", ["available", "start", "flush", "stop", "content"])
def test_a_collector_that_fails_harms_neither_the_loop_nor_the_others(
    tmp_path: Path, use: list[Faulty], call: str
) -> None:
    use.append(Faulty(call))
    with ss.Profile(tmp_path) as run:
        loss = train()
        recording = session.current_session()
        assert recording is not None
        recording.flush()
    assert loss == LOSS
    assert numbers_of_steps(tmp_path) == list(range(STEPS))
    told = [
        warning for warning in run.warnings if "fail" in warning or "lost" in warning
    ]
    assert told
    if call == "available":
        assert "faulty did not record: RuntimeError: available fails" in told
    else:
        assert use[0].calls[-1] == "stop"


def test_what_a_framework_hands_over_broken_is_left_out_and_told(
    tmp_path: Path, use: list[Faulty]
) -> None:
    collector = FaultyFramework("content")
    use.append(collector)
    with ss.Profile(tmp_path):
        assert train() == LOSS
    profile = ss.open(tmp_path)
    (host,) = profile.hosts
    messages = profile.trace(host).table("quality")["message"].to_list()
    assert any("of faulty is malformed" in message for message in messages)
    assert numbers_of_steps(tmp_path) == list(range(STEPS))


def test_a_collector_that_was_named_and_cannot_record_is_an_error_before_the_start(
    tmp_path: Path, use: list[Faulty]
) -> None:
    use.append(Faulty("available"))
    options = ss.ProfilerOptions(collectors=("host", "faulty"))
    with pytest.raises(BadUsage, match="'faulty' cannot record here: RuntimeError"):
        ss.start(tmp_path, options)
    with pytest.raises(BadUsage, match="no collector 'nonesuch'; known: "):
        ss.start(tmp_path, ss.ProfilerOptions(collectors=("nonesuch",)))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_starting_passes_and_leaves_the_process_free(
    tmp_path: Path, use: list[Faulty], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Faulty("")
    use.append(collector)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collector, "start_collecting", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ss.start(tmp_path)
    assert session.current_session() is None
    assert not recorder.is_recording()
    assert collector.calls[-1] == "stop"
    with ss.Profile(tmp_path, ss.ProfilerOptions(collectors=("host",))):
        assert train() == LOSS
    assert numbers_of_steps(tmp_path) == list(range(STEPS))


def test_a_directory_that_cannot_be_made_keeps_the_recording_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    with caplog.at_level(logging.WARNING), ss.Profile(tmp_path / "file" / "x") as run:
        loss = train()
    assert loss == LOSS
    assert run.path is None
    assert any("kept in memory" in warning for warning in run.warnings)
    assert any("could not be written" in message for message in caplog.messages)
    held = tmp_path / "held.xplane.pb"
    held.write_bytes(run.xspace())
    assert numbers_of_steps(held) == list(range(STEPS))


def test_a_full_disk_at_the_end_leaves_the_spool_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with ss.Profile(tmp_path) as run:
        loss = train()
        recording = session.current_session()
        assert recording is not None
        monkeypatch.setattr(saving.os, "fsync", full)
    monkeypatch.undo()
    assert loss == LOSS
    assert run.path is None
    (left,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert left.name.endswith(".xplane.pb.part")
    assert numbers_of_steps(tmp_path) == list(range(STEPS))
    assert any("No space left" in warning for warning in run.warnings)


def test_a_disk_that_is_full_all_along_is_told_and_the_recording_is_in_memory(
    tmp_path: Path,
) -> None:
    """No file may grow: the kernel refuses every write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        with ss.Profile(tmp_path) as run:
            loss = train()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert loss == LOSS
    assert run.path is None
    assert any("kept in memory" in warning for warning in run.warnings)
    held = tmp_path / "held.xplane.pb"
    held.write_bytes(run.xspace())
    assert numbers_of_steps(held) == list(range(STEPS))


def test_a_log_directory_that_is_removed_meanwhile_is_made_again(
    tmp_path: Path,
) -> None:
    with ss.Profile(tmp_path / "logs") as run:
        loss = train()
        for path in sorted((tmp_path / "logs").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (tmp_path / "logs").rmdir()
    assert loss == LOSS
    assert run.path is not None
    assert numbers_of_steps(tmp_path / "logs") == list(range(STEPS))


def test_more_than_the_budget_drops_the_oldest_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.capture.base.options._LEAST_BYTES", 1)
    options = ss.ProfilerOptions(collectors=("host",), max_bytes=12_000)
    with ss.Profile(tmp_path, options) as run:
        recording = session.current_session()
        assert recording is not None
        for _ in range(30):
            train()
            recording.flush()
    (dropped,) = (text for text in run.warnings if text.startswith("dropped"))
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    kept = profile.trace(host).table("events").height
    # Garbage collections come on top of what was annotated.
    assert 30 * STEPS <= kept + int(dropped.split()[1]) <= 31 * STEPS
    assert 2 * STEPS <= kept < 10 * STEPS
    quality = profile.trace(host).table("quality")
    assert "dropped_events" in set(quality["kind"])
