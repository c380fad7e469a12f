"""Signals about element types: device time by width, and by what could be narrower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.advice.finding import Evidence, Fact
from stepscope.advice.signals.clean_steps import clean_rows, step_basis
from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.ranges import SHOWN, event_label
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.precision import PrecisionEvidence, precision
from stepscope.derive.device.tensor_cores import tensor_cores
from stepscope.derive.step_time.breakdown import breakdown
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["PrecisionSignals", "precision_signals"]

#: Prefix of a library's convolution kernels in single precision; with `fp16` in the
#: name they compute in 16 bit (docs/advice/amp_share.md).
_SINGLE: Final = "scudnn"
_NOT_SINGLE: Final = "fp16"


class _Kernels(Frozen, frozen=True):
    """The compute kernels of one host; arrays over them."""

    host: str
    row: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    device: NDArray[np.int32]
    narrow: NDArray[np.bool_]
    tf32: NDArray[np.bool_]
    known: NDArray[np.bool_]
    evidence: NDArray[np.uint8]
    eligible: NDArray[np.int8]

    @property
    def wide(self) -> NDArray[np.bool_]:
        """Return which kernels are eligible and known not to be narrow."""
        found: NDArray[np.bool_] = (self.eligible == 1) & ~self.narrow & self.known
        return found

    def shares(self) -> dict[str, int]:
        """Return the kernel time of each group that `PrecisionSignals` reports."""
        eligible = self.eligible == 1
        chosen = {
            "compute_ps": np.ones(len(self.row), np.bool_),
            "narrow_ps": self.narrow,
            "eligible_ps": eligible,
            "eligible_narrow_ps": eligible & self.narrow,
            "eligible_tf32_ps": eligible & self.tf32 & self.known,
            "eligible_unknown_ps": eligible & ~self.known,
            "undecided_ps": self.eligible < 0,
        }
        return {name: self.time(rows) for name, rows in chosen.items()}

    def time(self, chosen: NDArray[np.bool_]) -> int:
        """Return the sum of the durations of the chosen kernels."""
        return int(self.dur_ps[chosen].sum())


class PrecisionSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of compute kernels by element type, over the whole profile.

    Eligible work is work that units for narrow types could do. Times are sums over
    kernels in ps.

    Attributes:
        compute_ps: Time of all compute kernels.
        narrow_ps: Time of compute kernels in 16 bit or narrower.
        eligible_ps: Time of eligible kernels.
        eligible_narrow_ps: Time of eligible kernels in 16 bit or narrower.
        eligible_tf32_ps: Time of eligible kernels in TF32.
        eligible_unknown_ps: Time of eligible kernels of unknown element type.
        undecided_ps: Time of kernels of which it is unknown whether they are eligible.
        wide_per_step_ps: Eligible 32-bit time per step on the busiest device; null
            without steps.
        step_confidence: 0 to 1; 0 without steps.
        step_ps: Median step on the busiest device; null without steps.
        steps: Number of clean steps that `wide_per_step_ps` and `step_ps` rest on.
        kernels: Number of compute kernels.
        narrow_kernels: Number of compute kernels in 16 bit or narrower.
        evidence_percent: Kind of evidence → share of the eligible time whose element
            type it decided.
        largest: Eligible 32-bit ops with their times in µs, largest first.
        devices: `host:device` of each device with compute kernels.
        evidence: The longest eligible 32-bit kernels.
    """

    compute_ps: int
    narrow_ps: int
    eligible_ps: int
    eligible_narrow_ps: int
    eligible_tf32_ps: int
    eligible_unknown_ps: int
    undecided_ps: int
    wide_per_step_ps: int | None
    step_confidence: float
    step_ps: int | None
    steps: int
    kernels: int
    narrow_kernels: int
    evidence_percent: dict[str, float] = {}
    largest: tuple[Fact, ...] = ()
    devices: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@signal(breakdown, tensor_cores)
def precision_signals(
    profile: ProfileData, thresholds: Thresholds
) -> PrecisionSignals | Unavailable:
    """Add up kernels of all hosts; the time per step is that of the busiest device."""
    compile_percent = thresholds.dirty_compile.value
    found: list[_Kernels] = []
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        kernels = _kernels(profile, host)
        if isinstance(kernels, Unavailable):
            reasons.append(kernels)
        elif len(kernels.row):
            found.append(kernels)
    if not found:
        return reasons[0] if reasons else NO_KERNELS
    busiest = max(found, key=lambda one: int(one.dur_ps.sum()))
    device = int(np.bincount(busiest.device, weights=busiest.dur_ps).argmax())
    per_step = _per_step(profile, busiest, device, compile_percent)
    shares = [one.shares() for one in found]
    totals = {name: sum(one[name] for one in shares) for name in shares[0]}
    return PrecisionSignals(
        **totals,
        wide_per_step_ps=None if per_step is None else per_step[0],
        step_ps=None if per_step is None else per_step[1],
        steps=0 if per_step is None else per_step[2],
        step_confidence=step_basis(profile, busiest.host).confidence,
        kernels=sum(len(one.row) for one in found),
        narrow_kernels=sum(int(one.narrow.sum()) for one in found),
        evidence_percent=_evidence_shares(found, totals["eligible_ps"]),
        largest=_largest(profile, busiest),
        devices=tuple(
            f"{one.host}:{number}" for one in found for number in np.unique(one.device)
        ),
        evidence=_ranges(profile, busiest),
    )


def _kernels(profile: ProfileData, host: str) -> _Kernels | Unavailable:
    activity = profile.table(host, "device_activity")
    types = profile.table(host, "event_types")
    width = profile.derived(host, precision)
    cores = profile.derived(host, tensor_cores)
    if isinstance(activity, Unavailable):
        return activity
    if isinstance(types, Unavailable):
        return types
    if isinstance(width, Unavailable):
        return width
    if isinstance(cores, Unavailable):
        return cores
    row = np.flatnonzero(width.bits > 0)
    name = types["name"].str.to_lowercase()
    single = name.str.contains(_SINGLE, literal=True) & ~name.str.contains(
        _NOT_SINGLE, literal=True
    )
    told = width.evidence[row] != PrecisionEvidence.DEFAULT
    return _Kernels(
        host=host,
        row=row,
        dur_ps=ints(activity, "dur_ps")[row],
        start_ps=ints(activity, "start_ps")[row],
        device=handles(activity, "device")[row],
        narrow=width.bits[row] == 16,
        tf32=width.tf32[row],
        known=told | single.to_numpy()[handles(activity, "type")[row]],
        evidence=width.evidence[row],
        eligible=cores.eligible[row],
    )


def _per_step(
    profile: ProfileData, kernels: _Kernels, device: int, compile_percent: float
) -> tuple[int, int, int] | None:
    """Return eligible wide time per clean step, the median step and their number."""
    step_windows = profile.derived(kernels.host, windows)
    charged = profile.derived(kernels.host, breakdown)
    if isinstance(step_windows, Unavailable) or isinstance(charged, Unavailable):
        return None
    if not step_windows.has_steps:
        return None
    rows = clean_rows(
        charged.rows.filter(pl.col("device") == device),
        step_windows,
        compile_percent=compile_percent,
    ).clean
    starts, ends = (
        ints(step_windows.rows, "start_ps"),
        ints(step_windows.rows, "end_ps"),
    )
    mine = kernels.wide & (kernels.device == device)
    begun = kernels.start_ps[mine]
    at = np.searchsorted(starts, begun, side="right") - 1
    inside = (at >= 0) & (begun < ends[np.maximum(at, 0)])
    times = np.zeros(len(starts), np.int64)
    np.add.at(times, at[inside], kernels.dur_ps[mine][inside])
    clean = rows["window"].to_numpy()
    return (
        int(np.median(times[clean])),
        int(np.median(ints(rows, "window_ps"))),
        len(clean),
    )


def _evidence_shares(found: list[_Kernels], eligible_ps: int) -> dict[str, float]:
    if not eligible_ps:
        return {}
    shares = {
        kind.name.lower(): sum(
            one.time((one.eligible == 1) & (one.evidence == kind)) for one in found
        )
        for kind in PrecisionEvidence
    }
    return {kind: 100 * time / eligible_ps for kind, time in shares.items() if time}


def _largest(profile: ProfileData, kernels: _Kernels) -> tuple[Fact, ...]:
    """Return the ops with most eligible time in 32 bit."""
    named = profile.derived(kernels.host, activity_ops)
    if isinstance(named, Unavailable):
        return ()
    wide = kernels.wide
    time = pl.DataFrame({"op": named.op[kernels.row[wide]], "ps": kernels.dur_ps[wide]})
    top = time.group_by("op").sum().sort("ps", "op", descending=[True, False])
    names = named.ops["name"]
    return tuple(
        Fact(name="largest_op", value=ps / PS_PER_US, unit="us", note=names[op])
        for op, ps in top.head(SHOWN).iter_rows()
    )


def _ranges(profile: ProfileData, kernels: _Kernels) -> tuple[Evidence, ...]:
    activity = profile.table(kernels.host, "device_activity")
    if isinstance(activity, Unavailable):
        return ()
    wide = np.flatnonzero(kernels.wide)
    order = np.argsort(-kernels.dur_ps[wide], kind="stable")
    found = []
    for at in wide[order[:SHOWN]]:
        row = activity.row(int(kernels.row[at]), named=True)
        track, name = None, ""
        if row["event"] is not None:
            track, name = event_label(profile, kernels.host, row["event"])
        found.append(
            Evidence(
                host=kernels.host,
                device=row["device"],
                track=track,
                start_ps=row["start_ps"],
                end_ps=row["start_ps"] + row["dur_ps"],
                ops=(name,) if name else (),
            )
        )
    return tuple(found)
