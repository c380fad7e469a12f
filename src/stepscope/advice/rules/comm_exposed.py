"""`comm.exposed`: devices exchange data and compute nothing meanwhile.

Definition: docs/advice/comm_exposed.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding, Part, Status
from stepscope.advice.rule import Rule
from stepscope.advice.signals.communication import communication_signals
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import judge, judged_finding
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.communication import CommunicationSignals
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "comm.exposed"
_TITLE: Final = "communication is not hidden behind computation"
_STAGE: Final = 8
_PARTS: Final = {"collective": ("collective",), "peer": ("peer",)}
_OWNERS: Final = ("collective", "peer")
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Compute more per exchange: a larger batch, or several batches "
        "accumulated before the gradients are exchanged.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Let buckets of gradients start during the backward pass.",
        code="DistributedDataParallel(model, bucket_cap_mb=25, static_graph=True)",
    ),
    Action(
        cause="any",
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


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which a device does nothing but exchange data."""
    if signals.of(device_signals).recorded == "host_only":
        return _without("not_applicable", _NO_DEVICE)
    found, exchanged = signals.of(account_signals), signals.of(communication_signals)
    if isinstance(found, Unavailable):
        return _without("cannot_tell", found)
    if isinstance(exchanged, Unavailable):
        return _without("cannot_tell", exchanged)
    shares = found.judged()
    if "collective" in shares.missing:
        return _without("cannot_tell", shares.missing["collective"])
    if not any(exchanged.count.values()):
        return _without("not_applicable", _NO_EXCHANGE)
    verdict = judge(
        shares.series(_PARTS, unknown_from=thresholds.unexplained_warn.value),
        warn=thresholds.exposed_warn,
        critical=thresholds.exposed_critical,
        thresholds=thresholds,
    )
    failed = verdict.status == "fail"
    return judged_finding(
        verdict,
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        grade=signals.of(record_grade),
        threshold=thresholds.exposed_warn,
        smallest=thresholds.smallest_effect,
        stepped=shares.step_source is not None,
        owners=_OWNERS,
        place="any",
        devices=found.ranked(*_OWNERS),
        parts=_kinds(shares, exchanged, verdict.share_percent),
        facts=(
            Fact(
                name="collectives",
                value=exchanged.count.get(shares.label, 0),
                unit="count",
                note="in the whole recording",
            ),
        ),
        evidence=shares.evidence("peer") if failed else (),
        inputs=("account", "collectives"),
        confirm="Look at the exchanges: no other stream of the device works beside "
        "them.",
        refute="Run on one device: if the step takes as long, it does not wait for "
        "exchanges.",
        actions=_ACTIONS if failed else (),
    )


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


_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="Every op ran on the host; there is no device that exchanges data.",
    remedy="Nothing to do.",
)
_NO_EXCHANGE: Final = Unavailable(
    code="NO_COLLECTIVES",
    reason="The recorded devices exchange nothing with others.",
    remedy="Nothing to do.",
)


def _without(status: Status, why: Unavailable) -> Finding:
    return Finding(id=_ID, title=_TITLE, stage=_STAGE, status=status, unavailable=why)


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(account_signals, communication_signals, device_signals, record_grade),
    words=_WORDS,
    pages=("pod_viewer", "kernel_stats"),
)
