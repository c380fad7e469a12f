"""What the processes of one training share: a run, and the lines printed at its end."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from stepscope import rundir
from stepscope.capture.base.program_log import log_line
from stepscope.errors import is_from_handler, printable_line, suppress_faults

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.capture.base.run import Run

#: Ranks that launchers give the first process, in environment variables; None without.
_FIRST_RANKS: Final = frozenset({None, "0", "chief0", "worker0"})
#: Maximum seconds to wait for the name that the first rank gave to the run.
_NAMED_WITHIN_S: Final = 10.0
#: Maximum seconds to wait for the files of the other processes of a run.
_STORED_WITHIN_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.05
#: Numbers of the runs that this process named, the same on all ranks.
_numbers: Final = itertools.count()


def process_group() -> Any:
    """Return `torch.distributed` if it connects several processes, otherwise None."""
    group: Any = sys.modules.get("torch.distributed")
    if group is None or not group.is_available() or not group.is_initialized():
        return None
    return group if group.get_world_size() > 1 else None


def is_first_rank() -> bool:
    """Return whether this process is the first of its training, or the only one."""
    group = process_group()
    if group is not None:
        return bool(group.get_rank() == 0)
    return rundir.worker_rank(os.environ) in _FIRST_RANKS


def name_run() -> str:
    """Return a new name for a run, on which the processes of a training agree.

    The first rank leaves it in the process group's store. A collective would block the
    training if some ranks did not record.
    """
    name = rundir.new_run_name(time.time())
    key = f"stepscope/run/{next(_numbers)}"
    group = process_group()
    if group is None:
        return name
    try:
        store = group.distributed_c10d._get_default_store()  # noqa: SLF001 - no public way
        if group.get_rank() == 0:
            store.set(key, name)
            return name
        store.wait([key], timedelta(seconds=_NAMED_WITHIN_S))
        return str(store.get(key), "utf-8")
    except Exception as error:
        if is_from_handler(error):
            raise
        log_line("the first rank named no run, so this rank records a separate one")
        return name


def print_last_lines(run: Run) -> None:
    """Print headline, first advice and place of a recording; never raise."""
    try:
        lines = report_lines(run)
    except Exception as error:
        if is_from_handler(error):
            raise
        lines = [f"no report could be made ({type(error).__name__}: {error})"]
    text = "".join(f"stepscope: {printable_line(line)}\n" for line in lines)
    with suppress_faults():
        # The first line feed ends a progress bar.
        sys.stderr.write(f"\n{text}")


def report_lines(run: Run) -> list[str]:
    """Return headline, first advice and place; without a report, one line says why."""
    if run.path is None:
        return [f"no recording was stored: {' '.join(run.warnings)}"]
    directory = run.path.parent
    wait_for_files(directory)
    command = f"stepscope report {shlex.quote(os.fspath(directory.parents[2]))}"
    try:
        from stepscope.reporting.from_python import report  # noqa: PLC0415 - of polars
    except ImportError as error:
        lack = f"a report needs {error.name}, which this environment lacks"
        return [f"recorded; {lack}. Where it is installed: {command}"]
    found = report(directory)
    advice = (found.first_advice or "").splitlines()
    return [found.headline, *advice, f"all findings: {command}"]


def wait_for_files(directory: Path) -> None:
    """Wait until each process that records into a run has stored its file."""
    ends_s = time.monotonic() + _STORED_WITHIN_S
    while time.monotonic() < ends_s:
        if not any(rundir.is_spool(it.name) for it in directory.iterdir()):
            return
        time.sleep(_LOOK_AGAIN_S)
