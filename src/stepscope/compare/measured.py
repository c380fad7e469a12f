"""`Measured`: one run, ready to be compared, without its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.compare.named_times import kernel_times, op_times
from stepscope.compare.timing import run_times
from stepscope.compare.work import work_of
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.compare.named_times import KernelTimes, OpTimes
    from stepscope.compare.timing import RunTimes
    from stepscope.compare.work import Work
    from stepscope.derive.profile_data import ProfileData


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


def measured(profile: ProfileData, findings: tuple[Finding, ...]) -> Measured:
    """Measure a run for comparisons."""
    return Measured(
        run=profile.run,
        hosts=profile.hosts,
        start_unix_ns=_start(profile),
        findings=findings,
        work=work_of(profile),
        times=run_times(profile),
        ops=op_times(profile),
        kernels=kernel_times(profile),
    )


def _start(profile: ProfileData) -> int | None:
    for host in profile.hosts:
        table = profile.table(host, "environment")
        if not isinstance(table, Unavailable):
            found: int | None = table["start_unix_ns"][0]
            return found
    return None
