"""Maximum lengths of a profile's texts, which tables and answers repeat many times.

The longest name in a real profile has a few thousand characters; all names of a profile
together have a few hundred thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.trace.quality import QualityNote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Maximum number of characters of one text.
MAX_CHARS: Final = 2**14
#: Maximum number of characters of all texts together; when it is reached, each further
#: text is cut to `_CUT_LENGTH` characters.
_MAX_TOTAL: Final = 2**26
_CUT_LENGTH: Final = 2**8


def shorten_text(text: str, longest: int = MAX_CHARS) -> str:
    """Return a text unchanged, or its beginning and its length if it is too long."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text):,} characters)"


class Shortening:
    """Cuts texts of one file that are too long, and counts the cuts."""

    def __init__(self) -> None:
        self._left_characters = _MAX_TOTAL
        self._count = 0

    def text(self, text: str) -> str:
        """Return a text; if it is too long, cut it and count the cut."""
        if len(text) <= _CUT_LENGTH:
            return text
        longest = MAX_CHARS if self._left_characters > 0 else _CUT_LENGTH
        self._left_characters -= min(len(text), longest)
        self._count += len(text) > longest
        return shorten_text(text, longest)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Return the texts; cut texts that are too long and count the cuts."""
        # Avoid a call per text: there are many texts, and most are short.
        return [text if len(text) <= _CUT_LENGTH else self.text(text) for text in texts]

    def notes(self) -> Iterator[QualityNote]:
        """Yield a note that states how many texts were cut, if any."""
        if self._count:
            yield QualityNote(
                kind="long_names",
                severity="warning",
                count=self._count,
                message=f"{self._count:,} names or texts have more than {MAX_CHARS:,} "
                f"characters each, or more than {_MAX_TOTAL:,} together; only "
                "their beginnings are shown.",
                remedy="Give shorter names to what the program annotates.",
            )
