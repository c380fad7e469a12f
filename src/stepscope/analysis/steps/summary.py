"""Means, shares and a list of steps for a page, from rows of steps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.statistics import (
    SINGLE_SAMPLE,
    Statistics,
    means_ms,
    percent_of,
    sample_statistics,
)
from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.steps.input_share import InputShare, share_of_rows
from stepscope.analysis.steps.measured_hosts import measured_any_device, measured_rows
from stepscope.analysis.steps.rows import (
    category_columns,
    present_categories,
    why_no_category,
    why_no_owner,
)
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.derive.step_windows.flags import LEFT_OUT
from stepscope.derive.verdicts.input_verdict import (
    HIGHLY,
    MODERATELY,
    NOT,
    UNKNOWN,
    InputVerdict,
    input_verdict,
)
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS, in_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.steps.chosen import Steps

_WHY: Final = package_reasons("steps")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one host; with several devices, means over the devices.

    Attributes:
        step: Number of the step; null for the whole profile.
        name: Name of the step; null for the whole profile.
        host: Host of the step.
        batches: Number of batches in the step; null if not recorded.
        start_ms: Start of the step's window, since the start of the profile.
        duration_ms: Length of the step's window, until the next step begins.
        device_step_time_ms: Time from the first to the last device activity of the
            step, on the device where it is longest; null without device activity.
        flags: Flags of the step's window.
        breakdown_ms: Category → time; the values add up to `duration_ms`.
        device_working_ms: Time of device work except input transfers; null if unknown.
        idle_input_ms: Time of waiting for input and transferring it; null if unknown.
            Includes idle time before a batch is copied, if no fetch was recorded.
        gap_ms: Time from the end of the step's marker and last device activity to the
            end of the window; null if unknown.
        device_busy_ms: Time of any device work, mean over devices; null if unknown.
        device_busy_least_ms: Time of work on the least busy device; null if unknown.
        device_busy_most_ms: Time of any work on the busiest device; null if unknown.
    """

    step: int | None
    name: str | None
    host: str
    batches: int | None = None
    start_ms: float
    duration_ms: float
    device_step_time_ms: float | None
    flags: tuple[str, ...] = ()
    breakdown_ms: dict[str, float]
    device_working_ms: float | None = None
    idle_input_ms: float | None = None
    gap_ms: float | None = None
    device_busy_ms: float | None = None
    device_busy_least_ms: float | None = None
    device_busy_most_ms: float | None = None


class AnyDevice(msgspec.Struct, frozen=True, kw_only=True):
    """Step time with each host's devices taken as one, which works if any works.

    Attributes:
        breakdown_ms: Category → mean time, with the devices of each host taken as one.
        device_execution_percent: Share of the step time in which any device of the host
            worked; null if unknown.
    """

    breakdown_ms: dict[str, float]
    device_execution_percent: float | None


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Means over rows (host, device, step); shares are ratios of sums.

    Attributes:
        step_count: Number of counted windows; 0 if there are no steps, so that the
            whole recording is the only window.
        row_count: Number of counted rows (host, device, step).
        left_out: Flag → number of complete windows that it excludes from all means:
            `unrecorded` (work in them was not recorded), `other_kind` (they do
            different work), `warm_up` (they used data buffered while the recording
            started, or are a first window that took far longer than any other).
        step_time_ms: Wall time of a step, until the next step begins.
        host_period_ms: Time between the starts of two steps on the host, which differs
            from the step time if the host runs ahead; null if unknown.
        batch_time_ms: Wall time of a batch; a step may run several batches
            (`steps_per_execution`). Null if unknown.
        device_step_time_ms: Time from the first to the last device activity of a step;
            null without device activity.
        breakdown_ms: Category → mean time; the values add up to the mean step time.
            Categories that could not be measured are left out.
        breakdown_std_ms: Category → sample standard deviation of its time.
        breakdown_percent: Category → share of the step time.
        breakdown_detail_ms: Cause of the time (owner) → mean time.
        overlapped_ms: Kind of device work → mean time hidden by other device work; not
            part of the breakdown.
        device_execution_percent: Share of step time with device work; null if unknown.
        kernel_launch_percent: Share of the step time in which a device waited for the
            host to launch work; null if unknown.
        input_percent: Share of the step time spent waiting for input and transferring
            it. If no batch fetch was recorded, idle time before the copy of a batch is
            included (which is `other` in `breakdown_percent`). Null if unknown.
        idle_percent: Share of step time in which a device was idle; null if unknown.
        any_device: Means with each host's devices taken as one; null without devices.
        bottleneck: What to work on: `host` (the input), `device`, `both` or `unknown`.
    """

    step_count: int = 0
    row_count: int = 0
    left_out: dict[str, int] = {}
    step_time_ms: Statistics = Statistics()
    host_period_ms: Statistics | None = None
    batch_time_ms: float | None = None
    device_step_time_ms: Statistics | None = None
    breakdown_ms: dict[str, float] = {}
    breakdown_std_ms: dict[str, float | None] = {}
    breakdown_percent: dict[str, float | None] = {}
    breakdown_detail_ms: dict[str, float] = {}
    overlapped_ms: dict[str, float] | None = None
    device_execution_percent: float | None = None
    kernel_launch_percent: float | None = None
    input_percent: float | None = None
    idle_percent: float | None = None
    any_device: AnyDevice | None = None
    bottleneck: str


class StepTimes(NamedTuple):
    """The steps of a run with their summary."""

    steps: tuple[Step, ...]
    summary: StepSummary
    missing: tuple[Missing, ...]


def step_list(run: ProfileData, host: HostSteps) -> tuple[Step, ...]:
    """Return every window of a host of a run, including an incomplete last one.

    The list is computed once for all tools that show steps.
    """
    return run.kept(_step_list, host)


def _step_list(_: ProfileData, host: HostSteps) -> tuple[Step, ...]:
    means = host.means
    categories = category_columns(means, host.missing)
    names = [column.removesuffix("_ps") for column in categories.columns]
    charged = (categories / PS_PER_MS).rows()
    return tuple(
        Step(
            step=row["step"],
            name=row["name"],
            host=host.host,
            batches=row["batches"],
            start_ms=row["start_ps"] / PS_PER_MS,
            duration_ms=row["window_ps"] / PS_PER_MS,
            device_step_time_ms=in_unit(row["device_step_time_ps"], PS_PER_MS),
            flags=tuple(row["flags"]),
            breakdown_ms=dict(zip(names, times, strict=True)),
            device_working_ms=in_unit(row["device_working_ps"], PS_PER_MS),
            idle_input_ms=None
            if "input" in host.missing
            else in_unit(row["idle_input_ps"], PS_PER_MS),
            gap_ms=in_unit(row["gap_ps"], PS_PER_MS),
            device_busy_ms=in_unit(row["device_busy_ps"], PS_PER_MS),
            device_busy_least_ms=in_unit(row["busy_least_ps"], PS_PER_MS),
            device_busy_most_ms=in_unit(row["busy_most_ps"], PS_PER_MS),
        )
        # This loop runs once per step, not per event: a page lists every step.
        for row, times in zip(means.iter_rows(named=True), charged, strict=True)
    )


def step_summary(
    run: ProfileData, hosts: Iterable[HostSteps], *, excluded_flags: Iterable[str] = ()
) -> tuple[StepSummary, tuple[Missing, ...]]:
    """Summarise the complete windows of the hosts, or all windows if none is complete.

    The summary is computed once for all tools that show it.
    """
    return run.kept(_step_summary, tuple(hosts), tuple(excluded_flags))


def judged_input(
    run: ProfileData, hosts: Iterable[HostSteps], excluded_flags: Sequence[str]
) -> InputVerdict:
    """Return the verdict on the input of some hosts by the rule `input.bound`.

    Args:
        hosts: Hosts that are judged together.
    """
    rows = {host.host: measured_rows(host, excluded_flags) for host in hosts}
    return input_verdict(run.select(rows), rows)


def input_share(
    run: ProfileData, host: HostSteps, excluded_flags: Sequence[str]
) -> InputShare:
    """Return the share of input in the time of a host."""
    rows = measured_rows(host, excluded_flags)
    unknown_ps = judged_input(run, [host], excluded_flags).unknown_ps
    return share_of_rows(rows, host.missing, unknown_ps=unknown_ps)


def _step_summary(
    run: ProfileData, hosts: tuple[HostSteps, ...], excluded: tuple[str, ...]
) -> tuple[StepSummary, tuple[Missing, ...]]:
    rows = pl.concat([measured_rows(host, excluded) for host in hosts])
    united = pl.concat([measured_any_device(host, excluded) for host in hosts])
    walls = rows.group_by("host", "window", maintain_order=True).agg(
        pl.col("window_ps", "host_period_ps", "batches").first(),
        pl.col("device_step_time_ps").max(),
    )
    missing = _left_out(hosts, rows)
    no_steps = [host.steps for host in hosts if not host.windows.has_steps]
    step_time, lacks = _step_time(walls["window_ps"], no_steps)
    why = why_no_owner(hosts)
    device_step_time, unknown = _known_statistics(
        walls["device_step_time_ps"], why.get("compute_32", _WHY["no_step_time"])
    )
    host_period, no_periods = _known_statistics(
        walls["host_period_ps"], _WHY["no_host_period"]
    )
    missing += [*lacks, *unknown, *no_periods]
    batch_time_ms = None
    if walls["batches"].null_count():
        missing.append(_WHY["no_batches"].missing_field("batch_time_ms"))
    elif len(walls):
        # A marker contains at least one batch, so the divisor is not zero.
        batch_ps = int(walls["window_ps"].sum()) / int(walls["batches"].sum())
        batch_time_ms = batch_ps / PS_PER_MS
    if any(host.rows["batches"].null_count() for host in hosts):
        missing.append(_WHY["no_batches"].missing_field("steps.batches"))
    total = int(rows["window_ps"].sum())
    categories = category_columns(rows, why)
    sums = {name: int(categories[name].sum()) for name in categories.columns}
    shares = {
        name.removesuffix("_ps"): percent_of(value, total)
        for name, value in sums.items()
    }
    busy = rows["device_busy_ps"]
    percent = None if busy.null_count() else percent_of(int(busy.sum()), total)
    if rows.height < 2:
        missing.append(SINGLE_SAMPLE.missing_field("breakdown_std_ms"))
    if not total:
        missing.append(_WHY["no_time_of_summary"].missing_field("breakdown_percent"))
    shared = InputShare.sum_shares([input_share(run, host, excluded) for host in hosts])
    input_percent = shared.percents()["input_percent"]
    if input_percent is None and shared.why_no_input is not None:
        missing.append(shared.why_no_input.missing_field("input_percent"))
    return StepSummary(
        step_count=0 if no_steps else walls.height,
        row_count=rows.height,
        left_out=_flag_counts(hosts, rows),
        step_time_ms=step_time,
        host_period_ms=host_period,
        batch_time_ms=batch_time_ms,
        device_step_time_ms=device_step_time,
        breakdown_ms=means_ms(categories),
        breakdown_std_ms=_std_ms(categories),
        breakdown_percent=shares,
        breakdown_detail_ms=means_ms(
            rows.select(f"{name}_ps" for name in present_categories(rows, why)[1])
        ),
        overlapped_ms=_overlapped_ms(hosts, rows),
        device_execution_percent=percent,
        kernel_launch_percent=shares.get("kernel_launch"),
        input_percent=input_percent,
        idle_percent=None if percent is None else 100.0 - percent,
        any_device=AnyDevice(
            breakdown_ms=means_ms(category_columns(united, why)),
            device_execution_percent=percent_of(
                int(united["device_busy_ps"].sum()), int(united["window_ps"].sum())
            ),
        )
        if percent is not None
        else None,
        bottleneck=bottleneck_side(judged_input(run, hosts, excluded).word),
    ), tuple(missing)


def _step_time(
    walls: pl.Series, no_steps: Sequence[Steps | Unavailable]
) -> tuple[Statistics, tuple[Missing, ...]]:
    """Return statistics of step times; none for a recording without steps."""
    for why in no_steps:
        if isinstance(why, Unavailable):
            return Statistics(), (why.missing_field("step_time_ms"),)
    return sample_statistics(walls, field="step_time_ms", scale=PS_PER_MS)


def _known_statistics(
    values: pl.Series, why: Unavailable
) -> tuple[Statistics | None, tuple[Missing, ...]]:
    """Return statistics of the known values of `…_ps` as `…_ms`; None if none."""
    field = f"{values.name.removesuffix('_ps')}_ms"
    known = values.drop_nulls()
    if len(known):
        return sample_statistics(known, field=field, scale=PS_PER_MS)
    return None, (why.missing_field(field),)


def _flag_counts(hosts: Sequence[HostSteps], counted: pl.DataFrame) -> dict[str, int]:
    """Return flag → number of complete windows that do not count and have the flag."""
    windows = pl.concat([host.rows for host in hosts]).filter(~pl.col("open_end"))
    left = windows.join(counted, on=["host", "window"], how="anti").unique(
        ["host", "window"]
    )
    # This loop runs once per window, not per event.
    counts = Counter(flag for flags in left["flags"].to_list() for flag in set(flags))
    return {flag: counts[flag] for flag in LEFT_OUT if counts[flag]}


#: Verdict on the input → what to work on (host input, device or both).
_SIDES: Final = {HIGHLY: "host", MODERATELY: "both", NOT: "device", UNKNOWN: "unknown"}


def bottleneck_side(verdict: str) -> str:
    """Return what to work on (input, device or both), from the verdict on the input.

    Definition: docs/tools/overview_page.md#other-fields.
    """
    return _SIDES[verdict]


def _left_out(hosts: Sequence[HostSteps], rows: pl.DataFrame) -> list[Missing]:
    """Return every category and cause that is left out, with its reason."""
    why = why_no_owner(hosts)
    categories, owners = present_categories(rows, why)
    entries = []
    for category in CATEGORIES:
        reason = why_no_category(category, why)
        if category not in categories and reason is not None:
            entries.append(reason.missing_field(f"breakdown_ms.{category}"))
    entries += [
        why[owner.name].missing_field(f"breakdown_detail_ms.{owner.name}")
        for owner in OWNERS
        if owner.name not in owners and owner.name in why
    ]
    no_launch = why_no_category("kernel_launch", why)
    if "kernel_launch" not in categories and no_launch is not None:
        entries.append(no_launch.missing_field("kernel_launch_percent"))
    if rows["device_busy_ps"].null_count() and "compute_32" in why:
        entries += map(why["compute_32"].missing_field, _OF_DEVICES)
    if rows["idle_input_ps"].null_count() or "input" in why:
        reason = next((why[name] for name in ("input", "copy_in") if name in why), None)
        entries += [reason.missing_field("steps.idle_input_ms")] if reason else []
    if rows["gap_ps"].null_count():
        entries.append(_WHY["no_end"].missing_field("steps.gap_ms"))
    return entries


#: Fields that are null without devices.
_OF_DEVICES: Final = (
    *("device_execution_percent", "idle_percent", "any_device", "overlapped_ms"),
    *("steps.device_working_ms", "steps.device_busy_ms", "steps.device_busy_least_ms"),
    *("steps.device_busy_most_ms", "steps.device_step_time_ms"),
)


def _std_ms(frame: pl.DataFrame) -> dict[str, float | None]:
    by_name: dict[str, float | None] = {}
    for name in frame.columns:
        values = frame[name].to_numpy()
        spread = None
        if len(values) > 1:
            equal = values.min() == values.max()
            spread = 0.0 if equal else float(np.std(values, ddof=1)) / PS_PER_MS
        by_name[name.removesuffix("_ps")] = spread
    return by_name


def _overlapped_ms(
    hosts: Sequence[HostSteps], rows: pl.DataFrame
) -> dict[str, float] | None:
    frames = [
        host.account.overlapped.with_columns(host=pl.lit(host.host))
        for host in hosts
        if host.account.overlapped is not None
    ]
    if not frames or len(frames) != len(hosts):
        return None
    counted = rows[["host", "window", "device"]]
    hidden = pl.concat(frames).join(counted, on=["host", "window", "device"])
    return means_ms(hidden.drop("host", "window", "device"))
