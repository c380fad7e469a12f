"""`parameters`: the variables of the model."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

PARAMETERS: Final = TableSchema(
    "parameters",
    "a variable of the model",
    "as recorded",
    (
        Column("name", pl.String(), "", NEVER, "Name of the variable."),
        Column(
            "scope",
            pl.String(),
            "",
            NEVER,
            "Path of the layer or module that holds the variable.",
        ),
        Column(
            "shape", pl.List(pl.Int64()), "", "not recorded", "Sizes of the dimensions."
        ),
        Column("dtype", pl.String(), "", "not recorded", "Element type."),
        Column(
            "trainable",
            pl.Boolean(),
            "",
            "not recorded",
            "Whether training changes the variable.",
        ),
    ),
)
