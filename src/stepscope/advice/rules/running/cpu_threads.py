"""`cpu.threads`: threads wait for a core while the host has work of the steps.

Definition: docs/advice/cpu_threads.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.running.processors import processor_signals
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.running.processors import Processors
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

#: What the host itself does: with a core of its own it would be done sooner.
_OWNED: Final = Owned(
    parts={"waiting": ("host_compute", "launch", "input", "output", "compile")},
    host=True,
    seen=("host_compute",),
)
_ACTIONS: Final = (
    Action(
        cause="own",
        framework="TensorFlow",
        text="Give both pools together as many threads as there are cores.",
        code="tf.config.threading.set_intra_op_parallelism_threads(n)",
    ),
    Action(
        cause="own",
        framework="PyTorch",
        text="Use as many threads as there are cores, and one in each worker of the "
        "loader.",
        code="torch.set_num_threads(n)",
        env="OMP_NUM_THREADS=1",
    ),
    Action(
        cause="own",
        framework="JAX",
        text="Make no more devices of the host than it has cores: each computes on as "
        "many of them as it gets, and the others wait for it at each exchange.",
        env="XLA_FLAGS=--xla_force_host_platform_device_count=n",
    ),
    Action(
        cause="own",
        framework="any",
        text="Load with fewer workers, and bind processes to cores of their own.",
        code="numactl --cpunodebind=0 --membind=0 python train.py",
    ),
    Action(
        cause="others",
        framework="any",
        text="Run the program where it has the machine, or cores of it, to itself.",
        code="taskset -c 0-7 python train.py",
    ),
)
_OWN: Final = (
    (
        "For {share_percent} of the time work of the host and threads that wait for a "
        "core come together: the program has {threads} threads on {cores} cores."
    ),
)
_OTHERS: Final = (
    (
        "For {share_percent} of the time work of the host and threads that wait for a "
        "core come together: other programs use {others} of the {cores} cores."
    ),
)
_UNSURE: Final = (
    (
        "For {share_percent} of the time work of the host and threads that wait for a "
        "core come together, although {busy_cores} of the {cores} cores would do on "
        "average: the work comes in bursts."
    ),
)
_WORDS: Final = Words(
    passed="the host's work has its cores",
    texts={
        **WAITING,
        ("fail", None): (_OWN,),
        ("fail", "others"): (_OTHERS,),
        ("fail", "unsure"): (_UNSURE,),
    },
    causes={
        "waiting": "work of the host while threads wait for a core",
        "own": "the program has more threads than cores",
        "others": "other programs use the cores",
    },
)
_ITEM: Final = Item(
    id="cpu.threads",
    stage=9,
    title="threads wait for a core while the host has work of the steps",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the curves of the cores: all of them are busy.",
    refute="Run with half of the threads: if the steps take longer, they were not too "
    "many.",
    floors=("which thread waits for a core: not recorded",),
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the host's work in which threads of the machine wait for a core."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    hosts = signals.of(processor_signals)
    if isinstance(hosts, Unavailable):
        return _ITEM.cannot_tell(hosts)
    found = hosts.get(shares.host)
    if found is None:
        return _ITEM.cannot_tell(_ELSEWHERE)
    work = shares.times(*_OWNED.owners)
    waiting = tuple(
        round(time * percent / 100)
        for time, percent in zip(work, found.waiting_percent, strict=True)
    )
    warn = thresholds.waiting_threads_warn
    verdict = judge(
        StepSeries(
            step_source=shares.step_source,
            step_confidence=shares.step_confidence,
            closed=shares.closed,
            window_ps=shares.window_ps,
            parts_ps={"waiting": waiting},
        ),
        warn=warn,
        critical=thresholds.waiting_threads_critical,
        thresholds=thresholds,
    )
    cause = found.crowded_by(thresholds)
    failed = verdict.status == "fail"
    made = _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        stepped=shares.step_source is not None,
        note=_note(cause) if failed else verdict.note,
        # What comes together need not be lost: any thread may be the one that waits,
        # and it need not be one of the steps'. So it leads no report.
        severity="info",
        devices=(shares.label,),
        because=() if cause is None or not failed else (cause,),
        facts=_facts(found),
        inputs=("account", "events"),
        actions=tuple(one for one in _ACTIONS if one.cause == cause) if failed else (),
    )
    return msgspec.structs.replace(made, saving_ms=None)


def _note(cause: str | None) -> str | None:
    return {"own": None, "others": "others"}.get(cause or "", "unsure")


def _facts(found: Processors) -> tuple[Fact, ...]:
    own = found.own
    return (
        Fact(name="cores", value=found.cores, unit="count"),
        Fact(name="threads", value=found.threads, unit="count"),
        Fact(name="busy_cores", value=found.machine, unit="count"),
        Fact(
            name="others",
            value=None if own is None else max(found.machine - own, 0.0),
            unit="count",
        ),
    )


_ELSEWHERE: Final = Unavailable(
    code="NOT_RECORDED",
    reason="The use of the judged host's cores was not recorded.",
    remedy="Record all hosts with stepscope on Linux.",
)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, processor_signals))
