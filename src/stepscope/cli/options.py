"""Options of the command line, made from the Struct that holds what they say.

The field of an option has its type and its default; what only the command line needs is
beside the type, an `Option` or an `Argument`.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
)

import click
import msgspec

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


class _GivenPath(click.Path):
    """A path that names something: what is empty would be the working directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not value:
            self.fail("An empty path names nothing.", param, ctx)
        return super().convert(value, param, ctx)


#: The type of each argument and option that is a path.
GIVEN_PATH: Final = _GivenPath(path_type=str)
#: The type of each one that is a file to read at once.
EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=str)


class Argument(NamedTuple):
    """A word of the command line that has no name.

    Attributes:
        metavar: What stands for it in the help.
        type: What checks it.
        required: Whether it must be given; several must be given once.
    """

    metavar: str
    type: click.ParamType[Any] | None = None
    required: bool = True


class Option(NamedTuple):
    """An option of the command line.

    Attributes:
        help: What it does, a sentence.
        metavar: What stands for its value in the help.
        flags: How it is called; as its field where empty.
        type: What checks it, where the type of the field does not.
        default: What the help says of the default, where that is not its value.
        envvar: The environment variable that gives it, too.
        flag_value: Its value where it is given without one.
    """

    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    type: click.ParamType[Any] | None = None
    default: str | None = None
    envvar: str | None = None
    flag_value: str | None = None


def declared_parameters(request: type[msgspec.Struct]) -> Iterator[click.Parameter]:
    """Yield the options and arguments that a Struct declares, in its order."""
    for field in msgspec.structs.fields(request):
        kind, *beside = get_args(field.type)
        for declared in beside:
            if isinstance(declared, Option):
                yield _make_option(field, kind, declared)
            elif isinstance(declared, Argument):
                several = get_origin(kind) is tuple
                yield click.Argument(
                    [field.name],
                    metavar=declared.metavar,
                    type=declared.type,
                    nargs=-1 if several else 1,
                    required=declared.required,
                )


def _make_option(
    field: msgspec.structs.FieldInfo, kind: object, declared: Option
) -> click.Option:
    flags = declared.flags or (f"--{field.name.replace('_', '-')}",)
    if kind is bool:
        return click.Option([*flags, field.name], is_flag=True, help=declared.help)
    shown = declared.default
    optional: dict[str, Any] = {}
    if declared.flag_value is not None:
        optional = {"is_flag": False, "flag_value": declared.flag_value}
    several = get_origin(kind) is tuple
    return click.Option(
        [*flags, field.name],
        type=declared.type or _value_type(kind),
        default=None if several else field.default,
        multiple=several,
        metavar=declared.metavar,
        help=declared.help,
        show_default=field.default is not None if shown is None else shown,
        envvar=declared.envvar,
        **optional,
    )


def _value_type(kind: object) -> click.ParamType[Any] | type:
    """Return the type of one value."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return click.Choice(list(get_args(kind)))
    return cast("type", kind)
