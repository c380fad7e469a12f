"""`input.bound`: the step waits for its data.

Definition: docs/advice/input_bound.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Part
from stepscope.advice.item import Item
from stepscope.advice.judging.input_actions import (
    ACTIONS,
    ANY_FETCH,
    BESIDE,
    BY_OTHER_PROCESSES,
    BY_OTHER_THREADS,
    CACHE,
    FETCH,
    HANDED_OVER,
    IN_OWN_THREADS,
    KERAS_WORKERS,
    NATIVE,
    PIECES,
    REMAINING,
    TO_BE_SURE,
    TO_FETCH_AHEAD,
    TO_PIN,
    WERE_READY,
    WHOLE_BATCHES,
)
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_ACTIONS,
    WORKER_READS,
    sized,
    worker_processes,
)
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.input import input_decision, input_signals
from stepscope.advice.signals.loading.loader_calls import loader_calls
from stepscope.advice.signals.loading.made_elsewhere import made_elsewhere
from stepscope.advice.signals.loading.own_threads import made_in_own_threads
from stepscope.advice.signals.loading.pipeline import pipeline_signals
from stepscope.advice.signals.loading.practices import missing_practices
from stepscope.advice.signals.loading.python_elements import python_elements
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.patterns import Pattern
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.judging.worker_processes import WorkerProcesses
    from stepscope.advice.signals.input import InputSignals
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.judging.input_verdict import InputVerdict
    from stepscope.thresholds import Thresholds

#: With so many groups of copies in a step, divided by kernels, they are no batch's.
_MANY_PIECES: Final = 3
#: Stages that work on elements; others read them, keep them or hand them over.
_WORKS: Final = Pattern(r"Map|Interleave|Filter|Generator|Scan|Zip|Shuffle")
_NO_FETCH: Final = (
    "No fetch of a batch was recorded, and a typical step is almost wholly accounted "
    "for by other work."
)
_HIDDEN: Final = (
    "But fetches find no batch ready ({mean_fetch} each): they stay hidden only as "
    "long as the device is the slower one."
)
_COUNTED: Final = "Worker processes that make batches: {workers}, on {cores} cores."
_WORKERS: Final = (
    (
        f"{_COUNTED} While the step waits, none of them works in {{workers_idle}} of "
        "the time: the batches were ready, and were handed over late."
    ),
    (
        f"{_COUNTED} Of their time {{worker_share}} is spent in {{worker_function}}, "
        "and {worker_waits:nothing} waiting for work."
    ),
    _COUNTED,
)
_WORDS: Final = Words(
    passed="data arrives in time",
    lead=(
        (
            "Input-bound: copying the batch holds the step up for {exposed_copies} of "
            "the time, and for {mostly_unfed} the device waits until one is copied, "
            "and nothing recorded says for what (making it, or other work)."
        ),
        (
            "Input-bound (or other work before the batch), in bursts: {bursts}; for "
            "{mostly_unfed} of the time nothing recorded says for what, and then the "
            "batch is copied."
        ),
        (
            "Input-bound (or other work before the batch): the device waits "
            "{share_percent} of the time, {ms_per_step} a step; for {mostly_unfed} "
            "nothing recorded says for what, and then the batch is copied."
        ),
        (
            "Input-bound, in bursts: {bursts} for a batch ({share_percent} of the "
            "time); worker processes spend {worker_share} of theirs in "
            "{worker_function}."
        ),
        (
            "Input-bound, in bursts: {bursts} for a batch ({share_percent} of the "
            "time), most of it in {function}."
        ),
        "Input-bound, in bursts: {bursts} for a batch ({share_percent} of the time).",
        (
            "Copies to the device hold the step up: {mostly_transfer} of the time, in "
            "{pieces} groups a step with other work between them: not one batch, but "
            "as of weights that are kept on the host."
        ),
        "Copies of the batch hold the step up: {mostly_transfer} of the time.",
        (
            "Input-bound: waiting for data takes {share_percent} of the time, "
            "{ms_per_step} a step; worker processes spend {worker_share} of theirs in "
            "{worker_function}."
        ),
        (
            "Input-bound: waiting for data takes {share_percent} of the time, "
            "{ms_per_step} a step, most of it in {function}."
        ),
        (
            "Input-bound: waiting for data takes {share_percent} of the time, "
            "{ms_per_step} a step."
        ),
    ),
    texts={
        **WAITING,
        ("fail", None): (*WAITING["fail", None], _WORKERS),
        ("pass", "no_fetch"): ((_NO_FETCH,),),
        ("pass", "hidden"): (*WAITING["pass", None], (_HIDDEN,)),
    },
    causes={
        "fetch": "fetching the batch",
        "transfer": "copying the batch to the device",
        "unfed": "nothing recorded, and then the batch is copied",
    },
)
_OWNED: Final = Owned(
    parts={"fetch": ("input",), "transfer": ("copy_in",)}, steps=True, lost=True
)
#: Where no fetch was recorded and the program is silent before each batch.
_UNFED: Final = msgspec.structs.replace(
    _OWNED, parts={**_OWNED.parts, "unfed": ("unfed",)}
)
#: Where what is waited for is copies, in the calls that make them.
_COPIED: Final = msgspec.structs.replace(
    _OWNED, parts={"transfer": ("input", "copy_in")}
)
_COPY_CALL: Final = Pattern(r"(?i)memcpy")
#: So much of the wait in such calls is all of it.
_ALL_COPIES: Final = 0.9
#: An op that runs for so much of the wait is what it waits for.
_MOSTLY: Final = 50.0
#: What the order of events shows is no proof.
_CIRCUMSTANTIAL: Final = 0.6
_ITEM: Final = Item(
    id="input.bound",
    stage=1,
    title="the step waits for its data",
    words=_WORDS,
    pages=("input_pipeline_analyzer", "tf_data_bottleneck_analysis"),
    confirm="Look at the ranges: the fetch runs while the device has nothing to do.",
    refute="Run with one synthetic batch repeated: if the step takes as long, the "
    "input is not what it waits for.",
    floors=("service time of the slowest input stage: not measured here",),
    explains=("capture.quality", "gaps.between", "step.outlier", "step.periodic"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which the step did nothing but wait for data."""
    found, fetching = signals.of(account_signals), signals.of(input_signals)
    if isinstance(found, Unavailable):
        return _ITEM.cannot_tell(found)
    decided = input_decision(found, fetching, signals.of(device_signals), thresholds)
    if decided.why is not None:
        return _ITEM.cannot_tell(decided.why)
    if isinstance(fetching, Unavailable):
        return _ITEM.cannot_tell(fetching)
    shares = found.labelled(decided.label)
    owned = _UNFED if shares.percent("unfed") else _of_copies(shares)
    verdict = _judge(owned, fetching, shares, decided, thresholds)
    failed = verdict.status == "fail"
    hidden = _hidden(fetching, shares, verdict, thresholds)
    workers = _makers(fetching, shares, signals) if failed else None
    return owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=thresholds.input_warn,
        note=_note(fetching, verdict, hidden=hidden),
        facts=(
            *_facts(fetching, shares, verdict, thresholds),
            *_waits(shares, signals),
            *(NO_WORKERS if workers is None else workers).facts(),
        ),
        workers=() if workers is None else workers.functions,
        parts=_parts(owned, shares, signals),
        inputs=("account", "host_classes"),
        actions=_actions(
            _missing_actions(fetching, shares, signals),
            verdict,
            least=thresholds.input_warn.value,
            pieces=_in_pieces(fetching, shares) is not None,
            unfed=_unfed(shares, signals),
            pinned=shares.label in fetching.pinned,
        )
        if failed
        else _missing_actions(fetching, shares, signals)
        if hidden
        else (),
    )


def _of_copies(shares: StepShares) -> Owned:
    """Return whose time it is: a call that waits for its own copy fetches nothing."""
    copies = sum(
        one.share_percent
        for one in shares.parts("input")
        if _COPY_CALL.search(one.name)
    )
    waits = shares.percent("input")
    return _COPIED if waits and copies >= _ALL_COPIES * waits else _OWNED


def _parts(owned: Owned, shares: StepShares, signals: Signals) -> tuple[Part, ...]:
    """Return what is waited for, the program's function that makes batches first."""
    parts = shares.parts(*owned.owners)
    making = shares.caller("input")
    if making is None or _is_given_batches(making, shares, signals):
        making = _behind_op(shares, signals)
    if making is None:
        return parts
    same = (making.function, making.file, making.line)
    rest = (one for one in parts if (one.function, one.file, one.line) != same)
    return (making, *rest)


def _behind_op(shares: StepShares, signals: Signals) -> Part | None:
    """Return the function that an op of the pipeline calls for most of the wait."""
    found = signals.of(python_elements).get(shares.host)
    if found is None or found.function is None or found.percent < _MOSTLY:
        return None
    share = shares.percent("input") * found.percent / 100
    return msgspec.structs.replace(found.function, share_percent=share)


def _is_given_batches(function: Part, shares: StepShares, signals: Signals) -> bool:
    """Return whether a loader made batches, and did not call a function for them.

    Looks at a stack come late where the interpreter was not free, and then find the
    function that is given the batch in place of the one that made it.
    """
    seen = signals.of(loader_calls).get(shares.host)
    return seen is not None and not seen.makes(function)


def _judge(
    owned: Owned,
    fetching: InputSignals,
    shares: StepShares,
    decided: InputVerdict,
    thresholds: Thresholds,
) -> Verdict:
    """Return the verdict on what was decided, with the causes that the rule names."""
    parts = {cause: shares.times(*owners) for cause, owners in owned.parts.items()}
    verdict = judge(
        msgspec.structs.replace(decided.series, parts_ps=parts),
        warn=thresholds.input_warn,
        critical=thresholds.input_critical,
        thresholds=thresholds,
    )
    if verdict.status == "cannot_tell" and not fetching.consumer_recorded:
        return msgspec.structs.replace(verdict, unavailable=_fetches_unseen(verdict))
    if verdict.causes and verdict.causes[0].cause == "unfed":
        sure = min(verdict.confidence, _CIRCUMSTANTIAL)
        return msgspec.structs.replace(verdict, confidence=sure)
    return verdict


def _usual(shares: StepShares, signals: Signals) -> tuple[Action, ...]:
    """Return how batches are made in parallel and ahead where nothing does so yet."""
    own = shares.host in signals.of(made_in_own_threads)
    return IN_OWN_THREADS if own else FETCH


def _unfed(shares: StepShares, signals: Signals) -> tuple[Action, ...]:
    """Return what removes silence, or waits, that may be the making of a batch."""
    others = _by_others("unfed", shares, signals)
    if others:
        return (*sized(others, signals), *TO_BE_SURE)
    told = tuple(one for one in ACTIONS if one.cause == "unfed")
    return (*told, *sized(_usual(shares, signals), signals))


def _actions(
    missing: tuple[Action, ...],
    verdict: Verdict,
    *,
    least: float,
    pieces: bool,
    unfed: tuple[Action, ...],
    pinned: bool,
) -> tuple[Action, ...]:
    """Return what removes the causes that matter, the larger cause first.

    What the pipeline does not do yet removes waits for a fetch.

    A cause matters by itself from a share of `least` percent on.
    """
    largest = verdict.causes[0].share_percent if verdict.causes else 0.0
    found: tuple[Action, ...] = ()
    for cause in verdict.causes:
        if cause.share_percent < min(largest / 4, least):
            continue
        if cause.cause == "fetch":
            found += missing
        elif cause.cause == "transfer" and pieces:
            found += PIECES
        elif cause.cause == "unfed":
            found += unfed
        else:
            found += BESIDE if pinned and cause.cause == "transfer" else ()
            found += tuple(
                one
                for one in ACTIONS
                if one.cause == cause.cause and not (pinned and one in TO_PIN)
            )
    return found


def _in_pieces(fetching: InputSignals, shares: StepShares) -> float | None:
    """Return into how many groups kernels divide the copies; None for a batch's."""
    pieces = fetching.pieces.get(shares.label, 0.0)
    return pieces if pieces >= _MANY_PIECES else None


def _missing_actions(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> tuple[Action, ...]:
    """Return what a pipeline does not do yet; where it does all, what remains."""
    usual = _usual(shares, signals)
    if usual is not FETCH:
        return sized(usual, signals)
    python = signals.of(python_elements).get(shares.host)
    pipeline = signals.of(pipeline_signals)
    lacks = missing_practices(pipeline, python)
    native = NATIVE if "native_code" in lacks else ()
    if native and python is not None and python.of_keras:
        keras = sized(KERAS_WORKERS, signals)
        return (*keras, *native, *ANY_FETCH)
    makers = _makers(fetching, shares, signals)
    if makers is not None and makers.time is not None:
        return (*makers.actions(), *ANY_FETCH)
    stages = pipeline.stages
    if stages and fetching.ahead and not any(_WORKS.search(it.type) for it in stages):
        return HANDED_OVER
    sequential = {"parallel_map", "parallel_read"}.intersection(lacks)
    # Stages show by themselves whether they fetch ahead.
    if sequential or not (fetching.parallel and (fetching.ahead or stages)):
        others = () if stages else _by_others("fetch", shares, signals)
        return (*native, *sized(others or FETCH, signals))
    return (*native, *_left_to_do(lacks, makers))


def _by_others(cause: str, shares: StepShares, signals: Signals) -> tuple[Action, ...]:
    """Return what fits waits for others that make the batches; nothing for no waits.

    Calls of the operating system show for whom the step's thread waits: who makes a
    batch itself is in none that waits.
    """
    found = signals.of(made_elsewhere).get(shares.label, {}).get(cause)
    if found is None:
        return ()
    if found.sent_percent + found.threads_percent < _MOSTLY:
        return ()
    sent = found.sent_percent >= found.threads_percent
    return BY_OTHER_PROCESSES if sent else BY_OTHER_THREADS


def _left_to_do(
    lacks: tuple[str, ...], makers: WorkerProcesses | None
) -> tuple[Action, ...]:
    """Return what remains where batches are made in parallel and ahead.

    Args:
        lacks: Practices that the pipeline lacks.
        makers: The worker processes that make the batches; None where none do.
    """
    if "ready" in lacks:
        return WERE_READY
    cache = CACHE if "cache" in lacks else ()
    rest = () if cache else ANY_FETCH
    remaining = REMAINING if makers is None else makers.actions()
    whole = WHOLE_BATCHES if "vectorise" in lacks else ()
    # Fetching ahead suits every pipeline; a cache only what is small and not random.
    if "prefetch" in lacks:
        return (*whole, *TO_FETCH_AHEAD, *cache, *rest)
    return (*cache, *whole, *remaining, *rest)


def _note(fetching: InputSignals, verdict: Verdict, *, hidden: bool) -> str | None:
    if verdict.note == "short":
        return verdict.note
    if hidden:
        return "hidden"
    if verdict.status == "pass" and not fetching.consumer_recorded:
        return "no_fetch"
    return verdict.note


def _hidden(
    fetching: InputSignals,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
) -> bool:
    """Return whether fetches find an empty buffer while the device is busy."""
    hidden = fetching.hidden_fetch_ps.get(shares.label, ())
    if verdict.status != "pass" or shares.device is None or not hidden:
        return False
    slow = sum(time > thresholds.slow_fetch.value for time in hidden)
    return 100 * slow >= thresholds.slow_fetch_steps.value * len(hidden)


def _facts(
    fetching: InputSignals,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
) -> tuple[Fact, ...]:
    means = fetching.mean_fetch_ps.get(shares.host, ())
    copies = shares.percent("copy_in")
    return (
        Fact(
            name="mean_fetch",
            value=math.fsum(means) / len(means) / PS_PER_US if means else None,
            unit="us",
            note=None if means else "no fetch of a batch was recorded",
        ),
        Fact(
            name="smallest_visible_effect",
            value=verdict.resolution_percent,
            unit="percent",
        ),
        Fact(name="pieces", value=_in_pieces(fetching, shares), unit="count"),
        Fact(
            name="exposed_copies",
            value=copies if copies >= thresholds.input_warn.value else None,
            unit="percent",
            note="as far as they are a matter by themselves",
        ),
    )


def _waits(shares: StepShares, signals: Signals) -> tuple[Fact, ...]:
    """Return for whom the step's thread waits, where calls of the system show it."""
    found = signals.of(made_elsewhere).get(shares.label, {})
    most = found.get("fetch") or found.get("unfed")
    if most is None:
        return ()
    note = "of the waits for a batch, by calls of the operating system"
    return tuple(
        Fact(name=name, value=value, unit="percent", note=note)
        for name, value in (
            ("waits_for_sent", most.sent_percent),
            ("waits_for_threads", most.threads_percent),
        )
    )


def _makers(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> WorkerProcesses | None:
    """Return the worker processes that make the batches; None where none do.

    Those of a loader that is known to have some do. Others do where the step waits for
    its batch and they work: what a program hands to a pool nobody records.
    """
    if signals.of(pipeline_signals).stages:
        return None
    found = worker_processes(signals, shares.host)
    if found is None or (fetching.parallel and fetching.ahead):
        return found
    time = found.time
    works = time is not None and not time.are_idle and time.most is not None
    return found if works else None


def _fetches_unseen(verdict: Verdict) -> Unavailable:
    return Unavailable(
        code="NO_TFDATA_EVENTS",
        reason="No fetch of a batch was recorded, and what the step threads did in "
        f"{verdict.resolution_percent:.0f} % of the step is unknown: it may be the "
        "making of batches.",
        remedy=Remedy.RECORD_FETCHES,
    )


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (
        *OWNED_READS,
        input_signals,
        loader_calls,
        made_elsewhere,
        *WORKER_READS,
        made_in_own_threads,
        pipeline_signals,
        python_elements,
    ),
    advises=WORKER_ACTIONS,
)
