"""The lost time of each step with its verdict, from which rules create a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from stepscope.advice.lost_time_verdict import judge
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.verdicts.effect_status import StepSeries

_US_PER_MS: Final = 1000


class JudgedSeries(Frozen, frozen=True, kw_only=True):
    """The lost time of each step with its verdict.

    Attributes:
        has_steps: Whether times per step are known.
    """

    item: Item
    signals: Signals
    has_steps: bool
    verdict: Verdict

    @property
    def failed(self) -> bool:
        """Whether the lost time is long enough for the rule to fail."""
        return self.verdict.status == "fail"

    def with_verdict(self, **changes: Any) -> Self:
        """Return a copy with some fields of the verdict replaced."""
        verdict = msgspec.structs.replace(self.verdict, **changes)
        return msgspec.structs.replace(self, verdict=verdict)

    def finding(
        self, *, facts: tuple[Fact, ...] = (), note: str | None = None, **fields: Any
    ) -> Finding:
        """Return the finding.

        Args:
            facts: Numbers to show in addition to the lost time.
            note: Qualification of the verdict; None for the verdict's own note.
            fields: Fields of the finding that replace the fields of the verdict.
        """
        verdict, has_steps = self.verdict, self.has_steps
        effect = verdict.effect_ms
        # What was seen of lost time that cannot be told is not its share.
        share = None if verdict.status == "cannot_tell" else verdict.share_percent
        smallest = THRESHOLDS.smallest_effect.value / PS_PER_US
        own = {
            "severity": verdict.severity,
            "note": note or verdict.note,
            "confidence": min(verdict.confidence, self.signals.of(record_grade)),
            "value": share,
            "share_percent": share,
            "pattern": verdict.pattern,
            "ms_per_step": effect if has_steps and share is not None else None,
            "threshold": self.item.levels[0],
            "steps_hit": verdict.pattern.steps_hit if has_steps else None,
            "steps_clean": verdict.pattern.steps if has_steps else None,
            "causes": verdict.causes,
            "facts": (
                *facts,
                Fact(name="effect", value=effect * _US_PER_MS, unit="us"),
                Fact(name="smallest_effect", value=smallest, unit="us"),
            ),
            "unavailable": verdict.unavailable,
            "saving_ms": Saving(high=effect) if self.failed and has_steps else None,
        }
        return self.item.finding(verdict.status, **(own | fields))


def judge_series(
    item: Item, signals: Signals, series: StepSeries, *, has_steps: bool | None = None
) -> JudgedSeries:
    """Judge the lost time of each step by the thresholds of a rule.

    Args:
        has_steps: Whether times per step are known; None to read it from the series.
    """
    return JudgedSeries(
        item=item,
        signals=signals,
        has_steps=series.step_source is not None if has_steps is None else has_steps,
        verdict=judge(series, item.levels),
    )
