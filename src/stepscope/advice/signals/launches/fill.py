"""How full kernels keep a device, and how many of them a compiler made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.signal import signal
from stepscope.derive.device.kernels import kernels
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["COMPUTE", "DeviceFill", "Unfilled", "compiled_percent", "fill_signals"]

#: Names of kernels that a compiler made, where no program is recorded.
_GENERATED: Final = r"^triton_|^(?:input_|loop_|gemm_)?fusion|^wrapped_"
#: Calls of what a compiler made, whoever wrote the kernels inside.
_COMPILED_CALL: Final = r"^Torch-Compiled Region|^CompiledFunction|^## Call Compiled"
_SHOWN: Final = 3
#: Owners of the time that kernels compute.
COMPUTE: Final = ("compute_16", "compute_tf32", "compute_32", "compute_64")


class Unfilled(Frozen, frozen=True):
    """A kernel with fewer blocks than the device has multiprocessors.

    Attributes:
        name: The op; the kernel where none is known.
        blocks: Number of its blocks.
        time_ps: Its time.
        idle_ps: That time by the share of the multiprocessors without a block.
    """

    name: str
    blocks: int
    time_ps: int
    idle_ps: int


class DeviceFill(Frozen, frozen=True):
    """How the kernels of one device fill it.

    Attributes:
        cores: Number of its multiprocessors.
        kernel_ps: Time of all kernels.
        unshaped_ps: The part of it of kernels whose grid was not recorded.
        unfilled_ps: The part of it of kernels with too few blocks.
        idle_ps: Of these, time by the share of the multiprocessors without a block.
        steps: Number of steps that all of this covers.
        largest: The kernels with most of that time.
    """

    cores: int
    kernel_ps: int
    unshaped_ps: int
    unfilled_ps: int
    idle_ps: int
    steps: int
    largest: tuple[Unfilled, ...]

    def unfilled_percent(self, shares: StepShares) -> float:
        """Return the share of the step in kernels with too few blocks.

        Kernels are counted over all steps, the account over those that are judged.
        """
        compute = shares.percent(*COMPUTE)
        return compute * self.unfilled_ps / max(self.kernel_ps, 1)


@signal(kernels, windows)
def fill_signals(
    profile: ProfileData, thresholds: Thresholds
) -> dict[str, DeviceFill] | Unavailable:
    """Compare grids with the number of multiprocessors, `host:device` → its kernels."""
    found: dict[str, DeviceFill] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        table = profile.derived(host, kernels)
        devices = profile.table(host, "devices")
        if isinstance(table, Unavailable):
            reasons.append(table)
            continue
        if table.without_geometry is not None:
            reasons.append(table.without_geometry)
            continue
        if isinstance(devices, Unavailable):
            reasons.append(devices)
            continue
        placed = profile.derived(host, windows)
        steps = 1 if isinstance(placed, Unavailable) else max(placed.rows.height, 1)
        cores = dict(devices.select("device", "cores").drop_nulls().iter_rows())
        for device, count in cores.items():
            # Collectives have few blocks by design; they compute nothing.
            computes = pl.col("precision").is_not_null()
            mine = table.rows.filter((pl.col("device") == device) & computes)
            if mine.height:
                found[f"{host}:{device}"] = _fill(mine, count, steps, thresholds)
        if not cores:
            reasons.append(_NO_CORES)
    if not found:
        return reasons[0] if reasons else NO_KERNELS
    return found


def _fill(
    rows: pl.DataFrame, cores: int, steps: int, thresholds: Thresholds
) -> DeviceFill:
    blocks = pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")
    shaped = rows.select(
        "total_ps",
        blocks=blocks,
        name=pl.when(pl.col("op_name").fill_null("") != "")
        .then("op_name")
        .otherwise("kernel_name"),
    )
    few = shaped.filter(100 * pl.col("blocks") < thresholds.filled.value * cores)
    few = few.with_columns(
        idle_ps=(pl.col("total_ps") * (1 - pl.col("blocks") / cores)).cast(pl.Int64)
    )
    largest = (
        few.group_by("name", "blocks")
        .agg(pl.col("total_ps").sum().alias("time_ps"), pl.col("idle_ps").sum())
        .sort("idle_ps", "name", descending=[True, False])
        .head(_SHOWN)
    )
    return DeviceFill(
        cores=cores,
        kernel_ps=int(shaped["total_ps"].sum()),
        unshaped_ps=int(shaped.filter(pl.col("blocks").is_null())["total_ps"].sum()),
        unfilled_ps=int(few["total_ps"].sum()),
        idle_ps=int(few["idle_ps"].sum()),
        steps=steps,
        largest=tuple(Unfilled(**row) for row in largest.iter_rows(named=True)),
    )


@signal()
def compiled_percent(
    profile: ProfileData, _: Thresholds
) -> dict[str, float | None] | Unavailable:
    """Return the share of kernel time that a compiler made, by `host:device`.

    None where neither ops nor programs are recorded, so that nothing tells it.
    """
    found: dict[str, float | None] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        activity = profile.table(host, "device_activity")
        types = profile.table(host, "event_types")
        if isinstance(activity, Unavailable):
            reasons.append(activity)
            continue
        if isinstance(types, Unavailable):
            reasons.append(types)
            continue
        called = bool(types["name"].str.contains(_COMPILED_CALL).any())
        generated = types["name"].str.contains(_GENERATED)
        rows = activity.select(
            "device",
            "dur_ps",
            kernel=pl.col("kind").cast(pl.String) == "kernel",
            told=pl.col("hlo_op").is_not_null() | pl.col("op").is_not_null(),
            made=pl.col("hlo_op").is_not_null() | generated.gather(activity["type"]),
        ).filter("kernel")
        launches = profile.table(host, "launches")
        told = bool(rows["told"].any()) or not isinstance(launches, Unavailable)
        for device in rows["device"].unique().sort():
            mine = rows.filter(pl.col("device") == device)
            total = int(mine["dur_ps"].sum())
            made = int(mine.filter("made")["dur_ps"].sum())
            share = 100 * made / total if total else None
            found[f"{host}:{device}"] = None if not told else 100.0 if called else share
    if reasons and not found:
        return reasons[0]
    return found


_NO_CORES: Final = Unavailable(
    code="NO_PEAKS",
    reason="How many multiprocessors the device has was not recorded.",
    remedy="Record with a profiler that writes the properties of the device.",
)
