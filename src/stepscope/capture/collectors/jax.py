"""Recording with JAX's own profiler: host calls, compiled programs, devices.

The profiler session of JAX's runtime returns its events in memory and supports tracer
levels. The session is private to JAX. If a version lacks the session, JAX's public
functions record into a temporary folder, which is read and removed.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.collectors.frameworks import (
    Entrance,
    FrameworkRecording,
    OpenRecordings,
    XSpaceCollector,
)
from stepscope.capture.temporary import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.levels import TracerLevels

_OWN: Final = "the program's own JAX profiler"
_SERVER: Final = "the program's own JAX profiler server"


class JaxCollector(XSpaceCollector):
    """Collector that records with JAX's profiler if JAX is imported."""

    name = "jax"
    framework = "JAX"
    no_profiler = (
        "This version of JAX has no profiler that can be driven from Python.",
        "Install JAX 0.4.35 or newer.",
    )
    left_over = OpenRecordings()

    def has_profiler(self) -> bool:
        """Return whether JAX has a profiler session or public profiler functions."""
        return bool(_session_class()) or hasattr(_public_profiler(), "start_trace")

    def open_recording(
        self, levels: TracerLevels, options: ProfilerOptions
    ) -> FrameworkRecording:
        """Begin a session of the runtime, or a trace if JAX has no session."""
        del options
        session = _session_class()
        recording = (
            _TraceFolder(levels) if session is None else _Session(session, levels)
        )
        self.traces_python = bool(levels.python)
        return recording

    @staticmethod
    def make_annotation(name: str, stats: Mapping[str, object]) -> Any:
        """Return JAX's own annotation object."""
        return _public_profiler().TraceAnnotation(name, **stats)

    def list_entrances(self) -> Iterable[Entrance]:
        """Yield the functions that start JAX's profiler in this version."""
        if _session_class() is None:
            # Guard `start_trace`, which would raise while stepscope's trace runs.
            for owner in (_public_profiler(), _profiler_state()):
                yield Entrance(owner, "start_trace", _OWN)
            return
        runtime = _runtime_profiler()
        yield Entrance(runtime, "ProfilerSession", _OWN)
        yield Entrance(runtime, "start_server", _SERVER)

    def program_profiler(self) -> str | None:
        """Return which of JAX's profilers the program has started, or None."""
        traced = getattr(_profiler_state(), "_profile_state", None)
        if getattr(traced, "profile_session", None) is not None:
            return _OWN
        # During a recording the program's profiler server would refuse clients.
        served = getattr(_profiler_state(), "_profiler_server", None)
        return None if served is None else _SERVER


class _Session:
    def __init__(self, session: Any, levels: TracerLevels) -> None:
        self._session = session(_profile_options(levels))

    def stop_session(self) -> bytes:
        return bytes(self._session.stop())

    def leave_session(self) -> None:
        # Never free the session: that takes 10 µs per recorded call, as reading does.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))


class _TraceFolder:
    """JAX's public functions, which write the recording into a folder."""

    def __init__(self, levels: TracerLevels) -> None:
        self._folder = Path(make_folder("jax"))
        options = _profile_options(levels)
        keywords = {} if options is None else {"profiler_options": options}
        try:
            _public_profiler().start_trace(str(self._folder), **keywords)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def stop_session(self) -> bytes:
        try:
            _public_profiler().stop_trace()
            files = sorted(self._folder.rglob("*.xplane.pb"))
            return b"".join(path.read_bytes() for path in files)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def leave_session(self) -> None:
        self.stop_session()


def _public_profiler() -> Any:
    import jax.profiler  # noqa: PLC0415 - the program's framework

    return jax.profiler


def _profiler_state() -> Any:
    return sys.modules.get("jax._src.profiler")


def _runtime_profiler() -> Any:
    try:
        from jax._src.lib import _profiler as runtime  # noqa: PLC0415 - the program's framework
    except ImportError:
        try:
            from jax._src.lib import (  # noqa: PLC0415 - the program's framework
                xla_client,
            )
        except ImportError:
            return None
        runtime = getattr(xla_client, "profiler", None)
    return runtime


def _session_class() -> Any:
    """Return the runtime's session class; None if it cannot return bytes."""
    session = getattr(_runtime_profiler(), "ProfilerSession", None)
    # Sessions of older versions only export into a folder.
    return session if hasattr(session, "stop") else None


def _profile_options(levels: TracerLevels) -> Any:
    """Return JAX options with these levels; None if this version has no options.

    JAX records every Python call by default, so stepscope always sets each level.
    """
    make = getattr(_public_profiler(), "ProfileOptions", None)
    if make is None:
        return None
    options = make()
    options.host_tracer_level = levels.host
    options.python_tracer_level = levels.python
    # In versions without this field the assignment has no effect, or raises.
    if hasattr(options, "device_tracer_level"):
        options.device_tracer_level = levels.device
    if hasattr(options, "raise_error_on_start_failure"):
        options.raise_error_on_start_failure = True
    return options
