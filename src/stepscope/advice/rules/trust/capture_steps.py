"""`capture.steps`: are there steps, and do their marks enclose the input.

Definition: docs/advice/capture_steps.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding, Severity
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.judged_steps import step_signals
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.judged_steps import HostSteps
    from stepscope.thresholds import Thresholds

_MARK: Final = "Mark each step, with the fetch of its batch inside the mark."
_RANGE: Final = (
    "Put an NVTX range with the number of the step around each step, with the fetch of "
    "its batch inside, and record with `nsys profile --trace=cuda,nvtx`."
)
_ACTIONS: Final = (
    Action(
        cause="ended",
        framework="any",
        text="Let the program come to its steps, and record it again: its own output "
        "says what ended it.",
    ),
    Action(
        cause="ended",
        framework="any",
        text="One that has no steps is recorded from its start.",
        code="stepscope run --wait-s 0 -- COMMAND",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text=f"{_MARK} `Model.fit` marks its own: record several batches of it.",
        code=(
            "with tf.profiler.experimental.Trace('train', step_num=i, _r=1): "
            "step(next(it))"
        ),
        recorder="framework",
    ),
    Action(
        cause="any",
        framework="JAX",
        text=_MARK,
        code=(
            "with jax.profiler.StepTraceAnnotation('train', step_num=i): step(next(it))"
        ),
        recorder="framework",
    ),
    Action(
        cause="any",
        framework="Python",
        text=_MARK,
        code="with ss.StepTrace(i): step(next(it))  # import stepscope as ss",
        recorder="framework",
    ),
    Action(
        cause="none",
        framework="PyTorch",
        text="Tell the profiler where each step ends.",
        code="prof.step()",
        recorder="framework",
    ),
    Action(
        cause="any",
        framework="any",
        text=_RANGE,
        code="with nvtx.annotate(f'step {i}'): step(next(it))  # pip install nvtx",
        recorder="nsight",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="PyTorch has such ranges itself.",
        code="with torch.cuda.nvtx.range(f'step {i}'): step(next(it))",
        recorder="nsight",
    ),
    Action(
        cause="any",
        framework="C++",
        text="So has the CUDA toolkit (nvtx3/nvToolsExt.h).",
        code='nvtxRangePushA(("step " + std::to_string(i)).c_str()); … nvtxRangePop();',
        recorder="nsight",
    ),
)
_WORDS: Final = Words(
    passed="steps are known",
    texts={
        ("fail", None): (
            (
                (
                    "No steps were found: what repeats most, {repeats} times, is no "
                    "step of training or serving. Times per step are not given."
                ),
                (
                    "No steps were found: what repeats is no sure sign of one. Its "
                    "confidence is {confidence}, and {threshold} is needed. Times per "
                    "step are not given."
                ),
                (
                    "No steps were found: nothing recorded marks them (a step that is "
                    "longer than the recording leaves no mark), and neither ops nor "
                    "launches repeat. Times per step are not given."
                ),
            ),
        ),
        ("fail", "ended"): (
            (
                (
                    "{ended_note}: {recorded} of its start were recorded, its "
                    "functions and counters alone."
                ),
            ),
        ),
        ("fail", "plain"): (
            (
                (
                    "No mark of a step was recorded, and the program uses no "
                    "framework: the shares are of the whole recording. Where it marks "
                    "its steps, one is longer than the recording: record for longer."
                ),
            ),
        ),
        ("fail", "inferred"): (
            (
                (
                    "{steps} steps were inferred from what repeats, with a confidence "
                    "of {confidence}."
                ),
            ),
        ),
        ("fail", "outside"): (
            (
                (
                    "The batch is fetched outside the marks of the steps: {outside} of "
                    "the time lies in no step."
                ),
            ),
        ),
        ("pass", None): (
            ("Steps found: {steps}, with a confidence of {confidence}.",),
        ),
    },
    causes={},
)
_ITEM: Final = Item(
    id="capture.steps",
    stage=0,
    title="the steps are not known well enough",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the boundaries on the timeline: is each where a step begins?",
    refute="Mark the steps, and record again: the same boundaries prove the inferred "
    "ones right.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the host whose steps are least known."""
    hosts = signals.of(step_signals)
    if isinstance(hosts, Unavailable):
        return _ITEM.cannot_tell(hosts)
    without = [one for one in hosts.values() if one.source is None]
    if without and all(one.requests for one in without):
        return _ITEM.not_applicable(_REQUESTS)
    label, steps = min(hosts.items(), key=lambda item: _rank(item[1], thresholds))
    note, severity = _flaw(steps, thresholds)
    words = None if note == "none" else note
    if note == "none" and signals.of(frameworks_used) == PLAIN:
        # Nothing says that the program has steps at all.
        severity, words = "info", "plain"
    return _ITEM.finding(
        "pass" if note is None else "fail",
        severity=severity,
        note=words,
        confidence=1.0,
        value=_best(steps, thresholds),
        unit="ratio",
        threshold=thresholds.high_confidence
        if note == "inferred"
        else thresholds.medium_confidence,
        devices=(label,),
        facts=_facts(steps, thresholds),
        inputs=("step_candidates", "steps", "input_between_steps", "requests"),
        actions=_actions(note),
    )


def _actions(note: str | None) -> tuple[Action, ...]:
    """Return what to do; a program without steps yet need not mark them first."""
    if note is None:
        return ()
    causes = {note} if note == "ended" else {"any", note}
    return tuple(one for one in _ACTIONS if one.cause in causes)


def _rank(steps: HostSteps, thresholds: Thresholds) -> tuple[int, float]:
    note, severity = _flaw(steps, thresholds)
    return (-_GRAVITY[severity] if note is not None else 1, steps.confidence)


def _flaw(steps: HostSteps, thresholds: Thresholds) -> tuple[str | None, Severity]:
    """Return what is the matter with the steps of a host; None for nothing."""
    if steps.early_end is not None:
        return "ended", "critical"
    if steps.source is None:
        return "none", "warn"
    outside = steps.outside_percent
    if outside is not None and outside >= thresholds.outside_warn.value:
        return "outside", "warn"
    if steps.confidence < thresholds.high_confidence.value:
        return "inferred", "info"
    return None, "info"


def _best(steps: HostSteps, thresholds: Thresholds) -> float | None:
    """Return the confidence as it is shown, on its own side of what is needed."""
    if steps.source is not None:
        return round(steps.confidence, 2)
    best = max((one.confidence for one in steps.tried), default=None)
    if best is None:
        return None
    shown, needed = round(best, 2), thresholds.medium_confidence.value
    return shown if (shown >= needed) == (best >= needed) else round(shown - 0.01, 2)


def _facts(steps: HostSteps, thresholds: Thresholds) -> tuple[Fact, ...]:
    best = max(steps.tried, key=lambda one: one.confidence, default=None)
    early_end = steps.early_end
    # As sure as steps must be, and yet none: something else speaks against it.
    refused = (
        best.count
        if steps.source is None
        and best is not None
        and best.confidence >= thresholds.medium_confidence.value
        else None
    )
    return (
        Fact(name="steps", value=steps.count, unit="count", note=steps.source),
        Fact(
            name="confidence",
            value=_best(steps, thresholds),
            unit="ratio",
            note=None if best is None else f"{best.count} × {best.what}",
        ),
        Fact(
            name="tried",
            value=len(steps.tried) or None,
            unit="count",
            note="; ".join(
                f"{one.what}: {one.count}, confidence {one.confidence:.2f}"
                for one in steps.tried
            )
            or None,
        ),
        Fact(
            name="repeats",
            value=refused,
            unit="count",
            note=None if best is None else best.what,
        ),
        Fact(name="outside", value=steps.outside_percent, unit="percent"),
        Fact(
            name="ended",
            value=None,
            unit="count",
            note=None if early_end is None else early_end.removesuffix("."),
        ),
        Fact(
            name="recorded",
            value=None if early_end is None else steps.recorded_ps / PS_PER_MS,
            unit="ms",
        ),
    )


_GRAVITY: Final[dict[Severity, int]] = {"critical": 2, "warn": 1, "info": 0}
_REQUESTS: Final = Unavailable(
    code="NO_STEPS",
    reason="The program serves requests: these take the place of steps.",
    remedy="Look at the inference profile.",
)


RULE: Final = Rule(_ITEM, evaluate, (step_signals, frameworks_used))
