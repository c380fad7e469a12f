"""`precision` and `tensor_cores`: operands of kernels, and use of matrix units."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, ints
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernel_names import (
    DOUBLE,
    NARROW,
    TF32,
    WIDE,
    TensorCoreEvidence,
    is_product_kernel,
    name_uses_tensor_cores,
    precision_of_name,
)
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.remedies import Remedy
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, UInt8s
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.kernel_names import OperandPrecision

#: If at least this share of compute time has unknown precision, a precision without
#: known kernels is reported as unknown, not as absent.
_MIN_UNKNOWN_SHARE: Final = 0.05
#: Code of the activity kind `kernel`, whose activities compute.
KERNEL_KIND: Final = ACTIVITY_CODES["kernel"]


def why_precisions_unknown(share: float) -> Unavailable | None:
    """Return why the set of occurring precisions is unknown; None if it is known.

    If kernels of unknown precision take much time, some may have any precision.

    Args:
        share: Share of compute time in kernels of unknown precision.
    """
    if share < _MIN_UNKNOWN_SHARE:
        return None
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"The precision of kernels with {share:.0%} of the compute time is "
        "not recorded.".replace("%", " %"),
        remedy=Remedy.RECORD_SHAPES,
    )


class PrecisionEvidence(IntEnum):
    """Source of the precision of a kernel.

    Definition: docs/definitions/device-work.md#precision-of-a-kernel.
    """

    NOT_COMPUTE = 0
    HLO = 1
    SHAPE = 2
    NAME = 3
    DEFAULT = 4


#: Opcode of a library call; the instruction does not show what the library computes.
_CUSTOM_CALL: Final = "custom-call"
#: Prefixes of the many HLO element types of 8 bits and fewer.
_SMALL_ELEMENTS: Final = ("f8", "f6e", "f4e")
#: Texts in recorded operand types of 16 bits and fewer.
_NARROW_SHAPES: Final = ("half", "bfloat16", "float8", "f8e", "float4_e2m1")
#: HLO element type → precision.
_ELEMENTS: Final = {
    **dict.fromkeys(
        ("f16", "bf16", "s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"), NARROW
    ),
    **dict.fromkeys(("f32", "s32", "u32", "s64", "u64", "c64"), WIDE),
    "tf32": TF32,
    "f64": DOUBLE,
    "c128": DOUBLE,
}


class Precision(Frozen, frozen=True):
    """Precision of each row of device_activity.

    Attributes:
        bits: 16 or 32; 0 for no computation (collectives, copies, memsets); uint8.
        fp64: Whether the kernel computes with 64 bits.
        tf32: Whether the kernel uses only 19 bits of 32-bit operands.
        evidence: A `PrecisionEvidence`, uint8.
        of_class: `bits`, `fp64`, `tf32` and `evidence` by row of `activity_classes`;
            uint8, shape (classes, 4).
    """

    bits: UInt8s
    fp64: Bools
    tf32: Bools
    evidence: UInt8s
    of_class: UInt8s


def precision(
    *,
    device_activity: pl.DataFrame,
    activity_classes: ActivityClasses,
    event_types: pl.DataFrame,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
    devices: pl.DataFrame | Unavailable,
) -> Precision:
    """Determine the precision of every kernel; kernels of one name have one precision.

    The first known source counts: the kernel's name, then its HLO instruction, then the
    recorded shapes of its operands. For a kernel compiled from an instruction, the
    instruction is the first source. If kernels of one name have several precisions, the
    precision with most time counts. A kernel without evidence counts as 32-bit.

    Definition: docs/definitions/device-work.md#precision-of-a-kernel.
    """
    rows = activity_classes.rows
    # Lowest compute capability of the host's devices; None if unknown.
    if isinstance(devices, Unavailable):
        capability = None
    else:
        capabilities = [
            (0, 0) if vendor == "AMD" else (major, minor or 0)
            for vendor, major, minor in devices[
                ["vendor", "cc_major", "cc_minor"]
            ].iter_rows()
            if vendor == "AMD" or major is not None
        ]
        capability = min(capabilities, default=None)
    by_class = _class_evidence(rows, event_types["name"], strings, hlo_ops, capability)
    dur_ps = np.bincount(
        activity_classes.code, ints(device_activity, "dur_ps"), minlength=len(rows)
    )
    decided = _precision_by_name(rows["type"].to_list(), by_class, dur_ps.tolist())
    of_class = np.zeros((len(rows), 4), np.uint8)
    for index, (kind, type_) in enumerate(rows[["kind", "type"]].iter_rows()):
        if kind == KERNEL_KIND:
            width, evidence = decided.get(type_, (WIDE, PrecisionEvidence.DEFAULT))
            of_class[index] = (width.bits, width.fp64, width.tf32, evidence)
    code = activity_classes.code
    bits, fp64, tf32, sources = (
        values_by_row(of_class[:, column], code) for column in range(4)
    )
    return Precision(bits, fp64.view(np.bool_), tf32.view(np.bool_), sources, of_class)


def _class_evidence(
    rows: pl.DataFrame,
    names: pl.Series,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
    capability: tuple[int, int] | None,
) -> list[tuple[OperandPrecision, PrecisionEvidence] | None]:
    types, opcodes = [None], [""]
    if not isinstance(hlo_ops, Unavailable):
        types, opcodes = (hlo_ops[key].to_list() for key in ("operand_type", "opcode"))
    bits = {op: precision_of_element(types[op]) for op in _known_numbers(rows["hlo"])}
    by_shape = {
        shape: precision_of_shape(strings[shape])
        for shape in _known_numbers(rows["shape"])
    }
    by_name = {
        type_: precision_of_name(names[type_], capability)
        for type_ in _known_numbers(rows["type"])
    }
    by_class: list[tuple[OperandPrecision, PrecisionEvidence] | None] = []
    # The loop is short: there are about as many classes as distinct kernels.
    for kind, hlo, shape, type_ in rows[["kind", "hlo", "shape", "type"]].iter_rows():
        if kind != KERNEL_KIND:
            by_class.append(None)
            continue
        name = (by_name.get(type_), PrecisionEvidence.NAME)
        instruction = (bits.get(hlo), PrecisionEvidence.HLO)
        compiled = hlo >= 0 and opcodes[hlo] != _CUSTOM_CALL
        if compiled and not (instruction[0] == WIDE and name[0] == TF32):
            # The instruction decides, but only the name can show TF32, not 32 bits.
            name, instruction = instruction, name
        shaped = (by_shape.get(shape), PrecisionEvidence.SHAPE)
        by_class.append(
            next(
                (
                    (width, evidence)
                    for width, evidence in (name, instruction, shaped)
                    if width is not None
                ),
                None,
            )
        )
    return by_class


def _precision_by_name(
    types: list[int],
    by_class: list[tuple[OperandPrecision, PrecisionEvidence] | None],
    dur_ps: list[float],
) -> dict[int, tuple[OperandPrecision, PrecisionEvidence]]:
    """Return, by name, the precision with most time and its main evidence."""
    time: dict[int, dict[tuple[OperandPrecision, PrecisionEvidence], float]] = {}
    for type_, pair, dur in zip(types, by_class, dur_ps, strict=True):
        if pair is not None:
            of_type = time.setdefault(type_, {})
            of_type[pair] = of_type.get(pair, 0.0) + dur
    decided = {}
    for type_, times in time.items():
        by_width: dict[OperandPrecision, float] = {}
        for (width, _), dur in times.items():
            by_width[width] = by_width.get(width, 0.0) + dur
        # If times are equal, the lower precision counts, whatever the order of rows.
        main_width = min(by_width, key=lambda width: (-by_width[width], width))
        decided[type_] = min(
            (pair for pair in times if pair[0] == main_width),
            key=lambda pair: (-times[pair], pair),
        )
    return decided


def precision_of_element(element: str | None) -> OperandPrecision | None:
    """Return the precision of an HLO element type; None if the type determines none."""
    if element is None:
        return None
    lowered = element.lower()
    return NARROW if lowered.startswith(_SMALL_ELEMENTS) else _ELEMENTS.get(lowered)


def precision_of_shape(shape: str) -> OperandPrecision | None:
    """Return the precision in recorded operand shapes; None if they contain none."""
    lowered = shape.lower()
    if any(part in lowered for part in _NARROW_SHAPES):
        return NARROW
    if "float[" in lowered:
        return WIDE
    return DOUBLE if "double" in lowered else None


def _known_numbers(column: pl.Series) -> list[int]:
    return [number for number in column.unique().to_list() if number >= 0]


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
