"""`gaps.between`: the device idles between steps.

Definition: docs/advice/gaps_between.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding, Status
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import IDLE_OWNERS, account_signals
from stepscope.advice.verdict import judge, judged_finding
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "gaps.between"
_TITLE: Final = "the device idles between steps"
_STAGE: Final = 2
#: Waiting for batches, compiling, and what the recording hides are other findings.
_OTHERS: Final = frozenset({"input", "compile", "profiler", "queued"})
_OWNERS: Final = tuple(owner for owner in IDLE_OWNERS if owner not in _OTHERS)
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
_NAMED: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="steps follow each other closely",
    lead=(
        (
            "{share_percent} of the time the device idles between steps, "
            "{ms_per_step} a step: {named}."
        ),
        "{share_percent} of the time the device idles between steps.",
    ),
    texts={**WAITING, ("fail", None): (_NAMED, ("{pattern}",))},
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


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the idle time from a step's last work to the next step's first."""
    if signals.of(device_signals).recorded == "host_only":
        return _without("not_applicable", _NO_DEVICE)
    found = signals.of(account_signals)
    if isinstance(found, Unavailable):
        return _without("cannot_tell", found)
    if not found.has_devices:
        reason = signals.of(device_signals).reason
        return _without("cannot_tell", reason or _UNSEEN)
    shares = found.judged()
    if shares.step_confidence < thresholds.medium_confidence.value:
        return _without("cannot_tell", _NO_STEPS)
    if "launch" in shares.missing:
        return _without("cannot_tell", shares.missing["launch"])
    verdict = judge(
        shares.series(
            {owner: (owner,) for owner in _OWNERS},
            place="between",
            # What lies between the steps is the effect, whoever owns it.
            unknown_from=_NEVER,
            lost=True,
        ),
        warn=thresholds.between_warn,
        critical=thresholds.between_critical,
        thresholds=thresholds,
    )
    failed = verdict.status == "fail"
    return judged_finding(
        verdict,
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        grade=signals.of(record_grade),
        threshold=thresholds.between_warn,
        smallest=thresholds.smallest_effect,
        owners=_OWNERS,
        place="between",
        devices=found.ranked(*_OWNERS, place="between"),
        parts=shares.parts(*_OWNERS, place="between"),
        evidence=shares.evidence(*_OWNERS, place="between") if failed else (),
        inputs=("account", "account_parts"),
        confirm="Look at the ranges: the step's last kernel is over, and the next "
        "step's first has not been launched.",
        refute="Leave out what is named, for one run: if the step takes as long, it "
        "only fills a gap that has another cause.",
        actions=_ACTIONS if failed else (),
    )


#: Beyond any share.
_NEVER: Final = 101.0
_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="Every op ran on the host; no device waits between the steps.",
    remedy="Nothing to do.",
)
_UNSEEN: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="Whether a device idles between the steps was not recorded.",
    remedy="Record again with the device tracer on.",
)
_NO_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps there is nothing between them.",
    remedy="Mark the training steps.",
)


def _without(status: Status, why: Unavailable) -> Finding:
    return Finding(id=_ID, title=_TITLE, stage=_STAGE, status=status, unavailable=why)


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(account_signals, device_signals, record_grade),
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
)
