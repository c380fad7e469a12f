"""What a rule says, as data; its numbers are filled in where findings are read out.

A sentence may hold names in braces: the fields of `Finding` that are numbers, the
title, the threshold, any fact by its name, and

- `{passed}`: what is true when the rule passes;
- `{named}`: the largest part by name, with file and line;
- `{function}`: the same, known where it is a function that the steps call;
- `{pattern}`: how a failing effect is spread over the steps, as a sentence;
- `{bursts}`: the steps that wait, and how long each; known where the effect comes in
  bursts;
- `{mostly_<cause>}`: the share of a cause; known where it is the largest.

Each number is written in a fitting unit. `{value:nothing}` writes a zero as "nothing".
"""

from __future__ import annotations

from typing import Final

import msgspec

from stepscope.advice.finding import Status

__all__ = ["WAITING", "Text", "Texts", "Words"]

#: Sentences, in order. Each is a tuple of alternatives, of which the first one whose
#: numbers are all known is used; where no alternative fits, the sentence is left out.
Text = tuple[tuple[str, ...], ...]
#: (Status, note) → sentences; a note without a text of its own is ignored.
Texts = dict[tuple[Status, str | None], Text]


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one rule.

    Attributes:
        texts: The sentences about a fail and about a pass.
        lead: Alternatives for the one sentence about a fail that a report begins with;
            without them it is the first sentence about the fail.
        passed: What is true when the rule passes.
        causes: Stable word of a cause or reason → the words that people read.
    """

    texts: Texts
    lead: tuple[str, ...] = ()
    passed: str | None = None
    causes: dict[str, str] = {}


_IN_TIME: Final = (
    "{passed}: {share_percent:nothing} of the time is spent so (a matter from "
    "{threshold} on)."
)
_SHORT: Final = (
    "It takes only {effect} a step (a matter from {smallest_effect} on). It is {value} "
    "of it because the steps are so short."
)
_SIZE: Final = (
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
#: Of rules that judge time in which something is waited for.
WAITING: Final[Texts] = {
    ("fail", None): (_SIZE, ("{pattern}",)),
    ("pass", None): ((_IN_TIME,),),
    ("pass", "short"): ((_SHORT,),),
}
