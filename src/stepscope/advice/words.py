"""What a rule says, as data; its numbers are filled in where findings are read out.

A sentence may hold names in braces: the fields of `Finding` that are numbers, the
title, the threshold, any fact by its name, and

- `{passed}`: what is true when the rule passes;
- `{named}`: the largest part by name, with file and line;
- `{function}`: the same, known where it is a function that the steps call;
- `{worker_function}`: the function that worker processes of the program are in;
- `{cause}`: the largest cause, in words;
- `{subject}`: the largest part, where a verb follows;
- `{sleeper}`: that the largest part waits, and in what it calls;
- `{elsewhere}`: what another thread of the program is in while the steps wait;
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
#: Category → its owners in the account → what their time is; one word for each owner,
#: wherever it is told.
OWNERS_OF: Final = {
    "compilation": {"compile": "compilation"},
    "input": {
        "input": "waiting for input",
        "copy_in": "copying batches to the device",
    },
    "output": {
        "output": "reading results back",
        "copy_out": "copying results back",
    },
    "kernel_launch": {"launch": "waiting for launches"},
    "host_compute": {"host_compute": "host compute"},
    "device_collectives": {
        "collective": "communication",
        "peer": "waiting for an exchange with other workers",
    },
    "device_to_device": {
        "copy_within": "copying on the device",
        "memset": "clearing memory",
        "transfer_wait": "waiting for transfers",
    },
    "device_compute_16": {"compute_16": "computing in 16 bit"},
    "device_compute_32": {
        "compute_32": "computing in 32 bit",
        "compute_tf32": "computing in TF32",
        "compute_64": "computing in 64 bit",
    },
    "other": {
        "profiler": "the recording itself",
        "switch": "switching between activities",
        "queued": "idle with launched work waiting",
        "sync": "synchronising",
        "between": "between steps",
        "unexplained": "unexplained",
    },
}
#: Owner of the account → what its time is.
OWNER_WORDS: Final = {
    owner: words for owners in OWNERS_OF.values() for owner, words in owners.items()
}
