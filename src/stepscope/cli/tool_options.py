"""Options of `show` that tools declare in Structs, merged by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click
from msgspec import inspect

from stepscope.analysis.options import OPTIONS
from stepscope.analysis.results.tool import field_sentences
from stepscope.cli.options import word_completer

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Options that the command line replaces by `--host`, for every tool.
_HOSTS: Final = frozenset({"host", "hosts"})


class _Value(NamedTuple):
    """Type of an option's value.

    Attributes:
        kind: Type of one value.
        title: Placeholder of the value in the help.
        words: Allowed values; empty if all values of the type are allowed.
        several: Whether the option takes a list.
        by_commas: Whether commas may separate the members of the list.
    """

    kind: type
    title: str
    words: tuple[str, ...] = ()
    several: bool = False
    by_commas: bool = False


def _declared_fields() -> dict[str, dict[str, inspect.Field]]:
    """Return a mapping from option to the tools that have it, with their fields."""
    declared: dict[str, dict[str, inspect.Field]] = {}
    for tool, options in OPTIONS.items():
        for field in cast("inspect.StructType", inspect.type_info(options)).fields:
            if field.name not in _HOSTS:
                declared.setdefault(field.name, {})[tool] = field
    return declared


def _option_value(kind: inspect.Type) -> _Value:
    if isinstance(kind, inspect.UnionType):
        (inner,) = (
            member for member in kind.types if not isinstance(member, inspect.NoneType)
        )
        return _option_value(inner)
    if isinstance(kind, inspect.Metadata):
        title = (kind.extra_json_schema or {}).get("title")
        plain = _option_value(kind.type)
        return plain._replace(title=title) if title else plain
    if isinstance(kind, inspect.VarTupleType):
        item = kind.item_type
        extra = item.extra if isinstance(item, inspect.Metadata) else None
        commas = not (extra or {}).get("holds_commas", False)
        return _option_value(item)._replace(several=True, by_commas=commas)
    if isinstance(kind, inspect.LiteralType):
        return _Value(str, "WORD", words=tuple(map(str, kind.values)))
    return _SIMPLE_VALUES[type(kind)]


_SIMPLE_VALUES: Final[dict[type[inspect.Type], _Value]] = {
    inspect.BoolType: _Value(bool, ""),
    inspect.IntType: _Value(int, "N"),
    inspect.FloatType: _Value(float, "NUMBER"),
    inspect.StrType: _Value(str, "TEXT"),
}


def tool_options() -> Iterator[click.Option]:
    """Yield every option of every tool; options have no defaults."""
    for name, fields in _declared_fields().items():
        value = _option_value(next(iter(fields.values())).type)
        settings: dict[str, Any] = {"is_flag": True, "default": None}
        if value.kind is not bool:
            title = f"{value.title},…" if value.by_commas else value.title
            settings = {"type": value.kind, "multiple": value.several, "metavar": title}
            if value.words:
                settings["shell_complete"] = word_completer(value.words)
        flag, text = f"--{name.replace('_', '-')}", _option_help(name, fields, value)
        yield click.Option([flag], help=text, **settings)


def _option_help(name: str, fields: dict[str, inspect.Field], value: _Value) -> str:
    """Return the help of an option; a sentence of several tools appears once."""
    sentences: dict[str, list[str]] = {}
    for tool, field in fields.items():
        sentence = field_sentences(OPTIONS[tool]).get(name, "").replace("`", "")
        if value.words:
            sentence += f" One of {', '.join(value.words)}."
        if value.several and not value.by_commas:
            sentence += " May be repeated."
        if field.default not in (None, "", (), False):
            sentence += f" By default {field.default}."
        sentences.setdefault(sentence, []).append(tool)
    return " ".join(
        f"{', '.join(tools)}: {sentence}" for sentence, tools in sentences.items()
    )


def chosen_options(options: dict[str, Any]) -> dict[str, object]:
    """Return the options that were given, in the form that tools take."""
    declared = _declared_fields()
    chosen: dict[str, object] = {}
    for name, value in options.items():
        if value is None or value == ():
            continue
        takes = _option_value(next(iter(declared[name].values())).type)
        chosen[name] = value
        if takes.by_commas:
            names = [word for text in value for word in text.split(",")]
            chosen[name] = tuple(word for word in names if word)
    return chosen
