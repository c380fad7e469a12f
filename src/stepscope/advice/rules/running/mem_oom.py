"""`mem.oom`: an allocation failed.

Definition: docs/advice/mem_oom.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import Failure
    from stepscope.thresholds import Thresholds

_GIB: Final = 2**30
_ACTIONS: Final = (
    Action(
        cause="pieces",
        framework="PyTorch",
        text="What was asked for was kept, in pieces: let segments of memory grow in "
        "place.",
        env="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    Action(
        cause="capacity",
        framework="any",
        text="Use a smaller batch, and accumulate gradients over several.",
    ),
    Action(
        cause="capacity",
        framework="PyTorch",
        text="Compute activations again in the backward pass instead of keeping them.",
        code="torch.utils.checkpoint.checkpoint(f, x)",
    ),
)
_SIZES: Final = (
    (
        "{asked_gib} GiB were asked for; {allocated_gib} GiB were in use, and "
        "{kept_gib} GiB more were kept by the allocator."
    ),
)
_WORDS: Final = Words(
    passed="no allocation failed",
    lead=("An allocation failed: the memory of the device was not enough.",),
    texts={
        ("fail", None): (("An allocation failed.",), _SIZES),
        ("fail", "recovered"): (
            ("An allocation failed, and the program went on.",),
            _SIZES,
        ),
        ("pass", None): (("No allocation failed while recording.",),),
    },
    causes={
        "pieces": "the allocator kept enough, in pieces",
        "capacity": "more was asked for than the allocator kept free",
    },
)
_ITEM: Final = Item(
    id="mem.oom",
    of_frameworks=True,
    stage=9,
    title="an allocation failed",
    words=_WORDS,
    pages=("memory_profile", "trace_viewer"),
    confirm="Look at the instant: the program's own message says the same.",
    refute="Run again with half the batch: if it fails too, the size is not why.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Say of the last allocation that failed what it lacked."""
    del thresholds
    found = signals.of(memory_signals)
    if not found.failures:
        if not found.tells_failures:
            return _ITEM.cannot_tell(_NOT_TOLD)
        return _ITEM.finding("pass", facts=_facts(None), inputs=("events",))
    last = found.failures[-1]
    because = "pieces" if last.fits_in_pieces else "capacity"
    return _ITEM.finding(
        "fail",
        severity="info" if last.recovered else "critical",
        note="recovered" if last.recovered else None,
        confidence=signals.of(record_grade),
        value=len(found.failures),
        unit="count",
        devices=(last.label,),
        because=(because,),
        facts=_facts(last),
        evidence=(
            Evidence(
                host=last.host,
                device=last.device,
                track=None,
                start_ps=last.time_ps,
                end_ps=last.time_ps,
            ),
        ),
        inputs=("events",),
        actions=tuple(one for one in _ACTIONS if one.cause == because),
    )


def _facts(failure: Failure | None) -> tuple[Fact, ...]:
    names = ("asked_gib", "allocated_gib", "kept_gib")
    sizes: tuple[int | None, ...] = (None, None, None)
    if failure is not None:
        sizes = (failure.asked_bytes, failure.allocated_bytes, failure.kept_bytes)
    return tuple(
        Fact(
            name=name,
            value=None if size is None else float(f"{size / _GIB:.3g}"),
            unit="ratio",
        )
        for name, size in zip(names, sizes, strict=True)
    )


_NOT_TOLD: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Allocations that fail were not recorded.",
    remedy="Look at the program's own messages; of PyTorch, record with "
    "`profile_memory=True`, which notes them.",
)


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, record_grade))
