"""A trace as Chrome trace events JSON, written piece by piece.

The format is the JSON object form of the Chromium project's Trace Event Format. The
object has the fields of every tool's answer and also `displayTimeUnit` and
`traceEvents`, so that it is both an answer and a file that trace viewers can load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.trace_viewer.arguments import INTEGER, REAL, TEXT, UNSIGNED
from stepscope.reporting.plain import EXACT_INTEGER, plain
from stepscope.reporting.to_json import plain_envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.timeline.counters import CounterTile
    from stepscope.analysis.timeline.tiles import Tiles
    from stepscope.analysis.trace_viewer.events import HostSpans, SpanPiece
    from stepscope.analysis.trace_viewer.viewer import HostTrace
    from stepscope.array_types import Int64s
    from stepscope.reporting.envelope import Envelope
    from stepscope.reporting.plain import Plain

#: Picoseconds per µs; times are written in µs with six decimals, which is exact.
_PS_PER_US: Final = 1_000_000
_DIGITS: Final = 6
#: Kind of number → its NumPy type; all kinds are stored in 64 bits.
_NUMBER_TYPES: Final = {INTEGER: np.int64, UNSIGNED: np.uint64, REAL: np.float64}
#: Name and category of the arrows from launch calls to device activities.
_FLOW: Final = '"name":"launch","cat":"launch"'


def write_trace(
    answer: Envelope,
    hosts: Sequence[HostTrace],
    spans: Iterable[HostSpans],
    write: Callable[[bytes], object],
) -> None:
    """Write a whole trace with the answer of the tool, see `write_spans`."""
    write_spans(plain_envelope(answer), hosts, spans, write)


def write_spans(
    about: Mapping[str, Plain],
    hosts: Sequence[HostTrace],
    spans: Iterable[HostSpans],
    write: Callable[[bytes], object],
) -> None:
    """Write a trace, with one piece at a time in memory.

    Args:
        about: Further fields of the object, which trace viewers ignore.
        hosts: Names and numbers of processes and threads.
        spans: Spans to draw, by host.
        write: Function that receives the bytes, in order.
    """
    head = msgspec.json.encode({**about, "displayTimeUnit": "ns", "traceEvents": []})
    write(head[:-2])
    comma = b"\n"
    for line in _metadata_events(hosts):
        write(comma + line)
        comma = b",\n"
    for host in spans:
        names = _json_texts(host.names.to_list())
        categories = _json_texts(host.categories)
        for piece in host.pieces:
            text = render_piece(piece, names, categories)
            if text:
                write(comma + text)
                comma = b",\n"
    write(b"\n]}\n")


def render_piece(piece: SpanPiece, names: pl.Series, categories: pl.Series) -> bytes:
    """Write the events of a piece, one per line, joined by commas.

    Args:
        piece: Spans of one host.
        names: Names, encoded as JSON, by code.
        categories: Categories, encoded as JSON, by number.
    """
    if not len(piece.process):
        return b""
    spans = pl.DataFrame({"span": np.arange(len(piece.counter), dtype=np.int32)})
    keys = _json_texts(piece.arguments.keys).gather(piece.arguments.key)
    value = pl.Series([None] * len(piece.arguments.key), dtype=pl.String)
    for kind, dtype in _NUMBER_TYPES.items():
        rows = np.flatnonzero(piece.arguments.kind == kind)
        if len(rows):
            value = value.scatter(
                rows, _number_texts(piece.arguments.value[rows].view(dtype))
            )
    rows = np.flatnonzero(piece.arguments.kind == TEXT)
    if len(rows):
        value = value.scatter(
            rows, _json_texts(piece.arguments.texts).gather(piece.arguments.value[rows])
        )
    pairs = pl.DataFrame(
        {
            "span": piece.arguments.span,
            "kind": piece.arguments.kind,
            "pair": (keys + ":" + value),
        }
    )
    if piece.counter.any():
        numeric = pl.col("kind") != TEXT
        pairs = pairs.filter(numeric | ~pl.Series(piece.counter[piece.arguments.span]))
    args = pairs.group_by("span", maintain_order=True).agg(pl.col("pair").str.join(","))
    frame = pl.DataFrame(
        {
            "process": piece.process,
            "thread": piece.thread,
            "start_ps": piece.start_ps,
            "dur_ps": piece.dur_ps,
            "counter": piece.counter,
            "name": names.gather(piece.name),
            "category": categories.gather(
                pl.Series(piece.category).replace(-1, None).cast(pl.UInt32)
            ),
            "args": spans.join(args, on="span", how="left", maintain_order="left")[
                "pair"
            ],
        }
    )
    wanted = frame if piece.kept is None else frame.filter(pl.Series(piece.kept))
    text = wanted.select(_event_line()).to_series().str.join(",\n").item()
    flows = [
        _flow_lines(frame, *piece.leaves, start='{"ph":"s",'),
        _flow_lines(frame, *piece.arrives, start='{"ph":"f","bp":"e",'),
    ]
    return ",\n".join([text, *(flow for flow in flows if flow)]).encode()


def _event_line() -> pl.Expr:
    """Write an event: a counter sample, a slice, or an instant without length."""
    phase = (
        pl.when(pl.col("counter") & pl.col("args").is_not_null())
        .then(pl.lit('{"ph":"C","pid":'))
        .when(pl.col("dur_ps") > 0)
        .then(pl.lit('{"ph":"X","pid":'))
        .otherwise(pl.lit('{"ph":"i","s":"t","pid":'))
    )
    slice_ = ~pl.col("counter") & (pl.col("dur_ps") > 0)
    return pl.concat_str(
        phase,
        pl.col("process").cast(pl.String),
        pl.lit(',"tid":'),
        pl.col("thread").cast(pl.String),
        pl.lit(',"ts":'),
        _microseconds_text("start_ps"),
        pl.when(slice_)
        .then(pl.concat_str(pl.lit(',"dur":'), _microseconds_text("dur_ps")))
        .otherwise(pl.lit("")),
        pl.lit(',"name":'),
        pl.col("name"),
        pl.when(pl.col("category").is_not_null())
        .then(pl.concat_str(pl.lit(',"cat":'), "category"))
        .otherwise(pl.lit("")),
        pl.when(pl.col("args").is_not_null())
        .then(pl.concat_str(pl.lit(',"args":{'), "args", pl.lit("}")))
        .otherwise(pl.lit("")),
        pl.lit("}"),
    )


def _microseconds_text(column: str) -> pl.Expr:
    size = pl.col(column).abs()
    return pl.concat_str(
        pl.when(pl.col(column) < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // _PS_PER_US).cast(pl.String),
        pl.lit("."),
        (size % _PS_PER_US).cast(pl.String).str.zfill(_DIGITS),
    )


def _flow_lines(frame: pl.DataFrame, rows: Int64s, number: Int64s, start: str) -> str:
    """Write one end of each arrow; viewers attach it to the slice that starts there."""
    if not len(rows):
        return ""
    ends = frame.select("process", "thread", "start_ps")[rows].with_columns(
        number=pl.Series(number)
    )
    lines = ends.select(
        pl.concat_str(
            pl.lit(f'{start}{_FLOW},"id":'),
            pl.col("number").cast(pl.String),
            pl.lit(',"pid":'),
            pl.col("process").cast(pl.String),
            pl.lit(',"tid":'),
            pl.col("thread").cast(pl.String),
            pl.lit(',"ts":'),
            _microseconds_text("start_ps"),
            pl.lit("}"),
        )
    )
    joined: str = lines.to_series().str.join(",\n").item()
    return joined


def _number_texts(numbers: NDArray[Any]) -> pl.Series:
    """Write numbers as digits, in quotation marks if JSON cannot represent them.

    JSON cannot represent NaN, infinity, and integers that readers would round.
    """
    text = pl.Series(numbers).cast(pl.String)
    if numbers.dtype.kind == "f":
        exact = np.isfinite(numbers)
    else:
        exact = numbers <= EXACT_INTEGER
        if numbers.dtype.kind == "i":
            exact &= numbers >= -EXACT_INTEGER
    return text.zip_with(pl.Series(exact), '"' + text + '"')


def _json_texts(texts: Iterable[str | None]) -> pl.Series:
    return pl.Series(
        [msgspec.json.encode(text or "").decode() for text in texts], dtype=pl.String
    )


def _metadata_events(hosts: Sequence[HostTrace]) -> Iterable[bytes]:
    order = 0
    for host in hosts:
        rows = host.timeline.sections.iter_rows(named=True)
        for process, section in zip(host.process.tolist(), rows, strict=True):
            labels = [section["label"]] if section["label"] else []
            if section["process"] is not None:
                labels.append(f"pid {section['process']}")
            about: dict[str, dict[str, str | int]] = {
                "process_name": {"name": f"{host.host} {section['name']}"},
                "process_sort_index": {"sort_index": order},
            }
            if labels:
                about["process_labels"] = {"labels": ", ".join(labels)}
            for what, args in about.items():
                yield _metadata_event(what, process, 0, args)
            order += 1
        for row in host.threads.iter_rows(named=True):
            place = row["process"], row["thread"]
            yield _metadata_event("thread_name", *place, {"name": row["name"]})
            yield _metadata_event(
                "thread_sort_index", *place, {"sort_index": row["order"]}
            )


def _metadata_event(
    what: str, process: int, thread: int, args: dict[str, str | int]
) -> bytes:
    return msgspec.json.encode(
        {"ph": "M", "pid": process, "tid": thread, "name": what, "args": args}
    )


#: Columns of slices that are sent as 64-bit floats, JavaScript's only number type.
#: Integers are exact up to 2^53.
_REALS: Final = pl.col("start_ps", "end_ps", "busy_ps", "count", "item", "first").cast(
    pl.Float64
)


class TraceFrame(NamedTuple):
    """The columns of a frame in the types that are sent, and entries of its header."""

    columns: pl.DataFrame
    meta: dict[str, Plain]


def slice_frame(tile: Tiles) -> TraceFrame:
    """Return the frame of one tile of some tracks."""
    return TraceFrame(
        tile.slices.with_columns(_REALS),
        {
            "kind": "slices",
            "host": tile.host,
            "tracks": list(tile.tracks),
            **_window_members(tile.begin_ps, tile.end_ps),
            "bucket_ps": plain(tile.bucket_ps),
            "categories": plain(tile.categories),
        },
    )


def counter_frame(tile: CounterTile) -> TraceFrame:
    """Return the frame of some counters in a time range."""
    return TraceFrame(
        tile.samples.with_columns(pl.col("start_ps", "count").cast(pl.Float64)),
        {
            "kind": "counters",
            "host": tile.host,
            "tracks": [
                {"track": track, "name": name, "unit": unit}
                for track, name, unit in tile.curves
            ],
            **_window_members(tile.begin_ps, tile.end_ps),
            "bucket_ps": plain(tile.bucket_ps),
        },
    )


def _window_members(begin_ps: int, end_ps: int) -> dict[str, Plain]:
    return {"begin_ps": plain(begin_ps), "end_ps": plain(end_ps)}
