"""The device side of the input analysis: shares of input, and missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.analysis.input_pipeline_analyzer.steps import (
    ConsumerWait,
    InputStep,
    consumer_wait,
    device_rows,
    input_steps,
)
from stepscope.analysis.results.statistics import Statistics, sample_statistics
from stepscope.analysis.results.tables import (
    missing_columns,
    missing_fields,
    package_reasons,
)
from stepscope.analysis.steps.input_share import InputShare
from stepscope.analysis.steps.rows import (
    NO_BATCH_REQUESTS,
    shows_batch_requests,
    why_no_owner,
)
from stepscope.analysis.steps.summary import input_share, judged_input, step_summary
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.verdicts.input_verdict import UNKNOWN, InputVerdict
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.steps.measured_hosts import MeasuredRun, StepMatching
    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.intervals.spans import Spans

_WHY: Final = package_reasons("input_pipeline_analyzer")


class DeviceSide(msgspec.Struct, frozen=True, kw_only=True):
    """Time of the steps lost to input; `InputPipelineResult` defines the fields.

    Attributes:
        shares: Host → its share of input; empty if another producer's rules are
            followed, which do not divide the share into parts.
        decided: Verdict on all hosts together; None with another producer's rules.
        decided_by_host: Host → verdict on this host alone.
    """

    verdict: str
    input_percent: float | None
    input_at_most_percent: float | None
    input_wait_percent: float | None = None
    input_transfer_percent: float | None = None
    step_time_ms: Statistics
    device_step_time_ms: Statistics | None
    input_percent_stats: Statistics
    steps: tuple[InputStep, ...]
    devices: pl.DataFrame
    consumer_wait: ConsumerWait | None = None
    shares: dict[str, InputShare] = {}
    missing: tuple[Missing, ...]
    decided: InputVerdict | None = None
    decided_by_host: dict[str, InputVerdict] = {}


def reasons_of_share(share: InputShare) -> dict[str, Unavailable]:
    """Return the reason for each part of a share that can be null."""
    why = share.why_no_input or _WHY["unsaid"]
    return {
        "input_percent": why,
        "input_at_most_percent": why,
        "input_wait_percent": share.why_no_wait or why,
        "input_transfer_percent": share.why_no_transfer or why,
    }


def device_side(measured: MeasuredRun, *, excluded_flags: Sequence[str]) -> DeviceSide:
    """Measure the input in the windows of all hosts by stepscope's own rules.

    Definition: docs/tools/input_pipeline_analyzer.md#device-side.
    """
    run, hosts, matching = measured.run, measured.hosts, measured.matching
    waits: dict[str, Spans | None] = {}
    for host in hosts:
        of_threads = run.derived(host.host, host_classes)
        waits[host.host] = None
        if not isinstance(of_threads, Unavailable) and "input" not in host.missing:
            waits[host.host] = of_threads.input_wait
    asking_hosts = {name for name in waits if shows_batch_requests(run, name)}
    shares = {host.host: input_share(run, host, excluded_flags) for host in hosts}
    decided = judged_input(run, hosts, excluded_flags)
    known = {
        name: spans
        for name, spans in waits.items()
        if spans is not None and shares[name].wait_ps is not None
    }
    # If a host's batch requests were not recorded, it may still have waited for them.
    batches = {name: spans for name, spans in known.items() if name in asking_hosts}
    steps = tuple(
        step
        for host in hosts
        if host.windows.has_steps
        for step in input_steps(
            run,
            host,
            excluded_flags=excluded_flags,
            waits=batches.get(host.host),
            wait_known=host.host in known,
        )
    )
    devices = pl.concat(
        device_rows(host, excluded_flags=excluded_flags, wait_known=host.host in known)
        for host in hosts
    )
    total = InputShare.sum_shares(shares.values())
    waiting, lacks = consumer_wait(
        [(host, batches[host.host]) for host in hosts if host.host in batches],
        excluded_flags=excluded_flags,
    )
    stats, no_spread = _step_shares(steps, total)
    summary, of_summary = step_summary(run, hosts, excluded_flags=excluded_flags)
    of_run: dict[str, Any] = {**dict.fromkeys(PERCENTS), "step_time_ms": Statistics()}
    of_run["device_step_time_ms"] = None
    if matching.in_lock_step:
        times = {name: getattr(summary, name) for name in STEP_TIMES}
        of_run = total.percents() | times
    missing = [
        *lacks,
        *no_spread,
        *_missing_columns(total, steps, devices, hosts),
        *_missing_of_run(total, matching, of_summary),
        _WHY["not_ours"].missing_field("compat_verdict"),
    ]
    if decided.word == UNKNOWN:
        why = decided.why or total.why_no_input or _WHY["unsaid"]
        missing.append(why.missing_field("verdict"))
    if waiting is None:
        no_wait = _WHY["unsaid"] if asking_hosts else NO_BATCH_REQUESTS
        missing.append((total.why_no_wait or no_wait).missing_field("consumer_wait"))
    return DeviceSide(
        verdict=decided.word,
        **of_run,
        input_percent_stats=stats,
        steps=steps,
        devices=devices,
        consumer_wait=waiting,
        shares=shares,
        missing=tuple(missing),
        decided=decided,
        decided_by_host={
            host.host: judged_input(run, [host], excluded_flags) for host in hosts
        },
    )


#: Result fields with the run's shares of input, and fields with its step times.
PERCENTS: Final = (
    "input_percent",
    "input_at_most_percent",
    "input_wait_percent",
    "input_transfer_percent",
)
STEP_TIMES: Final = ("step_time_ms", "device_step_time_ms")


def _missing_of_run(
    total: InputShare, matching: StepMatching, of_summary: Sequence[Missing]
) -> list[Missing]:
    missing = [
        entry for entry in of_summary if entry.field.startswith((*STEP_TIMES, "steps."))
    ]
    missing += [
        msgspec.structs.replace(entry, field=f"steps.{entry.field}")
        for entry in of_summary
        if entry.field.startswith("breakdown_ms.")
    ]
    if matching.in_lock_step:
        return missing_fields(total.percents(), reasons_of_share(total)) + missing
    return [
        *map(matching.why_no_means.missing_field, (*PERCENTS, *STEP_TIMES)),
        *(entry for entry in missing if not entry.field.startswith(STEP_TIMES)),
    ]


def _missing_columns(
    total: InputShare,
    steps: Sequence[InputStep],
    devices: pl.DataFrame,
    hosts: Sequence[HostSteps],
) -> list[Missing]:
    no_wait = total.why_no_wait or _WHY["unsaid"]
    no_transfer = total.why_no_transfer or _WHY["unsaid"]
    no_input = total.why_no_input or _WHY["unsaid"]
    of_steps = {
        "input_wait_ms": no_wait,
        "consumer_wait_ms": total.why_no_wait or NO_BATCH_REQUESTS,
        "input_transfer_ms": no_transfer,
        "input_ms": no_input,
        **{f"input_percent_{kind}": no_input for kind in _RANGE},
    }
    missing = [
        why.missing_field(f"steps.{field}")
        for field, why in of_steps.items()
        if steps and all(getattr(step, field) is None for step in steps)
    ]
    reasons = {
        "input_percent": no_input,
        "input_wait_percent": no_wait,
        "input_transfer_percent": no_transfer,
        "device": why_no_owner(hosts).get("compute_32", _WHY["unsaid"]),
    }
    return [*missing, *missing_columns(devices, reasons, prefix="devices.")]


_RANGE: Final = ("avg", "min", "max")


def _step_shares(
    steps: Sequence[InputStep], total: InputShare
) -> tuple[Statistics, tuple[Missing, ...]]:
    shares = [step.input_percent_avg for step in steps if step.counted]
    known = [share for share in shares if share is not None]
    if shares and not known:
        why = total.why_no_input or _WHY["unsaid"]
        return Statistics(), (why.missing_field("input_percent_stats"),)
    return sample_statistics(known, field="input_percent_stats")
