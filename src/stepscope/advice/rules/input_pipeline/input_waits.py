"""Rules about steps that wait for their data, and about the stage that is slow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    OwnedTime,
    judge_owned,
)
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_READS,
    fit_worker_numbers,
    worker_processes,
)
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part, Saving
from stepscope.derive.facts.hosts.batch_fetches import input_decision, input_signals
from stepscope.derive.facts.hosts.batch_production import (
    loader_calls,
    loader_work,
    made_elsewhere,
    made_in_own_threads,
    python_elements,
)
from stepscope.derive.facts.hosts.pipeline_stages import (
    missing_practices,
    pipeline_signals,
)
from stepscope.derive.facts.processors import asleep
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.patterns import Pattern
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Action, Finding
    from stepscope.advice.judging.worker_processes import WorkerProcesses
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.hosts.batch_fetches import InputSignals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.verdicts.input_verdict import InputVerdict

_BOUND_ITEM: Final = rule_item("input.bound")

#: Minimum number of copy groups per step (kernels between them) that are not one batch.
_MIN_COPY_GROUPS: Final = 3
#: Names of stages that process elements; other stages read, store or forward elements.
_WORKS: Final = Pattern(r"Map|Interleave|Filter|Generator|Scan|Zip|Shuffle")
_OWNED: Final = Owned(parts={"fetch": ("input",), "transfer": ("copy_in",)})
#: The judged time if no batch fetch, but a silence before each batch, was recorded.
_UNFED: Final = replace(_OWNED, parts={**_OWNED.parts, "unfed": ("unfed",)})
#: The judged time if a step waits only in calls that copy.
_COPIED: Final = replace(_OWNED, parts={"transfer": ("input", "copy_in")})
_COPY_CALL: Final = Pattern(r"(?i)memcpy")
#: Minimum share of copy calls in the wait at which the whole wait counts as copies.
_MIN_COPY_SHARE: Final = 0.9
#: Minimum share of the input wait, in percent, that an op or process must cause.
_MIN_CAUSE_PERCENT: Final = 50.0
#: Minimum share of computing, in percent, during which a copy can run.
_MIN_COMPUTE_PERCENT: Final = 1.0
#: Maximum confidence in a cause that only the order of events suggests.
_MAX_ORDER_CONFIDENCE: Final = 0.6


@rule(
    _BOUND_ITEM,
    *OWNED_READS,
    asleep,
    input_signals,
    loader_calls,
    loader_work,
    made_elsewhere,
    *WORKER_READS,
    made_in_own_threads,
    pipeline_signals,
    python_elements,
)
def judge_input_wait(signals: Signals) -> Finding:
    account, fetching = signals.needed(account_signals), signals.of(input_signals)
    decided = input_decision(account, fetching, signals.of(device_signals))
    if decided.why is not None:
        return _BOUND_ITEM.cannot_tell(decided.why)
    fetching = signals.needed(input_signals)
    shares = account.shares_of_label(decided.label)
    judged = _judge_decided(decided, fetching, shares, signals)
    # The wait is hidden if fetches find an empty buffer while the device is busy.
    fetches = fetching.hidden_fetch_ps.get(shares.label, ())
    slow = sum(time > THRESHOLDS.slow_fetch.value for time in fetches)
    hidden = (
        judged.verdict.status == "pass"
        and shares.device is not None
        and bool(fetches)
        and 100 * slow >= THRESHOLDS.slow_fetch_steps.value * len(fetches)
    )
    workers = _batch_producers(fetching, shares, signals) if judged.failed else None
    # What the step thread's system calls show: the thread or process that it waits for.
    by_cause = signals.of(made_elsewhere).get(shares.label, {})
    waits = by_cause.get("fetch") or by_cause.get("unfed")
    note = judged.verdict.note
    if note != "short" and hidden:
        note = "hidden"
    elif note != "short" and not fetching.consumer_recorded:
        note = "no_fetch" if judged.verdict.status == "pass" else note
    finding = judged.finding(
        note=note,
        facts=(
            *_facts_of_input(fetching, judged),
            *(
                ()
                if waits is None
                else _BOUND_ITEM.facts(
                    waits_for_sent=waits.sent_percent,
                    waits_for_threads=waits.threads_percent,
                )
            ),
            *(NO_WORKERS if workers is None else workers).facts(),
        ),
        workers=() if workers is None else workers.functions,
        parts=_parts_with_producer(
            judged.owned, shares, signals, by_processes=workers is not None
        ),
        inputs=("account", "host_classes"),
        actions=_actions_by_cause(fetching, judged),
    )
    if hidden:
        actions = _actions_for_fetch(fetching, shares, signals)
        return replace(finding, actions=actions)
    mean_ms = judged.verdict.pattern.mean_ms
    if finding.saving_ms is None or mean_ms is None:
        return finding
    # Batches that are ready sooner may still be late.
    saving = Saving.of_part(finding.saving_ms.high, mean_ms[0])
    return replace(finding, saving_ms=saving)


def _parts_with_producer(
    owned: Owned, shares: StepShares, signals: Signals, *, by_processes: bool
) -> tuple[Part, ...]:
    """Return named parts of the wait for batches, the producer of batches first."""
    parts = shares.parts(*owned.owners)
    awaited = signals.of(asleep).get(shares.host, {}).get("input")
    if awaited is not None:
        return awaited.named_parts(parts, for_processes=by_processes)
    producer = shares.caller("input")
    calls = signals.of(loader_calls).get(shares.host)
    # If the Python interpreter is busy, stack samples are late: they show the function
    # that receives the batch instead of the function that produced it.
    if producer is None or (calls is not None and not calls.mostly_calls(producer)):
        # Use the Python function that the pipeline calls for most of the wait.
        called = signals.of(python_elements).get(shares.host)
        producer = None
        if (
            called is not None
            and called.percent >= _MIN_CAUSE_PERCENT
            and called.function
        ):
            share = shares.percent("input") * called.percent / 100
            producer = replace(called.function, share_percent=share)
    if producer is None:
        return parts
    return (producer, *(part for part in parts if part.key != producer.key))


def _judge_decided(
    decided: InputVerdict, fetching: InputSignals, shares: StepShares, signals: Signals
) -> OwnedTime:
    """Return the verdict on waits for input and transfers of input, by cause."""
    owned, waits = _OWNED, shares.percent("input")
    copies = sum(
        part.share_percent
        for part in shares.parts("input")
        if _COPY_CALL.search(part.name)
    )
    if shares.percent("unfed"):
        owned = _UNFED
    elif waits and copies >= _MIN_COPY_SHARE * waits:
        # A copy call that waits for its own copy does not fetch a batch.
        owned = _COPIED
    parts = {cause: shares.times(*owners) for cause, owners in owned.parts.items()}
    series = replace(decided.series, parts_ps=parts)
    judged = judge_owned(_BOUND_ITEM, owned, signals, shares=shares, series=series)
    verdict = judged.verdict
    if verdict.status == "cannot_tell" and not fetching.consumer_recorded:
        percent = verdict.resolution_percent
        why = _BOUND_ITEM.reason("fetches_unseen", resolution_percent=percent)
        return judged.with_verdict(unavailable=why)
    if verdict.causes and verdict.causes[0].cause == "unfed":
        return judged.with_verdict(
            confidence=min(verdict.confidence, _MAX_ORDER_CONFIDENCE)
        )
    return judged


def _actions_by_cause(fetching: InputSignals, judged: OwnedTime) -> tuple[Action, ...]:
    """Return actions that remove the causes that matter, the larger cause first.

    A cause that reaches the threshold of the rule always matters.
    """
    causes, shares, signals = judged.verdict.causes, judged.shares, judged.signals
    largest = causes[0].share_percent if causes else 0.0
    min_percent = min(largest / 4, THRESHOLDS.input_warn.value)
    actions: tuple[Action, ...] = ()
    for cause in causes:
        if cause.share_percent < min_percent:
            continue
        if cause.cause == "fetch":
            actions += _actions_for_fetch(fetching, shares, signals)
        elif cause.cause == "unfed":
            # The recording does not show how these batches are produced.
            own_threads = shares.host in signals.of(made_in_own_threads)
            assumed: tuple[str, ...] = ("unseen", "one_by_one", "cacheable")
            if own_threads:
                assumed = ("own_threads",)
            facts = _producers("unfed", shares, signals) or assumed
            actions += fit_worker_numbers(
                _BOUND_ITEM.actions_for("unfed", "fetch", *facts), signals
            )
        else:
            pinned = shares.label in fetching.pinned
            of_batch: tuple[str, ...] = ("batch", "pinned" if pinned else "pageable")
            if shares.percent(*COMPUTE_OWNERS) >= _MIN_COMPUTE_PERCENT:
                of_batch = (*of_batch, "computes")
            in_pieces = _groups_of_copies(fetching, shares, signals) is not None
            facts = ("pieces",) if in_pieces else of_batch
            actions += _BOUND_ITEM.actions_for("transfer", *facts)
    return actions


def _groups_of_copies(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> float | None:
    """Return how many groups of copies kernels separate; None for copies of a batch.

    A loader that works on the device copies parts of batches between its own kernels.
    """
    if shares.host in signals.of(made_in_own_threads):
        return None
    pieces = fetching.pieces.get(shares.label, 0.0)
    return pieces if pieces >= _MIN_COPY_GROUPS else None


def _actions_for_fetch(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> tuple[Action, ...]:
    """Return actions that let batches arrive sooner."""
    workers = _batch_producers(fetching, shares, signals)
    facts = _batch_production_facts(fetching, shares, signals, workers)
    of_workers: tuple[Action, ...] = ()
    if workers is not None and "worker_processes" in facts:
        sampled = shares.host in signals.of(loader_calls)
        of_workers = workers.actions(of_loader=sampled or fetching.parallel is not None)
    return (
        *of_workers,
        *fit_worker_numbers(_BOUND_ITEM.actions_for("fetch", *facts), signals),
    )


def _batch_production_facts(
    fetching: InputSignals,
    shares: StepShares,
    signals: Signals,
    workers: WorkerProcesses | None,
) -> tuple[str, ...]:
    """Return facts on what produces the batches, and on what the producer lacks."""
    by_loader = signals.of(loader_work).get(shares.host, {})
    works = [work for work in by_loader if by_loader[work] >= _MIN_CAUSE_PERCENT]
    if works or shares.host in signals.of(made_in_own_threads):
        return (works[0] if works else "own_threads",)
    python, pipeline = (
        signals.of(python_elements).get(shares.host),
        signals.of(pipeline_signals),
    )
    lacks = missing_practices(pipeline, python)
    native = ("native_code",) if "native_code" in lacks else ()
    if native and python is not None and python.of_keras:
        return ("asks_keras_dataset", *native, "cacheable")
    awaits = "input" in signals.of(asleep).get(shares.host, {})
    if workers is not None and (workers.time is not None or awaits):
        return ("worker_processes", "cacheable")
    stages = pipeline.stages
    transforms = any(_WORKS.search(stage.type) for stage in stages)
    # Transformations may be missing only because their stages were not recorded.
    alone = stages and fetching.ahead and not transforms
    if alone and fetching.parallel is not None:
        return ("untransformed",)
    sequential = {"parallel_map", "parallel_read"}.intersection(lacks)
    # A function that runs for most of the wait shows how batches are produced.
    shown = fetching.parallel is not None or shares.caller("input") is not None
    unknown = () if shown and "unseen" not in lacks else ("practices_unknown",)
    # If stages are recorded, stages that fetch ahead are recorded too.
    known = fetching.parallel and (fetching.ahead or stages) and not unknown
    if sequential or not known:
        by_producers = () if stages else _producers("fetch", shares, signals)
        # Threads that hold one interpreter's lock in turn do not run in parallel.
        one_by_one = () if native else ("one_by_one",)
        return (*native, *(by_producers or (*one_by_one, *unknown, "cacheable")))
    reason_late = "late_although_ahead" if workers is None else "worker_processes"
    late = (
        *("ahead", *lacks),
        # More cores do not help threads that hold one interpreter's lock in turn.
        *(() if {"prefetch", "native_code"}.intersection(lacks) else (reason_late,)),
        *(() if "cache" in lacks else ("cacheable",)),
    )
    return lacks if "ready" in lacks else late


def _producers(cause: str, shares: StepShares, signals: Signals) -> tuple[str, ...]:
    """Return facts about other threads or processes that produce the awaited batches.

    System calls show which thread or process the step's thread waits for. A step thread
    that produces the batch itself is not in a waiting call.
    """
    awaited = signals.of(asleep).get(shares.host, {}).get("input")
    if cause == "fetch" and awaited is not None:
        known = awaited.works or awaited.other is not None
        return ("made_elsewhere", *(("other_thread",) if known else ()))
    waits = signals.of(made_elsewhere).get(shares.label, {}).get(cause)
    if waits is None or waits.sent_percent + waits.threads_percent < _MIN_CAUSE_PERCENT:
        return ()
    sent = waits.sent_percent >= waits.threads_percent
    return ("made_elsewhere", "other_process" if sent else "other_thread")


def _facts_of_input(fetching: InputSignals, judged: OwnedTime) -> tuple[Fact, ...]:
    shares = judged.shares
    means = fetching.mean_fetch_ps.get(shares.host, ())
    copies = shares.percent("copy_in")
    matter = copies >= THRESHOLDS.input_warn.value
    mostly = judged.verdict.share_percent >= THRESHOLDS.input_critical.value
    degree = _BOUND_ITEM.note("bound" if mostly else "bound_in_part")
    return (
        *((_BOUND_ITEM.fact("degree", None, note=degree),) if judged.failed else ()),
        _BOUND_ITEM.fact(
            "mean_fetch",
            math.fsum(means) / len(means) / PS_PER_US if means else None,
            note=None if means else _BOUND_ITEM.note("no_fetch"),
        ),
        *_BOUND_ITEM.facts(
            smallest_visible_effect=judged.verdict.resolution_percent,
            pieces=_groups_of_copies(fetching, shares, judged.signals),
            exposed_copies=copies if matter else None,
        ),
    )


def _batch_producers(
    fetching: InputSignals, shares: StepShares, signals: Signals
) -> WorkerProcesses | None:
    """Return the worker processes that produce the batches; None if there are none.

    Workers of a known loader produce batches, and so do workers of a program that waits
    for another process. Other workers count if they work while the step waits, because
    the recording does not show what a program hands to a pool.
    """
    if signals.of(pipeline_signals).stages:
        return None
    workers = worker_processes(signals, shares.host)
    if workers is None or (fetching.parallel and fetching.ahead):
        return workers
    time, awaited = workers.time, signals.of(asleep).get(shares.host, {}).get("input")
    works = time is not None and not time.are_idle and time.most is not None
    if awaited is not None:
        unknown = not awaited.works and awaited.other is None
        works = unknown or workers.are_awaited(awaited)
    return workers if works else None


_STAGE_ITEM: Final = rule_item("input.stage")


@rule(_STAGE_ITEM, *judge_input_wait.reads)
def judge_slow_stage(signals: Signals) -> Finding:
    waits = judge_input_wait(signals)
    if waits.status == "cannot_tell":
        return _STAGE_ITEM.cannot_tell(
            waits.unavailable or _STAGE_ITEM.reason("no_wait")
        )
    # A step that waits for copies of its batch does not wait for the pipeline.
    fetching = sum(
        cause.share_percent for cause in waits.causes if cause.cause != "transfer"
    )
    if waits.note != "hidden" and (
        waits.status == "pass" or fetching < THRESHOLDS.input_warn.value
    ):
        return _STAGE_ITEM.not_applicable("no_wait")
    pipeline, python = signals.of(pipeline_signals), signals.of(python_elements)
    if not pipeline.stages and not pipeline.own_process:
        return _STAGE_ITEM.cannot_tell(pipeline.absent or _STAGE_ITEM.reason("no_wait"))
    missing = missing_practices(pipeline, python.get(pipeline.host or ""))
    actions = fit_worker_numbers(_STAGE_ITEM.actions_for(*missing), signals)
    opaque = (stage for stage in pipeline.stages if not stage.transparent)
    slowest = sorted(opaque, key=lambda stage: -stage.percent)
    return _STAGE_ITEM.finding(
        "fail",
        severity=waits.severity if waits.status == "fail" else "info",
        confidence=waits.confidence,
        value=slowest[0].percent if slowest else None,
        because=missing,
        parts=tuple(
            Part(name=stage.name, share_percent=stage.percent)
            for stage in slowest[:MAX_RANGES_SHOWN]
        ),
        devices=waits.devices,
        facts=_STAGE_ITEM.facts(
            runs_per_batch=slowest[0].runs_per_call if slowest else None
        ),
        inputs=("pipeline_graph", "pipeline_calls"),
        # A loader in the program's process may be that of a library, such as Keras.
        actions=(pipeline.own_process and waits.actions) or actions,
        explained_by=(judge_input_wait.item.id,) if waits.status == "fail" else (),
    )
