"""What ops and kernels take of a step, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from stepscope.analysis.tools import analyse
from stepscope.compare.work import kernel_runs
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    found = _by_name(profile, "framework_op_stats", ("name", "host_or_device"))
    if isinstance(found, Unavailable):
        return found
    return {OpKey(name, _SIDES[side]): ms for (name, side), ms in found.items()}


def kernel_times(profile: ProfileData) -> KernelTimes | Unavailable:
    """Return what each kernel takes of a step of all hosts and devices."""
    found = _by_name(profile, "kernel_stats", ("kernel_name", "op_name"))
    if isinstance(found, Unavailable):
        return found
    runs = kernel_runs(profile)
    return {
        KernelKey(name, op or None): KernelTime(ms, runs.get((name, op or None), 0.0))
        for (name, op), ms in found.items()
    }


def _by_name(
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
                Unavailable(code=one.code, reason=one.reason, remedy=one.remedy)
                for one in missing
                if one.field.endswith("per_step_us")
            ),
            _NO_STEP_TIME,
        )
    named = known.with_columns(pl.col(keys[1]).fill_null(""))
    summed = named.group_by(keys).agg(pl.col("per_step_us").sum()).sort(keys)
    return {(name, by): time / _US_PER_MS for name, by, time in summed.iter_rows()}
