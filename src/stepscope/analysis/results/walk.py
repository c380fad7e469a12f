"""One walk over a result: through structs and dicts, down to tables and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Row: TypeAlias = "msgspec.Struct | dict[str, object]"


def struct_fields(value: object) -> Mapping[str, object] | None:
    """Return the fields of a struct or a dict; None for any other value."""
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return value if isinstance(value, dict) else None


def walk_fields(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield tables, lists and single values, each with the dotted path of its field."""
    fields = struct_fields(value)
    if fields is None:
        yield path, value
        return
    for name, member in fields.items():
        yield from walk_fields(member, f"{path}.{name}" if path else str(name))


def with_changed_leaves(
    value: object, change: Callable[[str, object], object], path: str = ""
) -> object:
    """Return a copy with each leaf of `walk_fields` replaced by `change(path, leaf)`.

    A struct or dict without a changed leaf is returned as the same object.
    """
    fields = struct_fields(value)
    if fields is None:
        return change(path, value)
    changed: dict[str, object] = {}
    for name, member in fields.items():
        below = f"{path}.{name}" if path else str(name)
        new = with_changed_leaves(member, change, below)
        if new is not member:
            changed[name] = new
    if not changed:
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changed)
    return {**fields, **changed}


def is_rows(value: object) -> TypeGuard[Sequence[Row]]:
    """Return whether a leaf is a non-empty list of structs or dicts."""
    return (
        isinstance(value, tuple | list)
        and len(value) > 0
        and all(isinstance(row, msgspec.Struct | dict) for row in value)
    )
