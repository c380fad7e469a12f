"""Plan of a program's recording, passed to its processes in an environment variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.capture.base.options import ProfilerOptions

#: Environment variable that contains the plan.
VARIABLE: Final = "STEPSCOPE_RUN"
#: Frameworks that are recorded in addition to Python; importing one implies training.
FRAMEWORKS: Final = ("keras", "torch", "jax", "tensorflow")


class RunPlan(NamedTuple):
    """Where to record, and which window of each process to record.

    Attributes:
        logdir: Log directory, as an absolute path.
        run: Name of the run, the same for all processes.
        notes: Folder to which each process writes a note about its recording.
        skip_steps: Number of steps that are counted but not recorded.
        least_s: Minimum seconds to record after the first step; more than `steps` steps
            are recorded if they take less.
        max_s: Maximum seconds to record after the first step; the recording ends with
            the step in progress at that time.
        wait_s: Seconds before recording begins if the program has no steps.
        record_s: Seconds to record if the program has no steps.
        max_slowdown: Maximum slowdown of recorded steps over earlier steps; 1 means
            twice as long. If it is exceeded, less is recorded.
        max_events: Maximum number of framework events in a window, because the program
            waits while they are stored; 0 for no limit.
        watches: Whether to record steps and counters before the window, in case the
            program ends before the window opens.
        host_tracer_level: As in `ProfilerOptions`, like all further fields.
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
        """Number of the last recorded step, from 1."""
        return self.skip_steps + self.steps

    def checked(self) -> RunPlan:
        """Return the plan; raise BadUsage if a number is out of its range."""
        minimums = {
            "skip_steps": 0.0,
            "steps": 1.0,
            "least_s": 0.0,
            "max_s": 0.0,
            "wait_s": 0.0,
            "record_s": 0.001,
            "max_slowdown": 0.0,
        }
        for name, bound in minimums.items():
            value = getattr(self, name)
            # The comparison is negated so that NaN is refused too.
            if not value >= bound:
                flag = f"--{name.replace('_', '-')}"
                raise BadUsage(
                    f"{flag} {value:g} is too small; give {bound:g} or more."
                )
        self.options()
        return self

    def options(self) -> ProfilerOptions:
        """Return the profiler options for the recordings of this plan."""
        from stepscope.capture.base.options import ProfilerOptions  # noqa: PLC0415

        return ProfilerOptions(
            host_tracer_level=self.host_tracer_level,
            python_tracer_level=self.python_tracer_level,
            device_tracer_level=self.device_tracer_level,
            python_sampling_hz=self.python_sampling_hz,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
        )

    def to_text(self) -> str:
        """Return the plan as text, one field per line, with line feeds escaped."""
        return "\n".join(
            f"{name}=" + str(value).replace("\\", "\\\\").replace("\n", "\\n")
            for name, value in zip(self._fields, self, strict=True)
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> RunPlan | None:
        """Return the plan in the environment of this process; None without a plan."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        # Importing a JSON parser would take longer than all other arming.
        fields = dict(line.split("=", 1) for line in text.split("\n"))
        try:
            return cls(*(_read_field(name, fields[name]) for name in cls._fields))
        except KeyError as missing:
            raise ValueError(f"the plan lacks {missing}") from missing


def _read_field(name: str, text: str) -> Any:
    default = RunPlan._field_defaults.get(name)
    if default is None:
        parts = text.split("\\\\")
        return "\\".join(part.replace("\\n", "\n") for part in parts)
    return text == "True" if isinstance(default, bool) else type(default)(text)
