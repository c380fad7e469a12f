"""A view of the model as a pprof profile: gzipped `profile.proto`.

Field numbers are those of `perftools.profiles.Profile` in pprof's `profile.proto`.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage
from stepscope.patterns import Pattern
from stepscope.xspace.writing.encode import number_field, sized_field, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

_NUMBER: Final = 0
_SIZED: Final = 2
#: `file.py:12 function` and `file.py:12`.
_LINE: Final = Pattern(r"(?P<file>\S.*?):(?P<line>\d+)(?: (?P<function>.+))?")
#: Columns of a view that a pprof profile needs.
_NEEDED: Final = ("self_us", "total_us")


class _Texts:
    """The table of texts; the empty one comes first."""

    def __init__(self) -> None:
        self._number = {"": 0}

    def number(self, text: str) -> int:
        return self._number.setdefault(text, len(self._number))

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)


def render(rows: pl.DataFrame, *, view: str, comments: Sequence[str] = ()) -> bytes:
    """Write one sample per node with time of its own, and the nodes above it.

    Sample types are `time/microseconds` and, where any node has operations,
    `flops/count`. pprof has no unknown values: a node whose operations are not known
    counts none, which the profile's comments say. Times are rounded so that their sum
    is kept.

    Args:
        rows: Rows of a view, depth first.
        view: Name of the view; names in `scope` are paths, whose last part becomes the
            location.
        comments: Texts to put into the profile.

    Raises:
        BadUsage: The rows have no times, because other columns were selected.
    """
    if not set(_NEEDED) <= set(rows.columns):
        message = "pprof needs times: select micros as well"
        raise BadUsage(message)
    counted = "self_flops" in rows.columns and rows["self_flops"].count() > 0
    texts = _Texts()
    body = _value_type(texts, 1, "time", "microseconds")
    if counted:
        body += _value_type(texts, 1, "flops", "count")
    flops = rows["self_flops"].to_list() if counted else [None] * len(rows)
    locations: dict[str, int] = {}
    stacks: dict[int, tuple[int, ...]] = {}
    exact = spent = 0.0
    notes = list(comments)
    if counted and None in flops:
        notes.append("flops of some nodes are not known and count 0")
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
            body += _sample(stacks[number], values)
    for label, number in locations.items():
        body += _location(number, label) + _function(texts, number, label)
    body += b"".join(
        number_field(_tag(13, _NUMBER), texts.number(note)) for note in notes
    )
    body += number_field(_tag(14, _NUMBER), texts.number("time"))
    body += b"".join(sized_field(_tag(6, _SIZED), one.encode()) for one in texts)
    # Without a time of its own, equal profiles are equal files.
    return gzip.compress(body, mtime=0)


def _tag(field: int, wire: int) -> int:
    return field << 3 | wire


def _value_type(texts: _Texts, field: int, kind: str, unit: str) -> bytes:
    body = number_field(_tag(1, _NUMBER), texts.number(kind))
    body += number_field(_tag(2, _NUMBER), texts.number(unit))
    return sized_field(_tag(field, _SIZED), body)


def _sample(stack: Sequence[int], values: Sequence[int]) -> bytes:
    """The innermost location comes first."""
    body = sized_field(_tag(1, _SIZED), b"".join(map(varint, stack)))
    body += sized_field(_tag(2, _SIZED), b"".join(map(varint, values)))
    return sized_field(_tag(2, _SIZED), body)


def _location(number: int, label: str) -> bytes:
    found = _LINE.fullmatch(label)
    line = number_field(_tag(1, _NUMBER), number)
    if found is not None:
        line += number_field(_tag(2, _NUMBER), int(found["line"]))
    body = number_field(_tag(1, _NUMBER), number) + sized_field(_tag(4, _SIZED), line)
    return sized_field(_tag(4, _SIZED), body)


def _function(texts: _Texts, number: int, label: str) -> bytes:
    found = _LINE.fullmatch(label)
    body = number_field(_tag(1, _NUMBER), number)
    body += number_field(_tag(2, _NUMBER), texts.number(label))
    if found is not None:
        body += number_field(_tag(4, _NUMBER), texts.number(found["file"]))
    return sized_field(_tag(5, _SIZED), body)
