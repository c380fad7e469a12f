"""`precision`: the precision of the operands of each kernel."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ACTIVITY_CODES, ints
from stepscope.derive.device.kernel_names import (
    DOUBLE,
    NARROW,
    TF32,
    WIDE,
    precision_of_name,
)
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.array_types import Bools, UInt8s
    from stepscope.derive.device.activity_classes import ActivityClasses
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
