"""Options of the command line, derived from the Struct that holds their values.

The Struct's field defines the type and the default of an option. All other properties
are a row in `options.json`, for one command or for `any` command.
"""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

import click
import msgspec

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


class _GivenPath(click.Path):
    """A path that must not be empty: an empty path would be the working directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not value:
            self.fail("An empty path names nothing.", param, ctx)
        return super().convert(value, param, ctx)


class _Declared(Frozen, frozen=True, forbid_unknown_fields=True):
    """Properties of a field on the command line.

    Attributes:
        help: What an option does, as a sentence.
        argument: Placeholder of an argument in the help; None for an option.
        required: Whether an argument is required; a list needs at least one.
        flags: Names of an option; if empty, the name of the field.
        value: Placeholder of the value in the help.
        takes: Check of the value, if the field's type does not imply it.
        default: Default as shown in the help, if it is not the field's default.
        variable: Environment variable that can also set the option.
        alone: Value of the option if it is given without a value.
    """

    help: str = ""
    argument: str | None = None
    required: bool = True
    flags: tuple[str, ...] = ()
    value: str | None = None
    takes: Literal["path", "file", "word"] | tuple[int, int | None] | None = None
    default: str | None = None
    variable: str | None = None
    alone: str | None = None

    def value_type(self) -> click.ParamType[Any] | None:
        """Return the type that checks a value; None if the field's type is enough."""
        if isinstance(self.takes, tuple):
            return click.IntRange(*self.takes)
        if self.takes == "path":
            return _GivenPath(path_type=str)
        if self.takes == "file":
            return click.Path(exists=True, dir_okay=False, path_type=str)
        return None if self.takes is None else click.UNPROCESSED


def declared_parameters(
    command: str, request: type[msgspec.Struct]
) -> Iterator[click.Parameter]:
    """Yield the options and arguments of a command, in the order of its fields."""
    rows = msgspec.json.decode(
        Path(__file__).with_name("options.json").read_bytes(),
        type=dict[str, dict[str, _Declared]],
    )
    declared_by_field = rows["any"] | rows.get(command, {})
    for field in msgspec.structs.fields(request):
        declared = declared_by_field.get(field.name)
        if declared is not None and declared.argument is not None:
            yield click.Argument(
                [field.name],
                metavar=declared.argument,
                type=declared.value_type(),
                nargs=-1 if get_origin(field.type) is tuple else 1,
                required=declared.required,
            )
        elif declared is not None:
            yield _make_option(field, declared)


def _make_option(field: msgspec.structs.FieldInfo, declared: _Declared) -> click.Option:
    flags = declared.flags or (f"--{field.name.replace('_', '-')}",)
    kind = field.type
    if kind is bool:
        return click.Option([*flags, field.name], is_flag=True, help=declared.help)
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        (kind,) = (member for member in get_args(kind) if member is not NoneType)
    several = get_origin(kind) is tuple
    if several:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        kind = click.Choice(list(get_args(kind)))
    shown = declared.default
    optional: dict[str, Any] = {}
    if declared.alone is not None:
        optional = {"is_flag": False, "flag_value": declared.alone}
    return click.Option(
        [*flags, field.name],
        type=declared.value_type() or cast("type", kind),
        default=None if several else field.default,
        multiple=several,
        metavar=declared.value,
        help=declared.help,
        show_default=field.default is not None if shown is None else shown,
        envvar=declared.variable,
        **optional,
    )
