"""Merging messages: nothing is lost and nothing changes its name, by protobuf's word.

What protobuf reads from the parts, each alone, is what it reads from the whole, plane
name by plane name, with every id resolved on both sides.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.xspace.kernels import uncompiled_xspace
from tests.support.xspace.proto import XSpaceMessage, values_of_message
from tests.support.xspace.wire import SPACES

from stepscope.xspace.merging.merge import Part, complete_length, merge_messages

SHIFTS = st.sampled_from([0, 1, 250, 10**9])
#: Times that count from 1970 are moved by another rule, which has its own test.
EPOCH_NS = 10**17


def resolved(value: Any) -> Any:
    """Hashable, and names that no map holds alike on both sides."""
    if isinstance(value, str) and value.startswith("(unknown"):
        return "unknown"
    if isinstance(value, list | tuple):
        return tuple(resolved(one) for one in value)
    if isinstance(value, dict):
        return tuple(sorted((key, resolved(one)) for key, one in value.items()))
    return value


def events_of(plane: dict[str, Any], shift_ns: int) -> Counter[Any]:
    """How often each event is there: its thread, time, type and values."""
    found: Counter[Any] = Counter()
    for line in plane["lines"]:
        for type_id, offset, dur, count, stats in line["events"]:
            known = plane["types"].get(type_id)
            found[
                plane["name"],
                line["id"],
                line["timestamp_ns"] + shift_ns,
                resolved(known),
                offset,
                dur,
                count,
                resolved(stats),
            ] += 1
    return found


def plane_stats(values: dict[str, Any]) -> Counter[Any]:
    return Counter(
        (plane["name"], resolved(stat))
        for plane in values["planes"]
        for stat in plane["stats"]
    )


def in_range(values: dict[str, Any]) -> bool:
    return all(
        line["timestamp_ns"] <= EPOCH_NS
        for plane in values["planes"]
        for line in plane["lines"]
    )


FORMS = {"compiled": nullcontext, "plain": uncompiled_xspace}


@pytest.mark.parametrize("form", sorted(FORMS))
@given(
    parts=st.lists(st.tuples(SPACES, SHIFTS), min_size=1, max_size=3),
    join=st.booleans(),
    keep=st.booleans(),
)
def test_every_event_survives_with_its_names(
    form: str, parts: list[tuple[bytes, int]], *, join: bool, keep: bool
) -> None:
    apart = [(values_of_message(data), shift) for data, shift in parts]
    if not all(in_range(values) for values, _ in apart):
        return
    given_parts = [Part(data=data, shift_ns=by) for data, by in parts]
    with FORMS[form]():
        merged = values_of_message(
            merge_messages(given_parts, join_lines=join, keep_first=keep)
        )
    expected: Counter[Any] = Counter()
    stats: Counter[Any] = Counter()
    for values, shift in apart:
        stats += plane_stats(values)
        for plane in values["planes"]:
            expected += events_of(plane, shift)
    found: Counter[Any] = Counter()
    for plane in merged["planes"]:
        found += events_of(plane, 0)
    assert found == expected
    assert plane_stats(merged) == stats
    names = [plane["name"] for plane in merged["planes"]]
    assert len(names) == len(set(names))
    for kind in ("errors", "warnings"):
        assert merged[kind] == [text for values, _ in apart for text in values[kind]]
    assert set(merged["hostnames"]) == {
        text for values, _ in apart for text in values["hostnames"]
    }


@given(parts=st.lists(SPACES, min_size=1, max_size=3))
def test_no_two_names_share_an_id_and_every_key_is_its_id(parts: list[bytes]) -> None:
    data = merge_messages(
        [Part(data=part) for part in parts], join_lines=True, keep_first=False
    )
    for plane in XSpaceMessage.FromString(data).planes:
        for entries in (plane.event_metadata, plane.stat_metadata):
            assert all(key == entry.id for key, entry in entries.items())


@given(data=SPACES, length=st.integers(0, 2**12))
def test_what_is_whole_of_a_torn_message_is_a_message(data: bytes, length: int) -> None:
    torn = data[: length % (len(data) + 1)]
    whole = complete_length(torn)
    assert whole <= len(torn)
    values_of_message(torn[:whole])
    if torn == data:
        assert whole == len(data)
