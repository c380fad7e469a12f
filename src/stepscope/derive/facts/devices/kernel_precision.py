"""Device time by precision, and time of kernels that could use a lower precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.account.topics import FINITE_CHECK
from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.device.activity_classes import overlap_factor
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernel_names import NARROW, is_plain_kernel, plain_name
from stepscope.derive.device.precision import PrecisionEvidence, is_opaque_type
from stepscope.derive.facts.evidence import (
    MAX_RANGES_SHOWN,
    CauseShare,
    Evidence,
    Fact,
    event_labels,
    indices_of_largest,
)
from stepscope.derive.facts.judged_steps import clean_rows
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.derive.verdicts.effect_status import step_basis
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.device.activity_classes import ActivityClasses, ClassTotals
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.precision import Precision, TensorCores
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: An op is named if it has at least this share of the 32-bit and TF32 time of all ops.
_MIN_NAMED_SHARE: Final = 0.01


class _Kernels(Frozen, frozen=True):
    """The compute kernels of one host, grouped into `activity_classes`.

    Attributes:
        code: Row of device_activity → its class.
        classes: Row of `activity_classes` by class; all arrays below are by class.
        type: Row of event_types.
        op: Row of the ops of `activity_ops`.
        narrow: Whether the kernels compute in 16 bit or narrower.
        tf32: Whether the kernels compute in TF32.
        known: Whether the precision is known.
        evidence: Evidence for the precision, a `PrecisionEvidence`.
        eligible: 1 if matrix units could run the kernels, 0 if not, -1 if unknown.
        plain: Whether the kernel's name shows that it computes no products.
    """

    host: str
    activity: pl.DataFrame
    code: Int32s
    class_count: int
    classes: Int64s
    type: Int32s
    op: Int32s
    device: Int32s
    count: Int64s
    total_ps: Int64s
    narrow: Bools
    tf32: Bools
    known: Bools
    evidence: UInt8s
    eligible: NDArray[np.int8]
    plain: Bools

    @property
    def wide(self) -> Bools:
        """Return by class whether its kernels are eligible and known to be wide."""
        wide: Bools = (self.eligible == 1) & ~self.narrow & self.known
        return wide

    @property
    def undecided(self) -> Bools:
        """Return, by class, whether its eligibility is unknown."""
        return (self.eligible < 0) & ~self.plain

    def group_times(self) -> dict[str, int]:
        """Return the time of each group of kernels that `PrecisionSignals` reports."""
        eligible = self.eligible == 1
        chosen = {
            "compute_ps": np.ones(len(self.classes), np.bool_),
            "narrow_ps": self.narrow,
            "eligible_ps": eligible,
            "eligible_narrow_ps": eligible & self.narrow,
            "eligible_tf32_ps": eligible & self.tf32 & self.known,
            "eligible_unknown_ps": eligible & ~self.known,
            "undecided_ps": self.undecided,
            "undecided_narrow_ps": self.undecided & (self.narrow | ~self.known),
            "undecided_16_ps": self.undecided & self.narrow,
            "undecided_with_op_ps": self.undecided & (self.op >= 0),
        }
        return {name: self.time(classes) for name, classes in chosen.items()}

    def time(self, chosen: Bools) -> int:
        """Return the time of the kernels of the chosen classes."""
        return int(self.total_ps[chosen].sum())

    def rows(self, chosen: Bools) -> Int64s:
        """Return the rows of device_activity that are in the chosen classes."""
        wanted = np.zeros(self.class_count, np.bool_)
        wanted[self.classes[chosen]] = True
        return wanted_rows(self.code, wanted)


class PrecisionSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of compute kernels by precision, over the whole profile.

    Kernels are eligible if matrix units for narrow types could run them. Times in ps.

    Attributes:
        narrow_ps: Time of compute kernels in 16 bit or narrower.
        eligible_narrow_ps: Time of eligible kernels in 16 bit or narrower.
        eligible_tf32_ps: Time of eligible kernels in TF32.
        eligible_unknown_ps: Time of eligible kernels of unknown precision.
        undecided_ps: Time of kernels for which it is unknown whether they are eligible.
        undecided_narrow_ps: Part of `undecided_ps` not known to be wider than 16 bit.
        undecided_16_ps: Part of `undecided_ps` known to be 16 bit or narrower.
        wide_per_step_ps: Time of eligible 32-bit kernels, without TF32, per step on the
            busiest device; null without steps.
        tf32_per_step_ps: Time of eligible TF32 kernels, as `wide_per_step_ps`.
        step_confidence: Confidence in the steps, 0 to 1; 0 without steps.
        step_ps: Mean length of a step on the busiest device; null without steps.
        steps: Number of judged steps in the means per step.
        narrow_kernels: Number of compute kernels in 16 bit or narrower.
        evidence_percent: Evidence for the precision → its share of the eligible time.
        largest: Eligible 32-bit and TF32 ops with their times in µs, largest first.
        causes: Ops of `largest` with their shares of step time; empty without steps.
        devices: `host:device` of each device with compute kernels.
        evidence: The longest eligible kernels in 32 bit or TF32.
    """

    compute_ps: int
    narrow_ps: int
    eligible_ps: int
    eligible_narrow_ps: int
    eligible_tf32_ps: int
    eligible_unknown_ps: int
    undecided_ps: int
    undecided_narrow_ps: int
    undecided_16_ps: int
    undecided_with_op_ps: int
    wide_per_step_ps: int | None = None
    tf32_per_step_ps: int | None = None
    step_confidence: float
    step_ps: int | None = None
    steps: int = 0
    kernels: int
    narrow_kernels: int
    evidence_percent: dict[str, float] = {}
    largest: tuple[Fact, ...] = ()
    causes: tuple[CauseShare, ...] = ()
    devices: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def narrow_kernels(
    *,
    trace: TraceData,
    device_activity: pl.DataFrame,
    event_types: pl.DataFrame,
    precision: Precision,
    tensor_cores: TensorCores,
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
) -> _Kernels:
    """Return the compute kernels of one host by class."""
    bits, _, tf32, evidence = precision.of_class.T
    computing = np.flatnonzero(bits > 0)
    type_, op, device = (
        handles(activity_classes.rows, name)[computing]
        for name in ("type", "op", "device")
    )
    plain = {
        row: is_plain_kernel(event_types["name"][row])
        for row in np.unique(type_).tolist()
    }
    return _Kernels(
        host=trace.host,
        activity=device_activity,
        code=activity_classes.code,
        class_count=len(activity_classes.rows),
        classes=computing,
        type=type_,
        op=op,
        device=device,
        count=class_totals.all.count[computing],
        total_ps=class_totals.all.total[computing],
        narrow=bits[computing] == NARROW.bits,
        tf32=tf32[computing].astype(np.bool_),
        known=evidence[computing] != PrecisionEvidence.DEFAULT,
        evidence=evidence[computing],
        eligible=tensor_cores.of_class[computing, 1],
        plain=np.array([plain[row] for row in type_.tolist()], np.bool_),
    )


@of_run
def precision_signals(
    *,
    trace: OfHosts[TraceData],
    narrow_kernels: OfHosts[_Kernels],
    account: OfHosts[Account],
    activity_ops: OfHosts[ActivityOps],
    steps: OfHosts[Steps],
    windows: OfHosts[Windows],
) -> PrecisionSignals | Unavailable:
    """Sum the kernels of all hosts; times per step are those of the busiest device."""
    hosts = [each for each in known_hosts(narrow_kernels).values() if each.count.any()]
    if not hosts:
        return first_reason(narrow_kernels) or NO_KERNELS
    busiest = max(hosts, key=lambda each: int(each.total_ps.sum()))
    host = busiest.host
    of_host = require_available(trace[host])
    means = _means_of_steps(busiest, account[host], windows[host])
    ops = _largest_ops(of_host, busiest, activity_ops[host])
    shares = [each.group_times() for each in hosts]
    totals = {name: sum(times[name] for times in shares) for name in shares[0]}
    return PrecisionSignals(
        **totals,
        **means,
        step_confidence=step_basis(steps[host])[1],
        kernels=sum(int(each.count.sum()) for each in hosts),
        narrow_kernels=sum(int(each.count[each.narrow].sum()) for each in hosts),
        evidence_percent={
            kind.name.lower(): 100 * time / totals["eligible_ps"]
            for kind in PrecisionEvidence
            if (
                time := sum(
                    each.time((each.eligible == 1) & (each.evidence == kind))
                    for each in hosts
                )
            )
        },
        largest=ops,
        causes=_cause_shares(busiest, ops, means),
        devices=tuple(
            f"{each.host}:{number}"
            for each in hosts
            for number in np.unique(each.device)
        ),
        evidence=_longest_ranges(of_host, busiest),
    )


def _means_of_steps(
    kernels: _Kernels, accounted: Account | Unavailable, windows: Windows | Unavailable
) -> dict[str, int]:
    """Return the fields that are means over judged steps; none if steps are unknown."""
    if isinstance(windows, Unavailable) or isinstance(accounted, Unavailable):
        return {}
    if not windows.has_steps:
        return {}
    device = int(np.bincount(kernels.device, weights=kernels.total_ps).argmax())
    rows = clean_rows(accounted.rows.filter(pl.col("device") == device), windows)
    if not len(rows):
        return {}
    wide = kernels.wide & (kernels.device == device)
    activity = kernels.activity
    start_ps, dur_ps = ints(activity, "start_ps"), ints(activity, "dur_ps")
    factor = overlap_factor(activity, device)
    # The last entry is for activities outside all windows.
    clean = np.zeros(len(windows.rows) + 1, np.bool_)
    clean[rows["window"].to_numpy()] = True

    def mean_ps(chosen: Bools) -> int:
        kernel_rows = kernels.rows(chosen)
        inside = clean[windows_of_times(windows.rows, start_ps[kernel_rows])]
        return int(factor * int(dur_ps[kernel_rows[inside]].sum())) // len(rows)

    return {
        "wide_per_step_ps": mean_ps(wide & ~kernels.tf32),
        "tf32_per_step_ps": mean_ps(wide & kernels.tf32),
        "step_ps": int(ints(rows, "window_ps").sum()) // len(rows),
        "steps": len(rows),
    }


def _largest_ops(
    trace: TraceData, kernels: _Kernels, named: ActivityOps | Unavailable
) -> tuple[Fact, ...]:
    """Return the ops with most eligible time in 32 bit or TF32."""
    types = trace.table("event_types")
    if isinstance(named, Unavailable) or isinstance(types, Unavailable):
        return ()
    # If the op is unknown or encloses other ops, the kernel's name is reported instead.
    silent = [
        evidence == OpEvidence.NONE or is_opaque_type(op_type or name)
        for evidence, op_type, name in named.ops[
            ["evidence", "type", "name"]
        ].iter_rows()
    ]
    op, type_ = kernels.op[kernels.wide], kernels.type[kernels.wide]
    kernel = {row: plain_name(types["name"][row]) for row in np.unique(type_).tolist()}
    time = pl.DataFrame(
        {
            "op": named.ops["name"][op],
            "kernel": pl.Series(
                [kernel[row] for row in type_.tolist()], dtype=pl.String
            ),
            "silent": pl.Series(silent, dtype=pl.Boolean)[op],
            "ps": kernels.total_ps[kernels.wide],
        }
    ).select(pl.when("silent").then("kernel").otherwise("op").alias("name"), "ps")
    top = time.group_by("name").sum().sort("ps", "name", descending=[True, False])
    return tuple(
        Fact(name="largest_op", value=ps / PS_PER_US, unit="us", note=name)
        for name, ps in top.head(MAX_RANGES_SHOWN).iter_rows()
    )


def _cause_shares(
    kernels: _Kernels, ops: tuple[Fact, ...], means: dict[str, int]
) -> tuple[CauseShare, ...]:
    """Return the ops with most time, and their shares of step time."""
    wide_ps = kernels.time(kernels.wide)
    if not means or not wide_ps or not means["step_ps"]:
        return ()
    eligible_ps = means["wide_per_step_ps"] + means["tf32_per_step_ps"]
    percent = 100 * eligible_ps / means["step_ps"]
    shares = [
        (fact.note or "", (fact.value or 0.0) * PS_PER_US / wide_ps) for fact in ops
    ]
    return tuple(
        CauseShare(cause=name, share_percent=percent * share)
        for name, share in shares
        if share >= _MIN_NAMED_SHARE
    )


def _longest_ranges(trace: TraceData, kernels: _Kernels) -> tuple[Evidence, ...]:
    activity = kernels.activity
    wide = kernels.rows(kernels.wide)
    ranges = []
    for kernel_row in wide[indices_of_largest(ints(activity, "dur_ps")[wide])].tolist():
        row = activity.row(kernel_row, named=True)
        track = name = None
        if row["event"] is not None:
            track, name = event_labels(trace, [row["event"]])[row["event"]]
        start, end = row["start_ps"], row["start_ps"] + row["dur_ps"]
        ranges.append(
            Evidence.of_range(
                *(kernels.host, row["device"], start, end), track=track, op=name
            )
        )
    return tuple(ranges)


def checking_kernels(
    *, event_types: pl.DataFrame, device_activity: pl.DataFrame
) -> int | None:
    """Return the number of kernels that check for finite gradients on one host.

    The result is None if neither a kernel nor an op checks gradients.
    """
    checks = event_types["name"].str.contains(FINITE_CHECK).to_numpy()
    if not checks.any():
        return None
    used = np.bincount(handles(device_activity, "type"), minlength=len(checks))
    return int(used[checks].sum())


@of_run
def finite_checks(*, checking_kernels: OfHosts[int | None]) -> int | Unavailable | None:
    """Return the number of kernels that check for finite gradients, on all hosts.

    The result is None if neither a kernel nor an op checks gradients. Unavailable if
    ops check gradients but no kernel has such a name, or if no kernel was recorded.
    """
    if all(isinstance(count, Unavailable) for count in checking_kernels.values()):
        return first_reason(checking_kernels)
    counts = known_hosts(checking_kernels)
    return sum(counts.values()) or (_UNNAMED if counts else None)


_UNNAMED: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="Ops check whether gradients are finite, but no kernel is named after one.",
    remedy="Look in the trace for a copy of a few bytes before the optimizer.",
)
