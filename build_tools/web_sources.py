"""Write the sources of the page that are made from Python's declarations.

    python build_tools/web_sources.py

Types and definitions come from the structs of what the server answers, short names from
the tools, links of findings from the rules, colours and legends from the one colour
table, kinds in words from the report's: the page repeats nothing by hand. A test checks
that they agree.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import msgspec
import polars as pl

from stepscope.advice.catalogue import OWNER_TEXTS, OWNERS_OF
from stepscope.advice.checklist import CheckedStage
from stepscope.advice.finding import Finding
from stepscope.analysis.framework_op_stats.detail import OpDetailResult
from stepscope.analysis.model_views import AnnotationDetailResult
from stepscope.analysis.results.tool import field_sentences
from stepscope.analysis.tools import TOOLS
from stepscope.compare.comparison import Comparison
from stepscope.reporting.document import Headline
from stepscope.reporting.envelope import Envelope
from stepscope.reporting.words.names import (
    CATEGORY_NAMES,
    CLOCK_TEXTS,
    CODE_TEXTS,
    INPUT_CATEGORY_NAMES,
    INPUT_STEP_NAMES,
    PART_PREFIXES,
    SOURCE_TEXTS,
)
from stepscope.serve.runs.cutting import Cut
from stepscope.trace.schema import Column, TableSchema
from stepscope.unavailable import Unavailable

sys.path.insert(0, str(Path(__file__).parent))

from page_colours import CATEGORIES, MEMORY, TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).resolve().parents[1] / "web"
WEB = PAGE / "src"
MADE_DATA = WEB / "data" / "made"
MADE = "Made by build_tools/web_sources.py; do not edit."
AROUND = ("missing", "inputs", "quality")
#: Answers of the server besides the results of tools.
BESIDE = (CheckedStage, Comparison, Envelope, Finding, Headline, Cut)
#: What an option turns a result into: subclasses of what the tool's function declares.
DETAILS = (AnnotationDetailResult, OpDetailResult)
#: Endings of the names of integers that may be too large for JSON; those are written as
#: text.
FINE_UNITS = ("_ps", "_ns")
SCALARS: dict[Any, str] = {
    int: "number",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    pl.DataFrame: "Row[]",
}


def sources() -> dict[Path, str]:
    """Return every generated file with its content."""
    results = list(_result_types())
    return {
        WEB / "style" / "tokens.css": _tokens(),
        MADE_DATA / "categories.ts": _categories(),
        MADE_DATA / "types.ts": _types(results),
        PAGE / "public" / "definitions.json": _definitions(results),
        MADE_DATA / "tools.ts": _tools(),
        MADE_DATA / "words.ts": _words(),
    }


def result_tables() -> dict[str, list[TableSchema]]:
    """Return tool → the tables of its result as they are declared, each once."""
    found: dict[str, list[TableSchema]] = {}
    for tool, struct in _result_types():
        for part in _reached(_with_subclasses(struct)):
            for field in msgspec.structs.fields(part):
                tables = found.setdefault(tool, [])
                tables += [it for it in _tables_in(field.type) if it not in tables]
    return {tool: tables for tool, tables in found.items() if tables}


def _result_types() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Tools and the struct of their result, as their functions declare it."""
    for tool in TOOLS:
        returned = _return_type(tool.analyse)
        for part in get_args(returned) or (returned,):
            if part.__name__ != "Unavailable":
                yield tool.name, part


def _return_type(function: Any) -> Any:
    module = sys.modules[function.__module__]
    text = inspect.signature(function).return_annotation
    return eval(text, _names(module)) if isinstance(text, str) else text  # noqa: S307 - our own source


def _names(module: types.ModuleType) -> dict[str, Any]:
    return {**vars(module), "Unavailable": Unavailable}


def _reached(structs: Iterable[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """The structs and all that their fields hold, each once, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = list(structs)
    while waiting:
        struct = waiting.pop()
        known = found.get(struct.__name__)
        if known is struct:
            continue
        if known is not None:
            raise TypeError(f"two results are named {struct.__name__}; rename one")
        found[struct.__name__] = struct
        for field in msgspec.structs.fields(struct):
            waiting += _structs_in(field.type)
    return [found[name] for name in sorted(found)]


def _structs_in(annotation: Any) -> list[type[msgspec.Struct]]:
    if _is_struct(annotation):
        return [annotation]
    return [struct for part in get_args(annotation) for struct in _structs_in(part)]


def _is_struct(annotation: Any) -> bool:
    """Whether it is a struct with fields of its own: not the type of any struct."""
    return (
        isinstance(annotation, type)
        and issubclass(annotation, msgspec.Struct)
        and annotation is not msgspec.Struct
    )


def _types(results: list[tuple[str, type[msgspec.Struct]]]) -> str:
    structs = [part for _, struct in results for part in _with_subclasses(struct)]
    lines = [
        f"// {MADE}",
        "",
        "export type Cell = string | number | boolean | null;",
        "",
        "/** A line of a table; its columns stand in the tool's documentation. */",
        "export type Row = Record<string, Cell | Record<string, Cell> | Cell[]>;",
        "",
    ]
    for struct in _reached([*structs, *BESIDE]):
        lines.append(f"export interface {struct.__name__} {{")
        lines += [
            f"  {field.encode_name}: {_field_type(field)};"
            for field in msgspec.structs.fields(struct)
            # These fields are in the envelope around a result.
            if struct not in structs or field.encode_name not in AROUND
        ]
        lines += ["}", ""]
    lines.append("export interface Results {")
    lines += [f"  {tool}: {struct.__name__};" for tool, struct in results]
    return "\n".join([*lines, "}", ""])


def _field_type(field: msgspec.structs.FieldInfo) -> str:
    kind = _typescript(field.type)
    return f"{kind} | string" if field.name.endswith(FINE_UNITS) else kind


def _typescript(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in parts)
    if origin in {types.UnionType, typing.Union}:
        return " | ".join(_typescript(part) for part in parts)
    if origin in {tuple, list}:
        return _array(parts)
    if isinstance(origin, type) and issubclass(origin, typing.Mapping):
        return f"Record<string, {_typescript(parts[1])}>"
    if _is_struct(annotation):
        return str(annotation.__name__)
    # The annotation holds a table's declaration beside its type.
    return SCALARS.get(getattr(annotation, "__origin__", annotation), "unknown")


def _array(parts: tuple[Any, ...]) -> str:
    if len(parts) == 2 and parts[1] is not Ellipsis:
        return f"[{', '.join(_typescript(part) for part in parts)}]"
    inner = _typescript(parts[0])
    return f"({inner})[]" if "|" in inner else f"{inner}[]"


#: Definitions that at least this many fields have are written once.
_SHARED_BY: Final = 3


def _definitions(results: list[tuple[str, type[msgspec.Struct]]]) -> str:
    """Field paths of each tool and the sentence of the docstring that defines them.

    The page fetches them when a reader first asks what a number is. `shared` holds the
    sentences of many fields, which have the sentence's place there instead.
    """
    defined = {tool: sorted(_all_defined(struct).items()) for tool, struct in results}
    seen = Counter(text for fields in defined.values() for _, text in fields)
    shared = [text for text, count in seen.items() if count >= _SHARED_BY]
    place: dict[str, int] = {text: number for number, text in enumerate(shared)}
    tools = {
        tool: {path: place.get(text, text) for path, text in fields}
        for tool, fields in defined.items()
    }
    told = msgspec.json.encode({"made": MADE, "shared": shared, "tools": tools})
    return msgspec.json.format(told, indent=1).decode() + "\n"


def _with_subclasses(struct: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """A result, and what an option turns it into."""
    return [struct, *(it for it in DETAILS if issubclass(it, struct))]


def _all_defined(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {
        path: text
        for part in reversed(_with_subclasses(struct))
        for path, text in _defined(part, "")
    }


def _defined(
    struct: type[msgspec.Struct], prefix: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    if struct.__name__ in above:
        return
    about = field_sentences(struct)
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        if field.encode_name in about:
            yield path, about[field.encode_name]
        for schema in _tables_in(field.type):
            for column in schema.columns:
                yield f"{path}.{column.name}", _sentence(column)
        for inner in _structs_in(field.type):
            yield from _defined(inner, f"{path}.", (*above, struct.__name__))


def _tables_in(annotation: Any) -> list[TableSchema]:
    """Declarations of the tables that a field holds."""
    if isinstance(annotation, TableSchema):
        return [annotation]
    return [table for part in get_args(annotation) for table in _tables_in(part)]


def _sentence(column: Column) -> str:
    return f"{column.about} Null: {column.null}." if column.null else column.about


def _tools() -> str:
    """Write the short names of the tools, which links may have."""
    names = [(alias, tool.name) for tool in TOOLS for alias in tool.aliases]
    lines = [
        f"// {MADE}",
        "",
        "/** Short name of a tool → its name. */",
        "export const SHORT_NAMES: ReadonlyMap<string, string> = new Map([",
        *(f"  [{_quoted(short)}, {_quoted(name)}]," for short, name in names),
    ]
    return "\n".join([*lines, "]);", ""])


def _words() -> str:
    """Write what the report calls the kinds that answers name."""
    kinds = {
        "OWNERS": ("Owner of time → what the time is", OWNER_TEXTS),
        "PART_WORDS": ("Kind of a part → what stands before its name", PART_PREFIXES),
        "SOURCES": ("Source of the steps → where they come from", SOURCE_TEXTS),
        "CLOCKS": ("What ties the clocks of hosts → what follows", CLOCK_TEXTS),
        "INPUT_KINDS": ("Work on input → its title", INPUT_CATEGORY_NAMES),
        "INPUT_STEPS": ("What to do for it is about → its title", INPUT_STEP_NAMES),
    }
    lines = [f"// {MADE}"]
    for name, (about, words) in kinds.items():
        lines += ["", f"/** {about}. */"]
        lines.append(f"export const {name}: Record<string, string> = {{")
        lines += [
            f"  {_quoted(kind)}: {_quoted(text)}," for kind, text in words.items()
        ]
        lines.append("};")
    lines += ["", "/** Column of a table → code → its title. */"]
    lines.append("export const CODES: Record<string, Record<string, string>> = {")
    for column, words in CODE_TEXTS.items():
        lines.append(f"  {_quoted(column)}: {{")
        lines += [f"    {_quoted(code)}: {_quoted(it)}," for code, it in words.items()]
        lines.append("  },")
    return "\n".join([*lines, "};", ""])


def _tokens() -> str:
    light, dark = _theme("light"), _theme("dark")
    return f'/* {MADE} */\n:root {{\n{light}}}\n:root[data-theme="dark"] {{\n{dark}}}\n'


def _theme(name: Literal["light", "dark"]) -> str:
    inks = [(token.name, getattr(token, name)) for token in (*TOKENS, *MEMORY)]
    return "".join(
        f"  --{token}: {ink.fill};\n  --on-{token}: {ink.text};\n"
        for token, ink in inks
    )


def _categories() -> str:
    lines = [
        f"// {MADE}",
        "",
        "export interface Category {",
        "  name: string;",
        "  title: string;",
        "  token: string;",
        "  hatched: boolean;",
        "  sentence: string;",
        "}",
        "",
        "/** From the bottom of a column to its top. */",
        "export const CATEGORIES: Category[] = [",
    ]
    lines += [
        f"  {{ name: {_quoted(category.name)}, "
        f"title: {_quoted(CATEGORY_NAMES[category.name])}, "
        f"token: {_quoted(category.token)}, hatched: {str(category.hatched).lower()}, "
        f"sentence: {_quoted(category.sentence)} }},"
        for category in CATEGORIES
    ]
    lines += ["];", "", "/** Owners told under their category. */"]
    lines.append("export const DETAILS: Record<string, string[]> = {")
    lines += [
        f"  {category}: [{', '.join(map(_quoted, parts))}],"
        for category, parts in OWNERS_OF.items()
        if len(parts) > 1
    ]
    lines += ["};", "", "/** Owner of time → its category. */"]
    lines.append("export const CATEGORY_OF: Record<string, string> = {")
    lines += [
        f"  {', '.join(f'{name}: {_quoted(category)}' for name in parts)},"
        for category, parts in OWNERS_OF.items()
    ]
    return "\n".join([*lines, "};", ""])


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


if __name__ == "__main__":
    for path, text in sources().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
