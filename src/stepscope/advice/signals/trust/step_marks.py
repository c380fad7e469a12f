"""Where the steps come from, what they leave out, and when each host began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.inference.requests import requests
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import step_candidates, steps
from stepscope.frozen import Frozen
from stepscope.trace.quality import ENDED_EARLY
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class Tried(Frozen, frozen=True):
    """A way in which a host's recording could be divided into steps.

    Attributes:
        what: What repeats, in words.
        count: Number of steps that it gives.
        confidence: 0 to 1.
    """

    what: str
    count: int
    confidence: float


class HostSteps(Frozen, frozen=True):
    """The steps of one host.

    Attributes:
        source: Where they come from; null where there are none.
        confidence: 0 to 1; 0 without steps.
        count: Number of steps.
        anchor: Whose times begin the windows; null without any.
        period_ps: Median length of a judged window; null without steps.
        left_out: Flag → number of windows that are in no mean because of it.
        tried: What was tried, the surest first.
        requests: Number of requests that the program served.
        outside_percent: Where the batch is fetched outside the markers, the share of
            that waiting in the time of all steps; null where it is not, or unknown.
        begins_ns: When the first step began, since 1970; null where no clock tells.
        early_end: That the program ended before its first step, and with what; null
            where it did not, or nobody noted it.
        recorded_ps: How long was recorded.
    """

    source: str | None
    confidence: float
    count: int
    anchor: str | None
    period_ps: int | None
    left_out: dict[str, int]
    tried: tuple[Tried, ...]
    requests: int
    outside_percent: float | None
    begins_ns: int | None
    early_end: str | None = None
    recorded_ps: int = 0


@signal("quality", step_candidates, steps, windows, input_between_steps, requests)
def step_signals(
    profile: ProfileData, _: Thresholds
) -> dict[str, HostSteps] | Unavailable:
    """Look at the steps of every host."""
    found: dict[str, HostSteps] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        candidates = profile.derived(host, step_candidates)
        if isinstance(candidates, Unavailable):
            reasons.append(candidates)
            continue
        chosen = profile.derived(host, steps)
        placed = profile.derived(host, windows)
        tried = sorted(
            (one.candidate for one in candidates.found),
            key=lambda one: (not one.accepted, -one.confidence),
        )
        served = profile.derived(host, requests)
        stepped = not isinstance(chosen, Unavailable)
        rows = None if isinstance(placed, Unavailable) else placed.rows
        found[host] = HostSteps(
            source=None if isinstance(chosen, Unavailable) else chosen.source,
            confidence=0.0 if isinstance(chosen, Unavailable) else chosen.confidence,
            count=0 if isinstance(chosen, Unavailable) else chosen.rows.height,
            anchor=None if isinstance(placed, Unavailable) else placed.anchor,
            period_ps=None
            if isinstance(placed, Unavailable) or not stepped
            else _period(placed.measured),
            left_out={} if rows is None else _left_out(rows),
            tried=tuple(Tried(one.what, one.n, one.confidence) for one in tried),
            requests=0 if isinstance(served, Unavailable) else served.rows.height,
            outside_percent=_outside(profile, host),
            begins_ns=_begins(profile, host, rows if stepped else None),
            early_end=_early_end(profile, host),
            recorded_ps=_recorded(profile, host),
        )
    if reasons and not found:
        return reasons[0]
    return found


def _period(rows: pl.DataFrame) -> int | None:
    median = rows.select((pl.col("end_ps") - pl.col("start_ps")).median()).item()
    return None if median is None else int(median)


def _left_out(rows: pl.DataFrame) -> dict[str, int]:
    flags = rows.filter(~pl.col("open_end"))["flags"].explode().drop_nulls()
    counts = flags.value_counts().sort(flags.name)
    return dict(counts.iter_rows())


def _outside(profile: ProfileData, host: str) -> float | None:
    found = profile.derived(host, input_between_steps)
    if isinstance(found, Unavailable) or found is None or not found.outside:
        return None
    return 100 * found.wait_ps / found.covered_ps if found.covered_ps else None


def _begins(profile: ProfileData, host: str, rows: pl.DataFrame | None) -> int | None:
    environment = profile.table(host, "environment")
    if isinstance(environment, Unavailable) or rows is None or not rows.height:
        return None
    start = environment["start_unix_ns"].to_list()[0]
    first = rows["start_ps"].to_list()[0]
    return None if start is None else int(start) + first // PS_PER_NS


def _early_end(profile: ProfileData, host: str) -> str | None:
    notes = profile.trace(host).quality_notes()
    return next((it.message for it in notes if it.kind == ENDED_EARLY), None)


def _recorded(profile: ProfileData, host: str) -> int:
    environment = profile.table(host, "environment")
    if isinstance(environment, Unavailable) or not environment.height:
        return 0
    begin, end = environment.select("begin_ps", "end_ps").row(0)
    return 0 if begin is None or end is None else int(end) - int(begin)
