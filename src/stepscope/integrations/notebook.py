"""`%load_ext stepscope` in a notebook; then `%%stepscope` records a cell."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope.capture.profile import Profile
from stepscope.errors import StepscopeError
from stepscope.integrations.training import LOGDIR

if TYPE_CHECKING:
    from stepscope.reporting.from_python import Report


def load_ipython_extension(shell: Any) -> None:
    """Register `%%stepscope` in a shell of IPython, which calls this function."""
    record = functools.partial(record_cell, shell)
    shell.register_magic_function(record, "cell", "stepscope")


def record_cell(shell: Any, line: str, cell: str) -> Report | None:
    """Run a cell, and return the report on it; None if the cell raised an exception.

        %%stepscope [LOGDIR]

    Steps are found as in any recording: mark them, or repeat the same calls.
    """
    try:
        with Profile(line.strip() or LOGDIR) as recorded:
            outcome = shell.run_cell(cell)
        if not outcome.success or recorded.path is None:
            return None
        from stepscope.reporting.from_python import report  # noqa: PLC0415 - of polars

        return report(recorded.path.parent)
    except StepscopeError as error:
        sys.stderr.write(f"stepscope: {error}\n")
        return None
