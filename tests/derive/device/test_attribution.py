"""The op of each device activity, by the strongest evidence there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from tests.support.traces import blueprint

from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.names.op_names import read_annotations
from stepscope.trace.tables import HLO_OPS

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

GPU = "gpu:0/7(Compute)"


def hlo_table(*rows: dict[str, object]) -> pl.DataFrame:
    given = {"program": 1, "module": "jit_f", "opcode": "fusion", "matmul": False}
    return pl.DataFrame([given | row for row in rows], schema=HLO_OPS.dtypes())


def named(trace: TraceData) -> list[tuple[str, str | None, OpEvidence]]:
    """Name, type and evidence of each activity's op."""
    found = blueprint.profile(trace).derived("vm", activity_ops)
    rows = found.ops[found.op].select("name", "type", "evidence").rows()
    return [(name, kind, OpEvidence(evidence)) for name, kind, evidence in rows]


def one(name: str, **stats: str | int) -> tuple[str, str | None, OpEvidence]:
    (found,) = named(blueprint.trace([(GPU, name, 0, 5, stats)]))
    return found


def test_an_annotation_names_op_and_type() -> None:
    found = one("kernel", tf_op="model/dense/MatMul:MatMul")
    assert found == ("model/dense/MatMul", "MatMul", OpEvidence.ANNOTATION)


def test_arguments_and_inner_levels_of_an_annotation_are_cut_off() -> None:
    found = one("kernel", tf_op="a/Recv:_Recv#from=x,to=y#::inner:Thing")
    assert found == ("a/Recv", "_Recv", OpEvidence.ANNOTATION)


def test_an_annotation_without_a_type_is_a_name() -> None:
    found = one("kernel", tf_op="MakeTensor")
    assert found == ("MakeTensor", None, OpEvidence.ANNOTATION)


def test_the_annotation_of_a_program_names_no_op() -> None:
    found = one("kernel", tf_op="XlaModule:")
    assert found == ("(no annotation)", "Unknown", OpEvidence.NONE)


def test_copies_without_annotation_are_one_op_under_all_spellings() -> None:
    trace = blueprint.trace(
        [
            ("gpu:0/8", "MemcpyH2D", 0, 5),
            ("gpu:0/8", "MEMCPYHtoD", 10, 5),
            ("gpu:0/8", "Memset 4", 20, 5),
        ]
    )
    assert named(trace) == [
        ("MemcpyH2D", "MemcpyH2D", OpEvidence.COPY),
        ("MemcpyH2D", "MemcpyH2D", OpEvidence.COPY),
        ("Memset", "Memset", OpEvidence.COPY),
    ]


def test_an_annotated_copy_belongs_to_its_op() -> None:
    found = one("MemcpyH2D", tf_op="IteratorGetNext/_3:_Send")
    assert found == ("IteratorGetNext/_3", "_Send", OpEvidence.ANNOTATION)


def test_the_op_around_the_launch_call_names_what_nothing_else_names() -> None:
    trace = blueprint.trace(
        [
            ("main", "step", 0, 100),
            ("main", "EagerLocalExecute: MatMul", 10, 50),
            ("main", "EagerKernelExecute", 20, 30),
            ("main", "cuLaunchKernel", 25, 5, {"correlation_id": 1}),
            ("main", "cuLaunchKernel", 70, 5, {"correlation_id": 2}),
            (GPU, "sgemm", 40, 5, {"correlation_id": 1}),
            (GPU, "other", 80, 5, {"correlation_id": 2}),
        ]
    )
    assert named(trace) == [
        ("MatMul", "MatMul", OpEvidence.LAUNCH),
        ("(no annotation)", "Unknown", OpEvidence.NONE),
    ]


def test_the_instruction_gives_framework_op_module_and_source() -> None:
    stats = {"hlo_op": "while.1::dot.7", "hlo_module": "jit_f", "tf_op": "x:Y"}
    trace = blueprint.substitute(
        blueprint.trace([(GPU, "kernel", 0, 5, stats)]),
        hlo_ops=hlo_table(
            {
                "name": "dot.7",
                "opcode": "dot",
                "op_name": "jit(f)/dense/dot_general",
                "source_file": "model.py",
                "source_line": 12,
            }
        ),
    )
    found = blueprint.profile(trace).derived("vm", activity_ops)
    (row,) = found.ops[found.op].to_dicts()
    assert row["name"] == row["framework_op"] == "jit(f)/dense/dot_general"
    assert (row["type"], row["category"]) == ("dot_general", "dot")
    assert (row["module"], row["program"], row["hlo_op"]) == ("jit_f", 1, "dot.7")
    assert (row["source_file"], row["source_line"]) == ("model.py", 12)
    assert row["scope"] == "jit(f)/dense"
    assert row["evidence"] == OpEvidence.HLO


def test_an_instruction_without_framework_op_keeps_its_own_name() -> None:
    stats = {"hlo_op": "copy.1", "hlo_module": "jit_f"}
    trace = blueprint.substitute(
        blueprint.trace([(GPU, "kernel", 0, 5, stats)]),
        hlo_ops=hlo_table({"name": "copy.1", "opcode": "copy"}),
    )
    assert named(trace) == [("copy.1", "copy", OpEvidence.HLO)]


def test_without_the_program_the_instruction_is_known_by_name_only() -> None:
    found = one("kernel", hlo_op="a::copy.1", hlo_module="jit_f")
    assert found == ("copy.1", None, OpEvidence.HLO_NAME)


def test_a_module_of_two_programs_does_not_tell_which_one_ran() -> None:
    stats = {"hlo_op": "dot.7", "hlo_module": "jit_f"}
    trace = blueprint.substitute(
        blueprint.trace([(GPU, "kernel", 0, 5, stats)]),
        hlo_ops=hlo_table(
            {"name": "dot.7", "op_name": "a", "program": 1},
            {"name": "dot.7", "op_name": "b", "program": 2},
        ),
    )
    assert named(trace) == [("dot.7", None, OpEvidence.HLO_NAME)]


def test_instructions_of_one_framework_op_share_a_group() -> None:
    trace = blueprint.substitute(
        blueprint.trace(
            [
                (GPU, "k", 10 * i, 5, {"hlo_op": name, "hlo_module": "jit_f"})
                for i, name in enumerate(("dot.1", "copy.1", "add.1"))
            ]
        ),
        hlo_ops=hlo_table(
            {"name": "dot.1", "op_name": "f/dot"},
            {"name": "copy.1", "op_name": "f/dot"},
            {"name": "add.1", "op_name": "f/add"},
        ),
    )
    found = blueprint.profile(trace).derived("vm", activity_ops)
    first, second, third = found.ops["group"].to_numpy()[found.op].tolist()
    assert first == second != third


def test_annotations_are_read_by_the_rules_of_op_names() -> None:
    texts = ["a/b:C", "Iterator::Map", "jit(f)/add:", "plain", "(null)", "INVALID"]
    read = read_annotations(texts)
    assert read["name"].to_list() == [
        "a/b",
        "Iterator::Map",
        "jit(f)/add",
        "plain",
        None,
        None,
    ]
    assert read["type"].to_list() == ["C", "Dataset", "add", None, None, None]
