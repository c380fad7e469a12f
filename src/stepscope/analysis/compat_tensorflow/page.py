"""The overview page with the step times, categories and shares of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.analysis.compat_tensorflow.placement import compat_placement
from stepscope.analysis.compat_tensorflow.steps import compat_steps
from stepscope.analysis.compat_tensorflow.summary import PRODUCER, compat_summary
from stepscope.analysis.overview_page.ops import placement_of
from stepscope.analysis.overview_page.page import page_of
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.overview_page import Options, OverviewPageResult
    from stepscope.derive.profile_data import ProfileData


def overview_page(
    profile: ProfileData, options: Options
) -> OverviewPageResult | Unavailable:
    """Look at a run as `overview_page` does, with what TensorFlow said of its steps.

    The summaries of single hosts, the phases, and everything about ops except where
    they ran follow stepscope's own rules.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    steps = compat_steps(measured.run, measured.names)
    if isinstance(steps, Unavailable):
        return steps
    placed = placement_of(measured.run, measured.run.hosts)
    counted = compat_placement(measured.run, measured.names)
    if not isinstance(counted, Unavailable):
        placement, eager = counted
        placed = msgspec.structs.replace(placed, placement=placement, eager=eager)
    page = page_of(
        measured, options, times=compat_summary(steps), account=(), placed=placed
    )
    return msgspec.structs.replace(page, compat=PRODUCER)
