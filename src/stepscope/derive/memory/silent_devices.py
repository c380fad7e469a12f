"""`unrecorded_devices`: devices that the program used without recorded work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.trace.model import TraceData

#: Pattern of the device number in the name of a device memory's allocator.
_ORDINAL: Final = r"(?i)^(?:gpu|cuda|rocm|hip|tpu)[_:](\d+)(?:_|$)"
_ORDINAL_TEXT: Final = Pattern(_ORDINAL)
#: Event of PyTorch's memory reports, with a device number but no allocator name.
_NUMBERED: Final = "[memory]"
#: Maximum number of texts to search; if there are more, reading the table is faster.
_MAX_TEXTS: Final = 100_000
#: The program uses a device if the device has at least this share of the number of
#: blocks on the busiest device. Fewer blocks are bookkeeping of a framework.
_MIN_BLOCKS_SHARE: Final = 0.25


class UnrecordedDevices(Frozen, frozen=True, kw_only=True, eq=True):
    """Devices whose records are missing, according to allocations of their memory.

    Attributes:
        used: Devices that the program uses according to their memory, ascending. Just
            the devices with kernels if no other device has named memory.
        silent: The used devices without any kernel, ascending.
    """

    used: tuple[int, ...]
    silent: tuple[int, ...]

    @property
    def most(self) -> bool:
        """Whether kernels of most of the used devices are missing."""
        return 2 * len(self.silent) > len(self.used)

    def quality_notes(self) -> Iterator[QualityNote]:
        """Yield a note if records of devices are missing."""
        if not self.silent:
            return
        listed = ", ".join(map(str, self.silent))
        share = "most" if self.most else "some"
        yield QualityNote(
            kind="device_records_missing",
            severity="error" if self.most else "warning",
            count=len(self.silent),
            scope=f"devices {listed}",
            message=f"The records of {share} of the devices are missing: the program "
            f"allocated memory on {len(self.used)} devices while it was recorded, and "
            f"{len(self.silent)} of them ({listed}) have no kernel.",
            remedy="Record again, for a shorter time: a buffer that overflows loses "
            "records.",
        )


def unrecorded_devices(
    *, trace: TraceData, event_types: pl.DataFrame, device_activity: pl.DataFrame
) -> UnrecordedDevices | Unavailable:
    """Compare the devices with allocated memory and the devices that ran kernels.

    Args:
        trace: The trace. The table of allocations is read only if a device may lack
            kernels, because most tools do not need that table.
    """
    kind = codes(device_activity, "kind")
    kernel = (kind == ACTIVITY_CODES["kernel"]) | (kind == ACTIVITY_CODES["collective"])
    ran = np.bincount(handles(device_activity, "device")[kernel])
    working = set(np.flatnonzero(ran).tolist())
    # Find the devices whose memory a text may name; -1 if texts do not show it.
    if (event_types["name"] == _NUMBERED).any() or len(trace.strings) > _MAX_TEXTS:
        named_by_texts = {-1}
    else:
        named_by_texts = {
            int(match[1]) for match in map(_ORDINAL_TEXT.match, trace.strings) if match
        }
    # If a file has these texts in events, only the table shows the devices.
    if working and named_by_texts and named_by_texts <= working:
        return UnrecordedDevices(used=tuple(sorted(working)), silent=())
    allocations = trace.table("allocations")
    if isinstance(allocations, Unavailable):
        return allocations
    named = allocations["allocator"].filter(allocations["kind"] == "allocate")
    taken = (
        named.value_counts()
        .select(
            "count",
            device=pl.col("allocator")
            .cast(pl.String)
            .str.extract(_ORDINAL)
            .cast(pl.Int64, strict=False),
        )
        .drop_nulls()
        .group_by("device")
        .agg(pl.col("count").sum())
    )
    if not len(taken):
        return WHY["memory_names_no_device"]
    min_count = _MIN_BLOCKS_SHARE * int(taken["count"].max() or 0)  # type: ignore[arg-type]
    used = set(taken.filter(pl.col("count") >= min_count)["device"].to_list())
    # If there are no kernels at all, another note reports that. A device with kernels
    # but without memory has another number in allocator names.
    if not working or not working <= used:
        return UnrecordedDevices(used=tuple(sorted(used)), silent=())
    return UnrecordedDevices(
        used=tuple(sorted(used)), silent=tuple(sorted(used - working))
    )
