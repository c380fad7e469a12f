"""Reading op annotations: `scope/name:Type`, as recorded on devices and in HLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.names.event_kinds import OpCategory, op_names

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The op of activities that nothing names. Definition:
#: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
NO_ANNOTATION: Final = "(no annotation)"
#: Type and category of `NO_ANNOTATION`.
UNKNOWN: Final = "Unknown"

#: Kind of activity → (op, category) where a copy or memset carries no annotation; all
#: spellings of one direction are one op.
COPY_OPS: Final = {
    "h2d": ("MemcpyH2D", "Memcpy"),
    "d2h": ("MemcpyD2H", "Memcpy"),
    "p2p_copy": ("MemcpyP2P", "Memcpy"),
    "local_copy": ("MemcpyD2D", "Memcpy"),
    "memset": ("Memset", "Memset"),
}

#: Annotations that name a program or nothing, not an op.
_NO_OP: Final = r"^(?:XlaModule|XlaCompile|Thunk):|^\(null\)$|^INVALID$|^$"


def read_annotations(texts: Sequence[str]) -> pl.DataFrame:
    """Read each text as the annotation of an op.

    Definition: docs/definitions/names-and-events.md#names-of-ops.

    Returns:
        One row per text: `name` and `type`, null where the text names no op; `type`
        is also null where the text is a name without a type; `category`, an
        `OpCategory` code.
    """
    # The arguments of an annotation follow its name, between # marks.
    cleaned = pl.Series("name", texts, dtype=pl.String).str.extract(r"^([^#]*)")
    whole = cleaned.to_frame().with_columns(
        pl.when(pl.col("name").str.contains(r"^\w+::"))
        .then("name")
        .otherwise(pl.col("name").str.split("::").list.first())
        .str.strip_chars()
        .alias("name")
    )
    found = op_names(whole["name"])
    read = whole.with_columns(
        pl.Series("category", found.category),
        found.op_name.alias("op_name"),
        found.op_type.alias("type"),
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
