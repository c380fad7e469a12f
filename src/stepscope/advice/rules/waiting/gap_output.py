"""`gap.output`: checkpoints, summaries and results are written while nothing computes.

Definition: docs/advice/gap_output.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds

_ON_HOST: Final = Owned(
    parts={"writing": ("writing",)}, host=True, steps=True, seen=("writing", "output")
)
_ON_DEVICE: Final = msgspec.structs.replace(
    _ON_HOST, parts={**_ON_HOST.parts, "copies": ("copy_out",)}, lost=True
)
#: Written on another thread, what is written must still be copied.
_LEAST: Final = 0.7
_ACTIONS: Final = (
    Action(
        cause="writing",
        framework="TensorFlow",
        text="Write checkpoints on another thread.",
        code="tf.train.CheckpointOptions(enable_async=True)",
    ),
    Action(
        cause="writing",
        framework="JAX",
        text="Write checkpoints on another thread.",
        code="orbax.checkpoint.AsyncCheckpointer(orbax.checkpoint."
        "StandardCheckpointHandler())",
    ),
    Action(
        cause="writing",
        framework="PyTorch",
        text="Write checkpoints on another thread.",
        code="torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
    ),
    Action(
        cause="writing",
        framework="any",
        text="Write less often, and less: fewer summaries, no histograms in each step.",
    ),
    Action(
        cause="copies",
        framework="PyTorch",
        text="Copy into pinned memory without waiting, beside the next step.",
        code="pinned.copy_(result, non_blocking=True)",
    ),
    Action(
        cause="copies",
        framework="any",
        text="Gather results on the device, and copy them once.",
    ),
)
_NAMED: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_NOTHING: Final = (
    "No checkpoint, summary or copy of results holds up the recorded steps."
)
_WORDS: Final = Words(
    passed="writing results hardly holds up the steps",
    lead=(
        (
            "Copies of results to the host hold up the steps: {mostly_copies} of the "
            "time."
        ),
        (
            "Writing results holds up the steps: {named}, {share_percent} of the time, "
            "{ms_per_step} a step on average."
        ),
        "Writing results holds up the steps: {share_percent} of the time.",
    ),
    texts={
        **WAITING,
        ("fail", None): (_NAMED, ("{pattern}",)),
        ("pass", "none"): ((_NOTHING,),),
    },
    causes={
        "writing": "writing checkpoints or summaries",
        "copies": "copying results to the host",
    },
)
_ITEM: Final = Item(
    id="gap.output",
    stage=2,
    title="writing results holds up the steps",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: results are written, and nothing computes meanwhile.",
    refute="Run once without writing: if the steps take as long, they wait for "
    "something else.",
    actions=_ACTIONS,
    explains=("gaps.between", "step.outlier", "step.periodic"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which results are written or copied, and nothing else done."""
    shares = shares_of(_ITEM, _ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _ON_HOST
    if shares.device is not None:
        owned = _ON_DEVICE
        if "copy_out" in shares.missing:
            return _ITEM.cannot_tell(shares.missing["copy_out"])
    series = owned.series(shares, thresholds)
    # What nothing names may be the writing of a file.
    unnamed = sum(shares.times("unnamed", "unexplained", place="between"))
    series = msgspec.structs.replace(series, unknown_ps=unnamed)
    warn = thresholds.output_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.output_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell" and verdict.share_percent < warn.value:
        verdict = msgspec.structs.replace(verdict, unavailable=_unnamed(verdict))
    nothing = verdict.status == "pass" and not sum(series.effect_ps)
    found = owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        note="none" if nothing else None,
        actions=_actions(verdict),
    )
    if found.saving_ms is None or found.ms_per_step is None:
        return found
    saving = found.saving_ms
    low = max(saving.low, _LEAST * found.ms_per_step)
    return msgspec.structs.replace(
        found, saving_ms=msgspec.structs.replace(saving, low=low)
    )


def _actions(verdict: Verdict) -> tuple[Action, ...]:
    """Return what removes the larger cause."""
    if verdict.status != "fail":
        return ()
    largest = verdict.causes[0].cause
    return tuple(one for one in _ACTIONS if one.cause == largest)


def _unnamed(verdict: Verdict) -> Unavailable:
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"{verdict.resolution_percent:.1f} % of the time lies between steps, "
        "and nothing names what the program did in it: it may have written files.",
        remedy=Remedy.RECORD_CALLS,
    )


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS)
