"""Whether two runs do the same work, so that their times can be compared.

Definition: docs/compare.md#the-same-work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.compare.work import Counts, Work
    from stepscope.thresholds import Thresholds

#: What a check compares.
Topic = Literal["devices", "steps", "batch", "model", "kernels", "ops"]

_SAME_WORK: Final = (
    "Compare runs that differ in one change. If you know that both do the same work in "
    "a step, add --same-work."
)
_OTHER_WORK: Final = "Compare with a run of the same batch, model and devices."


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of whether two runs do the same work.

    Attributes:
        topic: Subject of the check.
        status: "same"; "differs"; "unknown" if a run does not show the subject.
        overlap: Share of the work of both runs that they have in common (Jaccard index
            of multisets), from 0 to 1; null if no work was counted.
        base: Value of the base run, as text; null if unknown.
        new: Value of the new run, as text; null if unknown.
        by: Evidence that was compared; null without evidence.
        reason: Why the status is not "same", as a sentence; null if it is "same".
    """

    topic: Topic
    status: Literal["same", "differs", "unknown"]
    overlap: float | None = None
    base: str | None = None
    new: str | None = None
    by: str | None = None
    reason: str | None = None


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the times of two runs can be compared.

    Attributes:
        checks: All checks, most important first.
        vouched: Whether only the user's statement shows that the work is the same.
        unavailable: Why the runs are not comparable; null if they are.
    """

    checks: tuple[Check, ...]
    vouched: bool
    unavailable: Unavailable | None

    @property
    def comparable(self) -> bool:
        """Whether the work is proven the same, or stated the same and not disproven."""
        return self.unavailable is None


def check_parity(
    base: Work, new: Work, *, thresholds: Thresholds, same_work: bool = False
) -> Parity:
    """Compare the work per step of two runs.

    The user's statement that the work is the same outweighs missing evidence, but not
    recorded differences.
    """
    checks = (
        _compare_devices(base, new),
        _compare_steps(base, new, thresholds),
        _compare_batches(base, new, thresholds),
        _compare_models(base, new),
        _compare_counts("kernels", base.kernels, new.kernels, thresholds),
        _compare_counts("ops", base.ops, new.ops, thresholds),
    )
    disproof = [check for check in checks[:4] if check.status == "differs"]
    doubts = [check for check in checks[1:3] if check.status == "unknown"]
    ran = checks[4:]
    if not any(check.status == "same" for check in ran):
        doubts += [check for check in ran if check.status == "differs"] or [ran[1]]
    # Without steps in a run, no times can be compared, whatever the user states.
    stepless = [check for check in doubts if check.topic == "steps"]
    against = disproof or stepless or ([] if same_work else doubts)
    return Parity(
        checks=checks,
        vouched=same_work and bool(doubts) and not against,
        unavailable=Unavailable(
            code="OTHER_WORK",
            reason=" ".join(check.reason for check in against if check.reason),
            remedy=_OTHER_WORK if disproof or stepless else _SAME_WORK,
        )
        if against
        else None,
    )


def multiset_overlap(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the Jaccard index of two multisets; 1 if they are equal."""
    pairs = [(a.get(name, 0.0), b.get(name, 0.0)) for name in a.keys() | b.keys()]
    common, either = sum(map(min, pairs)), sum(map(max, pairs))
    return common / either if either else 1.0


def _check_same(topic: Topic, why_not: str, *, same: bool, **fields: Any) -> Check:
    return Check(
        topic=topic,
        status="same" if same else "differs",
        reason=None if same else why_not,
        **fields,
    )


def _compare_devices(base: Work, new: Work) -> Check:
    shown, now = (
        (", ".join(f"{n} × {name}" for name, n in work.devices.items()) or "no device")
        + ("" if work.processes == 1 else f", {work.processes} processes")
        for work in (base, new)
    )
    same = (base.devices, base.processes) == (new.devices, new.processes)
    why_not = f"The devices differ: {shown} before, {now} now."
    return _check_same("devices", why_not, same=same, base=shown, new=now)


def _compare_steps(base: Work, new: Work, thresholds: Thresholds) -> Check:
    reasons = []
    for name, work in (("base", base), ("new", new)):
        if work.steps < thresholds.few_steps.value:
            reasons.append(
                f"The {name} run has {work.steps or 'no'} whole "
                f"{'step' if work.steps == 1 else 'steps'}; at least "
                f"{thresholds.few_steps.value:g} are needed to distinguish a change "
                "from chance."
            )
        elif work.confidence < thresholds.medium_confidence.value:
            reasons.append(f"The steps of the {name} run were not found reliably.")
    return Check(
        topic="steps",
        status="unknown" if reasons else "same",
        base=str(base.steps),
        new=str(new.steps),
        by=base.step_source if base.step_source == new.step_source else None,
        reason=" ".join(reasons) or None,
    )


def _compare_batches(base: Work, new: Work, thresholds: Thresholds) -> Check:
    """Compare batch sizes by the best evidence that both runs contain."""
    sizes = base.batch_sizes, new.batch_sizes
    shown, now = (None if size is None else ", ".join(map(str, size)) for size in sizes)
    from_stages = _check_same(
        "batch",
        f"The batch size of the input pipeline differs: {shown} before, {now} now.",
        same=base.batch_sizes == new.batch_sizes,
        base=shown,
        new=now,
        by="pipeline",
    )
    if None not in sizes and from_stages.status == "differs":
        return from_stages
    for evidence, a, b in (
        ("operands", base.shapes, new.shapes),
        ("programs", base.program_inputs, new.program_inputs),
        ("launches", base.launches, new.launches),
    ):
        shared = None if a is None or b is None else _agreement_of_shapes(a, b)
        if shared is None:
            continue
        agreed, different = shared
        # A compiled program has fixed sizes, so a different size is another program.
        wanted = 1.0 if evidence == "programs" else thresholds.same_shapes.value
        what = {"operands": "operands", "programs": "inputs"}.get(evidence, "launches")
        return _check_same(
            "batch",
            f"{100 * (1 - agreed):.0f} % of the {what} that both runs have differ in "
            f"size, for example of `{different}`: the batch size or the model differs.",
            same=agreed >= wanted,
            overlap=agreed,
            by=evidence,
        )
    if base.batch_sizes is not None and from_stages.status == "same":
        return from_stages
    if base.copied_bytes and new.copied_bytes:
        less, more = sorted((base.copied_bytes, new.copied_bytes))
        if less / more >= thresholds.same_shapes.value:
            return Check(topic="batch", status="same", overlap=less / more, by="copies")
    return Check(
        topic="batch",
        status="unknown",
        reason="The recordings do not show the batch size of both runs in the same way "
        "(sizes of operands, inputs of compiled programs, stages of the input "
        "pipeline).",
    )


def _agreement_of_shapes(
    a: Mapping[str, Counts], b: Mapping[str, Counts]
) -> tuple[float, str | None] | None:
    """Return the share of equal shapes among names that run equally often in both runs.

    The second value is the name whose shapes differ most; null if all shapes agree. The
    result is None if such names are less than half of either run, which proves nothing.
    """
    common = either = 0.0
    different, largest = None, 0.0
    for name in sorted(a.keys() & b.keys()):
        runs = sum(a[name].values()), sum(b[name].values())
        if abs(runs[0] - runs[1]) > 0.01 * max(runs):
            continue
        shapes = a[name].keys() | b[name].keys()
        agreed = sum(
            min(a[name].get(shape, 0.0), b[name].get(shape, 0.0)) for shape in shapes
        )
        common += agreed
        either += max(runs)
        if max(runs) - agreed > max(largest, 0.01 * max(runs)):
            different, largest = name, max(runs) - agreed
    max_runs = max(sum(sum(shape.values()) for shape in run.values()) for run in (a, b))
    enough = either > 0 and either >= max_runs / 2
    return (common / either, different) if enough else None


def _compare_models(base: Work, new: Work) -> Check:
    if base.variables is None or new.variables is None:
        why = "The variables of the model were not recorded in both runs."
        return Check(topic="model", status="unknown", reason=why)
    counts = (sum(variables.values()) for variables in (base.variables, new.variables))
    shown, now = (f"{n} {'variable' if n == 1 else 'variables'}" for n in counts)
    same = base.variables == new.variables
    why_not = "The variables of the model differ in size."
    return _check_same("model", why_not, same=same, base=shown, new=now)


def _compare_counts(
    topic: Literal["kernels", "ops"],
    base: Counts | None,
    new: Counts | None,
    thresholds: Thresholds,
) -> Check:
    shown, now = (
        None if counts is None else f"{sum(counts.values()):.0f}"
        for counts in (base, new)
    )
    if base is None or new is None:
        return Check(
            topic=topic,
            status="unknown",
            base=shown,
            new=now,
            reason=f"The {topic} of a step were not recorded in both runs.",
        )
    shared = multiset_overlap(base, new)
    wanted = thresholds.same_work.value
    return _check_same(
        topic,
        f"Only {100 * shared:.0f} % of the {topic} of a step are the same in both runs "
        f"(at least {100 * wanted:.0f} % are required).",
        same=shared >= wanted,
        overlap=shared,
        base=shown,
        new=now,
    )
