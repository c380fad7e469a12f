"""Why fields of a result are null, each reason once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stepscope.report.page import line, wrapped
from stepscope.report.words.names import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.report.page import Line
    from stepscope.unavailable import Missing

#: So many fields are named that are null for one reason; `--table missing` has all.
_MOST_FIELDS: Final = 8
_UNKNOWN: Final = "–"


def reasons(missing: Sequence[Missing], width: int) -> list[Line]:
    """Write each reason once, with the fields that it explains."""
    fields: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in missing:
        fields[one.reason, one.remedy].append(one.field)
    lines: list[Line] = []
    for (reason, remedy), names in fields.items():
        listed = ", ".join(names)
        if len(names) > _MOST_FIELDS:
            more = len(names) - _MOST_FIELDS + 1
            listed = f"{', '.join(names[: _MOST_FIELDS - 1])} and {more} more"
        text = f"{_UNKNOWN} {listed}: {sentence(reason)} {remedy}"
        lines += wrapped(text, width, indent=2)
    return [line(), *lines] if lines else []
