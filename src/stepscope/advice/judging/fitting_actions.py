"""Which actions fit: the devices' matrix units, and the kind of program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import shared_texts
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Action
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork

_TEXTS: Final = shared_texts("narrow")

#: First compute capability whose matrix units take bfloat16 and TF32.
_BFLOAT16_CAPABILITY: Final = (8, 0)
#: What the names of kernels hold that libraries and compilers make.
_MADE: Final = (
    r"(?i)gemm|gemv|cudnn|cublas|cutlass|cute::|xmma|nvjet|sm\d\d_|triton|at::native"
    r"|tensorflow::|Eigen::|Cijk_|miopen|fusion"
)
#: Settings of a framework change its own ops alone.
_OWN: Final = _TEXTS.chosen("call_framework_product", "call_library_kernel")


def for_kernels(
    actions: tuple[Action, ...],
    signals: Signals,
    work: KernelWork,
    rows: pl.DataFrame,
) -> tuple[Action, ...]:
    """Return `for_units`, or what fits kernels that are the program's own.

    They are its own where other kernels have an op, and no library or compiler gives
    kernels such names.

    Args:
        actions: As for `for_units`.
        work: All kernels of the device.
        rows: Those of them that the finding is about.
    """
    made = pl.col("op").is_not_null() | pl.col("full_name").str.contains(_MADE)
    own_ps = int(rows.filter(~made)["time_ps"].sum())
    if work.rows["op"].is_null().all() or 2 * own_ps < int(rows["time_ps"].sum()):
        return for_units(actions, signals)
    return _OWN


def for_units(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Return the actions for a type that the units of every device take.

    Args:
        actions: Actions with the cause `bfloat16`, `float16`, `float16_forward` (in
            place of a framework's `float16` where nothing trains) or `any`.
        signals: The signals of the profile. Of unknown devices the older type is sure.
    """
    known = [
        one for one in signals.of(device_signals).compute_capability if one is not None
    ]
    narrow = "bfloat16" if known and min(known) >= _BFLOAT16_CAPABILITY else "float16"
    # Without gradients there is no loss to scale.
    forward = narrow == "float16" and not traits_of(signals).trains
    told = [one for one in actions if forward and one.cause == "float16_forward"]
    instead = {one.framework for one in told}
    return tuple(
        one
        for one in actions
        if one.cause == "any"
        or one in told
        or (one.cause == narrow and one.framework not in instead)
    )


def traits_of(signals: Signals) -> ProgramTraits:
    """Return the traits; those of a plain training program where they are unknown."""
    found = signals.of(program_traits)
    return ProgramTraits() if isinstance(found, Unavailable) else found


def fitting(actions: tuple[Action, ...], signals: Signals) -> tuple[Action, ...]:
    """Leave out what is for programs of another kind: training, inference, engines."""
    traits = traits_of(signals)
    wrong = {"inference", "engine"} if traits.updates else {"training"}
    if not traits.engine:
        wrong.add("engine")
    return tuple(action for action in actions if action.cause not in wrong)
