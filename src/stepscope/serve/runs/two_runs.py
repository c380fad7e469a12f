"""The answer about two runs, although one profile is open at a time."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from stepscope.compare.comparison import compare
from stepscope.compare.measured import measured
from stepscope.report import to_json
from stepscope.report.compose import judge
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.compare.measured import Measured
    from stepscope.serve.runs.opened import Opened


def measured_run(opened: Opened) -> bytes:
    """Write what a comparison needs of a whole run, for this process alone."""
    opened.working.stage("Comparing")
    return pickle.dumps(_measured(opened))


def compared(base: Opened, new: bytes, *, same_work: bool) -> bytes:
    """Write what changed, as `stepscope diff` does.

    Args:
        base: The run to compare with.
        new: What `measured_run` wrote of the other one.
        same_work: Whether somebody states that both do the same work.
    """
    base.working.stage("Comparing")
    after: Measured = pickle.loads(new)  # noqa: S301 - kept by the store, and by it alone
    found = compare(_measured(base), after, thresholds=THRESHOLDS, same_work=same_work)
    return to_json.render_comparison(found)


def _measured(opened: Opened) -> Measured:
    profile = opened.view(()).profile
    return measured(profile, judge(profile).findings)
