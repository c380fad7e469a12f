"""Parts of a finding or of a gap in words: a name with its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.report.words.names import MODULE, plain_name

if TYPE_CHECKING:
    from stepscope.derive.facts.evidence import Part


def part_words(part: Part) -> str:
    """Write a name with its file and line."""
    name = f"`{part.name}`" if part.function is not None else plain_name(part.name)
    if part.name == MODULE:
        name = "the top level"
    if part.file is not None:
        place = part.file.replace("\\", "/").rpartition("/")[2]
        # Where a module begins says nothing of one of its variables.
        is_variable = part.function == MODULE != part.name
        at = "" if part.line is None or is_variable else f":{part.line}"
        at = at if part.lines is None else _lines(*part.lines, part.detail)
        name += f" ({place}{at})"
    if part.function is not None and part.lines is None and part.detail is not None:
        is_line = part.detail.startswith("line ")
        name += f", most of it in {part.detail if is_line else f'`{part.detail}`'}"
    if part.thread is not None:
        name += f" on thread `{part.thread}`"
    return name


def _lines(first: int, last: int, most: str | None) -> str:
    """Write which lines of a function do the work, behind the name of its file."""
    told = f", line {first}" if first == last else f", lines {first} to {last}"
    return told if most is None else f"{told}, mostly {most}"
