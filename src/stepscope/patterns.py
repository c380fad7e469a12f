"""Regular expressions that are compiled when they are first used.

Compiling one takes about 0.3 ms, and a command imports a hundred and uses some twenty.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match

#: Name of Python's garbage collections in recordings of stepscope.
COLLECTION: Final = "garbage collection"
#: With it, how PyTorch's recorder names them; what other events of frameworks call so
#: releases their own objects.
COLLECTIONS: Final = (COLLECTION, "Python GC")
#: Name of those of the recorder's own threads.
RECORDERS_COLLECTION: Final = "garbage collection of the recorder"
#: Ranges that a program has named as fetching input.
NAMED_INPUT: Final = (
    r"(?i)^(?:py)?grain(?:$|[ ._:])|^next$|^(?:get_)?next_?(?:batch|element)$"
    r"|^(?:load|get|fetch|read|prepare)_?(?:next_?)?(?:batch|data|input)s?$"
    r"|^(?:data|input)_?(?:load|loader|loading|wait|pipeline|fetch)$"
)


class Pattern(Generic[AnyStr]):
    """A regular expression with the methods of `re.Pattern` that are used here.

    Each method is taken from the compiled expression once, so that a call of it costs
    what it costs there.
    """

    def __init__(self, text: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.text: AnyStr = text
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[AnyStr]:
        """The compiled expression."""
        return re.compile(self.text, self.flags)

    @cached_property
    def search(self) -> Callable[[AnyStr], re.Match[AnyStr] | None]:
        """Find the first match anywhere."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[[AnyStr], re.Match[AnyStr] | None]:
        """Match at the beginning."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[[AnyStr], re.Match[AnyStr] | None]:
        """Match all of a text."""
        return self.compiled.fullmatch

    @cached_property
    def sub(self) -> Callable[..., AnyStr]:
        """Replace every match."""
        return self.compiled.sub

    @cached_property
    def findall(self) -> Callable[[AnyStr], list[Any]]:
        """List the texts of all matches, or of their groups."""
        return self.compiled.findall

    @cached_property
    def finditer(self) -> Callable[[AnyStr], Iterator[re.Match[AnyStr]]]:
        """Yield all matches."""
        return self.compiled.finditer


#: Namespaces of C++ without a name, as compilers and tools write them; also where
#: damage took the begin.
UNNAMED_NAMESPACE: Final = Pattern(
    r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::|(?<!\w)unnamed>::"
)


#: Control characters, ends of lines, marks that turn the direction of what follows,
#: and halves of a pair of characters.
_COMMANDING: Final = Pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable_text(text: str) -> str:
    r"""Return a text of others as one line that commands no terminal.

    Characters that are not shown become escapes, such as `\x1b`.
    """
    return text if text.isprintable() else _COMMANDING.sub(_escape_character, text)


def _escape_character(found: Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def ascii_only(pattern: str) -> str:
    """Let classes of letters and digits in a pattern of polars be those of ASCII.

    What frameworks and runtimes call their own has no others, and polars takes up to
    two milliseconds to compile a pattern with those of all of Unicode.
    """
    return (
        pattern.replace(r"\w", "[0-9A-Za-z_]")
        .replace(r"\d", "[0-9]")
        .replace(r"\b", r"(?-u:\b)")
        .replace("(?i)", "(?i-u)")
    )
