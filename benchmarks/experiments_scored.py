"""What a report said of runs with faults, against what was planted and measured."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from judged_recordings import Said

Outcome = Literal["named", "silent", "wrong"]
Side = Literal["inside", "below", "above"]


@dataclass(frozen=True)
class Gain:
    """What undoing a fault gained per step by the program's own clock.

    Attributes:
        measured_ms: The mean of the steps with the fault less those of its twin.
        low_ms: What the report promised at least.
        high_ms: What it promised at most.
        doubt_ms: By how much chance may have moved what was measured.
        open_above: Whether the report said that it may be more.
    """

    measured_ms: float
    low_ms: float
    high_ms: float
    doubt_ms: float = 0.0
    open_above: bool = False

    @property
    def side(self) -> Side:
        """Where the measured gain lies, seen from the promised range."""
        if self.measured_ms < self.low_ms:
            return "below"
        more = self.measured_ms > self.high_ms
        return "above" if more and not self.open_above else "inside"

    @property
    def may_be_inside(self) -> bool:
        """Whether it lies inside, or no farther from it than its doubt."""
        if self.side == "above":
            return self.measured_ms <= self.high_ms + self.doubt_ms
        return self.measured_ms >= self.low_ms - self.doubt_ms

    @property
    def width(self) -> float | None:
        """The high end as a multiple of the low one; None without such an end."""
        ends = self.low_ms > 0 and not self.open_above
        return self.high_ms / self.low_ms if ends else None


@dataclass(frozen=True)
class Score:
    """How often the report was right.

    Attributes:
        named: Faults that it named first.
        silent: Faults that it said nothing of.
        wrong: Faults where something else was blamed.
        false_alarms: Twins of which something was blamed.
    """

    named: int
    silent: int
    wrong: int
    false_alarms: int

    @property
    def precision(self) -> float | None:
        """The share of what was blamed that was planted; None where nothing was."""
        blamed = self.named + self.wrong + self.false_alarms
        return self.named / blamed if blamed else None

    @property
    def recall(self) -> float | None:
        """The share of what was planted that was named; None where nothing was."""
        faults = self.named + self.silent + self.wrong
        return self.named / faults if faults else None


def outcome(name: str, said: Said) -> Outcome:
    """Judge what was said of a planted fault.

    It is named where the first sentence contains its name or is about the rule of that
    name; wrong where it is not named and a finding fails.

    Args:
        name: Name of the planted function or op, or id of the rule for the fault.
        said: What the report said.
    """
    if name in said.text or name == said.finding:
        return "named"
    return "wrong" if said.failing else "silent"


def score(outcomes: Sequence[Outcome], twins: Iterable[Said]) -> Score:
    """Count outcomes of faults, and twins of which something was blamed."""
    return Score(
        named=outcomes.count("named"),
        silent=outcomes.count("silent"),
        wrong=outcomes.count("wrong"),
        false_alarms=sum(bool(one.failing) for one in twins),
    )


def gained(
    steps_ms: Sequence[float],
    before_ms: Sequence[float],
    after_ms: Sequence[float],
    hit: Sequence[bool] | None = None,
    often: float = 1.0,
) -> tuple[float, float]:
    """Return the mean gain of a step and its doubt: twice its standard error.

    The twin's two turns count equally, so that a machine that slowly gets faster or
    slower moves nothing; how far they differ is a part of the doubt.

    Args:
        steps_ms: Steps of the program with the fault.
        before_ms: Steps of its twin before them.
        after_ms: Steps of its twin after them.
        hit: In which of the first ones the fault happens; None for all. That only some
            are hit is no doubt.
        often: How much more often the fault is in the recorded steps than in these.
    """
    turns = (before_ms, after_ms)
    twin_ms = statistics.mean(map(statistics.mean, turns))
    kinds = [True] * len(steps_ms) if hit is None else hit
    groups = [
        [it for it, is_hit in zip(steps_ms, kinds, strict=True) if is_hit is kind]
        for kind in {*kinds}
    ]
    taken = [*before_ms, *after_ms]
    error = _variance(groups) / len(steps_ms) + _variance([taken]) / len(taken)
    gain = statistics.mean(steps_ms) - twin_ms
    return often * gain, 2 * often * math.sqrt(error)


def _variance(groups: Sequence[Sequence[float]]) -> float:
    """Return the variance within groups."""
    within = sum(statistics.pvariance(group) * len(group) for group in groups)
    return within / (sum(map(len, groups)) - len(groups))


def inside(gains: Sequence[Gain]) -> float | None:
    """Return the share of gains that lie inside their ranges; None without any."""
    if not gains:
        return None
    return sum(one.side == "inside" for one in gains) / len(gains)


def median_width(gains: Sequence[Gain]) -> float | None:
    """Return the median width of the ranges; None where none has a width."""
    widths = [one.width for one in gains if one.width is not None]
    return statistics.median(widths) if widths else None
