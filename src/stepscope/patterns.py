"""Regular expressions that are compiled on first use.

Compiling an expression takes about 0.3 ms. A command imports about a hundred
expressions and uses twenty.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from re import Match

#: Event name of Python's garbage collections in recordings by stepscope.
COLLECTION: Final = "garbage collection"
#: Event names of Python's garbage collections, including PyTorch's name. Events of
#: frameworks with similar names are not collections.
COLLECTIONS: Final = (COLLECTION, "Python GC")
#: Event name of Python's garbage collections in the threads of the recorder.
RECORDERS_COLLECTION: Final = "garbage collection of the recorder"
#: Recorded instead of a called function where a `for` loop takes its next element.
LOOP_CALL: Final = "for"
#: Recorded instead of a called function where a function of the recorder runs, and
#: where the recorder starts, stores or stops a recording.
RECORDER_CALL: Final = "stepscope"
RECORDING_CALL: Final = "stepscope.recording"
#: Pattern of the names of ranges with which programs mark a batch fetch.
NAMED_INPUT: Final = (
    r"(?i)^(?:py)?grain(?:$|[ ._:])|^next$|^(?:get_)?next_?(?:batch|element)$"
    r"|^(?:load|get|fetch|read|prepare)_?(?:next_?)?(?:batch|data|input)s?$"
    r"|^(?:data|input)_?(?:load|loader|loading|wait|pipeline|fetch)$"
)


class Pattern(Generic[AnyStr]):
    """A regular expression that has only the methods that stepscope uses.

    Each method is read from the compiled expression once, so that later calls cost the
    same as on the compiled expression.
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
        """Find the first match anywhere in a text."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[[AnyStr], re.Match[AnyStr] | None]:
        """Match at the beginning."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[[AnyStr], re.Match[AnyStr] | None]:
        """Match a whole text."""
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


#: Pattern of C++'s anonymous namespaces as compilers and tools print them.
UNNAMED_NAMESPACE: Final = Pattern(
    r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::|(?<!\w)unnamed>::"
)


#: Control characters, line ends, characters that change the text direction, and
#: unpaired surrogates.
_COMMANDING: Final = Pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable_text(text: str) -> str:
    r"""Return untrusted text as one line that cannot control the terminal.

    Unprintable characters become escapes, such as `\x1b`.
    """
    return text if text.isprintable() else _COMMANDING.sub(_escape_character, text)


def _escape_character(found: Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def ascii_only(pattern: str) -> str:
    """Restrict the letter and digit classes of a polars pattern to ASCII.

    Names of frameworks and runtimes are ASCII, and polars takes up to two milliseconds
    to compile a pattern with the classes of all of Unicode.
    """
    return (
        pattern.replace(r"\w", "[0-9A-Za-z_]")
        .replace(r"\d", "[0-9]")
        .replace(r"\b", r"(?-u:\b)")
        .replace("(?i)", "(?i-u)")
    )
