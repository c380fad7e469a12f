"""Facts about the program and its devices that determine which actions fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork

#: First compute capability whose matrix units support bfloat16 and TF32.
_BFLOAT16_CAPABILITY: Final = (8, 0)
#: Pattern of kernel names of libraries and compilers.
_LIBRARY_NAMES: Final = (
    r"(?i)gemm|gemv|cudnn|cublas|cutlass|cute::|xmma|nvjet|sm\d\d_|triton|at::native"
    r"|tensorflow::|Eigen::|Cijk_|miopen|fusion"
)


def program_facts(signals: Signals) -> tuple[str, ...]:
    """Return facts about the kind of program; "training" if the kind is unknown."""
    traits = signals.of(program_traits)
    if isinstance(traits, Unavailable):
        traits = ProgramTraits()
    # Serving engines compile and capture the model unless an option forbids it.
    execution = "compiled" if traits.compiled else "uncompiled"
    return (
        "training" if traits.updates else "inference",
        "engine" if traits.engine else execution,
        "one_graph" if traits.graphed else "several_ops",
        *(() if traits.trains else ("forward",)),
    )


def headroom_fact(signals: Signals) -> str:
    """Return whether a device's memory is nearly full, so that compiling may fail."""
    used = signals.of(memory_signals).fullest_device
    full = used is not None and used >= THRESHOLDS.memory_warn.value
    return "memory_full" if full else "memory_not_known_full"


def narrow_type_facts(signals: Signals) -> tuple[str, ...]:
    """Return the 16-bit type that the matrix units of every device support.

    If a device is unknown, the older type float16 is safe.
    """
    devices = signals.of(device_signals).compute_capability
    known = [capability for capability in devices if capability is not None]
    if known and min(known) >= _BFLOAT16_CAPABILITY:
        return ("bfloat16",)
    # Without gradients no loss scaling is needed.
    forward = "forward" in program_facts(signals)
    return ("float16", "float16_forward" if forward else "float16_scaled")


def kernel_type_facts(
    signals: Signals, work: KernelWork, rows: pl.DataFrame
) -> tuple[str, ...]:
    """Return `narrow_type_facts`, or the fact that the program has its own kernels.

    Kernels are the program's own if other kernels have an op, and if their names are
    not names of libraries or compilers.

    Args:
        work: All kernels of the device.
        rows: The kernels that the finding is about.
    """
    of_library = pl.col("op").is_not_null() | pl.col("full_name").str.contains(
        _LIBRARY_NAMES
    )
    own_ps = int(rows.filter(~of_library)["time_ps"].sum())
    if work.rows["op"].is_null().all() or 2 * own_ps < int(rows["time_ps"].sum()):
        return narrow_type_facts(signals)
    return ("own_kernels",)
