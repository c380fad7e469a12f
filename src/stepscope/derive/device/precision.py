"""`precision`: how wide the numbers are that each kernel computes with."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses

__all__ = [
    "KERNEL_KIND",
    "Precision",
    "PrecisionEvidence",
    "Width",
    "precision",
    "width_of_element",
    "width_of_name",
    "width_of_shape",
]

#: Code of the kind of activity that computes.
KERNEL_KIND: Final = ACTIVITY_KINDS.categories.to_list().index("kernel")


class PrecisionEvidence(IntEnum):
    """The evidence that decided the width, in the order in which it is tried.

    Definition: docs/definitions/device-work.md#width-of-a-kernel.
    """

    NOT_COMPUTE = 0
    HLO = 1
    SHAPE = 2
    NAME = 3
    DEFAULT = 4


class Width(NamedTuple):
    """The width of the numbers that a kernel computes with.

    Attributes:
        bits: 16 for 16 bits and fewer, 32 for 32 bits and more.
        fp64: Whether the operands have 64 bits; `bits` is 32 then.
        tf32: Whether 32-bit operands are cut to 19 bits on matrix units.
    """

    bits: int
    fp64: bool = False
    tf32: bool = False


_NARROW: Final = Width(16)
_WIDE: Final = Width(32)
_DOUBLE: Final = Width(32, fp64=True)
_TF32: Final = Width(32, tf32=True)

#: Element type of HLO → width; what starts with `f8` is narrow as well.
_ELEMENTS: Final = {
    **dict.fromkeys(
        ("f16", "bf16", "s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"), _NARROW
    ),
    **dict.fromkeys(("f32", "s32", "u32", "s64", "u64", "c64"), _WIDE),
    "tf32": _TF32,
    "f64": _DOUBLE,
    "c128": _DOUBLE,
}

#: Parts of lower-case kernel names, one list after the other; the first part that is
#: found decides. The narrow parts come first because mixed kernels name their wider
#: accumulator too. Names of Blackwell are not yet confirmed on such a device.
_NARROW_PARTS: Final = (
    *("half", "fp16", "f16", "bf16", "bfloat16", "fp8", "e4m3", "e5m2", "f8f6f4"),
    *("mxf8", "nvf4", "int8", "_s8_", "i8816", "i16832", "hgemm", "h884", "h1688"),
    *("h16816", "s884gemm_fp16", "nvjet_hsh", "nvjet_hss", "nvjet_tst", "nvjet_tss"),
    "nvjet_q",
)
#: In these names the architecture comes between the library and the types.
_NVJET: Final = re.compile(r"nvjet_sm\d+_")
#: Shapes of matrix instructions; 16-bit operands unless the name says `tf32`.
_MATRIX_SHAPES: Final = ("s884", "s1688", "s16816")
_WIDE_PARTS: Final = ("sgemm", "f32", "float", "nvjet_sss")
_DOUBLE_PARTS: Final = ("dgemm", "f64", "double", "fp64")

#: Libraries of AMD write the operand's type after two index blocks.
_TENSILE: Final = re.compile(r"Cijk_[A-Za-z]+_[A-Za-z]+_(F8|B8|I8|[A-Z])")
_TENSILE_TYPES: Final = {
    **dict.fromkeys(("H", "B", "F8", "B8", "I8"), _NARROW),
    **dict.fromkeys(("S", "C", "I"), _WIDE),
    "X": _TF32,
    **dict.fromkeys(("D", "Z"), _DOUBLE),
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

    bits: NDArray[np.uint8]
    fp64: NDArray[np.bool_]
    tf32: NDArray[np.bool_]
    evidence: NDArray[np.uint8]
    of_class: NDArray[np.uint8]


def precision(
    *,
    activity_classes: ActivityClasses,
    event_types: pl.DataFrame,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
) -> Precision:
    """Decide the width of every kernel.

    The element types of the HLO instruction decide, else those of the recorded
    shapes, else the kernel's name. A kernel of unknown width is taken to compute with
    32 bits, and its evidence is the default one.

    Definition: docs/definitions/device-work.md#width-of-a-kernel.
    """
    rows = activity_classes.rows
    elements = (
        [None]
        if isinstance(hlo_ops, Unavailable)
        else hlo_ops["operand_type"].to_list()
    )
    by_hlo = {hlo: width_of_element(elements[hlo]) for hlo in _known(rows["hlo"])}
    by_shape = {
        shape: width_of_shape(strings[shape]) for shape in _known(rows["shape"])
    }
    names = event_types["name"]
    by_name = {type_: width_of_name(names[type_]) for type_ in _known(rows["type"])}
    of_class = np.zeros((len(rows), 4), np.uint8)
    # One round per class of activities, of which there are as many as distinct
    # kernels, not as activities.
    for place, (kind, hlo, shape, type_) in enumerate(
        rows.select("kind", "hlo", "shape", "type").iter_rows()
    ):
        if kind != KERNEL_KIND:
            continue
        width, evidence = next(
            (width, evidence)
            for width, evidence in (
                (by_hlo.get(hlo), PrecisionEvidence.HLO),
                (by_shape.get(shape), PrecisionEvidence.SHAPE),
                (by_name.get(type_), PrecisionEvidence.NAME),
                (_WIDE, PrecisionEvidence.DEFAULT),
            )
            if width is not None
        )
        if width == _WIDE and by_name.get(type_) == _TF32:
            # The operands are 32 bits wide; only the name says that they are cut.
            width = _TF32
        of_class[place] = (width.bits, width.fp64, width.tf32, evidence)
    code = activity_classes.code
    bits, fp64, tf32, by = (of_class[:, column][code] for column in range(4))
    return Precision(bits, fp64.view(np.bool_), tf32.view(np.bool_), by, of_class)


def width_of_element(element: str | None) -> Width | None:
    """Return the width of an HLO element type; None where it decides nothing."""
    if element is None:
        return None
    lowered = element.lower()
    return _NARROW if lowered.startswith("f8") else _ELEMENTS.get(lowered)


def width_of_shape(shape: str) -> Width | None:
    """Return the width that recorded operand shapes name; None where they name none."""
    lowered = shape.lower()
    if any(part in lowered for part in ("half", "bfloat16", "float8", "f8e")):
        return _NARROW
    if "float[" in lowered:
        return _WIDE
    return _DOUBLE if "double" in lowered else None


def width_of_name(name: str) -> Width | None:
    """Return the width that a kernel's name states; None where it states none."""
    tensile = _TENSILE.search(name)
    if tensile:
        return _TENSILE_TYPES.get(tensile[1])
    lowered = _NVJET.sub("nvjet_", name.lower())
    tf32 = "tf32" in lowered
    if any(part in lowered for part in _NARROW_PARTS):
        return _NARROW
    if not tf32 and any(shape in lowered for shape in _MATRIX_SHAPES):
        return _NARROW
    if tf32:
        return _TF32
    if any(part in lowered for part in _WIDE_PARTS):
        return _WIDE
    return _DOUBLE if any(part in lowered for part in _DOUBLE_PARTS) else None


def _known(column: pl.Series) -> list[int]:
    return [number for number in column.unique().to_list() if number >= 0]
