"""`inference_profile`: latencies, rates, and what slow requests waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.analysis import inference_profile
from stepscope.analysis.inference_profile import InferenceProfileResult
from stepscope.analysis.inference_profile.latency import (
    Latency,
    describe_latency,
    nearest_rank,
)
from stepscope.reporting.plain import plain
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def analysed(profile: ProfileData, **options: Any) -> InferenceProfileResult:
    result = inference_profile.analyse(profile, inference_profile.Options(**options))
    assert isinstance(result, InferenceProfileResult), result
    return result


def missing_of(result: InferenceProfileResult) -> dict[str, str]:
    return {one.field: one.code for one in result.missing}


def serve(
    start: float, dur: float, number: int = 1, size: int = 1, *, thread: str = "a"
) -> blueprint.Line:
    return (thread, "serve", start, dur, {"request_id": number, "batch_size": size})


def served(*lines: blueprint.Line, host: str = "vm") -> TraceData:
    return blueprint.trace(list(lines), host=host)


def ten_requests(host: str = "vm") -> TraceData:
    """Latencies 100, 200, … 1000 µs, back to back; sizes 1 and 2 in turn."""
    lines, start = [], 0
    for number in range(10):
        dur = 100 * (number + 1)
        lines.append(serve(start, dur, number, 1 + number % 2))
        start += dur
    return served(*lines, host=host)


def test_latencies_by_hand() -> None:
    result = analysed(blueprint.profile(ten_requests()))
    latency = result.latency_ms
    assert result.request_count == 10
    assert latency.mean == pytest.approx(0.55)
    assert latency.p50 == pytest.approx(0.55)  # between the fifth and the sixth
    ranks = (latency.p75, latency.p90, latency.p95, latency.p99, latency.p999)
    assert ranks == (0.8, 0.9, 1.0, 1.0, 1.0)
    assert (latency.min, latency.max) == (0.1, 1.0)
    # 100 µs squared times the variance of 1 … 10.
    assert latency.std == pytest.approx(0.1 * np.std(range(1, 11), ddof=1))


def test_latencies_by_batch_size() -> None:
    result = analysed(blueprint.profile(ten_requests()))
    small, large = result.by_batch_size
    assert (small.batch_size, small.requests, large.batch_size) == (1, 5, 2)
    assert small.latency_ms.mean == pytest.approx((1 + 3 + 5 + 7 + 9) / 50)
    assert large.latency_ms.mean == pytest.approx((2 + 4 + 6 + 8 + 10) / 50)
    assert large.per_item_ms == pytest.approx(0.3)
    assert small.latency_ms.p50 == 0.5
    assert large.latency_ms.p90 == 1.0


def test_rates_are_of_the_span_from_the_first_start_to_the_last_end() -> None:
    result = analysed(
        blueprint.profile(
            served(
                serve(1000, 500, size=3),
                serve(1200, 800, 2, size=5, thread="b"),
            )
        )
    )
    assert result.throughput_per_s == pytest.approx(2 / 1e-3)
    assert result.items_per_s == pytest.approx(8 / 1e-3)
    assert result.concurrency == pytest.approx(1.3)


def test_rows_hold_the_contract_fields_in_order_of_their_starts() -> None:
    result = analysed(
        blueprint.profile(served(serve(400, 5, 8, 4, thread="b"), serve(100, 20, 7, 2)))
    )
    columns = ("name", "start_ms", "latency_ms", "batch_size", "request_id", "thread")
    assert result.requests.columns[:4] == list(columns[:4])
    assert result.requests.select(columns).rows() == [
        ("serve", 0.1, 0.02, 2, "7", "a"),
        ("serve", 0.4, 0.005, 4, "8", "b"),
    ]


def slow_wait(number: int, extra: float) -> list[blueprint.Line]:
    begin = 1000 * number
    return [
        serve(begin, 100 + extra, number),
        ("a", "x/MatMul:MatMul", begin + 10, 80),
        ("a", "load_batch", begin + 95, extra),
    ]


def test_slow_requests_are_held_against_typical_ones_of_their_size() -> None:
    lines = [line for number in range(20) for line in slow_wait(number, 0)]
    result = analysed(
        blueprint.profile(
            served(*lines, *slow_wait(20, 400), serve(30_000, 700, 21, size=64))
        )
    )
    assert result.slow is not None
    # 22 requests: the 21st is at the 95th percentile.
    assert result.slow.threshold_ms == 0.5
    assert result.slow.requests == 2
    assert result.slow.latency_ms == pytest.approx(0.6)
    # The large batch is typical of its size, so only the wait is excess.
    assert result.slow.typical_ms == pytest.approx((0.1 + 0.7) / 2)
    assert result.slow.waited_for == "input"
    assert result.slow.excess_ms["input"] == pytest.approx(0.2)
    total = sum(result.slow.excess_ms.values())
    assert total == pytest.approx(result.slow.latency_ms - result.slow.typical_ms)


def test_categories_add_up_and_absent_devices_are_left_out() -> None:
    result = analysed(blueprint.profile(served(*slow_wait(0, 100), *slow_wait(1, 300))))
    assert result.breakdown_ms == pytest.approx(
        {"compilation": 0.0, "input": 0.2, "host_compute": 0.08, "other": 0.02}
    )
    assert sum(result.breakdown_ms.values()) == pytest.approx(result.latency_ms.mean)
    codes = missing_of(result)
    assert codes["breakdown_ms.device_compute_32"] == "NO_DEVICE_PLANE"
    assert codes["breakdown_ms.kernel_launch"] == "NO_DEVICE_PLANE"
    each = result.requests["breakdown_ms"].to_list()
    assert [row["input"] for row in each] == pytest.approx([0.1, 0.3])


def test_hosts_serve_side_by_side_and_a_pick_shows_its_own_numbers() -> None:
    traces = ten_requests("a"), served(serve(0, 2000), host="b")
    both = analysed(blueprint.profile(*traces))
    assert both.request_count == 11
    assert [one.host for one in both.by_host] == ["a", "b"]
    rates = [one.throughput_per_s for one in both.by_host]
    assert rates == pytest.approx([10 / 5.5e-3, 1 / 2e-3])
    assert both.throughput_per_s == pytest.approx(sum(rates))
    assert both.latency_ms.max == 2.0
    picked = analysed(blueprint.profile(*traces), host="a")
    assert plain(picked) == plain(analysed(blueprint.profile(traces[0])))


def test_requests_of_one_name_can_be_asked_for() -> None:
    trace = served(serve(0, 100), ("a", "other", 200, 50, {"request_id": 2}))
    result = analysed(blueprint.profile(trace), name="other")
    assert result.requests["name"].to_list() == ["other"]
    assert missing_of(result)["requests.batch_size"] == "NOT_RECORDED"
    assert result.by_batch_size == ()
    assert missing_of(result)["by_batch_size"] == "NOT_RECORDED"
    assert result.items_per_s is None
    assert missing_of(result)["slow"] == "SINGLE_SAMPLE"
    none = inference_profile.analyse(
        blueprint.profile(trace), inference_profile.Options(name="third")
    )
    assert isinstance(none, Unavailable)
    assert "third" in none.reason


def test_without_requests_it_says_how_to_announce_them() -> None:
    found = inference_profile.analyse(
        blueprint.profile(blueprint.a2()), inference_profile.Options()
    )
    assert isinstance(found, Unavailable)
    assert found.code == "NOT_RECORDED"
    assert "request_id=" in found.remedy
    assert "batch_size=" in found.remedy


def test_requests_without_length_have_no_rate() -> None:
    result = analysed(blueprint.profile(served(serve(0, 0))))
    assert result.throughput_per_s is None
    assert missing_of(result)["throughput_per_s"] == "ZERO_DENOMINATOR"
    assert missing_of(result)["latency_ms.std"] == "SINGLE_SAMPLE"


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=300),
    st.integers(1, 1000),
)
def test_nearest_rank_is_the_least_value_that_enough_do_not_exceed(
    values: list[int], per_mille: int
) -> None:
    found = nearest_rank(np.sort(np.array(values, np.int64)), per_mille)
    enough = [
        value
        for value in values
        if 1000 * sum(one <= value for one in values) >= per_mille * len(values)
    ]
    assert found == min(enough)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_percentiles_ascend(values: list[int]) -> None:
    latency = describe_latency(np.array(values, np.int64), scale=1.0)
    ranks = (latency.p75, latency.p90, latency.p95, latency.p99, latency.p999)
    assert (latency.min, *ranks, latency.max) == tuple(
        sorted((latency.min, *ranks, latency.max))
    )
    assert latency.min <= latency.p50 <= latency.max


def test_the_statistics_of_a_thousand_latencies() -> None:
    """500 and 2 to 1,000 µs, in ps, from the longest to the shortest."""
    values = np.arange(1000, 1, -1, dtype=np.int64)
    found = describe_latency(np.append(values, 500) * 10**6, scale=1e6)
    mean = (500_500 - 1 + 500) / 1000
    squares = 1000 * 1001 * 2001 // 6 - 1 + 500**2
    assert found == Latency(
        mean=pytest.approx(mean),
        std=pytest.approx(((squares - 1000 * mean**2) / 999) ** 0.5),
        min=2,
        # The 500th and the 501st value: 500 stands twice.
        p50=(500 + 501) / 2,
        p75=750,
        p90=900,
        p95=950,
        p99=990,
        p999=999,
        max=1000,
    )
    only = describe_latency(np.array([7]), scale=2)
    assert only == Latency(
        **dict.fromkeys(Latency.__struct_fields__, 3.5) | {"std": None}
    )
    equal = describe_latency(np.array([2**53 - 1] * 3), scale=1)
    assert equal.std == 0


# A real server.


def test_the_requests_of_a_real_server(shared_profile: Callable[[str], Path]) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/inference")))
    assert result.request_count == 120
    assert set(result.requests["name"]) == {"serve_request"}
    assert result.inputs["vm"]["threads"] == 3
    sizes = {one.batch_size: one.requests for one in result.by_batch_size}
    assert sizes == {1: 36, 2: 26, 4: 28, 8: 30}
    latency = result.latency_ms
    assert latency.mean == pytest.approx(1.788, abs=5e-4)
    assert latency.p50 == pytest.approx(1.698, abs=5e-4)
    assert latency.p95 == pytest.approx(3.13, rel=0.005)
    assert latency.max == pytest.approx(5.54, abs=5e-3)
    assert result.requests["request_id"].n_unique() == 120
    assert result.breakdown_ms is not None
    assert sum(result.breakdown_ms.values()) == pytest.approx(latency.mean)
    # Larger batches take longer, and each of their items less.
    per_item = [one.per_item_ms for one in result.by_batch_size]
    assert per_item == sorted(per_item, reverse=True)


def test_little_of_a_real_requests_time_is_unexplained(
    shared_profile: Callable[[str], Path],
) -> None:
    result = analysed(ss.open(shared_profile("tf_cpu/inference")))
    assert result.breakdown_detail_ms is not None
    unexplained = result.breakdown_detail_ms["unexplained"] / result.latency_ms.mean
    assert unexplained < 0.1
    assert result.breakdown_detail_ms["thread_queue"] > 0
    assert result.slow is not None
    assert result.slow.waited_for == "other_threads"


@pytest.mark.parametrize(
    "item", ["tf_cpu/healthy", "jax_cpu/annotations", "gpu_tf/t4_healthy"]
)
def test_training_is_no_inference(
    item: str, shared_profile: Callable[[str], Path]
) -> None:
    found = inference_profile.analyse(
        ss.open(shared_profile(item)), inference_profile.Options()
    )
    assert isinstance(found, Unavailable)
    assert found.code == "NOT_RECORDED"


# Each input taken away.


def check(whole: InferenceProfileResult, without: object) -> None:
    if isinstance(without, Unavailable):
        assert without.reason
        assert without.remedy
        return
    assert isinstance(without, InferenceProfileResult)
    assert without.latency_ms == whole.latency_ms
    named = " ".join(one.field for one in without.missing)
    for field in ("breakdown_ms", "slow", "items_per_s"):
        if getattr(without, field) is None and getattr(whole, field) is not None:
            assert field in named
    before, after = whole.breakdown_detail_ms or {}, without.breakdown_detail_ms or {}
    for bucket, time in before.items():
        if bucket not in after:
            assert bucket in named or "breakdown_detail_ms" in named
        elif time:
            assert after[bucket] != 0, bucket
    for column in ("batch_size", "request_id"):
        if without.requests[column].null_count():
            assert f"requests.{column}" in named


@pytest.fixture(scope="module")
def two_requests() -> ProfileData:
    trace = blueprint.trace(
        [
            ("a", "ServingModelRun", 0, 100, {"batch_size": 4, "request_id": 1}),
            ("a", "x/MatMul:MatMul", 40, 10),
            ("a", "cudaLaunchKernel", 10, 5, {"correlation_id": 1}),
            ("a", "cudaStreamSynchronize", 60, 30),
            ("gpu:0/7", "sgemm", 12, 20, {"correlation_id": 1}),
            ("a", "ServingModelRun", 200, 50, {"batch_size": 4, "request_id": 2}),
        ],
        devices={0: blueprint.A100},
    )
    return blueprint.profile(trace)


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=5)
def test_blueprint_without_a_table(two_requests: ProfileData, table: str) -> None:
    whole = analysed(two_requests)
    assert whole.breakdown_detail_ms is not None
    assert whole.breakdown_detail_ms["compute_32"] == 0.01
    without = two_requests.without(table, WHY)
    check(whole, inference_profile.analyse(without, inference_profile.Options()))


@pytest.fixture(scope="module")
def recorded(shared_profile: Callable[[str], Path]) -> ProfileData:
    return ss.open(shared_profile("tf_cpu/inference"))


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=5)
def test_real_profile_without_a_table(recorded: ProfileData, table: str) -> None:
    whole = analysed(recorded)
    without = recorded.without(table, WHY)
    check(whole, inference_profile.analyse(without, inference_profile.Options()))
