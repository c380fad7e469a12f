"""The buckets of every window add up to it, and each instant goes where it should."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope as ss
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.phases.rules import PHASES
from stepscope.derive.phases.totals import phases
from stepscope.derive.step_time.breakdown import BUCKETS, Breakdown, breakdown
from stepscope.derive.step_time.device_sets import DEVICE_ORDERS, DeviceSets, OneDevice
from stepscope.derive.step_time.host_classes import HostClasses
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.step_windows.windows import Windows

#: Times are small so that an oracle can look at every instant.
END = 60
ON_HOST = ("input_wait", "compile", "launch", "host_compute", "sync", "python")
#: Bucket → the field of `HostClasses` that fills it.
OF_HOST = {
    "host_wait": "input_wait",
    "compile": "compile",
    "launch": "launch",
    "host_compute": "host_compute",
    "sync": "sync",
    "python": "python",
}
REASON = Unavailable(code="NOT_RECORDED", reason="made up", remedy="none")

pairs = st.lists(
    st.tuples(st.integers(0, END), st.integers(0, END)).map(
        lambda pair: (min(pair), max(pair))
    ),
    max_size=4,
)
edges = st.lists(st.integers(0, END), min_size=2, max_size=5, unique=True).map(sorted)


def instants(listed: list[tuple[int, int]]) -> set[int]:
    return {at for begin, end in listed for at in range(begin, end)}


def painted(
    window: tuple[int, int], sets: dict[str, set[int]]
) -> dict[str, int | None]:
    """Give each instant to the first bucket in order that has it."""
    counts = {bucket.name: 0 for bucket in BUCKETS}
    for at in range(*window):
        owner = next(
            (bucket.name for bucket in BUCKETS if at in sets.get(bucket.name, ())),
            "unattributed",
        )
        counts[owner] += 1
    return {
        name: count if name in sets or name == "unattributed" else None
        for name, count in counts.items()
    }


def windows_of(bounds: list[int]) -> Windows:
    rows = pl.DataFrame(
        {"start_ps": bounds[:-1], "end_ps": bounds[1:]},
        schema={"start_ps": pl.Int64, "end_ps": pl.Int64},
    ).with_columns(
        gap_start_ps=(pl.col("start_ps") + pl.col("end_ps")) // 2,
        gap_end_ps=pl.col("end_ps"),
    )
    return SimpleNamespace(rows=rows)  # type: ignore[return-value]


def host_of(sets: dict[str, list[tuple[int, int]]], absent: set[str]) -> HostClasses:
    values = {
        name: REASON if name in absent else Spans.of(listed)
        for name, listed in sets.items()
    }
    return HostClasses(**values, code=None, threads=None)  # type: ignore[arg-type]


def device_of(
    number: int,
    sets: dict[str, list[tuple[int, int]]],
    latency: list[tuple[int, int]],
    internal: list[tuple[int, int]],
) -> OneDevice:
    orders = {name: Spans.of(listed) for name, listed in sets.items()}
    covered, taken = {}, Spans.empty()
    for name in DEVICE_ORDERS:
        taken = Spans.union_of([taken, orders[name]])
        covered[name] = taken
    return OneDevice(
        device=number,
        orders=orders,
        unknown={},
        covered=covered,
        busy=taken,
        latency=Spans.of(latency),
        internal=Spans.of(internal) - taken,
    )


@given(
    bounds=edges,
    device=st.fixed_dictionaries(dict.fromkeys(DEVICE_ORDERS, pairs)),
    host=st.fixed_dictionaries(dict.fromkeys(ON_HOST, pairs)),
    absent=st.sets(st.sampled_from(("launch", "host_compute", "python"))),
    latency=pairs,
    internal=pairs,
)
def test_an_instant_is_charged_to_the_first_set_that_has_it(  # noqa: PLR0917
    bounds: list[int],
    device: dict[str, list[tuple[int, int]]],
    host: dict[str, list[tuple[int, int]]],
    absent: set[str],
    latency: list[tuple[int, int]],
    internal: list[tuple[int, int]],
) -> None:
    one = device_of(0, device, latency, internal)
    found = breakdown(
        windows=windows_of(bounds),
        device_sets=DeviceSets((one,), one),
        host_classes=host_of(host, absent),
    )
    found.self_check()
    for row, start, end in zip(
        found.rows.iter_rows(named=True), bounds, bounds[1:], strict=False
    ):
        sets = {name: instants(listed) for name, listed in device.items()}
        sets |= {
            bucket: instants(host[field])
            for bucket, field in OF_HOST.items()
            if field not in absent
        }
        if "launch" in sets:
            sets["launch"] |= instants(latency)
        sets["device_internal"] = instants(internal)
        sets["between_steps"] = set(range((start + end) // 2, end))
        expected = painted((start, end), sets)
        assert {name: row[f"{name}_ps"] for name in expected} == expected


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
def test_the_buckets_of_every_step_of_a_real_profile_add_up(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(name))
    for host in profile.hosts:
        found = profile.derived(host, breakdown)
        assert isinstance(found, Breakdown)
        found.self_check()
        assert found.rows["window_ps"].min() >= 0
        page = profile.select([host]).tool("overview_page")
        for step in page.steps:
            total = sum(step.breakdown_ms.values())
            assert total == pytest.approx(step.duration_ms, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("name", PROFILES)
def test_the_phases_of_every_step_add_up_to_its_work(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = ss.open(shared_profile(name))
    for host in profile.hosts:
        found = profile.derived(host, phases)
        if isinstance(found, Unavailable):
            assert found.reason
            continue
        rows = profile.derived(host, breakdown).rows
        work = ["device_compute_16_ps", "device_compute_32_ps"]
        if found.side == "host":
            work = ["host_compute_ps"]
        expected = rows.select(pl.sum_horizontal(work)).to_series().to_list()
        total = found.rows.select(pl.sum_horizontal(f"{name}_ps" for name in PHASES))
        assert total.to_series().to_list() == expected
