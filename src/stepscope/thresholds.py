"""Every number on which a verdict depends, with its source and meaning.

`thresholds.json` has value, unit, source and meaning of each number. `derive`,
`analysis` and `advice` read it only here, so that all tools and rules use the same
share to call a step input-bound.

Sources: "guide" is the TensorFlow GPU performance guide, "profiler guide" the guide of
its Profiler, "xprof" XProf 2.24.2, "hta" Holistic Trace Analysis, "tb" the PyTorch
plugin of TensorBoard, "traceml" TraceML, "tracelens" TraceLens, "PyTorch" a default of
that framework, "data sheets" the peak rates in `stepscope.hardware`. "ours" is a number
that this project chose and that recorded runs still have to confirm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

_Unit: TypeAlias = Literal["percent", "ps", "bytes", "count", "ratio"]


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold.

    Attributes:
        value: The number, in `unit`.
        unit: Unit of the number.
        source: Source of the number.
        meaning: What it means if a measured value reaches the number.
    """

    value: float
    unit: _Unit
    source: str
    meaning: str


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The default thresholds; `msgspec.structs.replace` returns a changed copy."""

    input_warn: Threshold
    input_critical: Threshold
    slow_fetch: Threshold
    slow_fetch_steps: Threshold
    launch_warn: Threshold
    launch_critical: Threshold
    slow_launch_call: Threshold
    late_start: Threshold
    amp_warn: Threshold
    amp_eligible: Threshold
    amp_least: Threshold
    amp_info: Threshold
    amp_unknown: Threshold
    amp_gain_low: Threshold
    amp_gain_high: Threshold
    amp_gain_tf32_low: Threshold
    amp_gain_tf32_high: Threshold
    amp_gain_emulated_low: Threshold
    amp_gain_emulated_high: Threshold
    tensor_core_generation: Threshold
    arrival_warn: Threshold
    arrival_critical: Threshold
    same_worker: Threshold
    balance_warn: Threshold
    balance_critical: Threshold
    alike_work: Threshold
    turns_warn: Threshold
    turns_critical: Threshold
    stagger_warn: Threshold
    stagger_critical: Threshold
    clock_margin: Threshold
    small_exchange: Threshold
    large_exchange: Threshold
    calibrating_exchange: Threshold
    exchange_latency: Threshold
    link_share: Threshold
    link_warn: Threshold
    link_critical: Threshold
    bucket_bytes: Threshold
    surplus_warn: Threshold
    surplus_critical: Threshold
    units_warn: Threshold
    units_critical: Threshold
    amp_in_use: Threshold
    cast_warn: Threshold
    cast_critical: Threshold
    doubles_warn: Threshold
    starved_device: Threshold
    fusable_warn: Threshold
    fusable_critical: Threshold
    reorder_warn: Threshold
    reorder_critical: Threshold
    hot_op: Threshold
    hot_critical: Threshold
    slow_op: Threshold
    measured_warn: Threshold
    measured_critical: Threshold
    memory_bound_warn: Threshold
    low_occupancy: Threshold
    wasted_sectors: Threshold
    bank_conflicts: Threshold
    spilled_traffic: Threshold
    explained_share: Threshold
    smallest_effect: Threshold
    between_warn: Threshold
    between_critical: Threshold
    callbacks_warn: Threshold
    callbacks_critical: Threshold
    readback_warn: Threshold
    readback_critical: Threshold
    output_warn: Threshold
    output_critical: Threshold
    collections_warn: Threshold
    collections_critical: Threshold
    exposed_warn: Threshold
    exposed_critical: Threshold
    host_work_warn: Threshold
    host_work_critical: Threshold
    host_function: Threshold
    queued_warn: Threshold
    profiler_warn: Threshold
    unexplained_warn: Threshold
    lost_warn: Threshold
    lost_critical: Threshold
    clock_warn: Threshold
    clock_critical: Threshold
    without_launch: Threshold
    idle_owner: Threshold
    device_bound: Threshold
    minor_gain: Threshold
    steps_share: Threshold
    outlier_warn: Threshold
    outlier_ratio: Threshold
    outlier_steps: Threshold
    periodic_warn: Threshold
    periodic_critical: Threshold
    few_steps: Threshold
    many_steps: Threshold
    dominant: Threshold
    minor_steps: Threshold
    start_up_warn: Threshold
    dirty_compile: Threshold
    medium_confidence: Threshold
    copy_warn: Threshold
    copy_critical: Threshold
    large_copy: Threshold
    small_copy: Threshold
    many_copies: Threshold
    pinned_rate: Threshold
    placed_warn: Threshold
    placed_critical: Threshold
    eager_warn: Threshold
    eager_ops: Threshold
    filled: Threshold
    fill_warn: Threshold
    fill_critical: Threshold
    worth_compute: Threshold
    worth_giving: Threshold
    worth_most: Threshold
    compiled_most: Threshold
    compiled_few: Threshold
    compiling_gain: Threshold
    recompile_warn: Threshold
    recompile_critical: Threshold
    variable_shapes: Threshold
    high_confidence: Threshold
    outside_warn: Threshold
    long_first_step: Threshold
    memory_warn: Threshold
    memory_critical: Threshold
    buffer_share: Threshold
    others_share: Threshold
    fragmented: Threshold
    worth_defragmenting: Threshold
    leak_steps: Threshold
    leak_growth: Threshold
    leak_soon: Threshold
    kept_steps: Threshold
    kept_every: Threshold
    kept_full: Threshold
    small_op_runs: Threshold
    small_op_latencies: Threshold
    small_op: Threshold
    small_kernel: Threshold
    small_kernel_most: Threshold
    small_share: Threshold
    small_launches: Threshold
    small_info: Threshold
    worker_difference: Threshold
    same_work: Threshold
    same_shapes: Threshold
    debugging_warn: Threshold
    debugging_critical: Threshold
    blocking_kernel: Threshold
    blocking_calls: Threshold
    anomaly_checks: Threshold
    blocking_samples: Threshold
    scaling_warn: Threshold
    scaling_critical: Threshold
    contended_cores: Threshold
    contended_pace: Threshold
    contended_samples: Threshold
    contended_chance: Threshold
    batch_room: Threshold
    batch_fill: Threshold
    service_warn: Threshold
    service_critical: Threshold
    moved_warn: Threshold
    moved_critical: Threshold
    in_turn: Threshold
    packing_warn: Threshold
    packing_critical: Threshold
    waiting_threads_warn: Threshold
    waiting_threads_critical: Threshold
    busy_cores: Threshold
    busy_thread: Threshold
    threads_of_a_core: Threshold
    rare_every: Threshold
    run_spread: Threshold
    host_run_spread: Threshold
    shared_run_spread: Threshold
    warmer_rest: Threshold
    free_share: Threshold
    uncovered_stalls: Threshold
    tried: Threshold


rows = msgspec.json.decode(
    Path(__file__).with_name("thresholds.json").read_bytes(),
    type=dict[str, tuple[int | float, _Unit, str, str]],
)
THRESHOLDS: Final = Thresholds(
    **{
        name: Threshold(value=value, unit=unit, source=source, meaning=meaning)
        for name, (value, unit, source, meaning) in rows.items()
    }
)
