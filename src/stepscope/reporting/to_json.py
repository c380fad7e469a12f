"""JSON of a tool's answer and of a whole report.

The JSON never contains NaN or infinity. Integers above 2^53, which many readers round,
are written as text.

Definition: docs/definitions/times-and-values.md#the-json-of-an-answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import OWNER_TEXTS
from stepscope.analysis.results.walk import struct_fields
from stepscope.reporting.envelope import SCHEMA, Envelope, result_doubts
from stepscope.reporting.outline.comparison import (
    check_text,
    explaining_sentences,
    verdict_sentence,
)
from stepscope.reporting.outline.gaps import gap_text
from stepscope.reporting.outline.hangs import hang_text, what_to_do
from stepscope.reporting.outline.promises import promise_lines
from stepscope.reporting.plain import plain, plain_fields
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.explanation import Explanation
    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.analysis.hangs.hang import Hang
    from stepscope.compare.comparison import Comparison
    from stepscope.reporting.document import Document
    from stepscope.reporting.envelope import Doubt, Profile
    from stepscope.reporting.plain import Plain
    from stepscope.trials.trying import TryAnswer

#: Fields of a result that are next to `data` in the envelope, not inside it.
_ENVELOPE_FIELDS: Final = frozenset({"missing", "inputs", "quality"})


def make_envelope(
    tool: str,
    result: msgspec.Struct | Unavailable,
    *,
    profile: Profile,
    quality: tuple[Doubt, ...],
) -> Envelope:
    """Put a result, or the reason why it is missing, into an envelope."""
    absent = result if isinstance(result, Unavailable) else None
    return Envelope(
        tool=tool,
        profile=profile,
        unavailable=absent,
        missing=getattr(result, "missing", ()),
        quality=(*quality, *result_doubts(result)),
        inputs=dict(getattr(result, "inputs", {})),
        data=None if absent else result,
    )


def render_envelope(answer: Envelope) -> bytes:
    """Write one JSON object, indented by two blanks, with one newline at the end."""
    return _indented_json(plain_envelope(answer))


def render_document(
    document: Document, more_members: dict[str, object] | None = None
) -> bytes:
    """Write the findings, the results of all tools, and the profile once."""
    tools: dict[str, Plain] = {}
    for name, result in document.tools.items():
        answer = make_envelope(
            name, result, profile=document.profile, quality=document.quality
        )
        written = plain_envelope(answer)
        tools[name] = {
            key: written[key] for key in ("unavailable", "missing", "inputs", "data")
        }
    return _indented_json(
        {
            "schema": SCHEMA,
            "headline": plain(document.headline),
            "profile": plain(document.profile),
            "quality": plain(document.quality),
            "tools": tools,
            "findings": plain(document.findings),
            "checklist": plain(document.checklist),
            "hardware": plain(document.hardware),
            **plain_fields(more_members or {}),
        }
    )


def render_comparison(
    comparison: Comparison, more_members: dict[str, object] | None = None
) -> bytes:
    """Write a comparison of two runs as one object, with the sentences of its page."""
    texts: dict[str, object] = {
        "verdict": verdict_sentence(comparison),
        "explaining": explaining_sentences(comparison),
        "checks": [check_text(check) for check in comparison.parity.checks],
        "promises": list(
            promise_lines(
                comparison.promises,
                comparison.per,
                reasons=comparison.parity.comparable,
            )
        ),
    }
    members = {**plain_fields(comparison), "words": plain(texts)}
    members |= plain_fields(more_members or {})
    return _indented_json({"schema": SCHEMA, **members})


def render_explanation(explained: Explanation) -> bytes:
    """Write how a rule reached its verdict, as one object."""
    return _indented_json({"schema": SCHEMA, **plain_fields(explained)})


def render_trials(answer: TryAnswer) -> bytes:
    """Write what `stepscope try` found out, as one object."""
    return _indented_json({"schema": SCHEMA, **plain_fields(answer)})


def render_gap(gap: GapExplanation | Unavailable) -> bytes:
    """Write what an interval's time is attributed to, with the page's sentences."""
    if isinstance(gap, Unavailable):
        return _indented_json({"schema": SCHEMA, "unavailable": plain(gap)})
    owners: list[Plain] = [
        {"owner": owned.owner, "label": OWNER_TEXTS[owned.owner], **plain_fields(owned)}
        for owned in gap.owners
    ]
    return _indented_json(
        {
            "schema": SCHEMA,
            "unavailable": None,
            "text": gap_text(gap),
            **plain_fields(gap),
            "owners": owners,
        }
    )


def render_hang(hang: Hang, unread: Sequence[str]) -> bytes:
    """Write why a job hangs, the sentences about it, and what was not read."""
    texts: dict[str, Plain] = {
        "text": hang_text(hang),
        "to_do": what_to_do(hang),
        "unread": list(unread),
    }
    return _indented_json({"schema": SCHEMA, **texts, **plain_fields(hang)})


def plain_envelope(answer: Envelope) -> dict[str, Plain]:
    """Return the envelope as plain JSON values."""
    members = struct_fields(answer.data)
    data = members and {
        key: member for key, member in members.items() if key not in _ENVELOPE_FIELDS
    }
    return plain_fields({**(struct_fields(answer) or {}), "data": data})


def _indented_json(value: Plain) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
