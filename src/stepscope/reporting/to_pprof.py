"""A view of the model as a pprof profile: gzipped `profile.proto`.

Field numbers are those of `perftools.profiles.Profile` in pprof's `profile.proto`.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage
from stepscope.patterns import Pattern
from stepscope.xspace.writing.encode import encode_varint, number_field, sized_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

_SIZED: Final = 2
#: Names of nodes as `file.py:12 function` and `file.py:12`.
_LINE: Final = Pattern(r"(?P<file>\S.*?):(?P<line>\d+)(?: (?P<function>.+))?")
#: Columns of a view that a pprof profile needs.
_NEEDED: Final = ("self_us", "total_us")


class _Texts:
    """The string table of a pprof profile; entry 0 is the empty text."""

    def __init__(self) -> None:
        self._number = {"": 0}

    def number(self, text: str) -> int:
        return self._number.setdefault(text, len(self._number))

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)


def render(rows: pl.DataFrame, *, view: str, comments: Sequence[str] = ()) -> bytes:
    """Write one sample per node with self time; its stack consists of its parent nodes.

    Sample types are `time/microseconds` and, if any node has FLOPs, `flops/count`.
    pprof has no unknown values: a node with unknown FLOPs counts 0, and a comment in
    the profile says so. Times are rounded such that their sum is kept.

    Args:
        rows: Rows of a view, depth first.
        view: Name of the view. In `scope` names are paths, whose last part becomes the
            location.
        comments: Texts to put into the profile.

    Raises:
        BadUsage: The rows lack the columns of times, because other columns were
            selected.
    """
    if not set(_NEEDED) <= set(rows.columns):
        raise BadUsage("pprof needs times: also select micros")
    counted = "self_flops" in rows.columns and rows["self_flops"].count() > 0
    texts = _Texts()
    body = _value_type(texts, "time", "microseconds")
    if counted:
        body += _value_type(texts, "flops", "count")
    flops = rows["self_flops"].to_list() if counted else [None] * len(rows)
    locations: dict[str, int] = {}
    stacks: dict[int, tuple[int, ...]] = {}
    exact = spent = 0.0
    notes = list(comments)
    if counted and None in flops:
        notes.append("flops of some nodes are unknown and count as 0")
    names = rows["name"].to_list()
    parents = rows["parent"].to_list()
    for row, (number, own) in enumerate(zip(rows["id"], rows["self_us"], strict=True)):
        above = parents[row]
        label = names[row]
        if view == "scope" and above is not None:
            label = label.removeprefix(f"{names[above]}/")
        location = locations.setdefault(label, len(locations) + 1)
        stacks[number] = (location, *(stacks[above] if above is not None else ()))
        exact += own
        micros = round(exact) - round(spent)
        spent += micros
        values = [micros, flops[row] or 0] if counted else [micros]
        if own or any(values):
            # pprof lists the innermost location first.
            packed = (
                b"".join(map(encode_varint, part)) for part in (stacks[number], values)
            )
            body += _sized_field(2, b"".join(map(_sized_field, (1, 2), packed)))
    for label, number in locations.items():
        place = _LINE.fullmatch(label)
        line = _number_field(1, number)
        function = line + _number_field(2, texts.number(label))
        if place is not None:
            line += _number_field(2, int(place["line"]))
            function += _number_field(4, texts.number(place["file"]))
        body += _sized_field(
            4, _number_field(1, number) + _sized_field(4, line)
        ) + _sized_field(5, function)
    body += b"".join(_number_field(13, texts.number(note)) for note in notes)
    body += _number_field(14, texts.number("time"))
    body += b"".join(_sized_field(6, text.encode()) for text in texts)
    # The gzip header has time 0, so that equal profiles give equal files.
    return gzip.compress(body, mtime=0)


def _number_field(field: int, value: int) -> bytes:
    return number_field(field << 3, value)


def _sized_field(field: int, content: bytes) -> bytes:
    return sized_field(field << 3 | _SIZED, content)


def _value_type(texts: _Texts, kind: str, unit: str) -> bytes:
    return _sized_field(
        1, _number_field(1, texts.number(kind)) + _number_field(2, texts.number(unit))
    )
