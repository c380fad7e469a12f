"""Patterns that find the phase of a step in the names of ops and ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.names.op_names import NO_ANNOTATION
from stepscope.patterns import ascii_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

#: The phases. Their positions are the codes of `op_phases`; time is charged in this
#: order, the unknown phase last.
PHASES: Final = ("forward", "loss", "backward", "optimizer", "unknown")
UNKNOWN_PHASE: Final = len(PHASES) - 1

#: An op type that changes the weights, whatever its scope says.
_OPTIMIZER_TYPE: Final = r"^(?:Resource)?(?:Sparse)?Apply[A-Z]|^ResourceSparseApply"
_OPTIMIZER_NAME: Final = ascii_only(
    r"(?i)(?:^|/)(?:adam|adamw|adamax|nadam|sgd|rmsprop|adagrad|adadelta|adafactor"
    r"|ftrl|lion|lamb|lars|muon|adamweightdecay|optimizer|apply_gradients)(?:_\d+)?/"
    r"|^Optimizer\.step|_fused_(?:adam|sgd|adagrad)"
)
_BACKWARD: Final = ascii_only(
    r"(?:^|/)(?:gradient_tape|gradients)(?:_\d+)?/|transpose\(|Backward|Backprop"
    r"|::\w+_backward\w*$"
)
#: Gradient kernels that an eager program runs without any scope.
_BACKWARD_TYPE: Final = ascii_only(
    r"Backprop|Grad$|Grad(?:V\d|WithArgmax)?$|GradientArgs$"
)
_LOSS: Final = (
    r"(?i)(?:^|/)[^/]*(?:loss|cross_?entropy|mean_squared_error|mean_absolute_error)"
)
#: A differentiated program marks its forward ops; all others are not forward.
_DIFFERENTIATED: Final = r"jvp\("
_TRANSPOSED: Final = r"transpose\("
_PROGRAM: Final = r"^(?:jit|pjit|pmap)\("
#: Moving tensors about is no phase.
_TRANSFER_TYPE: Final = r"^_?(?:Host)?(?:Send|Recv)$|^Memcpy|^Memset|^Iterator|^_?Arg$"

#: Phases that everything inside their ranges belongs to: what a backward pass computes
#: again of the forward pass is its own work.
FIRM: Final = ("backward", "optimizer")
#: Ranges of the program, of its framework or of a tracer of calls. The first pattern
#: found in the name decides.
_RANGES: Final = {
    "backward": r"^autograd::engine::evaluate_function: |^torch::autograd::"
    r"|^[A-Za-z]\w*Backward\d*$"
    r"|torch/(?:_tensor|autograd/__init__)\.py\(\d+\): backward$"
    r"|(?i)^[#\s]*(?:loss[._ ])?backward(?:[_ ]pass)?(?:\(\))?[#\s]*$",
    "optimizer": r"^Optimizer\.(?:step|zero_grad)#"
    r"|torch/optim/\w+\.py\(\d+\): (?:step|zero_grad)$"
    r"|(?i)^[#\s]*(?:optim(?:i[sz]er)?(?:[._ ](?:step|zero_grad))?|zero_grad)"
    r"(?:\(\))?[#\s]*$",
    "loss": r"^nn\.Module: \w*Loss\w*$"
    r"|(?i)^[#\s]*(?:compute[_ ])?loss(?:[_ ](?:fn|function))?(?:\(\))?[#\s]*$",
    "forward": r"^nn\.Module: |^DistributedDataParallel\.forward$"
    r"|(?i)^[#\s]*forward(?:[_ ]pass)?(?:\(\))?[#\s]*$",
}


def range_phases(names: pl.Series) -> NDArray[np.uint8]:
    """Return each range's phase by its name, as a position in `PHASES`."""
    name = names.alias("name").to_frame()
    return _first(
        name,
        [
            (pl.col("name").str.contains(ascii_only(text)), phase)
            for phase, text in _RANGES.items()
        ],
    )


def op_phases(names: pl.Series, types: pl.Series) -> NDArray[np.uint8]:
    """Return each op's phase by its name and type, as a position in `PHASES`."""
    frame = pl.DataFrame({"name": names, "type": types.fill_null("")}).with_columns(
        pl.col("name").fill_null("")
    )
    name, kind = pl.col("name"), pl.col("type")
    differentiated = bool(frame["name"].str.contains(_TRANSPOSED).any())
    forward = name.str.contains("/") & ~kind.str.contains(_TRANSFER_TYPE)
    if differentiated:
        forward &= ~name.str.contains(_PROGRAM) | name.str.contains(_DIFFERENTIATED)
    rules = (
        (name == NO_ANNOTATION, "unknown"),
        (kind.str.contains(_OPTIMIZER_TYPE), "optimizer"),
        (name.str.contains(_BACKWARD), "backward"),
        (name.str.contains(_OPTIMIZER_NAME), "optimizer"),
        (kind.str.contains(_BACKWARD_TYPE), "backward"),
        (name.str.contains(_LOSS), "loss"),
        (forward, "forward"),
    )
    return _first(frame, rules)


def _first(
    frame: pl.DataFrame, rules: Sequence[tuple[pl.Expr, str]]
) -> NDArray[np.uint8]:
    """Return by row the phase of the first rule that holds, else the unknown one."""
    code = pl.coalesce(
        *(
            pl.when(condition).then(pl.lit(PHASES.index(phase), pl.UInt8))
            for condition, phase in rules
        ),
        pl.lit(UNKNOWN_PHASE, pl.UInt8),
    )
    found: NDArray[np.uint8] = frame.select(code).to_series().to_numpy()
    return found
