"""An item of the checklist: what a rule is called, what it says, and what to change.

A rule makes its findings through its item, so that each carries the same name, title,
stage, doubts and actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.calibration import is_calibrated
from stepscope.advice.finding import Finding
from stepscope.derive.facts.evidence import Fact
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Status
    from stepscope.advice.verdict import Verdict
    from stepscope.advice.words import Words
    from stepscope.thresholds import Threshold
    from stepscope.unavailable import Unavailable

_US_PER_MS: Final = 1000


class Item(Frozen, frozen=True, eq=True):
    """One item of the checklist.

    Attributes:
        id: Stable name, `topic.matter`.
        stage: 0 capture, 1 input, 2 gaps, 3 device use, 4 placement and copies,
            5 kernels, 6 mixed precision, 7 compilation, 8 several devices, 9 memory
            and run.
        title: What is the matter when it fails.
        words: The sentences about its findings.
        pages: Tools that show the numbers it rests on, the most useful first.
        confirm: How to confirm a fail.
        refute: What would prove a fail wrong.
        floors: Limits of the saving.
        actions: What to change when it fails.
        explains: Ids of broader items whose time this one accounts for where it fails
            with most of theirs.
        of_frameworks: Whether it is about ops or memory of frameworks, so that a
            program without any has nothing that could fail.
    """

    id: str
    stage: int
    title: str
    words: Words
    pages: tuple[str, ...]
    confirm: str | None = None
    refute: str | None = None
    floors: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    explains: tuple[str, ...] = ()
    of_frameworks: bool = False

    def finding(self, status: Status, **fields: Any) -> Finding:
        """Make a finding; only one that fails carries evidence, doubts and actions.

        Args:
            status: What the rule found.
            fields: Other fields of the finding; those given replace the item's own.
        """
        if status == "fail":
            own = {
                "confirm": self.confirm,
                "refute": self.refute,
                "floors": self.floors,
                "actions": self.actions,
            }
            fields = own | fields
        else:
            fields.pop("evidence", None)
        return Finding(
            id=self.id,
            title=self.title,
            stage=self.stage,
            calibrated=is_calibrated(self.id),
            status=status,
            **fields,
        )

    def cannot_tell(self, why: Unavailable) -> Finding:
        """Make the finding of a rule whose inputs are not there."""
        return self.finding("cannot_tell", unavailable=why)

    def not_applicable(self, why: Unavailable) -> Finding:
        """Make the finding of a rule whose topic is absent, with proof."""
        return self.finding("not_applicable", unavailable=why)

    def judged(
        self,
        verdict: Verdict,
        *,
        grade: float,
        threshold: Threshold,
        smallest: Threshold,
        stepped: bool = True,
        facts: tuple[Fact, ...] = (),
        note: str | None = None,
        **fields: Any,
    ) -> Finding:
        """Make the finding of a verdict about time per step.

        Args:
            verdict: What the steps say.
            grade: How far the record can be trusted, 0 to 1.
            threshold: The number that the share was compared with.
            smallest: The time below which it never fails.
            stepped: Whether there are steps that times can be given for.
            facts: Other numbers worth showing.
            note: What qualifies the verdict, where it is not the verdict's own note.
            fields: Other fields of the finding.
        """
        effect = verdict.effect_ms
        saves = verdict.status == "fail" and stepped
        own = {
            "severity": verdict.severity,
            "note": note or verdict.note,
            "confidence": min(verdict.confidence, grade),
            "value": verdict.share_percent,
            "share_percent": verdict.share_percent,
            "pattern": verdict.pattern,
            "ms_per_step": effect if stepped else None,
            "threshold": threshold,
            "steps_hit": verdict.pattern.steps_hit if stepped else None,
            "steps_clean": verdict.pattern.steps if stepped else None,
            "causes": verdict.causes,
            "facts": (
                *facts,
                Fact(name="effect", value=effect * _US_PER_MS, unit="us"),
                Fact(
                    name="smallest_effect",
                    value=smallest.value / PS_PER_US,
                    unit="us",
                ),
            ),
            "unavailable": verdict.unavailable,
            "saving_ms": verdict.pattern.promise(effect) if saves else None,
        }
        return self.finding(verdict.status, **(own | fields))
