"""`hlo_ops`: the instructions of compiled programs."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["HLO_OPS"]

HLO_OPS: Final = TableSchema(
    "hlo_ops",
    "an instruction of a compiled program",
    "by program, then as stored",
    (
        Column("program", pl.Int64(), "", NEVER, "Program id."),
        Column("module", pl.String(), "", NEVER, "Name of the module."),
        Column("name", pl.String(), "", NEVER, "Name of the instruction."),
        Column("opcode", pl.String(), "", NEVER, "HLO opcode."),
        Column("op_name", pl.String(), "", "none", "Framework op it came from."),
        Column("op_type", pl.String(), "", "none", "That op's type."),
        Column("source_file", pl.String(), "", "not recorded", "Python file."),
        Column("source_line", pl.Int64(), "", "not recorded", "Line in it."),
        Column(
            "operand_type",
            pl.String(),
            "",
            "no operand with elements",
            "Widest element type among the operands of the dot or convolution, "
            "else of all operands.",
        ),
        Column(
            "custom_call",
            pl.String(),
            "",
            "not a custom call",
            "Target of a custom call.",
        ),
        Column(
            "matmul",
            pl.Boolean(),
            "",
            NEVER,
            "It is, or its fusion holds, a dot, a convolution or a library call for "
            "one.",
        ),
        Column(
            "shape",
            pl.String(),
            "",
            "not recorded, or a type without elements",
            "Element type and sizes of the result, `f32[128,10]`; of a tuple in "
            "parentheses.",
        ),
        Column(
            "operands",
            pl.List(pl.String()),
            "",
            "not recorded",
            "Names of the instructions whose results it takes.",
        ),
        Column(
            "computation",
            pl.String(),
            "",
            "not recorded",
            "Name of the computation that holds it.",
        ),
        Column(
            "calls",
            pl.List(pl.String()),
            "",
            "not recorded",
            "Names of the computations it calls.",
        ),
        Column(
            "attributes",
            pl.String(),
            "",
            "none of a product",
            "Contracted dimensions of a dot; window and dimension labels of a "
            "convolution, as HLO writes them.",
        ),
    ),
)
