"""Whether the program's own thread waits for others that make the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_states import host_states
from stepscope.derive.account.naming import naming
from stepscope.derive.account.owned_time import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Calls that wait for what another process sends, or a machine behind a network.
_SENT: Final = Pattern(
    r"^(?:__)?(?:p?poll|p?select|epoll_p?wait2?|recv(?:from|msg|mmsg)?|accept4?"
    r"|msgrcv|mq_(?:timed)?receive|wait(?:[34]|pid|id)?)(?:_\w+)?$"
)
#: Calls that wait for another thread. Python waits for its own lock in
#: `pthread_cond_timedwait`, which is no wait for a batch.
_THREADS: Final = Pattern(
    r"^(?:__)?(?:sem_(?:timed|clock)?wait|futex\w*|pthread_cond_wait"
    r"|pthread_(?:timed|clock)?join\w*|pthread_barrier_wait)$"
)


class MadeElsewhere(Frozen, frozen=True, eq=True):
    """For whom the program's own thread waits while the account has the step wait.

    Attributes:
        sent_percent: The share of that time in calls that wait for another process, or
            for a network.
        threads_percent: The share in calls that wait for another thread.
    """

    sent_percent: float
    threads_percent: float


@signal(account, idle_topics, host_states, naming, windows)
def made_elsewhere(
    profile: ProfileData, _: Thresholds
) -> dict[str, dict[str, MadeElsewhere]]:
    """Return it of each cause, by `host:device`, or host, where calls were recorded.

    A cause is a fetch, or what may be one: a wait until a batch is copied.
    """
    found = {}
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        states = profile.derived(host, host_states)
        named = profile.derived(host, naming)
        if (
            isinstance(accounted, Unavailable)
            or isinstance(states, Unavailable)
            or isinstance(named, Unavailable)
            or named.program is None
            or not named.system.any()
        ):
            continue
        judged = present(profile.derived(host, windows)).judged
        calls = [
            _within(states, named, named.program, pattern)
            for pattern in (_SENT, _THREADS)
        ]
        topics = profile.derived(host, idle_topics)
        about = () if isinstance(topics, Unavailable) else topics.devices
        for at, one in enumerate(accounted.devices):
            label = host if one.device is None else f"{host}:{one.device}"
            unfed = about[at].spans.get("unfed") if about else None
            found[label] = {
                cause: MadeElsewhere(
                    *(100 * (waits & it).length_ps / waits.length_ps for it in calls)
                )
                for cause, spans in (("fetch", one.idle["input"]), ("unfed", unfed))
                if spans is not None and len(waits := spans & judged)
            }
    return found


def _within(
    states: HostStates, named: Naming, track: int, pattern: Pattern[str]
) -> Spans:
    """Return when a thread was in calls of the operating system of some names."""
    kinds = [
        kind
        for kind in np.flatnonzero(named.system).tolist()
        if pattern.search(named.names[kind] or "")
    ]
    rows = states.classes.rows.rows(track)
    return states.classes.rows.spans(rows, np.isin(named.types[rows], kinds))
