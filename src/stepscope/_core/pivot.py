# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Conversion of rows to columns: stats, byte strings and rows of SQLite tables.

`pivot_stats` writes the stats of a range of events into one column per wanted key.
`pivot_rows` does the same for chosen events. `intern_strings` gives equal byte strings
equal numbers. It uses an open-addressing hash table whose slots hold the numbers, and
compares strings in place without copying them. `sqlite_leaves` lists the pages with a
table's rows, in order, and `sqlite_numbers` reads columns of numbers from these pages
(https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1). Both return -1 for
irregular files: a page at an invalid place, a record that exceeds its page or continues
on another one, or a table of another kind. The caller then uses SQLite itself.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: `slots` or `firsts` is too short: call again with longer ones.
NO_ROOM = -1
#: A row is outside an array, or an array has the wrong length.
BAD_RANGE = -3
#: Kind of a known value of a record: `NUMBER` is an integer, `FRACTION` a float.
NUMBER = 1
FRACTION = 2


@cython.ccall
def pivot_stats(
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
    """Write each stat with a wanted key to the outputs at [slot of key, event].

    `slot_of_key` has one entry per handle of strings, -1 for keys that are not wanted.
    Column 0 of the outputs is for `first_event`. The outputs must be zero before the
    call. The last of several stats with the same event and slot wins.

    Returns:
        The number of stats written; or `BAD_RANGE`, also if a wanted stat belongs to an
        event outside the outputs.
    """
    written: cython.longlong = 0
    stat: cython.longlong
    row: cython.longlong
    slot: cython.longlong
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
    with cython.nogil:
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
            # Most lengths are 0, and unwritten memory pages are never allocated.
            if out_length[slot, row] != length[stat]:
                out_length[slot, row] = length[stat]
            written += 1
    return written


@cython.ccall
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
    """Write stats as `pivot_stats` does, for events `rows` with first stats `first`.

    Returns:
        The number of stats written, or `BAD_RANGE`.
    """
    written: cython.longlong = 0
    at: cython.longlong
    stat: cython.longlong
    slot: cython.longlong
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
    with cython.nogil:
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _same_bytes(
    data: cython.const[cython.uchar][::1],
    left: cython.longlong,
    right: cython.longlong,
    length: cython.longlong,
) -> cython.bint:
    k: cython.longlong
    if left == right:
        return True
    for k in range(length):  # noqa: SIM110 - a generator is slow and needs the GIL
        if data[left + k] != data[right + k]:
            return False
    return True


@cython.ccall
def intern_strings(
    data: cython.const[cython.uchar][::1],
    place: cython.const[cython.longlong][::1],
    length: cython.const[cython.longlong][::1],
    seed: cython.ulonglong,
    slots: cython.int[::1],
    ids: cython.int[::1],
    firsts: cython.longlong[::1],
) -> cython.longlong:
    """Number the byte strings at (offset, length) of `data` by first appearance.

    Equal strings get equal numbers in `ids`. `firsts` receives the first row of each
    number. `slots` must hold -1; its length is a power of two, and at most half of it
    is used. A random `seed` prevents a crafted file from causing hash collisions.

    Returns:
        The number of distinct strings, or an error code: `NO_ROOM` or `BAD_RANGE` (also
        if a string is outside `data`).
    """
    count: cython.longlong = 0
    mask: cython.longlong = slots.shape[0] - 1
    row: cython.longlong
    k: cython.longlong
    slot: cython.longlong
    start: cython.longlong
    size: cython.longlong
    other: cython.longlong
    mixed: cython.ulonglong
    # Odd number near 2^63 / golden ratio; multiplying by it spreads bits upwards.
    factor: cython.ulonglong = 0x4F1B_BCDC_BFA5_3E0B
    if (
        place.shape[0] != length.shape[0]
        or place.shape[0] != ids.shape[0]
        or place.shape[0] > 0x7FFF_FFFF
        or slots.shape[0] < 2
        or (slots.shape[0] & (slots.shape[0] - 1)) != 0
    ):
        return BAD_RANGE
    for row in range(place.shape[0]):
        if (
            place[row] < 0
            or length[row] < 0
            or place[row] > data.shape[0]
            or length[row] > data.shape[0] - place[row]
        ):
            return BAD_RANGE
    with cython.nogil:
        for row in range(place.shape[0]):
            start = place[row]
            size = length[row]
            mixed = seed
            for k in range(size):
                mixed = cython.cast(
                    cython.ulonglong, (mixed ^ data[start + k]) * factor
                )
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
                if length[k] == size and _same_bytes(data, start, place[k], size):
                    ids[row] = cython.cast(cython.int, other)
                    break
                slot = (slot + 1) & mask
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_short(
    data: cython.const[cython.uchar][::1], at: cython.longlong
) -> cython.longlong:
    return (cython.cast(cython.longlong, data[at]) << 8) | data[at + 1]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_varint(
    data: cython.const[cython.uchar][::1],
    at: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write a number to `out[0]`; return the position after it, or -1 if unreadable."""
    value: cython.longlong = 0
    _count: cython.longlong
    byte: cython.longlong
    for _count in range(8):
        if at >= end:
            return -1
        byte = data[at]
        at += 1
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            out[0] = value
            return at
    # A nine-byte number is refused: no valid length or type is that large.
    return -1


@cython.ccall
@cython.exceptval(check=False)
def sqlite_leaves(
    data: cython.const[cython.uchar][::1],
    page_bytes: cython.longlong,
    root: cython.longlong,
    out: cython.longlong[::1],
    stack: cython.longlong[:, ::1],
) -> cython.longlong:
    """List the leaf pages of a table in order; return their number, or -1 if irregular.

    Args:
        data: The file.
        page_bytes: Size of a page, in bytes.
        root: Number of the table's first page, from 1.
        out: Receives the page numbers; has one entry per page of the file.
        stack: Scratch array of two rows, page and next child; a column per level.
    """
    pages: cython.longlong = data.shape[0] // page_bytes
    seen: cython.longlong = 0
    count: cython.longlong = 0
    depth: cython.longlong = 0
    page: cython.longlong
    at: cython.longlong
    cells: cython.longlong
    child: cython.longlong
    place: cython.longlong
    most: cython.longlong = stack.shape[1]
    with cython.nogil:
        stack[0, 0] = root
        stack[1, 0] = 0
        while depth >= 0:
            page = stack[0, depth]
            if page < 1 or page > pages:
                return -1
            at = (page - 1) * page_bytes
            if page == 1:
                at += 100
            if stack[1, depth] == 0:
                # A tree has each page once: more visits mean a damaged file.
                seen += 1
                if seen > pages:
                    return -1
            if data[at] == 0x0D:
                if count >= out.shape[0]:
                    return -1
                out[count] = page
                count += 1
                depth -= 1
                continue
            if data[at] != 0x05:
                return -1
            cells = _read_short(data, at + 3)
            child = stack[1, depth]
            if child > cells:
                depth -= 1
                continue
            stack[1, depth] = child + 1
            place = at + 8
            if child < cells:
                if at + 12 + 2 * child + 2 > page * page_bytes:
                    return -1
                place = (page - 1) * page_bytes + _read_short(data, at + 12 + 2 * child)
            if place + 4 > page * page_bytes:
                return -1
            depth += 1
            if depth >= most:
                return -1
            stack[0, depth] = (_read_short(data, place) << 16) | _read_short(
                data, place + 2
            )
            stack[1, depth] = 0
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_record(
    data: cython.const[cython.uchar][::1],
    at: cython.longlong,
    end: cython.longlong,
    slots: cython.const[cython.longlong][::1],
    row: cython.longlong,
    out: cython.longlong[:, ::1],
    known: cython.uchar[:, ::1],
    number: cython.longlong[::1],
) -> cython.longlong:
    """Read the wanted values of a record; return 0, or -1 if irregular."""
    body: cython.longlong
    header: cython.longlong
    column: cython.longlong = 0
    kind: cython.longlong
    size: cython.longlong
    value: cython.longlong
    byte: cython.longlong
    slot: cython.longlong
    begin: cython.longlong = at
    at = _read_varint(data, at, end, number)
    if at < 0:
        return -1
    header = begin + number[0]
    body = header
    if header < at or header > end:
        return -1
    while at < header and column < slots.shape[0]:
        at = _read_varint(data, at, header, number)
        if at < 0:
            return -1
        kind = number[0]
        if kind >= 12:
            size = (kind - 12) >> 1
        elif kind <= 4:
            size = kind
        elif kind == 5:
            size = 6
        elif kind <= 7:
            size = 8
        elif kind <= 9:
            size = 0
        else:
            return -1
        if size > end - body:
            return -1
        slot = slots[column]
        if slot >= 0:
            if 1 <= kind <= 7:
                # The first byte contains the sign bit.
                value = data[body]
                if value >= 0x80:
                    value -= 0x100
                for byte in range(1, size):
                    value = cython.cast(
                        cython.longlong, (value << 8) | data[body + byte]
                    )
                out[slot, row] = cython.cast(cython.longlong, value)
                known[slot, row] = 2 if kind == 7 else 1
            elif 8 <= kind <= 9:
                out[slot, row] = kind - 8
                known[slot, row] = 1
        body += size
        column += 1
    return 0


@cython.ccall
@cython.exceptval(check=False)
def sqlite_numbers(
    data: cython.const[cython.uchar][::1],
    page_bytes: cython.longlong,
    usable: cython.longlong,
    pages: cython.const[cython.longlong][::1],
    slots: cython.const[cython.longlong][::1],
    out: cython.longlong[:, ::1],
    known: cython.uchar[:, ::1],
    number: cython.longlong[::1],
) -> cython.longlong:
    """Read columns from leaf pages, row by row; return the number of rows, or -1.

    Args:
        data: The file.
        page_bytes: Size of a page, in bytes.
        usable: Number of bytes of each page that are used.
        pages: Numbers of the leaf pages, from `sqlite_leaves`.
        slots: Row of `out` for each column of the table; -1 if not wanted.
        out: Receives the values: the integer, or the 64 bits of a float.
        known: Receives `NUMBER` or `FRACTION`; must be 0 before the call.
        number: Scratch array for one number.
    """
    row: cython.longlong = 0
    at: cython.longlong
    begin: cython.longlong
    end: cython.longlong
    head: cython.longlong
    cells: cython.longlong
    cell: cython.longlong
    length: cython.longlong
    place: cython.longlong
    most: cython.longlong = out.shape[1]
    with cython.nogil:
        for place in range(pages.shape[0]):
            begin = (pages[place] - 1) * page_bytes
            if pages[place] < 1 or begin + page_bytes > data.shape[0]:
                return -1
            end = begin + usable
            head = begin + 100 if pages[place] == 1 else begin
            cells = _read_short(data, head + 3)
            if head + 8 + 2 * cells > end or row + cells > most:
                return -1
            for cell in range(cells):
                at = begin + _read_short(data, head + 8 + 2 * cell)
                at = _read_varint(data, at, end, number)
                if at < 0:
                    return -1
                length = number[0]
                # The key of the row; a negative key takes nine bytes and is refused.
                at = _read_varint(data, at, end, number)
                # A longer record continues on overflow pages.
                if at < 0 or length > end - at or length > usable - 35:
                    return -1
                if (
                    _read_record(data, at, at + length, slots, row, out, known, number)
                    < 0
                ):
                    return -1
                row += 1
    return row
