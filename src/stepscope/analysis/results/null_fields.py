"""Nulls deep inside a result: where they are, and an entry for each that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["NOT_RECORDED", "null_paths", "with_every_null"]

#: Reason of a null for which no better one is known.
NOT_RECORDED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="This capture does not hold it.",
    remedy="Nothing to do, unless a tracer of the framework writes this.",
)


def null_paths(value: object, path: str = "") -> Iterator[str]:
    """Yield dotted names of the nulls of a result; members of a list share one."""
    if value is None:
        yield path
    for name, inner in _inside(value):
        # Nearly all that there is inside of anything is a number or a text.
        if not isinstance(inner, float | int | str):
            yield from null_paths(inner, f"{path}.{name}".strip("."))


def _inside(value: object) -> Iterable[tuple[str, object]]:
    """Return the parts of a value by name; members of a list have no name."""
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, tuple | list):
        return [("", inner) for inner in value]
    return ()


def with_every_null(
    parts: Iterable[tuple[str, object]],
    missing: Sequence[Missing],
    *,
    repeats: Sequence[str] = (),
) -> tuple[Missing, ...]:
    """Add an entry for each null that none of the entries given explains.

    An entry explains its field and everything inside it.

    Args:
        parts: Fields of a result with their values.
        missing: The entries there are.
        repeats: Prefixes of fields that repeat the fields of the result, whose
            entries explain them too (`by_host.summary` for `by_host.summary.x`).
    """
    known = {one.field: one for one in missing}
    found = list({(one.field, one.code): one for one in missing}.values())
    paths = dict.fromkeys(
        path for name, value in parts for path in null_paths(value, name)
    )
    for path in paths:
        if _explanation(path, known) is None:
            entry = _repeated(path, known, repeats) or NOT_RECORDED.for_field(path)
            known[entry.field] = entry
            found.append(entry)
    return tuple(found)


def _repeated(
    path: str, known: dict[str, Missing], repeats: Sequence[str]
) -> Missing | None:
    """Return the entry of the field that this one repeats, under this one's name."""
    for prefix in repeats:
        if not path.startswith(f"{prefix}."):
            continue
        why = _explanation(path.removeprefix(f"{prefix}."), known)
        if why is not None:
            return msgspec.structs.replace(why, field=f"{prefix}.{why.field}")
    return None


def _explanation(path: str, known: dict[str, Missing]) -> Missing | None:
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        entry = known.get(".".join(parts[:count]))
        if entry is not None:
            return entry
    return None
