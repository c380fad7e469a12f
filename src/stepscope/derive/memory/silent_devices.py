"""`unrecorded_devices`: used devices whose work was not recorded."""

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

#: The number of a device in the name of the allocator of its memory.
_ORDINAL: Final = r"(?i)^(?:gpu|cuda|rocm|hip|tpu)[_:](\d+)(?:_|$)"
_ORDINAL_TEXT: Final = Pattern(_ORDINAL)
#: Reports of PyTorch, which name no allocator but number its device.
_NUMBERED: Final = "[memory]"
#: Looking through more texts takes longer than reading the table.
_MANY_TEXTS: Final = 100_000
#: A device takes part in the program that takes this share of the memory blocks that
#: the busiest one takes. Fewer are the bookkeeping of a framework.
_TAKES_PART: Final = 0.25


class UnrecordedDevices(Frozen, frozen=True, kw_only=True, eq=True):
    """What the memory of devices says of records that are missing.

    Attributes:
        used: Devices that take part in the program, by their memory, ascending. Where
            no text names the memory of a device without kernels, those with kernels:
            who took memory is not counted then.
        silent: Those of them without any kernel, ascending.
    """

    used: tuple[int, ...]
    silent: tuple[int, ...]

    @property
    def most(self) -> bool:
        """Whether kernels of most of the used devices are missing."""
        return 2 * len(self.silent) > len(self.used)

    def quality_notes(self) -> Iterator[QualityNote]:
        """Yield what is doubtful then."""
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
            f"took memory on {len(self.used)} devices while it was recorded, and "
            f"{len(self.silent)} of them ({listed}) have no kernel.",
            remedy="Record again, for a shorter time: a buffer that overflows loses "
            "records.",
        )


def unrecorded_devices(
    *, trace: TraceData, event_types: pl.DataFrame, device_activity: pl.DataFrame
) -> UnrecordedDevices | Unavailable:
    """Compare the devices on which memory was taken with those that ran kernels.

    Args:
        trace: The trace, whose table of allocations is read only where some device may
            be silent: many tools ask for doubts, and few for memory.
    """
    kind = codes(device_activity, "kind")
    kernel = (kind == ACTIVITY_CODES["kernel"]) | (kind == ACTIVITY_CODES["collective"])
    ran = np.bincount(handles(device_activity, "device")[kernel])
    working = set(np.flatnonzero(ran).tolist())
    # The devices whose memory a text may name; -1 where texts do not tell.
    if (event_types["name"] == _NUMBERED).any() or len(trace.strings) > _MANY_TEXTS:
        named_by_texts = {-1}
    else:
        named_by_texts = {
            int(found[1]) for found in map(_ORDINAL_TEXT.match, trace.strings) if found
        }
    # Some files keep the texts next to the events, where only the table finds them.
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
    least = _TAKES_PART * int(taken["count"].max() or 0)  # type: ignore[arg-type]
    used = set(taken.filter(pl.col("count") >= least)["device"].to_list())
    # Without any kernel at all, kernels were not recorded: another doubt's matter. A
    # device that runs kernels and takes no memory has another number there.
    if not working or not working <= used:
        return UnrecordedDevices(used=tuple(sorted(used)), silent=())
    return UnrecordedDevices(
        used=tuple(sorted(used)), silent=tuple(sorted(used - working))
    )
