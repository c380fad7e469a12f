"""From a profile to the ordered list of findings.

Definition: docs/definitions/judging.md#order-of-findings.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.headline import MIN_SIMILAR_RATIO, are_slow_steps
from stepscope.advice.judging.program_facts import headroom_fact
from stepscope.advice.lost_time_verdict import mark_epoch_bursts
from stepscope.advice.predicted_gains import predict_gain
from stepscope.advice.registry import RULES
from stepscope.advice.signals import Signals
from stepscope.advice.step_predictions import predict_actions
from stepscope.derive.facts.devices.launching import queue_signals
from stepscope.derive.facts.devices.small_work import small_ops
from stepscope.derive.facts.hosts.callbacks import called_back
from stepscope.derive.facts.hosts.function_divisions import function_divisions
from stepscope.derive.facts.hosts.worker_processes import (
    loader_workers,
    machine_cores,
    worker_ops,
    worker_time,
)
from stepscope.derive.facts.judged_steps import epoch_starts
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, PLACES
from stepscope.derive.step_windows.windows import NOTHING_RECORDED
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item, Rule
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.profile_data import ProfileData

#: Derivations that few rules need; each is computed only when a rule reads it.
_RARELY_READ: Final = frozenset(
    {
        *(called_back, collected_by_hand, epoch_starts, function_divisions),
        loader_workers,
        *(machine_cores, queue_signals, small_ops, worker_ops, worker_time),
    }
)
#: Derivations that the rules read, without the rarely read ones.
DERIVATIONS: Final = tuple(
    it
    for it in dict.fromkeys(
        (*(it for rule in RULES for it in rule.reads), account_signals, replay_signals)
    )
    if it not in _RARELY_READ
)


def signals_of(profile: ProfileData) -> Signals:
    """Return the signals of a profile; a missing signal has a reason."""
    return Signals(profile.of_run)


def evaluate(signals: Signals) -> tuple[Finding, ...]:
    """Run every rule, and return the findings in the order in which to act on them."""
    accounted = signals.of(account_signals)
    if accounted == NOTHING_RECORDED:
        # If no event was recorded, every rule gives the reason for that as its answer.
        return mark_stage_order(
            rule.item.cannot_tell(NOTHING_RECORDED) for rule in RULES
        )
    plain = signals.of(frameworks_used) == PLAIN
    findings = {
        rule.item.id: rule.item.not_applicable(
            shared_texts("judging").reason("no_framework")
        )
        if plain and rule.item.of_frameworks
        else mark_epoch_bursts(
            add_memory_warning(rule.evaluate(signals), rule.item, signals), signals
        )
        for rule in RULES
    }
    of_devices = () if isinstance(accounted, Unavailable) else accounted.shares
    shares = {of_device.label: of_device for of_device in of_devices}
    marked = mark_explained_findings(findings, shares).values()
    return mark_stage_order(
        predict_actions(predict_gain(finding, signals), signals) for finding in marked
    )


def add_memory_warning(finding: Finding, item: Item, signals: Signals) -> Finding:
    """Add a warning after advice to compile if a device's memory is nearly full."""
    places = [
        place
        for place, action in enumerate(finding.actions, 1)
        if action.id in item.compiling
    ]
    if not places or headroom_fact(signals) != "memory_full":
        return finding
    warnings = shared_texts("judging").chosen("watch_memory", "compile_at_level_one")
    before, after = finding.actions[: places[-1]], finding.actions[places[-1] :]
    return replace(finding, actions=(*before, *warnings, *after))


def mark_explained_findings(
    findings: Mapping[str, Finding],
    shares: Mapping[str, StepShares],
    rules: Iterable[Rule] = RULES,
) -> dict[str, Finding]:
    """Mark the findings whose time a narrower finding explains.

    Without the marks the same gain would count twice. The narrower finding also has the
    more precise actions. Several narrower findings may explain a broader one together;
    the largest is listed first. A narrower finding that explains too little of the
    broader one is marked as a part of the broader one.

    Args:
        findings: Findings by id.
        shares: Label of a device or host → its breakdown of step time.
        rules: The rules whose items declare which findings they explain.
    """
    marked = dict(findings)
    pairs = [
        (narrow, broad)
        for rule in rules
        if (narrow := findings.get(rule.item.id)) is not None
        for name in rule.item.explains
        if (broad := findings.get(name)) is not None
        and _fails_gravely(narrow)
        and (_fails_gravely(broad) or are_slow_steps(broad))
    ]
    part = THRESHOLDS.explained_share.value / 100
    narrower: dict[str, list[Finding]] = defaultdict(list)
    for narrow, broad in pairs:
        narrower[broad.id].append(narrow)
    for name, several in narrower.items():
        broad = findings[name]
        enough = part * _share_of_time(broad)
        explaining = _narrower_holding_enough(several, broad, enough, shares)
        # A broader rule may itself name findings that explain its time.
        explaining = tuple(dict.fromkeys((*explaining, *broad.explained_by)))
        marked[name] = replace(broad, explained_by=explaining)
    for narrow, broad in pairs:
        if broad.saving_ms is None and narrow.saving_ms is not None:
            # A finding that has a gain cannot be a part of a finding that has none.
            continue
        free = not any(marked[finding.id].explained_by for finding in (narrow, broad))
        if free and shared_time([narrow], broad, shares) >= part * _share_of_time(
            narrow
        ):
            marked[narrow.id] = replace(narrow, explained_by=(broad.id,))
    return {
        name: _keep_narrowest_explanations(finding, marked)
        for name, finding in marked.items()
    }


def _keep_narrowest_explanations(
    finding: Finding, findings: Mapping[str, Finding]
) -> Finding:
    """Drop each explanation of a finding that another of its explanations explains."""
    names = finding.explained_by
    last = tuple(
        name
        for name in names
        if name not in findings or not set(findings[name].explained_by) & set(names)
    )
    return replace(finding, explained_by=last) if last else finding


def _narrower_holding_enough(
    narrower: Sequence[Finding],
    broad: Finding,
    enough: float,
    shares: Mapping[str, StepShares],
) -> tuple[str, ...]:
    """Return narrower findings that explain enough of a broader one, largest first.

    If single findings explain enough alone, the other findings are left out.
    """
    held = {finding.id: shared_time([finding], broad, shares) for finding in narrower}
    ranked = sorted(held, key=lambda name: -held[name])
    sufficient = tuple(name for name in ranked if held[name] >= enough)
    if sufficient:
        return sufficient
    if shared_time(narrower, broad, shares) < enough:
        return ()
    return tuple(name for name in ranked if held[name] > 0)


def mark_stage_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """For each failing finding, mark the earlier stage that has to be settled first.

    A finding waits for an earlier stage that has a clearly larger gain. Every finding
    waits for a critical flaw of the recording.
    """
    ordered = sorted(findings, key=lambda finding: finding.stage)
    return tuple(
        finding
        if (stage := _stage_to_settle_first(finding, ordered)) is None
        else replace(finding, after_stage=stage)
        for finding in ordered
    )


def _stage_to_settle_first(finding: Finding, findings: Sequence[Finding]) -> int | None:
    if finding.status != "fail":
        return None
    return next(
        (
            other.stage
            for other in findings
            if other.stage < finding.stage
            and _fails_gravely(other)
            and not other.explained_by
            and (
                (other.stage == 0 and other.severity == "critical")
                or MIN_SIMILAR_RATIO * _highest_gain_ms(other)
                >= _highest_gain_ms(finding)
                > 0
            )
        ),
        None,
    )


def _fails_gravely(finding: Finding) -> bool:
    return finding.status == "fail" and finding.severity != "info"


def _share_of_time(finding: Finding) -> float:
    return finding.share_percent or 0.0


def _highest_gain_ms(finding: Finding) -> float:
    return 0.0 if finding.saving_ms is None else finding.saving_ms.high


_OWNERS: Final = frozenset({*BUSY_OWNERS, *IDLE_OWNERS})


def shared_time(
    narrower: Sequence[Finding], broad: Finding, shares: Mapping[str, StepShares]
) -> float:
    """Return the time that narrower findings share with a broader one.

    The time is in percent of the judged steps; overlapping time of several narrower
    findings counts once. A broader finding about slow steps names owners only as its
    causes, so the shared time is the time of these causes. If the findings are not
    about the same device, or have no owners, all time of the longest narrower finding
    counts as shared.
    """
    broad_shares = (
        shares.get(broad.devices[0]) if broad.owners and broad.devices else None
    )
    if broad_shares is None:
        return max(
            (_share_by_causes(finding, broad) for finding in narrower), default=0.0
        )
    owned = [finding for finding in narrower if finding.owners or finding.topics]
    same_device = [
        finding for finding in owned if finding.devices[:1] == broad.devices[:1]
    ]
    other_shares = [
        _share_of_time(finding) for finding in narrower if finding not in owned
    ]
    return max(_shared_share(same_device, broad, broad_shares), *other_shares, 0.0)


def _share_by_causes(narrow: Finding, broad: Finding) -> float:
    """Return how much of a broader finding's causes is time of a narrower finding."""
    caused = [cause for cause in broad.causes if cause.cause in _OWNERS]
    if broad.owners or not caused or not narrow.owners:
        return _share_of_time(narrow)
    if narrow.devices[:1] != broad.devices[:1]:
        return 0.0
    return sum(cause.share_percent for cause in caused if cause.cause in narrow.owners)


def _shared_share(
    narrower: Sequence[Finding], broad: Finding, shares: StepShares
) -> float:
    total = 0.0
    for place in PLACES:
        if broad.place not in ("any", place):
            continue
        same_place = [
            finding for finding in narrower if finding.place in ("any", place)
        ]
        owners = {owner for finding in same_place for owner in finding.owners}
        topics = tuple(
            dict.fromkeys(topic for finding in same_place for topic in finding.topics)
        )
        total += sum(
            shares.percent(owner, place=place)
            if owner in owners
            else shares.held_percent(owner, topics, place=place)
            for owner in broad.owners
        )
    return total
