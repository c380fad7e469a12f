"""`input.bound`: the step waits for its data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, owned_finding
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_READS,
    sized,
    worker_processes,
)
from stepscope.advice.verdict import judge
from stepscope.derive.facts.hosts.batch_fetches import input_decision, input_signals
from stepscope.derive.facts.hosts.batch_makers import (
    loader_calls,
    made_elsewhere,
    made_in_own_threads,
    python_elements,
)
from stepscope.derive.facts.hosts.pipeline_stages import (
    missing_practices,
    pipeline_signals,
)
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Finding
    from stepscope.advice.judging.worker_processes import WorkerProcesses
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.evidence import Fact, Part
    from stepscope.derive.facts.hosts.batch_fetches import InputSignals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.judging.input_verdict import InputVerdict
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("input.bound")

#: With so many groups of copies in a step, divided by kernels, they are no batch's.
_MANY_PIECES: Final = 3
#: Stages that work on elements; others read them, keep them or hand them over.
_WORKS: Final = Pattern(r"Map|Interleave|Filter|Generator|Scan|Zip|Shuffle")
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


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
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
        return msgspec.structs.replace(
            verdict,
            unavailable=_ITEM.reason(
                "fetches_unseen", resolution_percent=verdict.resolution_percent
            ),
        )
    if verdict.causes and verdict.causes[0].cause == "unfed":
        sure = min(verdict.confidence, _CIRCUMSTANTIAL)
        return msgspec.structs.replace(verdict, confidence=sure)
    return verdict


def _has_own_threads(shares: StepShares, signals: Signals) -> bool:
    """Return whether a library makes the batches in threads of its own."""
    return shares.host in signals.of(made_in_own_threads)


def _unfed(shares: StepShares, signals: Signals) -> tuple[Action, ...]:
    """Return what removes silence, or waits, that may be the making of a batch."""
    others = _by_others("unfed", shares, signals)
    if others:
        return (*sized(others, signals), _ITEM.action("mark_fetch"))
    usual = "give_dali_threads" if _has_own_threads(shares, signals) else "fetch"
    making = sized(_ITEM.chosen(usual), signals)
    return (_ITEM.action("make_next_ahead"), *making)


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
            found += _ITEM.chosen("keep_on_device")
        elif cause.cause == "unfed":
            found += unfed
        else:
            found += _ITEM.chosen("transfer_of_pinned" if pinned else "transfer")
    return found


def _in_pieces(fetching: InputSignals, shares: StepShares) -> float | None:
    """Return into how many groups kernels divide the copies; None for a batch's."""
    pieces = fetching.pieces.get(shares.label, 0.0)
    return pieces if pieces >= _MANY_PIECES else None


def _missing_actions(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> tuple[Action, ...]:
    """Return what a pipeline does not do yet; where it does all, what remains."""
    if _has_own_threads(shares, signals):
        return sized(_ITEM.chosen("give_dali_threads"), signals)
    python = signals.of(python_elements).get(shares.host)
    pipeline = signals.of(pipeline_signals)
    lacks = missing_practices(pipeline, python)
    native = _ITEM.chosen("replace_python") if "native_code" in lacks else ()
    if native and python is not None and python.of_keras:
        keras = sized(_ITEM.chosen("keras_workers"), signals)
        return (*keras, *native, _ITEM.action("cache_epochs"))
    makers = _makers(fetching, shares, signals)
    if makers is not None and makers.time is not None:
        return (*makers.actions(), _ITEM.action("cache_epochs"))
    stages = pipeline.stages
    if stages and fetching.ahead and not any(_WORKS.search(it.type) for it in stages):
        return _ITEM.chosen("free_cores_for_input")
    sequential = {"parallel_map", "parallel_read"}.intersection(lacks)
    # Stages show by themselves whether they fetch ahead.
    if sequential or not (fetching.parallel and (fetching.ahead or stages)):
        others = () if stages else _by_others("fetch", shares, signals)
        return (*native, *sized(others or _ITEM.chosen("fetch"), signals))
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
    return _ITEM.chosen("by_other_processes" if sent else "by_other_threads")


def _left_to_do(
    lacks: tuple[str, ...], makers: WorkerProcesses | None
) -> tuple[Action, ...]:
    """Return what remains where batches are made in parallel and ahead.

    Args:
        lacks: Practices that the pipeline lacks.
        makers: The worker processes that make the batches; None where none do.
    """
    if "ready" in lacks:
        return _ITEM.chosen("free_cores_for_handing_over")
    cache = _ITEM.chosen("cache_in_memory") if "cache" in lacks else ()
    rest = () if cache else _ITEM.chosen("cache_epochs")
    remaining = _ITEM.chosen("make_cheaper") if makers is None else makers.actions()
    whole = _ITEM.chosen("map_whole_batches") if "vectorise" in lacks else ()
    # Fetching ahead suits every pipeline; a cache only what is small and not random.
    if "prefetch" in lacks:
        return (*whole, _ITEM.action("make_batches_ahead"), *cache, *rest)
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
        _ITEM.fact(
            "mean_fetch",
            math.fsum(means) / len(means) / PS_PER_US if means else None,
            note=None if means else _ITEM.note("no_fetch"),
        ),
        *_ITEM.facts(
            smallest_visible_effect=verdict.resolution_percent,
            pieces=_in_pieces(fetching, shares),
            exposed_copies=copies if copies >= thresholds.input_warn.value else None,
        ),
    )


def _waits(shares: StepShares, signals: Signals) -> tuple[Fact, ...]:
    """Return for whom the step's thread waits, where calls of the system show it."""
    found = signals.of(made_elsewhere).get(shares.label, {})
    most = found.get("fetch") or found.get("unfed")
    if most is None:
        return ()
    return _ITEM.facts(
        waits_for_sent=most.sent_percent, waits_for_threads=most.threads_percent
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
)
