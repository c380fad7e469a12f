# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Stats into dense columns, and byte strings of the file into small numbers.

`pivot` scatters the stats of a range of events into one column per wanted key, and
`pivot_rows` those of some events.
`intern` numbers byte strings by content with an open-addressing hash table whose
slots hold the numbers; strings are compared in place and never copied.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from stepscope._core import _shim as cython
if not cython.compiled:
    from stepscope._core import _shim as cython

__all__ = ["BAD_RANGE", "NO_ROOM", "intern", "pivot", "pivot_rows"]

#: The slots or the list of representatives are too few: call again with more.
NO_ROOM = -1
#: The rows do not lie within every array, or an array has the wrong length.
BAD_RANGE = -3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pivot(
    event: cython.const[cython.int][::1],
    key: cython.const[cython.int][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    slot_of_key: cython.const[cython.int][::1],
    first_event: cython.longlong,
    out_value: cython.longlong[:, ::1],
    out_kind: cython.uchar[:, ::1],
    out_length: cython.int[:, ::1],
) -> cython.longlong:
    written: cython.longlong = 0
    stat: cython.longlong
    row: cython.longlong
    slot: cython.longlong
    for stat in range(event.shape[0]):
        slot = key[stat]
        if slot < 0 or slot >= slot_of_key.shape[0]:
            continue
        slot = slot_of_key[slot]
        if slot < 0:
            continue
        row = event[stat] - first_event
        if row < 0 or row >= out_value.shape[1] or slot >= out_value.shape[0]:
            return -3
        out_value[slot, row] = value[stat]
        out_kind[slot, row] = kind[stat]
        # Few values have a length, and memory that nobody writes to costs nothing.
        if out_length[slot, row] != length[stat]:
            out_length[slot, row] = length[stat]
        written += 1
    return written


def pivot(
    event: cython.const[cython.int][::1],
    key: cython.const[cython.int][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    slot_of_key: cython.const[cython.int][::1],
    first_event: cython.longlong,
    out_value: cython.longlong[:, ::1],
    out_kind: cython.uchar[:, ::1],
    out_length: cython.int[:, ::1],
) -> cython.longlong:
    """Write each stat with a wanted key to [its key's slot, its event's row].

    `slot_of_key` has an entry per handle of strings, -1 where the key is not wanted.
    Row 0 of the outputs, which must hold zeros, is `first_event`. Of several stats of
    one event and slot the last one stays.

    Returns:
        How many stats were written; or `BAD_RANGE`, also when a wanted stat belongs
        to an event outside the outputs.
    """
    if (
        event.shape[0] != key.shape[0]
        or event.shape[0] != kind.shape[0]
        or event.shape[0] != value.shape[0]
        or event.shape[0] != length.shape[0]
        or out_value.shape[0] != out_kind.shape[0]
        or out_value.shape[1] != out_kind.shape[1]
        or out_value.shape[0] != out_length.shape[0]
        or out_value.shape[1] != out_length.shape[1]
    ):
        return BAD_RANGE
    if not cython.compiled:
        event, key, kind = memoryview(event), memoryview(key), memoryview(kind)
        value, length = memoryview(value), memoryview(length)
        slot_of_key = memoryview(slot_of_key)
        if out_value.size:
            out_value, out_kind = memoryview(out_value), memoryview(out_kind)
            out_length = memoryview(out_length)
    with cython.nogil:
        found: cython.longlong = _pivot(
            event,
            key,
            kind,
            value,
            length,
            slot_of_key,
            first_event,
            out_value,
            out_kind,
            out_length,
        )
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pivot_rows(
    event: cython.const[cython.int][::1],
    key: cython.const[cython.int][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    slot_of_key: cython.const[cython.int][::1],
    rows: cython.const[cython.int][::1],
    first: cython.const[cython.longlong][::1],
    out_value: cython.longlong[:, ::1],
    out_kind: cython.uchar[:, ::1],
    out_length: cython.int[:, ::1],
) -> cython.longlong:
    written: cython.longlong = 0
    at: cython.longlong
    stat: cython.longlong
    slot: cython.longlong
    for at in range(rows.shape[0]):
        stat = first[at]
        if stat < 0:
            return -3
        while stat < event.shape[0] and event[stat] == rows[at]:
            slot = key[stat]
            if 0 <= slot < slot_of_key.shape[0]:
                slot = slot_of_key[slot]
                if slot >= out_value.shape[0]:
                    return -3
                if slot >= 0:
                    out_value[slot, at] = value[stat]
                    out_kind[slot, at] = kind[stat]
                    if out_length[slot, at] != length[stat]:
                        out_length[slot, at] = length[stat]
                    written += 1
            stat += 1
    return written


def pivot_rows(
    event: cython.const[cython.int][::1],
    key: cython.const[cython.int][::1],
    kind: cython.const[cython.uchar][::1],
    value: cython.const[cython.longlong][::1],
    length: cython.const[cython.int][::1],
    slot_of_key: cython.const[cython.int][::1],
    rows: cython.const[cython.int][::1],
    first: cython.const[cython.longlong][::1],
    out_value: cython.longlong[:, ::1],
    out_kind: cython.uchar[:, ::1],
    out_length: cython.int[:, ::1],
) -> cython.longlong:
    """Scatter as `pivot` does, for events `rows`, whose first stats are at `first`.

    Returns:
        How many stats were written; or `BAD_RANGE`.
    """
    if (
        event.shape[0] != key.shape[0]
        or event.shape[0] != kind.shape[0]
        or event.shape[0] != value.shape[0]
        or event.shape[0] != length.shape[0]
        or rows.shape[0] != first.shape[0]
        or out_value.shape[0] != out_kind.shape[0]
        or out_value.shape[0] != out_length.shape[0]
        or out_value.shape[1] != rows.shape[0]
        or out_kind.shape[1] != rows.shape[0]
        or out_length.shape[1] != rows.shape[0]
    ):
        return BAD_RANGE
    if not cython.compiled:
        event, key, kind = memoryview(event), memoryview(key), memoryview(kind)
        value, length = memoryview(value), memoryview(length)
        slot_of_key, rows = memoryview(slot_of_key), memoryview(rows)
        first = memoryview(first)
        if out_value.size:
            out_value, out_kind = memoryview(out_value), memoryview(out_kind)
            out_length = memoryview(out_length)
    with cython.nogil:
        found: cython.longlong = _pivot_rows(
            event,
            key,
            kind,
            value,
            length,
            slot_of_key,
            rows,
            first,
            out_value,
            out_kind,
            out_length,
        )
    return found


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _same(
    data: cython.const[cython.uchar][::1],
    left: cython.longlong,
    right: cython.longlong,
    length: cython.longlong,
) -> cython.bint:
    k: cython.longlong
    if left == right:
        return True
    for k in range(length):  # noqa: SIM110 - a generator is slow and needs the lock
        if data[left + k] != data[right + k]:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _intern(
    data: cython.const[cython.uchar][::1],
    place: cython.const[cython.longlong][::1],
    length: cython.const[cython.longlong][::1],
    seed: cython.ulonglong,
    slots: cython.int[::1],
    ids: cython.int[::1],
    firsts: cython.longlong[::1],
) -> cython.longlong:
    count: cython.longlong = 0
    mask: cython.longlong = slots.shape[0] - 1
    row: cython.longlong
    k: cython.longlong
    slot: cython.longlong
    start: cython.longlong
    size: cython.longlong
    other: cython.longlong
    mixed: cython.ulonglong
    # An odd number near 2^63 / golden ratio: multiplying spreads bits upwards.
    factor: cython.ulonglong = 0x4F1B_BCDC_BFA5_3E0B
    for row in range(place.shape[0]):
        start = place[row]
        size = length[row]
        mixed = seed
        for k in range(size):
            mixed = cython.cast(cython.ulonglong, (mixed ^ data[start + k]) * factor)
            mixed ^= mixed >> 29
        mixed ^= mixed >> 32
        slot = cython.cast(cython.longlong, mixed & 0x7FFF_FFFF) & mask
        while True:
            other = slots[slot]
            if other < 0:
                if count >= firsts.shape[0] or 2 * count > mask:
                    return -1
                slots[slot] = cython.cast(cython.int, count)
                firsts[count] = row
                ids[row] = cython.cast(cython.int, count)
                count += 1
                break
            k = firsts[other]
            if length[k] == size and _same(data, start, place[k], size):
                ids[row] = cython.cast(cython.int, other)
                break
            slot = (slot + 1) & mask
    return count


def intern(
    data: cython.const[cython.uchar][::1],
    place: cython.const[cython.longlong][::1],
    length: cython.const[cython.longlong][::1],
    seed: cython.ulonglong,
    slots: cython.int[::1],
    ids: cython.int[::1],
    firsts: cython.longlong[::1],
) -> cython.longlong:
    """Number the byte strings at (place, length) of `data` by first appearance.

    Equal strings get equal numbers in `ids`; `firsts` receives the row in which each
    number first appears. `slots` must hold -1, a power of two of them, at most half
    of which are used. A random `seed` keeps a crafted file from making them collide.

    Returns:
        How many different strings there are; or `NO_ROOM`, `BAD_RANGE` (also when a
        string does not lie in `data`).
    """
    row: cython.longlong
    if (
        place.shape[0] != length.shape[0]
        or place.shape[0] != ids.shape[0]
        or place.shape[0] > 0x7FFF_FFFF
        or slots.shape[0] < 2
        or (slots.shape[0] & (slots.shape[0] - 1)) != 0
    ):
        return BAD_RANGE
    if not cython.compiled:
        data, place, length = memoryview(data), memoryview(place), memoryview(length)
        slots, ids, firsts = memoryview(slots), memoryview(ids), memoryview(firsts)
    for row in range(place.shape[0]):
        if (
            place[row] < 0
            or length[row] < 0
            or place[row] > data.shape[0]
            or length[row] > data.shape[0] - place[row]
        ):
            return BAD_RANGE
    with cython.nogil:
        found: cython.longlong = _intern(data, place, length, seed, slots, ids, firsts)
    return found
