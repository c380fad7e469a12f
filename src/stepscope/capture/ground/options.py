"""What is to be recorded, in the words of the TensorFlow Profiler's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from stepscope.errors import BadUsage

_LEVELS: Final = {
    "host_tracer_level": 3,
    "python_tracer_level": 1,
    "device_tracer_level": 1,
}
#: Counters are read by one thread while the program runs: faster reading would cost it.
_MOST_HZ: Final = 100.0
#: More looks a second would get in the program's way.
_MOST_SAMPLES_HZ: Final = 1000.0
#: A file that holds less would not hold one flush.
_LEAST_BYTES: Final = 2**20
#: A window lasts so long where nobody says how many steps it has: functions are looked
#: at a hundred times a second, and a few looks say little.
LEAST_WINDOW_S: Final = 0.4
#: A window holds no more of PyTorch's events where nobody says how far it reaches: the
#: program waits some 12 µs for each to be stored, for less than 2 s in all
#: (docs/overhead.md#what-stopping-costs).
MAX_EVENTS: Final = 150_000


@dataclass(frozen=True, kw_only=True)
class ProfilerOptions:
    """Options of a recording; names and defaults are those of TensorFlow.

    Attributes:
        host_tracer_level: 0 nothing of the frameworks' own ops, 1 the critical ones, 2
            all, 3 verbose. Annotations of the program are always recorded.
        python_tracer_level: 1 records every call of a Python function.
        device_tracer_level: 1 records what ran on devices, 0 nothing of it.
        delay_ms: Recording begins so much later; None means at once.
        counters_hz: How often the counters of the process are read; 0 means never.
        python_sampling_hz: How often a second it is looked which functions the main
            thread and those that annotate are in, where calls are not recorded; 0
            means never.
        collectors: "auto" takes those that can record here; a tuple of names takes
            those, and one of them that cannot is an error.
        record_shapes: Shapes of ops' inputs, where the framework can.
        profile_memory: Allocations, where the framework can.
        max_bytes: Most bytes of a process's own events; what exceeds them is dropped
            and counted.
        max_slowdown: Where steps are known before they are recorded (`ss.schedule`),
            they may take so much longer while they are, 1 for twice as long; where
            they do, the next round records less.
        tensorflow_server: Whether TensorFlow's own server may be started, for levels
            that TensorFlow takes only there. It listens on all interfaces, asks for no
            token, and ends with the process.
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
        """Refuse what no recording can have.

        Raises:
            BadUsage: A value is out of range or of another type; one line.
        """
        for name, highest in _LEVELS.items():
            level = getattr(self, name)
            known = range(highest + 1)
            if (
                isinstance(level, bool)
                or not isinstance(level, int)
                or level not in known
            ):
                listed = ", ".join(map(str, known))
                raise BadUsage(f"{name}={level!r} does not exist; known: {listed}.")
        if self.delay_ms is not None and not _is_number(self.delay_ms, least=0):
            raise BadUsage(
                f"delay_ms={self.delay_ms!r} is no delay; give milliseconds from 0, "
                "or None."
            )
        _check_rate("counters_hz", self.counters_hz, _MOST_HZ, "readings")
        _check_rate(
            "python_sampling_hz", self.python_sampling_hz, _MOST_SAMPLES_HZ, "looks"
        )
        if not _is_number(self.max_slowdown, least=0):
            raise BadUsage(
                f"max_slowdown={self.max_slowdown!r} is no limit; give 0 or more, 1 "
                "for steps that take twice as long."
            )
        names: object = self.collectors
        is_choice = isinstance(names, tuple) and all(
            isinstance(it, str) for it in names
        )
        if names != "auto" and not is_choice:
            raise BadUsage(
                f'collectors={names!r} is no choice; give "auto" or a tuple of names, '
                'such as ("host", "process").'
            )
        if not _is_number(self.max_bytes, least=_LEAST_BYTES):
            raise BadUsage(
                f"max_bytes={self.max_bytes!r} is too little for a recording; give "
                f"{_LEAST_BYTES:,} or more."
            )


def _check_rate(name: str, rate: float, highest: float, of_what: str) -> None:
    if not _is_number(rate, least=0) or rate > highest:
        raise BadUsage(
            f"{name}={rate!r} is no rate; give 0 to {highest:g} {of_what} a second."
        )


def _is_number(value: object, *, least: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= least  # type: ignore[operator]
