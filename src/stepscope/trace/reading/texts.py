"""How long the texts of a profile may be: every table and answer repeats them.

The longest name in a real profile has some thousand characters; all names of a profile
together have some hundred thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.trace.quality import QualityNote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Characters of one text.
LONGEST: Final = 2**14
#: Characters of all texts together; once they are used up, a text has at most `_SHORT`.
_TOGETHER: Final = 2**26
_SHORT: Final = 2**8


def shorten_text(text: str, longest: int = LONGEST) -> str:
    """Return the text, or its beginning and how long it was."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text):,} characters)"


class Shortening:
    """Cuts the texts of one file where they are too long, and counts that."""

    def __init__(self) -> None:
        self._room = _TOGETHER
        self._count = 0

    def text(self, text: str) -> str:
        """Return the text, or its beginning and how long it was; count a cut."""
        if len(text) <= _SHORT:
            return text
        longest = LONGEST if self._room > 0 else _SHORT
        self._room -= min(len(text), longest)
        self._count += len(text) > longest
        return shorten_text(text, longest)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Return each text, or its beginning and how long it was; count the cuts."""
        # Most are short, and there are many of them.
        return [it if len(it) <= _SHORT else self.text(it) for it in texts]

    def notes(self) -> Iterator[QualityNote]:
        """Note how many texts were cut."""
        if self._count:
            yield QualityNote(
                kind="long_names",
                severity="warning",
                count=self._count,
                message=f"{self._count:,} names or texts have more than {LONGEST:,} "
                f"characters, or all together more than {_TOGETHER:,}; only their "
                "beginnings are shown.",
                remedy="Give shorter names to what the program annotates.",
            )
