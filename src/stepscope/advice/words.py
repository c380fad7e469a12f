"""What a rule says, as data; its numbers are filled in where findings are read out.

A sentence may hold names in braces: the fields of `Finding` that are numbers, the
title, the threshold, any fact by its name, and

- `{passed}`: what is true when the rule passes;
- `{typical}`: the value, known where it differs much from the share of all time;
- `{overall}`: the share of all time, known where it reaches the threshold.

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
        passed: What is true when the rule passes.
        causes: Stable word of a cause or reason → the words that people read.
    """

    texts: Texts
    passed: str | None = None
    causes: dict[str, str] = {}


_IN_TIME: Final = (
    "{passed}: waiting takes {value:nothing} of a typical step (a matter from "
    "{threshold} on)."
)
_SHORT: Final = (
    "Waiting takes only {typical_effect} of a typical step (a matter from "
    "{smallest_effect} on). It is {value} of it because the steps are so short."
)
_SELDOM: Final = (
    "Waiting is seen in only {steps_hit} of {steps_clean} steps, too few to call it "
    "the rule. Where it is seen it is long: {value} of a typical step."
)
#: Of rules that judge time in which something is waited for.
WAITING: Final[Texts] = {
    ("fail", None): (
        (
            "{title}: {share_percent} of the step time, {ms_per_step} a step.",
            "{title}: {share_percent} of the time.",
        ),
        ("In a typical step it is {typical}.",),
    ),
    ("pass", None): (
        (_IN_TIME,),
        ("Over all steps it is {overall}: a few of them wait long.",),
    ),
    ("pass", "short"): ((_SHORT,),),
    ("pass", "seldom"): ((_SELDOM,),),
}
