"""Parser of the HLO module fields that stepscope needs; works without protobuf.

Field numbers are those of XLA's `hlo.proto` and `xla_data.proto` (HloProto,
HloModuleProto, HloComputationProto, HloInstructionProto, OpMetadata, ShapeProto,
HloScheduleProto, StackFrameIndexProto). Every length is checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.formats.hlo_shapes import ATTRIBUTE_FIELDS, attributes_text, shape_text
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.xspace.wire import field_text, number_fields, packed_numbers, read_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: PrimitiveType → (name, bits per element) of array element types.
_ELEMENTS: Final = {
    number: (name, bits)
    for bits, names in (
        (1, {30: "s1", 31: "u1"}),
        (2, {26: "s2", 27: "u2"}),
        (4, {21: "s4", 22: "u4", 32: "f4e2m1fn"}),
        (8, {1: "pred", 2: "s8", 6: "u8", 19: "f8e5m2", 20: "f8e4m3fn"}),
        (8, {23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz"}),
        (8, {28: "f8e4m3", 29: "f8e3m4", 33: "f8e8m0fnu"}),
        (16, {3: "s16", 7: "u16", 10: "f16", 16: "bf16"}),
        (32, {4: "s32", 8: "u32", 11: "f32"}),
        (64, {5: "s64", 9: "u64", 12: "f64", 15: "c64"}),
        (128, {18: "c128"}),
    )
    for number, name in names.items()
}

_PRODUCTS: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot"})

#: Matches names of library calls that compute matrix products or convolutions.
_PRODUCT_CALL: Final = Pattern(r"gemm|matmul|conv(?!ert)|fmha|attention", re.IGNORECASE)

#: Maximum depth of nested calls between computations; deeper calls are ignored.
_MAX_DEPTH: Final = 16


class HloInstruction(NamedTuple):
    """One HLO instruction; a field that the module does not record is None."""

    name: str
    opcode: str
    op_name: str | None
    op_type: str | None
    source_file: str | None
    source_line: int | None
    operand_type: str | None
    custom_call: str | None
    matmul: bool
    shape: str | None
    operands: list[str]
    computation: str
    calls: list[str]
    attributes: str | None


#: Op type, op name, file, line and stack frame of an instruction; "" and 0 for none.
_Metadata = tuple[str, str, str, int, int]


class _Raw(Frozen, frozen=True, eq=True):
    id: int
    name: str
    opcode: str
    element: int
    metadata: _Metadata
    operands: tuple[int, ...]
    calls: tuple[int, ...]
    custom_call: str | None
    shape: str | None
    attributes: str | None


#: File and line of a stack frame; "" and 0 for none.
_Frame = tuple[str, int]


def parse_module(data: bytes) -> tuple[str, list[HloInstruction]]:
    """Parse a serialized HloProto into the module's name and all its instructions.

    The list includes instructions of called computations (fusions, loop bodies). Within
    a computation, instructions are in scheduled order if the module has a schedule, and
    in stored order otherwise.

    Raises:
        MalformedMessage: A length or a number runs past the end of its message.
    """
    name = ""
    computations: dict[int, list[_Raw]] = {}
    names: dict[int, str] = {}
    frames: list[_Frame] = []
    schedule: dict[int, list[int]] = {}
    for number, value in read_fields(data):
        if number == 1 and isinstance(value, memoryview):
            for inner, part in read_fields(value):
                if inner == 1:
                    name = field_text(part)
                elif inner == 3 and isinstance(part, memoryview):
                    computation, called, instructions = _read_computation(part)
                    computations[computation] = instructions
                    names[computation] = called
                elif inner == 7 and isinstance(part, memoryview):
                    schedule = dict(_read_schedule(part))
                elif inner == 17 and isinstance(part, memoryview):
                    frames = _read_stack_frames(part)
    resolver = _Resolver(computations, names, frames)
    return name, [
        resolver.resolve(raw, computation)
        for computation, instructions in computations.items()
        for raw in _order_by_schedule(instructions, schedule.get(computation, ()))
    ]


class _Resolver:
    def __init__(
        self,
        computations: dict[int, list[_Raw]],
        names: dict[int, str],
        frames: Sequence[_Frame],
    ) -> None:
        self._computations = computations
        self._computation_names = names
        self._frames = frames
        # Instruction ids are unique in a module.
        everything = [raw for raws in computations.values() for raw in raws]
        self._elements = {raw.id: raw.element for raw in everything}
        self._names = {raw.id: raw.name for raw in everything}
        self._products: dict[int, tuple[_Raw, ...]] = {}

    def resolve(self, raw: _Raw, computation: int) -> HloInstruction:
        op_type, op_name, file, line, frame = raw.metadata
        if not file and 0 < frame <= len(self._frames):
            file, line = self._frames[frame - 1]
        products = self._products_in_instruction(raw)
        deciding = products or (raw,)
        elements = [
            _ELEMENTS[element]
            for raw in deciding
            for operand in raw.operands
            if (element := self._elements.get(operand, 0)) in _ELEMENTS
        ]
        # If several types have the most bits, prefer floats: integers may be masks.
        widest, _ = max(
            elements,
            key=lambda pair: (pair[1], pair[0][0] in "fbc", pair[0]),
            default=(None, 0),
        )
        return HloInstruction(
            name=raw.name,
            opcode=raw.opcode,
            op_name=op_name or None,
            op_type=op_type or None,
            source_file=file or None,
            source_line=line or None if file else None,
            operand_type=widest,
            custom_call=raw.custom_call or None,
            matmul=bool(products),
            shape=raw.shape,
            operands=[self._names.get(operand, "") for operand in raw.operands],
            computation=self._computation_names[computation],
            calls=[self._computation_names.get(called, "") for called in raw.calls],
            attributes=raw.attributes,
        )

    def _products_in_instruction(self, raw: _Raw) -> tuple[_Raw, ...]:
        if _is_product(raw):
            return (raw,)
        if raw.opcode != "fusion":
            return ()
        return tuple(
            product
            for called in raw.calls
            for product in self._products_in_computation(called)
        )

    def _products_in_computation(
        self, computation: int, depth: int = 0
    ) -> tuple[_Raw, ...]:
        if computation in self._products or depth > _MAX_DEPTH:
            return self._products.get(computation, ())
        # Set an entry first: the recursion then ends if a damaged module calls itself.
        self._products[computation] = ()
        products: list[_Raw] = []
        for raw in self._computations.get(computation, []):
            if _is_product(raw):
                products.append(raw)
            for called in raw.calls:
                products.extend(self._products_in_computation(called, depth + 1))
        self._products[computation] = tuple(products)
        return self._products[computation]


def _is_product(raw: _Raw) -> bool:
    if raw.opcode in _PRODUCTS:
        return True
    return bool(raw.custom_call and _PRODUCT_CALL.search(raw.custom_call))


def _read_schedule(view: memoryview) -> Iterator[tuple[int, list[int]]]:
    for _, entry in read_fields(view):
        if not isinstance(entry, memoryview):
            continue
        computation, order = 0, list[int]()
        for field, value in read_fields(entry):
            if field == 1 and isinstance(value, int):
                computation = value
            elif field == 2 and isinstance(value, memoryview):
                for _, ids in read_fields(value):
                    order.extend(packed_numbers(ids))
        yield computation, order


def _order_by_schedule(instructions: list[_Raw], order: Sequence[int]) -> list[_Raw]:
    place = {number: index for index, number in enumerate(order)}
    return sorted(instructions, key=lambda raw: place.get(raw.id, len(place)))


def _read_computation(view: memoryview) -> tuple[int, str, list[_Raw]]:
    number = 0
    name = ""
    instructions = []
    for field, value in read_fields(view):
        if field == 5 and isinstance(value, int):
            number = value
        elif field == 1:
            name = field_text(value)
        elif field == 2 and isinstance(value, memoryview):
            instructions.append(_read_instruction(value))
    return number, name, instructions


def _read_instruction(view: memoryview) -> _Raw:
    number = element = 0
    metadata: _Metadata = ("", "", "", 0, 0)
    texts = {1: "", 2: "", 28: ""}
    lists: dict[int, list[int]] = {36: [], 38: []}
    attributes: dict[int, int | memoryview] = {}
    shape: str | None = None
    for field, value in read_fields(view):
        if field in texts:
            texts[field] = field_text(value)
        elif field in lists:
            lists[field].extend(packed_numbers(value))
        elif field == 35 and isinstance(value, int):
            number = value
        elif field == 3 and isinstance(value, memoryview):
            element = number_fields(value).get(2, 0)
            shape = shape_text(value, _ELEMENTS)
        elif field in ATTRIBUTE_FIELDS:
            attributes[field] = value
        elif field == 7 and isinstance(value, memoryview):
            metadata = _read_op_metadata(value)
    return _Raw(
        id=number,
        name=texts[1],
        opcode=texts[2],
        element=element,
        metadata=metadata,
        operands=tuple(lists[36]),
        calls=tuple(lists[38]),
        custom_call=texts[28] or None,
        shape=shape,
        attributes=attributes_text(attributes) if attributes else None,
    )


def _read_op_metadata(view: memoryview) -> _Metadata:
    texts = {1: "", 2: "", 3: ""}
    for field, value in read_fields(view):
        if field in texts:
            texts[field] = field_text(value)
    numbers = number_fields(view)
    return texts[1], texts[2], texts[3], numbers.get(4, 0), numbers.get(15, 0)


def _read_stack_frames(view: memoryview) -> list[_Frame]:
    """Return file and line of each frame; the index is the frame number minus one."""
    files: list[str] = []
    locations: list[tuple[int, int]] = []
    frames: list[int] = []
    for field, value in read_fields(view):
        if isinstance(value, int):
            continue
        if field == 1:
            files.append(field_text(value))
        elif field == 3:
            numbers = number_fields(value)
            locations.append((numbers.get(1, 0), numbers.get(3, 0)))
        elif field == 4:
            frames.append(number_fields(value).get(1, 0))
    resolved = []
    for location in frames:
        # Numbers in all three lists start at 1; 0 means no entry.
        known = 0 < location <= len(locations)
        file, line = locations[location - 1] if known else (0, 0)
        resolved.append((files[file - 1] if 0 < file <= len(files) else "", line))
    return resolved
