"""The overview page with the step times, categories and shares of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.compat_tensorflow.steps import compat_steps
from stepscope.analysis.compat_tensorflow.summary import PRODUCER, compat_summary
from stepscope.analysis.overview_page.ops import Eager, Placement, placement_of
from stepscope.analysis.overview_page.page import page_of
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.derive.ops.placement import op_placement
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.overview_page import Options, OverviewPageResult
    from stepscope.derive.profile_data import ProfileData


_ANNOTATED: Final = [
    int(evidence)
    for evidence in (OpEvidence.HLO, OpEvidence.HLO_NAME, OpEvidence.ANNOTATION)
]


def compat_placement(
    profile: ProfileData, hosts: Sequence[str]
) -> tuple[Placement, Eager] | Unavailable:
    """Share op executions between the sides as TensorFlow counts them.

    It counts input pipeline ops as host ops, ops that launch device work on both
    sides, and on the device only what carries an annotation.
    """
    executions = device_executions = 0
    time = eager = device_time = device_eager = 0
    for host in hosts:
        on_host = profile.derived(host, host_ops)
        on_device = profile.derived(host, device_ops)
        placed = profile.derived(host, op_placement)
        if isinstance(on_host, Unavailable):
            return on_host
        if isinstance(on_device, Unavailable):
            return on_device
        if isinstance(placed, Unavailable):
            return placed
        annotated = on_device.rows.filter(pl.col("evidence").is_in(_ANNOTATED))
        executions += int(on_host.rows["occurrences"].sum())
        device_executions += int(annotated["occurrences"].sum())
        time += int(on_host.rows["self_ps"].sum())
        eager += int(on_host.rows["eager_self_ps"].sum())
        device_time += placed.device_self_ps or 0
        device_eager += placed.device_eager_self_ps or 0
    both = executions + device_executions
    placement = Placement(
        host_op_percent=100.0 * executions / both if both else None,
        device_op_percent=100.0 * device_executions / both if both else None,
        host_self_time_percent=None,
        device_self_time_percent=None,
        host_executions=executions,
        device_executions=device_executions,
        dataset_executions=None,
    )
    return placement, Eager(
        host_percent=100.0 * eager / time if time else None,
        device_percent=100.0 * device_eager / device_time if device_time else None,
    )


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
