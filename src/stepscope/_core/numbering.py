# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Lookup tables over small integers: number distinct values, pick rows, sum groups.

`gather_values` looks up a value for each row. NumPy would first convert 32-bit indices,
which takes longer than the lookup.

Handles, types, devices and codes have narrow ranges, so a table with one entry per
possible value replaces hashing and sorting. Totals of groups are added up in one pass
and are exact 64-bit integers.
"""

from __future__ import annotations

from stepscope._core._shim import cython

#: An output array is too small.
NO_ROOM = -1
#: Array lengths differ, or a value or code is outside its table.
BAD_RANGE = -3

#: Type of values that are copied unchanged; only its width matters.
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

    Inner values are within [least, least + width). Outer values are at least 0; if
    `outer` is empty, only inner values are numbered. `table` has one entry per possible
    pair and must be -1 everywhere. `out` receives the number of each row, `first` the
    first row of each number.

    Returns:
        The number of distinct pairs, or an error code: `NO_ROOM` (never with one entry
        of `first` per possible pair, or per row) or `BAD_RANGE`.
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
        The number of these rows, including those that did not fit; or `BAD_RANGE`.
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
        # Few rows are wanted: eight rows without a wanted key take one branch.
        while cython.compiled and row + 8 <= end:
            outside = 0
            for at in range(8):
                # As an unsigned number, a negative key is above every valid key.
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
    """Compute count, total, least and greatest value of each group.

    The four outputs must be zero before the call. Rows with a negative group are
    skipped; so are rows whose `where` is 0, unless `where` is empty. A group without
    rows keeps its zeros. Empty `least` and `greatest` are not computed, which halves
    the time.

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
    """Find the first begin and the last end of each group.

    The outputs must be zero before the call. Rows with a negative code are skipped.
    Times are within ±(2**62 - 1), so that no end can overflow.

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
    """Count the rows of each group and name; `out` must be zero before the call.

    `place` is the column of each name, negative if the name is not counted. Rows of
    negative groups are skipped.

    Returns:
        The number of counted rows, or `BAD_RANGE`.
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
    """Write the value of each row; a negative row gets the single value of `none`.

    If `none` is empty, negative rows are an error.

    Returns:
        The number of rows, or `BAD_RANGE`.
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
                out[at] = values[row]  # type: ignore[index] # mypy has no fused types
            elif row < 0 and may_be_none:
                out[at] = none[0]  # type: ignore[index] # as above
            else:
                return -3
    return rows.shape[0]
