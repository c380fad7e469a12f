"""The ring: collectors that always record, and a file of the latest events.

The file is a spool of bounded length in a separate run. A killed process leaves the
file, which opens like any other profile.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope import rundir
from stepscope._core import recorder
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.compilations import CompilationsCollector
from stepscope.capture.collectors.host import HostCollector
from stepscope.capture.collectors.levels import TracerLevels
from stepscope.capture.collectors.process import ProcessCollector
from stepscope.capture.collectors.python_samples import PythonSamplesCollector
from stepscope.capture.recording.assembling import (
    Recording,
    assemble_profile,
    spool_head,
)
from stepscope.capture.recording.saving import (
    Place,
    claim_place,
    hosts_in_run,
    save_file,
)
from stepscope.units import PS_PER_NS
from stepscope.xspace.merging.merge import complete_length
from stepscope.xspace.reading.decode import decode_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.contract import Collected, Collector
    from stepscope.capture.flight.recent_events import RecentEvents

    _RingCollector = (
        HostCollector
        | ProcessCollector
        | PythonSamplesCollector
        | CompilationsCollector
    )

#: Maximum number of annotations between two flushes; limits the cost of storing them.
_RING_EVENTS: Final = 8_192
_COLLECTORS: Final = ("host", "process", "python_samples", "compilations")


class Saved(NamedTuple):
    """Result of writing a profile; `why_not` is the error if `path` is None."""

    path: Path | None
    why_not: str = ""


class Ring:
    """The latest recorded events. Any thread may call the methods."""

    def __init__(
        self,
        logdir: Path,
        options: ProfilerOptions,
        notebook: RecentEvents,
        *,
        max_bytes: int,
    ) -> None:
        """Create the file; recording begins only with `resume_recording`."""
        self._logdir = logdir
        self._options = options
        self._notebook = notebook
        self._lock = threading.RLock()
        self._recording = Recording(
            hostname=platform.node(),
            begin=ClockPair.now(),
            asked=TracerLevels.asked(options),
            own=TracerLevels(host=1, device=0, python=0),
            collectors=_COLLECTORS,
        )
        self._place, self._spool = claim_place(
            rundir.run_directory(logdir, rundir.new_run_name(time.time())),
            head=spool_head(self._recording),
            max_bytes=max_bytes,
        )
        self.warnings = list(self._place.warnings)
        #: Collectors that record now, by name, in the order of their start.
        self._collectors: dict[str, _RingCollector] = {}

    @property
    def begun_ns(self) -> int:
        """Creation time of the ring, in ns of the monotonic clock."""
        return self._recording.begin.monotonic_ns

    @property
    def records(self) -> bool:
        """Whether the ring records; False before the start and during a pause."""
        return bool(self._collectors)

    def resume_recording(self) -> None:
        """Start or continue recording; events from before a pause are kept."""
        with self._lock:
            if self.records:
                return
            host = HostCollector(
                ring_events=_RING_EVENTS, on_rows=self._notebook.add_annotations
            )
            for collector in (host, ProcessCollector(), self._new_sampler()):
                self._start_collector(collector)
            self._listen_to_compilers()

    def pause_recording(self) -> None:
        """Store the recorded events, and stop recording until `resume_recording`."""
        with self._lock:
            for collector in reversed(self._collectors.values()):
                self._store_collected(collector.name, self._stop_collector(collector))
            self._collectors = {}

    def store_new_events(self) -> None:
        """Store the events recorded since the last call."""
        with self._lock:
            if not self.records:
                return
            self._listen_to_compilers()
            for collector in self._collectors.values():
                try:
                    fragment = collector.take_fragment()
                except Exception as error:  # noqa: BLE001 - an error of one collector
                    self._note_failure(collector.name, error)
                    continue
                if fragment.xspace:
                    self._append_fragment(collector.name, fragment)

    def store_running_functions(self) -> None:
        """Store all events so far, including functions that still run."""
        with self._lock:
            self.store_new_events()
            sampler = self._collectors.get("python_samples")
            if sampler is not None:
                # Only when the sampler stops does it return functions that still run.
                self._store_collected(sampler.name, self._stop_collector(sampler))
                self._start_collector(self._new_sampler())

    def write_run(self, cause: str) -> Saved:
        """Write the kept events as a separate run; the ring continues."""
        with self._lock:
            compiled = b""
            compilations = self._collectors.pop("compilations", None)
            if compilations is not None:
                # Not added to the ring: PyTorch's list of compilations covers all time.
                collected = self._stop_collector(compilations)
                compiled = b"" if collected is None else collected.xspace
                self._listen_to_compilers()
            try:
                content = self._spool.read_content() + compiled
            except OSError as error:
                return Saved(None, f"the kept events could not be read: {error}")
            warnings = [cause, *self.warnings]
            if self._spool.dropped_events:
                warnings.append("events older than the ring's capacity were dropped")
            # Start of the earliest event that is kept.
            oldest_ns = self._spool.oldest_ns()
            since_ns = None
            if oldest_ns is not None:
                since_ns = self._recording.begin.wall_of(oldest_ns)
        folder = rundir.run_directory(self._logdir, rundir.new_run_name(time.time()))
        host = rundir.host_file_name(platform.node(), os.environ, hosts_in_run(folder))
        try:
            return Saved(
                save_file(
                    Place(directory=folder, host=host),
                    assemble_profile(
                        [],
                        content,
                        recording=self._recording,
                        end=ClockPair.now(),
                        warnings=warnings,
                        since_ns=since_ns,
                    ),
                )
            )
        except (OSError, ValueError) as error:
            return Saved(None, f"{folder} could not be written: {error}")

    def end_recording(self, *, keep: bool) -> None:
        """Stop recording; remove the file unless it is to be kept."""
        self.pause_recording()
        with self._lock:
            if keep:
                self._spool.leave_file()
                return
            self._spool.remove_file()
            with contextlib.suppress(OSError):
                # The folder is empty unless another process writes to the same run.
                self._place.directory.rmdir()

    def forget_in_child(self) -> None:
        """Drop the state in a forked child: file and threads belong to the parent."""
        self._lock = threading.RLock()
        self._spool.leave_file()
        host = self._collectors.get("host")
        if isinstance(host, HostCollector):
            # If the ring is paused, another recording resets the child's recorder.
            host.forget_in_child()
            recorder.forget_parent()
        self._collectors = {}

    def _new_sampler(self) -> PythonSamplesCollector:
        return PythonSamplesCollector(on_frames=self._notebook.add_frames)

    def _listen_to_compilers(self) -> None:
        if "compilations" not in self._collectors:
            compilations = CompilationsCollector()
            if compilations.why_unavailable() is None:
                self._start_collector(compilations)

    def _start_collector(self, collector: _RingCollector) -> None:
        self._collectors[collector.name] = collector
        if collector.why_unavailable() is not None:
            return
        try:
            collector.start_collecting(self._options, self._recording.begin)
        except Exception as error:  # noqa: BLE001 - an error of one collector
            self._note_failure(collector.name, error)

    def _stop_collector(self, collector: Collector) -> Collected | None:
        try:
            return collector.hand_over()
        except Exception as error:  # noqa: BLE001 - an error of one collector
            self._note_failure(collector.name, error)
            return None

    def _store_collected(self, name: str, collected: Collected | None) -> None:
        if collected is None or not collected.xspace:
            return
        xspace, begin_ns = collected.xspace, None
        if complete_length(xspace) == len(xspace):
            offsets_ps = decode_bytes(xspace).events.offset_ps
            if len(offsets_ps):
                begin_ns = self.begun_ns + int(offsets_ps.min()) // PS_PER_NS
        self._append_fragment(name, Fragment(xspace, 1, begin_ns))

    def _append_fragment(self, name: str, fragment: Fragment) -> None:
        if complete_length(fragment.xspace) == len(fragment.xspace):
            self._spool.append_fragment(fragment)
        else:
            self._note_failure(name, ValueError("the recorded data is malformed"))

    def _note_failure(self, name: str, error: Exception) -> None:
        sentence = f"{name} did not record: {type(error).__name__}: {error}"
        if sentence not in self.warnings:
            self.warnings.append(sentence)
