"""Whether two runs do the same work, so that their times may be compared.

Definition: docs/compare.md#the-same-work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.compare.work import Counts, Work
    from stepscope.thresholds import Thresholds

#: What is compared; `work` is what a step runs: kernels, else ops.
Topic = Literal["devices", "steps", "batch", "model", "kernels", "ops"]

_SAME_WORK: Final = (
    "Compare runs that differ in one change. If you know that both do the same work in "
    "a step, say so with --same-work."
)
_OTHER_WORK: Final = "Compare with a run of the same batch, model and devices."


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One look at whether two runs do the same.

    Attributes:
        topic: What was compared.
        status: "same"; "differs"; "unknown" where a run does not show it.
        overlap: Share of what either run does that both do (Jaccard index of
            multisets), 0 to 1; null where nothing was counted.
        base: What the base run shows; null where it shows nothing.
        new: What the new run shows; null likewise.
        by: What it was seen from; null where it was seen from nothing.
        reason: Why it is not "same", as a sentence; null where it is.
    """

    topic: Topic
    status: Literal["same", "differs", "unknown"]
    overlap: float | None = None
    base: str | None = None
    new: str | None = None
    by: str | None = None
    reason: str | None = None


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether times of two runs may be compared.

    Attributes:
        checks: What was looked at, in the order of importance.
        vouched: Whether somebody stated that the work is the same, and this counted
            because the recordings do not show it.
        unavailable: Why the runs are not comparable; null where they are.
    """

    checks: tuple[Check, ...]
    vouched: bool
    unavailable: Unavailable | None

    @property
    def comparable(self) -> bool:
        """Whether the same work is proven, or stated and not disproven."""
        return self.unavailable is None


def parity_of(
    base: Work, new: Work, *, thresholds: Thresholds, same_work: bool = False
) -> Parity:
    """Compare the work of two runs.

    Args:
        base: Work of a step of the one run.
        new: Work of a step of the other.
        thresholds: How much must overlap.
        same_work: Whether somebody states that the work is the same: it outweighs what
            the recordings do not show, but not what they show to differ.
    """
    checks = (
        _check_devices(base, new),
        _check_steps(base, new, thresholds),
        _check_batch(base, new, thresholds),
        _check_model(base, new),
        _check_counts("kernels", base.kernels, new.kernels, thresholds),
        _check_counts("ops", base.ops, new.ops, thresholds),
    )
    disproof = [one for one in checks[:4] if one.status == "differs"]
    doubts = [one for one in checks[1:3] if one.status == "unknown"]
    ran = checks[4:]
    if not any(one.status == "same" for one in ran):
        known = [one for one in ran if one.status == "differs"]
        doubts += known or [ran[1]]
    # Without steps there is nothing to compare, whatever somebody states.
    stepless = [one for one in doubts if one.topic == "steps"]
    against = disproof or stepless or ([] if same_work else doubts)
    reason = " ".join(one.reason for one in against if one.reason is not None)
    return Parity(
        checks=checks,
        vouched=same_work and bool(doubts) and not against,
        unavailable=Unavailable(
            code="OTHER_WORK",
            reason=reason,
            remedy=_OTHER_WORK if disproof or stepless else _SAME_WORK,
        )
        if against
        else None,
    )


def overlap(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the Jaccard index of two multisets: 1 where they are equal."""
    names = a.keys() | b.keys()
    common = sum(min(a.get(one, 0.0), b.get(one, 0.0)) for one in names)
    either = sum(max(a.get(one, 0.0), b.get(one, 0.0)) for one in names)
    return common / either if either else 1.0


def _check_devices(base: Work, new: Work) -> Check:
    told = [_device_text(one) for one in (base, new)]
    same = (base.devices, base.processes) == (new.devices, new.processes)
    return Check(
        topic="devices",
        status="same" if same else "differs",
        base=told[0],
        new=told[1],
        reason=None
        if same
        else f"The devices differ: {told[0]} before, {told[1]} now.",
    )


def _device_text(work: Work) -> str:
    kinds = ", ".join(f"{n} × {name}" for name, n in work.devices.items())
    processes = "" if work.processes == 1 else f", {work.processes} processes"
    return f"{kinds or 'no device'}{processes}"


def _check_steps(base: Work, new: Work, thresholds: Thresholds) -> Check:
    reasons = []
    for name, work in (("base", base), ("new", new)):
        if work.steps < thresholds.few_steps.value:
            reasons.append(
                f"The {name} run shows {work.steps or 'no'} whole "
                f"{'step' if work.steps == 1 else 'steps'}, and it takes at least "
                f"{thresholds.few_steps.value:g} to tell a change from chance."
            )
        elif work.confidence < thresholds.medium_confidence.value:
            reasons.append(f"The steps of the {name} run are not certain enough.")
    return Check(
        topic="steps",
        status="unknown" if reasons else "same",
        base=str(base.steps),
        new=str(new.steps),
        by=base.step_source if base.step_source == new.step_source else None,
        reason=" ".join(reasons) or None,
    )


def _check_batch(base: Work, new: Work, thresholds: Thresholds) -> Check:
    """Compare the sizes of batches by the best evidence that both runs hold."""
    if base.batch_sizes is not None and new.batch_sizes is not None:
        told = [", ".join(map(str, one.batch_sizes or ())) for one in (base, new)]
        if base.batch_sizes != new.batch_sizes:
            why = (
                f"The input pipeline makes batches of {told[0]} before, {told[1]} now."
            )
            return Check(
                topic="batch",
                status="differs",
                base=told[0],
                new=told[1],
                by="pipeline",
                reason=why,
            )
    for by, a, b in (
        ("operands", base.shapes, new.shapes),
        ("programs", base.program_inputs, new.program_inputs),
        ("launches", base.launches, new.launches),
    ):
        shared = None if a is None or b is None else _shape_agreement(a, b)
        if shared is not None:
            return _check_shapes(by, *shared, thresholds)
    if base.batch_sizes is not None and base.batch_sizes == new.batch_sizes:
        told_both = ", ".join(map(str, base.batch_sizes))
        return Check(
            topic="batch", status="same", base=told_both, new=told_both, by="pipeline"
        )
    if base.copied_bytes and new.copied_bytes:
        less, more = sorted((base.copied_bytes, new.copied_bytes))
        if less / more >= thresholds.same_shapes.value:
            return Check(topic="batch", status="same", overlap=less / more, by="copies")
    return Check(
        topic="batch",
        status="unknown",
        reason="Nothing that both runs recorded shows the size of a batch (sizes of "
        "operands, inputs of compiled programs, stages of the input pipeline).",
    )


def _shape_agreement(
    a: Mapping[str, Counts], b: Mapping[str, Counts]
) -> tuple[float, str | None] | None:
    """Return how far the shapes agree where a name runs as often in both.

    With it comes a name whose shapes differ. None where such names make up less than
    half of either run: then nothing follows from the others.
    """
    common = either = 0.0
    different, largest = None, 0.0
    for name in sorted(a.keys() & b.keys()):
        runs = sum(a[name].values()), sum(b[name].values())
        if abs(runs[0] - runs[1]) > 0.01 * max(runs):
            continue
        shapes = a[name].keys() | b[name].keys()
        agreed = sum(
            min(a[name].get(one, 0.0), b[name].get(one, 0.0)) for one in shapes
        )
        common += agreed
        either += max(runs)
        if max(runs) - agreed > max(largest, 0.01 * max(runs)):
            different, largest = name, max(runs) - agreed
    whole = max(sum(sum(one.values()) for one in run.values()) for run in (a, b))
    enough = either > 0 and either >= whole / 2
    return (common / either, different) if enough else None


def _check_shapes(
    by: str, agreed: float, different: str | None, thresholds: Thresholds
) -> Check:
    # A program is compiled for its sizes: a single other one makes it another program.
    wanted = 1.0 if by == "programs" else thresholds.same_shapes.value
    same = agreed >= wanted
    what = {"operands": "operands", "programs": "inputs"}.get(by, "launches")
    return Check(
        topic="batch",
        status="same" if same else "differs",
        overlap=agreed,
        by=by,
        reason=None
        if same
        else f"The sizes of the {what} differ in {100 * (1 - agreed):.0f} % of "
        f"what both runs have, as of `{different}`: another batch or model.",
    )


def _check_model(base: Work, new: Work) -> Check:
    if base.variables is None or new.variables is None:
        return Check(topic="model", status="unknown", reason=_NO_VARIABLES)
    counts = [sum(one.variables.values()) for one in (base, new) if one.variables]
    told = [f"{n} {'variable' if n == 1 else 'variables'}" for n in counts]
    same = base.variables == new.variables
    return Check(
        topic="model",
        status="same" if same else "differs",
        base=told[0],
        new=told[1],
        reason=None if same else "The variables of the model have other sizes.",
    )


_NO_VARIABLES: Final = "The variables of the model were not recorded in both runs."


def _check_counts(
    topic: Literal["kernels", "ops"],
    base: Counts | None,
    new: Counts | None,
    thresholds: Thresholds,
) -> Check:
    told = [None if one is None else f"{sum(one.values()):.0f}" for one in (base, new)]
    if base is None or new is None:
        return Check(
            topic=topic,
            status="unknown",
            base=told[0],
            new=told[1],
            reason=f"The {topic} of a step were not recorded in both runs.",
        )
    found = overlap(base, new)
    same = found >= thresholds.same_work.value
    return Check(
        topic=topic,
        status="same" if same else "differs",
        overlap=found,
        base=told[0],
        new=told[1],
        reason=None
        if same
        else f"Only {100 * found:.0f} % of the {topic} of a step are those of the "
        f"other run (at least {100 * thresholds.same_work.value:.0f} % are wanted).",
    )
