"""What the step becomes after each action of a finding, by the declared models.

Definition: docs/predictions.md.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.host_functions import host_functions
from stepscope.advice.predicted_gains import saving_limits
from stepscope.derive.facts.hosts.batch_production import batch_times, python_elements
from stepscope.derive.facts.hosts.pipeline_stages import (
    MIN_PYTHON_PERCENT,
    service_signals,
)
from stepscope.derive.facts.hosts.worker_processes import (
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.predictions import changed_steps
from stepscope.derive.predictions.changed_steps import DividedSteps
from stepscope.derive.predictions.input_queue import (
    InputTimes,
    Work,
    enough_workers,
    predict_queue,
    worker_numbers,
)
from stepscope.derive.predictions.step_times import (
    MIN_STEPS,
    Parameter,
    Prediction,
    StepTime,
    span_of_cases,
)
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.batch_production import BatchTimes
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.predictions.step_times import Model

    Floats = NDArray[np.float64]
    #: The model that predicted a step, and the number that it assumes.
    Predicted = tuple[Model, Parameter | None, StepTime]

#: Rule whose lost time is that of one function, not of all work on the host.
_OF_A_FUNCTION: Final = "host.work"
#: Fact with the share of a function's time in which it waits, in percent.
_WAITING_FACT: Final = "off_core"
#: Causes of time: the thread sleeps; a step waits for its batch; a profiler works.
_WAITING_OWNER: Final = "wait"
_INPUT_OWNER: Final = "input"
_PROFILER_OWNER: Final = "profiler"
#: Cause of time: a batch is copied to the device.
_COPY_OWNER: Final = "copy_in"
#: Rules about steps that take longer than others, whatever they do meanwhile.
_OF_SLOW_STEPS: Final = frozenset({"step.periodic", "step.outlier"})
#: Rules about stages of the input pipeline, which name no time of the step.
_OF_STAGES: Final = "input.stage"
_RARE_EVERY: Final = int(THRESHOLDS.rare_every.value)
_RUN_SPREAD: Final = THRESHOLDS.run_spread.value / 100
_HOST_RUN_SPREAD: Final = THRESHOLDS.host_run_spread.value / 100
_WARMER_REST: Final = THRESHOLDS.warmer_rest.value / 100
#: Models after which nothing runs on the cores next to the rest of the step.
_WARMER_MODELS: Final = frozenset({"removed", "rarer", "overlap", "pause", "bound"})
_FREE_SHARE: Final = THRESHOLDS.free_share.value / 100
_SHARED_SPREAD: Final = THRESHOLDS.shared_run_spread.value / 100
_UNCOVERED_STALLS: Final = THRESHOLDS.uncovered_stalls.value / 100


def predict_actions(finding: Finding, signals: Signals) -> Finding:
    """Set the predictions of a failing finding, and the advised number of workers."""
    declared = _MODELS.keys() & {
        model for action in finding.actions for model in action.models
    }
    account = signals.known(account_signals)
    if finding.status != "fail" or not declared or account is None:
        return finding
    labels = finding.devices or (account.judged(_INPUT_OWNER).label,)
    shares = account.shares_of_label(labels[0])
    if len(shares.window_ps) < MIN_STEPS:
        return finding
    judged = _JudgedSteps(finding, shares, signals)
    by_model = {model: judged.predictions_of_model(model) for model in declared}
    predictions = tuple(
        Prediction(action=action.id, parameter=parameter, step_ms=step_ms, model=model)
        for action in finding.actions
        for declared_model in action.models
        for model, parameter, step_ms in by_model.get(declared_model, ())
    )
    advised = {
        one.action: one.parameter.value
        for one in reversed(predictions)
        if one.model == "queue" and one.parameter is not None
    }
    codes = {}
    for name, (code, declared_number) in rule_item(finding.id).worker_codes.items():
        # If the cores are unknown, more workers than usual may be too many.
        most = declared_number if judged.free_cores is None else math.inf
        if name in advised and advised[name] <= most:
            codes[name] = code.replace("{workers}", str(advised[name]))
    actions = tuple(
        msgspec.structs.replace(action, code=codes.get(action.id, action.code))
        for action in finding.actions
    )
    return msgspec.structs.replace(finding, predictions=predictions, actions=actions)


class _JudgedSteps(Frozen, frozen=True, dict=True):
    """The steps of the device or host that a finding is about."""

    finding: Finding
    shares: StepShares
    signals: Signals

    def predictions_of_model(self, declared: Model) -> tuple[Predicted, ...]:
        """Return the predictions of a model; no step gains more than its lost time."""
        if self.divided_steps is None:
            return ()
        floor_ms = saving_limits(self.finding, self.signals).floor_ms
        rest_ms = float(self.divided_steps.rest_ms.mean())
        spread, longer = self.run_spread, self.run_spread
        if not self.is_host and self.fetching_steps is not None:
            # Waits for batches hid that launches or some batches are late.
            longer += _UNCOVERED_STALLS
        # Work that most steps do leaves caches cold for the rest of each.
        is_usual = self.is_host and not changed_steps.has_rare_work(self.divided_steps)
        predicted = []
        for model, number, step_ms in _MODELS[declared](self, self.divided_steps):
            is_warmer = is_usual and model in _WARMER_MODELS
            warmer = 1 - _WARMER_REST if is_warmer else 1.0
            other_run = step_ms.with_shorter_rest(warmer).of_another_run(spread, longer)
            time = other_run.not_below(floor_ms, rest_ms * warmer)
            predicted.append((model, number, time))
        return tuple(predicted)

    @cached_property
    def divided_steps(self) -> DividedSteps | None:
        """Return the steps without the lost time; None if what remains is unknown."""
        finding, window_ms = self.finding, self.window_ms
        saving, effect_ms = finding.saving_ms, finding.ms_per_step
        if finding.id == _OF_STAGES:
            effect_ms = float(self._work_ms().mean())
        elif saving is None and finding.id not in _OF_SLOW_STEPS:
            return None
        elif saving is not None and not saving.open_above:
            # A rule, or a replay of the host's threads, may know that a part stays.
            effect_ms = min(saving.high, np.inf if effect_ms is None else effect_ms)
        if effect_ms is None:
            return None
        work_ms = self._work_ms()
        if not work_ms.any():
            work_ms = window_ms
        work_ms = work_ms * min(effect_ms / float(work_ms.mean()), 1.0)
        work_ms = np.minimum(work_ms, window_ms)
        return DividedSteps(window_ms - work_ms, work_ms)

    @cached_property
    def fetching_steps(self) -> DividedSteps | None:
        """Return the steps without their waits for batches; None for other findings.

        Copies of batches to a device are part of the lost time, but stay.
        """
        finding = self.finding
        owners = {*finding.owners, *finding.topics} - {_COPY_OWNER}
        if finding.id == _OF_STAGES:
            owners = {_INPUT_OWNER}
        if self.divided_steps is None or _INPUT_OWNER not in owners:
            return None
        waits_ms = _milliseconds(self.shares.times(*owners))
        waits_ms = np.minimum(waits_ms, self.window_ms)
        return DividedSteps(self.window_ms - waits_ms, waits_ms)

    @cached_property
    def window_ms(self) -> Floats:
        """Return the duration of each step, with the mean work of a profiler in it.

        A profiler works in few of the steps, which makes them scatter.
        """
        recording_ms = _milliseconds(self.shares.times(_PROFILER_OWNER))
        own_ms = _milliseconds(self.shares.window_ps) - recording_ms
        return own_ms + float(recording_ms.mean())

    def _work_ms(self) -> Floats:
        """Return the lost time of each step."""
        finding, shares = self.finding, self.shares
        if finding.id == _OF_A_FUNCTION and self.is_host:
            functions = host_functions(self.signals, shares)
            times = () if functions.blocking is None else functions.blocking.times_ps()
            if len(times) == len(shares.window_ps):
                return _milliseconds(times)
        if finding.id in _OF_SLOW_STEPS:
            return np.maximum(self.window_ms - np.median(self.window_ms), 0.0)
        owners = (*finding.owners, *finding.topics)
        if finding.id == _OF_STAGES:
            owners = (_INPUT_OWNER,)
        return _milliseconds(shares.times(*owners, place=finding.place or "any"))

    @property
    def is_host(self) -> bool:
        """Return whether no device works next to the host."""
        return self.shares.device is None

    @property
    def gain_ms(self) -> tuple[float, float] | None:
        """Return the range of the gain of a replay; None without a replay."""
        saving = self.finding.saving_ms
        is_replayed = saving is not None and saving.basis == "replay"
        return (saving.low, saving.high) if saving and is_replayed else None

    @cached_property
    def core_use(self) -> tuple[float, float] | None:
        """Return the mean numbers of cores that this and other programs use."""
        used = (self.signals.known(processor_signals) or {}).get(self.shares.host)
        if used is None or used.own is None:
            return None
        return used.own, max(used.machine - used.own, 0.0)

    @property
    def free_cores(self) -> float | None:
        """Return the cores that other programs leave to this one; None if unknown."""
        cores = self.signals.of(machine_cores).get(self.shares.host)
        if cores is None or self.core_use is None:
            return cores
        own, others = self.core_use
        return max(_FREE_SHARE * (cores - others), own, 1.0)

    @property
    def run_spread(self) -> float:
        """Return the share by which the mean steps of two runs differ."""
        own, others = self.core_use or (1.0, 0.0)
        part = others / ((self.free_cores or max(own, 1.0)) + others)
        usual = _HOST_RUN_SPREAD if self.is_host else _RUN_SPREAD
        return math.hypot(usual, _SHARED_SPREAD * part)

    def needs_of_steps(self, work: Work, work_ms: Floats, rest_ms: Floats) -> Work:
        """Return what the rest of the steps needs, from the cores that all use.

        Args:
            work: What the lost time needs. Steps may need the same lock all the time.
            work_ms: Time for which it is needed in each step.
        """
        length_ms, locked = float(rest_ms.mean()), 1.0 if work.locked else 0.0
        if self.core_use is None or length_ms <= 0:
            return Work(1.0, locked)
        used_ms = self.core_use[0] * float(self.window_ms.mean())
        spent_ms = work.cores * float(work_ms.mean())
        needed = max(used_ms - spent_ms, 0.0) / length_ms
        # The lost time may have used more cores than `work` says: the rest had no more.
        return Work(min(needed, self.free_cores or needed), locked)

    @cached_property
    def batch_fetches(self) -> BatchTimes | None:
        """Return the fetches of batches; None if they were not recorded by step."""
        fetched = self.signals.of(batch_times).get(self.shares.host)
        known = fetched is not None and len(fetched.fetch_ps) == len(self.window_ms)
        return fetched if known else None

    def needs_of_work(self) -> tuple[Work, ...]:
        """Return what the lost time may need: cores and, on a thread, Python's lock."""
        finding = self.finding
        waiting = next(
            (fact.value for fact in finding.facts if fact.name == _WAITING_FACT), None
        )
        if finding.owners == (_WAITING_OWNER,):
            waiting = 100.0
        if waiting is None:
            return (*_needs(None), Work(1.0, 1.0))
        on_core = 1 - waiting / 100
        return Work(on_core), Work(on_core, on_core)

    def needs_of_producers(self, computing: float | None) -> tuple[Work, ...]:
        """Return what production may need; separate processes share no lock."""
        needs = _needs(computing)
        python = self.signals.of(python_elements).get(self.shares.host)
        if python is None or python.percent < MIN_PYTHON_PERCENT:
            return needs
        # Threads of the pipeline call a function of the program.
        return (*needs, *(Work(need.cores, need.cores) for need in needs))


def _needs(computing: float | None) -> tuple[Work, ...]:
    """Return the needs of work that computes for a part of its time, or for any."""
    return (Work(0.0), Work(1.0)) if computing is None else (Work(computing),)


def _milliseconds(times_ps: Sequence[float]) -> Floats:
    return np.asarray(times_ps, np.float64) / PS_PER_MS


def _without_work(judged: _JudgedSteps, divided: DividedSteps) -> Iterator[Predicted]:
    """Predict from the replay; on a host alone, the rest of each step stays."""
    if judged.fetching_steps is not None:
        yield "removed", None, changed_steps.remove_work(judged.fetching_steps)
    elif judged.is_host:
        yield "removed", None, changed_steps.remove_work(divided)
    else:
        yield from _replayed(judged, divided)


def _made_rare(judged: _JudgedSteps, divided: DividedSteps) -> Iterator[Predicted]:
    rare = Parameter(name="every", value=_RARE_EVERY)
    if judged.is_host:
        yield "rarer", rare, changed_steps.do_work_rarely(divided, every=_RARE_EVERY)
    else:
        yield from _replayed(judged, divided, rare)


def _replayed(
    judged: _JudgedSteps,
    divided: DividedSteps,
    rare: Parameter | None = None,
) -> Iterator[Predicted]:
    gain_ms = judged.gain_ms
    if gain_ms is None:
        yield from _bounded(judged, divided)
        return
    part = 1.0 if rare is None else 1 - 1 / rare.value
    gain_ms = (gain_ms[0] * part, gain_ms[1] * part)
    yield "replay", rare, changed_steps.replayed_step(divided, gain_ms=gain_ms)


def _bounded(judged: _JudgedSteps, divided: DividedSteps) -> Iterator[Predicted]:
    """Predict a lower bound: without the lost time, or without what a replay gains."""
    saving = judged.finding.saving_ms
    if judged.is_host and saving is not None and saving.open_above:
        # Other work becomes faster too.
        return
    bound = changed_steps.bound_step(divided)
    if judged.gain_ms is not None:
        bound = StepTime(
            low=changed_steps.replayed_step(divided, gain_ms=judged.gain_ms).low
        )
    yield "bound", None, bound


def _overlapped(judged: _JudgedSteps, divided: DividedSteps) -> Iterator[Predicted]:
    if judged.fetching_steps is not None:
        yield from _queued(judged, divided, (1,))
    elif not judged.is_host:
        yield from _bounded(judged, divided)
    else:
        cases = [
            changed_steps.overlap_work(
                divided,
                cores=judged.free_cores,
                working=[work],
                stepping=judged.needs_of_steps(work, divided.work_ms, divided.rest_ms),
            )
            for work in judged.needs_of_work()
        ]
        yield "overlap", None, span_of_cases(cases)


def _paused(judged: _JudgedSteps, divided: DividedSteps) -> Iterator[Predicted]:
    if judged.is_host:
        yield "pause", None, changed_steps.pause_in_background(divided)
    else:
        yield from _bounded(judged, divided)


def _queued(
    judged: _JudgedSteps, _: DividedSteps, chosen: Sequence[int] = ()
) -> Iterator[Predicted]:
    """Predict the step for several numbers of producers, the advised number first.

    Args:
        chosen: The numbers of producers; none for all that are more than there are.
    """
    times, now = _input_times(judged)
    most = judged.signals.of(machine_cores).get(judged.shares.host) or max(
        (usual for _, usual in rule_item(judged.finding.id).worker_codes.values()),
        default=1,
    )
    numbers = chosen or [number for number in worker_numbers(most) if number > now]
    if not times or not numbers:
        return
    cases = [predict_queue(case, numbers) for case in times]
    predicted = {
        number: span_of_cases([case[number] for case in cases]) for number in numbers
    }
    advised = enough_workers(predicted)
    for number in sorted(numbers, key=lambda number: (number != advised, number)):
        yield "queue", Parameter(name="workers", value=number), predicted[number]


def _input_times(judged: _JudgedSteps) -> tuple[list[InputTimes], int]:
    """Return the possible times of batches and steps, and the number of workers."""
    divided, host, signals = judged.fetching_steps, judged.shares.host, judged.signals
    if divided is None:
        return [], 0
    made_ms, computing, now = divided.work_ms, None, 0
    if judged.batch_fetches is not None:
        made_ms = np.maximum(made_ms, _milliseconds(judged.batch_fetches.fetch_ps))
        computing = judged.batch_fetches.computing
    counted = signals.of(loader_workers).get(host)
    sampled = signals.of(worker_time).get(host)
    services = signals.known(service_signals) or ()
    service = next((each for each in services if each.host == host), None)
    if counted is not None:
        if sampled is not None and sampled.are_idle:
            return [], 0
        now = counted.workers
        # Workers that rarely wait for work make one batch after the other.
        working = 1.0 if sampled is None else 1 - sampled.waits_percent / 100
        made_ms = judged.window_ms * now * working
        computing = None
        if counted.used is not None:
            computing = min(counted.used / max(now * working, 1e-9), 1.0)
    elif service is not None and service.batch_ps / PS_PER_MS > made_ms.mean():
        made_ms = np.full(len(made_ms), service.batch_ps / PS_PER_MS)
        now = service.at_once if service.at_once > 1 else 0
    times = [
        InputTimes(
            made_ms.tolist(),
            divided.rest_ms.tolist(),
            judged.free_cores,
            work,
            judged.needs_of_steps(work, made_ms, divided.rest_ms),
        )
        for work in judged.needs_of_producers(computing)
    ]
    return times, now


_MODELS: Final[
    Mapping[Model, Callable[[_JudgedSteps, DividedSteps], Iterator[Predicted]]]
] = {
    "queue": _queued,
    "overlap": _overlapped,
    "rarer": _made_rare,
    "removed": _without_work,
    "pause": _paused,
    "bound": _bounded,
}
