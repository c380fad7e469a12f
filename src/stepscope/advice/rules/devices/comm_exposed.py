"""`comm.exposed`: devices exchange data and compute nothing meanwhile.

Definition: docs/advice/comm_exposed.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
from stepscope.derive.facts.devices.exchanges import communication_signals
from stepscope.derive.facts.evidence import SHOWN, Evidence, Fact, Part
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.exchanges import CommunicationSignals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"collective": ("collective",), "peer": ("peer",)},
    device=True,
    seen=("collective",),
)
_ACTIONS: Final = (
    Action(
        cause="rows",
        framework="any",
        text="Exchange rows of experts, embeddings or sequences in pieces, each on its "
        "way while the one before is computed; send them in 16 bit, or keep more of "
        "them where they are needed.",
    ),
    Action(
        cause="rows",
        framework="PyTorch",
        text="Do other work until the rows are there.",
        code="sent = dist.all_to_all_single(out, rows, async_op=True); …; sent.wait()",
    ),
    Action(
        cause="gradients",
        framework="any",
        text="Compute more per exchange: a larger batch, or several batches "
        "accumulated before the gradients are exchanged.",
    ),
    Action(
        cause="gradients",
        framework="PyTorch",
        text="Let buckets of gradients start during the backward pass.",
        code="DistributedDataParallel(model, bucket_cap_mb=25, static_graph=True)",
    ),
    Action(
        cause="gradients",
        framework="TensorFlow",
        text="Exchange gradients in packs, so that the first can start early.",
        code="tf.distribute.experimental.CommunicationOptions(bytes_per_pack=…)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Let the compiler move exchanges beside computation.",
        env="XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true",
    ),
)
_ALL_TO_ALL: Final = "all-to-all"
#: So much of what is exchanged is what it is about.
_MOST: Final = 0.8
_EXPOSED: Final = (
    (
        "Communication is exposed: {share_percent} of the time, {ms_per_step} a step, "
        "most of it {named}."
    ),
    "Communication is exposed: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="communication is hidden behind computation",
    texts={**WAITING, ("fail", None): (_EXPOSED, ("{pattern}",))},
    causes={
        "collective": "exchanging, with nothing computed meanwhile",
        "peer": "waiting for other ranks to arrive",
    },
)
_ITEM: Final = Item(
    id="comm.exposed",
    stage=8,
    title="communication is not hidden behind computation",
    words=_WORDS,
    pages=("pod_viewer", "kernel_stats"),
    confirm="Look at the exchanges: no other stream of the device works beside them.",
    refute="Run on one device: if the step takes as long, it does not wait for "
    "exchanges.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which a device does nothing but exchange data."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    exchanged = signals.of(communication_signals)
    if isinstance(shares, Finding):
        return shares
    if isinstance(exchanged, Unavailable):
        return _ITEM.cannot_tell(exchanged)
    if not any(exchanged.count.values()):
        return _ITEM.not_applicable(_NO_EXCHANGE)
    warn = thresholds.exposed_warn
    critical = thresholds.exposed_critical
    verdict = judge_shares(_OWNED, shares, thresholds, warn=warn, critical=critical)
    kinds = _kinds(shares, exchanged, verdict.share_percent)
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        parts=kinds,
        facts=(
            Fact(
                name="collectives",
                value=exchanged.count.get(shares.label, 0),
                unit="count",
                note="in the whole recording",
            ),
        ),
        evidence=_evidence(shares, exchanged),
        inputs=("account", "collectives"),
        actions=_actions(kinds) if verdict.status == "fail" else (),
    )


def _actions(kinds: tuple[Part, ...]) -> tuple[Action, ...]:
    """Return what fits what is exchanged: an all-to-all carries no gradients."""
    rows = sum(one.share_percent for one in kinds if one.name.endswith(_ALL_TO_ALL))
    whole = sum(one.share_percent for one in kinds)
    causes = {
        "any",
        *(("rows",) if rows else ()),
        *(("gradients",) if rows < _MOST * whole or not whole else ()),
    }
    return tuple(one for one in _ACTIONS if one.cause in causes)


def _evidence(
    shares: StepShares, exchanged: CommunicationSignals
) -> tuple[Evidence, ...]:
    """Return the longest of both: exchanges, and waits for others to arrive."""
    both = (*exchanged.longest.get(shares.label, ()), *shares.evidence("peer"))
    by_length = sorted(both, key=lambda one: one.start_ps - one.end_ps)
    return tuple(by_length[:SHOWN])


def _kinds(
    shares: StepShares, exchanged: CommunicationSignals, share: float
) -> tuple[Part, ...]:
    """Divide the share among the kinds as their exposed times are."""
    kinds = exchanged.exposed_ps.get(shares.label, {})
    total = sum(kinds.values())
    return tuple(
        Part(name=kind, share_percent=share * time / total)
        for kind, time in kinds.items()
        if time
    )


_NO_EXCHANGE: Final = Unavailable(
    code="NO_COLLECTIVES",
    reason="The recorded devices exchange nothing with others.",
    remedy="Nothing to do.",
)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, communication_signals))
