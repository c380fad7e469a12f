"""Of every recording: each marked step is judged, and holds no more than it worked."""

from __future__ import annotations

import numpy as np
from tests.conftest import DATA, recorded_runs

import stepscope as ss
from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.unavailable import Unavailable

#: Recording → why not all of its marked steps are judged.
REASONS = {
    "gpu/planted_kernels": "the profiler takes half of the first step",
    "tf_cpu/sequential_map": "the first batch was ready when the recording began",
    "nsys_ladder/baseline.sqlite.gz": "the batch is fetched between the marks",
    "nsys_ladder/4gpu_baseline.sqlite.gz": "records of launches were lost",
    "nsys_ladder/4gpu_bucketcap100mb.sqlite.gz": "records of launches were lost",
    "nsys_ladder/4gpu_nobroadcast.sqlite.gz": "records of launches were lost",
}
#: Clocks of microseconds round each kernel.
MAX_ROUNDING = 1.002

Shared = "Callable[[str], Path]"


def test_all_marked_steps_are_judged(recorded_run: str, shared_profile: Shared) -> None:
    profile = ss.open(shared_profile(recorded_run))
    for host in profile.hosts:
        marked, placed = profile.derived(host, steps), profile.derived(host, windows)
        if isinstance(marked, Unavailable) or marked.inferred:
            continue
        assert not isinstance(placed, Unavailable)
        if recorded_run.partition("/plugins/")[0] in REASONS:
            left_out = placed.rows["flags"].list.len().to_numpy()[~placed.typical]
            assert left_out.all(), "a step is left out without a flag"
        else:
            assert len(placed.measured) == len(marked.rows), placed.rows["flags"]


def test_a_reason_is_rare() -> None:
    own = list(recorded_runs(DATA))
    kept = [run for run in own if run.partition("/plugins/")[0] in REASONS]
    assert len(kept) <= 0.05 * len(own)


def test_kernels_of_a_step_last_no_longer_than_its_device_is_busy(
    recorded_run: str, shared_profile: Shared
) -> None:
    profile = ss.open(shared_profile(recorded_run))
    work = profile.of_run(kernel_work)
    if isinstance(work, Unavailable) or not work.has_steps:
        return
    judged = profile.of_run(account_signals).judged()
    step = profile.derived(judged.host, activity_steps)
    activity = profile.table(judged.host, "device_activity")
    assert not isinstance(step, Unavailable)
    kinds = [ACTIVITY_CODES["kernel"], ACTIVITY_CODES["collective"]]
    inside = (step >= 0) & np.isin(codes(activity, "kind"), kinds)
    inside &= handles(activity, "device") == judged.device
    start, dur = (ints(activity, name)[inside] for name in ("start_ps", "dur_ps"))
    order = np.argsort(start, kind="stable")
    # Kernels of several streams may run at once: their union is compared.
    kernels = Spans.from_events(start[order], dur[order])
    busy_ps = sum(judged.times(*BUSY_OWNERS)) / len(judged.window_ps)
    assert kernels.length_ps / work.steps <= MAX_ROUNDING * busy_ps
