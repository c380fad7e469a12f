"""`copy.exposed`: a device copies while it computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned, owned_shares
from stepscope.derive.facts.devices.device_copies import copy_signals
from stepscope.derive.facts.evidence import Evidence, Part, Saving
from stepscope.derive.facts.replaying.edits import Beside
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_copies import DeviceCopies
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

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
    # A device that copies is busy, so idle time cannot contain copies.
    unknown=False,
)


def parallel_copy_changes(
    signals: Signals, thresholds: Thresholds
) -> tuple[Change, ...]:
    """Return the change: copies to and from the host run in parallel with kernels.

    The copies then use pinned memory. For copies within the device it is unknown which
    kernel could run without them, or when a transfer could have started.
    """
    shares = owned_shares(_OWNED, signals, thresholds)
    owners = ["copy_in", "copy_out"]
    if _is_input(shares, thresholds):
        owners.remove("copy_in")
    time = sum(shares.times(*owners))
    rest = sum(shares.times("copy_within", "transfer_wait"))
    if rest > (1 - thresholds.explained_share.value / 100) * time:
        return ()
    effect = time / max(len(shares.window_ps), 1) / PS_PER_MS
    return (Beside(owners, effect),)


@rule(_ITEM, *OWNED_READS, copy_signals, change=parallel_copy_changes)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = owned_shares(_OWNED, signals, thresholds)
    devices = signals.needed(copy_signals)
    copies = devices.get(shares.label)
    judged = judge_owned(_ITEM, _OWNED, signals, thresholds, shares=shares)
    because = _reasons_for_long_copies(copies, thresholds) if judged.failed else ()
    groups = () if copies is None else copies.groups
    rate = groups[0].bytes_per_s if groups else None
    least = thresholds.copy_warn.value / 2
    large = (it.cause for it in judged.verdict.causes if it.share_percent >= least)
    found = judged.finding(
        because=because,
        parts=_parts_of_copies(shares, copies),
        facts=_ITEM.facts(
            copies_per_step=sum(one.per_step for one in groups),
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
    return _without_input_copies(found, shares, thresholds)


def _reasons_for_long_copies(
    copies: DeviceCopies | None, thresholds: Thresholds
) -> tuple[str, ...]:
    """Return why the copies take long, as far as recorded."""
    groups = copies.groups if copies is not None else ()
    alone = sum(one.alone_ps for one in groups)
    many = copies is not None and copies.small_per_step >= thresholds.many_copies.value
    small = 0 if copies is None else copies.small_alone_ps
    tests = (
        ("pageable", 2 * sum(one.pageable_ps for one in groups) > alone),
        ("blocking", 2 * sum(one.blocking_ps for one in groups) > alone),
        ("many", many and 4 * small >= alone),
    )
    return tuple(name for name, holds in tests if holds)


def _without_input_copies(
    found: Finding, shares: StepShares, thresholds: Thresholds
) -> Finding:
    """Remove the copies to the device if `input.bound` already has their saving."""
    into = sum(shares.times("copy_in"))
    if found.status != "fail" or not _is_input(shares, thresholds):
        return found
    total = sum(shares.times(*_OWNED.owners))
    saving = found.saving_ms
    if saving is not None:
        most = (total - into) / max(len(shares.window_ps), 1) / PS_PER_MS
        saving = Saving(low=most / 2, high=most)
    return msgspec.structs.replace(
        found,
        saving_ms=saving,
        explained_by=("input.bound",) if 2 * into > total else (),
    )


def _is_input(shares: StepShares, thresholds: Thresholds) -> bool:
    """Return whether `input.bound` already has the saving of copies to the device."""
    both = shares.percent("input", "copy_in")
    stepped = shares.step_confidence >= thresholds.medium_confidence.value
    return stepped and both >= thresholds.input_warn.value


def _parts_of_copies(
    shares: StepShares, copies: DeviceCopies | None
) -> tuple[Part, ...]:
    """Divide the share among the copies in proportion to their exposed times."""
    found: list[Part] = []
    for owners in _OWNED.parts.values():
        groups = [] if copies is None else copies.groups
        owned = [one for one in groups if one.owner in owners and one.alone_ps]
        total = sum(one.alone_ps for one in owned)
        share = shares.percent(*owners)
        for one in owned if share else ():
            name = _ITEM.note(one.owner)
            if one.source is not None:
                joined = "" if one.certainty == "by position" else "of "
                name = f"{name} {joined}{one.source}"
            percent = share * one.alone_ps / total
            found.append(Part(name=name, detail=one.certainty, share_percent=percent))
    return tuple(sorted(found, key=lambda part: -part.share_percent)[:_SHOWN])


#: Maximum number of copies to name.
_SHOWN: Final = 3
