"""Signals about waiting for data, from the breakdown of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl

from stepscope.advice.finding import Evidence
from stepscope.advice.signals.clean_steps import (
    JudgedRows,
    StepBasis,
    clean_rows,
    excess_ps,
    step_basis,
)
from stepscope.advice.signals.ranges import host_ranges
from stepscope.advice.signals.signal import signal
from stepscope.advice.signals.step_series import StepSeries
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.derive.step_time.breakdown import breakdown
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["InputSignals", "input_signals"]

#: Device work other than waiting for other devices
#: (docs/definitions/judging.md#which-device-is-judged).
_WORKING = (
    "device_compute_16_ps",
    "device_compute_32_ps",
    "memset_ps",
    "p2p_copy_ps",
    "local_copy_ps",
    "d2h_ps",
    "h2d_ps",
)
#: Time that may hide the making of batches where no fetch was recorded.
_UNTOLD = ("unattributed_ps", "between_steps_ps", "python_ps")


class InputSignals(msgspec.Struct, frozen=True, kw_only=True):
    """How long steps wait for their data.

    Attributes:
        series: One series per device (per host without devices), with the parts
            "fetch" (a step thread waits for its batch) and "transfer" (the batch is
            copied while the device computes nothing).
        consumer_recorded: Whether any fetch of a batch was recorded.
        mean_fetch_ps: Label of a series → mean duration of the fetches in each clean
            step that has some.
        hidden_fetch_ps: Label of a series → the part of `mean_fetch_ps` during which
            the device was busy.
        evidence: Label of a series → its longest waits.
    """

    series: tuple[StepSeries, ...]
    consumer_recorded: bool
    mean_fetch_ps: dict[str, tuple[float, ...]] = {}
    hidden_fetch_ps: dict[str, tuple[float, ...]] = {}
    evidence: dict[str, tuple[Evidence, ...]] = {}


@signal(breakdown)
def input_signals(
    profile: ProfileData, thresholds: Thresholds
) -> InputSignals | Unavailable:
    """Measure how long each device, or each host without one, waited for data."""
    compile_percent = thresholds.dirty_compile.value
    series: list[StepSeries] = []
    fetches: dict[str, tuple[float, ...]] = {}
    hidden: dict[str, tuple[float, ...]] = {}
    evidence: dict[str, tuple[Evidence, ...]] = {}
    reasons: list[Unavailable] = []
    recorded = False
    for host in profile.hosts:
        charged = profile.derived(host, breakdown)
        classes = profile.derived(host, host_classes)
        if isinstance(charged, Unavailable) or isinstance(classes, Unavailable):
            reasons += [
                one for one in (charged, classes) if isinstance(one, Unavailable)
            ]
            continue
        scene = _Scene(profile, host, compile_percent)
        recorded |= scene.consumer_recorded
        for device in charged.rows["device"].unique().sort():
            judged = scene.rows_of(charged.rows, device)
            one = scene.series(judged, device)
            series.append(one)
            fetches[one.label], hidden[one.label] = scene.fetches(judged.clean)
            evidence[one.label] = scene.evidence(judged.all, device)
    if not series:
        return reasons[0]
    return InputSignals(
        series=tuple(series),
        consumer_recorded=recorded,
        mean_fetch_ps=fetches,
        hidden_fetch_ps=hidden,
        evidence=evidence,
    )


class _Scene:
    """The tables of one host that the collection reads several times."""

    def __init__(self, profile: ProfileData, host: str, compile_percent: float) -> None:
        self.profile = profile
        self.host = host
        self.compile_percent = compile_percent
        self.windows = present(profile.derived(host, windows))
        self.basis: StepBasis = step_basis(profile, host)
        self.waits = present(profile.derived(host, host_classes)).input_wait
        iterators = profile.table(host, "iterators")
        self.consumer_recorded = bool(len(self.waits)) or not (
            isinstance(iterators, Unavailable) or iterators.height == 0
        )

    def rows_of(self, charged: pl.DataFrame, device: int | None) -> JudgedRows:
        mine = charged.filter(pl.col("device").eq_missing(pl.lit(device, pl.Int32)))
        return clean_rows(mine, self.windows, compile_percent=self.compile_percent)

    def series(self, judged: JudgedRows, device: int | None) -> StepSeries:
        rows = judged.clean
        columns = {"fetch": "host_wait_ps"}
        working: tuple[int, ...] = ()
        if device is not None:
            # A kind of device that records no copies leaves their time unknown.
            if not rows["h2d_ps"].null_count():
                columns["transfer"] = "h2d_ps"
            working = tuple(rows.select(pl.sum_horizontal(_WORKING)).to_series())
        unknown = rows.select(pl.sum_horizontal(_UNTOLD)).to_series()
        if self.consumer_recorded:
            unknown = unknown * 0
        return StepSeries(
            host=self.host,
            device=device,
            step_source=self.basis.source,
            step_confidence=self.basis.confidence,
            closed=judged.closed,
            window_ps=_times(rows, "window_ps"),
            parts_ps={part: _times(rows, column) for part, column in columns.items()},
            unknown_ps=tuple(unknown),
            excess_ps=0
            if device is None
            else excess_ps(self.profile, self.host, steps=judged.all.height),
            working_ps=working,
            total_window_ps=sum(_times(judged.all, "window_ps")),
            total_parts_ps={
                part: sum(_times(judged.all, column))
                for part, column in columns.items()
            },
            total_steps=judged.all.height,
        )

    def fetches(
        self, rows: pl.DataFrame
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the mean fetch of each step that has any, and its hidden part."""
        means, hidden = [], []
        exposed = _times(rows, "host_wait_ps")
        for (start, end), waited in zip(self._spans(rows), exposed, strict=True):
            inside = self.waits.clip(start, end)
            if len(inside):
                means.append(inside.length_ps / len(inside))
                hidden.append((inside.length_ps - waited) / len(inside))
        return tuple(means), tuple(hidden)

    def evidence(self, rows: pl.DataFrame, device: int | None) -> tuple[Evidence, ...]:
        spans = np.array(self._spans(rows), np.int64).reshape(-1, 2)
        judged = Spans.from_events(spans[:, 0], spans[:, 1] - spans[:, 0])
        waited = self._waited(device) & judged
        kinds = present(self.profile.derived(self.host, event_kinds))
        return host_ranges(
            self.profile,
            self.host,
            waited,
            device=device,
            wanted=kinds.host_class == HostClass.INPUT_WAIT,
            kinds=("h2d",),
        )

    def _waited(self, device: int | None) -> Spans:
        """Return where the device did nothing but wait for data or receive it."""
        sets = self.profile.derived(self.host, device_sets)
        if device is None or isinstance(sets, Unavailable):
            return self.waits
        one = next(one for one in sets.devices if one.device == device)
        other = Spans.union_of(
            spans for name, spans in one.orders.items() if name != "h2d"
        )
        copied: Spans = one.orders.get("h2d", Spans.empty())
        return (self.waits | copied) - other

    def _spans(self, rows: pl.DataFrame) -> list[tuple[int, int]]:
        at = rows["window"].to_numpy()
        starts = ints(self.windows.rows, "start_ps")[at]
        ends = ints(self.windows.rows, "end_ps")[at]
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _times(rows: pl.DataFrame, column: str) -> tuple[int, ...]:
    return tuple(rows[column].fill_null(0))
