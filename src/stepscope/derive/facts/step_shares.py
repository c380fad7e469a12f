"""Breakdown of step time for rules: each cause's time in each judged step, named."""

from __future__ import annotations

from math import inf
from operator import sub
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.account.topics import TOPICS
from stepscope.derive.facts.evidence import (
    MAX_RANGES_SHOWN,
    Evidence,
    Part,
    longest_intervals,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.system_calls import SYSTEM_CALLS
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, OWNERS, PLACES
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.derive.verdicts.effect_status import JudgedSteps, step_basis
from stepscope.derive.verdicts.recorded_devices import judged_device, working_time_ps
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from stepscope.derive.account.parts import AccountParts
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.device.correlation import LaunchFacts
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.verdicts.effect_status import StepSeries
    from stepscope.trace.model import TraceData

_SYSTEM_CALL: Final = Pattern(SYSTEM_CALLS["SYSTEM_CALL"])
#: Minimum length of an interval shown as evidence, as a fraction of the longest one.
_MIN_EVIDENCE_RATIO: Final = 0.01
_NO_WINDOW: Final = Unavailable(
    code="NO_STEPS",
    reason="The recording contains no time window to analyse.",
    remedy="Record while the program runs.",
)


class NamedTime(Frozen, frozen=True):
    """A named part of the time of one cause (owner) in the breakdown of step time.

    Attributes:
        place: "inside" a step, or "between" two steps.
        name: What ran or was waited for; None if unknown.
        detail: What takes most of the part, shown next to the name; None for nothing.
        function: The function, if the part is a function; else None.
        loop: Whether the function is the loop that executes the steps.
    """

    owner: str
    place: str
    name: str | None
    detail: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    loop: bool = False
    time_ps: int = 0


class StepShares(JudgedSteps, frozen=True, kw_only=True):
    """Breakdown of step time of one device, or of a host without devices.

    An owner is the cause of time; a topic is a kind of host work in idle time.

    Attributes:
        device: Number of the device; None for step threads without devices.
        inside_ps: Cause or topic → its time inside the step, in each window. A topic's
            time is also part of the time of causes.
        between_ps: Idle cause or topic → its time between two steps, in each window.
        missing: Cause or topic → reason why its time is unknown.
        working_ps: Time in which the device computed or copied within itself; the
            device with the largest share is judged.
        names: Named parts of idle causes and of topics, most time first.
        callers: The program's functions that call most of an idle owner's time.
        gaps: Number of idle intervals that end with a late launch.
        clock_error_ps: Clock offset between host and device.
        lost_ps: Estimated device time of lost records.
        ranges: (cause or topic, place) → its longest intervals in all judged windows.
        numbers: Step number of each window; empty if steps have no numbers.
        bounds: Start and end of each window.
        held: (topic, owner, place) → the topic's part of the owner's total time.
    """

    host: str
    device: int | None
    inside_ps: dict[str, tuple[int, ...]]
    between_ps: dict[str, tuple[int, ...]]
    missing: dict[str, Unavailable]
    working_ps: int
    names: tuple[NamedTime, ...]
    callers: tuple[NamedTime, ...]
    gaps: int
    clock_error_ps: int
    lost_ps: int
    ranges: Mapping[tuple[str, str], tuple[tuple[int, int], ...]]
    numbers: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int], ...] = ()
    held: Mapping[tuple[str, str, str], int] = {}

    @property
    def label(self) -> str:
        """Return `host:device`, or only the host if there is no device."""
        return self.host if self.device is None else f"{self.host}:{self.device}"

    @property
    def clock_doubt_ps(self) -> int:
        """Return by how much the clock offset may change the time of a cause.

        Each idle interval that ends with a late launch may be longer or shorter by the
        clock offset. At least one such interval per window is assumed.
        """
        return self.clock_error_ps * max(self.gaps, len(self.window_ps))

    def mean_ms(self, time_ps: float) -> float:
        """Return a time in all judged windows in ms per window."""
        return time_ps / max(len(self.window_ps), 1) / PS_PER_MS

    def times(self, *owners: str, place: str = "any") -> tuple[int, ...]:
        """Return the total time of the given causes in each window."""
        series = [
            by_owner[owner]
            for name, by_owner in (
                ("inside", self.inside_ps),
                ("between", self.between_ps),
            )
            for owner in owners
            if place in ("any", name) and owner in by_owner
        ]
        if not series:
            return (0,) * len(self.window_ps)
        return tuple(map(sum, zip(*series, strict=True)))

    def percent(self, *owners: str, place: str = "any") -> float:
        """Return the percentage of time of the given causes in all judged windows."""
        total = self.total_ps
        return 100 * sum(self.times(*owners, place=place)) / total if total else 0.0

    def held_percent(
        self, owner: str, topics: Collection[str], *, place: str = "any"
    ) -> float:
        """Return the cause's time with one of the topics, in percent of step time."""
        total = self.total_ps
        held_ps = sum(
            time
            for (topic, holder, where), time in self.held.items()
            if topic in topics and holder == owner and place in ("any", where)
        )
        return 100 * held_ps / total if total else 0.0

    def series(
        self,
        parts: Mapping[str, tuple[str, ...]],
        *,
        place: str = "any",
        unknown_from: float = inf,
        clocks: bool = False,
        lost: bool = False,
        of_steps: bool = False,
    ) -> StepSeries:
        """Return the time of the given owners as lost time with its uncertainty.

        Args:
            parts: Cause named by the rule → owners of its time.
            unknown_from: Minimum percentage of unexplained time that may belong to
                owners; by default none may. If the time of any owner is unknown, every
                percentage may.
            clocks: Whether the clock offset of host and device changes the lost time.
            lost: Whether lost records of the device may increase the lost time.
            of_steps: Whether time without recorded work is not judged if it may be
                outside of the steps.
        """
        owners = [owner for names in parts.values() for owner in names]
        # A device may also wait for a kind of host work in unnamed time between steps.
        of_topics = self.device is not None and set(owners) <= set(TOPICS)
        unnamed = ("unnamed",) if of_topics else ()
        unknown = sum(self.times("unexplained", *unnamed, place=place))
        # On a host without a device, device causes have no time that could be missing.
        nowhere = BUSY_OWNERS if self.device is None else ()
        blind = any(owner in self.missing and owner not in nowhere for owner in owners)
        dark = self.percent("unexplained", *unnamed, place=place) >= unknown_from
        return self.lost_time(
            {cause: self.times(*names, place=place) for cause, names in parts.items()},
            unknown_ps=unknown if blind or dark else 0,
            doubt_ps=self.clock_doubt_ps if clocks else 0,
            excess_ps=self.lost_ps if lost else 0,
            idle_ps=unknown if of_steps and self.step_source is None else 0,
        )

    def named(self, *owners: str, place: str = "any") -> tuple[NamedTime, ...]:
        """Return the named parts of the given causes, most time first."""
        return tuple(
            part
            for part in self.names
            if part.owner in owners and place in ("any", part.place)
        )

    def host_ops_lead(self) -> bool:
        """Return whether ops take at least half of the host computing time."""
        work = self.named("host_compute")
        functions = sum(part.time_ps for part in work if part.function is not None)
        return 2 * functions <= sum(part.time_ps for part in work)

    def system_calls_lead(self) -> bool:
        """Return whether system calls take more than half of host computing time."""
        work = self.named("host_compute")
        calls = sum(
            part.time_ps
            for part in work
            if part.file is None and _SYSTEM_CALL.match(part.function or "")
        )
        return 2 * calls > sum(part.time_ps for part in work)

    def parts(self, *owners: str, place: str = "any") -> tuple[Part, ...]:
        """Return the largest named parts of the given causes."""
        groups: dict[tuple[str, str | None, str | None, int | None], list[NamedTime]]
        groups = {}
        for part in self.named(*owners, place=place):
            if part.name is not None:
                key = (part.name, part.function, part.file, part.line)
                groups.setdefault(key, []).append(part)
        times = {key: sum(part.time_ps for part in groups[key]) for key in groups}
        largest = sorted(times, key=times.__getitem__, reverse=True)[:MAX_RANGES_SHOWN]
        # Parts of equal name are merged; a detail with half of their time is kept.
        details = {
            key: part.detail
            for key in largest
            for part in groups[key]
            if 2 * part.time_ps >= times[key]
        }
        return tuple(
            Part(
                name=key[0],
                detail=details.get(key),
                loop=any(part.loop for part in groups[key]),
                function=key[1],
                file=key[2],
                line=key[3],
                share_percent=100 * times[key] / self.total_ps,
            )
            for key in largest
            if self.total_ps
        )

    def caller(self, *owners: str, place: str = "any") -> Part | None:
        """Return the program's function with at least half of the causes' time."""
        called: dict[tuple[str, str | None, int | None], int] = {}
        for part in self.callers:
            if part.owner in owners and place in ("any", part.place) and part.function:
                key = (part.function, part.file, part.line)
                called[key] = called.get(key, 0) + part.time_ps
        longest_ps = max(called.values(), default=0)
        if not longest_ps or 2 * longest_ps < sum(self.times(*owners, place=place)):
            return None
        function, file, line = max(called, key=called.__getitem__)
        return Part(
            name=function,
            function=function,
            file=file,
            line=line,
            share_percent=100 * longest_ps / self.total_ps,
        )

    def evidence(self, *owners: str, place: str = "any") -> tuple[Evidence, ...]:
        """Return the longest intervals of the given causes, except very short ones."""
        ranges = [
            (end - start, start, owner, where)
            for (owner, where), intervals in self.ranges.items()
            if owner in owners and place in ("any", where)
            for start, end in intervals
        ]
        ranges.sort(key=lambda span: (-span[0], span[1]))
        min_range_ps = _MIN_EVIDENCE_RATIO * ranges[0][0] if ranges else 0
        return tuple(
            Evidence.of_range(
                *(self.host, self.device, start, start + dur),
                op=next(
                    (part.name for part in self.named(owner, place=where) if part.name),
                    None,
                ),
            )
            for dur, start, owner, where in ranges[:MAX_RANGES_SHOWN]
            if dur >= min_range_ps
        )


class AccountSignals(Frozen, frozen=True):
    """Breakdowns of step time of all devices, and of the hosts without devices.

    Attributes:
        shares: One entry per device, or per host without devices.
    """

    shares: tuple[StepShares, ...]

    @property
    def has_devices(self) -> bool:
        """Whether any breakdown is that of a device."""
        return any(share.device is not None for share in self.shares)

    def judged(self, *owners: str, place: str = "any") -> StepShares:
        """Return the busiest device, or the host whose causes take most time."""
        return judged_device(self.shares, lambda one: one.percent(*owners, place=place))

    def shares_of_label(self, label: str) -> StepShares:
        """Return the breakdown of the device or host that has a label."""
        return next(share for share in self.shares if share.label == label)

    def ranked_labels(self, *owners: str, place: str = "any") -> tuple[str, ...]:
        """Return all labels: the judged device, then by the causes' share of time."""
        first = self.judged(*owners, place=place)
        other_shares = sorted(
            (shares for shares in self.shares if shares is not first),
            key=lambda shares: (-shares.percent(*owners, place=place), shares.label),
        )
        return (first.label, *(shares.label for shares in other_shares))


def step_shares(
    *,
    trace: TraceData,
    account: Account,
    account_parts: AccountParts | Unavailable,
    idle_topics: IdleTopics | Unavailable,
    launch_facts: LaunchFacts | Unavailable,
    steps: Steps | Unavailable,
    windows: Windows,
) -> tuple[StepShares, ...]:
    """Return, by device, the breakdown of all measured windows, including outliers."""
    accounted, outside = map(windows.rows_of_measured, (account.rows, account.between))
    source, confidence = step_basis(steps)
    starts, ends = window_bounds(windows.measured)
    judged, facts = windows.judged, None
    if not isinstance(launch_facts, Unavailable):
        facts = launch_facts
    shares = []
    for times in account.devices:
        device = times.device
        of_device = pl.col("device").eq_missing(pl.lit(device, pl.Int32))
        rows, between = accounted.filter(of_device), outside.filter(of_device)
        between_ps = _times_by_owner(between, IDLE_OWNERS)
        times_ps = _times_by_owner(rows, [owner.name for owner in OWNERS])
        missing, topic_spans = _missing_and_topics(account, rows, idle_topics, device)
        names, callers = _names_and_callers(account_parts, device)
        calls = None if device is None else facts
        idle = {owner: spans & judged for owner, spans in times.idle.items()}
        # If a cause's own time is unknown, its time counts as unexplained.
        idle["unexplained"] = Spans.union_of(
            spans
            for owner, spans in idle.items()
            if owner == "unexplained" or owner in account.missing
        )
        topic_times = {topic: spans & judged for topic, spans in topic_spans.items()}
        placed = _spans_by_place(idle | topic_times, times.between)
        inside, out_of_steps = (
            {
                topic: tuple(placed[topic, place].within(starts, ends).tolist())
                for topic in topic_times
            }
            for place in PLACES
        )
        share = StepShares(
            host=trace.host,
            device=device,
            step_source=source,
            step_confidence=confidence,
            closed=not windows.measured["open_end"].all(),
            window_ps=tuple(rows["window_ps"].to_list()),
            inside_ps={
                owner: tuple(map(sub, whole, between_ps[owner]))
                if owner in between_ps
                else whole
                for owner, whole in times_ps.items()
            }
            | inside,
            between_ps=between_ps | out_of_steps,
            missing=missing,
            working_ps=working_time_ps(rows),
            names=names,
            callers=callers,
            gaps=0 if calls is None else len(idle["launch"]),
            clock_error_ps=0 if calls is None else calls.clock_error_ps,
            lost_ps=0 if calls is None else calls.lost_ps,
            ranges={
                key: longest_intervals(part) for key, part in placed.items() if part
            },
            numbers=_step_numbers(steps, windows.measured["step_row"]),
            bounds=tuple(zip(starts.tolist(), ends.tolist(), strict=True)),
            held={
                (topic, owner, place): part.length_ps
                for topic in topic_times
                for owner in idle
                for place in PLACES
                if (part := placed[topic, place] & placed[owner, place])
            },
        )
        shares.append(share)
    return tuple(shares)


@of_run
def account_signals(
    *, step_shares: OfHosts[tuple[StepShares, ...]]
) -> AccountSignals | Unavailable:
    """Collect the breakdowns of the measured windows of all hosts."""
    shares = [share for each in known_hosts(step_shares).values() for share in each]
    if not shares:
        return first_reason(step_shares) or _NO_WINDOW
    return AccountSignals(tuple(shares))


def _spans_by_place(
    spans_by_name: Mapping[str, Spans], between: Spans
) -> dict[tuple[str, str], Spans]:
    """Divide spans into their parts inside steps and between steps."""
    return {
        (name, place): part
        for name, spans in spans_by_name.items()
        for place, part in (("inside", spans - between), ("between", spans & between))
    }


def _times_by_owner(
    rows: pl.DataFrame, owners: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    return {
        owner: tuple(fill_nulls(rows[f"{owner}_ps"], 0).tolist()) for owner in owners
    }


def _missing_and_topics(
    account: Account,
    rows: pl.DataFrame,
    topics: IdleTopics | Unavailable,
    device: int | None,
) -> tuple[dict[str, Unavailable], Mapping[str, Spans]]:
    """Return why times of causes or topics are unknown, and when topics occurred."""
    missing = {
        owner: why
        for owner, why in account.missing.items()
        if rows[f"{owner}_ps"].null_count()
    }
    if isinstance(topics, Unavailable):
        return missing | dict.fromkeys(TOPICS, topics), {}
    spans = {idle.device: idle.spans for idle in topics.devices}
    return missing | topics.missing, spans.get(device, {})


def _names_and_callers(
    parts: AccountParts | Unavailable, device: int | None
) -> tuple[tuple[NamedTime, ...], ...]:
    """Return the named parts of causes and topics, and the calling functions."""
    if isinstance(parts, Unavailable):
        return (), ()
    own = pl.col("device").eq_missing(pl.lit(device, pl.Int32))
    tables = (
        pl.concat([parts.rows, parts.topics]),
        parts.callers.with_columns(name="function"),
    )
    return tuple(
        tuple(NamedTime(**row) for row in rows.iter_rows(named=True))
        for rows in (table.filter(own).drop("device") for table in tables)
    )


def _step_numbers(steps: Steps | Unavailable, step_rows: pl.Series) -> tuple[int, ...]:
    """Return the step numbers; empty if any of the steps has no number."""
    if isinstance(steps, Unavailable):
        return ()
    numbers = steps.rows["step"].gather(step_rows)
    return () if numbers.null_count() else tuple(numbers)
