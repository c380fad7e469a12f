"""`precision`: how wide the numbers are that each kernel computes with."""

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
    width_of_name,
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
    from stepscope.derive.device.kernel_names import Width

#: Where kernels of unknown width have at least this share of the time, it is unknown
#: whether any computes in a width that no kernel is known to have.
_UNTOLD: Final = 0.05
#: Code of the kind of activity that computes.
KERNEL_KIND: Final = ACTIVITY_CODES["kernel"]


def untold_widths(share: float) -> Unavailable | None:
    """Return why work may have a width that no kernel is known to have.

    A kernel of unknown width counts as 32-bit. Where there are many, that no kernel is
    known to be of another width does not mean that none is.

    Args:
        share: Part of the compute time that is spent in kernels of unknown width.
    """
    if share < _UNTOLD:
        return None
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"Nothing tells how wide the kernels compute that take {share:.0%} of "
        "the compute time; they count as 32-bit.".replace("%", " %"),
        remedy=Remedy.RECORD_SHAPES,
    )


class PrecisionEvidence(IntEnum):
    """The evidence that decided the width.

    Definition: docs/definitions/device-work.md#precision-of-a-kernel.
    """

    NOT_COMPUTE = 0
    HLO = 1
    SHAPE = 2
    NAME = 3
    DEFAULT = 4


_CUSTOM_CALL: Final = "custom-call"
#: First parts of HLO's types of 8 bits and fewer, which come in many kinds.
_SMALL_ELEMENTS: Final = ("f8", "f6e", "f4e")
#: Parts of recorded operand types of 16 bits and fewer.
_NARROW_SHAPES: Final = ("half", "bfloat16", "float8", "f8e", "float4_e2m1")
#: Element type of HLO → width.
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
    """Arrays by row of device_activity.

    Attributes:
        bits: uint8; 16 or 32; 0 for what does not compute (collectives, copies,
            memsets).
        fp64: bool; the kernel computes with 64 bits.
        tf32: bool; the kernel computes with 32-bit operands cut to 19 bits.
        evidence: uint8; a `PrecisionEvidence`.
        of_class: uint8, shape (classes, 4): `bits`, `fp64`, `tf32`, `evidence` by row
            of `activity_classes`.
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
    """Decide the width of every kernel; kernels of one name have one width.

    The kernel's name decides, else its HLO instruction, else the recorded shapes of its
    operands. The instruction comes before the name of a kernel that was compiled from
    it. Where that leaves several widths under one name, the one with most time counts.
    A kernel of unknown width is taken to compute with 32 bits, and its evidence is the
    default one.

    Definition: docs/definitions/device-work.md#precision-of-a-kernel.
    """
    rows = activity_classes.rows
    # The oldest capability of the host's devices; None where it is unknown.
    if isinstance(devices, Unavailable):
        capability = None
    else:
        found = [
            (0, 0) if vendor == "AMD" else (major, minor or 0)
            for vendor, major, minor in devices[
                ["vendor", "cc_major", "cc_minor"]
            ].iter_rows()
            if vendor == "AMD" or major is not None
        ]
        capability = min(found, default=None)
    told = _evidence_by_class(rows, event_types["name"], strings, hlo_ops, capability)
    dur_ps = np.bincount(
        activity_classes.code, ints(device_activity, "dur_ps"), minlength=len(rows)
    )
    decided = _width_by_name(rows["type"].to_list(), told, dur_ps.tolist())
    of_class = np.zeros((len(rows), 4), np.uint8)
    for place, (kind, type_) in enumerate(rows[["kind", "type"]].iter_rows()):
        if kind == KERNEL_KIND:
            width, evidence = decided.get(type_, (WIDE, PrecisionEvidence.DEFAULT))
            of_class[place] = (width.bits, width.fp64, width.tf32, evidence)
    code = activity_classes.code
    bits, fp64, tf32, by = (
        values_by_row(of_class[:, column], code) for column in range(4)
    )
    return Precision(bits, fp64.view(np.bool_), tf32.view(np.bool_), by, of_class)


def _evidence_by_class(
    rows: pl.DataFrame,
    names: pl.Series,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
    capability: tuple[int, int] | None,
) -> list[tuple[Width, PrecisionEvidence] | None]:
    elements, opcodes = [None], [""]
    if not isinstance(hlo_ops, Unavailable):
        elements, opcodes = (
            hlo_ops[name].to_list() for name in ("operand_type", "opcode")
        )
    by_hlo = {
        hlo: width_of_element(elements[hlo]) for hlo in _known_numbers(rows["hlo"])
    }
    by_shape = {
        shape: width_of_shape(strings[shape]) for shape in _known_numbers(rows["shape"])
    }
    by_name = {
        type_: width_of_name(names[type_], capability)
        for type_ in _known_numbers(rows["type"])
    }
    found: list[tuple[Width, PrecisionEvidence] | None] = []
    # One round per class of activities, of which there are as many as distinct
    # kernels, not as activities.
    for kind, hlo, shape, type_ in rows[["kind", "hlo", "shape", "type"]].iter_rows():
        if kind != KERNEL_KIND:
            found.append(None)
            continue
        name = (by_name.get(type_), PrecisionEvidence.NAME)
        instruction = (by_hlo.get(hlo), PrecisionEvidence.HLO)
        compiled = hlo >= 0 and opcodes[hlo] != _CUSTOM_CALL
        if compiled and not (instruction[0] == WIDE and name[0] == TF32):
            # The operands may be 32 bits wide where only the name says they are cut.
            name, instruction = instruction, name
        shaped = (by_shape.get(shape), PrecisionEvidence.SHAPE)
        found.append(
            next(
                (
                    (width, evidence)
                    for width, evidence in (name, instruction, shaped)
                    if width is not None
                ),
                None,
            )
        )
    return found


def _width_by_name(
    types: list[int],
    told: list[tuple[Width, PrecisionEvidence] | None],
    dur_ps: list[float],
) -> dict[int, tuple[Width, PrecisionEvidence]]:
    """Return by name the width with most time, and what told it for most of that."""
    time: dict[int, dict[tuple[Width, PrecisionEvidence], float]] = {}
    for type_, one, dur in zip(types, told, dur_ps, strict=True):
        if one is not None:
            of_type = time.setdefault(type_, {})
            of_type[one] = of_type.get(one, 0.0) + dur
    decided = {}
    for type_, found in time.items():
        by_width: dict[Width, float] = {}
        for (width, _), dur in found.items():
            by_width[width] = by_width.get(width, 0.0) + dur
        # Of equal times the narrower width, so that the order of rows is no matter.
        most = min(by_width, key=lambda width: (-by_width[width], width))
        decided[type_] = min(
            (one for one in found if one[0] == most), key=lambda one: (-found[one], one)
        )
    return decided


def width_of_element(element: str | None) -> Width | None:
    """Return the width of an HLO element type; None where it decides nothing."""
    if element is None:
        return None
    lowered = element.lower()
    return NARROW if lowered.startswith(_SMALL_ELEMENTS) else _ELEMENTS.get(lowered)


def width_of_shape(shape: str) -> Width | None:
    """Return the width that recorded operand shapes name; None where they name none."""
    lowered = shape.lower()
    if any(part in lowered for part in _NARROW_SHAPES):
        return NARROW
    if "float[" in lowered:
        return WIDE
    return DOUBLE if "double" in lowered else None


def _known_numbers(column: pl.Series) -> list[int]:
    return [number for number in column.unique().to_list() if number >= 0]
