"""`kernels`: device time by kernel, op and launch shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, handles
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.device.kernel_names import TensorCoreEvidence
from stepscope.derive.device.precision import KERNEL_KIND, PrecisionEvidence
from stepscope.frozen import Frozen
from stepscope.hardware import OCCUPANCY_LIMITS, theoretical_occupancy
from stepscope.trace.reading.nullable import nullable_series
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from enum import IntEnum

    import numpy as np
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses, ClassTotals
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.precision import Precision, TensorCores


#: Columns that together identify a row of the kernel table. Definition:
#: docs/tools/kernel_stats.md#what-is-a-row.
KERNEL_KEY: Final = (
    "kernel_name",
    "op_name",
    "uses_tensor_core",
    "tensor_core_eligible",
    *(f"{what}_{axis}" for what in ("block", "grid") for axis in "xyz"),
    "registers",
    "static_shared_memory_bytes",
    "dynamic_shared_memory_bytes",
)
_GEOMETRY: Final = (*KERNEL_KEY[4:], "shared_memory_bytes", "occupancy_percent")


class Kernels(Frozen, frozen=True):
    """Kernels of one host.

    Attributes:
        rows: One row per class of kernels: `class` (row of `activity_classes`), the
            columns of `KERNEL_KEY`, `device`, `shared_memory_bytes`,
            `occupancy_percent` and `occupancy_limiter` (recorded, or computed if all
            inputs are known), `tensor_core_evidence`, `precision` ("16", "32", "64",
            "tf32"; null for activities that do not compute), `precision_evidence`,
            `count`, `total_ps`, `min_ps`, `max_ps`, `exposed_ps`, `step_ps` (null
            without steps). Null means unknown; an unknown `op_name` is "".
        without_geometry: Why all launch shapes are unknown; None if any is known.
    """

    rows: pl.DataFrame
    without_geometry: Unavailable | None


def kernels(
    *,
    activity_classes: ActivityClasses,
    class_totals: ClassTotals,
    activity_ops: ActivityOps,
    event_types: pl.DataFrame,
    geometries: pl.DataFrame | Unavailable,
    devices: pl.DataFrame | Unavailable,
    precision: Precision,
    tensor_cores: TensorCores,
) -> Kernels:
    """Describe kernels and collectives; those with a duration of 0 ps are included.

    Any activity with a launch shape is a kernel, even if it copies or fills memory.
    """
    rows = activity_classes.rows.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("class"),
        count=class_totals.all.count,
        total_ps=class_totals.all.total,
        min_ps=class_totals.all.least,
        max_ps=class_totals.all.greatest,
        exposed_ps=class_totals.alone_ps,
        step_ps=pl.lit(None, pl.Int64)
        if class_totals.step_ps is None
        else pl.Series(class_totals.step_ps),
        uses_tensor_core=_verdict_column(tensor_cores.of_class[:, 0]),
        tensor_core_eligible=_verdict_column(tensor_cores.of_class[:, 1]),
        tensor_core_evidence=pl.Series(tensor_cores.of_class[:, 2]),
        bits=pl.Series(precision.of_class[:, 0]),
        fp64=pl.Series(precision.of_class[:, 1]),
        tf32=pl.Series(precision.of_class[:, 2]),
        precision_evidence=pl.Series(precision.of_class[:, 3]),
    ).filter(
        pl.col("kind").is_in([KERNEL_KIND, ACTIVITY_CODES["collective"]])
        | (pl.col("geometry") >= 0)
    )
    op_names = activity_ops.ops.select(
        pl.when(~pl.col("evidence").is_in([int(OpEvidence.COPY), int(OpEvidence.NONE)]))
        .then("name")
        .otherwise(pl.lit(""))
    ).to_series()
    named = rows.with_columns(
        event_types["name"][rows["type"]].alias("kernel_name"),
        op_names[rows["op"]].alias("op_name"),
    )
    return Kernels(
        _add_geometry(named, geometries, devices).select(
            "class",
            *KERNEL_KEY,
            "device",
            "shared_memory_bytes",
            "occupancy_percent",
            "occupancy_limiter",
            _evidence_texts("tensor_core_evidence", TensorCoreEvidence),
            pl.when(pl.col("fp64") > 0)
            .then(pl.lit("64"))
            .when(pl.col("tf32") > 0)
            .then(pl.lit("tf32"))
            .when(pl.col("bits") > 0)
            .then(pl.col("bits").cast(pl.String))
            .alias("precision"),
            _evidence_texts("precision_evidence", PrecisionEvidence),
            *("count", "total_ps", "min_ps", "max_ps", "exposed_ps", "step_ps"),
        ),
        geometries if isinstance(geometries, Unavailable) else None,
    )


def launch_dimensions(what: str) -> pl.Expr:
    """Return each launch's `block` or `grid` size (`what`) as text `x,y,z`.

    Null if any size is unknown.
    """
    axes = [pl.col(f"{what}_{axis}").cast(pl.String) for axis in "xyz"]
    return pl.concat_str(axes, separator=",").alias(f"{what}_dim")


def _verdict_column(code: NDArray[np.int8]) -> pl.Series:
    return nullable_series("verdict", code > 0, code >= 0)


def _evidence_texts(column: str, kinds: type[IntEnum]) -> pl.Expr:
    """Return the names of the kinds of evidence; null for 0, which is no evidence."""
    texts = {int(kind): kind.name.lower() for kind in kinds if kind}
    return pl.col(column).replace_strict(texts, default=None, return_dtype=pl.String)


def _add_geometry(
    rows: pl.DataFrame,
    geometries: pl.DataFrame | Unavailable,
    devices: pl.DataFrame | Unavailable,
) -> pl.DataFrame:
    if isinstance(geometries, Unavailable):
        empty: dict[str, pl.DataType] = dict.fromkeys(_GEOMETRY, pl.Int64())
        empty |= {"registers": pl.Int32(), "occupancy_percent": pl.Float64()}
        return rows.with_columns(
            *(pl.lit(None, dtype).alias(name) for name, dtype in empty.items()),
            pl.lit(None, pl.String).alias("occupancy_limiter"),
        )
    geometry = handles(rows, "geometry")
    index = nullable_series("geometry", geometry, geometry >= 0)
    shaped = rows.hstack([column.gather(index) for column in geometries])
    if isinstance(devices, Unavailable):
        return shaped.with_columns(occupancy_limiter=pl.lit(None, pl.String))
    listed = {device: row for row, device in enumerate(devices["device"])}
    of_device = [listed.get(device) for device in rows["device"].to_list()]
    index = pl.Series(of_device, dtype=pl.Int64)
    units = (devices[name].gather(index) for name in ("vendor", "cc_major", "cc_minor"))
    needed = ("registers", "shared_memory_bytes", "cc_major", "cc_minor")
    blocks = ("block_x", "block_y", "block_z")
    occupancies = []
    # The loop runs over the distinct launch shapes of kernels.
    for vendor, *values in shaped.with_columns(*units)[
        ["vendor", *needed, *blocks]
    ].iter_rows():
        sm_limits = (
            None
            if vendor == "AMD" or None in values
            else OCCUPANCY_LIMITS.get((values[2], values[3]))
        )
        best = sm_limits and theoretical_occupancy(
            sm_limits,
            threads=values[4] * values[5] * values[6],
            registers=values[0],
            shared_memory_bytes=values[1],
        )
        occupancies.append((best.percent, best.limiter) if best else (None, None))
    schema = {"percent": pl.Float64(), "limiter": pl.String()}
    limits = pl.DataFrame(occupancies, schema=schema, orient="row")
    return shaped.with_columns(
        pl.coalesce("occupancy_percent", limits["percent"]).alias("occupancy_percent"),
        limits["limiter"].alias("occupancy_limiter"),
    )
