"""Compilations, with the function's name and the reason if the framework reports it.

JAX reports each stage to listeners. PyTorch keeps a list of its compilations, which is
read when the recording stops. TensorFlow's own events contain name and reason.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stepscope._core import recorder
from stepscope.capture.base.encoding import Rows, ThreadNames, native_id, rows_fragment
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import HOST_PLANE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

#: Prefix of event names; the function's name follows.
COMPILATION: Final = "compilation of "
#: JAX's event name → compilation stage.
_STAGES: Final = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}
#: Minimum seconds of a recorded stage; JAX's many small functions take less.
_MIN_STAGE_S: Final = 0.001
_RING_ROWS: Final = 8_192
_NS_PER_S: Final = 1_000_000_000
_NS_PER_US: Final = 1_000

#: A stage: name, begin and end in ns of the monotonic clock, thread id, stats.
_Row = tuple[str, int, int, int, dict[str, object]]


class CompilationsCollector:
    """Collector of the compilations that frameworks report."""

    name = "compilations"

    def __init__(self) -> None:
        self._clock: ClockPair | None = None
        self._rows: deque[_Row] = deque(maxlen=_RING_ROWS)
        self._names = ThreadNames()
        self._monitoring: Any = None

    def why_unavailable(self) -> Unavailable | None:
        """Return None if a framework that reports compilations is imported."""
        if {"jax", "torch"} & sys.modules.keys():
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The program has imported no framework that reports compilations.",
            remedy="Import jax or torch before the recording starts.",
        )

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Register a listener in JAX, if JAX can also unregister it."""
        del options
        self._clock = clock
        monitoring: Any = getattr(sys.modules.get("jax"), "monitoring", None)
        if hasattr(monitoring, "unregister_event_duration_listener"):
            self._monitoring = monitoring
            monitoring.register_event_duration_secs_listener(self._on_duration)

    def take_fragment(self) -> Fragment:
        """Take the compilations since the last call."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        if self._clock is None or not rows:
            return Fragment(b"", 0)
        self._names.refresh_names()
        columns = Rows(*zip(*rows, strict=True))
        return rows_fragment(
            {HOST_PLANE: columns}, clock=self._clock, names=self._names
        )

    def halt_collecting(self) -> None:
        """Unregister the listener."""
        monitoring, self._monitoring = self._monitoring, None
        if monitoring is not None:
            monitoring.unregister_event_duration_listener(self._on_duration)

    def hand_over(self) -> Collected:
        """Return the remaining compilations, and those that PyTorch listed."""
        self.halt_collecting()
        if self._clock is not None:
            self._rows.extend(_torch_compilations(self._clock))
        last = self.take_fragment()
        self._clock = None
        return Collected(last.xspace)

    def _on_duration(self, event: str, seconds: float, **details: object) -> None:
        stage = _STAGES.get(event)
        if stage is None or seconds < _MIN_STAGE_S:
            return
        end_ns = recorder.clock_ns()
        name = str(details.get("fun_name", "a function"))
        # `jit(train_step)` is the compiled form of `train_step`.
        jitted = name.removeprefix("jit(").removesuffix(")") if "jit(" in name else name
        self._rows.append(
            (
                COMPILATION + jitted,
                end_ns - int(seconds * _NS_PER_S),
                end_ns,
                threading.get_native_id(),
                {"stage": stage},
            )
        )


def _torch_compilations(clock: ClockPair) -> Iterator[_Row]:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if not hasattr(utils, "get_compilation_metrics"):
        return
    # PyTorch does not report the thread, which is nearly always the main one.
    thread = native_id(threading.main_thread()) or 0
    for metrics in utils.get_compilation_metrics():
        begin_us = getattr(metrics, "start_time_us", None)
        lasted_us = getattr(metrics, "duration_us", None)
        name = getattr(metrics, "co_name", None)
        if begin_us is None or lasted_us is None or name is None:
            continue
        begin_ns = begin_us * _NS_PER_US - clock.wall_ns + clock.monotonic_ns
        if begin_ns < clock.monotonic_ns:
            continue
        file, line = metrics.co_filename, metrics.co_firstlineno
        stats: dict[str, object] = {"stage": "compile", "source": f"{file}:{line}"}
        for key, text in (
            ("reason", getattr(metrics, "recompile_reason", None)),
            ("failure", getattr(metrics, "fail_reason", None)),
        ):
            if text:
                stats[key] = str(text)
        end_ns = begin_ns + lasted_us * _NS_PER_US
        yield COMPILATION + name, begin_ns, end_ns, thread, stats
