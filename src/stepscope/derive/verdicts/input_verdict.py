"""Whether the steps wait for their input: the verdict for rules, tools and pages.

Definition: docs/definitions/judging.md#input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.account.time_by_cause import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.columns.arrays import are_input_threads, ints
from stepscope.derive.device.correlation import launch_facts
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import NOTHING_RECORDED, windows
from stepscope.derive.steps.chosen import steps
from stepscope.derive.verdicts.effect_status import (
    NO_JUDGED_STEPS,
    EffectStatus,
    JudgedSteps,
    StepSeries,
    percent_of,
    status_of,
    step_basis,
)
from stepscope.derive.verdicts.recorded_devices import (
    device_signals,
    judged_device,
    working_time_ps,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.verdicts.recorded_devices import DeviceSignals
    from stepscope.trace.model import TraceData

HIGHLY: Final = "highly_input_bound"
MODERATELY: Final = "moderately_input_bound"
NOT: Final = "not_input_bound"
UNKNOWN: Final = "unknown"

#: Derivations of each host that the verdict needs.
INPUT_VERDICT_NEEDS: Final = (account, host_classes, idle_topics, launch_facts)
#: Causes of input time: the kinds of time that are added and judged together.
CAUSES: Final = ("fetch", "transfer", "starved")
_COLUMNS: Final = {
    "fetch": "input_ps",
    "transfer": "copy_in_ps",
    "starved": "starved_ps",
    "between": "between_ps",
    "unexplained": "unexplained_ps",
}


class InputVerdict(Frozen, frozen=True):
    """The input verdict for the judged steps of one device, or of one host.

    Attributes:
        device: Ordinal of the judged device; None for the host's own threads.
        series: By step, the time of fetching (`fetch`), of copying (`transfer`), and
            before a copy without a recorded cause (`starved`).
        unknown_ps: Other time that may be input, on all devices together.
        why: Why no amount of input time could give a verdict; None if there is a
            verdict, or if only doubt about the time prevents a verdict.
    """

    host: str
    device: int | None
    series: StepSeries
    status: EffectStatus
    unknown_ps: int
    why: Unavailable | None = None

    @property
    def label(self) -> str:
        """Return `host:device`, or the host if there is no device."""
        return self.host if self.device is None else f"{self.host}:{self.device}"

    @property
    def word(self) -> str:
        """Return the verdict for tools: `HIGHLY`, `MODERATELY`, `NOT` or `UNKNOWN`."""
        if self.status.status == "fail":
            return HIGHLY if self.status.severity == "critical" else MODERATELY
        return NOT if self.status.status == "pass" else UNKNOWN

    @property
    def input_bound(self) -> bool | None:
        """Return whether the steps wait for input; None if unknown."""
        word = self.word
        return None if word == UNKNOWN else word != NOT

    @property
    def share_percent(self) -> float:
        """Return the share of input time in the judged steps, in percent."""
        return percent_of(sum(self.series.effect_ps), sum(self.series.window_ps))

    @property
    def leading(self) -> str | None:
        """Return the cause of most of the input time; None without input time."""
        cause = max(CAUSES, key=self.part_percent)
        return cause if self.part_percent(cause) else None

    def part_percent(self, cause: str) -> float:
        """Return the share of one cause of `CAUSES` in the steps, in percent."""
        part = sum(self.series.parts_ps.get(cause, ()))
        return percent_of(part, sum(self.series.window_ps))


class InputTime(JudgedSteps, frozen=True, kw_only=True):
    """The time of one device, or of a host without devices, that may be input time.

    Attributes:
        device: Ordinal of the device; None for the host's own threads.
        parts_ps: `fetch`, `transfer`, `starved`, `between`, `unexplained` → time per
            window.
        is_blind: Whether batch fetches, or copies to the device, were not recorded.
        lost_ps: Device time that may belong to lost records.
        working_ps: Time in which the device computed, without copies and collectives.
    """

    host: str
    device: int | None
    parts_ps: Mapping[str, tuple[int, ...]]
    is_blind: bool
    lost_ps: int
    working_ps: int

    @property
    def percent(self) -> float:
        """Return the share of input time in the judged windows, in percent."""
        return percent_of(
            sum(sum(self.parts_ps[cause]) for cause in CAUSES), self.total_ps
        )

    def series(self, *, fetched: bool | None) -> StepSeries:
        """Return the input time of each step, and the time that may also be input.

        Args:
            fetched: Whether any batch fetch was recorded.
        """
        unknown = sum(self.parts_ps["unexplained"])
        share = percent_of(unknown, self.total_ps)
        if not fetched:
            # Unrecorded time, and time between steps, may be batch production.
            unknown += sum(self.parts_ps["between"]) - sum(self.parts_ps["starved"])
        elif not self.is_blind and share < THRESHOLDS.unexplained_warn.value:
            unknown = 0
        return self.lost_time(
            {cause: self.parts_ps[cause] for cause in CAUSES},
            unknown_ps=unknown,
            excess_ps=self.lost_ps,
        )


def with_starved_time(
    profile: ProfileData, host: str, rows: pl.DataFrame
) -> pl.DataFrame:
    """Add `starved_ps` to rows of the time account of a host.

    Without recorded batch fetches, it is the time without work before a copied batch.

    Args:
        rows: Rows with `window`, a row of the host's windows, and `device`.
    """
    placed = require_available(profile.derived(host, windows)).rows
    window = ints(rows, "window")
    starts, ends = ints(placed, "start_ps")[window], ints(placed, "end_ps")[window]
    starved = np.zeros(rows.height, np.int64)
    topics = profile.derived(host, idle_topics)
    for device in () if isinstance(topics, Unavailable) else topics.devices:
        own = rows["device"].eq_missing(device.device).to_numpy()
        starved[own] = device.spans["unfed"].within(starts[own], ends[own])
    return rows.with_columns(starved_ps=pl.Series(starved))


def records_fetches(
    trace: TraceData, classes: HostClasses | Unavailable
) -> bool | None:
    """Return whether a host's recording has any batch fetch or input pipeline.

    None if threads of an input pipeline worked, but neither was recorded.
    """
    if not isinstance(classes, Unavailable) and len(classes.input_wait):
        return True
    iterators, tracks = trace.table("iterators"), trace.table("tracks")
    if not isinstance(iterators, Unavailable) and not iterators.is_empty():
        return True
    if isinstance(tracks, Unavailable):
        return False
    worked = tracks["event_end"] > tracks["event_begin"]
    return None if (are_input_threads(tracks) & worked.to_numpy()).any() else False


def any_known(answers: Iterable[bool | None]) -> bool | None:
    """Return whether any answer is True; None if none is, and one is unknown."""
    known = set(answers)
    return True in known or (None if None in known else False)


def verdict_of_run(profile: ProfileData) -> InputVerdict | Unavailable:
    """Judge the input time of every host in the measured steps."""
    judged = {}
    why = NOTHING_RECORDED
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        if isinstance(accounted, Unavailable):
            why = accounted
            continue
        rows = require_available(profile.derived(host, windows)).rows_of_measured(
            accounted.rows
        )
        judged[host] = with_starved_time(profile, host, rows)
    return input_verdict(profile, judged) if judged else why


def input_verdict(
    profile: ProfileData, judged: Mapping[str, pl.DataFrame]
) -> InputVerdict:
    """Judge the input time of the given hosts.

    Args:
        judged: Host → the judged rows of its time account, with `starved_ps`.
    """
    classes = {host: profile.derived(host, host_classes) for host in judged}
    unknown = [reason for reason in classes.values() if isinstance(reason, Unavailable)]
    return decide_input(
        [
            _input_time(profile, host, device, rows.filter(_DEVICE.eq_missing(device)))
            for host, rows in judged.items()
            for device in rows["device"].unique().sort()
        ],
        fetched=any_known(
            records_fetches(profile.trace(host), classes[host]) for host in judged
        ),
        device=profile.of_run(device_signals),
        blind=unknown[0] if len(unknown) == len(classes) else None,
    )


def decide_input(
    times: Sequence[InputTime],
    *,
    fetched: bool | None,
    device: DeviceSignals,
    blind: Unavailable | None,
) -> InputVerdict:
    """Judge the time in which steps did nothing but wait for their input.

    Args:
        fetched: Whether any batch fetch was recorded; None if an input pipeline worked
            whose fetches were not recorded.
        blind: Why no threads of any host were recorded; None if some were.
    """
    if not times:
        nothing = StepSeries(
            step_source=None, step_confidence=0.0, window_ps=(), parts_ps={}
        )
        unknown = EffectStatus("cannot_tell")
        return InputVerdict("", None, nothing, unknown, 0, NO_JUDGED_STEPS)
    judged = judged_device(times, lambda time: time.percent)
    all_series = [time.series(fetched=fetched) for time in times]
    (series,) = (
        candidate
        for time, candidate in zip(times, all_series, strict=True)
        if time is judged
    )
    status = status_of(
        series,
        warn=THRESHOLDS.input_warn,
        critical=THRESHOLDS.input_critical,
    )
    why = blind
    # Without steps, only recorded fetches show that time or a copy is input.
    if judged.step_confidence < THRESHOLDS.medium_confidence.value and (
        judged.step_source is not None or not fetched
    ):
        why = NO_JUDGED_STEPS
    elif why is None and device.recorded == "silent" and status.status == "fail":
        why = _device_not_recorded(device, judged.percent)
    elif why is None and fetched is None and status.status == "pass":
        why = WHY["unseen_fetches"]
    if why is not None:
        status = EffectStatus("cannot_tell")
    unknown_ps = sum(each.unknown_ps for each in all_series)
    return InputVerdict(judged.host, judged.device, series, status, unknown_ps, why)


_DEVICE: Final = pl.col("device")


def _input_time(
    profile: ProfileData, host: str, device: int | None, rows: pl.DataFrame
) -> InputTime:
    source, confidence = step_basis(profile.derived(host, steps))
    facts = profile.derived(host, launch_facts)
    placed = require_available(profile.derived(host, windows)).rows
    # Without a device there are no copies and no lost device records.
    columns = ("input_ps",) if device is None else ("input_ps", "copy_in_ps")
    lost_ps = 0
    if not isinstance(facts, Unavailable) and device is not None:
        lost_ps = facts.lost_ps
    return InputTime(
        host=host,
        device=device,
        step_source=source,
        step_confidence=confidence,
        closed=not placed["open_end"].gather(rows["window"]).all(),
        window_ps=tuple(rows["window_ps"].to_list()),
        parts_ps={
            cause: tuple(fill_nulls(rows[column], 0).tolist())
            for cause, column in _COLUMNS.items()
        },
        is_blind=any(rows[column].null_count() for column in columns),
        lost_ps=lost_ps,
        working_ps=working_time_ps(rows),
    )


def _device_not_recorded(device: DeviceSignals, percent: float) -> Unavailable:
    cause = device.reason
    return Unavailable(
        code=cause.code if cause else "NO_DEVICE_EVENTS",
        reason=f"The host waits for data in {percent:.0f} % of the step, but whether "
        "the device is idle meanwhile was not recorded.",
        remedy=cause.remedy if cause else Remedy.RECORD_DEVICE_AGAIN,
    )
