"""`fuse.runs`: small kernels in a row could be one.

Definition: docs/advice/fuse_runs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.fitting_actions import fitting
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    judge_kernels,
    kernels_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.devices.kernel_kinds import SHORTEST
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.replaying.edits import Joined
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Let the compiler fuse the ops of the step.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="inference",
        framework="PyTorch",
        text="Compile the model.",
        code="torch.compile(model)",
    ),
    Action(
        cause="training",
        framework="PyTorch",
        text="Compile the model, and use fused optimizers.",
        code="torch.compile(model); torch.optim.AdamW(params, fused=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Call these ops inside one jitted function, not one by one.",
        code="jax.jit(step)",
    ),
)
_WORDS: Final = Words(
    passed="kernels that could be fused are few",
    lead=(
        (
            "Runs of small kernels could each be one kernel: {ms_per_step} a step, "
            "most of it {named}."
        ),
        (
            "Runs of small kernels could each be one kernel: {share_percent} of the "
            "time, most of it {named}."
        ),
    ),
    texts={
        ("fail", None): (
            (
                (
                    "{value} of the kernels' time is in runs of three and more "
                    "kernels that only read, compute element by element or sum "
                    "up, and write, {runs} a step; most of the time is in {named}."
                ),
                (
                    "{value} of the kernels' time is in runs of three and more "
                    "kernels that only read, compute element by element or sum "
                    "up, and write: {runs_in_all} runs, most of the time in {named}."
                ),
            ),
        ),
        ("pass", None): (
            ("Of the kernels' time {value:nothing} is in runs that could be fused.",),
        ),
    },
)
_ITEM: Final = Item(
    id="fuse.runs",
    stage=5,
    title="small kernels in a row could be one",
    words=_WORDS,
    pages=("kernel_stats", "trace_viewer"),
    confirm="Look at the ranges: the kernels follow each other on one stream, each on "
    "what the one before wrote.",
    refute="If the compiled step takes as long, the kernels of a run do not share "
    "what they read and write.",
    floors=("bytes that the fused kernel reads and writes: not known here",),
)
#: Without the bytes: half of the time of a run goes at least a little, at most most.
_GAIN: Final = (0.25, 0.75)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels that compilers would join, where they are in runs."""
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    runs = work.runs
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        Worked(runs.rows, _GAIN),
        warn=thresholds.fusable_warn,
        critical=thresholds.fusable_critical,
        actions=fitting(ACTIONS, signals),
        facts=(
            Fact(
                name="runs",
                value=runs.count if work.stepped else None,
                unit="count",
                note="in the step shown",
            ),
            Fact(
                name="runs_in_all",
                value=None if work.stepped else runs.count,
                unit="count",
            ),
        ),
    )


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let the kernels of each run be one, which takes a part of their time."""
    work = signals.of(kernel_work)
    if isinstance(work, Unavailable):
        return ()
    low, high = _GAIN
    classes = work.runs.rows["class"].to_list()
    return (Joined(classes, SHORTEST, (1 - low, 1 - high)),)


RULE: Final = Rule(_ITEM, evaluate, (*WORKED_READS, program_traits), changes)
