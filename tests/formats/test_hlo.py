from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.xspace.wire import number_field, sized, varint

from stepscope.formats.hlo import parse_module
from stepscope.formats.opening import read
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

F16, F32, BF16, S32, TUPLE = 10, 11, 16, 4, 13


def instruction(
    number: int,
    name: str,
    opcode: str,
    *,
    element: int = F32,
    operands: tuple[int, ...] = (),
    calls: tuple[int, ...] = (),
    metadata: bytes = b"",
    target: str = "",
) -> bytes:
    body = sized(1, name.encode()) + sized(2, opcode.encode())
    body += sized(3, number_field(2, element))
    if metadata:
        body += sized(7, metadata)
    if target:
        body += sized(28, target.encode())
    body += number_field(35, number)
    body += sized(36, b"".join(varint(it) for it in operands))
    # Not packed, as proto2 writers do.
    body += b"".join(number_field(38, it) for it in calls)
    return sized(2, body)


def module(
    *computations: tuple[int, bytes], frames: bytes = b"", schedule: bytes = b""
) -> bytes:
    body = sized(1, b"jit_step") + sized(2, b"main") + number_field(5, 77)
    for number, instructions in computations:
        inner = sized(1, b"c") + instructions + number_field(5, number)
        body += sized(3, inner)
    if schedule:
        body += sized(7, schedule)
    if frames:
        body += sized(17, frames)
    return sized(1, body)


def by_name(data: bytes) -> dict[str, object]:
    _, instructions = parse_module(data)
    return {it.name: it for it in instructions}


def test_a_dot_takes_the_widest_type_of_its_operands() -> None:
    body = instruction(1, "p0", "parameter", element=BF16)
    body += instruction(2, "p1", "parameter", element=F32)
    body += instruction(3, "dot", "dot", element=F16, operands=(1, 2))
    found = by_name(module((9, body)))
    assert found["dot"].operand_type == "f32"
    assert found["dot"].matmul is True
    assert found["p0"].operand_type is None
    assert found["p0"].matmul is False


def test_instructions_stand_as_the_schedule_has_them() -> None:
    body = b"".join(instruction(it, f"i{it}", "add") for it in (1, 2, 3, 4))
    other = b"".join(instruction(it, f"i{it}", "add") for it in (5, 6))
    # An entry of the map: computation 9, whose sequence leaves out what is not run.
    order = sized(1, b"".join(varint(it) for it in (3, 1, 4)))
    entry = sized(1, number_field(1, 9) + sized(2, order))
    _, found = parse_module(module((9, body), (8, other), schedule=entry))
    assert [it.name for it in found] == ["i3", "i1", "i4", "i2", "i5", "i6"]


def test_a_fusion_is_a_product_if_a_computation_it_calls_holds_one() -> None:
    fused = instruction(11, "x", "parameter", element=F16)
    fused += instruction(12, "wide", "parameter", element=F32)
    fused += instruction(13, "inner", "convolution", operands=(11, 11))
    fused += instruction(14, "add", "add", operands=(12, 13))
    body = instruction(1, "p", "parameter", element=S32)
    body += instruction(2, "fusion.7", "fusion", operands=(1,), calls=(5,))
    body += instruction(3, "plain", "fusion", operands=(1,), calls=(6,))
    other = instruction(21, "y", "parameter")
    found = by_name(module((5, fused), (6, other), (9, body)))
    # The operands of the convolution decide, not those of the fusion.
    assert (found["fusion.7"].matmul, found["fusion.7"].operand_type) == (True, "f16")
    assert (found["plain"].matmul, found["plain"].operand_type) == (False, "s32")


@pytest.mark.parametrize(
    ("target", "product"),
    [
        ("__cublas$gemm", True),
        ("__cublas$lt$matmul$f8", True),
        ("__cudnn$convForward", True),
        ("__cudnn$fmhaSoftmax", True),
        ("annotate_device_placement", False),
        ("xla_convert_layout", False),
    ],
)
def test_a_library_call_for_a_product_is_one(target: str, product: bool) -> None:  # noqa: FBT001 - a column of the table above
    body = instruction(1, "p", "parameter", element=BF16)
    body += instruction(2, "call", "custom-call", operands=(1, 1), target=target)
    call = by_name(module((9, body)))["call"]
    assert (call.custom_call, call.matmul) == (target, product)


def test_a_tuple_operand_has_no_elements_of_its_own() -> None:
    body = instruction(1, "t", "tuple", element=TUPLE)
    body += instruction(2, "gte", "get-tuple-element", operands=(1,))
    assert by_name(module((9, body)))["gte"].operand_type is None


def test_source_lines_come_from_the_metadata_or_from_its_stack_frame() -> None:
    named = sized(1, b"MatMul") + sized(2, b"model/dense/MatMul")
    old = named + sized(3, b"train.py") + number_field(4, 42)
    new = named + number_field(15, 2)
    beyond = named + number_field(15, 3)
    frames = sized(1, b"a.py") + sized(1, b"b.py") + sized(2, b"step")
    frames += sized(3, number_field(1, 1) + number_field(2, 1) + number_field(3, 5))
    frames += sized(3, number_field(1, 2) + number_field(2, 1) + number_field(3, 8))
    frames += sized(4, number_field(1, 1))
    frames += sized(4, number_field(1, 2) + number_field(2, 1))
    body = instruction(1, "old", "add", metadata=old)
    body += instruction(2, "new", "add", metadata=new)
    body += instruction(3, "beyond", "add", metadata=beyond)
    body += instruction(4, "bare", "add")
    found = by_name(module((9, body), frames=frames))
    assert {
        name: (it.op_name, it.op_type, it.source_file, it.source_line)
        for name, it in found.items()
    } == {
        "old": ("model/dense/MatMul", "MatMul", "train.py", 42),
        "new": ("model/dense/MatMul", "MatMul", "b.py", 8),
        "beyond": ("model/dense/MatMul", "MatMul", None, None),
        "bare": (None, None, None, None),
    }


def test_a_computation_that_calls_itself_ends() -> None:
    body = instruction(1, "loop", "fusion", calls=(9,))
    body += instruction(2, "dot", "dot", operands=(1, 1))
    assert by_name(module((9, body)))["loop"].matmul is True


def test_unknown_and_fixed_width_fields_are_passed_over() -> None:
    extra = number_field(900, 5) + sized(901, b"?") + b"\x59" + struct.pack("<d", 1)
    body = instruction(1, "p", "parameter") + b"\x5d\0\0\0\0"
    name, instructions = parse_module(extra + module((9, body)) + extra)
    assert (name, [it.name for it in instructions]) == ("jit_step", ["p"])


def test_every_cut_is_a_module_or_refused() -> None:
    body = instruction(1, "p", "parameter")
    body += instruction(2, "dot", "dot", operands=(1, 1))
    whole = module((9, body))
    outcomes = set()
    for length in range(len(whole)):
        try:
            parse_module(whole[:length])
            outcomes.add("read")
        except MalformedMessage:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
    with pytest.raises(MalformedMessage):
        parse_module(whole[:-1])


@pytest.mark.parametrize(
    ("folder", "programs", "product", "operand_type"),
    [
        ("gpu_jax_amd/jax08_gemm", 16, "custom-call.1", "bf16"),
        ("gpu_jax_amd/jax08_conv", 8, "cudnn-conv.1", "bf16"),
        ("jax_cpu/steps", 15, "dot.1", "f32"),
        ("tf_cpu/xla", 1, "convolution.2", "f32"),
        ("tpu/tpu_inference_2", 4, None, None),
    ],
)
def test_modules_of_real_profiles(
    shared_profile: Callable[[str], Path],
    folder: str,
    programs: int,
    product: str | None,
    operand_type: str | None,
) -> None:
    trace = read(next(iter(shared_profile(folder).rglob("*.xplane.pb*"))))
    table = trace.table("hlo_ops")
    assert table["program"].n_unique() == programs
    products = table.filter("matmul")
    if product is None:
        assert products.is_empty()
        return
    found = products.filter(pl.col("name") == product)
    assert set(found["operand_type"]) == {operand_type}
    assert found["source_file"].null_count() == 0


def test_every_executed_instruction_of_a_jax_program_is_in_its_module(
    shared_profile: Callable[[str], Path],
) -> None:
    trace = read(next(iter(shared_profile("jax_cpu/steps").rglob("*.xplane.pb*"))))
    stats = trace.table("stats")
    key = trace.strings.index("hlo_op")
    executed = {trace.strings[it] for it in stats.filter(pl.col("key") == key)["value"]}
    listed = set(trace.table("hlo_ops")["name"])
    assert len(executed) == 35
    assert executed - listed == set()
