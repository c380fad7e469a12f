"""What JAX's own profiler records: host calls, compiled programs, devices.

The session of its runtime hands out what it recorded in memory and heeds the tracer
levels. It is private to JAX, so where it is not there the public functions record into
a folder instead, which is read and removed.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.giving_way import (
    Entrance,
    FrameworkRecording,
    GivesWay,
)
from stepscope.capture.collectors.left_over import OpenRecordings
from stepscope.capture.collectors.levels import (
    TracerLevels,
    level_warnings,
    levels_in_force,
)
from stepscope.capture.ground import annotate
from stepscope.capture.temporary import make_folder
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

_OPEN: Final = OpenRecordings()
_NOT_IMPORTED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The program has not imported JAX.",
    remedy="Import jax before the recording starts.",
)
_OWN: Final = "the program's own JAX profiler"
_SERVER: Final = "the program's own JAX profiler server"
_NO_PROFILER: Final = Unavailable(
    code="NOT_RECORDED",
    reason="This version of JAX has no profiler that can be driven from Python.",
    remedy="Install JAX 0.4.35 or newer.",
)


class JaxCollector(GivesWay):
    """Records with JAX's profiler while the program uses JAX."""

    name = "jax"
    framework = "JAX"
    left_over = _OPEN

    def __init__(self) -> None:
        super().__init__()
        self._recording: FrameworkRecording | None = None
        self._was_given = False
        self._xspace: bytes | None = None
        self._asked = TracerLevels(host=2, device=1, python=0)

    def available(self) -> Unavailable | None:
        """Return why JAX cannot be recorded; None where it can."""
        if "jax" not in sys.modules:
            return _NOT_IMPORTED
        if _session_class() is None and not hasattr(_profiler(), "start_trace"):
            return _NO_PROFILER
        return None

    def _begin(self, options: ProfilerOptions, clock: ClockPair) -> None:
        del clock
        self._asked = TracerLevels.asked(options)
        session = _session_class()
        self._recording = (
            _Session(session, self._asked)
            if session is not None
            else _TraceFolder(self._asked)
        )
        self.traces_python = bool(self._asked.python)
        _OPEN.add(self._recording.stop)
        annotate.add_forward(_annotation)

    def _halt(self) -> None:
        self._was_given |= annotate.remove_forward(_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            self._xspace = recording.stop()
            _OPEN.ended(recording.stop)

    def _exit(self) -> None:
        annotate.remove_forward(_annotation)
        recording, self._recording = self._recording, None
        if recording is not None:
            _OPEN.ended(recording.stop)
            recording.leave()

    def _end(self) -> Collected:
        self._halt()
        xspace = self._xspace
        if xspace is None:
            return Collected(b"")
        levels = levels_in_force(xspace)
        # Annotations are critical: any host level but 0 records them.
        holds = self._was_given and levels is not None and levels.host > 0
        return Collected(xspace, level_warnings("JAX", self._asked, levels), holds)

    def _entrances(self) -> Iterable[Entrance]:
        if _session_class() is None:
            # What the public function looks at says that ours records.
            for owner in (_profiler(), _state()):
                yield Entrance(owner, "start_trace", _OWN)
            return
        runtime = _runtime()
        yield Entrance(runtime, "ProfilerSession", _OWN)
        yield Entrance(runtime, "start_server", _SERVER)

    def _programs_own(self) -> str | None:
        traced = getattr(_state(), "_profile_state", None)
        if getattr(traced, "profile_session", None) is not None:
            return _OWN
        # Whoever is to capture there would be refused.
        served = getattr(_state(), "_profiler_server", None)
        return None if served is None else _SERVER


class _Session:
    """A session of the runtime, which hands out bytes."""

    def __init__(self, session: Any, levels: TracerLevels) -> None:
        self._session = session(_options(levels))

    def stop(self) -> bytes:
        return bytes(self._session.stop())

    def leave(self) -> None:
        # To free it takes as long as to read it, some 10 µs for each call.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))


class _TraceFolder:
    """The public functions, which write what was recorded into a folder."""

    def __init__(self, levels: TracerLevels) -> None:
        self._folder = Path(make_folder("jax"))
        options = _options(levels)
        try:
            if options is None:
                _profiler().start_trace(str(self._folder))
            else:
                _profiler().start_trace(str(self._folder), profiler_options=options)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def stop(self) -> bytes:
        try:
            _profiler().stop_trace()
            files = sorted(self._folder.rglob("*.xplane.pb"))
            return b"".join(path.read_bytes() for path in files)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        self.stop()


def _profiler() -> Any:
    import jax.profiler  # noqa: PLC0415 - the user's

    return jax.profiler


def _state() -> Any:
    """Return where JAX keeps what its public functions started; None if elsewhere."""
    return sys.modules.get("jax._src.profiler")


def _runtime() -> Any:
    """Return the runtime's profiler, None where this version keeps it elsewhere."""
    try:
        from jax._src.lib import _profiler as runtime  # noqa: PLC0415 - the user's
    except ImportError:
        try:
            from jax._src.lib import (  # noqa: PLC0415 - the user's
                xla_client,
            )
        except ImportError:
            return None
        runtime = getattr(xla_client, "profiler", None)
    return runtime


def _session_class() -> Any:
    """Return the runtime's session; None if this version has none that gives bytes."""
    session = getattr(_runtime(), "ProfilerSession", None)
    # Older sessions export into a folder only.
    return session if hasattr(session, "stop") else None


def _options(levels: TracerLevels) -> Any:
    """Options with these levels; None where this version has none to set.

    JAX traces every Python call by default, so each level is always set.
    """
    make = getattr(_profiler(), "ProfileOptions", None)
    if make is None:
        return None
    options = make()
    options.host_tracer_level = levels.host
    options.python_tracer_level = levels.python
    # Without such a field the assignment would do nothing, or fail.
    if hasattr(options, "device_tracer_level"):
        options.device_tracer_level = levels.device
    if hasattr(options, "raise_error_on_start_failure"):
        options.raise_error_on_start_failure = True
    return options


def _annotation(name: str, stats: Mapping[str, object]) -> Any:
    return _profiler().TraceAnnotation(name, **stats)
