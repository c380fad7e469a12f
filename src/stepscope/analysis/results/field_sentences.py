"""The sentences in which the docstring of a Struct defines its fields."""

from __future__ import annotations

import inspect
import re


def field_sentences(struct: type) -> dict[str, str]:
    """Return names and texts of the `Attributes:` of a class; empty without any."""
    _, found, section = inspect.cleandoc(struct.__doc__ or "").partition(
        "Attributes:\n"
    )
    if not found:
        return {}
    about: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"    ([\w, ]+): (.*)", line)
        if head:
            names = [name.strip() for name in head[1].split(",")]
            about |= dict.fromkeys(names, head[2])
        elif line.startswith("        "):
            about |= {name: f"{about[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return about
