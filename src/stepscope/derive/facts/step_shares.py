"""The account of a step's time, as rules read it: owners by judged step, and names."""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.account.topics import TOPICS
from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import SHOWN, Evidence, Part, longest_intervals
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.derive.judging.recorded_devices import judged_device, working_time_ps
from stepscope.derive.names.system_calls import SYSTEM_CALLS
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.step_time.host_time import (
    BUSY_OWNERS,
    IDLE_OWNERS,
    OWNERS,
    PLACES,
)
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.account.parts import AccountParts
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

_SYSTEM_CALL: Final = Pattern(SYSTEM_CALLS["SYSTEM_CALL"])
#: An interval of less than this share of the longest one shows nothing more.
_WORTH_A_LOOK: Final = 0.01
_NO_WINDOW: Final = Unavailable(
    code="NO_STEPS",
    reason="The recording holds no window.",
    remedy="Record a window in which the program runs.",
)


class NamedTime(Frozen, frozen=True):
    """A part of an owner's time, by name.

    Attributes:
        place: "inside" or "between".
        name: What ran or was waited for; None where nobody named it.
        detail: What most of it is, next to the name; None for nothing.
        function: The function, where the name is one.
        loop: Whether the function runs around steps: it is none of their work.
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


class StepShares(Frozen, frozen=True):
    """The account of one device, or of a host without one, over its judged steps.

    Attributes:
        device: Ordinal of the device; None for the step threads of a run without
            devices.
        step_source: Where the steps come from; None where the whole profile is one
            window.
        step_confidence: 0 to 1; 0 without steps.
        closed: Whether each judged window ends where the next step starts.
        window_ps: Length of each judged window.
        inside_ps: Owner → its time in each window, while a step's own work goes on.
            Topics stand next to the owners whose time they are parts of.
        between_ps: Owner of idle time, or topic → its time in each window between the
            steps.
        missing: Owner or topic → why its time is unknown.
        working_ps: Time in which the device computed or copied by itself; it decides
            which device is judged.
        names: The parts of the idle owners, and of the topics, by name, most time
            first.
        callers: Functions of the program that call most of an idle owner's time at a
            place.
        gaps: Number of intervals that end with a late launch.
        clock_error_ps: How far the clocks of host and device differ.
        lost_ps: Device time that lost records may stand for.
        ranges: (owner or topic, place) → its longest intervals in all judged windows.
        numbers: Number of the step of each window; empty where steps have none.
        held: (topic, owner, place) → what of the owner's time is the topic's, in all
            judged windows.
    """

    host: str
    device: int | None
    step_source: str | None
    step_confidence: float
    closed: bool
    window_ps: tuple[int, ...]
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
        """Return `host:device`, or the host where there is no device."""
        return self.host if self.device is None else f"{self.host}:{self.device}"

    @property
    def total_ps(self) -> int:
        """Return the length of all judged windows."""
        return sum(self.window_ps)

    @property
    def clock_doubt_ps(self) -> int:
        """Return the time that may be somebody else's because clocks differ.

        Each interval that ends with a late launch may be so much longer or shorter, and
        where none was found there may be one in each window.
        """
        return self.clock_error_ps * max(self.gaps, len(self.window_ps))

    def times(self, *owners: str, place: str = "any") -> tuple[int, ...]:
        """Return the time of some owners in each window."""
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
        """Return the share of some owners in the time of all judged windows."""
        total = self.total_ps
        return 100 * sum(self.times(*owners, place=place)) / total if total else 0.0

    def held_percent(
        self, owner: str, topics: Collection[str], *, place: str = "any"
    ) -> float:
        """Return what of an owner's time is that of some topics, in percent."""
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
        unknown_from: float,
        clocks: bool = False,
        lost: bool = False,
    ) -> StepSeries:
        """Return the effect that the time of some owners is.

        Args:
            parts: Cause → its owners.
            unknown_from: Share of time without an owner, in percent, from which it is
                doubted that nothing of it belongs to these owners. It is always
                doubted where an owner's time is unknown.
            clocks: Whether differing clocks of host and device move the effect.
            lost: Whether lost records of the device raise the effect.
        """
        owners = [owner for found in parts.values() for owner in found]
        unknown = sum(self.times("unexplained", place=place))
        # Without a device none of the time can be a device's.
        nowhere = BUSY_OWNERS if self.device is None else ()
        blind = any(one in self.missing and one not in nowhere for one in owners)
        dark = self.percent("unexplained", place=place) >= unknown_from
        return StepSeries(
            step_source=self.step_source,
            step_confidence=self.step_confidence,
            closed=self.closed,
            window_ps=self.window_ps,
            parts_ps={
                cause: self.times(*found, place=place) for cause, found in parts.items()
            },
            unknown_ps=unknown if blind or dark else 0,
            doubt_ps=self.clock_doubt_ps if clocks else 0,
            excess_ps=self.lost_ps if lost else 0,
        )

    def named(self, *owners: str, place: str = "any") -> tuple[NamedTime, ...]:
        """Return the parts of some owners by name, most time first."""
        return tuple(
            part
            for part in self.names
            if part.owner in owners and place in ("any", part.place)
        )

    def host_ops_lead(self) -> bool:
        """Return whether the host's own work is mostly ops, not functions."""
        work = self.named("host_compute")
        functions = sum(part.time_ps for part in work if part.function is not None)
        return 2 * functions <= sum(part.time_ps for part in work)

    def system_calls_lead(self) -> bool:
        """Return whether the host's own work is mostly calls of the system."""
        work = self.named("host_compute")
        calls = sum(
            part.time_ps
            for part in work
            if part.file is None and _SYSTEM_CALL.match(part.function or "")
        )
        return 2 * calls > sum(part.time_ps for part in work)

    def parts(self, *owners: str, place: str = "any") -> tuple[Part, ...]:
        """Return the largest named parts of some owners."""
        groups: dict[tuple[str, str | None, str | None, int | None], list[NamedTime]]
        groups = {}
        for part in self.named(*owners, place=place):
            if part.name is not None:
                key = (part.name, part.function, part.file, part.line)
                groups.setdefault(key, []).append(part)
        times = {key: sum(part.time_ps for part in groups[key]) for key in groups}
        largest = sorted(times, key=times.__getitem__, reverse=True)[:SHOWN]
        # Most of a function is named only where it is most of all that is merged.
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
        """Return the program's function that calls most of some owners' time."""
        called: dict[tuple[str, str | None, int | None], int] = {}
        for part in self.callers:
            if part.owner in owners and place in ("any", part.place) and part.function:
                key = (part.function, part.file, part.line)
                called[key] = called.get(key, 0) + part.time_ps
        most = max(called.values(), default=0)
        if not most or 2 * most < sum(self.times(*owners, place=place)):
            return None
        function, file, line = max(called, key=called.__getitem__)
        return Part(
            name=function,
            function=function,
            file=file,
            line=line,
            share_percent=100 * most / self.total_ps,
        )

    def evidence(self, *owners: str, place: str = "any") -> tuple[Evidence, ...]:
        """Return the longest intervals of some owners that are worth a look."""
        ranges = [
            (end - start, start, owner, where)
            for (owner, where), intervals in self.ranges.items()
            if owner in owners and place in ("any", where)
            for start, end in intervals
        ]
        ranges.sort(key=lambda span: (-span[0], span[1]))
        least = _WORTH_A_LOOK * ranges[0][0] if ranges else 0
        return tuple(
            Evidence(
                host=self.host,
                device=self.device,
                track=None,
                start_ps=start,
                end_ps=start + dur,
                ops=tuple(
                    part.name for part in self.named(owner, place=where) if part.name
                )[:1],
            )
            for dur, start, owner, where in ranges[:SHOWN]
            if dur >= least
        )


class AccountSignals(Frozen, frozen=True):
    """The account of every device of every host, or of the hosts themselves.

    Attributes:
        shares: One per device, or per host without devices.
    """

    shares: tuple[StepShares, ...]

    @property
    def has_devices(self) -> bool:
        """Whether the work of a device could be looked at."""
        return any(share.device is not None for share in self.shares)

    def judged(self, *owners: str, place: str = "any") -> StepShares:
        """Return the busiest device; else the host with most of an effect."""
        return judged_device(self.shares, lambda one: one.percent(*owners, place=place))

    def shares_of_label(self, label: str) -> StepShares:
        """Return the account of a device, or host, by its label."""
        return next(share for share in self.shares if share.label == label)

    def ranked_labels(self, *owners: str, place: str = "any") -> tuple[str, ...]:
        """Return the labels: the judged one, then by their share of some owners."""
        first = self.judged(*owners, place=place)
        others = sorted(
            (one for one in self.shares if one is not first),
            key=lambda one: (-one.percent(*owners, place=place), one.label),
        )
        return (first.label, *(one.label for one in others))


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
    """Read the account of the measured windows of each device; an outlier counts."""
    # An outlier is judged, too.
    rows, between = map(windows.rows_of_measured, (account.rows, account.between))
    return tuple(
        _shares_of_device(
            trace.host,
            device,
            rows=rows,
            between=between,
            account=account,
            parts=account_parts,
            topics=idle_topics,
            facts=launch_facts,
            steps=steps,
            windows=windows,
        )
        for device in rows["device"].unique().sort()
    )


@of_run
def account_signals(
    *, step_shares: OfHosts[tuple[StepShares, ...]]
) -> AccountSignals | Unavailable:
    """Read the account of the measured windows of every host."""
    shares = [share for each in known_hosts(step_shares).values() for share in each]
    if not shares:
        return first_reason(step_shares) or _NO_WINDOW
    return AccountSignals(tuple(shares))


def _shares_of_device(
    host: str,
    device: int | None,
    *,
    rows: pl.DataFrame,
    between: pl.DataFrame,
    account: Account,
    parts: AccountParts | Unavailable,
    topics: IdleTopics | Unavailable,
    facts: LaunchFacts | Unavailable,
    steps: Steps | Unavailable,
    windows: Windows,
) -> StepShares:
    of_device = pl.col("device").eq_missing(pl.lit(device, pl.Int32))
    rows, between = rows.filter(of_device), between.filter(of_device)
    between_ps = _times_by_owner(between, IDLE_OWNERS)
    times_ps = _times_by_owner(rows, [owner.name for owner in OWNERS])
    missing, topic_spans = _missing_and_topics(account, rows, topics, device)
    names, callers = _names_and_callers(parts, device)
    calls = None if isinstance(facts, Unavailable) or device is None else facts
    (instants,) = (
        accounted for accounted in account.devices if accounted.device == device
    )
    of_windows = windows.rows[rows["window"].to_list()]
    starts, ends = ints(of_windows, "start_ps"), ints(of_windows, "end_ps")
    judged = Spans.from_events(starts, ends - starts)
    idle = {owner: spans & judged for owner, spans in instants.idle.items()}
    # What an owner that is not known would have is not explained.
    idle["unexplained"] = Spans.union_of(
        spans
        for owner, spans in idle.items()
        if owner == "unexplained" or owner in account.missing
    )
    done = {topic: spans & judged for topic, spans in topic_spans.items()}
    placed = _spans_by_place(idle | done, instants.between)
    inside, out_of_steps = (
        {
            topic: tuple(placed[topic, place].within(starts, ends).tolist())
            for topic in done
        }
        for place in PLACES
    )
    return StepShares(
        host=host,
        device=device,
        step_source=None if isinstance(steps, Unavailable) else steps.source,
        step_confidence=0.0 if isinstance(steps, Unavailable) else steps.confidence,
        closed=not windows.measured["open_end"].all(),
        window_ps=tuple(rows["window_ps"].to_list()),
        inside_ps={
            owner: tuple(map(sub, times, between_ps[owner]))
            if owner in between_ps
            else times
            for owner, times in times_ps.items()
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
            key: tuple(longest_intervals(spans))
            for key, spans in placed.items()
            if spans
        },
        numbers=_step_numbers(steps, of_windows["step_row"]),
        bounds=tuple(zip(starts.tolist(), ends.tolist(), strict=True)),
        held={
            (topic, owner, place): part.length_ps
            for topic in done
            for owner in idle
            for place in PLACES
            if (part := placed[topic, place] & placed[owner, place])
        },
    )


def _spans_by_place(
    spans_by_name: Mapping[str, Spans], between: Spans
) -> dict[tuple[str, str], Spans]:
    """Divide spans into what lies inside steps and what lies between them."""
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
    """Return why owners and topics are unknown, and the spans of each topic."""
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
    """Return the parts of owners and topics by name, and the functions that call."""
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
    """Return the numbers of the steps of some windows; none where any has none."""
    if isinstance(steps, Unavailable):
        return ()
    numbers = steps.rows["step"].gather(step_rows)
    return () if numbers.null_count() else tuple(numbers)
