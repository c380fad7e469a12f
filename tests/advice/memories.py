"""Memories written out by hand: what the rules about memory see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.derive.facts.memory_use import MemorySignals, MemoryUse, memory_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.run_derivation import RunDerivation

GIB = 2**30
_NONE = Unavailable(code="NO_ALLOCATOR_EVENTS", reason="None.", remedy="Record some.")


def memory(*, peak_gib: float = 30.0, **fields: Any) -> MemoryUse:
    """A memory of 40 GiB."""
    return MemoryUse(
        **{
            "host": "vm",
            "name": "GPU_0_bfc",
            "capacity_bytes": 40 * GIB,
            "peak_bytes": round(peak_gib * GIB),
            "peak_ps": 5,
            "counted": True,
            "free_bytes": round((40 - peak_gib) * GIB),
            "fragmentation": 0.04,
            "alive": (),
            "least_bytes": (),
            "at_step": (),
            "grown": (),
            **fields,
        }
    )


def told(*memories: MemoryUse) -> dict[RunDerivation[Any], Any]:
    """These memories as signals."""
    absent = None if any(one.name != "process" for one in memories) else _NONE
    return {memory_signals: MemorySignals(memories, absent)}
