# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Tables over small whole numbers: number what is distinct, pick rows, add up groups.

`gather` looks rows up. NumPy converts numbers of 32 bits first, which takes longer than
looking them up.

Handles, types, devices and codes come from narrow ranges, so that a table with one
place per possible value answers in one step what hashing or sorting would. Totals are
added group by group in one pass; they are exact, whole numbers of 64 bits.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: An output array is too small.
NO_ROOM = -1
#: Arrays of different lengths, or a value or code outside of its table.
BAD_RANGE = -3

#: Values that are copied as they are: only their width matters.
Item = cython.fused_type(cython.uchar, cython.int, cython.longlong)


@cython.ccall
def number_pairs(
    outer: cython.const[cython.int][::1],
    inner: cython.const[cython.int][::1],
    least: cython.longlong,
    width: cython.longlong,
    table: cython.int[::1],
    out: cython.int[::1],
    first: cython.longlong[::1],
) -> cython.longlong:
    """Number the distinct pairs (outer, inner) in the order of their first rows.

    Inner values lie in [least, least + width), outer ones from 0 up, and there are
    none where the inner ones alone count. `table`, with a place for each pair, begins
    as -1 everywhere. `out` receives each row's number, `first` the first row of each
    number.

    Returns:
        How many distinct pairs there are; or `NO_ROOM` (of `first`), which as many
        places as there are pairs (or rows) prevent; or `BAD_RANGE`.
    """
    row: cython.longlong
    within: cython.longlong
    place: cython.longlong
    code: cython.int
    count: cython.longlong = 0
    places: cython.longlong = table.shape[0]
    paired: cython.bint = outer.shape[0] > 0
    if (
        (outer.shape[0] != inner.shape[0] and outer.shape[0] != 0)
        or out.shape[0] != inner.shape[0]
        or least < -0x8000_0000
        or width < 1
        or width > 0x1_0000_0000
        or first.shape[0] > 0x7FFF_FFFF
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(inner.shape[0]):
            within = inner[row] - least
            if within < 0 or within >= width:
                return -3
            place = within
            if paired:
                place += outer[row] * width
            if place < 0 or place >= places:
                return -3
            code = table[place]
            if code < 0:
                if count >= first.shape[0]:
                    return -1
                code = cython.cast(cython.int, count)
                table[place] = code
                first[count] = row
                count += 1
            out[row] = code
    return count


@cython.ccall
def pick_rows(
    key: cython.const[cython.int][::1],
    wanted: cython.const[cython.uchar][::1],
    begin: cython.longlong,
    end: cython.longlong,
    out: cython.longlong[::1],
) -> cython.longlong:
    """Write the rows of [begin, end) whose key is wanted, ascending, while they fit.

    Returns:
        How many there are, also beyond the room of `out`; or `BAD_RANGE`.
    """
    row: cython.longlong = begin
    at: cython.longlong
    outside: cython.bint
    found: cython.bint
    value: cython.longlong
    count: cython.longlong = 0
    values: cython.longlong = wanted.shape[0]
    room: cython.longlong = out.shape[0]
    if begin < 0 or begin > end or end > key.shape[0]:
        return BAD_RANGE
    with cython.nogil:
        # Few rows are wanted: eight at once are passed over without a branch for each.
        while cython.compiled and row + 8 <= end:
            outside = 0
            for at in range(8):
                # Below zero is far above as an unsigned number.
                outside |= cython.cast(cython.uint, key[row + at]) >= values
            if outside:
                return -3
            found = 0
            for at in range(8):
                found |= wanted[cython.cast(cython.uint, key[row + at])] != 0
            if found:
                for at in range(8):
                    if wanted[cython.cast(cython.uint, key[row + at])]:
                        if count < room:
                            out[count] = row + at
                        count += 1
            row += 8
        while row < end:
            value = key[row]
            if value < 0 or value >= values:
                return -3
            if wanted[value]:
                if count < room:
                    out[count] = row
                count += 1
            row += 1
    return count


@cython.ccall
def sum_groups(
    code: cython.const[cython.int][::1],
    value: cython.const[cython.longlong][::1],
    where: cython.const[cython.uchar][::1],
    count: cython.longlong[::1],
    total: cython.longlong[::1],
    least: cython.longlong[::1],
    greatest: cython.longlong[::1],
) -> cython.longlong:
    """Add every row to its group; the four outputs, by group, begin as zeros.

    Rows of groups below 0 are left out, and rows where `where`, if not empty, is 0.
    A group without rows keeps its zeros, whatever they mean to the caller. Empty
    `least` and `greatest` are not filled, which saves half of the time.

    Returns:
        The number of rows, or `BAD_RANGE`.
    """
    row: cython.longlong
    group: cython.longlong
    number: cython.longlong
    groups: cython.longlong = count.shape[0]
    chosen: cython.bint = where.shape[0] > 0
    extremes: cython.bint = least.shape[0] > 0
    if (
        value.shape[0] != code.shape[0]
        or (where.shape[0] != code.shape[0] and where.shape[0] != 0)
        or total.shape[0] != count.shape[0]
        or (least.shape[0] != total.shape[0] and least.shape[0] != 0)
        or greatest.shape[0] != least.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(code.shape[0]):
            group = code[row]
            if group < 0 or (chosen and not where[row]):
                continue
            if group >= groups:
                return -3
            number = value[row]
            if extremes:
                if count[group] == 0 or number < least[group]:
                    least[group] = number
                if count[group] == 0 or number > greatest[group]:
                    greatest[group] = number
            count[group] += 1
            total[group] += number
    return code.shape[0]


@cython.ccall
def group_hulls(
    code: cython.const[cython.int][::1],
    begin: cython.const[cython.longlong][::1],
    dur: cython.const[cython.longlong][::1],
    count: cython.longlong[::1],
    first: cython.longlong[::1],
    last: cython.longlong[::1],
) -> cython.longlong:
    """Find the first begin and the last end of each group, which begin as zeros.

    Times lie within ±(2**62 - 1), so that no end can overflow. A code below 0 is no
    group.

    Returns:
        The number of rows, or `BAD_RANGE`.
    """
    row: cython.longlong
    group: cython.longlong
    ends: cython.longlong
    if (
        begin.shape[0] != code.shape[0]
        or dur.shape[0] != code.shape[0]
        or first.shape[0] != count.shape[0]
        or last.shape[0] != count.shape[0]
    ):
        return BAD_RANGE
    with cython.nogil:
        for row in range(code.shape[0]):
            group = code[row]
            if group < 0:
                continue
            if group >= count.shape[0]:
                return -3
            ends = begin[row] + dur[row]
            if count[group] == 0 or begin[row] < first[group]:
                first[group] = begin[row]
            if count[group] == 0 or ends > last[group]:
                last[group] = ends
            count[group] += 1
    return code.shape[0]


@cython.ccall
def tally_names(
    group: cython.const[cython.int][::1],
    name: cython.const[cython.int][::1],
    place: cython.const[cython.int][::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    """Count the rows of each group and name; `out` begins as zeros.

    `place` gives the column of a name, below 0 for none. A group below 0 is none.

    Returns:
        How many rows were counted, or `BAD_RANGE`.
    """
    row: cython.longlong
    column: cython.longlong
    found: cython.longlong = 0
    if name.shape[0] != group.shape[0]:
        return BAD_RANGE
    with cython.nogil:
        for row in range(group.shape[0]):
            if group[row] < 0:
                continue
            if (
                name[row] < 0
                or name[row] >= place.shape[0]
                or group[row] >= out.shape[0]
            ):
                return -3
            column = place[name[row]]
            if column < 0:
                continue
            if column >= out.shape[1]:
                return -3
            out[group[row], column] += 1
            found += 1
    return found


@cython.ccall
def gather_values(
    values: cython.const[Item][::1],
    rows: cython.const[cython.int][::1],
    none: cython.const[Item][::1],
    out: Item[::1],
) -> cython.longlong:
    """Write the value of each row, and the one value of `none` for rows below 0.

    Where `none` is empty, no row may lie below 0.

    Returns:
        How many rows there are; or `BAD_RANGE`.
    """
    at: cython.longlong
    row: cython.longlong
    count: cython.longlong = values.shape[0]
    may_be_none: cython.bint = none.shape[0] == 1
    if len(out) != len(rows) or len(none) > 1:
        return BAD_RANGE
    with cython.nogil:
        for at in range(rows.shape[0]):
            row = rows[at]
            if 0 <= row < count:
                out[at] = values[row]  # type: ignore[index] # no fused types there
            elif row < 0 and may_be_none:
                out[at] = none[0]  # type: ignore[index] # as above
            else:
                return -3
    return rows.shape[0]
