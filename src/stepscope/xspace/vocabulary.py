"""Names that stepscope itself writes into the profile message, and reads back.

An annotation of ours travels through a profiler that keeps names only: PyTorch's
records the name of a range and nothing else, and its export makes "unknown" of most
characters. So name and values are packed into letters and digits, and whoever reads a
profile unpacks them: people never see the packed form.

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

#: Names of annotations that we forwarded begin so, then come name and values.
_PREFIX: Final = "stepscope."
_NAME_AND_VALUES: Final = msgspec.json.Decoder(tuple[str, Raw])
#: Members, or nodes of a graph; bytes of their arrays, and of graphs of gradients.
KeptKind = Literal["items", "bytes", "graphs"]
KEPT_KINDS: Final[tuple[KeptKind, ...]] = ("items", "bytes", "graphs")
_NAME: Final = Pattern(
    r"(?P<kind>items|bytes|graphs) added to (?P<path>.+)"
    r" of \$(?P<file>[^$]*):(?P<line>\d+) (?P<function>[^$]+)\Z"
)
_BEGIN: Final = "functions of worker processes were not looked at: "
_PYTHON: Final = "Run the program in CPython 3.11, 3.12 or 3.13."
#: Kinds of events that PyTorch recorded carry its category under this name.
CATEGORY: Final = "stepscope_category"
#: The category of its operators.
OP_CATEGORY: Final = "cpu_op"
#: The category of the ranges that programs and libraries name.
ANNOTATION_CATEGORY: Final = "user_annotation"
#: The plane of the host's threads, as every producer calls it.
HOST_PLANE: Final = "/host:CPU"
#: The plane that records when and how the profile was made, as every producer calls it.
ENVIRONMENT_PLANE: Final = "Task Environment"
#: Annotations that a framework recorded too: a finished profile has them once, on the
#: plane of the threads; a recording that was cut off has no other copy.
FORWARDED_PLANE: Final = "/host:stepscope-forwarded"
#: A device's plane says under this name how the program numbers it, where its tracer
#: numbers it otherwise.
PROGRAM_ORDINAL: Final = "stepscope_program_ordinal"
#: The plane that describes the model: each kind of event on it is a variable.
MODEL_PLANE: Final = "/host:stepscope-model"
#: Where a client that recorded several hosts says how a clock differs from its own.
CLOCK_PLANE: Final = "/host:stepscope-clock"
#: Where `stepscope run` says that the program ended before its first step.
END_PLANE: Final = "/host:stepscope-end"
#: With what it ended: an exception, an exit status.
END_STAT: Final = "ended_with"


class Forwarded(Frozen, frozen=True, eq=True):
    """An annotation as the program made it.

    Attributes:
        name: Its name.
        values: JSON of its values by name.
    """

    name: str
    values: Raw


def forwarded_name(name: str, values: Mapping[str, object]) -> str:
    """Return the name under which another profiler records our annotation.

    Letters and digits only: of anything else PyTorch's export makes "unknown", or a
    document that nobody can read (2.11 and 2.13).
    """
    both = msgspec.json.encode((name, values), enc_hook=_plain_value)
    return f"{_PREFIX}{urlsafe_b64encode(both).decode()}"


def forwarded_annotation(name: str) -> Forwarded | None:
    """Return what was forwarded under a name; None of one that is not ours."""
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
    """What one counter counts.

    Attributes:
        kind: What is counted.
        path: How a function of the program reaches the container.
        file: Name of the function's file.
        line: The function's first line there.
        function: The function.
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
        """Return the name of the counter of the same container that counts this."""
        function = f"${self.file}:{self.line} {self.function}"
        return self.name(kind, self.path, function)

    @classmethod
    def of(cls, name: str) -> KeptCounter | None:
        """Return what a counter of this name counts; None for any other counter."""
        found = _NAME.match(name)
        if found is None:
            return None
        kind = next(it for it in KEPT_KINDS if it == found["kind"])
        line = int(found["line"])
        return cls(kind, found["path"], found["file"], line, found["function"])


class Unseen(NamedTuple):
    """A reason, and the way out.

    Attributes:
        reason: Why they were not looked at; goes on after a colon.
        remedy: What to do, a sentence.
    """

    reason: str
    remedy: str

    @property
    def warning(self) -> str:
        """What the file says."""
        return f"{_BEGIN}{self.reason}"


UNSEEN: Final = {
    "permission": Unseen(
        "the system does not let this process read the memory of its children",
        "Allow it: `sysctl kernel.yama.ptrace_scope=1`, and in a container "
        "`--cap-add=SYS_PTRACE`; or sample inside the workers with a profiler of "
        "processes.",
    ),
    "system": Unseen(
        "only Linux shows the memory of other processes as a file", "Record on Linux."
    ),
    "python": Unseen(
        "it is not known where this Python keeps what its threads run", _PYTHON
    ),
    "free_threaded": Unseen(
        "this Python is built without the interpreter's lock, and keeps what its "
        "threads run elsewhere",
        _PYTHON,
    ),
    "layout": Unseen(
        "what this Python's own stack looks like from outside is not what it is",
        _PYTHON,
    ),
    "other_python": Unseen(
        "they run another Python than the program",
        "Let the workers run the interpreter of the program "
        "(`multiprocessing.set_executable`).",
    ),
}


def unseen_reason(warning: str) -> Unseen | None:
    """Return the reason that a warning of a file says; None for any other warning."""
    return next((it for it in UNSEEN.values() if warning.endswith(it.warning)), None)


class ClockStat:
    """What the plane of the clock says of the host."""

    #: By how much the host's clock was ahead of the client's, nanoseconds.
    OFFSET_NS: Final = "offset_ns"
    #: That may be wrong by so much, nanoseconds.
    DOUBT_NS: Final = "doubt_ns"


class ParameterStat:
    """What the plane of the model says of each variable."""

    SCOPE: Final = "scope"
    #: A list of sizes as JSON, `[]` for a scalar.
    SHAPE: Final = "shape"
    DTYPE: Final = "dtype"
    #: 1 where it is trained, 0 where it is not.
    TRAINABLE: Final = "trainable"


class EnvironmentStat:
    """What the plane `Task Environment` says of a recording of ours."""

    START: Final = "profile_start_time"
    STOP: Final = "profile_stop_time"
    #: A serialized ProfileOptions: the levels in force.
    OPTIONS: Final = "profile_options"
    #: A serialized ProfileOptions: the levels that were asked for.
    ASKED: Final = "stepscope_asked_options"
    #: Names of the collectors that recorded, with commas.
    COLLECTORS: Final = "stepscope_collectors"
    VERSION: Final = "stepscope_version"
    #: How much further the wall clock went than the monotonic one, nanoseconds.
    DRIFT_NS: Final = "clock_drift_ns"
    PROCESS: Final = "process_id"
    #: How many cores of the machine the process may use.
    CORES: Final = "stepscope_usable_cores"
    #: From then on events are missing that were too many to store: nanoseconds since
    #: 1970.
    COMPLETE_UNTIL: Final = "stepscope_complete_until"
    #: CUDA of the program, as CUDA writes versions; left out where it is not known.
    CUDA_RUNTIME: Final = "cuda_runtime_version"
    CUDA_DRIVER: Final = "cuda_driver_version"
