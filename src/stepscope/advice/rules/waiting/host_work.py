"""`host.work`: the step is work of the program itself, on the host.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding, Part
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.signals.enclosing import enclosing_functions
from stepscope.advice.words import WAITING, Words

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_OWNER: Final = "host_compute"
_OWNED: Final = Owned(
    parts={"functions": (_OWNER,)}, place="inside", host=True, seen=(_OWNER,)
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Vectorise it: work on whole arrays in place of loops over elements, with "
        "fewer and narrower copies.",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Move it into the input pipeline, where it runs ahead on other threads.",
        code="dataset.map(work, num_parallel_calls=tf.data.AUTOTUNE)"
        ".prefetch(tf.data.AUTOTUNE)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Move it into the dataset, where the loader's workers do it ahead.",
        code="DataLoader(Dataset(work), num_workers=8, persistent_workers=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Move it into the loader's workers, which do it ahead.",
        code="grain.DataLoader(…, operations=[Work()], worker_count=8)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Cache its results, or do it once, where it gives the same in each epoch.",
    ),
)
_NAMED: Final = (
    (
        "{named} holds {named_share} of the step on the host, {ms_per_step} a step of "
        "work outside the model's ops in all."
    ),
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="no work of the program itself holds the step up",
    lead=(
        "Work on the host holds {share_percent} of the step: {named}, {named_share}.",
        "Work on the host holds {share_percent} of the step.",
    ),
    texts={
        **WAITING,
        ("fail", None): (_NAMED, ("{pattern}",)),
        ("pass", "ops"): (
            ("The host's work is the ops of the model: {share_percent} of the time.",),
        ),
    },
    causes={"functions": "work of the program on the host"},
)
_ITEM: Final = Item(
    id="host.work",
    stage=2,
    title="the step is work on the host",
    words=_WORDS,
    pages=("overview_page", "framework_op_stats"),
    confirm="Look at the ranges: the named function runs, and nothing else does.",
    refute="Replace the named function by a stored result: if the step takes as long, "
    "it is not what it waits for.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time inside steps in which the host works for itself."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.host_work_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.host_work_critical
    )
    named = _named(signals, shares)
    if verdict.status == "fail" and not _is_fault(shares, named, thresholds):
        verdict = msgspec.structs.replace(
            verdict, status="pass", severity="info", note="ops"
        )
    found = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        parts=named,
        facts=(
            Fact(
                name="named_share",
                value=named[0].share_percent if named else None,
                unit="percent",
            ),
        ),
    )
    return found if shares.device is not None else _of_one_function(found)


def _is_fault(
    shares: StepShares, named: tuple[Part, ...], thresholds: Thresholds
) -> bool:
    """Return whether functions hold the step up, not the ops of the model.

    Ops that a device waits for are the matter of `launch.delay`.
    """
    if shares.device is not None:
        return not shares.host_ops_lead()
    ops_ps = sum(
        one.time_ps
        for one in shares.named(_OWNER, place="inside")
        if one.function is None and one.name is not None
    )
    if 100 * ops_ps < thresholds.host_work_warn.value * shares.total_ps:
        # Without ops of a model the functions are the step itself.
        return False
    # What the loop does by itself, or a library for it, is the step too.
    largest = max((part.share_percent for part in named if _is_work(part)), default=0.0)
    return largest >= thresholds.host_function.value


def _named(signals: Signals, shares: StepShares) -> tuple[Part, ...]:
    """Return the function that holds most of the work, then the parts themselves.

    Without a device functions stand before the model's ops: these are the step.
    """
    parts = shares.parts(_OWNER, place="inside")
    if shares.device is None:
        return tuple(sorted(parts, key=lambda part: not _is_work(part)))
    around = signals.of(enclosing_functions).get(shares.label)
    return parts if around is None else (around, *parts)


def _is_work(part: Part) -> bool:
    """Return whether a part is a function that the steps call."""
    return part.function is not None and not part.loop


def _of_one_function(found: Finding) -> Finding:
    """Promise no more than the named function, where the work is the step itself."""
    if found.saving_ms is None or not found.parts or not found.share_percent:
        return found
    most = found.saving_ms.high * found.parts[0].share_percent / found.share_percent
    saving = msgspec.structs.replace(found.saving_ms, low=most / 2, high=most)
    return msgspec.structs.replace(found, saving_ms=saving)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, enclosing_functions))
