"""The list of rules, in the order of the optimization guides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.rules.compilation import xla_off, xla_recompile
from stepscope.advice.rules.devices import (
    allreduce_arrival,
    allreduce_count,
    allreduce_pack,
    allreduce_time,
    comm_exposed,
    multi_balance,
    multi_batch,
    multi_copies,
    multi_input,
    multi_sequential,
    multi_stagger,
)
from stepscope.advice.rules.kernels import (
    fuse_runs,
    kernel_bound,
    kernel_coalescing,
    kernel_conflicts,
    kernel_occupancy,
    kernel_spills,
    layout_transpose,
    op_hot,
    tc_dims,
    tc_unused,
)
from stepscope.advice.rules.launches import (
    gpu_worth,
    kernel_fill,
    launch_delay,
    launch_eager,
    launch_small,
)
from stepscope.advice.rules.loading import input_bound, input_stage
from stepscope.advice.rules.placement import copy_exposed, place_host, place_override
from stepscope.advice.rules.precision import (
    amp_cast,
    amp_fallback,
    amp_scaling,
    amp_share,
    amp_softmax,
)
from stepscope.advice.rules.running import (
    cpu_threads,
    debug_print,
    mem_fragmentation,
    mem_leak,
    mem_oom,
    mem_peak,
    step_outlier,
    step_periodic,
)
from stepscope.advice.rules.trust import (
    capture_quality,
    capture_steps,
    capture_window,
    env_libs,
    recording_cost,
    score_card,
)
from stepscope.advice.rules.waiting import (
    gap_callbacks,
    gap_contention,
    gap_gc,
    gap_output,
    gap_readback,
    gaps_between,
    host_work,
)

if TYPE_CHECKING:
    from stepscope.advice.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    capture_quality.RULE,
    capture_steps.RULE,
    capture_window.RULE,
    recording_cost.RULE,
    env_libs.RULE,
    score_card.RULE,
    input_bound.RULE,
    input_stage.RULE,
    gaps_between.RULE,
    host_work.RULE,
    gap_contention.RULE,
    gap_callbacks.RULE,
    gap_readback.RULE,
    gap_output.RULE,
    gap_gc.RULE,
    launch_delay.RULE,
    launch_small.RULE,
    launch_eager.RULE,
    gpu_worth.RULE,
    kernel_fill.RULE,
    place_host.RULE,
    place_override.RULE,
    copy_exposed.RULE,
    tc_unused.RULE,
    tc_dims.RULE,
    fuse_runs.RULE,
    layout_transpose.RULE,
    op_hot.RULE,
    kernel_occupancy.RULE,
    kernel_coalescing.RULE,
    kernel_conflicts.RULE,
    kernel_spills.RULE,
    kernel_bound.RULE,
    amp_share.RULE,
    amp_fallback.RULE,
    amp_cast.RULE,
    amp_scaling.RULE,
    amp_softmax.RULE,
    xla_off.RULE,
    xla_recompile.RULE,
    multi_batch.RULE,
    allreduce_count.RULE,
    multi_input.RULE,
    multi_copies.RULE,
    multi_balance.RULE,
    multi_sequential.RULE,
    allreduce_time.RULE,
    allreduce_pack.RULE,
    comm_exposed.RULE,
    allreduce_arrival.RULE,
    multi_stagger.RULE,
    mem_peak.RULE,
    mem_fragmentation.RULE,
    mem_oom.RULE,
    mem_leak.RULE,
    step_outlier.RULE,
    step_periodic.RULE,
    debug_print.RULE,
    cpu_threads.RULE,
)
