"""Options of a recording, named like the options of the TensorFlow Profiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from stepscope.errors import BadUsage

#: Option of the amount recorded → its highest level.
TRACER_LEVELS: Final = {
    "host_tracer_level": 3,
    "python_tracer_level": 1,
    "device_tracer_level": 1,
}
#: Maximum counter readings a second; faster reading would slow the program down.
_MAX_COUNTERS_HZ: Final = 100.0
#: Maximum stack samples a second; more samples would slow the program down.
_MAX_SAMPLES_HZ: Final = 1000.0
#: Minimum of `max_bytes`: a smaller file could not hold one flush.
_LEAST_BYTES: Final = 2**20
#: Minimum duration of a window in seconds, if its number of steps is not given: at 100
#: stack samples a second, a shorter window has too few samples.
MIN_WINDOW_S: Final = 0.4
#: Maximum number of PyTorch events in a window, if its end is not given: the program
#: waits about 12 µs for each event to be stored, less than 2 s in total
#: (docs/overhead.md#what-stopping-costs).
MAX_EVENTS: Final = 150_000
#: Seconds between two kept recordings of PyTorch: an op that begins in one and ends in
#: the other could crash the program.
TORCH_PAUSE_S: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class ProfilerOptions:
    """Options of a recording; names and defaults are those of TensorFlow.

    Attributes:
        host_tracer_level: Ops of the frameworks to record: 0 none, 1 critical ones, 2
            all, 3 verbose. Annotations of the program are always recorded.
        python_tracer_level: 1 records every call of a Python function.
        device_tracer_level: 1 records device activity, 0 does not.
        delay_ms: Delay in ms before the recording begins; None means no delay.
        counters_hz: Readings of the process's counters a second; 0 means never.
        python_sampling_hz: Stack samples a second of the main thread and of threads
            with annotations, unless calls are recorded; 0 means never.
        collectors: "auto" uses all collectors that can record here. A tuple of names
            uses exactly these collectors; if one cannot record, that is an error.
        record_shapes: Record the shapes of ops' inputs, if the framework can.
        profile_memory: Record allocations, if the framework can.
        max_bytes: Maximum bytes of the process's own events; events beyond the limit
            are dropped and counted.
        max_slowdown: Limit for recorded steps compared with unrecorded steps
            (`ss.schedule`), 1 for twice as long. If recorded steps take longer, the
            next cycle records less.
        tensorflow_server: Whether TensorFlow's profiler server may be started, for
            levels that TensorFlow accepts only there. The server listens on all
            interfaces, asks for no token, and ends with the process.
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None
    counters_hz: float = 10.0
    python_sampling_hz: float = 100.0
    collectors: tuple[str, ...] | Literal["auto"] = "auto"
    record_shapes: bool = False
    profile_memory: bool = False
    max_bytes: int = 512 * 2**20
    max_slowdown: float = 4.0
    tensorflow_server: bool = True

    def __post_init__(self) -> None:
        """Reject values that a recording cannot have.

        Raises:
            BadUsage: A value is out of range or of a wrong type (one line).
        """
        for name, highest in TRACER_LEVELS.items():
            level = getattr(self, name)
            known = range(highest + 1)
            if (
                isinstance(level, bool)
                or not isinstance(level, int)
                or level not in known
            ):
                listed = ", ".join(map(str, known))
                raise BadUsage(f"{name}={level!r} does not exist; known: {listed}.")
        if self.delay_ms is not None and not _is_number(self.delay_ms, minimum=0):
            raise BadUsage(
                f"delay_ms={self.delay_ms!r} is not a delay; give 0 or more "
                "milliseconds, or None."
            )
        _check_rate("counters_hz", self.counters_hz, _MAX_COUNTERS_HZ, "readings")
        _check_rate(
            "python_sampling_hz", self.python_sampling_hz, _MAX_SAMPLES_HZ, "samples"
        )
        if not _is_number(self.max_slowdown, minimum=0):
            raise BadUsage(
                f"max_slowdown={self.max_slowdown!r} is not a limit; give 0 or more; 1 "
                "lets steps take twice as long."
            )
        names: object = self.collectors
        is_choice = isinstance(names, tuple) and all(
            isinstance(name, str) for name in names
        )
        if names != "auto" and not is_choice:
            raise BadUsage(
                f'collectors={names!r} is not a choice; give "auto" or a tuple of '
                'names, such as ("host", "process").'
            )
        if not _is_number(self.max_bytes, minimum=_LEAST_BYTES):
            raise BadUsage(
                f"max_bytes={self.max_bytes!r} is too small for a recording; give "
                f"{_LEAST_BYTES:,} or more."
            )


def _check_rate(name: str, rate: float, highest: float, of_what: str) -> None:
    if not _is_number(rate, minimum=0) or rate > highest:
        raise BadUsage(
            f"{name}={rate!r} is not a rate; give 0 to {highest:g} {of_what} a second."
        )


def _is_number(value: object, *, minimum: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= minimum  # type: ignore[operator]
