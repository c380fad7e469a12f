"""`gap.contention`: input threads take the cores that launching needs.

Definition: docs/advice/gap_contention.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.devices.contention import contention_signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.devices.contention import Contention
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    clocks=True,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give the launching threads cores of their own, and the pipeline a pool "
        "that leaves them free: cores - 3 for each device, at most 8 for each.",
        code="options.threading.private_threadpool_size = …",
        env="TF_GPU_THREAD_MODE=gpu_private",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Load with fewer workers, and keep them off the cores of the main thread.",
        code="os.sched_setaffinity(worker_pid, cores)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Leave two cores for each device: fewer workers of the loader, and one "
        "thread in each.",
        code="torch.set_num_threads(1)  # in worker_init_fn",
    ),
)
_WORDS: Final = Words(
    passed="input threads leave launching its cores",
    lead=(
        (
            "Threads of the input pipeline take the cores that launching needs: the "
            "device waits {share_percent} of the time for launches that come {pace} "
            "times as slowly."
        ),
    ),
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "While threads of the input pipeline have most of the {cores} "
                    "cores, launches come every {busy_pace} and not every "
                    "{quiet_pace}: the device waits {share_percent} of the time for "
                    "them."
                ),
            ),
            ("{pattern}",),
        ),
        ("fail", "pace"): (
            (
                (
                    "The device waits for launches {share_percent} of the time while "
                    "threads of the input pipeline have most of the {cores} cores; "
                    "launches come no more slowly then."
                ),
            ),
        ),
    },
    causes={
        "launch": "launching",
        "contended": "launching while input threads have the cores",
    },
)
_ITEM: Final = Item(
    id="gap.contention",
    stage=2,
    title="input threads take the cores that launching needs",
    words=_WORDS,
    pages=("trace_viewer", "overview_page"),
    confirm="Look at the launching thread beside those of the pipeline: its calls are "
    "far apart where they are busy.",
    refute="Give the pipeline half of its threads for one run: if launches come as "
    "slowly, they wait for something else.",
    actions=_ACTIONS,
    explains=("launch.delay",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the waiting for launches while input threads have the cores."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn, critical = thresholds.launch_warn, thresholds.launch_critical
    verdict = judge_shares(_OWNED, shares, thresholds, warn=warn, critical=critical)
    if verdict.status != "fail":
        # The device hardly waits for launches, whoever has the cores.
        return _finding(signals, shares, verdict, thresholds)
    devices = signals.of(contention_signals)
    if isinstance(devices, Unavailable):
        return _ITEM.cannot_tell(devices)
    found = devices[shares.label]
    series = msgspec.structs.replace(
        _OWNED.series(shares, thresholds), parts_ps={"contended": found.contended_ps}
    )
    verdict = judge(series, warn=warn, critical=critical, thresholds=thresholds)
    if verdict.status != "fail":
        return _finding(signals, shares, verdict, thresholds, facts=_facts(found))
    least = thresholds.contended_samples.value
    if min(found.busy_launches, found.quiet_launches) < least:
        return _ITEM.cannot_tell(_FEW)
    slower = _is_slower(found, thresholds)
    high = verdict.effect_ms * (1 - 1 / max(found.pace or 1.0, 1.0))
    return _finding(
        signals,
        shares,
        verdict,
        thresholds,
        facts=_facts(found),
        severity=verdict.severity if slower else "info",
        note=verdict.note if slower else "pace",
        saving_ms=Saving(low=high / 2, high=high) if slower else None,
    )


def _finding(
    signals: Signals,
    shares: StepShares,
    verdict: Verdict,
    thresholds: Thresholds,
    **fields: Any,
) -> Finding:
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=thresholds.launch_warn,
        **({"inputs": ("account", "host_classes", "launches"), "owners": ()} | fields),
    )


def _is_slower(found: Contention, thresholds: Thresholds) -> bool:
    return (
        found.pace is not None
        and found.chance is not None
        and found.pace >= thresholds.contended_pace.value
        and found.chance < thresholds.contended_chance.value
    )


def _facts(found: Contention) -> tuple[Fact, ...]:
    busy, quiet = found.busy_pace_ps, found.quiet_pace_ps
    return (
        Fact(name="cores", value=found.cores, unit="count"),
        Fact(
            name="busy_pace",
            value=None if busy is None else busy / PS_PER_US,
            unit="us",
            note=f"{_SHORTER} {found.busy_launches:,} pauses with busy cores",
        ),
        Fact(
            name="quiet_pace",
            value=None if quiet is None else quiet / PS_PER_US,
            unit="us",
            note=f"{_SHORTER} {found.quiet_launches:,} other pauses",
        ),
        Fact(name="pace", value=_rounded(found.pace), unit="ratio"),
    )


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 1)


_SHORTER: Final = "not exceeded by nine of ten of the"
_FEW: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The device waits for launches while input threads are busy, but there are "
    "too few launches to compare their pace with that at other times.",
    remedy="Record more steps.",
)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, contention_signals))
