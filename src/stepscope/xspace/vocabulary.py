"""Names that stepscope writes into the profile message and reads back.

An annotation of stepscope may pass through a profiler that records only names: PyTorch
records just the name of a range, and its export replaces most characters by "unknown".
So name and values are encoded as letters and digits, and readers decode them before
they display them.

Definition: docs/formats/xplane.md#what-the-program-keeps.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Beginning of the names of forwarded annotations; encoded name and values follow.
_PREFIX: Final = "stepscope."
_NAME_AND_VALUES: Final = msgspec.json.Decoder(tuple[str, Raw])
#: Unit of a counter: members of a container or nodes of a graph ("items"); bytes of the
#: arrays in them; graphs of gradients.
KeptKind = Literal["items", "bytes", "graphs"]
KEPT_KINDS: Final[tuple[KeptKind, ...]] = ("items", "bytes", "graphs")
_NAME: Final = Pattern(
    r"(?P<kind>items|bytes|graphs) added to (?P<path>.+)"
    r" of \$(?P<file>[^$]*):(?P<line>\d+) (?P<function>[^$]+)\Z"
)
_PYTHON: Final = "Run the program in CPython 3.11, 3.12 or 3.13."
#: Stat of an event type recorded by PyTorch: the category that PyTorch gave it.
CATEGORY: Final = "stepscope_category"
#: PyTorch's category of operators.
OP_CATEGORY: Final = "cpu_op"
#: PyTorch's category of ranges that programs and libraries name.
ANNOTATION_CATEGORY: Final = "user_annotation"
#: Name of the plane of the host's threads; all producers use this name.
HOST_PLANE: Final = "/host:CPU"
#: Plane that records when and how the profile was made; all producers use this name.
ENVIRONMENT_PLANE: Final = "Task Environment"
#: Plane of annotations that a framework also recorded. Only interrupted recordings have
#: this plane; a finished profile has the annotations on the plane of the threads.
FORWARDED_PLANE: Final = "/host:stepscope-forwarded"
#: Stat of a device's plane: the program's device number, if the tracer's differs.
PROGRAM_ORDINAL: Final = "stepscope_program_ordinal"
#: Plane that describes the model: each event type on it is a variable.
MODEL_PLANE: Final = "/host:stepscope-model"
#: Plane in which a client of several hosts stores the clock offset of a host.
CLOCK_PLANE: Final = "/host:stepscope-clock"
#: Plane in which `stepscope run` records that the program ended before its first step.
END_PLANE: Final = "/host:stepscope-end"
#: Stat that records how the program ended: with an exception or an exit status.
END_STAT: Final = "ended_with"


class Forwarded(Frozen, frozen=True, eq=True):
    """An annotation with the name and values that the program gave it.

    Attributes:
        values: JSON of the annotation's values by name.
    """

    name: str
    values: Raw


def forwarded_name(name: str, values: Mapping[str, object]) -> str:
    """Return the name under which another profiler records an annotation of stepscope.

    The name has letters and digits only. PyTorch's export (2.11 and 2.13) replaces
    other characters by "unknown", or writes a document that cannot be parsed.
    """
    encoded = msgspec.json.encode((name, values), enc_hook=_plain_value)
    return f"{_PREFIX}{urlsafe_b64encode(encoded).decode()}"


def forwarded_annotation(name: str) -> Forwarded | None:
    """Decode the annotation forwarded under a name; None for other names."""
    if not name.startswith(_PREFIX):
        return None
    try:
        return Forwarded(
            *_NAME_AND_VALUES.decode(urlsafe_b64decode(name.removeprefix(_PREFIX)))
        )
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return None


def _plain_value(value: object) -> object:
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


class KeptCounter(Frozen, frozen=True, eq=True):
    """What a counter counts: objects that the program keeps in a container.

    Attributes:
        path: Expression for the objects' container, in a function of the program.
        line: First line of the function in the file.
    """

    kind: KeptKind
    path: str
    file: str
    line: int
    function: str

    @staticmethod
    def name(kind: KeptKind, path: str, function: str) -> str:
        """Return the counter's name; functions are named `$file.py:LINE function`."""
        return f"{kind} added to {path} of {function}"

    def of_kind(self, kind: KeptKind) -> str:
        """Return the name of the counter of `kind` for the same container."""
        function = f"${self.file}:{self.line} {self.function}"
        return self.name(kind, self.path, function)

    @classmethod
    def of(cls, name: str) -> KeptCounter | None:
        """Decode the name of a counter; None for any other counter."""
        match = _NAME.match(name)
        if match is None:
            return None
        kind = next(known for known in KEPT_KINDS if known == match["kind"])
        line = int(match["line"])
        return cls(kind, match["path"], match["file"], line, match["function"])


class Unsampled(NamedTuple):
    """Reason why worker processes were not sampled, and what to do.

    Attributes:
        code: Key in `UNSAMPLED`.
        reason: The reason, worded to follow a colon.
        remedy: What to do, as a sentence.
    """

    code: str
    reason: str
    remedy: str

    @property
    def mark(self) -> str:
        """The code at the end of the warning, by which readers recognise the reason."""
        return f"[workers.{self.code}]"

    @property
    def warning(self) -> str:
        """The warning that is written into the file."""
        return (
            f"functions of worker processes were not sampled: {self.reason} {self.mark}"
        )


#: Code → reason why worker processes were not sampled, and what to do.
UNSAMPLED: Final = {
    each.code: each
    for each in (
        Unsampled(
            "permission",
            "the system does not let this process read the memory of its children",
            "Allow it: `sysctl kernel.yama.ptrace_scope=1`, and in a container "
            "`--cap-add=SYS_PTRACE`; or sample the workers with a profiler for "
            "processes.",
        ),
        Unsampled(
            "system",
            "only Linux offers the memory of other processes as a file",
            "Record on Linux.",
        ),
        Unsampled(
            "python",
            "where this Python version stores its stack frames is not known",
            _PYTHON,
        ),
        Unsampled(
            "free_threaded",
            "this Python is built without the GIL, and stores its stack frames at "
            "other places",
            _PYTHON,
        ),
        Unsampled(
            "layout",
            "a test sample of this Python's own stack differed from the real stack",
            _PYTHON,
        ),
        Unsampled(
            "other_python",
            "the worker processes run another Python than the program",
            "Let the workers run the interpreter of the program "
            "(`multiprocessing.set_executable`).",
        ),
    )
}


def unseen_reason(warning: str) -> Unsampled | None:
    """Return the reason that a file's warning states; None if it states no reason."""
    return next(
        (kind for kind in UNSAMPLED.values() if warning.endswith(kind.mark)), None
    )


class ClockStat:
    """Stats of a host on the clock plane."""

    #: Time by which the host's clock was ahead of the client's clock, in ns.
    OFFSET_NS: Final = "offset_ns"
    #: Maximum error of the offset, in ns.
    DOUBT_NS: Final = "doubt_ns"


class ParameterStat:
    """Stats that describe each variable on the model plane."""

    SCOPE: Final = "scope"
    #: List of sizes as JSON; `[]` for a scalar.
    SHAPE: Final = "shape"
    DTYPE: Final = "dtype"
    #: 1 if the variable is trained, else 0.
    TRAINABLE: Final = "trainable"


class EnvironmentStat:
    """Stats of the plane `Task Environment` in recordings by stepscope."""

    START: Final = "profile_start_time"
    STOP: Final = "profile_stop_time"
    #: Serialized ProfileOptions with the levels in effect.
    OPTIONS: Final = "profile_options"
    #: Serialized ProfileOptions with the requested levels.
    ASKED: Final = "stepscope_asked_options"
    #: Names of the collectors that recorded, separated by commas.
    COLLECTORS: Final = "stepscope_collectors"
    VERSION: Final = "stepscope_version"
    #: Advance of the wall clock minus that of the monotonic clock, in ns.
    DRIFT_NS: Final = "clock_drift_ns"
    PROCESS: Final = "process_id"
    #: Number of cores that the process may use.
    CORES: Final = "stepscope_usable_cores"
    #: Time in ns since 1970 after which events are missing, as there were too many.
    COMPLETE_UNTIL: Final = "stepscope_complete_until"
    #: CUDA version of the program, as CUDA encodes versions; left out if unknown.
    CUDA_RUNTIME: Final = "cuda_runtime_version"
    CUDA_DRIVER: Final = "cuda_driver_version"
    #: Versions of frameworks and libraries: "torch 2.9.0, cudnn 9.10.2".
    LIBRARIES: Final = "stepscope_libraries"
