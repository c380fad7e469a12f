"""Lost time of each step with its verdict, from which rules create a finding.

Several rules judge the time that has certain causes (owners): `owned_shares` checks
that the causes are recorded, `judge_owned` judges their time, and `OwnedTime.finding`
returns the finding.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.lost_time_verdict import judge
from stepscope.advice.signals import CannotTell, NotApplicable
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.verdicts.effect_status import NO_JUDGED_STEPS
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding, Place
    from stepscope.advice.item import Item
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.derive.verdicts.effect_status import StepSeries

_TEXTS: Final = shared_texts("owned")
_US_PER_MS: Final = 1000

#: Signals that the functions of this module read.
OWNED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    account_signals,
    device_signals,
    record_grade,
)


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


class Owned(Frozen, frozen=True, eq=True):
    """The time that a rule judges, by its causes.

    Attributes:
        parts: The rule's cause → owners of the time, or kinds of host work (topics).
        place: Where the time is, relative to steps.
        device: Whether the rule is about a waiting device: it does not apply to
            programs without a device, and has no verdict if device work was not
            recorded.
        host: Whether the rule also applies to programs without a device; it has no
            verdict if a device may exist whose work was not recorded.
        steps: Whether the rule needs steps.
        seen: Owners and topics that must be measured for a verdict.
        unknown: Whether unexplained time, from `unexplained_warn` on, may belong to
            these causes.
        clocks: Whether the time is wrong if the clocks of host and device differ.
        lost: Whether the time is too long if records of the device were lost.
    """

    parts: Mapping[str, tuple[str, ...]]
    place: Place = "any"
    device: bool = False
    host: bool = False
    steps: bool = False
    seen: tuple[str, ...] = ()
    unknown: bool = True
    clocks: bool = False
    lost: bool = False

    @property
    def owners(self) -> tuple[str, ...]:
        """All causes (owners) and kinds of host work (topics) of the rule."""
        return tuple(owner for owners in self.parts.values() for owner in owners)

    def series(self, shares: StepShares) -> StepSeries:
        """Return the time in each judged step, by cause."""
        unexplained = THRESHOLDS.unexplained_warn.value
        return shares.series(
            self.parts,
            place=self.place,
            unknown_from=unexplained if self.unknown else inf,
            clocks=self.clocks,
            lost=self.lost,
            of_steps=self.device,
        )


class OwnedTime(JudgedSeries, frozen=True, kw_only=True):
    """Judged time with certain causes, from which a rule creates its finding."""

    owned: Owned
    shares: StepShares

    def finding(self, **fields: Any) -> Finding:
        """Return the finding, with devices, named parts and evidence of the time.

        Args:
            fields: Fields that replace those of the finding.
        """
        owners, place = self.owned.owners, self.owned.place
        own = {
            "owners": tuple(owner for owner in owners if owner not in TOPICS),
            "topics": tuple(owner for owner in owners if owner in TOPICS),
            "place": place,
            "devices": self.signals.needed(account_signals).ranked_labels(
                *owners, place=place
            ),
            "parts": self.shares.parts(*owners, place=place),
            "evidence": self.shares.evidence(*owners, place=place),
            "inputs": ("account", "account_parts"),
        }
        return super().finding(**(own | fields))


def judge_owned(
    item: Item,
    owned: Owned,
    signals: Signals,
    *,
    shares: StepShares | None = None,
    series: StepSeries | None = None,
) -> OwnedTime:
    """Judge the time with certain causes in each judged step.

    Args:
        shares: The breakdown of step time, if the rule has already read it.
        series: The series to judge; None for all time that `owned` describes.
    """
    shares = shares or owned_shares(owned, signals)
    series = series or owned.series(shares)
    judged = judge_series(item, signals, series)
    return OwnedTime(**msgspec.structs.asdict(judged), owned=owned, shares=shares)


def owned_shares(owned: Owned, signals: Signals) -> StepShares:
    """Return the breakdown of step time to judge.

    Raises:
        NoVerdict: There is no breakdown to judge.
    """
    device = signals.of(device_signals)
    if owned.device and device.recorded == "host_only":
        raise NotApplicable(_TEXTS.reason("no_device"))
    account = signals.needed(account_signals)
    why_missing = device.reason or _TEXTS.reason("unseen")
    if owned.device and not account.has_devices:
        raise CannotTell(why_missing)
    shares = account.judged(*owned.owners, place=owned.place)
    if owned.host and shares.device is None and device.recorded != "host_only":
        raise CannotTell(why_missing)
    if owned.steps and shares.step_confidence < THRESHOLDS.medium_confidence.value:
        raise CannotTell(NO_JUDGED_STEPS)
    for owner in owned.seen:
        if owner in shares.missing:
            raise CannotTell(shares.missing[owner])
    return shares
