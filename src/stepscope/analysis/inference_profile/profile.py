"""`inference_profile`: latency of requests, and what slow requests waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.inference_profile.latency import (
    Latency,
    SlowRequests,
    bucket_columns,
    category_columns,
    describe_latency,
    left_out,
    nearest_rank,
    slow_requests,
)
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.statistics import SINGLE_SAMPLE, means_ms
from stepscope.analysis.results.tables import (
    declared_reasons,
    declared_rows,
    distinct_entries,
    missing_columns,
    package_reasons,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host, rows_read
from stepscope.derive.columns.arrays import ints
from stepscope.derive.inference_requests import request_waits, requests
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.analysis.options import InferenceProfileOptions
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("inference_profile")

REQUESTS: Final = tool_tables("inference_profile")["requests"]

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (requests,)

_SLOW_PER_MILLE: Final = 950

#: Column → code and remedy, for a column that has no value at all.
_REASONS: Final = declared_reasons(
    REQUESTS,
    {
        "batch_size": (
            "NOT_RECORDED",
            "Add the batch size to the annotation of each request: `batch_size=n`.",
        ),
        "request_id": (
            "NOT_RECORDED",
            "Add the id to the annotation around each request: `request_id=i`.",
        ),
    },
)


class BatchSize(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one batch size.

    Attributes:
        batch_size: Number of items in each of the requests.
        requests: Number of requests of this batch size.
        latency_ms: Latencies of the requests of this batch size.
        per_item_ms: Mean latency per item; null for empty batches.
    """

    batch_size: int
    requests: int
    latency_ms: Latency
    per_item_ms: float | None


class HostRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one host.

    Attributes:
        host: Name of the host.
        requests: Number of requests that the host served.
        threads: Number of threads that served the requests.
        latency_ms: Latencies of the host's requests.
        throughput_per_s: Requests per second, from the start of the host's first
            request to the end of its last one; null if the requests take no time.
        concurrency: Mean number of requests in service at a time; null if unknown.
    """

    host: str
    requests: int
    threads: int
    latency_ms: Latency
    throughput_per_s: float | None
    concurrency: float | None


class InferenceProfileResult(ToolResult, frozen=True, kw_only=True):
    """The requests of all selected hosts; `missing` explains nulls.

    Attributes:
        requests: One row per request, by host and start; in addition to the declared
            columns, `breakdown_ms` contains the time of the request by category.
        request_count: Number of requests.
        latency_ms: Latencies of all requests.
        by_batch_size: Latencies by batch size, for requests with a recorded batch size.
        throughput_per_s: Requests per second from the start of the first request to the
            end of the last one, summed over hosts; null if the requests take no time.
        items_per_s: Items in batches per second, from the start of the first request to
            the end of the last one; summed over hosts. Null if unknown.
        concurrency: Mean number of requests in service at a time, per host; null if the
            requests take no time.
        breakdown_ms: Category → mean time per request; the values add up to the mean
            latency. Categories that could not be measured are left out.
        breakdown_detail_ms: Bucket of a category → mean time per request.
        slow: Comparison of slow and typical requests; null for too few requests.
        by_host: Requests of each host.
        missing: Null fields and left-out categories with their reasons.
        inputs: Host → number of requests, threads and events that were read.
    """

    requests: Annotated[pl.DataFrame, REQUESTS]
    request_count: int
    latency_ms: Latency
    by_batch_size: tuple[BatchSize, ...]
    throughput_per_s: float | None
    items_per_s: float | None
    concurrency: float | None
    breakdown_ms: dict[str, float] | None
    breakdown_detail_ms: dict[str, float] | None
    slow: SlowRequests | None
    by_host: tuple[HostRequests, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int | None]]


def analyse(
    profile: ProfileData, options: InferenceProfileOptions
) -> InferenceProfileResult | Unavailable:
    """Compute the inference profile of all hosts of a run.

    Definition: docs/tools/inference_profile.md.
    """
    run = profile.select([options.host]) if options.host else profile
    by_host, absent = _requests_by_host(run, options.name)
    if not by_host:
        return next(iter(absent.values()))
    rows = pl.concat(by_host.values())
    buckets, missing = _request_buckets(run, by_host)
    missing += [why.missing_field(f"by_host[{host}]") for host, why in absent.items()]
    recorded, _ = derived_by_host(run, requests)
    lost = next(
        filter(None, (found.without_values for found in recorded.values())), None
    )
    reasons = dict.fromkeys(_REASONS, lost) if lost else _REASONS
    missing += missing_columns(rows, reasons, prefix="requests.")
    times = ints(rows, "dur_ps")
    sizes, no_spread = _by_batch_size(rows)
    hosts = []
    for host, host_rows in by_host.items():
        span = _span_ps(host_rows)
        hosts.append(
            HostRequests(
                host=host,
                requests=len(host_rows),
                threads=host_rows["track"].n_unique(),
                latency_ms=describe_latency(ints(host_rows, "dur_ps")),
                throughput_per_s=len(host_rows) * PS_PER_S / span if span else None,
                concurrency=int(host_rows["dur_ps"].sum()) / span if span else None,
            )
        )
    rates, no_rate = _request_rates(rows, hosts)
    if len(times) == 1:
        missing.append(SINGLE_SAMPLE.missing_field("latency_ms.std"))
    missing += [*no_spread, *no_rate]
    slow = None
    if len(times) > 1 and buckets is not None:
        threshold = nearest_rank(np.sort(times), _SLOW_PER_MILLE)
        slow = slow_requests(rows, buckets, threshold_ps=threshold)
    elif buckets is not None:
        missing.append(SINGLE_SAMPLE.missing_field("slow"))
    listed = declared_rows(rows.rename({"dur_ps": "latency_ps"}), REQUESTS)
    if buckets is not None:
        charged = category_columns(buckets) / PS_PER_MS
        listed = listed.with_columns(charged.to_struct("breakdown_ms"))
    return InferenceProfileResult(
        requests=listed,
        request_count=len(times),
        latency_ms=describe_latency(times),
        by_batch_size=sizes,
        **rates,
        breakdown_ms=None if buckets is None else means_ms(category_columns(buckets)),
        breakdown_detail_ms=None if buckets is None else means_ms(buckets),
        slow=slow,
        by_host=tuple(hosts),
        missing=distinct_entries(missing),
        inputs={
            host: rows_read(run, host)
            | {"requests": len(host_rows), "threads": host_rows["track"].n_unique()}
            for host, host_rows in by_host.items()
        },
    )


def _requests_by_host(
    run: ProfileData, name: str
) -> tuple[dict[str, pl.DataFrame], dict[str, Unavailable]]:
    by_host: dict[str, pl.DataFrame] = {}
    absent: dict[str, Unavailable] = {}
    for host in run.hosts:
        of_host = run.derived(host, requests)
        if isinstance(of_host, Unavailable):
            absent[host] = of_host
            continue
        tracks = run.table(host, "tracks")
        threads = pl.Series("thread", [None] * of_host.rows.height, dtype=pl.String)
        if not isinstance(tracks, Unavailable):
            threads = tracks["name"].gather(of_host.rows["track"]).alias("thread")
        rows = of_host.rows.with_columns(
            threads, host=pl.lit(host), at=pl.int_range(pl.len())
        )
        if name:
            rows = rows.filter(pl.col("name") == name)
        if len(rows):
            by_host[host] = rows
        else:
            absent[host] = Unavailable(
                code="NO_SAMPLES",
                reason=f"No request of this host is named {name!r}.",
                remedy="Omit the option `name` to see all requests.",
            )
    return by_host, absent


def _request_buckets(
    run: ProfileData, by_host: Mapping[str, pl.DataFrame]
) -> tuple[pl.DataFrame | None, list[Missing]]:
    """Return the time of every request by bucket, in the order of the requests."""
    frames: list[pl.DataFrame] = []
    why: dict[str, Unavailable] = {}
    for host, rows in by_host.items():
        waits = run.derived(host, request_waits)
        if isinstance(waits, Unavailable):
            return None, [waits.missing_field(field) for field in _OF_BUCKETS]
        frames.append(rows.select("dur_ps").hstack(waits.rows[rows["at"]]))
        why |= waits.missing
    buckets = bucket_columns(pl.concat(frames), why)
    return buckets, left_out(buckets, why)


_OF_BUCKETS: Final = (
    *("breakdown_ms", "breakdown_detail_ms", "slow"),
    "requests.breakdown_ms",
)


def _by_batch_size(rows: pl.DataFrame) -> tuple[tuple[BatchSize, ...], list[Missing]]:
    rows = rows.filter(pl.col("batch_size").is_not_null())
    if not len(rows):
        return (), [_REASONS["batch_size"].missing_field("by_batch_size")]
    batch_sizes = []
    for (size,), group in sorted(rows.partition_by("batch_size", as_dict=True).items()):
        latency = describe_latency(ints(group, "dur_ps"))
        batch_sizes.append(
            BatchSize(
                batch_size=size,
                requests=len(group),
                latency_ms=latency,
                per_item_ms=latency.mean / size if size else None,
            )
        )
    missing = [
        SINGLE_SAMPLE.missing_field(f"by_batch_size[{row.batch_size}].latency_ms.std")
        for row in batch_sizes
        if row.requests == 1
    ]
    return tuple(batch_sizes), missing


def _span_ps(rows: pl.DataFrame) -> int:
    start, dur = ints(rows, "start_ps"), ints(rows, "dur_ps")
    return int((start + dur).max()) - int(start.min())


def _request_rates(
    rows: pl.DataFrame, hosts: list[HostRequests]
) -> tuple[dict[str, float | None], list[Missing]]:
    """Return request rates over all hosts; the hosts need no common clock."""
    requests = [host.throughput_per_s for host in hosts if host.throughput_per_s]
    busy = [host.concurrency for host in hosts if host.concurrency is not None]
    if len(requests) < len(hosts):
        rates = dict.fromkeys(("throughput_per_s", "items_per_s", "concurrency"))
        return rates, [_WHY["no_span"].missing_field(field) for field in rates]
    items = None
    missing = []
    if rows["batch_size"].null_count():
        missing.append(_REASONS["batch_size"].missing_field("items_per_s"))
    else:
        items = sum(
            int(host_rows["batch_size"].sum()) * PS_PER_S / _span_ps(host_rows)
            for host_rows in rows.partition_by("host")
        )
    return {
        "throughput_per_s": sum(requests),
        "items_per_s": items,
        "concurrency": float(np.mean(busy)),
    }, missing
