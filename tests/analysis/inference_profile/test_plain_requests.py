"""The whole result against plain Python over the requests of two hosts."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import pytest
from tests.support.traces import blueprint

from stepscope.analysis import inference_profile
from stepscope.analysis.inference_profile import InferenceProfileResult, Options
from stepscope.derive.inference_requests import (
    REQUEST_BUCKETS,
    RequestWaits,
    request_waits,
)


class Request(NamedTuple):
    """One request; times are in µs, `worked` is the time of its op."""

    host: str
    thread: str
    start: int
    dur: int
    size: int | None
    worked: int


def drawn_requests(seed: int, *, sized: bool) -> list[Request]:
    """By host and start; those of a thread follow each other."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    found = []
    for host in ("a", "b"):
        for thread in ("one", "two"):
            at = chance.randint(0, 20)
            for _ in range(chance.randint(6, 12)):
                dur = chance.choice([10, 20, 20, 40, 130])
                size = chance.choice([1, 4]) if sized or chance.random() < 0.7 else None
                worked = chance.randint(0, dur // 2)
                found.append(Request(host, thread, at, dur, size, worked))
                at += dur + chance.randint(1, 9)
    return sorted(found, key=lambda one: (one.host, one.start, one.thread))


def lines_of(requests: list[Request], host: str) -> list[blueprint.Line]:
    lines: list[blueprint.Line] = []
    for number, one in enumerate(requests):
        if one.host == host:
            stats: dict[str, Any] = {"request_id": number}
            if one.size is not None:
                stats["batch_size"] = one.size
            lines.append((one.thread, "serve", one.start, one.dur, stats))
            if one.worked:
                lines.append((one.thread, "x/MatMul:MatMul", one.start, one.worked))
    return lines


def result_of(requests: list[Request]) -> InferenceProfileResult:
    profile = blueprint.profile(
        *(blueprint.trace(lines_of(requests, host), host=host) for host in ("a", "b"))
    )
    result = inference_profile.analyse(profile, Options())
    assert isinstance(result, InferenceProfileResult)
    return result


def latency_of(durations: list[int]) -> dict[str, Any]:
    ordered = sorted(durations)

    def rank(share: float) -> float:
        return ordered[math.ceil(round(share * len(ordered), 6)) - 1] / 1000

    return {
        "mean": pytest.approx(mean(durations) / 1000),
        "std": pytest.approx(stdev(durations) / 1000) if len(ordered) > 1 else None,
        "min": ordered[0] / 1000,
        "p50": pytest.approx(median(ordered) / 1000),
        "p75": rank(0.75),
        "p90": rank(0.9),
        "p95": rank(0.95),
        "p99": rank(0.99),
        "p999": rank(0.999),
        "max": ordered[-1] / 1000,
    }


def as_dict(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def span_us(requests: list[Request]) -> int:
    first = min(one.start for one in requests)
    return max(one.start + one.dur for one in requests) - first


@pytest.mark.parametrize("seed", range(2))
def test_every_field_is_worked_out_from_the_requests(seed: int) -> None:
    requests = drawn_requests(seed, sized=seed % 2 == 0)
    result = result_of(requests)
    by_host = {host: [one for one in requests if one.host == host] for host in "ab"}
    assert result.request_count == len(requests)
    columns = ("host", "thread", "start_ms", "latency_ms", "batch_size", "request_id")
    assert result.requests.select(columns).rows() == [
        (
            *(one.host, one.thread, pytest.approx(one.start / 1000)),
            *(pytest.approx(one.dur / 1000), one.size, str(number)),
        )
        for number, one in enumerate(requests)
    ]
    durations = [one.dur for one in requests]
    assert as_dict(result.latency_ms) == latency_of(durations)
    sizes = sorted({one.size for one in requests if one.size is not None})
    assert [one.batch_size for one in result.by_batch_size] == sizes
    for size, found in zip(sizes, result.by_batch_size, strict=True):
        own = [one.dur for one in requests if one.size == size]
        assert found.requests == len(own)
        assert as_dict(found.latency_ms) == latency_of(own)
        assert found.per_item_ms == pytest.approx(mean(own) / 1000 / size)
    rates, items, busy = [], [], []
    for found_host, own in zip(result.by_host, by_host.values(), strict=True):
        assert (found_host.requests, found_host.threads) == (len(own), 2)
        assert as_dict(found_host.latency_ms) == latency_of([one.dur for one in own])
        rates.append(len(own) * 1e6 / span_us(own))
        busy.append(sum(one.dur for one in own) / span_us(own))
        items.append(sum(one.size or 0 for one in own) * 1e6 / span_us(own))
        assert found_host.throughput_per_s == pytest.approx(rates[-1])
        assert found_host.concurrency == pytest.approx(busy[-1])
    assert result.throughput_per_s == pytest.approx(sum(rates))
    assert result.concurrency == pytest.approx(mean(busy))
    known = all(one.size is not None for one in requests)
    assert result.items_per_s == (pytest.approx(sum(items)) if known else None)
    worked = [one.worked for one in requests]
    unexplained = sum(durations) - sum(worked)
    assert result.breakdown_detail_ms is not None
    detail = {name: ms for name, ms in result.breakdown_detail_ms.items() if ms}
    assert detail == {
        "host_compute": pytest.approx(mean(worked) / 1000),
        "unexplained": pytest.approx(unexplained / len(requests) / 1000),
    }
    assert result.breakdown_ms is not None
    assert {name: ms for name, ms in result.breakdown_ms.items() if ms} == {
        "host_compute": detail["host_compute"],
        "other": detail["unexplained"],
    }


@pytest.mark.parametrize("seed", range(2))
def test_slow_requests_are_compared_with_typical_ones_of_their_size(seed: int) -> None:
    requests = drawn_requests(seed, sized=seed % 2 == 0)
    slow = result_of(requests).slow
    assert slow is not None
    ordered = sorted(one.dur for one in requests)
    threshold = ordered[math.ceil(0.95 * len(ordered)) - 1]
    chosen = [one for one in requests if one.dur >= threshold]
    by_size: dict[int | None, list[Request]] = defaultdict(list)
    for one in requests:
        by_size[one.size].append(one)
    typical: dict[int | None, list[Request]] = {
        size: [one for one in own if one.dur <= median(other.dur for other in own)]
        for size, own in by_size.items()
    }

    def usual(one: Request, field: str) -> float:
        return mean(getattr(other, field) for other in typical[one.size])

    assert (slow.threshold_ms, slow.requests) == (threshold / 1000, len(chosen))
    assert slow.latency_ms == pytest.approx(mean(one.dur for one in chosen) / 1000)
    expected = mean(usual(one, "dur") for one in chosen)
    assert slow.typical_ms == pytest.approx(expected / 1000)
    worked = mean(one.worked - usual(one, "worked") for one in chosen)
    lasted = mean(one.dur - usual(one, "dur") for one in chosen)
    assert slow.excess_ms["host_compute"] == pytest.approx(worked / 1000)
    assert slow.excess_ms["unexplained"] == pytest.approx((lasted - worked) / 1000)
    assert slow.breakdown_ms["host_compute"] == pytest.approx(
        mean(one.worked for one in chosen) / 1000
    )
    more = "host_compute" if worked > lasted - worked else "unexplained"
    assert slow.waited_for == more


def served(
    *lines: blueprint.Line, devices: dict[int, Any] | None = None
) -> list[dict[str, int]]:
    profile = blueprint.profile(blueprint.trace(list(lines), devices=devices))
    waits = profile.derived("vm", request_waits)
    assert isinstance(waits, RequestWaits)
    return [
        {
            bucket.name: row[f"{bucket.name}_ps"] // 1_000_000
            for bucket in REQUEST_BUCKETS
            if row[f"{bucket.name}_ps"]
        }
        for row in waits.rows.to_dicts()
    ]


def test_device_work_is_of_the_request_in_which_it_was_launched() -> None:
    """Two threads, two requests each; a kernel that outlasts its request is cut."""
    lines: list[blueprint.Line] = []
    for number, (thread, start, begin, dur) in enumerate(
        (
            ("one", 0, 20, 30),
            ("two", 10, 60, 100),
            ("one", 100, 160, 20),
            ("two", 200, 230, 5),
        )
    ):
        ids = {"correlation_id": number + 1}
        lines += [
            (thread, "serve", start, 90, {"request_id": number}),
            (thread, "cuLaunchKernel", start + 5, 5, ids),
            (f"gpu:0/{7 + number % 2}(Compute)", "sgemm", begin, dur, ids),
        ]
    # Launched outside of any request.
    lines += [
        ("one", "cuLaunchKernel", 95, 2, {"correlation_id": 9}),
        ("gpu:0/7(Compute)", "sgemm", 100, 50, {"correlation_id": 9}),
    ]
    lines.sort(key=lambda line: (line[0], line[2]))
    assert served(*lines, devices={0: blueprint.A100}) == [
        {"compute_32": 30, "launch": 5, "unexplained": 55},
        {"compute_32": 40, "launch": 5, "unexplained": 45},
        {"compute_32": 20, "launch": 5, "unexplained": 65},
        {"compute_32": 5, "launch": 5, "unexplained": 80},
    ]
