"""The parameters of one request: read by name; an unknown one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, get_args, get_origin

import msgspec

from stepscope.serve.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from werkzeug.datastructures import MultiDict

    from stepscope.analysis.results.tool import Tool

#: No time of a trace lies farther from its start, in picoseconds.
FARTHEST: Final = 2**62

#: Largest number of characters in a name or value; no sensible request has more.
_LONGEST: Final = 4096
_MOST: Final = 256
#: Largest integer that every reader of JSON takes exactly.
_EXACT: Final = 2**53
#: Options of tools that are no parameters: `hosts` chooses hosts for every tool.
HIDDEN_OPTIONS: Final = frozenset({"host", "hosts"})

Value = TypeVar("Value", int, bool)


class Parameters:
    """The parameters in the query of an address."""

    def __init__(self, given: MultiDict[str, str]) -> None:
        self._given = {name: given.getlist(name) for name in given}
        if sum(map(len, self._given.values())) > _MOST:
            raise _bad(f"there are more than {_MOST} parameters")
        for name, values in self._given.items():
            if len(name) > _LONGEST or any(len(one) > _LONGEST for one in values):
                raise _bad(f"{name[:32]!r}: is longer than {_LONGEST} characters")

    def text(self, name: str) -> str | None:
        """Read one text; None where it is not given."""
        values = self._given.pop(name, [])
        if len(values) > 1:
            raise _bad(f"{name}: is given more than once")
        return values[0] if values else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Read all texts of a name: sorted, each once."""
        return tuple(sorted(set(self._given.pop(name, []))))

    def number(self, name: str, *, default: int, most: int) -> int:
        """Read a whole number, limited to 0 to `most`."""
        return min(max(self._converted(name, int, default), 0), most)

    def integer(self, name: str, default: int | None = None) -> int:
        """Read a whole number, which may be negative; required without a default.

        Numbers beyond every time of a trace are brought to the last one.
        """
        return _near(self._converted(name, int, _needed(self._given, name, default)))

    def integers(self, name: str) -> tuple[int, ...]:
        """Read all whole numbers of a name, in the order in which they are given."""
        given = self._given.pop(name, [])
        return tuple(_near(_read(name, one, int)) for one in given)

    def flag(self, name: str) -> bool:
        """Read yes (`true`, `1`) or no (`false`, `0`); no where it is not given."""
        return self._converted(name, bool, default=False)

    def whole(self, name: str) -> int | None:
        """Read a whole number from 0 on, up to what is exact in JSON; None for none."""
        if name not in self._given:
            return None
        found = self._converted(name, int, default=0)
        if not 0 <= found <= _EXACT:
            raise _bad(f"{name}: is not between 0 and {_EXACT}")
        return found

    def options(self, tool: Tool) -> dict[str, object]:
        """Read the tool's own options, as it declares them."""
        told: dict[str, object] = {}
        for field in msgspec.structs.fields(tool.options):
            if field.name in self._given and field.name not in HIDDEN_OPTIONS:
                values = self._given.pop(field.name)
                # A list is given by repeating its name.
                told[field.name] = (
                    values
                    if _takes_several(field.type)
                    else self._alone(field.name, values)
                )
        try:
            chosen = msgspec.convert(told, tool.options, strict=False)
        except msgspec.ValidationError as error:
            raise _bad(f"{tool.name}: {error}") from error
        return {name: getattr(chosen, name) for name in told}

    def end(self) -> None:
        """Check that every given parameter was read.

        Raises:
            Refused: A parameter was not read: there is none of that name.
        """
        if self._given:
            raise _bad(f"there is no parameter {next(iter(self._given))!r} here")

    def _converted(self, name: str, kind: type[Value], default: Value) -> Value:
        text = self.text(name)
        return default if text is None else _read(name, text, kind)

    def _alone(self, name: str, values: list[str]) -> str:
        if len(values) > 1:
            raise _bad(f"{name}: is given more than once")
        return values[0]


def _read(name: str, text: str, kind: type[Value]) -> Value:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        wanted = "a whole number" if kind is int else "true or false"
        raise _bad(f"{name}: is not {wanted}") from error


def _needed(given: Mapping[str, object], name: str, default: int | None) -> int:
    if name not in given and default is None:
        raise _bad(f"{name}: is missing")
    return default or 0


def _near(number: int) -> int:
    return min(max(number, -FARTHEST), FARTHEST)


def _takes_several(annotation: object) -> bool:
    """Return whether an option is a list, or a list or None."""
    return any(
        get_origin(part) is tuple for part in (annotation, *get_args(annotation))
    )


def _bad(message: str) -> Refused:
    return Refused(400, "bad_parameter", message)
