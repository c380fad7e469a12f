"""The owners of every window add up to it, and no instant has two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.device.correlation import launch_latency
from stepscope.derive.phases import PHASES, phases
from stepscope.derive.step_time.device_sets import DeviceSets, device_sets
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

US = 1_000_000
#: Times are few so that an oracle can look at every microsecond.
END = 400
#: How long a launch may explain the wait for its kernel, and what it usually takes
#: where too few were seen to measure it.
CAP, LATENCY, SWITCH = 100, 20, 1


def check_instants(profile: Any, host: str, found: Account) -> None:
    """Sets of idle time are disjoint, and cover with the busy time all there is."""
    placed = profile.derived(host, windows).rows
    time_range = (int(placed["start_ps"].min()), int(placed["end_ps"].max()))
    sets = profile.derived(host, device_sets)
    busy = {None: 0}
    if isinstance(sets, DeviceSets):
        busy = {
            one.device: one.busy.clip(*time_range).length_ps for one in sets.devices
        }
    for device in found.devices:
        united = device.idle["unexplained"]
        for owner in IDLE_OWNERS[:-1]:
            spans = device.idle[owner]
            assert not len(united & spans), owner
            united |= spans
        assert united.length_ps + busy[device.device] == time_range[1] - time_range[0]


def check_parts(found: Account, parts: AccountParts, measured: list[int]) -> None:
    """The named parts of an owner add up to its time in the measured windows."""
    rows = found.rows.filter(pl.col("window").is_in(measured))
    for owner in IDLE_OWNERS:
        whole = rows[f"{owner}_ps"].sum()
        told = parts.rows.filter(pl.col("owner") == owner)["time_ps"].sum()
        if owner not in found.missing and owner != "unexplained":
            assert told == whole, owner


#: Launches: begin of the call, its length, how long its kernel waits after the call at
#: least, and the kernel's length.
calls = st.lists(
    st.tuples(
        st.integers(0, END - 120),
        st.integers(1, 12),
        st.integers(1, 150),
        st.integers(1, 60),
    ),
    min_size=1,
    max_size=6,
)


def scene(drawn: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Calls one after the other on one thread, kernels in their order on one stream.

    Returns:
        Begin and end of each call, begin and end of its kernel.
    """
    found = []
    free = device_free = 0
    for begin, length, wait, run in sorted(drawn):
        called = max(begin, free)
        free = called + length
        starts = max(free + wait, device_free)
        device_free = starts + run
        found.append((called, free, starts, device_free))
    return found


def painted(placed: list[tuple[int, int, int, int]], end: int) -> dict[str, int]:
    """Give each microsecond its owner by the written rules, one after the other."""
    counts: dict[str, int] = {}
    for at in range(end):
        owner = owner_at(at, placed)
        counts[owner] = counts.get(owner, 0) + 1
    return counts


def owner_at(at: int, placed: list[tuple[int, int, int, int]]) -> str:
    if any(starts <= at < ends for _, _, starts, ends in placed):
        return "compute_32"
    begin = max((ends for *_, ends in placed if ends <= at), default=0)
    later = [one for one in placed if one[2] > at]
    if later and min(one[2] for one in later) - begin <= SWITCH:
        return "switch"
    if later:
        called, returned, starts, _ = min(later, key=lambda one: one[2])
        if returned <= begin - LATENCY:
            return "queued"
        if at >= called:
            on_its_way = at < min(max(returned, begin) + CAP, starts)
            return "launch" if on_its_way else "queued"
        if any(one[1] <= at for one in later[1:]):
            return "queued"
    # Calls begin less than a millisecond apart: from the first to the end of the last
    # the thread is on its way to one.
    first, last = placed[0][0], max(one[1] for one in placed)
    return "launch" if first <= at < last else "unexplained"


@pytest.mark.slow(seconds=0.5)
@settings(deadline=None)
@given(drawn=calls)
def test_an_instant_has_the_owner_that_the_rules_give_it(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    placed = scene(drawn)
    lines: list[Any] = []
    for number, (called, returned, starts, ends) in enumerate(placed, start=1):
        ids = {"correlation_id": number}
        lines += [
            ("main", "cuLaunchKernel", called, returned - called, ids),
            ("gpu:0/7(Compute)", "sgemm", starts, ends - starts, ids),
        ]
    end = max(ends for *_, ends in placed) + 30
    lines.append(("main", "train", 0, end, {"_r": 1, "step_num": 0}))
    profile = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    facts = profile.derived("vm", launch_latency)
    assert not isinstance(facts, Unavailable)
    assert (facts.latency_ps, facts.switch_ps) == (LATENCY * US, SWITCH * US)
    found = profile.derived("vm", account)
    assert isinstance(found, Account)
    found.self_check()
    check_instants(profile, "vm", found)
    parts = profile.derived("vm", account_parts)
    assert isinstance(parts, AccountParts)
    check_parts(found, parts, [0])
    (row,) = found.rows.iter_rows(named=True)
    ours = {
        owner: row[f"{owner}_ps"] // US
        for owner in (*BUSY_OWNERS, *IDLE_OWNERS)
        if row[f"{owner}_ps"]
    }
    assert ours == painted(placed, end)


PROFILES = (
    "tf_cpu/keras_fit/train",
    "tf_cpu/healthy",
    "tf_cpu/input_bound",
    "tf_cpu/sequential_map",
    "tf_cpu/no_step_markers",
    "tf_cpu/xla",
    "tf_cpu/mirrored",
    "tf_cpu/two_workers",
    "tf_cpu/inference",
    "tf_cpu/tf215_python_tracer",
    "jax_cpu/steps",
    "jax_cpu/nosteps",
    "jax_cpu/annotations",
    "jax_cpu/python_tracer",
    "gpu_tf/t4_healthy",
    "gpu_tf/t4_starved",
    "gpu_tf/v100_large",
    "gpu_tf/turing_launch_bound",
    "gpu_tf/xprof_gpu_multi_worker",
    "gpu_jax_amd/jax08_gemm",
    "gpu_jax_amd/jax08_conv",
    "tpu/tpu_inference_2",
)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.sweep(every=4)
def test_the_owners_of_every_step_of_a_real_profile_add_up(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(name))
    for host in profile.hosts:
        found = profile.derived(host, account)
        assert isinstance(found, Account)
        found.self_check()
        assert found.rows["window_ps"].min() >= 0
        check_instants(profile, host, found)
        page = profile.select([host]).tool("overview_page")
        for step in page.steps:
            total = sum(step.breakdown_ms.values())
            assert total == pytest.approx(step.duration_ms, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.sweep(every=4)
def test_the_phases_of_every_step_add_up_to_its_work(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(name))
    for host in profile.hosts:
        found = profile.derived(host, phases)
        if isinstance(found, Unavailable):
            assert found.reason
            continue
        rows = profile.derived(host, account).rows
        work = [f"{name}_ps" for name in BUSY_OWNERS if name.startswith("compute_")]
        if found.side == "host":
            # Owners that come first may have a part of what ops did.
            last = IDLE_OWNERS.index("host_compute")
            work = [f"{name}_ps" for name in (*IDLE_OWNERS[: last + 1], "between")]
        whole = rows.select(pl.sum_horizontal(work)).to_series()
        told = found.rows.select(pl.sum_horizontal(f"{name}_ps" for name in PHASES))
        if found.side == "host":
            # Functions and ranges of the program are its work too, without a phase.
            assert (told.to_series() <= whole).all()
        else:
            assert told.to_series().to_list() == whole.to_list()
