"""`recording.cost`: how much time the recording itself took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.recording import recorder_signals
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact

_ITEM: Final = rule_item("recording.cost")

_OWNED: Final = Owned(
    parts={"profiler": ("profiler",)}, host=True, seen=("profiler",), unknown=False
)


@rule(_ITEM, *OWNED_READS, recorder_signals)
def evaluate(signals: Signals) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals)
    if judged.verdict.severity == "critical":
        # Even a large cost is not critical: it disappears when nothing is recorded.
        judged = judged.with_verdict(severity="warn")
    own = signals.of(recorder_signals).get(judged.shares.host)
    facts: tuple[Fact, ...] = ()
    if own is not None:
        # If the recorder started before the recording, no event shows the cost of
        # starting it, and the report does not mention that cost.
        start_stop = own.start_stop_ps / PS_PER_US if own.start_stop_ps else None
        buffers = own.buffers_ps / PS_PER_US if own.buffers_ps else None
        facts = (
            *_ITEM.facts(start_stop=start_stop),
            _ITEM.fact("buffers", buffers, buffers=own.buffers),
            *_ITEM.facts(in_judged_steps=own.judged_ps / PS_PER_US),
        )
    return judged.finding(
        facts=facts, inputs=("account", "event_kinds"), saving_ms=None
    )
