"""Every number that a verdict depends on, once, with its source and its meaning.

`derive`, `analysis` and `advice` all import it, so that a tool and a rule call a step
input-bound from the same share on.

Sources: "guide" is the TensorFlow GPU performance guide, "profiler guide" the guide of
its Profiler, "xprof" XProf 2.24.2, "hta" Holistic Trace Analysis, "tb" the PyTorch
plugin of TensorBoard, "traceml" TraceML, "tracelens" TraceLens, "PyTorch" a default of
that framework, "data sheets" the peak rates in `stepscope.hardware`; "ours" is a choice
of this project that recorded runs have to confirm.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One named number.

    Attributes:
        value: The number, in `unit`.
        unit: "percent", "ps", "bytes", "count" or "ratio".
        source: Where the number comes from.
        meaning: What it means when a measured value reaches the number.
    """

    value: float
    unit: str
    source: str
    meaning: str


def _of(value: float, unit: str, source: str, meaning: str) -> Threshold:
    return Threshold(value=value, unit=unit, source=source, meaning=meaning)


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults; `msgspec.structs.replace` makes a set with others."""

    input_warn: Threshold = _of(
        5, "percent", "xprof", "share of the step spent waiting for input: moderate"
    )
    input_critical: Threshold = _of(
        20, "percent", "xprof", "share of the step spent waiting for input: high"
    )
    slow_fetch: Threshold = _of(
        50_000_000, "ps", "profiler guide", "a fetch that found its buffer empty"
    )
    slow_fetch_steps: Threshold = _of(
        80, "percent", "ours", "steps with slow fetches that make it a habit"
    )
    launch_warn: Threshold = _of(
        3, "percent", "xprof", "share of the step spent waiting for launches: moderate"
    )
    launch_critical: Threshold = _of(
        15, "percent", "xprof", "share of the step spent waiting for launches: high"
    )
    slow_launch_call: Threshold = _of(
        50_000_000, "ps", "hta", "a launch call that keeps the host busy for long"
    )
    late_start: Threshold = _of(
        100_000_000, "ps", "hta", "a start long after its call, on an idle device"
    )
    amp_warn: Threshold = _of(
        50, "percent", "ours", "16-bit share of the work that could be 16-bit"
    )
    amp_eligible: Threshold = _of(
        10, "percent", "ours", "eligible share of device time worth a change"
    )
    amp_least: Threshold = _of(
        1, "percent", "ours", "share of the time that work in 32 bit is worth a change"
    )
    amp_info: Threshold = _of(
        10, "percent", "xprof", "16-bit share of all compute that is called low"
    )
    amp_unknown: Threshold = _of(
        30, "percent", "ours", "eligible time of unknown precision that hides a verdict"
    )
    amp_gain_low: Threshold = _of(
        1.3, "ratio", "ours", "speed-up of 32-bit work in 16 bit, at least"
    )
    amp_gain_high: Threshold = _of(
        3, "ratio", "guide", "speed-up of 32-bit work in 16 bit, at most"
    )
    amp_gain_tf32_low: Threshold = _of(
        1.1, "ratio", "ours", "speed-up of TF32 work in 16 bit, at least"
    )
    amp_gain_tf32_high: Threshold = _of(
        2, "ratio", "data sheets", "speed-up of TF32 work in 16 bit, at most"
    )
    tensor_core_generation: Threshold = _of(
        7, "ratio", "guide", "first compute capability with Tensor Cores"
    )
    arrival_warn: Threshold = _of(
        5, "percent", "ours", "share of the step waiting for a later worker: moderate"
    )
    arrival_critical: Threshold = _of(
        15, "percent", "ours", "share of the step waiting for a later worker: high"
    )
    same_worker: Threshold = _of(
        60, "percent", "ours", "steps in which one worker is the last"
    )
    balance_warn: Threshold = _of(
        10, "percent", "traceml", "work of one worker beyond the median: moderate"
    )
    balance_critical: Threshold = _of(
        20, "percent", "traceml", "work of one worker beyond the median: high"
    )
    alike_work: Threshold = _of(
        1.5, "ratio", "ours", "work of one worker over another's that is no copy of it"
    )
    turns_warn: Threshold = _of(
        40, "percent", "ours", "share of the devices that wait for their turn: moderate"
    )
    turns_critical: Threshold = _of(
        70, "percent", "ours", "share of the devices that wait for their turn: high"
    )
    stagger_warn: Threshold = _of(
        3, "percent", "ours", "share of the step between first and last start: moderate"
    )
    stagger_critical: Threshold = _of(
        8, "percent", "ours", "share of the step between first and last start: high"
    )
    clock_margin: Threshold = _of(
        3, "ratio", "ours", "how many times the doubt of the clocks a skew must be"
    )
    small_exchange: Threshold = _of(
        256 * 1024, "bytes", "ours", "an exchange that is mostly latency"
    )
    large_exchange: Threshold = _of(
        4 * 1024**2, "bytes", "ours", "an exchange that is mostly transfer"
    )
    calibrating_exchange: Threshold = _of(
        16 * 1024**2, "bytes", "ours", "an exchange that shows the rate of the link"
    )
    exchange_latency: Threshold = _of(
        20_000_000, "ps", "ours", "time of an exchange of nothing"
    )
    link_share: Threshold = _of(
        75, "percent", "ours", "part of a link's nominal rate that exchanges reach"
    )
    link_warn: Threshold = _of(
        70, "percent", "ours", "part of the expected rate that is reached: moderate"
    )
    link_critical: Threshold = _of(
        40, "percent", "ours", "part of the expected rate that is reached: low"
    )
    bucket_bytes: Threshold = _of(
        25 * 1024**2, "bytes", "PyTorch", "gradients that one exchange carries"
    )
    surplus_warn: Threshold = _of(
        1, "percent", "ours", "share of the step in needless exchanges: moderate"
    )
    surplus_critical: Threshold = _of(
        10, "percent", "ours", "share of the step in needless exchanges: high"
    )
    units_warn: Threshold = _of(
        5, "percent", "ours", "share of kernel time beside the matrix units: moderate"
    )
    units_critical: Threshold = _of(
        20, "percent", "ours", "share of kernel time beside the matrix units: high"
    )
    amp_in_use: Threshold = _of(
        10, "percent", "ours", "16-bit share of kernel time of a program that uses it"
    )
    cast_warn: Threshold = _of(
        5, "percent", "ours", "share of kernel time that changes types: moderate"
    )
    cast_critical: Threshold = _of(
        15, "percent", "ours", "share of kernel time that changes types: high"
    )
    doubles_warn: Threshold = _of(
        1, "percent", "ours", "share of kernel time in 64 bit"
    )
    idle_device: Threshold = _of(
        20, "percent", "ours", "idle share from which shorter kernels may gain nothing"
    )
    starved_device: Threshold = _of(
        50, "percent", "ours", "idle share of a device whose kernels are no matter"
    )
    fusable_warn: Threshold = _of(
        10, "percent", "ours", "share of kernel time in runs that fuse: moderate"
    )
    fusable_critical: Threshold = _of(
        30, "percent", "ours", "share of kernel time in runs that fuse: high"
    )
    reorder_warn: Threshold = _of(
        3, "percent", "ours", "share of kernel time that re-orders tensors: moderate"
    )
    reorder_critical: Threshold = _of(
        10, "percent", "ours", "share of kernel time that re-orders tensors: high"
    )
    hot_op: Threshold = _of(
        10, "percent", "ours", "share of kernel time of an op worth a look"
    )
    hot_critical: Threshold = _of(
        25, "percent", "ours", "share of kernel time of an op that dominates"
    )
    slow_op: Threshold = _of(
        30, "percent", "ours", "part of the device's limit that a slow op reaches"
    )
    measured_warn: Threshold = _of(
        5, "percent", "ours", "share of kernel time with a fault that counters show"
    )
    measured_critical: Threshold = _of(
        20, "percent", "ours", "share of kernel time with such a fault: high"
    )
    memory_bound_warn: Threshold = _of(
        30, "percent", "ours", "share of kernel time that the memory limits"
    )
    low_occupancy: Threshold = _of(
        50, "percent", "ours", "warps at work below which waits are not hidden"
    )
    wasted_sectors: Threshold = _of(
        25, "percent", "ours", "share of moved bytes that nobody asked for: much"
    )
    bank_conflicts: Threshold = _of(
        20, "percent", "ours", "passes of shared memory that conflicts add: many"
    )
    spilled_traffic: Threshold = _of(
        10, "percent", "ours", "share of a kernel's traffic that is local memory: much"
    )
    explained_share: Threshold = _of(
        60, "percent", "ours", "part of a finding's time that a narrower one explains"
    )
    smallest_effect: Threshold = _of(
        100_000_000, "ps", "ours", "time per step below which nothing is a finding"
    )
    between_warn: Threshold = _of(
        5, "percent", "ours", "share of the step idle between steps: moderate"
    )
    between_critical: Threshold = _of(
        20, "percent", "ours", "share of the step idle between steps: high"
    )
    callbacks_warn: Threshold = _of(
        2, "percent", "ours", "share of the step in the program's chores: moderate"
    )
    callbacks_critical: Threshold = _of(
        10, "percent", "ours", "share of the step in the program's chores: high"
    )
    readback_warn: Threshold = _of(
        1, "percent", "ours", "share of the step lost to waiting for results: moderate"
    )
    readback_critical: Threshold = _of(
        5, "percent", "ours", "share of the step lost to waiting for results: high"
    )
    output_warn: Threshold = _of(
        5, "percent", "xprof", "share of the step spent on output: moderate"
    )
    output_critical: Threshold = _of(
        20, "percent", "xprof", "share of the step spent on output: high"
    )
    collections_warn: Threshold = _of(
        1, "percent", "ours", "share of the step collecting garbage: moderate"
    )
    collections_critical: Threshold = _of(
        5, "percent", "ours", "share of the step collecting garbage: high"
    )
    exposed_warn: Threshold = _of(
        10, "percent", "tb", "share of the step in communication alone: moderate"
    )
    exposed_critical: Threshold = _of(
        30, "percent", "tb", "share of the step in communication alone: high"
    )
    host_work_warn: Threshold = _of(
        5, "percent", "ours", "share of the step that a device waits for host work"
    )
    host_work_critical: Threshold = _of(
        20, "percent", "ours", "share of the step that a device waits: high"
    )
    host_function: Threshold = _of(
        20, "percent", "ours", "share of the step in one function beside the ops"
    )
    queued_warn: Threshold = _of(
        5, "percent", "ours", "share of the step idle although work was launched"
    )
    profiler_warn: Threshold = _of(
        5, "percent", "ours", "share of the step that the recording itself took"
    )
    unexplained_warn: Threshold = _of(
        20, "percent", "ours", "share of the step that nobody can explain"
    )
    lost_warn: Threshold = _of(
        1, "percent", "ours", "share of the time that lost records may stand for"
    )
    lost_critical: Threshold = _of(
        5, "percent", "ours", "share of the time that hides every verdict"
    )
    clock_warn: Threshold = _of(
        5,
        "percent",
        "ours",
        "share of the time of which differing clocks hide what the device waits for",
    )
    clock_critical: Threshold = _of(
        20, "percent", "ours", "share of the time, so hidden, that hides every verdict"
    )
    without_launch: Threshold = _of(
        5, "percent", "ours", "device work of which no launch call was recorded"
    )
    idle_owner: Threshold = _of(
        20, "percent", "ours", "idle share that is said first where no rule finds it"
    )
    device_bound: Threshold = _of(
        80, "percent", "ours", "busy share of a step that its device bounds"
    )
    minor_gain: Threshold = _of(
        10, "percent", "ours", "gain below which a step stays bound by its device"
    )
    steps_share: Threshold = _of(
        60, "percent", "ours", "steps that must be hit to speak of every step"
    )
    outlier_warn: Threshold = _of(
        5, "percent", "ours", "time that slow steps take beyond a usual step"
    )
    outlier_ratio: Threshold = _of(
        1.2, "ratio", "ours", "length of a slow step, against the median"
    )
    outlier_steps: Threshold = _of(
        8, "count", "ours", "steps below which none is called slow"
    )
    periodic_warn: Threshold = _of(
        2, "percent", "ours", "time that every n-th step takes beyond the others"
    )
    periodic_critical: Threshold = _of(
        10, "percent", "ours", "time that every n-th step takes: high"
    )
    few_steps: Threshold = _of(
        3, "count", "ours", "judged steps below which nothing exceeds a warning"
    )
    many_steps: Threshold = _of(
        10, "count", "ours", "judged steps that carry a critical finding"
    )
    dominant: Threshold = _of(
        30, "percent", "ours", "share that is critical however few steps carry it"
    )
    dirty_compile: Threshold = _of(
        5, "percent", "ours", "compile time that makes a step no typical one"
    )
    medium_confidence: Threshold = _of(
        0.60, "ratio", "ours", "confidence from which inferred steps are used"
    )
    copy_warn: Threshold = _of(
        5, "percent", "tracelens", "share of the step in copies alone: moderate"
    )
    copy_critical: Threshold = _of(
        15, "percent", "ours", "share of the step in copies alone: high"
    )
    large_copy: Threshold = _of(
        1_048_576, "count", "ours", "bytes from which a copy shows the rate of its link"
    )
    small_copy: Threshold = _of(
        65_536, "count", "ours", "bytes below which a copy is mostly its start"
    )
    many_copies: Threshold = _of(
        50, "count", "ours", "small copies in a step that are worth putting together"
    )
    pinned_rate: Threshold = _of(
        6e9, "ratio", "ours", "bytes a second that copies from pinned memory exceed"
    )
    placed_warn: Threshold = _of(
        2, "percent", "ours", "share of the step that waits for an op on the host"
    )
    placed_critical: Threshold = _of(
        10,
        "percent",
        "ours",
        "share of the step that waits for an op on the host: high",
    )
    eager_warn: Threshold = _of(
        10, "percent", "xprof", "share of the ops' own time that runs outside graphs"
    )
    eager_ops: Threshold = _of(
        20, "count", "ours", "ops outside graphs in a step: not only its input and sums"
    )
    filled: Threshold = _of(
        75, "percent", "ours", "blocks by multiprocessors below which a kernel is small"
    )
    fill_warn: Threshold = _of(
        10, "percent", "ours", "share of the step in kernels with few blocks: moderate"
    )
    fill_critical: Threshold = _of(
        30, "percent", "ours", "share of the step in kernels with few blocks: high"
    )
    worth_compute: Threshold = _of(
        20, "percent", "ours", "share that a device computes at most: hardly used"
    )
    worth_giving: Threshold = _of(
        50, "percent", "ours", "share spent giving work to a device: more than it is"
    )
    worth_most: Threshold = _of(
        2_000_000_000, "ps", "ours", "computing in a step that a host cannot take over"
    )
    compiled_most: Threshold = _of(
        70, "percent", "ours", "compiled share of kernel time that leaves nothing to do"
    )
    compiled_few: Threshold = _of(
        30, "percent", "ours", "compiled share of kernel time that is little"
    )
    compiling_gain: Threshold = _of(
        10, "percent", "ours", "share of the step that a compiler may save: worth a try"
    )
    recompile_warn: Threshold = _of(
        2, "percent", "ours", "share of the step spent compiling again: moderate"
    )
    recompile_critical: Threshold = _of(
        10, "percent", "ours", "share of the step spent compiling again: high"
    )
    variable_shapes: Threshold = _of(
        3, "count", "ours", "steps that compile one function from which its shapes vary"
    )
    high_confidence: Threshold = _of(
        0.80, "ratio", "ours", "confidence from which inferred steps are not doubted"
    )
    outside_warn: Threshold = _of(
        1, "percent", "ours", "share of the time in which a batch is fetched in no step"
    )
    long_first_step: Threshold = _of(
        2, "ratio", "ours", "times a usual step's length that point at warm-up"
    )
    memory_warn: Threshold = _of(
        0.92, "ratio", "ours", "share of the capacity in use at the peak: nearly full"
    )
    memory_critical: Threshold = _of(
        0.97, "ratio", "ours", "share of the capacity in use at the peak: full"
    )
    fragmented: Threshold = _of(
        0.20, "ratio", "ours", "share of the free memory that is not in one piece"
    )
    worth_defragmenting: Threshold = _of(
        0.10, "ratio", "ours", "free share of the capacity from which its pieces matter"
    )
    leak_steps: Threshold = _of(
        9, "count", "ours", "steps from which on growth can be told from noise"
    )
    leak_growth: Threshold = _of(
        0.1, "percent", "ours", "share of the capacity that a step adds: a leak"
    )
    leak_soon: Threshold = _of(
        1000, "count", "ours", "steps to a full memory below which a leak is critical"
    )
    kept_steps: Threshold = _of(
        5, "count", "ours", "steps from which on a container is seen to grow in each"
    )
    kept_every: Threshold = _of(
        0.8, "ratio", "ours", "members that a container gains a step: it grows in each"
    )
    kept_full: Threshold = _of(
        100_000, "count", "ours", "steps to a full memory below which growth matters"
    )
    small_op_runs: Threshold = _of(
        50, "count", "ours", "runs per step from which an op is frequent"
    )
    small_op_latencies: Threshold = _of(
        2, "ratio", "ours", "launch latencies below which device work is brief"
    )
    small_op: Threshold = _of(
        20_000_000, "ps", "ours", "own time below which an op of the host is brief"
    )
    op_call: Threshold = _of(
        1_500_000, "ps", "ours", "own time of an op of the host that is its call"
    )
    small_kernel: Threshold = _of(
        10_000_000, "ps", "ours", "a brief kernel, where no launch latency is measured"
    )
    small_kernel_most: Threshold = _of(
        40_000_000, "ps", "guide", "twice its launch latency: no longer brief"
    )
    small_share: Threshold = _of(
        10, "percent", "ours", "share of the device's time in brief kernels"
    )
    small_launches: Threshold = _of(
        30, "percent", "ours", "share of the launches that are brief kernels"
    )
    small_info: Threshold = _of(
        20, "percent", "ours", "share in brief kernels worth a note without waiting"
    )
    worker_difference: Threshold = _of(
        0.005, "ratio", "ours", "share of the step below which workers are alike"
    )
    same_work: Threshold = _of(
        0.60, "ratio", "ours", "overlap of what two steps run: they do the same work"
    )
    same_shapes: Threshold = _of(
        0.95, "ratio", "ours", "overlap of the shapes of two steps: one batch size"
    )
    debugging_warn: Threshold = _of(
        1, "percent", "ours", "share of the step that prints and checks hold up"
    )
    debugging_critical: Threshold = _of(
        5, "percent", "xprof", "share of the step that prints and checks hold up: high"
    )
    blocking_kernel: Threshold = _of(
        50_000_000, "ps", "ours", "a kernel that its launch call does not outlast"
    )
    blocking_calls: Threshold = _of(
        90, "percent", "ours", "long kernels whose call waits for them: a debug setting"
    )
    anomaly_checks: Threshold = _of(
        2, "count", "ours", "gradients a step that are searched for anomalies"
    )
    blocking_samples: Threshold = _of(
        20, "count", "ours", "long kernels below which nothing is said of their calls"
    )
    scaling_warn: Threshold = _of(
        1, "percent", "ours", "share of the step idle for loss scaling: moderate"
    )
    scaling_critical: Threshold = _of(
        3, "percent", "ours", "share of the step idle for loss scaling: high"
    )
    contended_cores: Threshold = _of(
        70, "percent", "ours", "share of the cores busy with input: they are contended"
    )
    contended_pace: Threshold = _of(
        1.5, "ratio", "ours", "time between launches with busy cores, over without"
    )
    contended_samples: Threshold = _of(
        200, "count", "ours", "launches of either kind that their pace is taken from"
    )
    contended_chance: Threshold = _of(
        0.01, "ratio", "ours", "probability of such a difference by chance, at most"
    )
    batch_room: Threshold = _of(
        1.5, "ratio", "ours", "how much larger a batch must fit to be worth a try"
    )
    batch_fill: Threshold = _of(
        0.92, "ratio", "ours", "share of the memory that a larger batch may fill"
    )
    service_warn: Threshold = _of(
        90, "percent", "ours", "how busy the slowest stage of the input is: nearly full"
    )
    service_critical: Threshold = _of(
        100, "percent", "ours", "how busy the slowest stage of the input is: too slow"
    )
    moved_warn: Threshold = _of(
        5, "percent", "ours", "share of the step in copies among devices: moderate"
    )
    moved_critical: Threshold = _of(
        15, "percent", "ours", "share of the step in copies among devices: high"
    )
    in_turn: Threshold = _of(
        80, "percent", "ours", "part of the copies to devices that come one by one"
    )
    packing_warn: Threshold = _of(
        2, "percent", "ours", "share of the step in packing exchanges: moderate"
    )
    packing_critical: Threshold = _of(
        8, "percent", "ours", "share of the step in packing exchanges: high"
    )
    waiting_threads_warn: Threshold = _of(
        10, "percent", "ours", "share of the step that threads wait for a core"
    )
    waiting_threads_critical: Threshold = _of(
        30,
        "percent",
        "ours",
        "share of the step that threads wait for a core: high",
    )
    busy_cores: Threshold = _of(
        80, "percent", "ours", "use of all cores from which they have no room"
    )
    threads_of_a_core: Threshold = _of(
        1.25, "ratio", "ours", "threads by cores from which they are too many"
    )
    tried: Threshold = _of(
        0.50, "ratio", "ours", "part of an effect that is gone: its cause was changed"
    )


THRESHOLDS: Final = Thresholds()
