"""What to say of a step that waits, on a host without devices, and what to do about it.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action
from stepscope.advice.judging.work_actions import WAITS
from stepscope.advice.judging.worker_processes import IN_FUNCTION
from stepscope.advice.verdict import pattern_of, promise_of
from stepscope.derive.facts.evidence import CauseShare, Fact

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.judging.worker_processes import WorkerProcesses
    from stepscope.derive.facts.processors import Asleep
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_WAITS_FOR_THREAD: Final = (
    Action(
        cause="any",
        framework="any",
        text="Where it waits for another thread, make that one's function cheaper, or "
        "let several threads run it; processes, where it is Python code: that runs on "
        "one thread at a time.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Let the other thread begin earlier, a step ahead and more, so that its "
        "result is there when the step asks for it. Where it holds a lock, let it hold "
        "it for less.",
    ),
)
_WAITS_FOR_PROCESSES: Final = (
    Action(
        cause="any",
        framework="any",
        text="Let as many worker processes run as there are cores; hand them few large "
        "tasks, and have them return small results: each one's data is copied.",
        code="pool.imap_unordered(work, items, chunksize=100)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Begin the next tasks before the results of these are used, so that the "
        "steps and the workers run at the same time.",
        code="ahead = pool.map_async(work, items)",
    ),
)
#: Known only where waiting is what a finding is about.
WAITING_LEAD: Final = (
    (
        "Waiting holds {waits_for_processes} of the step: {sleeper} while worker "
        "processes of the program spend {worker_share} of their time in "
        "{worker_function}."
    ),
    (
        "Waiting holds {waits_for_processes} of the step: {sleeper} while worker "
        "processes of the program use {worker_cores} of the machine's cores."
    ),
    "Waiting holds {waits_for_thread} of the step: {sleeper} while {elsewhere}.",
    (
        "Waiting holds {waits_for_thread} of the step: {sleeper} while other threads "
        "of the program work."
    ),
    (
        "Waiting holds {waits_for_nothing} of the step: {sleeper}, and no thread of "
        "the program works meanwhile: {elsewhere} and waits too."
    ),
    (
        "Waiting holds {waits_for_nothing} of the step: {sleeper}, and no thread of "
        "the program works meanwhile."
    ),
)
#: All that may be advised.
WAITING_ACTIONS: Final = (
    *WAITS,
    *_WAITS_FOR_THREAD,
    IN_FUNCTION,
    *_WAITS_FOR_PROCESSES,
)


def of_waiting(
    found: Finding,
    waits: Asleep,
    processes: WorkerProcesses,
    shares: StepShares,
    thresholds: Thresholds,
) -> Finding:
    """Speak of what the step waits for: to work faster gains nothing."""
    kind = "waits_for_nothing"
    actions: tuple[Action, ...] = WAITS
    for_processes = _are_for(processes, waits)
    if for_processes:
        kind, actions = "waits_for_processes", _WAITS_FOR_PROCESSES
        named = processes.cheaper()
        actions = (*named, *actions) if named else (*actions, IN_FUNCTION)
    elif waits.works:
        kind, actions = "waits_for_thread", _WAITS_FOR_THREAD
    other = None if for_processes else waits.other
    told = (waits.function, *((other,) if other else ()))
    same = {one.key for one in told}
    rest = (one for one in found.parts if one.key not in same)
    facts = (
        Fact(name=kind, value=waits.share_percent, unit="percent"),
        Fact(name="worker_cores", value=waits.workers, unit="ratio"),
        *(processes.facts() if for_processes else ()),
    )
    work = max((found.share_percent or 0.0) - waits.share_percent, 0.0)
    causes = (
        CauseShare(cause="waits", share_percent=waits.share_percent),
        CauseShare(cause="functions", share_percent=work),
    )
    saving, pattern, hit = found.saving_ms, found.pattern, found.steps_hit
    if saving is not None and len(waits.times_ps) == len(shares.window_ps):
        saving = promise_of(waits.times_ps, shares.window_ps)
        every = thresholds.steps_share.value
        pattern = pattern_of(waits.times_ps, every_percent=every)
        hit = pattern.steps_hit
    return msgspec.structs.replace(
        found,
        pattern=pattern,
        steps_hit=hit,
        causes=tuple(sorted(causes, key=lambda one: -one.share_percent)),
        parts=(*told, *rest),
        workers=processes.functions if for_processes else (),
        facts=(*found.facts, *facts),
        saving_ms=saving,
        actions=actions,
    )


def _are_for(processes: WorkerProcesses, waits: Asleep) -> bool:
    """Return whether waits are for worker processes, as far as anything shows it.

    What they were found to do says more than what they use of the cores: those that
    wait for a disk or a network use none, and are waited for too.
    """
    if processes.time is None:
        return waits.workers is not None
    return processes.work and (waits.workers is not None or not waits.works)
