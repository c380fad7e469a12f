"""Steps inferred from repetition: repeated launches of a program, else periods.

One formula rates both launches and periods. Rejected candidates stay visible.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.sequences import (
    activity_by_launch,
    device_sequence,
    instruction_sequence,
)
from stepscope.derive.steps.candidates import INFERRED_CONFIDENCE, CandidateSteps
from stepscope.derive.steps.evidence import StepEvidence
from stepscope.derive.steps.inferred_candidates import (
    Measured,
    begin_of_cycle,
    candidate_objection,
    candidate_steps,
    multiset_similarity,
    ranking_key,
    shorten_name,
    unite_threads,
)
from stepscope.derive.steps.launches import (
    Launch,
    count_runs,
    host_launches,
    module_launches,
)
from stepscope.derive.steps.periods import (
    MIN_SIMILARITY,
    MIN_STEPS,
    Period,
    best_period,
    measure_boundaries,
    propose_periods,
)
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.sequences import SymbolSequence
    from stepscope.derive.steps.candidates import SourceTables

#: Maximum number of rejected candidates that the results show.
_MAX_REJECTED_SHOWN: Final = 12
#: Minimum repetitions per execution of a program, to conclude that it contains several.
_MIN_REPETITIONS_PER_RUN: Final = 1.5
#: Minimum similarity (0 to 1) of segments of two threads that count as one step.
_MIN_THREAD_SIMILARITY: Final = 0.9
#: Maximum loss of confidence when boundaries are moved to the begin of their cycle.
_MAX_PHASE_PENALTY: Final = 0.05


def find_inferred(
    tables: SourceTables,
    *,
    host_values: dict[str, StatRows] | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> list[CandidateSteps]:
    """Return candidates from launches, and from periods if launches are not enough."""
    activity = None if isinstance(device_activity, Unavailable) else device_activity
    matched = None if isinstance(correlation, Unavailable) else correlation
    tracks, events, event_kinds = tables.tracks, tables.events, tables.event_kinds
    evidence = StepEvidence(
        tracks, events, tables.event_types, event_kinds, activity, matched
    )
    instructions = None
    if not isinstance(host_values, Unavailable):
        instructions = instruction_sequence(
            tracks, events, event_kinds, host_values[StatKey.HLO_OP].owner
        )
    kernels = by_launch = None
    if activity is not None:
        launch_of = None if matched is None else matched.launch_of_activity
        by_launch = None if matched is None else activity_by_launch(matched)
        kernels = device_sequence(tracks, activity, launch_of)
    found = _launch_candidates(evidence, by_launch=by_launch, instructions=instructions)
    best = _best_measured(evidence, found)
    for sequence, track in _searched_sequences(evidence, kernels, instructions):
        if best is not None and best.confidence >= INFERRED_CONFIDENCE:
            break
        periods = _period_candidates(evidence, sequence, track=track)
        found += periods
        rival = _best_measured(evidence, periods)
        if best is None or (
            rival is not None and ranking_key(rival) > ranking_key(best)
        ):
            best = rival
    passes = _equal_passes(evidence)
    if passes is not None and _are_better(passes, best):
        found.append(passes)
        best = passes
    rejected = [each for each in found if best is None or each.what != best.what]
    rejected.sort(key=lambda each: -each.confidence)
    chosen = [] if best is None else [best]
    return [
        candidate_steps(each, rejected=each is not best)
        for each in [*chosen, *rejected[:_MAX_REJECTED_SHOWN]]
    ]


def _launch_candidates(
    evidence: StepEvidence,
    *,
    by_launch: SymbolSequence | None,
    instructions: SymbolSequence | None,
) -> list[Measured]:
    best = []
    for launch in host_launches(evidence.tracks, evidence.events, evidence.event_kinds):
        if by_launch is not None:
            sequences = [by_launch]
        else:
            tried = (evidence.ops.get(launch.track), instructions, evidence.ops.get(-1))
            sequences = [sequence for sequence in tried if sequence is not None]
        measured = [
            _measured_launch(evidence, launch, sequence)
            for sequence in sequences
            if len(sequence)
        ]
        if measured:
            best.append(max(measured, key=ranking_key))
    for sequence, launches in module_launches(evidence.tracks, evidence.events):
        best += [_measured_launch(evidence, launch, sequence) for launch in launches]
    return best


def _measured_launch(
    evidence: StepEvidence, launch: Launch, sequence: SymbolSequence
) -> Measured:
    name = shorten_name(evidence.event_types["name"][launch.type])
    track = evidence.tracks["name"][launch.track]
    period = measure_boundaries(sequence, launch.start_ps)
    return Measured(
        source="launch",
        what=f"launches of {name} on {track}, by the {sequence.what}",
        label=launch.type,
        sequence=sequence,
        period=period,
        track=np.full(len(launch.start_ps), launch.track, np.int32),
        slack_ps=None,
        on_device=evidence.tracks["device"][launch.track] is not None,
        edge=not evidence.runs_op_by_op(period.n, executed=period.repeats)
        or not evidence.lacks_an_edge(launch.start_ps, on_device=False, programs=False),
    )


def _searched_sequences(
    evidence: StepEvidence,
    kernels: SymbolSequence | None,
    instructions: SymbolSequence | None,
) -> Iterator[tuple[SymbolSequence, int]]:
    """Yield the sequences to search for periods, with their track (-1 if several)."""
    if kernels is not None:
        yield kernels, -1
    yield from ((ops, track) for track, ops in list(evidence.ops.items())[:1])
    if instructions is not None and kernels is None:
        yield instructions, -1
    if -1 in evidence.ops:
        yield evidence.ops[-1], -1


def _period_candidates(
    evidence: StepEvidence, sequence: SymbolSequence, *, track: int
) -> list[Measured]:
    names = evidence.event_types["name"]
    return [
        _measured_period(
            evidence, sequence, period, f"{shorten_name(names[label])} among", track
        )
        for period in propose_periods(sequence)
        for label in (int(sequence.label[period.symbol]),)
    ]


def _measured_period(
    evidence: StepEvidence,
    sequence: SymbolSequence,
    period: Period,
    repeating: str,
    track: int,
) -> Measured:
    return Measured(
        source="period",
        what=f"{repeating} the {sequence.what}",
        label=int(sequence.label[sequence.symbol[period.first[0]]]),
        sequence=sequence,
        period=period,
        track=np.full(period.n, track, np.int32),
        slack_ps=sequence.gap_ps[period.first],
        on_device=sequence.on_device,
        layers=_layer_evidence(evidence, sequence, period, track=track),
        edge=not _lacks_an_edge(evidence, sequence, period),
    )


def _equal_passes(evidence: StepEvidence) -> Measured | None:
    passes = evidence.equal_passes()
    if passes is None:
        return None
    track, start_ps = passes
    ops = evidence.ops[track]
    period = measure_boundaries(ops, start_ps)
    if period.first[-1] >= len(ops):
        # No op of the sequence begins in the last pass.
        return None
    measured = _measured_period(evidence, ops, period, "equal passes of", track)
    edge = measured.edge or not evidence.may_be_layers(track, start_ps)
    return msgspec.structs.replace(measured, edge=edge, are_passes=True)


def _are_better(passes: Measured, best: Measured | None) -> bool:
    """Return whether passes are the steps, although others may be accepted as such.

    Ops that repeat as a whole also show where each step begins, unless it begins with
    an event that is not an op, such as a batch fetch.
    """
    if candidate_objection(passes):
        return False
    if best is None or best.confidence < INFERRED_CONFIDENCE:
        return True
    first_ps = passes.period.start_ps[0]
    alike = best.source == "period" and best.period.n == passes.period.n
    return alike and not best.on_device and first_ps < best.period.start_ps[0]


def _layer_evidence(
    evidence: StepEvidence, sequence: SymbolSequence, period: Period, *, track: int
) -> str:
    """Return the reason why segments look like layers inside a step; empty if none."""
    if _repeats_inside_run(evidence, sequence, period):
        return "it repeats inside single executions of a program"
    begins = _host_begins(evidence, sequence, period, track=track)
    if begins is None:
        return ""
    if evidence.inside_one_call(*begins):
        return "it repeats inside single calls of a module, an op or a request"
    if evidence.numbered_instances(begins[1]):
        return "each repetition is a different instance of one module"
    return ""


def _host_begins(
    evidence: StepEvidence, sequence: SymbolSequence, period: Period, *, track: int
) -> tuple[Int32s, Int64s] | None:
    if not sequence.on_device:
        return np.full(period.n, track, np.int32), period.start_ps
    if sequence.launch is None or evidence.correlation is None:
        return None
    launch = sequence.launch[period.first]
    launch = launch[launch >= 0]
    if len(launch) < MIN_STEPS:
        return None
    return (
        handles(evidence.correlation.launches, "track")[launch],
        ints(evidence.correlation.launches, "start_ps")[launch],
    )


def _lacks_an_edge(
    evidence: StepEvidence, sequence: SymbolSequence, period: Period
) -> bool:
    """Return whether the segments contain no edge of a step.

    Host calls are compared on the host's clock, device copies on the device's clock.
    """
    if _launches_whole_segments(sequence, period):
        return False
    begins = _host_begins(evidence, sequence, period, track=-1)
    if sequence.on_device:
        if not evidence.lacks_an_edge(period.start_ps, on_device=True):
            return False
        if begins is None:
            return True
    begin_ps = period.start_ps if begins is None else np.sort(begins[1])
    programs = not evidence.runs_op_by_op(len(begin_ps), executed=period.repeats)
    return evidence.lacks_an_edge(begin_ps, on_device=False, programs=programs)


def _repeats_inside_run(
    evidence: StepEvidence, sequence: SymbolSequence, period: Period
) -> bool:
    """Return whether repetitions are inside one program execution, as layers are."""
    if sequence.launch is None or evidence.correlation is None:
        return False
    launch = sequence.launch[period.first]
    launch = launch[launch >= 0]
    if len(launch) < MIN_STEPS:
        return False
    return len(launch) >= _MIN_REPETITIONS_PER_RUN * count_runs(
        evidence.runs, evidence.correlation.launches, launch
    )


def _launches_whole_segments(sequence: SymbolSequence, period: Period) -> bool:
    """Return whether single calls launch whole segments, as graph launches do."""
    if sequence.launch is None or period.n < MIN_STEPS:
        return False
    first = period.first[:-1]
    launches = sequence.launch[: period.first[-1]]
    smallest = np.minimum.reduceat(launches, first)
    same = (smallest >= 0) & (smallest == np.maximum.reduceat(launches, first))
    same &= np.diff(period.first) > 1
    return float(same.mean()) >= MIN_SIMILARITY


def _best_measured(evidence: StepEvidence, measured: list[Measured]) -> Measured | None:
    good = [each for each in measured if not candidate_objection(each)]
    if not good:
        return None
    period = best_period([each.period for each in good])
    best = next(each for each in good if each.period is period)
    alike = [best, *(_same_on_other_threads(evidence, best, good))]
    return unite_threads([_move_to_cycle_begin(evidence, each) for each in alike])


def _same_on_other_threads(
    evidence: StepEvidence, best: Measured, good: list[Measured]
) -> list[Measured]:
    """Find the same step on parallel threads, for example on workers of a server."""
    own = evidence.ops.get(int(best.track[0]))
    if best.sequence is not own or best.track[0] < 0:
        return []
    if best.source == "period":
        good = []
        for track, sequence in evidence.ops.items():
            symbol = np.flatnonzero(sequence.label == best.label)
            if track == -1 or sequence is own or not len(symbol):
                continue
            first = sequence.symbol_entries(symbol)[0]
            good.append(
                Measured(
                    source=best.source,
                    what=best.what,
                    label=best.label,
                    sequence=sequence,
                    period=measure_boundaries(sequence, sequence.at_ps[first]),
                    track=np.full(len(first), track, np.int32),
                    slack_ps=sequence.gap_ps[first],
                    on_device=False,
                )
            )
    return [
        each
        for each in good
        if each.label == best.label
        and each.track[0] != best.track[0]
        and each.sequence is evidence.ops.get(int(each.track[0]))
        and not candidate_objection(each)
        and multiset_similarity(each.period.signature, best.period.signature)
        >= _MIN_THREAD_SIMILARITY
    ]


def _move_to_cycle_begin(evidence: StepEvidence, measured: Measured) -> Measured:
    track = int(measured.track[0])
    if track < 0 or evidence.tracks["device"][track] is not None:
        return measured
    moved = begin_of_cycle(
        evidence.tracks,
        evidence.events,
        evidence.event_kinds,
        track=track,
        start_ps=measured.period.start_ps,
    )
    if moved is None:
        return measured
    period = measure_boundaries(measured.sequence, moved.start_ps)
    if period.confidence < measured.period.confidence - _MAX_PHASE_PENALTY:
        return measured
    return msgspec.structs.replace(
        measured,
        period=period,
        track=np.full(len(moved.start_ps), track, np.int32),
        slack_ps=moved.slack_ps,
        begin_is_clear=moved.clear,
    )
