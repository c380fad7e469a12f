"""`tensor_cores`: which kernels use matrix units, and which kernels or ops could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernel_names import (
    TensorCoreEvidence,
    is_product_kernel,
    name_uses_tensor_cores,
)
from stepscope.derive.device.precision import KERNEL_KIND
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps

#: Op types that are matrix products or convolutions.
_TYPES: Final = Pattern(
    r"^(?:_?FusedMatMul|_FusedBatchMatMul\w*|_FusedConv[23]D|FusedConv2D\w+|MatMul|BatchMatMul\w*|Einsum|CudnnRNN\w*"
    r"|Conv2D|Conv2DBackpropFilter|Conv2DBackpropInput|Conv3D"
    r"|Conv3DBackprop(?:Filter|Input)\w*|DepthwiseConv2dNative\w*"
    r"|XlaDot(?:V2)?|XlaConv\w*|dot_general|conv_general_dilated"
    r"|aten::_?(?:addmm|(?:\w+_)?mm|bmm|baddbmm|addbmm|matmul|linear|addmv|mv|einsum)"
    r"(?:_out|_activation)?_?"
    r"|aten::_?(?:\w+_)?conv(?:olution|\d+d|_transpose\w*)?(?:_\w+)?"
    r"|aten::_?(?:\w+_)?scaled_dot_product_\w+|aten::_(?:flash|efficient)_attention\w*"
    r"|aten::_?(?:cudnn|miopen)_rnn\w*)$"
)
#: Names of matrix products and convolutions, for ops without a recorded type.
_NAMES: Final = Pattern(
    r"(?:Conv2D(?:BackpropFilter|BackpropInput)?|Conv3D"
    r"|DepthwiseConv2dNative(?:BackpropFilter|BackpropInput)?|/MatMul|FusedMatMul"
    r"|/CudnnRNN|XlaDot|XlaDotV2)$|BatchMatMul|CudnnRNNV|CudnnRNNForward"
    r"|CudnnRNNBackprop"
)
_OPCODES: Final = Pattern(r"^(?:dot|convolution)$")
#: Opcode of a library call; the instruction does not show what the library computes.
_CUSTOM_CALL: Final = "custom-call"
#: Types of ops that may contain any other op, and of ops defined outside frameworks.
_OPAQUE: Final = Pattern(
    r"^(?!aten::|prims?::)\w+::|Compiled|PartitionedCall|RemoteCall|Xla(?:Run|Launch)"
    r"|Function|Backward\d*$|Region|Cluster|^(?:While|If|Case)$|^Stateless(?:While|If)$"
    r"|TRTEngine|PyFunc|CudaGraph|custom_call|pjit|_ffi$|pallas_call|triton"
)
#: Lowest compute capability of devices with matrix units.
_FIRST_CAPABILITY: Final = (7, 0)


class TensorCores(Frozen, frozen=True):
    """Whether kernels use matrix units, and whether they could.

    Attributes:
        of_class: int8, shape (classes, 3), by row of `activity_classes`; 1 yes, 0 no,
            -1 unknown. First: whether the kernel has matrix instructions (0 for
            activities that do not compute). Second: whether the kernel or its op is a
            matrix product or convolution on a device with matrix units. Third: the
            `TensorCoreEvidence` for the first value.
    """

    of_class: NDArray[np.int8]


def tensor_cores(
    *,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    event_types: pl.DataFrame,
    strings: Sequence[str],
    devices: pl.DataFrame | Unavailable,
    hlo_ops: pl.DataFrame | Unavailable,
) -> TensorCores:
    """Decide the use of matrix units for kernels by name, and for ops by type.

    The answer is unknown (not no) for kernels whose names do not show instructions, for
    activities without an op, for ops that may contain other ops, and on non-GPU
    devices.

    Definition: docs/tools/kernel_stats.md#how-each-number-is-defined.
    """
    rows = activity_classes.rows
    able: dict[int, bool] = {}
    non_gpus: set[int] = set()
    if not isinstance(devices, Unavailable):
        is_gpu = pl.col("type") == "GPU"
        non_gpus.update(devices.filter(~is_gpu)["device"].to_list())
        known = devices.filter(pl.col("cc_major").is_not_null() & is_gpu)
        parts = known.select("device", "cc_major", "cc_minor")
        for device, major, minor in parts.iter_rows():
            able[device] = (major, minor or 0) >= _FIRST_CAPABILITY
    names = event_types["name"]
    by_type = {
        type_: name_uses_tensor_cores(names[type_])
        for type_ in rows["type"].unique().to_list()
    }
    products = {type_: is_product_kernel(names[type_]) for type_ in by_type}
    by_op = _eligible_ops(activity_ops.ops, hlo_ops)
    of_class = np.zeros((len(rows), 3), np.int8)
    # The loop is short: there are about as many classes as distinct kernels.
    for index, (kind, device, type_, op, equation) in enumerate(
        rows[["kind", "device", "type", "op", "equation"]].iter_rows()
    ):
        if kind != KERNEL_KIND:
            continue
        if device in non_gpus:
            of_class[index] = (-1, -1, TensorCoreEvidence.NONE)
            continue
        can = able.get(device)
        uses, evidence = by_type[type_]
        eligible = True if products[type_] else by_op[op]
        if equation >= 0 and is_matmul_equation(strings[equation]):
            eligible = True
        if can is False:
            uses, eligible, evidence = False, False, TensorCoreEvidence.NONE
        elif uses:
            eligible = True
        elif can is None and eligible:
            eligible = None
        of_class[index] = (_verdict_code(uses), _verdict_code(eligible), evidence)
    return TensorCores(of_class)


def is_matmul_type(op_type: str) -> bool:
    """Return whether an op type is a matrix product or a convolution."""
    return _TYPES.match(op_type) is not None


def is_opaque_type(op_type: str) -> bool:
    """Return whether ops of this type may contain any other op."""
    return _OPAQUE.search(op_type) is not None


def is_matmul_name(op_name: str) -> bool:
    """Return whether an op has the name of a matrix product or convolution."""
    return _NAMES.search(op_name) is not None


def is_matmul_equation(equation: str) -> bool:
    """Return whether an einsum equation combines exactly two operands."""
    inputs, arrow, output = equation.partition("->")
    return bool(arrow) and "->" not in output and inputs.count(",") == 1


def _eligible_ops(
    ops: pl.DataFrame, hlo_ops: pl.DataFrame | Unavailable
) -> list[bool | None]:
    """Return by op whether it is a matrix product or convolution; None if unknown."""
    matmul = [] if isinstance(hlo_ops, Unavailable) else hlo_ops["matmul"].to_list()
    eligible: list[bool | None] = []
    for name, op_type, hlo, opcode, evidence in ops[
        ["name", "type", "hlo", "opcode", "evidence"]
    ].iter_rows():
        if hlo is not None:
            known = matmul[hlo] or _OPCODES.match(opcode or "") is not None
            eligible.append(None if not known and opcode == _CUSTOM_CALL else known)
        elif evidence == OpEvidence.NONE:
            eligible.append(None)
        elif op_type is None:
            eligible.append(True if is_matmul_name(name) else None)
        else:
            fits = is_matmul_type(op_type)
            eligible.append(None if not fits and is_opaque_type(op_type) else fits)
    return eligible


def _verdict_code(verdict: bool | None) -> int:  # noqa: FBT001 - a value, not an option
    return -1 if verdict is None else int(verdict)
