"""Advice for each category of host-side input time, and the verdict in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.derive.input_pipeline.stages import read_name
from stepscope.derive.verdicts.input_actions import action_for_category
from stepscope.derive.verdicts.input_verdict import HIGHLY, MODERATELY, NOT, UNKNOWN
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.verdicts.input_actions import InputFact
    from stepscope.derive.verdicts.input_verdict import InputVerdict

#: Copies count as small if the calls that send data and the copies themselves take at
#: most this time on average, in µs. (An asynchronous call is short for any size.)
_SMALL_US: Final = 100.0


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """Advice on one category of input time.

    Attributes:
        category: Host-side category that the advice shortens, or one of
            `waiting_for_workers`, `outside_markers` and `not_recorded`.
        self_time_us: Self time of the category's ops, in µs; null for `outside_markers`
            and `not_recorded`.
        self_time_percent: Share of the category in the self time of all input ops; null
            for `outside_markers` and `not_recorded`.
        advice: What to do.
    """

    category: str
    self_time_us: float | None
    self_time_percent: float | None
    advice: str


def next_steps(
    spent_us: Mapping[str, float | None],
    *,
    outside_markers: bool,
    leading: str | None = None,
    sends: int = 1,
    copy_us: float = 0.0,
    slowest: str | None = None,
    workers_idle: bool | None = None,
    workers_in: str | None = None,
) -> tuple[NextStep, ...]:
    """Return advice for each category with time, categories that steps wait for first.

    Args:
        spent_us: Category → self time of its ops in µs; None if unknown.
        outside_markers: Whether the iterator is called between the steps' markers.
        leading: Longest wait of steps: `fetch`, `transfer`, `starved`; None if unknown.
        sends: Number of calls that send data to a device.
        copy_us: Mean time of a copy to the device, on the device; 0 if unknown.
        slowest: Long name of the slowest stage on the critical path; None if unknown.
        workers_idle: Whether all workers idle while steps wait; None if unknown.
        workers_in: Function that takes most of the workers' time, with file and line;
            None if no function does.
    """
    call_us = (spent_us.get("enqueue") or 0.0) / max(sends, 1)
    facts: dict[InputFact, bool] = {
        "copies_are_small": max(call_us, copy_us) < _SMALL_US,
        "stage_has_own_threads": slowest is not None
        and read_name(slowest).asynchronous,
        "workers_are_idle": bool(workers_idle),
        "worker_function_known": workers_in is not None,
    }
    holding = [name for name, holds in facts.items() if holds]
    known_us = {name: time for name, time in spent_us.items() if time}
    total_us = sum(known_us.values())
    # Categories that are listed last, because steps wait longer for something else.
    late = {
        name
        for name in known_us
        if leading is not None and (name == "enqueue") is not (leading == "transfer")
    }
    noted = {"outside_markers": outside_markers, "not_recorded": leading == "starved"}
    ordered = (
        *((name, None) for name, is_noted in noted.items() if is_noted),
        *sorted(known_us.items(), key=lambda item: (item[0] in late, -item[1])),
    )
    return tuple(
        NextStep(
            category=name,
            self_time_us=time_us,
            self_time_percent=None if time_us is None else 100.0 * time_us / total_us,
            advice=action_for_category(name, holding).text.replace(
                "{place}", workers_in or ""
            ),
        )
        for name, time_us in ordered
    )


def verdict_text(
    verdict: str,
    input_percent: float | None,
    at_most_percent: float | None,
    *,
    has_steps: bool,
    decided: InputVerdict | None,
) -> str:
    """Return the verdict in one or two sentences.

    Args:
        input_percent: Known share of input.
        at_most_percent: Upper bound of the share; None if hosts have no common share.
        has_steps: Whether the shares refer to steps, or to the whole recording.
        decided: Basis of the verdict; None if it follows another producer's rules.
    """
    if at_most_percent is None:
        if verdict == UNKNOWN:
            return "Whether the program is input-bound is not known."
        subject = (decided.label if decided else "") or "The program"
        return (
            f"{subject} is {_VERDICT_TEXTS[verdict]}. Each host is judged separately."
        )
    reference = "step time" if has_steps else "recording (no steps are known)"
    if input_percent is None:
        share = f"at most {max(at_most_percent, 0.1):.1f} %"
    elif at_most_percent - input_percent < _MIN_DISPLAYED_DIFFERENCE:
        share = _percent_text(input_percent)
    else:
        share = f"at least {input_percent:.1f} %"
    spent = f"{share} of the {reference} is spent waiting for input or transferring it"
    if verdict != UNKNOWN:
        remaining_work = (
            " Work on the rest of the step." if has_steps else " Work on the rest."
        )
        next_step = {HIGHLY: " Work on the input first.", NOT: remaining_work}.get(
            verdict, ""
        )
        starved = 0.0 if decided is None else decided.part_percent("starved")
        of_it = (
            f" ({starved:.1f} % is idle time before the copy of a batch, without a "
            "recorded cause)"
            if starved >= _MIN_DISPLAYED_DIFFERENCE
            else ""
        )
        more = "" if decided is None else _verdict_reasons(decided, input_percent)
        bound = _VERDICT_TEXTS[verdict]
        return f"The program is {bound}: {spent}{of_it}.{more}{next_step}"
    if decided is not None and decided.why is not None:
        return (
            "Whether the program is input-bound is not known. "
            f"{decided.why.reason} {spent[:1].upper()}{spent[1:]}."
        )
    known = "nothing" if input_percent is None else _percent_text(input_percent)
    return (
        f"Whether the program is input-bound is not known: {known} of the {reference} "
        f"is known to be input, but up to {at_most_percent:.1f} % may be."
    )


def _verdict_reasons(decided: InputVerdict, input_percent: float | None) -> str:
    """Return sentences that explain a verdict which the share alone would not give."""
    share = decided.share_percent
    sentences = []
    if input_percent is None or abs(share - input_percent) >= _MIN_DISPLAYED_DIFFERENCE:
        share_text = f"whose share is {_percent_text(share)}"
        sentences.append(f"The verdict is that of {decided.label}, {share_text}.")
    warn, critical = THRESHOLDS.input_warn.value, THRESHOLDS.input_critical.value
    steps = len(decided.series.window_ps)
    if share >= warn and decided.word == NOT:
        min_us = THRESHOLDS.smallest_effect.value / PS_PER_US
        sentences.append(f"The input takes less than {min_us:g} µs per step.")
    elif decided.status.note == "once":
        sentences.append("Without the longest wait, the share is below the threshold.")
    elif decided.status.note == "noisy":
        sentences.append("The time varies strongly from step to step.")
    elif share >= critical and decided.word == MODERATELY:
        judged = "1 step is" if steps == 1 else f"{steps} steps are"
        sentences.append(
            f"{judged} too few for the verdict highly input-bound."
            if decided.series.step_source
            else "Without steps, the verdict is at most moderately input-bound."
        )
    return "".join(f" {sentence}" for sentence in sentences)


_VERDICT_TEXTS: Final = {
    HIGHLY: "highly input-bound",
    MODERATELY: "moderately input-bound",
    NOT: "not input-bound",
}


def _percent_text(value: float) -> str:
    """Return a share as text; a positive share is never shown as 0."""
    return "<0.1 %" if 0.0 < value < _MIN_DISPLAYED_PERCENT else f"{value:.1f} %"


#: Minimum difference, in percentage points, that is visible with one decimal.
_MIN_DISPLAYED_DIFFERENCE: Final = 0.05
#: Minimum share, in percent, that is shown as a number; smaller shares as "less than".
_MIN_DISPLAYED_PERCENT: Final = 0.1
