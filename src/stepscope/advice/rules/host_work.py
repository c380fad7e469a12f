"""`host.work`: the step is work of the program itself, on the host.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding, Part
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.enclosing import enclosing_functions
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import judge, judged_finding
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "host.work"
_TITLE: Final = "the step is work on the host"
_STAGE: Final = 2
_OWNER: Final = "host_compute"
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Take it out of the step: do it ahead on other threads, or once.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Make it cheaper: work on whole arrays, with fewer and narrower copies.",
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


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time inside steps in which the host works for itself."""
    found = signals.of(account_signals)
    if isinstance(found, Unavailable):
        return _cannot_tell(found)
    shares = found.judged(_OWNER, place="inside")
    if shares.device is None and signals.of(device_signals).recorded != "host_only":
        return _cannot_tell(signals.of(device_signals).reason or _UNSEEN)
    if _OWNER in shares.missing:
        return _cannot_tell(shares.missing[_OWNER])
    verdict = judge(
        shares.series(
            {"functions": (_OWNER,)},
            place="inside",
            unknown_from=thresholds.unexplained_warn.value,
        ),
        warn=thresholds.host_work_warn,
        critical=thresholds.host_work_critical,
        thresholds=thresholds,
    )
    named = _named(signals, shares)
    if verdict.status == "fail" and not _is_fault(shares, named, thresholds):
        verdict = msgspec.structs.replace(
            verdict, status="pass", severity="info", note="ops"
        )
    return _finding(
        shares,
        verdict,
        named=named,
        devices=found.ranked(_OWNER, place="inside"),
        grade=signals.of(record_grade),
        thresholds=thresholds,
    )


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
    functions = [part for part in named if part.function is not None]
    largest = max((part.share_percent for part in functions), default=0.0)
    return largest >= thresholds.host_function.value


def _named(signals: Signals, shares: StepShares) -> tuple[Part, ...]:
    """Return the function that holds most of the work, then the parts themselves.

    Without a device functions stand before the model's ops: these are the step.
    """
    parts = shares.parts(_OWNER, place="inside")
    if shares.device is None:
        return tuple(sorted(parts, key=lambda part: part.function is None))
    around = signals.of(enclosing_functions).get(shares.label)
    return parts if around is None else (around, *parts)


def _finding(
    shares: StepShares,
    verdict: Verdict,
    *,
    named: tuple[Part, ...],
    devices: tuple[str, ...],
    grade: float,
    thresholds: Thresholds,
) -> Finding:
    failed = verdict.status == "fail"
    found = judged_finding(
        verdict,
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        grade=grade,
        threshold=thresholds.host_work_warn,
        smallest=thresholds.smallest_effect,
        stepped=shares.step_source is not None,
        owners=(_OWNER,),
        place="inside",
        devices=devices,
        parts=named,
        facts=(
            Fact(
                name="named_share",
                value=named[0].share_percent if named else None,
                unit="percent",
            ),
        ),
        evidence=shares.evidence(_OWNER, place="inside") if failed else (),
        inputs=("account", "account_parts"),
        confirm="Look at the ranges: the named function runs, and nothing else does.",
        refute="Replace the named function by a stored result: if the step takes as "
        "long, it is not what it waits for.",
        actions=_ACTIONS if failed else (),
    )
    return found if shares.device is not None else _of_one_function(found)


def _of_one_function(found: Finding) -> Finding:
    """Promise no more than the named function, where the work is the step itself."""
    if found.saving_ms is None or not found.parts or not found.share_percent:
        return found
    most = found.saving_ms.high * found.parts[0].share_percent / found.share_percent
    saving = msgspec.structs.replace(found.saving_ms, low=most / 2, high=most)
    return msgspec.structs.replace(found, saving_ms=saving)


_UNSEEN: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="Whether a device waits for the host's work was not recorded.",
    remedy="Record again with the device tracer on.",
)


def _cannot_tell(why: Unavailable) -> Finding:
    return Finding(
        id=_ID, title=_TITLE, stage=_STAGE, status="cannot_tell", unavailable=why
    )


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(account_signals, device_signals, enclosing_functions, record_grade),
    words=_WORDS,
    pages=("overview_page", "framework_op_stats"),
)
