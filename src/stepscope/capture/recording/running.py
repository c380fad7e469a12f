"""A recording in progress: its collectors, its spool and its file."""

from __future__ import annotations

import dataclasses
import gc
import platform
from itertools import repeat
from typing import TYPE_CHECKING, Final

from stepscope import rundir
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.base.run import Run
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import (
    Dropping,
    Exiting,
    Halting,
    Streaming,
    TracesPython,
)
from stepscope.capture.collectors.levels import TracerLevels
from stepscope.capture.recording.assembling import (
    Recording,
    assemble_profile,
    spool_head,
)
from stepscope.capture.recording.saving import (
    Flusher,
    claim_place,
    hosts_in_run,
    save_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.base.spool import Spool
    from stepscope.capture.collectors.contract import Collector
    from stepscope.capture.recording.saving import Place

#: A full garbage collection is due if at most this number of middle-generation
#: collections come before it: a recording's threads cause one every few seconds.
_NEAR: Final = 2
#: Maximum number of collections of the youngest generation to trigger, which is more
#: than enough to reach a full collection.
_MOST: Final = 64


def collect_what_is_due() -> None:
    """Trigger Python's full garbage collection if it is nearly due.

    Python collects garbage during allocations, on the allocating thread. Starting a
    recording imports modules with thousands of objects, and recording threads allocate
    as well. A full collection would thus soon run on a stepscope thread, and delay the
    first steps of a large program by hundreds of milliseconds.

    Objects are allocated until Python itself starts the collection, so that no object
    is collected against Python's rules. No collection is triggered if the program
    disabled collection (`gc.disable()`) or full collections (a threshold of 0).
    """
    youngest, _, oldest = gc.get_threshold()
    if not gc.isenabled() or not youngest or not oldest:
        return
    for _ in range(_MOST):
        before = gc.get_count()[2]
        if before <= oldest - _NEAR:
            return
        # In a comprehension's frame, a signal handler's exception was not recognised.
        garbage: list[list[int]] = list(map(list, repeat((), youngest + 1)))
        del garbage
        if before > oldest and gc.get_count()[2] >= before:
            # Python skipped the full collection: too few objects are new.
            return


#: Host tracer level at which frameworks record only user annotations.
_ANNOTATIONS_LEVEL = 1


class UnderWay:
    """Collectors of a recording in progress, and the storage of their events."""

    def __init__(
        self,
        recording: Recording,
        place: Place,
        spool: Spool,
        flusher: Flusher,
        collectors: Sequence[Collector],
    ) -> None:
        self.flusher = flusher
        #: Warnings that are stored in the file but not shown to the user.
        self.remarks: list[str] = []
        self._recording = recording
        self._place = place
        self._spool = spool
        self._collectors = tuple(collectors)
        # Check before any start: a Python call tracer would record these checks.
        self._tracers = [each for each in collectors if isinstance(each, TracesPython)]
        self._halting = [each for each in collectors if isinstance(each, Halting)]
        self._started: list[Collector] = []
        self._is_halted = False
        #: Collectors that failed to halt, so their events are lost.
        self._lost: list[Collector] = []
        self._warnings = list(place.warnings)

    @classmethod
    def begin_collecting(
        cls,
        logdir: Path,
        run: str,
        options: ProfilerOptions,
        collectors: Sequence[Collector],
        *,
        ended: Callable[[], bool] | None = None,
        end: Callable[[], object] | None = None,
    ) -> UnderWay:
        """Start collectors; a collector that fails causes a warning.

        Args:
            collectors: Collectors in the order of their start.
        """
        names = tuple(collector.name for collector in collectors)
        levels = TracerLevels.asked(options)
        own = TracerLevels(
            host=_ANNOTATIONS_LEVEL if "host" in names else 0,
            device=0,
            python=levels.python if "python_calls" in names else 0,
        )
        recording = Recording(
            hostname=platform.node(),
            begin=ClockPair.now(),
            asked=levels,
            own=own,
            collectors=names,
        )
        place, spool = claim_place(
            rundir.run_directory(logdir, run),
            head=spool_head(recording),
            max_bytes=options.max_bytes,
        )
        streaming = [
            collector for collector in collectors if isinstance(collector, Streaming)
        ]
        flusher = Flusher(streaming, spool, ended=ended, end=end)
        under_way = cls(recording, place, spool, flusher, collectors)
        try:
            under_way._start_collectors(options)
        except BaseException:
            under_way.drop_events()
            raise
        return under_way

    def end_collecting(self, *, to_file: bool) -> Run:
        """Stop the collectors and write the file.

        All collectors are halted before the first one hands over its events.
        """
        self.halt_collectors()
        self.flusher.stop_thread()
        end = ClockPair.now()
        frameworks: list[tuple[str, bytes]] = []
        forwarded_elsewhere = False
        for collector in reversed(self._started):
            if collector in self._lost:
                continue
            try:
                collected = collector.hand_over()
            except Exception as error:  # noqa: BLE001 - any collector may fail
                self._tell_lost(collector, error)
                continue
            self._warnings += (*collected.warnings, *collected.remarks)
            self.remarks += collected.remarks
            if isinstance(collector, Streaming):
                try:
                    self.flusher.store_fragment(Fragment(collected.xspace, 0))
                except ValueError as error:
                    self._warnings.append(
                        f"the last events of {collector.name} are lost: "
                        f"{_error_text(error)}"
                    )
            elif collected.xspace:
                frameworks.insert(0, (collector.name, collected.xspace))
                forwarded_elsewhere |= collected.holds_annotations
        self._warnings += _storing_warnings(self._spool, self.flusher)
        try:
            content = assemble_profile(
                frameworks,
                self._spool.read_content(),
                recording=self._recording,
                end=end,
                warnings=self._warnings,
                forwarded_elsewhere=forwarded_elsewhere,
            )
        except Exception as error:  # noqa: BLE001 - must not fail the program
            self._warnings.append(
                f"the recording could not be assembled ({_error_text(error)}); the "
                f"events stored so far are in {self._place.spool}"
            )
            self._spool.leave_file()
            return self._make_run(None, b"")
        return self._store_run(content, to_file=to_file)

    def drop_events(self) -> Run:
        """Stop the collectors and discard their events without reading them."""
        self.halt_collectors()
        self.flusher.stop_thread()
        for collector in reversed(self._started):
            if collector in self._lost:
                continue
            try:
                if isinstance(collector, Dropping):
                    collector.drop_events()
                else:
                    collector.hand_over()
            except Exception as error:  # noqa: BLE001 - any collector may fail
                self._tell_lost(collector, error)
        self._spool.remove_file()
        return self._make_run(None, b"")

    def drop_at_exit(self) -> Run:
        """Discard the events quickly, because the process ends."""
        for collector in self._started:
            try:
                if isinstance(collector, Exiting):
                    collector.leave_at_exit()
            except Exception as error:  # noqa: BLE001 - any collector may fail
                self._tell_lost(collector, error)
        self._started = [
            each for each in self._started if not isinstance(each, Exiting)
        ]
        self._tracers = [
            each for each in self._tracers if not isinstance(each, Exiting)
        ]
        return self.drop_events()

    def add_warning(self, warning: str) -> None:
        """Add a sentence to the warnings of the run."""
        self._warnings.append(warning)

    @property
    def slowdown(self) -> float | None:
        """Slowdown of the program by recording Python calls; None if unknown."""
        slowdowns = (getattr(tracer, "slowdown", None) for tracer in self._started)
        return next((slowdown for slowdown in slowdowns if slowdown is not None), None)

    @property
    def spool(self) -> Path:
        """Path at which events are stored during the recording."""
        return self._place.spool

    def leave_to_parent(self) -> None:
        """In a forked child, leave the file to the parent."""
        self._spool.leave_file()

    def _start_collectors(self, options: ProfilerOptions) -> None:
        first_own = next(
            (each for each in self._collectors if isinstance(each, Streaming)), None
        )
        for collector in self._collectors:
            if collector is first_own:
                # The frameworks have started and imported their modules by now.
                collect_what_is_due()
            self._started.append(collector)
            own_options = options
            if any(tracer.traces_python for tracer in self._tracers):
                # Python has one hook for calls, which a framework already uses; samples
                # add nothing to a record of all calls.
                own_options = dataclasses.replace(
                    options, python_tracer_level=0, python_sampling_hz=0
                )
            try:
                collector.start_collecting(own_options, self._recording.begin)
            except Exception as error:  # noqa: BLE001 - any collector may fail
                self._warnings.append(
                    f"{collector.name} did not record: {_error_text(error)}"
                )
        try:
            self.flusher.start_thread()
        except RuntimeError as error:
            self._warnings.append(
                f"events are not stored while the program runs: {_error_text(error)}"
            )

    def halt_collectors(self) -> None:
        """Halt all collectors; a second call does nothing."""
        if self._is_halted:
            return
        self._is_halted = True
        # Halt Python call tracers first: they would record the other halts.
        noting = [tracer for tracer in self._tracers if tracer.traces_python]
        remaining = [
            collector
            for collector in reversed(self._started)
            if collector not in noting
        ]
        for collector in (*noting, *remaining):
            try:
                if collector in self._halting:
                    collector.halt_collecting()
            except Exception as error:  # noqa: BLE001 - any collector may fail
                self._tell_lost(collector, error)
                self._lost.append(collector)

    def _tell_lost(self, collector: Collector, error: Exception) -> None:
        self._warnings.append(
            f"the recording of {collector.name} is lost: {_error_text(error)}"
        )

    def _store_run(self, content: bytes, *, to_file: bool) -> Run:
        if not to_file:
            self._spool.remove_file()
            return self._make_run(None, content)
        try:
            path = save_file(self._place, content)
        except OSError as error:
            self._warnings.append(
                f"{self._place.path} could not be written ({error.strerror or error}); "
                "the recording is in memory (Run.xspace()), and its stored part is in "
                f"{self._place.spool}"
            )
            self._spool.leave_file()
            return self._make_run(None, content)
        self._spool.remove_file()
        return self._make_run(path, b"")

    def _make_run(self, path: Path | None, unsaved: bytes) -> Run:
        return Run(
            path=path,
            run=self._place.directory.name,
            hosts=hosts_in_run(self._place.directory),
            warnings=tuple(dict.fromkeys(self._warnings)),
            unsaved=unsaved,
        )


def _storing_warnings(spool: Spool, flusher: Flusher) -> list[str]:
    warnings = [
        f"events of {name} were not stored: {failure}"
        for name, failure in flusher.failures.items()
    ]
    if spool.refused is not None:
        warnings.append(
            f"the disk refused events while recording ({spool.refused.strerror}); they "
            "were kept in memory"
        )
    if spool.dropped_events:
        warnings.append(
            f"dropped {spool.dropped_events} events: the oldest ones (max_bytes)"
        )
    return warnings


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
