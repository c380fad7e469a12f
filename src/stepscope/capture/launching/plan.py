"""What is to be recorded of a program: handed to all its processes by environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.capture.ground.options import ProfilerOptions

#: The environment variable that carries the plan.
VARIABLE: Final = "STEPSCOPE_RUN"
#: Modules of a program that record more than its Python calls, and count as training.
FRAMEWORKS: Final = ("keras", "torch", "jax", "tensorflow")


class RunPlan(NamedTuple):
    """Where to record, and which window of each process.

    Attributes:
        logdir: Log directory, absolute.
        run: Name of the run, one for all processes.
        notes: Folder where each process says what it recorded.
        skip_steps: Steps that are counted but not recorded.
        least_s: Shortest recording of steps after the first one: where `steps` are over
            before, it goes on with more.
        max_s: Longest recording of steps after the first one: it ends with the step
            that ends later.
        wait_s: Without steps: seconds before recording begins.
        record_s: Without steps: seconds that are recorded.
        max_slowdown: Steps that are recorded may take so much longer than those
            before, 1 for twice as long; where they do, less is recorded.
        max_events: Most events of a framework whose storing the program waits for; the
            window ends before it holds more. 0 for no limit.
        watches: Whether steps and counters are kept before the window, for a program
            that ends too early.
        host_tracer_level: As in `ProfilerOptions`, and so are the rest.
    """

    logdir: str
    run: str
    notes: str
    skip_steps: int = 10
    steps: int = 10
    least_s: float = 0.0
    max_s: float = 10.0
    wait_s: float = 15.0
    record_s: float = 5.0
    max_slowdown: float = 4.0
    max_events: int = 0
    watches: bool = True
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    python_sampling_hz: float = 100.0
    record_shapes: bool = False
    profile_memory: bool = False

    @property
    def last_step(self) -> int:
        """Number of the last step that is recorded; the first of all is 1."""
        return self.skip_steps + self.steps

    def checked(self) -> RunPlan:
        """Return the plan itself; raise BadUsage where a number is out of its range."""
        least = {
            "skip_steps": 0.0,
            "steps": 1.0,
            "least_s": 0.0,
            "max_s": 0.0,
            "wait_s": 0.0,
            "record_s": 0.001,
            "max_slowdown": 0.0,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            # Written so that no number at all is refused too.
            if not value >= bound:
                flag = f"--{name.replace('_', '-')}"
                raise BadUsage(f"{flag} {value:g} cannot be; give {bound:g} or more.")
        self.options()
        return self

    def options(self) -> ProfilerOptions:
        """Return the options of the plan's recordings."""
        from stepscope.capture.ground.options import ProfilerOptions  # noqa: PLC0415

        return ProfilerOptions(
            host_tracer_level=self.host_tracer_level,
            python_tracer_level=self.python_tracer_level,
            device_tracer_level=self.device_tracer_level,
            python_sampling_hz=self.python_sampling_hz,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
        )

    def to_text(self) -> str:
        """Write the plan, one line a field; a line feed within a path is escaped."""
        fields = zip(self._fields, self, strict=True)
        return "\n".join(
            f"{name}=" + str(value).replace("\\", "\\\\").replace("\n", "\\n")
            for name, value in fields
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> RunPlan | None:
        """Return the plan that this process was given; None where it was given none."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        # No JSON: its parser would take longer to import than all of the arming.
        given = dict(line.split("=", 1) for line in text.split("\n"))
        try:
            return cls(*(_read_field(name, given[name]) for name in cls._fields))
        except KeyError as missing:
            raise ValueError(f"the plan does not say {missing}") from missing


def _read_field(name: str, text: str) -> Any:
    default = RunPlan._field_defaults.get(name)
    if default is None:
        parts = text.split("\\\\")
        return "\\".join(part.replace("\\n", "\n") for part in parts)
    return text == "True" if isinstance(default, bool) else type(default)(text)
