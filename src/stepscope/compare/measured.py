"""`Measured`: one run, ready to be compared, with its times by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

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
    reason="The time of a step is not known for these names.",
    remedy="Mark the steps of both programs.",
)


class OpKey(Frozen, frozen=True, eq=True):
    """An op, on the host or on devices."""

    name: str
    side: Literal["host", "device"]


class KernelKey(Frozen, frozen=True, eq=True):
    """A kernel, and the op that launched it; None where that was not recorded."""

    name: str
    op: str | None


class KernelTime(Frozen, frozen=True, eq=True):
    """What a kernel takes of a step, in ms, and how often it runs in one."""

    ms: float
    runs: float


#: Op → ms of a step without the ops inside it.
OpTimes: TypeAlias = dict[OpKey, float]
KernelTimes: TypeAlias = dict[KernelKey, KernelTime]

_SIDES: Final[dict[str, Literal["host", "device"]]] = {
    "Host": "host",
    "Device": "device",
}


def op_times(profile: ProfileData) -> OpTimes | Unavailable:
    """Return what each op takes of a step of all hosts and devices."""
    times = _step_ms_by_key(profile, "framework_op_stats", ("name", "host_or_device"))
    if isinstance(times, Unavailable):
        return times
    return {OpKey(name, _SIDES[side]): ms for (name, side), ms in times.items()}


def kernel_times(profile: ProfileData) -> KernelTimes | Unavailable:
    """Return what each kernel takes of a step of all hosts and devices."""
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
    """Return ms of a step by two columns; unavailable where there is no such time."""
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


class Measured(Frozen, frozen=True):
    """One run; it holds no tables, so that the profile may be closed.

    Attributes:
        run: Name of the run.
        hosts: Names of its hosts.
        start_unix_ns: When its recording began; None where not recorded.
        findings: What the rules say of it.
        work: What a step does.
        times: How long its steps took; why that is not known.
        ops: What each op takes of a step; why that is not known.
        kernels: What each kernel takes of a step; why that is not known.
    """

    run: str
    hosts: tuple[str, ...]
    start_unix_ns: int | None
    findings: tuple[Finding, ...]
    work: Work
    times: RunTimes | Unavailable
    ops: OpTimes | Unavailable
    kernels: KernelTimes | Unavailable


def measure_run(profile: ProfileData, findings: tuple[Finding, ...]) -> Measured:
    """Measure a run for comparisons."""
    environments = (profile.table(host, "environment") for host in profile.hosts)
    starts = (
        table["start_unix_ns"][0]
        for table in environments
        if not isinstance(table, Unavailable)
    )
    return Measured(
        run=profile.run,
        hosts=profile.hosts,
        start_unix_ns=next(starts, None),
        findings=findings,
        work=measure_work(profile),
        times=run_times(profile),
        ops=op_times(profile),
        kernels=kernel_times(profile),
    )
