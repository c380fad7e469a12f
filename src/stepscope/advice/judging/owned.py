"""Rules about the time of some owners of the account: the steps that all of them take.

A rule looks whether its owners could be seen (`shares_of`), judges their time
(`judge_shares`), and makes its finding (`owned_finding`). A rule that needs nothing
between these calls `judge_owned`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.finding import Finding
from stepscope.advice.verdict import judge
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.judging.effect_status import NO_JUDGED_STEPS
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Place
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.judging.effect_status import StepSeries
    from stepscope.derive.judging.recorded_devices import DeviceSignals
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold, Thresholds

_TEXTS: Final = shared_texts("owned")

#: The signals that these functions ask for.
OWNED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    account_signals,
    device_signals,
    record_grade,
)


class Owned(Frozen, frozen=True, eq=True):
    """The time that a rule is about.

    Attributes:
        parts: Cause → its owners in the account, or topics of idle time.
        place: Where the time lies.
        device: Whether the rule is about a device that waits: without devices it does
            not apply, and without their record it cannot tell.
        host: Whether the rule is about runs on the host too: where none of a device's
            work was recorded and there may be one, it cannot tell.
        steps: Whether the rule needs steps.
        seen: Owners and topics that must have been looked at; without them it cannot
            tell.
        unknown: Whether time without an owner may belong to these owners, from
            `unexplained_warn` on.
        clocks: Whether differing clocks of host and device move the time.
        lost: Whether lost records of the device raise the time.
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
        """Return all owners and topics."""
        return tuple(owner for owners in self.parts.values() for owner in owners)

    def series(self, shares: StepShares, thresholds: Thresholds) -> StepSeries:
        """Return the time in each judged step, by cause."""
        unexplained = thresholds.unexplained_warn.value
        return shares.series(
            self.parts,
            place=self.place,
            unknown_from=unexplained if self.unknown else _NEVER,
            clocks=self.clocks,
            lost=self.lost,
        )


def judge_owned(
    item: Item,
    owned: Owned,
    signals: Signals,
    thresholds: Thresholds,
    *,
    warn: Threshold,
    critical: Threshold,
    **fields: Any,
) -> Finding:
    """Judge the time of some owners; `fields` are further fields of the finding."""
    shares = shares_of(item, owned, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    verdict = judge_shares(owned, shares, thresholds, warn=warn, critical=critical)
    return owned_finding(
        item,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        **fields,
    )


def shares_of(
    item: Item, owned: Owned, signals: Signals, thresholds: Thresholds
) -> StepShares | Finding:
    """Return the account that is judged, or the finding that says why there is none."""
    device = signals.of(device_signals)
    if owned.device and device.recorded == "host_only":
        return item.not_applicable(_TEXTS.reason("no_device"))
    found = signals.of(account_signals)
    if isinstance(found, Unavailable):
        return item.cannot_tell(found)
    if owned.device and not found.has_devices:
        return item.cannot_tell(device.reason or _TEXTS.reason("unseen"))
    shares = found.judged(*owned.owners, place=owned.place)
    why = _why_not(owned, shares, device, thresholds)
    return shares if why is None else item.cannot_tell(why)


def _why_not(
    owned: Owned, shares: StepShares, device: DeviceSignals, thresholds: Thresholds
) -> Unavailable | None:
    """Return what hinders a verdict about these shares; None where nothing does."""
    if owned.host and shares.device is None and device.recorded != "host_only":
        return device.reason or _TEXTS.reason("unseen")
    if owned.steps and shares.step_confidence < thresholds.medium_confidence.value:
        return NO_JUDGED_STEPS
    unseen = (one for one in owned.seen if one in shares.missing)
    return next((shares.missing[one] for one in unseen), None)


def judge_shares(
    owned: Owned,
    shares: StepShares,
    thresholds: Thresholds,
    *,
    warn: Threshold,
    critical: Threshold,
) -> Verdict:
    """Judge the time of some owners in each judged step."""
    series = owned.series(shares, thresholds)
    return judge(series, warn=warn, critical=critical, thresholds=thresholds)


def owned_finding(
    item: Item,
    owned: Owned,
    signals: Signals,
    *,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
    warn: Threshold,
    **fields: Any,
) -> Finding:
    """Make the finding: devices, named parts and evidence are those of the owners."""
    found = signals.of(account_signals)
    owners, place = owned.owners, owned.place
    own = {
        "owners": tuple(one for one in owners if one not in TOPICS),
        "topics": tuple(one for one in owners if one in TOPICS),
        "place": place,
        "devices": ()
        if isinstance(found, Unavailable)
        else found.ranked(*owners, place=place),
        "parts": shares.parts(*owners, place=place),
        "evidence": shares.evidence(*owners, place=place),
        "inputs": ("account", "account_parts"),
        "stepped": shares.step_source is not None,
    }
    return item.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        **(own | fields),
    )


#: Beyond any share.
_NEVER: Final = 101.0
