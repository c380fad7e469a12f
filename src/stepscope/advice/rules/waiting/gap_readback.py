"""`gap.readback`: the host waits for a result, and the device then for the host.

Definition: docs/advice/gap_readback.md.
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
from stepscope.derive.facts.replaying.edits import NotAwaited
from stepscope.derive.judging.recorded_devices import device_signals

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ON_HOST: Final = Owned(
    parts={"read_back": ("read_back",)},
    host=True,
    steps=True,
    seen=("read_back", "sync"),
)
_ON_DEVICE: Final = msgspec.structs.replace(
    _ON_HOST, seen=("read_back", "launch", "output", "sync"), lost=True
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Return tensors from the step, and turn them into numbers every n-th "
        "step: no `.numpy()` in each.",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Do not turn the loss into a number in each step (`float(loss)`, "
        "`block_until_ready`). JAX's transfer guard says where that is done.",
        code='jax.config.update("jax_transfer_guard_device_to_host", "log")',
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Avoid `.item()`, `.cpu()`, `nonzero` and boolean masks within the step. "
        "PyTorch's debug mode for synchronisation says where the host waits.",
        code='torch.cuda.set_sync_debug_mode("warn")',
    ),
    Action(
        cause="any",
        framework="any",
        text="Read the result one step late: the next step is then queued already.",
    ),
)
_NAMED: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="no step is held up by waiting for results",
    lead=(
        (
            "The host waits for a result before it goes on: {share_percent} of the "
            "time is lost so, {ms_per_step} a step."
        ),
    ),
    texts={**WAITING, ("fail", None): (_NAMED, ("{pattern}",))},
    causes={"read_back": "waiting for a result, and launching anew"},
)
_ITEM: Final = Item(
    id="gap.readback",
    stage=2,
    title="the host waits for a result before it goes on",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: a call that waits for the device ends as they begin, "
    "and nothing was queued.",
    refute="Leave out the reading of results, for one run: if the step takes as long, "
    "the device waits for something else.",
    actions=_ACTIONS,
    explains=("gaps.between", "launch.delay"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the idle time that begins with the host's waiting for a result."""
    shares = shares_of(_ITEM, _ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _ON_HOST
    if shares.device is not None:
        owned = _ON_DEVICE
        checked = shares_of(_ITEM, owned, signals, thresholds)
        if isinstance(checked, Finding):
            return checked
    warn = thresholds.readback_warn
    verdict = judge_shares(
        owned, shares, thresholds, warn=warn, critical=thresholds.readback_critical
    )
    return owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
    )


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let calls no longer wait for a result: it is read a step late, or not at all."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("read_back"),)


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS, changes)
