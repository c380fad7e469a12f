"""`recording.cost`: what the recording itself took.

Definition: docs/advice/recording_cost.md.
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
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.recording import recorder_signals
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"profiler": ("profiler",)},
    host=True,
    seen=("profiler",),
    unknown=False,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Record a longer window, so that its start and stop weigh less, with "
        "fewer of the tracers on.",
        recorder="framework",
    ),
    Action(
        cause="any",
        framework="any",
        text="Record less of the host, and for longer.",
        code="nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none …",
        recorder="nsight",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Let the profiler warm up before the steps that are kept.",
        code="torch.profiler.schedule(wait=1, warmup=2, active=10)",
        recorder="framework",
    ),
)
_TAKES: Final = (
    (
        "The recording itself takes {share_percent} of the time: its own start, stop "
        "and buffers."
    ),
)
_WORDS: Final = Words(
    passed="the recording hardly slows the steps",
    texts={
        **WAITING,
        ("fail", None): (
            _TAKES,
            (
                (
                    "In all it took {start_stop} to start and stop, and {buffers} on "
                    "buffers."
                ),
                "In all it took {start_stop} to start and stop.",
                "In all its buffers took {buffers}.",
            ),
            ("{pattern}",),
        ),
    },
    causes={"profiler": "the recording's own time"},
)
_ITEM: Final = Item(
    id="recording.cost",
    stage=0,
    title="the recording itself takes time",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: the profiler starts, stops or writes its buffers.",
    refute="Time the steps by the program's own clock, without a recording: if they "
    "last as long, the recording costs nothing.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time that the recording's own start, stop and buffers take."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.profiler_warn
    # However much it is, the program is none the slower without a recording.
    verdict = judge_shares(_OWNED, shares, thresholds, warn=warn, critical=warn)
    if verdict.severity == "critical":
        verdict = msgspec.structs.replace(verdict, severity="warn")
    return owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        facts=_facts(signals, shares),
        inputs=("account", "event_kinds"),
        saving_ms=None,
    )


def _facts(signals: Signals, shares: StepShares) -> tuple[Fact, ...]:
    own = signals.of(recorder_signals).get(shares.host)
    if own is None:
        return ()
    return (
        Fact(
            name="start_stop",
            # Nothing of a kind is no number, so that no sentence speaks of it: where
            # no event is one, the start may lie before the recording.
            value=own.start_stop_ps / PS_PER_US if own.start_stop_ps else None,
            unit="us",
            note="in the whole recording",
        ),
        Fact(
            name="buffers",
            value=own.buffers_ps / PS_PER_US if own.buffers_ps else None,
            unit="us",
            note=f"in the whole recording, number: {own.buffers}",
        ),
        Fact(
            name="in_judged_steps",
            value=own.judged_ps / PS_PER_US,
            unit="us",
            note="of both, whether or not a step waited for it",
        ),
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, recorder_signals))
