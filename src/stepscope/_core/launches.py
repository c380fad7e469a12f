# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Device activities, the host calls that launched them, and their dependency graph.

The functions on activities take one pass over them. A negative row number means none.
Times are within ±(2**62 - 1), so that no sum of two can overflow.

A dependency graph stores its edges by target: the edges into node `v` are `begin[v]` up
to `begin[v + 1]`, exclusive. An edge means that `v` begins no earlier than a lag after
the end of its source (if `from_start` is set, after the begin of its source); the lag
may be negative. `order_nodes` orders the nodes so that sources come first (Kahn's
algorithm), and `schedule_nodes` visits them in this order. Both take linear time.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: Array lengths differ, or a number is outside its table or array.
BAD_RANGE = -3


@cython.ccall
def match_launches(
    called: cython.const[cython.longlong][::1],
    wanted: cython.const[cython.longlong][::1],
    least: cython.longlong,
    table: cython.int[::1],
    out: cython.int[::1],
    count: cython.int[::1],
) -> cython.longlong:
    """Find for each wanted id the last row of `called` with that id, or -1.

    Called ids are within [least, least + length of table). Before the call `table` must
    be -1 and `count` 0 everywhere. `count` receives for each row of `called` the number
    of wanted ids that were matched to it.

    Returns:
        The number of wanted ids that were found, or `BAD_RANGE`.
    """
    row: cython.longlong
    call: cython.longlong
    found: cython.longlong = 0
    # Ids are compared before they are subtracted, because they may use all 64 bits.
    beyond: cython.longlong = least + table.shape[0]
    if (
        out.shape[0] != wanted.shape[0]
        or count.shape[0] != called.shape[0]
        or called.shape[0] > 0x7FFF_FFFF
        or wanted.shape[0] > 0x7FFF_FFFF
        # Outside this range the end of the table could overflow.
        or least < -0x3FFF_FFFF_FFFF_FFFF
        or least > 0x3FFF_FFFF_FFFF_FFFF
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(called.shape[0]):
            if called[row] < least or called[row] >= beyond:
                return -3
            # The last of several calls with one id wins.
            table[called[row] - least] = cython.cast(cython.int, row)
        for row in range(wanted.shape[0]):
            call = -1
            if least <= wanted[row] < beyond:
                call = table[wanted[row] - least]
            out[row] = cython.cast(cython.int, call)
            if call >= 0:
                count[call] += 1
                found += 1
    return found


@cython.ccall
def find_idle_waits(
    launch: cython.const[cython.int][::1],
    begin: cython.const[cython.longlong][::1],
    busy_until: cython.const[cython.longlong][::1],
    call_start: cython.const[cython.longlong][::1],
    call_dur: cython.const[cython.longlong][::1],
    empty: cython.uchar[::1],
    latency: cython.longlong[::1],
    early: cython.longlong[::1],
) -> cython.longlong:
    """Find the activities whose device was idle when they were launched.

    `busy_until` is the latest end of the activities of the device that began before
    this one. `empty` receives 1 if the device was idle from the begin of the launch
    call to the begin of the activity, and `latency` the time from the end of the call
    to the begin of the activity; both are 0 otherwise. `early` (two entries, zero
    before the call) receives the number of activities that begin before their call, and
    the longest such time.

    Returns:
        The number of activities that found the device idle, or `BAD_RANGE`.
    """
    row: cython.longlong
    call: cython.longlong
    waited: cython.longlong
    found: cython.longlong = 0
    if (
        begin.shape[0] != launch.shape[0]
        or busy_until.shape[0] != launch.shape[0]
        or call_dur.shape[0] != call_start.shape[0]
        or empty.shape[0] != launch.shape[0]
        or latency.shape[0] != launch.shape[0]
        or early.shape[0] != 2
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(launch.shape[0]):
            call = launch[row]
            empty[row] = 0
            latency[row] = 0
            if call < 0:
                continue
            if call >= call_start.shape[0]:
                return -3
            if begin[row] < call_start[call]:
                early[0] += 1
                early[1] = max(early[1], call_start[call] - begin[row])
            elif begin[row] > call_start[call] and busy_until[row] <= call_start[call]:
                empty[row] = 1
                found += 1
                waited = begin[row] - call_start[call] - call_dur[call]
                if waited > 0:
                    latency[row] = waited
    return found


@cython.ccall
def count_executions(
    place: cython.const[cython.int][::1],
    execution: cython.const[cython.int][::1],
    owner: cython.int[::1],
    count: cython.longlong[::1],
    spilled: cython.longlong[::1],
) -> cython.longlong:
    """Count the distinct executions at each place (a number per row), in one pass.

    An execution counts at the place of its first row. `owner` (by execution) must be -1
    and `count` (by place) 0 before the call. Rows of an execution at other places are
    written to `spilled` while they fit, for another pass.

    Returns:
        The number of spilled rows, including those that did not fit; or `BAD_RANGE`.
    """
    row: cython.longlong
    which: cython.longlong
    spills: cython.longlong = 0
    if execution.shape[0] != place.shape[0]:
        return BAD_RANGE
    with cython.nogil:
        for row in range(place.shape[0]):
            which = execution[row]
            if which < 0:
                continue
            if (
                which >= owner.shape[0]
                or place[row] < 0
                or place[row] >= count.shape[0]
            ):
                return -3
            if owner[which] < 0:
                owner[which] = place[row]
                count[place[row]] += 1
            elif owner[which] != place[row]:
                if spills < spilled.shape[0]:
                    spilled[spills] = row
                spills += 1
    return spills


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _edges_fit(
    begin: cython.const[cython.longlong][::1], source: cython.const[cython.int][::1]
) -> cython.bint:
    """Return whether all edges are indices into `source`, and all sources are nodes."""
    node: cython.longlong
    edge: cython.longlong
    nodes: cython.longlong = begin.shape[0] - 1
    if begin[0] != 0 or begin[nodes] != source.shape[0]:
        return False
    for node in range(nodes):
        if begin[node + 1] < begin[node]:
            return False
    for edge in range(source.shape[0]):
        if source[edge] < 0 or source[edge] >= nodes:
            return False
    return True


@cython.ccall
def order_nodes(
    begin: cython.const[cython.longlong][::1],
    source: cython.const[cython.int][::1],
    first: cython.longlong[::1],
    target: cython.int[::1],
    waiting: cython.int[::1],
    order: cython.int[::1],
) -> cython.longlong:
    """Order the nodes so that the sources of each node come before it.

    `begin` has one more entry than nodes. `first` (as long as `begin`), `target` (by
    edge) and `waiting` (by node) are scratch arrays. `order` receives the nodes.

    Returns:
        The number of ordered nodes, fewer than all in case of a cycle; or `BAD_RANGE`.
    """
    node: cython.longlong
    edge: cython.longlong
    at: cython.longlong
    nodes: cython.longlong = begin.shape[0] - 1
    found: cython.longlong = 0
    done: cython.longlong = 0
    if (
        begin.shape[0] < 1
        or first.shape[0] != begin.shape[0]
        or target.shape[0] != source.shape[0]
        or waiting.shape[0] != begin.shape[0] - 1
        or order.shape[0] != begin.shape[0] - 1
        or begin.shape[0] > 0x7FFF_FFFF
        or source.shape[0] > 0x7FFF_FFFF
    ):
        return BAD_RANGE
    with cython.nogil:
        if not _edges_fit(begin, source):
            return -3
        # Sort the edges by source: count them, then fill each list from its end.
        for node in range(nodes + 1):
            first[node] = 0
        for edge in range(source.shape[0]):
            first[source[edge]] += 1
        for node in range(nodes):
            first[node + 1] += first[node]
        for node in range(nodes - 1, -1, -1):
            waiting[node] = cython.cast(cython.int, begin[node + 1] - begin[node])
            for edge in range(begin[node], begin[node + 1]):
                first[source[edge]] -= 1
                target[first[source[edge]]] = cython.cast(cython.int, node)
        for node in range(nodes):
            if waiting[node] == 0:
                order[found] = cython.cast(cython.int, node)
                found += 1
        while done < found:
            node = order[done]
            done += 1
            at = source.shape[0]
            if node + 1 < nodes:
                at = first[node + 1]
            for edge in range(first[node], at):
                waiting[target[edge]] -= 1
                if waiting[target[edge]] == 0:
                    order[found] = target[edge]
                    found += 1
    return found


@cython.ccall
def schedule_nodes(
    order: cython.const[cython.int][::1],
    begin: cython.const[cython.longlong][::1],
    source: cython.const[cython.int][::1],
    from_start: cython.const[cython.uchar][::1],
    lag: cython.const[cython.longlong][::1],
    not_before: cython.const[cython.longlong][::1],
    delay: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    start: cython.longlong[::1],
    via: cython.int[::1],
) -> cython.longlong:
    """Compute the earliest begin of each node that its edges allow.

    `order` is the result of `order_nodes` for the same edges. A node begins `delay`
    after the latest time that its edges and `not_before` require. `start` receives the
    begin of each node, `via` the edge that determined it, or -1 if `not_before` did.

    Returns:
        The number of nodes, or `BAD_RANGE`.
    """
    turn: cython.longlong
    node: cython.longlong
    edge: cython.longlong
    ready: cython.longlong
    at: cython.longlong
    nodes: cython.longlong = begin.shape[0] - 1
    if (
        begin.shape[0] < 1
        or order.shape[0] != begin.shape[0] - 1
        or from_start.shape[0] != source.shape[0]
        or lag.shape[0] != source.shape[0]
        or not_before.shape[0] != order.shape[0]
        or delay.shape[0] != order.shape[0]
        or dur.shape[0] != order.shape[0]
        or start.shape[0] != order.shape[0]
        or via.shape[0] != order.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        if not _edges_fit(begin, source):
            return -3
        for turn in range(nodes):
            node = order[turn]
            if node < 0 or node >= nodes:
                return -3
            at = not_before[node]
            via[node] = -1
            for edge in range(begin[node], begin[node + 1]):
                ready = start[source[edge]] + lag[edge]
                if from_start[edge] == 0:
                    ready += dur[source[edge]]
                if ready >= at:
                    at = ready
                    via[node] = cython.cast(cython.int, edge)
            start[node] = at + delay[node]
    return nodes


@cython.ccall
def find_idle_endings(
    ends: cython.const[cython.longlong][::1],
    begin: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    launch: cython.const[cython.int][::1],
    call_start: cython.const[cython.longlong][::1],
    call_dur: cython.const[cython.longlong][::1],
    place: cython.longlong[::1],
    behind: cython.longlong[::1],
) -> cython.longlong:
    """Find the activity after each idle interval, and the launches of later activities.

    Intervals and activities are in ascending order. Activities of duration 0 are
    ignored. `rows` are indices into `launch`. `place` receives the first activity that
    begins at the end of the interval, or -1. `behind` receives the earliest end of the
    launch calls of all later activities; the largest int64 if there is none.

    Returns:
        The number of intervals that an activity ended, or `BAD_RANGE`.
    """
    i: cython.longlong
    call: cython.longlong
    found: cython.longlong = 0
    never: cython.longlong = 0x7FFF_FFFF_FFFF_FFFF
    j: cython.longlong = begin.shape[0] - 1
    # The first activity that begins at or after the end of the interval, and the end of
    # its launch call. `least` is the earliest end of the calls of all later activities.
    newest: cython.longlong = -1
    returned: cython.longlong = never
    least: cython.longlong = never
    if (
        dur.shape[0] != begin.shape[0]
        or rows.shape[0] != begin.shape[0]
        or call_dur.shape[0] != call_start.shape[0]
        or place.shape[0] != ends.shape[0]
        or behind.shape[0] != ends.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for i in range(ends.shape[0] - 1, -1, -1):
            while j >= 0 and begin[j] >= ends[i]:
                if dur[j] > 0:
                    if rows[j] < 0 or rows[j] >= launch.shape[0]:
                        return -3
                    call = launch[rows[j]]
                    if call >= call_start.shape[0]:
                        return -3
                    least = min(least, returned)
                    newest = j
                    returned = never
                    if call >= 0:
                        returned = call_start[call] + call_dur[call]
                j -= 1
            place[i] = -1
            behind[i] = min(least, returned)
            if newest >= 0 and begin[newest] == ends[i]:
                place[i] = newest
                behind[i] = least
                found += 1
    return found


@cython.ccall
def find_unlaunched_gaps(
    track: cython.const[cython.int][::1],
    begin: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    launch: cython.const[cython.int][::1],
    call_start: cython.const[cython.longlong][::1],
    call_dur: cython.const[cython.longlong][::1],
    ahead: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write the gaps between a track's activities that no late launch can explain.

    In these gaps the launch call of the activity after the gap ended at least `ahead`
    before the gap began. The output needs one entry per activity.

    Returns:
        The number of gaps, or `BAD_RANGE`.
    """
    row: cython.longlong
    call: cython.longlong
    ended: cython.longlong
    count: cython.longlong = 0
    if (
        track.shape[0] != begin.shape[0]
        or dur.shape[0] != begin.shape[0]
        or launch.shape[0] != begin.shape[0]
        or call_dur.shape[0] != call_start.shape[0]
        or out.shape[0] < begin.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(1, begin.shape[0]):
            call = launch[row]
            if call >= call_start.shape[0]:
                return -3
            if call < 0 or track[row] != track[row - 1]:
                continue
            ended = begin[row - 1] + dur[row - 1]
            if begin[row] <= ended or call_start[call] + call_dur[call] > ended - ahead:
                continue
            out[count] = begin[row] - ended
            count += 1
    return count
