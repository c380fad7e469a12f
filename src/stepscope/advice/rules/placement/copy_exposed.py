"""`copy.exposed`: a device copies, and computes nothing meanwhile.

Definition: docs/advice/copy_exposed.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.devices.device_copies import copy_signals
from stepscope.derive.facts.evidence import Evidence, Fact, Part, Saving
from stepscope.derive.facts.replaying.edits import Beside
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_copies import CopyGroup, DeviceCopies
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={
        "to_device": ("copy_in",),
        "to_host": ("copy_out",),
        "within": ("copy_within",),
        "transfer": ("transfer_wait",),
    },
    device=True,
    seen=("copy_within",),
    # A device that copies is busy: idle time cannot be copies.
    unknown=False,
)
_ACTIONS: Final = (
    Action(
        cause="pageable",
        framework="PyTorch",
        text="Copy from pinned memory, without waiting.",
        code="tensor.pin_memory().to(device, non_blocking=True)",
    ),
    Action(
        cause="pageable",
        framework="any",
        text="Copy from pinned memory: pageable memory is copied twice, at a fraction "
        "of the rate.",
    ),
    Action(
        cause="blocking",
        framework="any",
        text="Let the copy run beside computation: on another stream, one batch ahead, "
        "and do not wait for it.",
    ),
    Action(
        cause="many",
        framework="any",
        text="Put many small copies together into one.",
    ),
    Action(
        cause="to_device",
        framework="TensorFlow",
        text="Copy the next batch while this step computes.",
        code="dataset.apply(tf.data.experimental.prefetch_to_device('/gpu:0'))",
    ),
    Action(
        cause="to_device",
        framework="JAX",
        text="Put inputs on the device ahead, and what does not change only once.",
        code="next_batch = jax.device_put(next(it))",
    ),
    Action(
        cause="to_device",
        framework="any",
        text="Send fewer bytes, and upload what does not change only once.",
    ),
    Action(
        cause="to_host",
        framework="any",
        text="Keep results on the device; read back what is small, and rarely.",
    ),
    Action(
        cause="within",
        framework="any",
        text="Avoid copies between buffers of the device: work in place, keep one "
        "layout, donate buffers.",
    ),
    Action(
        cause="transfer",
        framework="any",
        text="The device waits for transfers that began earlier: keep weights on it if "
        "they fit, begin transfers sooner, or do more work for each.",
    ),
)
_COPIES: Final = (
    (
        "Copies that nothing hides take {share_percent} of the time, {ms_per_step} a "
        "step; most of it {named}."
    ),
    "Copies that nothing hides take {share_percent} of the time.",
)
_WAITS: Final = (
    (
        "The device waits for transfers {mostly_transfer} of the time, {ms_per_step} a "
        "step."
    ),
    "The device waits for transfers {mostly_transfer} of the time.",
)
_WORDS: Final = Words(
    passed="copies are hidden behind computation",
    lead=(*_WAITS, *_COPIES),
    texts={
        **WAITING,
        ("fail", None): ((*_WAITS, *_COPIES), ("{pattern}",)),
    },
    causes={
        "to_device": "copies to the device",
        "to_host": "copies to the host",
        "within": "copies within and between devices",
        "transfer": "waiting for transfers",
        "pageable": "copies of pageable memory",
        "blocking": "calls that wait for their copy",
        "many": "many small copies",
    },
)
_ITEM: Final = Item(
    id="copy.exposed",
    stage=4,
    title="copies are not hidden behind computation",
    words=_WORDS,
    pages=("overview_page", "trace_viewer", "kernel_stats"),
    confirm="Look at the ranges: a copy runs, and no kernel of the device beside it.",
    refute="Leave out the named copy for one run, with a result kept on the device: if "
    "the step takes as long, it does not wait for it.",
    floors=("the rate of the link",),
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which a device does nothing but copy."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    devices = signals.of(copy_signals)
    if isinstance(devices, Unavailable):
        return _ITEM.cannot_tell(devices)
    copies = devices.get(shares.label)
    warn = thresholds.copy_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.copy_critical
    )
    failed = verdict.status == "fail"
    because = _because(copies, thresholds) if failed else ()
    causes = {
        one.cause for one in verdict.causes if _matters(one.share_percent, warn.value)
    }
    found = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        because=because,
        parts=_parts(shares, copies),
        facts=_facts(copies),
        evidence=_evidence(shares, copies),
        inputs=("account", "exposure", "activity_ops", "launching_ops"),
        actions=tuple(
            one for one in _ACTIONS if one.cause in causes or one.cause in because
        )
        if failed
        else (),
    )
    return _without_input(found, shares, thresholds)


def _matters(share: float, warn: float) -> bool:
    return share >= warn / 2


def _because(copies: DeviceCopies | None, thresholds: Thresholds) -> tuple[str, ...]:
    """Return why the copies take long, as far as the records show it."""
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


def _without_input(
    found: Finding, shares: StepShares, thresholds: Thresholds
) -> Finding:
    """Leave to `input.bound` what it promises: the copies to the device."""
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


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let copies to and from the host run beside kernels, from pinned memory.

    Copies within the device are work of the step, and which kernel can do without them
    nobody knows; nor when a transfer could have begun.
    """
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return ()
    owners = ["copy_in", "copy_out"]
    if _is_input(shares, thresholds):
        owners.remove("copy_in")
    time = sum(shares.times(*owners))
    rest = sum(shares.times("copy_within", "transfer_wait"))
    if rest > (1 - thresholds.explained_share.value / 100) * time:
        return ()
    effect = time / max(len(shares.window_ps), 1) / PS_PER_MS
    return (Beside(owners, effect),)


def _is_input(shares: StepShares, thresholds: Thresholds) -> bool:
    """Return whether `input.bound` promises the copies to the device."""
    both = shares.percent("input", "copy_in")
    stepped = shares.step_confidence >= thresholds.medium_confidence.value
    return stepped and both >= thresholds.input_warn.value


def _parts(shares: StepShares, copies: DeviceCopies | None) -> tuple[Part, ...]:
    """Divide the share among the copies as the time is that each ran alone."""
    found: list[Part] = []
    for owners in _OWNED.parts.values():
        groups = [] if copies is None else copies.groups
        mine = [one for one in groups if one.owner in owners and one.alone_ps]
        total = sum(one.alone_ps for one in mine)
        share = shares.percent(*owners)
        found += [
            Part(
                name=_name(one),
                detail=one.certainty,
                share_percent=share * one.alone_ps / total,
            )
            for one in mine
            if share
        ]
    return tuple(sorted(found, key=lambda part: -part.share_percent)[:_SHOWN])


def _name(group: CopyGroup) -> str:
    what = _DIRECTION[group.owner]
    if group.source is None:
        return what
    joined = "" if group.certainty == "by position" else "of "
    return f"{what} {joined}{group.source}"


def _evidence(shares: StepShares, copies: DeviceCopies | None) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            host=shares.host,
            device=shares.device,
            track=None,
            start_ps=start,
            end_ps=end,
            ops=(name,),
        )
        for start, end, name in (copies.longest if copies is not None else ())
    )


def _facts(copies: DeviceCopies | None) -> tuple[Fact, ...]:
    groups = copies.groups if copies is not None else ()
    first = groups[0] if groups else None
    rate = None if first is None else first.bytes_per_s
    moved = None if first is None else first.bytes_per_step
    return (
        Fact(
            name="copies_per_step",
            value=sum(one.per_step for one in groups),
            unit="count",
        ),
        Fact(
            name="small_copies_per_step",
            value=None if copies is None else copies.small_per_step,
            unit="count",
            note="below 64 KiB",
        ),
        Fact(
            name="largest_bytes_per_step",
            value=moved,
            unit="count",
            note="of the copies that run alone for longest",
        ),
        Fact(
            name="largest_gigabytes_per_second",
            value=None if rate is None else rate / 1e9,
            unit="ratio",
            note="of its copies of at least 1 MiB",
        ),
    )


#: Copies that are named.
_SHOWN: Final = 3
_DIRECTION: Final = {
    "copy_in": "the copy to the device",
    "copy_out": "the copy to the host",
    "copy_within": "the copy within devices",
    "transfer_wait": "the transfer",
}


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, copy_signals), changes)
