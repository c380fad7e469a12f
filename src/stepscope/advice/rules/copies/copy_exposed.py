"""`copy.exposed`: a device copies while it computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    owned_shares,
)
from stepscope.derive.facts.devices.device_copies import copy_signals
from stepscope.derive.facts.evidence import Evidence, Part, Saving
from stepscope.derive.facts.savings.what_if_changes import CopiesInParallel
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_copies import DeviceCopies
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("copy.exposed")

_OWNED: Final = Owned(
    parts={
        "to_device": ("copy_in",),
        "to_host": ("copy_out",),
        "within": ("copy_within",),
        "transfer": ("transfer_wait",),
    },
    device=True,
    seen=("copy_within",),
    # During a copy the device is busy, so unexplained idle time cannot be a copy.
    unknown=False,
)


def parallel_copy_changes(signals: Signals) -> Changes:
    """Return what-if edits: copies to and from the host run in parallel with kernels.

    Parallel copies need pinned memory. Copies within the device are not edited: it is
    unknown which kernels could run before their end, and when they could have started.
    """
    shares = owned_shares(_OWNED, signals)
    owners = ["copy_in", "copy_out"]
    if _is_input(shares):
        owners.remove("copy_in")
    time = sum(shares.times(*owners))
    other_ps = sum(shares.times("copy_within", "transfer_wait"))
    if other_ps > (1 - THRESHOLDS.explained_share.value / 100) * time:
        return ()
    return (CopiesInParallel(owners, shares.mean_ms(time)),)


@rule(_ITEM, *OWNED_READS, copy_signals, change=parallel_copy_changes)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    copies = signals.needed(copy_signals).get(shares.label)
    judged = judge_owned(_ITEM, _OWNED, signals, shares=shares)
    because = _reasons_for_long_copies(copies) if judged.failed else ()
    groups = () if copies is None else copies.groups
    rate = groups[0].bytes_per_s if groups else None
    min_percent = THRESHOLDS.copy_warn.value / 2
    large = (
        cause.cause
        for cause in judged.verdict.causes
        if cause.share_percent >= min_percent
    )
    finding = judged.finding(
        because=because,
        parts=_copy_parts(shares, copies),
        facts=_ITEM.facts(
            copies_per_step=sum(group.per_step for group in groups),
            small_copies_per_step=None if copies is None else copies.small_per_step,
            largest_bytes_per_step=groups[0].bytes_per_step if groups else None,
            largest_gigabytes_per_second=None if rate is None else rate / 1e9,
        ),
        evidence=tuple(
            Evidence(
                host=shares.host,
                device=shares.device,
                track=None,
                start_ps=start,
                end_ps=end,
                ops=(name,),
            )
            for start, end, name in (copies.longest if copies is not None else ())
        ),
        inputs=("account", "exposure", "activity_ops", "launching_ops"),
        actions=_ITEM.actions_for(*large, *because),
    )
    return _without_input_copies(finding, shares)


def _reasons_for_long_copies(copies: DeviceCopies | None) -> tuple[str, ...]:
    """Return why the copies take long, as far as recorded."""
    if copies is None:
        return ()
    exposed_ps = sum(group.alone_ps for group in copies.groups)
    many = copies.small_per_step >= THRESHOLDS.many_copies.value
    tests = (
        (
            "pageable",
            2 * sum(group.pageable_ps for group in copies.groups) > exposed_ps,
        ),
        (
            "blocking",
            2 * sum(group.blocking_ps for group in copies.groups) > exposed_ps,
        ),
        ("many", many and 4 * copies.small_alone_ps >= exposed_ps),
    )
    return tuple(name for name, holds in tests if holds)


def _without_input_copies(finding: Finding, shares: StepShares) -> Finding:
    """Leave out copies to the device if `input.bound` already has their saving."""
    into = sum(shares.times("copy_in"))
    if finding.status != "fail" or not _is_input(shares):
        return finding
    total = sum(shares.times(*_OWNED.owners))
    saving = finding.saving_ms
    if saving is not None:
        saving = Saving(high=shares.mean_ms(total - into))
    return msgspec.structs.replace(
        finding,
        saving_ms=saving,
        explained_by=("input.bound",) if 2 * into > total else (),
    )


def _is_input(shares: StepShares) -> bool:
    """Return whether `input.bound` already has the saving of copies to the device."""
    both = shares.percent("input", "copy_in")
    has_steps = shares.step_confidence >= THRESHOLDS.medium_confidence.value
    return has_steps and both >= THRESHOLDS.input_warn.value


def _copy_parts(shares: StepShares, copies: DeviceCopies | None) -> tuple[Part, ...]:
    """Divide the share among the copies in proportion to their exposed times."""
    parts: list[Part] = []
    for owners in _OWNED.parts.values():
        groups = [] if copies is None else copies.groups
        owned = [group for group in groups if group.owner in owners and group.alone_ps]
        total = sum(group.alone_ps for group in owned)
        share = shares.percent(*owners)
        for group in owned if share else ():
            name = _ITEM.note(group.owner)
            if group.source is not None:
                joined = "" if group.certainty == "by position" else "of "
                name = f"{name} {joined}{group.source}"
            percent = share * group.alone_ps / total
            parts.append(Part(name=name, detail=group.certainty, share_percent=percent))
    return tuple(
        sorted(parts, key=lambda part: -part.share_percent)[:_MAX_COPIES_NAMED]
    )


#: Maximum number of copies to name.
_MAX_COPIES_NAMED: Final = 3
