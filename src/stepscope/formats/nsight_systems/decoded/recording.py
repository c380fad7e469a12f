"""The decoded content of one database, shared by the builders of several tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.formats.assemble import Track
from stepscope.formats.nsight_systems.database.rows import SAMPLE_TABLES, WORK
from stepscope.formats.nsight_systems.decoded.cpu_samples import cpu_samples
from stepscope.formats.nsight_systems.decoded.device_work import device_work
from stepscope.formats.nsight_systems.decoded.event_order import (
    SECTIONS,
    build_timeline,
)
from stepscope.formats.nsight_systems.decoded.events import (
    Names,
    Origin,
    process_expr,
    thread_expr,
)
from stepscope.formats.nsight_systems.decoded.extras import driver_memory, other_events
from stepscope.formats.nsight_systems.decoded.gpus import (
    device_clocks,
    find_gpus,
    gpu_metrics,
    move_to_host_clock,
)
from stepscope.formats.nsight_systems.decoded.host_events import host_events
from stepscope.formats.nsight_systems.decoded.scheduling import (
    cpu_of_process,
    off_core,
    scheduling_turns,
)
from stepscope.xspace.samples_line import SAMPLES_BASE, SamplesLine

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from stepscope.formats.nsight_systems.database.rows import Export
    from stepscope.formats.nsight_systems.decoded.device_work import DeviceWork
    from stepscope.formats.nsight_systems.decoded.event_order import Timeline
    from stepscope.formats.nsight_systems.decoded.extras import Extras
    from stepscope.formats.nsight_systems.decoded.gpus import Gpus
    from stepscope.formats.nsight_systems.decoded.host_events import HostEvents

#: Section of a host track → kind of the track, and format of its name.
_OF_SECTION: Final = {
    SECTIONS[Origin.SPAN]: ("asynchronous", "{}: ranges with two ends"),
    SECTIONS[Origin.OFF_CORE]: ("asynchronous", "{}: without a core"),
    SECTIONS[Origin.MEMORY]: ("asynchronous", "memory of the driver"),
    SECTIONS[Origin.OVERHEAD]: ("overhead", "Profiler overhead"),
    SECTIONS[Origin.COUNTER]: ("counters", "Counters"),
    SECTIONS[Origin.SAMPLE]: ("samples", ""),
}


class Recording:
    """The events of a file, its tracks and its timeline.

    Args:
        read: Reads the file. Keep no reference to its result: most tables are freed as
            soon as they are converted to events.

    Attributes:
        work: Device activity, in times of the host if the clock offset is known;
            `device` is the device of the file.
        shapes: Distinct launch shapes as recorded; `work.launched` has their rows.
        syncs: Waits for devices; `device` is the device of the file.
        main_process: The process with the most CUDA calls; None if there is none.
    """

    def __init__(self, read: Callable[[], Export]) -> None:
        export = self.export = read()
        self.names = Names(export.strings)
        self.host: HostEvents = host_events(export, self.names)
        decoded: DeviceWork = device_work(export, self.names)
        self.main_process = self._busiest_process(decoded.frame)
        self.shapes = decoded.shapes
        self.undirected = decoded.undirected
        self.graphs = decoded.graphs
        owned = pl.col("process").fill_null(pl.lit(self.main_process, pl.Int64))
        work = decoded.frame.with_columns(owned)
        self.gpus: Gpus = find_gpus(export, work)
        self.beside: Extras = other_events(export, self.names, work)
        # Free the tables that were converted to events.
        export = self.export = export.without(WORK)
        self.syncs = self.gpus.renumber_devices(self.beside.syncs)
        own = self.gpus.renumber_devices(work)
        self.clocks = device_clocks(own, self.host.calls, self.syncs, self.names)
        self.work = move_to_host_clock(own, self.clocks)
        self.refused: Counter[str] = (
            decoded.refused + self.host.refused + self.beside.refused
        )
        memory = driver_memory(export, self.names, self.refused)
        self.memory = self.gpus.renumber_devices(memory)
        rows = self.export.frame("ThreadNames").select(
            process_expr("globalTid", machines=export.machines),
            thread_expr("globalTid").alias("thread"),
            "nameId",
        )
        self._shown = {
            (process, thread): f"{self.export.strings[name]} ({thread})"
            for process, thread, name in rows.iter_rows()
            if name in self.export.strings
        }
        scheduled = scheduling_turns(export)
        used = cpu_of_process(scheduled, self.names, process=self.main_process)
        metrics = gpu_metrics(
            self.export, self.names, self.refused, gpus=self.gpus.by_id
        )
        self.counters = pl.concat([used, metrics.select(used.columns)])
        samples = cpu_samples(export, self.names, threads=self.host.threads)
        self._sampling_hz = samples.hz
        parts = {
            Origin.RANGE: self.host.ranges,
            Origin.CALL: self.host.calls,
            Origin.SYSTEM_CALL: self.host.system_calls,
            Origin.WORK: self.work,
            Origin.SYNC: self.syncs,
            Origin.OVERHEAD: self.beside.overheads,
            Origin.SPAN: self.host.spans,
            Origin.MEMORY: self.memory,
            Origin.OFF_CORE: self._off_core(scheduled),
            Origin.COUNTER: self.counters,
            Origin.SAMPLE: samples.frame,
        }
        self.timeline: Timeline = build_timeline(
            parts, self.names, main=self.main_process
        )
        if self.timeline.far:
            self.refused["weeks away from all other events"] += self.timeline.far
        self.tracks = self._list_tracks()
        self.export = export.without(SAMPLE_TABLES)

    def _list_tracks(self) -> list[Track]:
        keys = list(self.timeline.tracks.iter_rows(named=True))
        owners: dict[tuple[int, int], set[int | None]] = {}
        for key in keys:
            if key["section"] == SECTIONS[Origin.WORK]:
                place = (key["device"], key["id"])
                owners.setdefault(place, set()).add(key["process"])
        return [
            self._on_device(
                key, of_several=len(owners.get((key["device"], key["id"]), ())) > 1
            )
            if key["device"] is not None
            else self._on_host(key)
            for key in keys
        ]

    def _off_core(self, scheduled: pl.DataFrame) -> pl.DataFrame:
        # A process belongs to the program if it has records other than scheduling.
        processes = {self.main_process}
        host = self.host
        for frame in (host.calls, host.ranges, self.work, host.system_calls):
            processes.update(frame["process"].unique().to_list())
        own = frozenset(process for process in processes if process is not None)

        def shown(thread: int) -> str | None:
            """Name a thread of the program; threads of other programs stay unnamed."""
            process, number = divmod(thread, 2**24)
            process = process if self.export.machines > 1 else process % 2**24
            if process not in own:
                return None
            return self._shown.get((process, number), f"thread {number}")

        return off_core(
            scheduled,
            self.host.system_calls,
            self.names,
            threads=self.host.threads,
            shown=shown,
        )

    def first(self, table: str, column: str) -> int | None:
        """Return the first non-null value of a column; None if there is none."""
        number: int | None = self.export.frame(table)[column].drop_nulls().first()  # type: ignore[assignment]
        return number

    def _busiest_process(self, work: pl.DataFrame) -> int | None:
        host = self.host
        for frame in (host.calls, host.ranges, work, host.system_calls):
            counts = frame["process"].drop_nulls().value_counts()
            if counts.height:
                by_count = counts.sort(-pl.col("count").cast(pl.Int64), "process")
                return int(by_count["process"][0])
        return None

    def _on_device(self, key: dict[str, Any], *, of_several: bool) -> Track:
        stream, process = key["id"], key["process"]
        name = f"stream {stream}"
        if of_several:
            name += f" of process {process}"
        if key["section"] == SECTIONS[Origin.SYNC]:
            name = "synchronisation" if stream < 0 else f"{name}: synchronisation"
        elif key["section"] == SECTIONS[Origin.MEMORY]:
            name = "memory of the driver"
        works = key["section"] == SECTIONS[Origin.WORK]
        return Track(
            plane=f"/device:GPU:{key['device']}",
            name=name,
            kind="stream" if works else "asynchronous",
            device=key["device"],
            id=stream,
        )

    def _on_host(self, key: dict[str, Any]) -> Track:
        process, thread, section = key["process"], key["id"], key["section"]
        kind, template = _OF_SECTION.get(section, ("thread", "{}"))
        own = process == self.main_process or process is None
        if kind == "samples":
            thread -= SAMPLES_BASE
        name = self._shown.get((process, thread), f"thread {thread}")
        return Track(
            plane="/host:CPU" if own else f"/host:CPU [{process}]",
            name=SamplesLine(thread, name, self._sampling_hz).name
            if kind == "samples"
            else template.format(name),
            kind=kind,
            process=process,
            id=key["id"],
        )
