"""`MeasuredSteps`: the data of one run for comparisons, with times by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from stepscope.analysis.results.tool import host_tables
from stepscope.analysis.tools import analyse
from stepscope.compare.timing import run_times
from stepscope.compare.work import kernel_runs, measure_work
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.compare.timing import RunTimes
    from stepscope.compare.work import Work
    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Missing

_US_PER_MS: Final = PS_PER_MS / PS_PER_US
_NO_STEP_TIME: Final = Unavailable(
    code="NO_STEPS",
    reason="The time per step of these ops or kernels is not known.",
    remedy="Mark the steps of both programs.",
)


class OpKey(Frozen, frozen=True, eq=True):
    """An op, and whether it ran on the host or on a device."""

    name: str
    side: Literal["host", "device"]


class KernelKey(Frozen, frozen=True, eq=True):
    """A kernel and the op that launched it; None if the op was not recorded."""

    name: str
    op: str | None


class KernelTime(Frozen, frozen=True, eq=True):
    """Time of a kernel per step, in ms, and its executions per step."""

    ms: float
    runs: float


#: Op → self time per step, in ms.
OpTimes: TypeAlias = dict[OpKey, float]
KernelTimes: TypeAlias = dict[KernelKey, KernelTime]

_SIDES: Final[dict[str, Literal["host", "device"]]] = {
    "Host": "host",
    "Device": "device",
}


def op_times(profile: ProfileData) -> OpTimes | Unavailable:
    """Return the self time of each op per step, over all hosts and devices."""
    times = _step_ms_by_key(profile, "framework_op_stats", ("name", "host_or_device"))
    if isinstance(times, Unavailable):
        return times
    return {OpKey(name, _SIDES[side]): ms for (name, side), ms in times.items()}


def kernel_times(profile: ProfileData) -> KernelTimes | Unavailable:
    """Return time and executions of each kernel per step, over all hosts."""
    times = _step_ms_by_key(profile, "kernel_stats", ("kernel_name", "op_name"))
    if isinstance(times, Unavailable):
        return times
    runs = kernel_runs(profile)
    return {
        KernelKey(name, op or None): KernelTime(ms, runs.get((name, op or None), 0.0))
        for (name, op), ms in times.items()
    }


def _step_ms_by_key(
    profile: ProfileData, tool: str, keys: tuple[str, str]
) -> dict[tuple[str, str], float] | Unavailable:
    """Return ms per step by two key columns; unavailable if no step is known."""
    result = analyse(profile, tool, {})
    if isinstance(result, Unavailable):
        return result
    rows: pl.DataFrame = getattr(result, "rows")  # noqa: B009 - of tools by name
    missing: Sequence[Missing] = getattr(result, "missing", ())
    known = rows.filter(pl.col("per_step_us").is_not_null() & (pl.col(keys[0]) != ""))
    if len(rows) and not len(known):
        return next(
            (
                Unavailable(code=note.code, reason=note.reason, remedy=note.remedy)
                for note in missing
                if note.field.endswith("per_step_us")
            ),
            _NO_STEP_TIME,
        )
    named = known.with_columns(pl.col(keys[1]).fill_null(""))
    summed = named.group_by(keys).agg(pl.col("per_step_us").sum()).sort(keys)
    return {
        (name, second): time / _US_PER_MS for name, second, time in summed.iter_rows()
    }


class MeasuredSteps(Frozen, frozen=True):
    """One run; contains no tables, so that the profile can be closed.

    Attributes:
        run: Name of the run.
        hosts: Names of the run's hosts.
        start_unix_ns: Start of the recording, in ns since 1970; None if not recorded.
        findings: Findings of the rules on the run.
        work: Work of one step.
        times: Times of the steps, or why they are unknown.
        ops: Time of each op per step, or why it is unknown.
        kernels: Time of each kernel per step, or why it is unknown.
    """

    run: str
    hosts: tuple[str, ...]
    start_unix_ns: int | None
    findings: tuple[Finding, ...]
    work: Work
    times: RunTimes | Unavailable
    ops: OpTimes | Unavailable
    kernels: KernelTimes | Unavailable


def measure_run(profile: ProfileData, findings: tuple[Finding, ...]) -> MeasuredSteps:
    """Measure a run for comparisons."""
    environments = host_tables(profile, "environment")
    return MeasuredSteps(
        run=profile.run,
        hosts=profile.hosts,
        start_unix_ns=environments[0]["start_unix_ns"][0] if environments else None,
        findings=findings,
        work=measure_work(profile),
        times=run_times(profile),
        ops=op_times(profile),
        kernels=kernel_times(profile),
    )
