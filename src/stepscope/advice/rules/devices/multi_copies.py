"""`multi.copies`: copies among the host and its devices hold up several of them.

Definition: docs/advice/multi_copies.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding, Part, Saving
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import ONE_EACH, hands_on, worker_words
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.several.communication import communication_signals
from stepscope.advice.signals.several.copies import moved_data
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.signals.several.copies import MovedData
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds

_COPIES: Final = Owned(
    parts={"copies": ("copy_in", "copy_out")},
    device=True,
    # Tracers of some devices see no copies.
    seen=("copy_in", "copy_out"),
)
_ACTIONS: Final = (
    Action(
        cause="in_turn",
        framework="TensorFlow",
        text="Distribute the dataset, so that each device is fed by its own thread.",
        code="dataset = strategy.experimental_distribute_dataset(dataset)",
    ),
    Action(
        cause="in_turn",
        framework="JAX",
        text="Put the shards of a batch on all devices at once, one batch ahead.",
        code="batch = jax.make_array_from_process_local_data(sharding, batch)",
    ),
    Action(
        cause="in_turn",
        framework="PyTorch",
        text="Feed each device from a process of its own, from pinned memory.",
        code="DistributedDataParallel(model)  # in place of DataParallel",
    ),
    Action(
        cause="between",
        framework="any",
        text="Keep what a device needs on it: copies between devices should be left to "
        "the exchange of gradients.",
    ),
    Action(
        cause="gathered",
        framework="any",
        text="Reduce results on the devices, and read back the sum: no gathering of "
        "outputs on one of them.",
    ),
)
_WORDS: Final = Words(
    passed="copies among host and devices hold up none of them",
    lead=(
        (
            "Copies among the host and its devices hold them up {share_percent} of the "
            "time, {ms_per_step} a step: most of it {named}."
        ),
    ),
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "Copies among the host and its devices hold them up "
                    "{share_percent} of the time, {ms_per_step} a step: most of it "
                    "{named}."
                ),
            ),
            ("{pattern}",),
        ),
    },
    causes={
        "in_turn": "devices are fed one after another",
        "between": "copies between devices",
        "gathered": "one device copies the results to the host",
    },
)
_ITEM: Final = Item(
    id="multi.copies",
    stage=8,
    title="copies among host and devices hold up the devices",
    words=_WORDS,
    pages=("pod_viewer", "trace_viewer"),
    confirm="Look at the copies of all devices: they come one after another, or no "
    "kernel runs beside them.",
    refute="Run on one device: if a step spends as long beside copies, they are no "
    "matter of several devices.",
    floors=("the rate of the link that all devices share",),
    actions=_ACTIONS,
    explains=("copy.exposed", "input.bound", "multi.stagger", "allreduce.arrival"),
)
#: The link may not carry several copies at once.
_SURE: Final = 0.3


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time that devices wait for copies which one device would not have."""
    shares = shares_of(_ITEM, _COPIES, signals, thresholds)
    found = signals.of(moved_data)
    if found is None and signals.of(device_signals).recorded == "recorded":
        return _ITEM.not_applicable(ONE_EACH)
    if isinstance(shares, Finding):
        return shares
    if found is None or isinstance(found, Unavailable) or not found.window_ps:
        why = found if isinstance(found, Unavailable) else _NO_STEPS
        return _ITEM.cannot_tell(why)
    parts = {"in_turn": found.in_turn_ps, "gathered": found.gathered_ps}
    # Stages of a pipeline hand their results on by design.
    if not hands_on(signals):
        parts["between"] = found.between_ps
    warn = thresholds.moved_warn
    verdict = judge(
        StepSeries(
            step_source=found.step_source,
            step_confidence=found.step_confidence,
            window_ps=found.window_ps,
            parts_ps=parts,
        ),
        warn=warn,
        critical=thresholds.moved_critical,
        thresholds=thresholds,
    )
    if verdict.status == "pass" and found.step_source is None:
        # Devices that are fed in turn are so in each step.
        return _ITEM.cannot_tell(_UNKNOWN_STEPS)
    causes = {one.cause for one in verdict.causes}
    made = _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        stepped=found.step_source is not None,
        devices=found.devices,
        parts=_parts(found, verdict),
        facts=_facts(found),
        inputs=("account", "exposure", "windows"),
        actions=tuple(one for one in _ACTIONS if one.cause in causes)
        if verdict.status == "fail"
        else (),
    )
    if made.saving_ms is None:
        return made
    high = made.saving_ms.high
    return msgspec.structs.replace(made, saving_ms=Saving(low=_SURE * high, high=high))


def _parts(found: MovedData, verdict: Verdict) -> tuple[Part, ...]:
    """Return the causes as the places where they are seen."""
    gathering = worker_words(found.gathering or "", found.devices)
    names = {
        "in_turn": f"feeding {len(found.devices)} devices one after another, "
        f"{worker_words(found.devices[0], found.devices)} last",
        "between": "copies between devices",
        "gathered": f"results that {gathering} alone copies to the host",
    }
    return tuple(
        Part(name=names[one.cause], share_percent=one.share_percent)
        for one in verdict.causes
    )


def _facts(found: MovedData) -> tuple[Fact, ...]:
    largest = sorted(found.bytes.items(), key=lambda it: (-it[1], it[0]))
    return tuple(
        Fact(
            name="mebibytes",
            value=moved / MIB,
            unit="count",
            note=f"in a step from {source} to {target}",
        )
        for (source, target), moved in largest[:_SHOWN]
    )


_SHOWN: Final = 8
_NO_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="There is no time to judge.",
    remedy="Record some whole steps.",
)


_UNKNOWN_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps it is unknown which copies feed the devices for one of them.",
    remedy=Remedy.MARK_STEPS,
)
RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, communication_signals, moved_data))
