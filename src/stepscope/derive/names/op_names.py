"""Op names: annotations (`scope/name:Type`), and instructions of compiled programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.names.event_kinds import OpCategory, op_names
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Name of the op of activities without an op name. Definition:
#: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
UNANNOTATED: Final = "(no annotation)"
#: Type and category of `UNANNOTATED`.
UNKNOWN: Final = "Unknown"

#: Kind of activity → (op, category) of a copy or memset without an annotation. All
#: spellings of one direction give one op.
COPY_OPS: Final = {
    "h2d": ("MemcpyH2D", "Memcpy"),
    "d2h": ("MemcpyD2H", "Memcpy"),
    "p2p_copy": ("MemcpyP2P", "Memcpy"),
    "local_copy": ("MemcpyD2D", "Memcpy"),
    "memset": ("Memset", "Memset"),
}

#: Pattern of annotations that are empty or name a program instead of an op.
_NO_OP: Final = r"^(?:XlaModule|XlaCompile|Thunk):|^\(null\)$|^INVALID$|^$"

#: Columns about an instruction of a compiled program; null means unknown.
HLO_TEXTS: Final[dict[str, pl.DataType]] = {
    "module": pl.String(),
    "program": pl.Int64(),
    "hlo_op": pl.String(),  # the innermost instruction
    "hlo": pl.Int32(),  # row of hlo_ops
    "opcode": pl.String(),
    "framework_op": pl.String(),  # the op that the instruction came from
    "framework_type": pl.String(),
    "source_file": pl.String(),
    "source_line": pl.Int64(),
}


def resolve_hlo(
    hlo_ops: pl.DataFrame | Unavailable,
    *,
    instructions: Sequence[str],
    modules: Sequence[str | None],
    programs: pl.Series,
) -> pl.DataFrame:
    """Find instructions of compiled programs by (program, innermost name).

    Without a program id, the module's name is used if only one program has that name.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.

    Args:
        instructions: As recorded, outermost first if nested (`a::b`).
        modules: Names of the modules; None if not recorded.
        programs: Program ids; null if not recorded.

    Returns:
        One row per instruction, with the columns of `HLO_TEXTS`.
    """
    wanted = pl.DataFrame(
        {
            "hlo_op": pl.Series(instructions, dtype=pl.String),
            "wanted_module": pl.Series(modules, dtype=pl.String),
            "program": programs.cast(pl.Int64),
        }
    ).with_columns(pl.col("hlo_op").str.split("::").list.last())
    if isinstance(hlo_ops, Unavailable):
        unknown = HLO_TEXTS.keys() - {"module", "program", "hlo_op"}
        return (
            wanted.rename({"wanted_module": "module"})
            .with_columns(pl.lit(None, HLO_TEXTS[name]).alias(name) for name in unknown)
            .select(*HLO_TEXTS)
        )
    read = op_names(
        hlo_ops.select(
            name=pl.col("op_name") + ":" + pl.col("op_type").fill_null("")
        ).fill_null("")["name"]
    )
    known = (
        hlo_ops.with_row_index("hlo")
        .select(
            "program",
            "module",
            pl.col("name").alias("hlo_op"),
            pl.col("hlo").cast(pl.Int32),
            "opcode",
            pl.when(pl.col("op_name") != "")
            .then(pl.coalesce(read.op_name, "op_name"))
            .alias("framework_op"),
            pl.coalesce(
                pl.when(pl.col("op_type") != "").then("op_type"), read.op_type
            ).alias("framework_type"),
            "source_file",
            "source_line",
        )
        .unique(["program", "hlo_op"], keep="first", maintain_order=True)
    )
    programs_of = known.group_by("module").agg(pl.col("program").unique())
    only = programs_of.filter(pl.col("program").list.len() == 1).select(
        pl.col("module").alias("wanted_module"),
        pl.col("program").list.first().alias("only_program"),
    )
    wanted = wanted.join(
        only, on="wanted_module", how="left", maintain_order="left"
    ).with_columns(pl.coalesce("program", "only_program").alias("program"))
    joined = wanted.join(
        known, on=["program", "hlo_op"], how="left", maintain_order="left"
    )
    return joined.with_columns(
        pl.coalesce("module", "wanted_module").alias("module")
    ).select(*HLO_TEXTS)


def read_annotations(texts: Sequence[str]) -> pl.DataFrame:
    """Parse each text as the annotation of an op.

    Definition: docs/definitions/names-and-events.md#names-of-ops.

    Returns:
        One row per text: `name` and `type`, null if the text is not an op's name;
        `type` is also null if the text has no type; `category`, an `OpCategory` code.
    """
    # Remove arguments, which follow the name in an annotation, between # marks.
    cleaned = pl.Series("name", texts, dtype=pl.String).str.extract(r"^([^#]*)")
    plain = cleaned.to_frame().with_columns(
        pl.when(pl.col("name").str.contains(r"^\w+::"))
        .then("name")
        .otherwise(pl.col("name").str.split("::").list.first())
        .str.strip_chars()
        .alias("name")
    )
    parsed = op_names(plain["name"])
    read = plain.with_columns(
        pl.Series("category", parsed.category),
        parsed.op_name.alias("op_name"),
        parsed.op_type.alias("type"),
        pl.col("name").str.contains(_NO_OP).alias("no_op"),
    )
    return read.select(
        name=pl.when(~pl.col("no_op")).then(pl.coalesce("op_name", "name")),
        type=pl.when(~pl.col("no_op")).then("type"),
        category=pl.when(pl.col("no_op"))
        .then(pl.lit(int(OpCategory.UNKNOWN), pl.UInt8))
        .otherwise("category"),
    )


def name_scope(column: pl.Expr) -> pl.Expr:
    """Return the path of an op's name without its last segment; "" at the top."""
    return column.str.extract(r"^(.*)/[^/]*$").fill_null("")
