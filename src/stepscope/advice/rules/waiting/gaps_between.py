"""`gaps.between`: the device idles between steps.

Definition: docs/advice/gaps_between.md.
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
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.step_time.owners import IDLE_OWNERS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

#: Waiting for batches, compiling, and what the recording hides are other findings.
_OTHERS: Final = frozenset({"input", "compile", "profiler", "queued", "switch"})
_OWNED: Final = Owned(
    parts={owner: (owner,) for owner in IDLE_OWNERS if owner not in _OTHERS},
    place="between",
    device=True,
    steps=True,
    seen=("launch",),
    # What lies between the steps is the effect, whoever owns it.
    unknown=False,
    lost=True,
)
#: Where the only step ends with the recording.
_MORE_STEPS: Final = (
    Action(
        cause="at_end",
        framework="TensorFlow",
        text="Record several steps first: what follows the only one may be the end of "
        "the recording, for which TensorBoard's callback writes the graph that it "
        "recorded. If each step has it, do less between them.",
        code="tf.keras.callbacks.TensorBoard(log_dir, profile_batch=(10, 20))",
        recorder="framework",
    ),
    Action(
        cause="at_end",
        framework="PyTorch",
        text="Record several steps first: what follows the only one may be the end of "
        "the recording. If each step has it, do less between them.",
        code="torch.profiler.schedule(wait=2, warmup=2, active=5)",
        recorder="framework",
    ),
    Action(
        cause="at_end",
        framework="JAX",
        text="Record several steps first: what follows the only one may be the end of "
        "the recording. If each step has it, do less between them.",
        recorder="framework",
    ),
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Do what runs between the steps less often, or after the next step has "
        "been launched: callbacks, metrics, logging, checkpoints.",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Run several steps per call of the training loop.",
        code="model.compile(…, steps_per_execution=16)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Keep results on the device and read them back every n-th step.",
        code="losses.append(loss.detach())  # .item() every n steps",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Do not wait for each step's result: launch the next step first.",
    ),
)
_AT_END: Final = (
    (
        "{title}, as far as the only recorded one shows: {share_percent} of the time, "
        "{ms_at_end}, most of it {named}. The recording ends there, and may be its "
        "cause."
    ),
    (
        "{title}, as far as the only recorded one shows: {share_percent} of the time, "
        "{ms_at_end}. The recording ends there, and may be its cause."
    ),
)
_NAMED: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="steps follow each other closely",
    lead=(
        (
            "{share_percent} of the time the device idles between steps, as far as the "
            "only recorded one shows: {ms_at_end}, most of it {named}."
        ),
        (
            "{share_percent} of the time the device idles between steps, "
            "{ms_per_step} a step: {named}."
        ),
        "{share_percent} of the time the device idles between steps.",
    ),
    texts={
        **WAITING,
        ("fail", None): (_NAMED, ("{pattern}",)),
        ("fail", "at_end"): (_AT_END,),
    },
    causes={
        "switch": "switching between activities",
        "peer": "waiting for other ranks",
        "output": "reading results back",
        "host_compute": "work on the host",
        "launch": "launching",
        "sync": "synchronising",
        "between": "what runs between steps",
        "unexplained": "unexplained",
    },
)
_ITEM: Final = Item(
    id="gaps.between",
    stage=2,
    title="the device idles between steps",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: the step's last kernel is over, and the next step's "
    "first has not been launched.",
    refute="Leave out what is named, for one run: if the step takes as long, it only "
    "fills a gap that has another cause.",
    actions=(*_MORE_STEPS, *_ACTIONS),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the idle time from a step's last work to the next step's first."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.between_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.between_critical
    )
    at_end = len(shares.window_ps) == 1 and not shares.closed
    ms_at_end = verdict.effect_ms if at_end else None
    finding = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        facts=(
            Fact(
                name="ms_at_end",
                value=ms_at_end,
                unit="ms",
                note="known where the only step ends with the recording",
            ),
        ),
        actions=(*_MORE_STEPS, *_ACTIONS) if at_end else _ACTIONS,
    )
    if finding.status != "fail" or ms_at_end is None:
        return finding
    # Nothing shows that other steps have it too.
    return msgspec.structs.replace(
        finding, note="at_end", saving_ms=Saving(low=0.0, high=ms_at_end)
    )


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS)
