"""`hlo_ops`: the instructions of compiled programs."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

HLO_OPS: Final = TableSchema(
    "hlo_ops",
    "an instruction of a compiled program",
    "by program, then as stored",
    (
        Column("program", pl.Int64(), "", NEVER, "Id of the compiled program."),
        Column("module", pl.String(), "", NEVER, "Name of the HLO module."),
        Column("name", pl.String(), "", NEVER, "Name of the instruction."),
        Column("opcode", pl.String(), "", NEVER, "HLO opcode of the instruction."),
        Column(
            "op_name",
            pl.String(),
            "",
            "none",
            "Framework op that the instruction came from.",
        ),
        Column(
            "op_type",
            pl.String(),
            "",
            "none",
            "Type of the framework op that the instruction came from.",
        ),
        Column(
            "source_file",
            pl.String(),
            "",
            "not recorded",
            "Python file that made the instruction.",
        ),
        Column(
            "source_line",
            pl.Int64(),
            "",
            "not recorded",
            "Line of the Python file that made the instruction.",
        ),
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
            "Whether the instruction is, or its fusion holds, a dot, a convolution or "
            "a library call for one.",
        ),
        Column(
            "shape",
            pl.String(),
            "",
            "not recorded, or a type without elements",
            "Element type and sizes of the result, as `f32[128,10]`; those of a tuple "
            "in parentheses.",
        ),
        Column(
            "operands",
            pl.List(pl.String()),
            "",
            "not recorded",
            "Names of the instructions whose results the instruction takes.",
        ),
        Column(
            "computation",
            pl.String(),
            "",
            "not recorded",
            "Name of the computation that holds the instruction.",
        ),
        Column(
            "calls",
            pl.List(pl.String()),
            "",
            "not recorded",
            "Names of the computations that the instruction calls.",
        ),
        Column(
            "attributes",
            pl.String(),
            "",
            "not a dot or a convolution",
            "Contracted dimensions of a dot; window and dimension labels of a "
            "convolution, as HLO writes them.",
        ),
    ),
)
