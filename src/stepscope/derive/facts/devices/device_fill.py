"""How well kernels fill a device, and the share of compiler-generated kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.run_derivation import of_each_device_or_why
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.frozen import Frozen
from stepscope.hardware import OCCUPANCY_LIMITS
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.kernels import Kernels
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.step_windows.windows import Windows

#: Names of compiler-generated kernels, for recordings without HLO programs.
_GENERATED: Final = r"^triton_|^(?:input_|loop_|gemm_)?fusion|^wrapped_"
#: Names of calls that run compiled code.
_COMPILED_CALL: Final = r"^Torch-Compiled Region|^CompiledFunction|^## Call Compiled"
_MAX_KERNELS_NAMED: Final = 3
#: Maximum number of rounds (waves) in which a kernel's blocks run; with more rounds, a
#: half-empty last round matters little.
_MAX_ROUNDS: Final = 3
_MAX_LAST_ROUND_SHARE: Final = 0.5


class Unfilled(Frozen, frozen=True):
    """A kernel that leaves multiprocessors or block slots empty.

    Attributes:
        name: The op, or the kernel if the op is unknown.
        idle_ps: Time of the kernel × share of empty multiprocessors or block slots.
        for_one_each: Factor by which the number of blocks must grow so that each
            multiprocessor has one.
        for_three_rounds: Factor by which the number of blocks must grow to fill three
            rounds; None if unknown.
    """

    name: str
    blocks: int
    time_ps: int
    idle_ps: int
    for_one_each: float = 1.0
    for_three_rounds: float | None = None


class DeviceFill(Frozen, frozen=True):
    """How well the kernels of one device fill it.

    Attributes:
        cores: Number of multiprocessors.
        kernel_ps: Time of all compute kernels.
        unshaped_ps: Part of `kernel_ps` in kernels without a recorded grid.
        unfilled_ps: Part of `kernel_ps` in kernels with too few blocks.
        idle_ps: `unfilled_ps` × share of multiprocessors without a block.
        steps: Number of steps in which these times were measured.
        last_round_ps: Part of `kernel_ps` in kernels whose blocks run in two or three
            rounds with a last round less than half full; None if unknown.
        last_round_idle_ps: `last_round_ps` × share of empty block slots in all rounds.
        classes: Share of multiprocessors without a block → rows of `activity_classes`
            of the kernels that leave this share empty.
    """

    cores: int
    kernel_ps: int
    unshaped_ps: int
    unfilled_ps: int
    idle_ps: int
    steps: int
    largest: tuple[Unfilled, ...]
    last_round_ps: int | None = None
    last_round_idle_ps: int = 0
    in_rounds: tuple[Unfilled, ...] = ()
    classes: tuple[tuple[float, tuple[int, ...]], ...] = ()

    def unfilled_percent(self, shares: StepShares) -> float:
        """Return the percentage of step time in kernels with too few blocks.

        It is their share of kernel time × the percentage of computing in judged steps.
        """
        return (
            shares.percent(*COMPUTE_OWNERS) * self.unfilled_ps / max(self.kernel_ps, 1)
        )


@of_each_device_or_why
def fill_signals(
    *, kernels: Kernels, devices: pl.DataFrame, windows: Windows | Unavailable
) -> dict[int | None, DeviceFill] | Unavailable:
    """Compare each kernel's number of blocks with the number of multiprocessors."""
    if kernels.without_geometry is not None:
        return kernels.without_geometry
    steps = 1 if isinstance(windows, Unavailable) else windows.rows.height
    cores = dict(devices[["device", "cores"]].drop_nulls().iter_rows())
    if not cores:
        return _NO_CORES
    threads = {
        device: OCCUPANCY_LIMITS[major, minor].threads
        for device, major, minor in devices[
            ["device", "cc_major", "cc_minor"]
        ].iter_rows()
        if (major, minor) in OCCUPANCY_LIMITS
    }
    # Collectives are excluded: they do not compute and use few blocks by design.
    computing = kernels.rows.filter(pl.col("precision").is_not_null())
    grouped = {device: computing.filter(pl.col("device") == device) for device in cores}
    return {
        device: _device_fill(rows, cores[device], threads.get(device), steps)
        for device, rows in grouped.items()
        if rows.height
    } or NO_KERNELS


def _device_fill(
    rows: pl.DataFrame, cores: int, threads: int | None, steps: int
) -> DeviceFill:
    blocks = pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")
    block = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    held = pl.col("occupancy_percent") / 100 * pl.lit(threads, pl.Int64) / block
    shaped = rows.select(
        "class",
        "total_ps",
        blocks=blocks,
        # Number of blocks that the whole device can hold at the same time.
        slots=pl.when(held > 0).then(held.round().clip(1) * cores),
        name=pl.when(pl.col("op_name").fill_null("") != "")
        .then("op_name")
        .otherwise("kernel_name"),
    ).with_columns(rounds=pl.col("blocks") / pl.col("slots"))
    unfilled = shaped.filter(100 * pl.col("blocks") < THRESHOLDS.filled.value * cores)
    unfilled = unfilled.with_columns(idle=1 - pl.col("blocks") / cores)
    last = pl.col("rounds") - pl.col("rounds").floor()
    round_count = pl.col("rounds").ceil()
    ragged = shaped.filter(
        round_count.is_between(2, _MAX_ROUNDS)
        & (last > 0)
        & (last < _MAX_LAST_ROUND_SHARE)
    ).with_columns(idle=1 - pl.col("rounds") / round_count)
    largest, idle_ps = _top_kernels(unfilled, cores)
    in_rounds, last_idle = _top_kernels(ragged, cores)
    return DeviceFill(
        cores=cores,
        kernel_ps=int(shaped["total_ps"].sum()),
        unshaped_ps=int(shaped.filter(pl.col("blocks").is_null())["total_ps"].sum()),
        unfilled_ps=int(unfilled["total_ps"].sum()),
        idle_ps=idle_ps,
        steps=steps,
        largest=largest,
        last_round_ps=int(ragged["total_ps"].sum())
        if shaped["rounds"].count()
        else None,
        last_round_idle_ps=last_idle,
        in_rounds=in_rounds,
        classes=tuple(
            (idle, tuple(classes))
            for idle, classes in unfilled.group_by("idle", maintain_order=True)
            .agg("class")
            .iter_rows()
        ),
    )


def _top_kernels(rows: pl.DataFrame, cores: int) -> tuple[tuple[Unfilled, ...], int]:
    """Return the kernels with most lost time, and the lost time of all kernels."""
    if not len(rows):
        return (), 0
    lost = rows.with_columns(
        idle_ps=(pl.col("total_ps") * pl.col("idle")).cast(pl.Int64)
    )
    largest = (
        lost.group_by("name", "blocks")
        .agg(
            pl.col("total_ps").sum().alias("time_ps"),
            pl.col("idle_ps").sum(),
            pl.col("slots").first(),
        )
        .sort("idle_ps", "name", descending=[True, False])
        .head(_MAX_KERNELS_NAMED)
        .with_columns(
            for_one_each=cores / pl.col("blocks"),
            for_three_rounds=_MAX_ROUNDS * pl.col("slots") / pl.col("blocks"),
        )
        .drop("slots")
    )
    return (
        tuple(Unfilled(**row) for row in largest.iter_rows(named=True)),
        int(lost["idle_ps"].sum()),
    )


@of_each_device_or_why
def compiled_percent(
    *,
    device_activity: pl.DataFrame,
    event_types: pl.DataFrame,
    launches: pl.DataFrame | Unavailable,
) -> dict[int | None, float | None]:
    """Return the percentage of kernel time in compiler-generated kernels.

    The result is None (unknown) if neither ops nor programs were recorded.
    """
    called = bool(event_types["name"].str.contains(_COMPILED_CALL).any())
    rows = device_activity.select(
        "device",
        "dur_ps",
        kernel=pl.col("kind") == "kernel",
        has_op=pl.col("hlo_op").is_not_null() | pl.col("op").is_not_null(),
        generated=pl.col("hlo_op").is_not_null()
        | event_types["name"].str.contains(_GENERATED).gather(device_activity["type"]),
    ).filter("kernel")
    known = bool(rows["has_op"].any()) or not isinstance(launches, Unavailable)
    percents: dict[int | None, float | None] = {}
    for device in rows["device"].unique().sort():
        of_device = rows.filter(pl.col("device") == device)
        total = int(of_device["dur_ps"].sum())
        generated_ps = int(of_device.filter("generated")["dur_ps"].sum())
        share = 100 * generated_ps / total if total else None
        percents[device] = None if not known else 100.0 if called else share
    return percents


_NO_CORES: Final = Unavailable(
    code="NO_PEAKS",
    reason="The number of multiprocessors of the device was not recorded.",
    remedy="Record with a profiler that writes the properties of the device.",
)
