"""Whether a process does nothing but start others and wait for them, as launchers do.

A process that arms reports so to its ancestors, with the processor time that each had
used by then. An ancestor that has used next to none since, that has annotated nothing
and touched no device, only waits.

Also waiting until devices are done, before a step is measured.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Modules that a launcher runs and that nothing it launches imports. Before its first
#: child has started, as while it meets other machines, nothing else shows a launcher.
_LAUNCHERS: Final = frozenset({"torch.distributed.run", "accelerate.commands.launch"})
#: Commands that are these. While they import a framework, only their name shows them.
_COMMANDS: Final = ("torchrun", "accelerate")
#: A servant of `multiprocessing` that runs nothing of the program.
_SERVANT: Final = "from multiprocessing.resource_tracker"
#: One that becomes the program's children by forking, and is none itself.
FORKS: Final = "from multiprocessing.forkserver"
#: Shells and similar programs may lie between a process and the one that started it.
_MOST_ANCESTORS: Final = 8
#: Processor time of one that only waits, since it started its first process: so much
#: for starting the others, for ending, and this share of the time for looking after
#: them.
_STARTING_S: Final = 0.1
_ENDING_S: Final = 0.4
_LOOKING_SHARE: Final = 0.05
#: Fields of /proc/PID/stat, counted from after the name of the process.
_PARENT, _USER_TICKS, _SYSTEM_TICKS = 1, 11, 12


def tell_ancestors(folder: str) -> None:
    """Report to the ancestors of this process that they started it."""
    for process, used_s in _ancestor_times():
        try:
            # The first that was started counts.
            with open(f"{folder}/{process}.started", "x", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not needed for this
                file.write(f"{time.monotonic()} {used_s}")
        except OSError:
            continue


def only_waits(folder: str, *, ours_s: float, ends: bool) -> bool:
    """Return whether this process started others and has done nothing itself since.

    Args:
        folder: Where processes report to their ancestors.
        ours_s: Processor time that stepscope has used in this process.
    """
    try:
        with open(f"{folder}/{os.getpid()}.started", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not needed for this
            since_s, before_s = map(float, file.read().split())
    except (OSError, ValueError):
        return False
    waited_s = time.monotonic() - since_s
    used_s = time.process_time() - before_s - ours_s
    granted_s = _STARTING_S + _LOOKING_SHARE * waited_s + (_ENDING_S if ends else 0)
    return used_s <= granted_s and not _uses_a_device()


def is_launcher() -> bool:
    """Return whether this process runs a launcher whose work is to start others."""
    is_one = not _LAUNCHERS.isdisjoint(sys.modules) or _names_launcher(sys.orig_argv)
    return is_one and not _uses_a_device()


def runs_nothing_itself(arguments: Sequence[str]) -> bool:
    """Return whether an interpreter with these arguments serves `multiprocessing`."""
    return any(word.startswith((_SERVANT, FORKS)) for word in arguments)


def _names_launcher(arguments: Sequence[str]) -> bool:
    for index, argument in enumerate(arguments[1:], start=1):
        if argument == "-m":
            return any(it in _LAUNCHERS for it in arguments[index + 1 : index + 2])
        if not argument.startswith("-"):
            return os.path.basename(argument) in _COMMANDS  # noqa: PTH119 - pathlib is not needed for this
    return False


def _ancestor_times() -> Iterator[tuple[int, float]]:
    process = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        if process <= 1:
            return
        try:
            with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - pathlib is not needed for this
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            # Without /proc no ancestor hears of it, and every process is recorded.
            return
        ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        yield process, ticks / os.sysconf("SC_CLK_TCK")
        process = int(fields[_PARENT])


def _uses_a_device() -> bool:
    """Return whether a framework computes on a device: that takes no processor time."""
    # The program's framework is asked, at any moment of its life.
    uses: list[Any] = []
    with suppress_faults():
        uses.append(sys.modules["torch"].cuda.is_initialized())
    with suppress_faults():
        bridge: Any = sys.modules["jax._src.xla_bridge"]
        uses.append(bridge._backends)  # noqa: SLF001 - asking JAX itself would begin it
    return any(uses)


def settle_devices() -> None:
    """Wait for the devices of every framework that the program has imported.

    A framework that cannot be asked, or that must not be at this moment, is not waited
    for.
    """
    torch, tensorflow, jax = map(sys.modules.get, ("torch", "tensorflow", "jax"))
    # The program's frameworks, in whichever version and state.
    with suppress_faults():
        cuda: Any = torch and torch.cuda
        # To wait while a graph is captured would break the capture.
        if cuda and cuda.is_initialized() and not cuda.is_current_stream_capturing():
            cuda.synchronize()
    with suppress_faults():
        if tensorflow and tensorflow.executing_eagerly():
            tensorflow.test.experimental.sync_devices()
    with suppress_faults():
        # Asking for arrays would begin a backend that the program has not begun.
        if jax and sys.modules["jax._src.xla_bridge"]._backends:  # noqa: SLF001 - nothing else says it
            for array in jax.live_arrays():
                # Another thread may have given its memory away.
                with suppress_faults():
                    array.block_until_ready()
