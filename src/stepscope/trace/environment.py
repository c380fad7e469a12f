"""`environment`: what the program and the capture were; one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVEL = "not recorded by this producer"

ENVIRONMENT: Final = TableSchema(
    "environment",
    "the capture of one host",
    "one row",
    (
        Column("file", pl.String(), "", NEVER, "Path of the file that was read."),
        Column("format", pl.String(), "", NEVER, "Format of the file."),
        Column("file_bytes", pl.Int64(), "bytes", NEVER, "Size of the file."),
        Column(
            "hostname",
            pl.String(),
            "",
            "not recorded",
            "Name of the host, as the file records it.",
        ),
        Column(
            "start_unix_ns",
            pl.Int64(),
            "ns",
            "not recorded",
            "Start of the profile (time 0), since 1970 UTC.",
        ),
        Column(
            "stop_unix_ns",
            pl.Int64(),
            "ns",
            "not recorded",
            "End of the recording, since 1970 UTC.",
        ),
        Column(
            "host_tracer_level",
            pl.Int64(),
            "",
            _LEVEL,
            "Level of the host tracer while recording.",
        ),
        Column(
            "device_tracer_level",
            pl.Int64(),
            "",
            _LEVEL,
            "Level of the device tracer while recording.",
        ),
        Column(
            "python_tracer_level",
            pl.Int64(),
            "",
            _LEVEL,
            "Level of the Python tracer while recording.",
        ),
        Column(
            "processes",
            pl.Int64(),
            "",
            "not recorded",
            "Number of processes that take part in the run, this one included.",
        ),
        Column(
            "rank",
            pl.Int64(),
            "",
            "not recorded",
            "Number of this process among them, from 0 on.",
        ),
        Column(
            "cuda_runtime",
            pl.Int64(),
            "",
            _LEVEL,
            "Version of the CUDA runtime: 1000 x major + 10 x minor.",
        ),
        Column(
            "cuda_driver",
            pl.Int64(),
            "",
            _LEVEL,
            "Newest CUDA version that the driver supports, in the same way.",
        ),
        Column(
            "grouped",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the producer stored step groups.",
        ),
        Column(
            "collectors",
            pl.String(),
            "",
            "another profiler recorded",
            "What of stepscope recorded, the names between commas: a framework has one "
            "where the program used it.",
        ),
        Column(
            "cores",
            pl.Int32(),
            "",
            "another profiler recorded",
            "How many cores of its machine the program may use.",
        ),
        Column(
            "complete_until_ps",
            pl.Int64(),
            "ps",
            "no events are known to be missing",
            "From then on events are missing, which were too many to store.",
        ),
        Column("begin_ps", pl.Int64(), "ps", "no events", "Start of the first event."),
        Column("end_ps", pl.Int64(), "ps", "no events", "End of the last event."),
    ),
)


#: What lies above every integer of a column's type.
_ENDS: Final[dict[pl.DataType, int]] = {pl.Int32(): 2**31, pl.Int64(): 2**63}


def environment_frame(given: Mapping[str, object]) -> pl.DataFrame:
    """Return the one row of the table; what is not given is null.

    An integer that its column has no room for is unknown, as damaged files have them.
    """
    dtypes = ENVIRONMENT.dtypes()
    row = {
        name: value
        for name, value in given.items()
        if not isinstance(value, int)
        or isinstance(value, bool)
        or -_ENDS[dtypes[name]] <= value < _ENDS[dtypes[name]]
    }
    return pl.DataFrame([{name: row.get(name) for name in dtypes}], schema=dtypes)
