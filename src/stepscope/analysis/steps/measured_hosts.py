"""The hosts and windows used for step numbers, and which windows are the same step."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.results.tool import start_unix_ns
from stepscope.analysis.steps.rows import HostSteps, host_steps
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import typical_rows
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.array_types import Int64s
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("steps")


#: Maximum distance between the step starts of two hosts in lock step, in step lengths.
_APART: Final = 0.5
#: Minimum share of common steps of two hosts in lock step, in the fewer steps of both.
_SHARED: Final = 0.5


class StepMatching(Frozen, frozen=True):
    """The windows of a run's hosts that are the same step.

    Definition: docs/how-steps-are-found.md#steps-of-several-hosts.

    Attributes:
        by: `step_num`, `time` or `none`; `one_host` for a single host.
        key: Host → a number per counted window. Equal numbers mean one step; -1 is a
            window without a match on every other host. Empty if `by` is `none`.
        in_lock_step: Whether the hosts may be averaged.
        notes: Why the hosts may not be averaged.
    """

    by: str
    key: Mapping[str, Int64s]
    in_lock_step: bool
    notes: tuple[QualityNote, ...]

    @property
    def why_no_means(self) -> Unavailable:
        """Why there are no means over all hosts that are not in lock step."""
        return Unavailable(
            code="NO_SAMPLES",
            reason=self.notes[0].message,
            remedy="Look at one host at a time (option host, or `by_host`).",
        )


def match_steps(
    hosts: Sequence[HostSteps], starts_unix_ns: Sequence[int | None]
) -> StepMatching:
    """Match steps by number or, if that fails, by absolute time, or not at all.

    Args:
        starts_unix_ns: Each host's time 0, in ns since 1970; None if not recorded.
    """
    if len(hosts) < 2:
        return StepMatching("one_host", {}, in_lock_step=True, notes=())
    if all(
        not isinstance(host.steps, Unavailable) and host.steps.source == "marker"
        for host in hosts
    ):
        numbers = [ints(host.by_window, "step") for host in hosts]
        shared = reduce(np.intersect1d, numbers)
        key = {
            host.host: np.where(np.isin(number, shared), number, -1)
            for host, number in zip(hosts, numbers, strict=True)
        }
        return _check_lock_step(hosts, "step_num", key)
    if all(
        start is not None and not isinstance(host.steps, Unavailable)
        for host, start in zip(hosts, starts_unix_ns, strict=True)
    ):
        clocks = [start for start in starts_unix_ns if start is not None]
        return _check_lock_step(hosts, "time", _match_times(hosts, clocks))
    note = QualityNote(
        kind="hosts_not_matched",
        severity="warning",
        scope="run",
        message="The steps of the hosts have neither numbers nor absolute times, so it "
        "is unknown which steps of different hosts are the same.",
        remedy="Mark the steps with their number, and record with a version that "
        "stores the start time of the profile.",
    )
    return StepMatching("none", {}, in_lock_step=False, notes=(note,))


def _match_times(
    hosts: Sequence[HostSteps], clocks: Sequence[int]
) -> dict[str, Int64s]:
    """Match steps by largest overlap with the steps of the shortest host profile."""
    origin = min(clocks)
    begins, ends = [], []
    for host, clock in zip(hosts, clocks, strict=True):
        shift = (clock - origin) * 1_000
        windows = host.by_window
        begins.append(ints(windows, "start_ps") + shift)
        ends.append(ints(windows, "end_ps") + shift)
    spans = [int(end[-1] - begin[0]) for begin, end in zip(begins, ends, strict=True)]
    reference = spans.index(min(spans))
    offsets = [
        _best_offset(begins[reference], ends[reference], begin, end)
        for begin, end in zip(begins, ends, strict=True)
    ]
    count = len(begins[reference])
    # Range of the reference host's steps that every host covers.
    first = max(0, *(-offset for offset in offsets))
    last = min(
        count, *(len(begin) - off for begin, off in zip(begins, offsets, strict=True))
    )
    keys = {}
    for host, begin, offset in zip(hosts, begins, offsets, strict=True):
        of_reference = np.arange(len(begin)) - offset
        inside = (of_reference >= first) & (of_reference < last)
        keys[host.host] = np.where(inside, of_reference, -1)
    return keys


def _best_offset(
    begin: Int64s, end: Int64s, other_begin: Int64s, other_end: Int64s
) -> int:
    """Return the index shift of two hosts' steps at which the steps overlap most."""
    first = np.searchsorted(other_end, begin, side="right")
    last = np.searchsorted(other_begin, end, side="left")
    count = np.maximum(last - first, 0)
    own_step = np.repeat(np.arange(len(begin)), count)
    within = np.arange(len(own_step)) - np.repeat(np.cumsum(count) - count, count)
    other_step = np.repeat(first, count) + within
    overlap = np.minimum(end[own_step], other_end[other_step]) - np.maximum(
        begin[own_step], other_begin[other_step]
    )
    if not len(overlap):
        return 0
    offsets, place = np.unique(other_step - own_step, return_inverse=True)
    totals = np.bincount(place, weights=overlap)
    best = offsets[totals == totals.max()]
    return int(best[np.argmin(np.abs(best))])


def _check_lock_step(
    hosts: Sequence[HostSteps], by: str, key: dict[str, Int64s]
) -> StepMatching:
    """Compare the starts of matched steps after the best constant clock shift."""
    notes = []
    reference = hosts[0]
    at_reference = _starts_by_key(reference, key)
    for host in hosts[1:]:
        starts = _starts_by_key(host, key)
        shared = sorted(at_reference.keys() & starts.keys())
        fewer = min(len(key[reference.host]), len(key[host.host]))
        if len(shared) < _SHARED * fewer:
            notes.append(
                _lock_step_note(
                    host, reference, f"they share {len(shared)} of {fewer} steps"
                )
            )
            continue
        shift = np.array([starts[step] - at_reference[step] for step in shared])
        spread = float(np.median(np.abs(shift - np.median(shift))))
        step_ps = float(np.median(ints(reference.by_window, "window_ps")))
        if spread > _APART * step_ps:
            text = (
                f"the median distance of their step starts is {duration_text(spread)}"
            )
            notes.append(_lock_step_note(host, reference, text))
    return StepMatching(by, key, in_lock_step=not notes, notes=tuple(notes))


def _starts_by_key(host: HostSteps, key: Mapping[str, Int64s]) -> dict[int, int]:
    starts = ints(host.by_window, "start_ps").tolist()
    return {
        number: start
        for number, start in zip(key[host.host].tolist(), starts, strict=True)
        if number >= 0
    }


def _lock_step_note(host: HostSteps, reference: HostSteps, text: str) -> QualityNote:
    return QualityNote(
        kind="hosts_not_in_lock_step",
        severity="warning",
        scope=f"{reference.host}, {host.host}",
        message=f"The hosts {reference.host} and {host.host} do not run in lock step: "
        f"{text}. Their numbers are not averaged.",
        remedy="Look at one host at a time.",
    )


class MeasuredRun(Frozen, frozen=True):
    """A run, and its hosts whose windows are used for step numbers.

    Attributes:
        hosts: The hosts whose windows count; at least one.
        absent: Host → why its windows do not count.
    """

    run: ProfileData
    hosts: list[HostSteps]
    absent: dict[str, Unavailable]
    matching: StepMatching

    @property
    def names(self) -> list[str]:
        """Names of the hosts whose windows count."""
        return [host.host for host in self.hosts]


def measured_run(
    profile: ProfileData, *, host: str = "", marker: str = ""
) -> MeasuredRun | Unavailable:
    """Choose the hosts that count; unavailable if no host does.

    In a run with devices, a host without a device only coordinates the other hosts. A
    host without steps cannot count either.

    Definition: docs/how-steps-are-found.md#steps-of-several-hosts.

    Args:
        host: Only this host; empty for all.
        marker: Only steps with this marker name; empty for all.
    """
    run = profile.select([host]) if host else profile
    measured: list[HostSteps] = []
    absent: dict[str, Unavailable] = {}
    for name in run.hosts:
        rows = host_steps(run, name, marker=marker or None)
        if isinstance(rows, Unavailable):
            absent[name] = rows
        elif not rows.rows.height:
            absent[name] = _WHY["no_such_marker"]
        else:
            measured.append(rows)
    with_devices = [rows for rows in measured if rows.has_device]
    if with_devices and len(with_devices) < len(measured):
        absent |= {
            rows.host: _WHY["coordinator"] for rows in measured if not rows.has_device
        }
        measured = with_devices
    with_steps = [rows for rows in measured if rows.windows.has_steps]
    if with_steps and len(with_steps) < len(measured):
        absent |= {
            rows.host: rows.steps
            for rows in measured
            if isinstance(rows.steps, Unavailable)
        }
        measured = with_steps
    if not measured:
        return next(iter(absent.values()))
    starts = [start_unix_ns(run, rows.host) for rows in measured]
    return MeasuredRun(run, measured, absent, match_steps(measured, starts))


def measured_rows(host: HostSteps, excluded_flags: Sequence[str]) -> pl.DataFrame:
    """Return the rows that statistics use: complete windows of the main kind.

    If none is of the main kind, use all complete windows; if none is complete, all.
    """
    if not excluded_flags:
        return host.measured
    return typical_rows(_drop_flags(host.rows, excluded_flags))


def measured_any_device(host: HostSteps, excluded_flags: Sequence[str]) -> pl.DataFrame:
    """Return the rows that statistics use, with all devices of a host as one."""
    return typical_rows(_drop_flags(host.any_device, excluded_flags))


def _drop_flags(rows: pl.DataFrame, flags: Sequence[str]) -> pl.DataFrame:
    if not flags:
        return rows
    flagged = pl.col("flags").list.set_intersection(list(flags))
    return rows.filter(flagged.list.len() == 0)
