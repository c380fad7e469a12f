"""In which step an instant lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def step_at(profile: ProfileData, host: str, time_ps: int) -> int | None:
    """Return the number of the step whose window holds an instant; None for none.

    Args:
        profile: The run.
        host: One of its hosts.
        time_ps: Since the start of the host's profile.
    """
    found = profile.derived(host, windows)
    stepped = profile.derived(host, steps)
    if isinstance(found, Unavailable) or isinstance(stepped, Unavailable):
        return None
    here = found.rows.filter(
        (pl.col("start_ps") <= time_ps) & (pl.col("end_ps") > time_ps)
    )
    if not len(here) or here["step_row"][0] is None:
        return None
    number: int | None = stepped.rows["step"][here["step_row"][0]]
    return number
