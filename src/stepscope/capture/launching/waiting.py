"""Detection of processes that only start other processes and wait, as launchers do.

At its start, each recorded process writes a file for each of its ancestors, with the
processor time that the ancestor had used so far. An ancestor counts as waiting if it
has since used very little processor time, has annotated nothing and uses no device.

This module also waits for devices to finish, before a step is measured.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import suppress_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Modules that only launchers import. Until a launcher has started its first child, for
#: example while it waits for other machines, only these modules identify it.
_LAUNCHERS: Final = frozenset({"torch.distributed.run", "accelerate.commands.launch"})
#: Launcher commands; only their name identifies them while they import a framework.
_COMMANDS: Final = ("torchrun", "accelerate")
#: Code of a `multiprocessing` helper process that runs no code of the program.
_SERVANT: Final = "from multiprocessing.resource_tracker"
#: Code of the `multiprocessing` process that forks the program's child processes.
FORKS: Final = "from multiprocessing.forkserver"
#: Maximum number of ancestors to notify; shells may run between two processes.
_MAX_ANCESTORS: Final = 8
#: A process only waits if its processor time since it started its first child is at
#: most this sum: seconds for starting children, seconds for ending (if the process is
#: ending), and a share of the elapsed time for supervising children.
_STARTING_S: Final = 0.1
_ENDING_S: Final = 0.4
_CHECKING_SHARE: Final = 0.05
#: Positions in /proc/PID/stat, counted after the name of the process.
_PARENT, _USER_TICKS, _SYSTEM_TICKS = 1, 11, 12


def notify_ancestors(folder: str) -> None:
    """Report to the ancestors of this process that they started it."""
    for process, used_s in _ancestor_times():
        try:
            # Mode "x" keeps the file of the first child.
            with open(f"{folder}/{process}.started", "x", encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
                file.write(f"{time.monotonic()} {used_s}")
        except OSError:
            continue


def only_waits(folder: str, *, ours_s: float, ends: bool) -> bool:
    """Return whether this process started other processes and only waits for them.

    Args:
        folder: Folder in which processes report to their ancestors.
        ours_s: Processor time that stepscope has used in this process, in seconds.
        ends: Whether this process is ending.
    """
    try:
        with open(f"{folder}/{os.getpid()}.started", encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
            since_s, before_s = map(float, file.read().split())
    except (OSError, ValueError):
        return False
    waited_s = time.monotonic() - since_s
    used_s = time.process_time() - before_s - ours_s
    granted_s = _STARTING_S + _CHECKING_SHARE * waited_s + (_ENDING_S if ends else 0)
    return used_s <= granted_s and not _uses_a_device()


def is_launcher() -> bool:
    """Return whether this process runs a launcher, such as `torchrun`."""
    is_one = not _LAUNCHERS.isdisjoint(sys.modules) or _names_launcher(sys.orig_argv)
    return is_one and not _uses_a_device()


def runs_nothing_itself(arguments: Sequence[str]) -> bool:
    """Return whether interpreter arguments are those of a `multiprocessing` helper."""
    return any(word.startswith((_SERVANT, FORKS)) for word in arguments)


def _names_launcher(arguments: Sequence[str]) -> bool:
    for index, argument in enumerate(arguments[1:], start=1):
        if argument == "-m":
            return any(name in _LAUNCHERS for name in arguments[index + 1 : index + 2])
        if not argument.startswith("-"):
            return os.path.basename(argument) in _COMMANDS  # noqa: PTH119 - avoids importing pathlib
    return False


def _ancestor_times() -> Iterator[tuple[int, float]]:
    process = os.getppid()
    for _ in range(_MAX_ANCESTORS):
        if process <= 1:
            return
        try:
            with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123 - avoids importing pathlib
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            # Without /proc no ancestor is notified, so every process is recorded.
            return
        ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        yield process, ticks / os.sysconf("SC_CLK_TCK")
        process = int(fields[_PARENT])


def _uses_a_device() -> bool:
    """Return whether a framework uses a device, even if it uses no processor time."""
    uses: list[Any] = []
    with suppress_faults():
        uses.append(sys.modules["torch"].cuda.is_initialized())
    with suppress_faults():
        bridge: Any = sys.modules["jax._src.xla_bridge"]
        uses.append(bridge._backends)  # noqa: SLF001 - JAX's public call would start a backend
    return any(uses)


def settle_devices() -> None:
    """Wait for the devices of every framework that the program has imported.

    A framework that fails, or that must not be synchronized now, is skipped.
    """
    torch, tensorflow, jax = map(sys.modules.get, ("torch", "tensorflow", "jax"))
    # The frameworks may have any version and state, so errors are suppressed.
    with suppress_faults():
        cuda: Any = torch and torch.cuda
        # Waiting would break a CUDA graph that is being captured.
        if cuda and cuda.is_initialized() and not cuda.is_current_stream_capturing():
            cuda.synchronize()
    with suppress_faults():
        if tensorflow and tensorflow.executing_eagerly():
            tensorflow.test.experimental.sync_devices()
    with suppress_faults():
        # `live_arrays` would start a backend that the program has not started.
        if jax and sys.modules["jax._src.xla_bridge"]._backends:  # noqa: SLF001 - JAX has no public check
            for array in jax.live_arrays():
                # Another thread may have donated or deleted the array.
                with suppress_faults():
                    array.block_until_ready()
