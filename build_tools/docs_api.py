"""The reference of the public names, made from their docstrings.

Public are the names of `stepscope.__all__`; what they return, or have as attributes, is
described with them. Griffe reads the sources: nothing is imported, so that neither a
framework nor a compiler is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import griffe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Place in the site of the list of all public names.
INDEX: Final = "api/index.md"
#: Place of the errors, which programs catch and only stepscope makes.
_ERRORS: Final = "api/errors.md"
#: Place of a page → its title, and what it has.
_PAGES: Final = {
    "api/recording.md": (
        "API: recording",
        "Names that record a program, and what they return.",
    ),
    "api/remote.md": (
        "API: recording from outside",
        "Names that record a program from outside, and what they return.",
    ),
    "api/reading.md": (
        "API: profiles and reports",
        "Names that read profiles and report on them, and what they return.",
    ),
    "api/results.md": (
        "API: results of tools",
        "What `ss.ProfileData.tool` returns; [columns](../columns/index.md) of frames.",
    ),
    "api/older.md": (
        "API: the older profiler",
        "Calls of TensorFlow's older profiler, and the views that they return.",
    ),
    "api/errors.md": (
        "API: errors",
        "Errors that stepscope raises; the text of each is one line.",
    ),
}
#: Beginning of a module's path → place of the page; the first one that fits counts.
_PLACES: Final = {
    "stepscope.capture": "api/recording.md",
    "stepscope._core": "api/recording.md",
    "stepscope.integrations": "api/recording.md",
    "stepscope.remote": "api/remote.md",
    "stepscope.profiler": "api/older.md",
    "stepscope.errors": "api/errors.md",
    "stepscope.analysis.tools": "api/reading.md",
    "stepscope.analysis": "api/results.md",
    "stepscope": "api/reading.md",
}
#: Of a signature.
_LINE_WIDTH: Final = 88
_STARS: Final = {"variadic positional": "*", "variadic keyword": "**"}
#: An example in a docstring: lines that are indented, between blank ones.
_EXAMPLE: Final = re.compile(r"(?<=\n\n)(?:    .*\n|\n(?=    ))+")
_PAGE: Final = re.compile(r"\bdocs/([\w./-]+\.md)(#[\w-]+)?")


@dataclass(frozen=True)
class Entry:
    """A function or class of the reference.

    Attributes:
        name: Name that the reference shows, such as `ss.open` or `Run`.
        place: Place of its page in the site.
        thing: What Griffe knows of it.
    """

    name: str
    place: str
    thing: Any

    @property
    def is_public(self) -> bool:
        """Whether a program can import it as a public name."""
        return self.name.startswith("ss.")

    def link_from(self, place: str) -> str:
        """Return a link to the entry from a page of the reference."""
        anchor = re.sub(r"[^\w\- ]", "", self.name.lower())
        page = "" if place == self.place else self.place.rpartition("/")[2]
        return f"[`{self.name}`]({page}#{anchor})"


def api_pages(sources: Path) -> dict[str, str]:
    """Return the place in the site of each page of the reference, and its text."""
    reference = Reference(sources)
    pages = {INDEX: reference.list_names()}
    for place, (title, about) in _PAGES.items():
        of_page = [each for each in reference.entries() if each.place == place]
        texts = (reference.describe_entry(each) for each in of_page)
        pages[place] = "\n\n".join((f"# {title}", about, *texts)) + "\n"
    return pages


class Reference:
    """All functions and classes that the reference describes."""

    def __init__(self, sources: Path) -> None:
        self._package: Any = griffe.load(
            "stepscope", search_paths=[sources], allow_inspection=False
        )
        #: Path of the definition → entry; of an entry, its classes come after it.
        self._entries: dict[str, Entry] = {}
        self._add_module("ss", self._package)
        for name, thing in self._package["errors"].members.items():
            if not thing.is_alias and thing.is_class and not name.startswith("_"):
                self._add_thing(name, thing)
        waiting = list(self._entries.values())
        while waiting:
            waiting += [
                self._add_thing(thing.name, thing)
                for thing in self._named_classes(waiting.pop(0).thing)
                if thing.path not in self._entries
            ]

    def entries(self) -> list[Entry]:
        """Return all entries: public names in their order, then others by name."""
        public = [each for each in self._entries.values() if each.is_public]
        others = [each for each in self._entries.values() if not each.is_public]
        return [*public, *sorted(others, key=lambda each: each.name)]

    def list_names(self) -> str:
        """Return the page that lists all public names."""
        lines = [
            "# API reference",
            "",
            "`import stepscope as ss` gives these names.",
            "",
            "| name | what it is |",
            "|---|---|",
        ]
        lines += [
            f"| {each.link_from(INDEX)} | {_first_line(each.thing).removesuffix('.')} |"
            for each in self.entries()
            if each.is_public
        ]
        lines += ["", "What they return, and their errors, are on the same pages:", ""]
        for place, (title, about) in _PAGES.items():
            lines.append(f"- [{title}]({place.rpartition('/')[2]}): {about}")
        return "\n".join(lines) + "\n"

    def describe_entry(self, entry: Entry) -> str:
        """Return the section of a function or class."""
        parts = [f"## `{entry.name}`"]
        if entry.thing.is_function:
            return "\n\n".join([*parts, *self._describe_function(entry, entry.thing)])
        begin = _members(entry.thing, private=True).get("__init__")
        if begin is not None and entry.is_public:
            parts.append(_code([self._signature(entry.name, begin)]))
        parts += self._describe_docstring(entry, entry.thing)
        if begin is not None and entry.is_public:
            parts += self._describe_docstring(entry, begin)
        parts += self._describe_attributes(entry)
        if entry.place == _ERRORS:
            return "\n\n".join(parts)
        for name, method in _methods(entry.thing).items():
            parts.append(f"### `{entry.name.rpartition('.')[2]}.{name}`")
            parts += self._describe_function(entry, method)
        return "\n\n".join(parts)

    def _add_module(self, name: str, module: Any) -> None:
        for exported in module.exports or ():
            thing = _definition(module.members[str(exported)])
            if thing.is_module:
                self._add_module(f"{name}.{exported}", thing)
            elif not thing.is_attribute:
                self._add_thing(f"{name}.{exported}", thing)
        if module.exports is None:
            for inner in module.modules.values():
                if not inner.name.startswith("_"):
                    self._add_module(f"{name}.{inner.name}", inner)

    def _add_thing(self, name: str, thing: Any) -> Entry:
        if any(each.name == name for each in self._entries.values()):
            name = f"{thing.parent.name}.{name}"
        beginning = next(each for each in _PLACES if thing.path.startswith(each))
        entry = Entry(name, _PLACES[beginning], thing)
        return self._entries.setdefault(thing.path, entry)

    def _named_classes(self, thing: Any) -> Iterator[Any]:
        """Give the classes of stepscope that a function returns or a class has."""
        if thing.is_function:
            for function in thing.overloads or (thing,):
                yield from self._classes_in(function.returns)
            return
        for attribute, _ in _attributes(thing).values():
            yield from self._classes_in(attribute.annotation)
        for method in _methods(thing).values():
            yield from self._named_classes(method)

    def _classes_in(self, annotation: Any) -> Iterator[Any]:
        for part in annotation.iterate(flat=True) if _is_expression(annotation) else ():
            path = "" if isinstance(part, str) else part.canonical_path
            thing = self._thing_at(path) if path.startswith("stepscope.") else None
            if thing is not None and thing.is_class and not thing.name.startswith("_"):
                yield thing

    def _thing_at(self, path: str) -> Any:
        """Return what is at a path; None for a name that is not of stepscope."""
        try:
            return _definition(self._package[path.removeprefix("stepscope.")])
        except (KeyError, griffe.AliasResolutionError):
            return None

    def _describe_function(self, entry: Entry, function: Any) -> list[str]:
        name = entry.name if function is entry.thing else function.name
        overloads = function.overloads or (function,)
        parts = [_code([self._signature(name, each) for each in overloads])]
        parts += self._describe_docstring(entry, function)
        links = self._links(entry.place, self._named_classes(function))
        return [*parts, f"Returns {links}."] if links else parts

    def _describe_docstring(self, entry: Entry, thing: Any) -> list[str]:
        if thing.docstring is None:
            return []
        parts = []
        for section in _sections(thing.docstring):
            kind = section.kind.value
            if kind == "text":
                parts.append(_fence_examples(section.value))
            elif kind == "parameters":
                parts += ["Arguments:", _list_of(section.value, _name_of)]
            elif kind == "raises":
                parts += ["Raises:", _list_of(section.value, self._error_link(entry))]
            elif kind in {"returns", "yields"}:
                text = " ".join(each.description for each in section.value)
                parts.append(f"{kind.capitalize()}: {_flat(text)}")
        return parts

    def _describe_attributes(self, entry: Entry) -> list[str]:
        lines = []
        for name, (attribute, text) in _attributes(entry.thing).items():
            kind = self._type_text(attribute.annotation)
            default = (
                "" if _has_constructor(entry.thing) else str(attribute.value or "")
            )
            if default and not default.startswith("field("):
                kind += f" = {default}"
            kind = f" (`{kind}`)" if kind else ""
            classes = self._links(
                entry.place, self._classes_in(attribute.annotation), besides=entry
            )
            about = f": {text}" if text else ""
            lines.append(f"- `{name}`{kind}{about}{classes and f' See {classes}.'}")
        return ["Attributes:", "\n".join(lines)] if lines else []

    def _links(
        self, place: str, classes: Iterable[Any], besides: Entry | None = None
    ) -> str:
        entries = dict.fromkeys(self._entries[each.path] for each in classes)
        return ", ".join(each.link_from(place) for each in entries if each != besides)

    def _error_link(self, entry: Entry) -> Any:
        by_name = {each.thing.name: each for each in self._entries.values()}

        def link(raised: Any) -> str:
            name = str(raised.annotation)
            known = by_name.get(name)
            return known.link_from(entry.place) if known else f"`{name}`"

        return link

    def _signature(self, name: str, function: Any) -> str:
        """Return a function's call, on several lines where one is too long."""
        parts = []
        star_needed = True
        parameters = list(function.parameters)
        if function.parent.is_class and "staticmethod" not in function.labels:
            parameters = parameters[1:]
        kinds = [each.kind.value for each in parameters]
        for number, (each, kind) in enumerate(zip(parameters, kinds, strict=True)):
            if kind == "keyword-only" and star_needed:
                parts.append("*")
            star_needed &= kind not in {"keyword-only", "variadic positional"}
            text = f"{_STARS.get(kind, '')}{each.name.lstrip('*')}"
            if each.annotation is not None:
                text += f": {self._type_text(each.annotation)}"
            if each.default is not None and kind not in _STARS:
                text += f" = {each.default}" if ":" in text else f"={each.default}"
            parts.append(text)
            if kind == "positional-only" and kind not in kinds[number + 1 :]:
                parts.append("/")
        returns = self._type_text(function.returns)
        end = f" -> {returns}" if returns and function.name != "__init__" else ""
        line = f"{name}({', '.join(parts)}){end}"
        if len(line) <= _LINE_WIDTH:
            return line
        inner = "".join(f"    {part},\n" for part in parts)
        return f"{name}(\n{inner}){end}"

    def _type_text(self, annotation: Any) -> str:
        """Return a type, with classes under their public names."""
        if not _is_expression(annotation):
            return annotation or ""
        texts = []
        for part in annotation.iterate(flat=True):
            if isinstance(part, str):
                texts.append(part)
                continue
            entry = self._entries.get(part.canonical_path)
            is_renamed = entry is not None and not entry.name.endswith(part.name)
            texts.append(entry.name if entry and is_renamed else part.name)
        return "".join(texts)


def _is_expression(annotation: object) -> bool:
    return annotation is not None and not isinstance(annotation, str)


def _definition(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _members(thing: Any, *, private: bool = False) -> dict[str, Any]:
    """Return the members of a class: its own, then those that it inherits."""
    members = {**thing.members, **thing.inherited_members}
    return {
        name: _definition(member)
        for name, member in members.items()
        if private or not name.startswith("_")
    }


def _methods(thing: Any) -> dict[str, Any]:
    members = _members(thing).items()
    return {name: member for name, member in members if member.is_function}


def _attributes(thing: Any) -> dict[str, tuple[Any, str]]:
    """Return name → attribute and what it is: those that the class says or declares."""
    texts: dict[str, str] = {}
    for section in _sections(thing.docstring) if thing.docstring else ():
        if section.kind.value == "attributes":
            texts |= {each.name: _flat(each.description) for each in section.value}
    found = {}
    for name, member in _members(thing).items():
        if member.is_attribute:
            is_property = "property" in member.labels
            is_declared = not _has_constructor(thing)
            about = _first_line(member) if is_property else texts.get(name, "")
            if is_property or is_declared or about:
                found[name] = (member, about)
    return found


def _has_constructor(thing: Any) -> bool:
    """Whether a class says how it is made; otherwise its fields say so."""
    is_dataclass = "dataclass" in thing.labels
    return "__init__" in _members(thing, private=True) and not is_dataclass


def _sections(docstring: Any) -> list[Any]:
    sections: list[Any] = docstring.parse(
        "google",
        returns_multiple_items=False,
        returns_named_value=False,
        warnings=False,
    )
    return sections


def _first_line(thing: Any) -> str:
    text: str = thing.docstring.value if thing.docstring else ""
    return _flat(text.partition("\n\n")[0])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _code(lines: list[str]) -> str:
    return "\n".join(("```python", *lines, "```"))


def _fence_examples(text: str) -> str:
    def fence(found: re.Match[str]) -> str:
        lines = (line.removeprefix("    ") for line in found[0].rstrip().splitlines())
        return _code(list(lines)) + "\n\n"

    fenced = re.sub(r"\n{3,}", "\n\n", _EXAMPLE.sub(fence, f"{text}\n")).strip()
    return _PAGE.sub(r"[\1](../\1\2)", fenced)


def _name_of(argument: Any) -> str:
    return f"`{argument.name}`"


def _list_of(items: Iterable[Any], name_of: Any) -> str:
    return "\n".join(f"- {name_of(each)}: {_flat(each.description)}" for each in items)
