"""The model in a file: compiled programs, their executions on cores, and variables.

A device such as a TPU executes whole programs, so no host call belongs to a single op.
Each execution of a program has an id, which is also recorded with the call that queues
the execution. All ops of the execution are attributed to this call.

Definition: docs/formats/xplane.md#executions-of-programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import as_declared, or_lost
from stepscope.formats.declared_texts import why_absent
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import HLO_OPS, PARAMETERS, PLACE_BYTES, PLACE_TEXT
from stepscope.xspace.vocabulary import MODEL_PLANE, ParameterStat
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

_RUN: Final = "run_id"
_DEVICE: Final = "device_ordinal"
_TEXTS: Final = (ParameterStat.SCOPE, ParameterStat.SHAPE, ParameterStat.DTYPE)
#: Names of the stat with a program's HLO, spelled in two ways.
_PROTO_KEYS: Final = ("Hlo Proto", "HLO Proto")


class ProgramRuns(Frozen, frozen=True):
    """The queued executions of a file, as arrays sorted by device and then start.

    The index of an execution is the correlation id of its call and its ops.

    Attributes:
        call: Row in `events` of the call that queued the execution.
    """

    call: Int64s
    device: Int64s
    start_ps: Int64s
    end_ps: Int64s

    def at(self, device: int, times_ps: Int64s) -> Int64s:
        """Return the execution on a device at each of the times, or -1."""
        first, last = np.searchsorted(self.device, (device, device + 1)).tolist()
        if first == last:
            return np.full(len(times_ps), -1)
        begun = np.searchsorted(self.start_ps[first:last], times_ps, side="right")
        run = first + begun - 1
        within = (begun > 0) & (times_ps < self.end_ps[run])
        return np.where(within, run, -1)


def program_runs(recording: Recording) -> ProgramRuns:
    """Match the executions that devices recorded with the calls that queued them.

    The host records the id of an execution several times. The first event with the id
    is the call; later events report the end of the execution.
    """
    is_core = any(track.kind == "core" for track in recording.tracks)
    calls = _queuing_calls(recording) if is_core else {}
    matched = [
        (calls[device, run], device, start, end)
        for device, run, start, end in (_recorded_runs(recording) if calls else ())
        if (device, run) in calls
    ]
    matched.sort(key=lambda run: run[1:3])
    return ProgramRuns(*np.array(matched, np.int64).reshape(-1, 4).T.copy())


def _queuing_calls(recording: Recording) -> dict[tuple[int, int], int]:
    rows, ids = recording.host_values(_RUN)
    if not len(rows):
        return {}
    devices, valid = recording.values_at_rows([_DEVICE], rows)[_DEVICE].integer_values()
    numbers, known = ids.integer_values()
    start_ps = recording.timeline.start_ps[rows]
    calls: dict[tuple[int, int], int] = {}
    for row in np.argsort(start_ps, kind="stable").tolist():
        if valid[row] and known[row]:
            calls.setdefault((int(devices[row]), int(numbers[row])), int(rows[row]))
    return calls


def _recorded_runs(recording: Recording) -> list[tuple[int, int, int, int]]:
    line = recording.timeline
    runs: list[tuple[int, int, int, int]] = []
    for track, recorded_track in enumerate(recording.tracks):
        device = recorded_track.role.device
        if recorded_track.derived != "xla_modules" or device is None:
            continue
        begin, end = int(line.event_begin[track]), int(line.event_end[track])
        ids, known = recording.values_in_range([_RUN], begin, end)[
            _RUN
        ].integer_values()
        start_ps = line.start_ps[begin:end]
        end_ps = start_ps + line.dur_ps[begin:end]
        runs += [
            (device, *run)
            for run, is_known in zip(
                zip(*(col.tolist() for col in (ids, start_ps, end_ps)), strict=True),
                known.tolist(),
                strict=True,
            )
            if is_known
        ]
    return runs


def parameters_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every variable of the model, in the order of the recording."""
    space = recording.space
    planes = [
        row for row, plane in enumerate(space.planes) if plane.name == MODEL_PLANE
    ]
    if not planes:
        return or_lost(why_absent("xplane.no_parameters"), recording.damaged_at)
    types = space.event_types
    rows = np.flatnonzero(np.isin(types.plane, planes) & ~types.unknown)
    values = recording.type_values((*_TEXTS, ParameterStat.TRAINABLE))
    texts = recording.texts()
    table = {key: texts.series(key, texts.numbers(values[key])[rows]) for key in _TEXTS}
    trained, known = values[ParameterStat.TRAINABLE].integer_values()
    frame = pl.DataFrame(
        {
            "name": pl.Series(recording.type_names[rows].tolist(), dtype=pl.String),
            "scope": table[ParameterStat.SCOPE].fill_null(""),
            "shape": table[ParameterStat.SHAPE],
            "dtype": table[ParameterStat.DTYPE],
            "trainable": nullable_series("trainable", trained[rows] != 0, known[rows]),
        }
    )
    sizes = pl.col("shape").str.json_decode(pl.List(pl.Int64()))
    return as_declared(frame.with_columns(sizes), PARAMETERS.dtypes())


def read_programs(recording: Recording) -> tuple[pl.DataFrame | Unavailable, int]:
    """Return `hlo_ops`, or why there is none, and the number of broken programs."""
    rows: list[tuple[Any, ...]] = []
    readable = broken = 0
    values = recording.type_values(_PROTO_KEYS)
    for program, (name, row) in sorted(recording.programs.items()):
        for key in _PROTO_KEYS:
            if values[key].kind[row] not in (PLACE_BYTES, PLACE_TEXT):
                continue
            # Imported only if a program was recorded.
            from stepscope.formats.hlo import parse_module  # noqa: PLC0415

            place = int(values[key].value[row])
            data = recording.space.data[place : place + int(values[key].length[row])]
            try:
                module, instructions = parse_module(data.tobytes())
            except MalformedMessage:
                broken += 1
                continue
            readable += 1
            # The declared columns have the order of the instruction's fields.
            rows += ((program, module or name, *each) for each in instructions)
            break
    if readable:
        return pl.DataFrame(rows, schema=HLO_OPS.dtypes(), orient="row"), broken
    if broken:
        return why_absent("xplane.malformed_hlo", count=broken), broken
    return or_lost(why_absent("xplane.no_hlo"), recording.damaged_at), broken


def program_modules(recording: Recording, program: Int64s, present: Bools) -> Int32s:
    """Return the handle of each program's module name, or -1 if not recorded."""
    names = {
        number: recording.handle(listed.module)
        for number, listed in recording.programs.items()
    }
    distinct, inverse = np.unique(program, return_inverse=True)
    modules = [names.get(number, -1) for number in distinct.tolist()]
    handles = np.array(modules, dtype=np.int32)[inverse]
    return np.where(present, handles, np.int32(-1))
