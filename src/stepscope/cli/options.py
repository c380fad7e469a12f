"""Options of the command line, derived from the Struct that holds their values.

The Struct's field defines the type and the default of an option. All other properties
are a row in `options.json`, for one command or for `any` command. This module also has
`stepscope completion` and the words that it offers; the shell's script starts stepscope
for each word, so nothing is imported here that reads profiles.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

import click
import msgspec
from click.shell_completion import CompletionItem, get_completion_class

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepscope.cli.requests import CompletionRequest

Items: TypeAlias = "list[CompletionItem[Any]]"
#: Function that returns the words for a parameter that begin with a text.
Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], Items]"
#: Environment variable in which the script asks for words; Click derives its name.
_VARIABLE: Final = "_STEPSCOPE_COMPLETE"
_COMPILED_TEXTS: Final = Path(__file__).parents[1] / "advice" / "compiled_texts.json"


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
        completes: What the shell completes, if the type or `value` does not imply it.
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
    completes: Literal["file", "rule", "run", "tool"] | None = None

    def value_type(self, kind: object) -> click.ParamType[Any] | None:
        """Return the type that checks a value; None if the field's type is enough."""
        if get_origin(kind) is Literal:
            return click.Choice(list(get_args(kind)))
        if isinstance(self.takes, tuple):
            return click.IntRange(*self.takes)
        if self.takes == "path":
            return _GivenPath(path_type=str)
        if self.takes == "file":
            return click.Path(exists=True, dir_okay=False, path_type=str)
        return None if self.takes is None else click.UNPROCESSED

    def value_completer(self) -> Completer | None:
        """Return what completes a value; None if its type does."""
        if self.completes is not None:
            return _make_completer(_COMPLETERS[self.completes])
        words = (self.value or "").split("|")
        return word_completer(words) if len(words) > 1 else None


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
                type=declared.value_type(field.type),
                nargs=-1 if get_origin(field.type) is tuple else 1,
                required=declared.required,
                shell_complete=declared.value_completer(),
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
    shown = declared.default
    optional: dict[str, Any] = {}
    if declared.alone is not None:
        optional = {"is_flag": False, "flag_value": declared.alone}
    return click.Option(
        [*flags, field.name],
        type=declared.value_type(kind) or cast("type", kind),
        default=None if several else field.default,
        multiple=several,
        metavar=declared.value,
        help=declared.help,
        show_default=field.default is not None if shown is None else shown,
        envvar=declared.variable,
        shell_complete=declared.value_completer(),
        **optional,
    )


class _Title(msgspec.Struct):
    title: str


class _Titles(msgspec.Struct):
    rules: dict[str, _Title]


def print_completion_script(request: CompletionRequest) -> int:
    """Print the script with which a shell completes stepscope's command line."""
    root = click.get_current_context().find_root().command
    script = get_completion_class(request.shell)(root, {}, "stepscope", _VARIABLE)
    click.echo(script.source(), nl=False)
    return 0


def word_completer(words: Iterable[str]) -> Completer:
    """Return a function that completes some words."""
    return _make_completer(
        lambda begun: [CompletionItem(word) for word in words if word.startswith(begun)]
    )


def _make_completer(complete: Callable[[str], Items]) -> Completer:
    """Return a function for Click; what follows `--` is a program and its files."""
    return lambda context, _parameter, begun: (
        complete_file(begun) if "program" in context.params else complete(begun)
    )


def complete_file(begun: str) -> Items:
    """Let the shell complete the path of a file."""
    return [CompletionItem(begun, type="file")]


def complete_rule(begun: str) -> Items:
    """Complete the id of a rule, with its title."""
    titles: dict[str, _Title] = {}
    # A checkout has no compiled texts before its first report.
    with contextlib.suppress(OSError):
        compiled = _COMPILED_TEXTS.read_bytes()
        titles = msgspec.json.decode(compiled, type=_Titles).rules
    return [
        CompletionItem(rule, help=text.title)
        for rule, text in titles.items()
        if rule.startswith(begun)
    ]


def complete_run(begun: str) -> Items:
    """Complete a log directory by its runs, newest first, and other paths by files."""
    from stepscope.rundir import run_directory  # noqa: PLC0415 - needed only here

    names: list[str] = []
    if begun.endswith("/"):
        folder = run_directory(Path(begun), "")
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            names = sorted((entry.name for entry in entries), reverse=True)
    runs = [CompletionItem(str(run_directory(Path(begun), name))) for name in names]
    return runs or complete_file(begun)


def complete_tool(begun: str) -> Items:
    """Complete the name of a tool."""
    from stepscope.analysis.options import OPTIONS  # noqa: PLC0415 - needed only for `show`

    return [CompletionItem(name) for name in OPTIONS if name.startswith(begun)]


#: What `completes` names in `options.json`.
_COMPLETERS: Final[dict[str, Callable[[str], Items]]] = {
    "file": complete_file,
    "rule": complete_rule,
    "run": complete_run,
    "tool": complete_tool,
}
