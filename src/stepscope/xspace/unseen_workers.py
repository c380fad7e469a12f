"""Why the functions of worker processes are not in a recording.

Who records says it in a warning of the file, and who reads the file knows it by that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_BEGIN: Final = "functions of worker processes were not looked at: "
_PYTHON: Final = "Run the program in CPython 3.11, 3.12 or 3.13."


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
        "only Linux shows the memory of other processes as a file",
        "Record on Linux.",
    ),
    "python": Unseen(
        "it is not known where this Python keeps what its threads run",
        _PYTHON,
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


def unseen_of(warning: str) -> Unseen | None:
    """Return the reason that a warning of a file says; None for any other warning."""
    return next((it for it in UNSEEN.values() if warning.endswith(it.warning)), None)
