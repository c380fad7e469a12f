"""Collectives of each device: exposed time by kind, number, size and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.data_sheets import link_gb_per_s
from stepscope.derive.collectives.waits import matched_collectives
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Evidence, event_labels
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.step_windows.windows import typical_rows
from stepscope.derive.verdicts.effect_status import JudgedSteps
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData


class CommunicationSignals(Frozen, frozen=True):
    """Collectives of all devices.

    Attributes:
        count: `host:device` → number of collectives.
        exposed_ps: `host:device` → kind → time in which only collectives of this kind
            ran on the device, largest first.
        longest: `host:device` → the collectives with the longest exposed time.
    """

    count: dict[str, int]
    exposed_ps: dict[str, dict[str, int]]
    longest: dict[str, tuple[Evidence, ...]]


@of_run
def communication_signals(
    *,
    trace: OfHosts[TraceData],
    collectives: OfHosts[pl.DataFrame],
    collective_calls: OfHosts[pl.DataFrame],
) -> CommunicationSignals | Unavailable:
    """Sum the collectives of every device by kind."""
    signals = CommunicationSignals({}, {}, {})
    for host, of_host in known_hosts(collectives).items():
        by_size = of_host.sort("exposed_ps", "kind", descending=[True, False])
        for device in of_host["device"].unique().sort():
            label = f"{host}:{device}"
            sizes = by_size.filter(pl.col("device") == device)
            times = zip(sizes["kind"], sizes["exposed_ps"].to_list(), strict=True)
            signals.count[label] = int(sizes["count"].sum())
            signals.exposed_ps[label] = dict(times)
            signals.longest[label] = _longest_collectives(
                require_available(trace[host]), collective_calls[host], device
            )
    why = first_reason(collectives)
    return signals if signals.count or why is None else why


def _longest_collectives(
    trace: TraceData, calls: pl.DataFrame | Unavailable, device: int
) -> tuple[Evidence, ...]:
    activity = trace.table("device_activity")
    if isinstance(calls, Unavailable) or isinstance(activity, Unavailable):
        return ()
    exposed = (pl.col("device") == device) & (pl.col("exposed_ps") > 0)
    order = ["exposed_ps", "start_ps"]
    top = calls.filter(exposed).top_k(MAX_RANGES_SHOWN, by=order, reverse=[False, True])
    event = activity["event"].gather(top["activity"])
    labels = event_labels(trace, event.drop_nulls().to_list())
    return tuple(
        Evidence.of_range(
            *(trace.host, device, row["start_ps"], row["start_ps"] + row["dur_ps"]),
            track=track,
            op=name,
        )
        for event_row, row in zip(event, top.iter_rows(named=True), strict=True)
        for track, name in (labels.get(event_row, (None, row["kind"])),)
    )


_KIND: Final = "all-reduce"
_GIGA: Final = 1e9


class AllReduceSignals(JudgedSteps, frozen=True, kw_only=True):
    """The all-reduces of the judged device in its judged steps; times in ps.

    Attributes:
        label: The device, `host:device`.
        kinds: Kinds of all collectives of the device.
        exposed_ps: Time per step in which only an all-reduce ran.
        count: All-reduces per step.
        small: All-reduces per step below `small_exchange` bytes; None if unknown.
        bytes: Bytes of the all-reduces per step; None if any size is unknown.
        least_ps: Time of the large all-reduces per step, with each one's shortest
            duration on any worker, which excludes waiting for other workers.
        expected_ps: Time per step that the link needs for the large all-reduces; None
            if sizes, groups or the link's bandwidth are unknown.
        workers: Number of workers whose durations were compared for `least_ps`.
        gb_per_s: Expected bandwidth of the link, in 10^9 bytes per second.
        rate_source: "data sheet", or "recording" for the best recorded bandwidth.
        calls: The all-reduces of the judged device that were matched with other workers
            and have known bytes: `activity` (row of device_activity), `step`, `bytes`,
            `dur_ps`, `least_ps` (duration on the worker where it was shortest),
            `link_ps` (time that the link needs; null if its bandwidth is unknown).
    """

    label: str
    kinds: frozenset[str]
    exposed_ps: tuple[int, ...]
    count: float
    small: float | None
    bytes: float | None
    least_ps: float
    expected_ps: float | None
    workers: int
    gb_per_s: float | None
    rate_source: str | None
    calls: pl.DataFrame


@of_run
def exchange_signals(
    *,
    account_signals: AccountSignals,
    collective_calls: OfHosts[pl.DataFrame],
    devices: OfHosts[pl.DataFrame],
    windows: OfHosts[Windows],
) -> AllReduceSignals | Unavailable:
    """Describe the judged device's all-reduces, with the times of other workers."""
    judged = account_signals.judged()
    calls = collective_calls[judged.host]
    if isinstance(calls, Unavailable):
        return calls
    of_device = calls.filter(pl.col("device") == judged.device)
    rows = require_available(windows[judged.host]).rows
    steps = typical_rows(rows).select("step_row", "start_ps", "end_ps")
    reduces = steps.join(
        of_device.filter(pl.col("kind") == _KIND),
        on="step_row",
        how="left",
        maintain_order="left",
    )
    per_step = reduces.group_by("step_row", maintain_order=True).agg(
        pl.col("exposed_ps").sum(),
        pl.col("kind").count().alias("count"),
        pl.col("bytes").sum(),
        pl.col("bytes").null_count().alias("unsized") - pl.col("kind").null_count(),
        (pl.col("bytes") < THRESHOLDS.small_exchange.value).sum().alias("small"),
    )
    known = per_step["count"].sum() > 0 and per_step["unsized"].sum() == 0
    sums = per_step.select(pl.col("count", "small", "bytes").sum()).row(0)
    count, small, size = (float(total) / len(per_step) for total in sums)
    # All-reduces of all hosts, with their steps.
    all_reduces = pl.concat(
        host_calls.filter(pl.col("kind") == _KIND).with_columns(
            host=pl.lit(host), step=pl.when(pl.col("step_row") >= 0).then("step_row")
        )
        for host, host_calls in known_hosts(collective_calls).items()
    )
    large = _large_reduces(all_reduces)
    rate, source = _link_rate(devices, judged, large)
    return AllReduceSignals(
        label=judged.label,
        kinds=frozenset(of_device["kind"].unique().to_list()),
        step_source=judged.step_source,
        step_confidence=judged.step_confidence,
        window_ps=tuple((steps["end_ps"] - steps["start_ps"]).to_list()),
        exposed_ps=tuple(per_step["exposed_ps"].to_list()),
        count=count,
        small=small if known else None,
        bytes=size if known else None,
        least_ps=_mean_of_step(large, "least_ps"),
        expected_ps=None
        if rate is None or large["bus_bytes"].null_count() or not large.height
        else _mean_of_step(large, "bus_bytes") / (rate * _GIGA) * PS_PER_S
        + THRESHOLDS.exchange_latency.value * large.height / large["step"].n_unique(),
        workers=max(large["members"].to_list(), default=0),
        gb_per_s=rate,
        rate_source=source,
        calls=_matched_reduces(all_reduces, judged.label, rate),
    )


def _large_reduces(reduces: pl.DataFrame) -> pl.DataFrame:
    """Return one row per large all-reduce, with its shortest time on any worker."""
    matched = matched_collectives(
        reduces.filter(pl.col("bytes") >= THRESHOLDS.large_exchange.value)
    )
    own = pl.int_range(pl.len()) + len(matched)
    return (
        matched.filter(pl.col("step").is_not_null())
        .with_columns(
            one=pl.when(pl.col("instance") >= 0).then("instance").otherwise(own)
        )
        .group_by("one", maintain_order=True)
        .agg(
            pl.col("step").first(),
            pl.col("dur_ps").min().alias("least_ps"),
            pl.col("bus_bytes", "members").first(),
        )
    )


def _matched_reduces(
    reduces: pl.DataFrame, label: str, rate: float | None
) -> pl.DataFrame:
    """Return the matched all-reduces of one device, for `AllReduceSignals.calls`."""
    host, _, device = label.rpartition(":")
    link = pl.col("bus_bytes") / (rate * _GIGA) * PS_PER_S if rate else None
    return (
        matched_collectives(reduces)
        .filter((pl.col("instance") >= 0) & pl.col("bus_bytes").is_not_null())
        .with_columns(
            least_ps=pl.col("dur_ps").min().over("instance"),
            link_ps=pl.lit(None, pl.Float64) if link is None else link,
        )
        .filter((pl.col("host") == host) & (pl.col("device").cast(pl.String) == device))
        .select("activity", "step", "bytes", "dur_ps", "least_ps", "link_ps")
    )


def _link_rate(
    hosts: OfHosts[pl.DataFrame], judged: StepShares, large: pl.DataFrame
) -> tuple[float | None, str | None]:
    """Return the bandwidth of the link in 10^9 bytes/s, and its source."""
    devices = hosts[judged.host]
    if isinstance(devices, Unavailable):
        # For an unknown device, the recorded bandwidths are not used either: if all
        # collectives are slow, each would seem fast.
        return None, None
    if len(hosts) == 1:
        names = devices.filter(pl.col("device") == judged.device)["name"]
        sheet = link_gb_per_s(names[0] if len(names) else None)
        if sheet is not None:
            return sheet * THRESHOLDS.link_share.value / 100, "data sheet"
    rates = (
        large.filter(pl.col("bus_bytes") >= THRESHOLDS.calibrating_exchange.value)
        .select(pl.col("bus_bytes") / pl.col("least_ps"))
        .to_series()
    )
    if not len(rates.drop_nulls()):
        return None, None
    best = float(rates.drop_nulls().to_numpy().max())
    return best * PS_PER_S / _GIGA, "recording"


def _mean_of_step(large: pl.DataFrame, column: str) -> float:
    steps = large["step"].n_unique()
    return float(large[column].sum()) / steps if steps else 0.0
