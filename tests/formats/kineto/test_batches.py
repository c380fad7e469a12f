"""Every event is found, wherever the stretches of the list end."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope.formats.kineto.json.batches as module
from stepscope.formats.kineto.json.batches import Batch, read_batches
from stepscope.formats.kineto.json.document import Document, find_document_parts

#: Texts in which an object seems to end and another to begin.
NAMES = st.sampled_from(["plain", 'x"}, {"y', "}, {", "}\n,\n{", "[{]}", "ü\\", ""])
ARGS = st.dictionaries(
    st.sampled_from(["a", "b", "}, {"]),
    st.one_of(
        st.integers(-(2**70), 2**70),
        NAMES,
        st.lists(st.dictionaries(NAMES, st.integers(0, 3), max_size=2), max_size=3),
    ),
    max_size=3,
)
EVENTS = st.lists(
    st.builds(
        lambda name, args, ts: {"ph": "X", "name": name, "ts": ts, "args": args},
        NAMES,
        ARGS,
        st.integers(0, 10**6),
    ),
    max_size=12,
)
SEPARATORS = [(",", ":"), (", ", ": "), (",\n  ", ": ")]


@pytest.fixture(autouse=True, params=[(64, 16), (16, 1)], ids=["short", "shorter"])
def _short_stretches(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stretches that nearly always end in the wrong place."""
    stretch, short = request.param
    monkeypatch.setattr(module, "_PART_BYTES", stretch)
    monkeypatch.setattr(module, "_SINGLE_BYTES", short)


def document(text: str | bytes) -> Document:
    data = text.encode() if isinstance(text, str) else text
    return find_document_parts(np.frombuffer(data, np.uint8), "test")


def seen(found: list[Batch]) -> list[tuple[Any, ...]]:
    return [
        (event.name, start, json.loads(bytes(event.args)))
        for batch in found
        for event, start in zip(batch.events, batch.start_ns.tolist(), strict=True)
    ]


def expected(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(it["name"], it["ts"] * 1000, it["args"]) for it in events]


@given(events=EVENTS, separators=st.sampled_from(SEPARATORS))
def test_all_events_are_read_once_and_in_order(
    events: list[dict[str, Any]], separators: tuple[str, str]
) -> None:
    text = json.dumps({"traceEvents": events}, separators=separators)
    found = list(read_batches(document(text)))
    assert seen(found) == expected(events)
    assert not any(batch.refused or batch.cut_at for batch in found)


@given(events=EVENTS, separators=st.sampled_from(SEPARATORS))
def test_arguments_alone_are_those_of_the_events(
    events: list[dict[str, Any]], separators: tuple[str, str]
) -> None:
    text = json.dumps({"traceEvents": events}, separators=separators)
    found = [
        json.loads(bytes(arguments))
        for batch in read_batches(document(text), arguments_only=True)
        for arguments in batch.arguments or [it.args for it in batch.events]
    ]
    assert found == [event["args"] for event in events]


@given(events=EVENTS, at=st.integers(0, 12))
def test_one_event_that_breaks_a_rule_leaves_the_others_alone(
    events: list[dict[str, Any]], at: int
) -> None:
    texts = [json.dumps(event) for event in events]
    odd = '{"ph": "X", "name": "odd", "ts": 5, "dur": NaN, "args": {"a": Infinity}}'
    texts.insert(at, odd)
    whole = [*events]
    whole.insert(at, {"name": "odd", "ts": 5, "args": {"a": None}})
    found = list(read_batches(document(f'{{"traceEvents": [{", ".join(texts)}]}}')))
    assert seen(found) == expected(whole)
    assert sum(batch.lenient for batch in found) == 1


@given(events=EVENTS, at=st.integers(0, 12))
def test_an_event_that_is_none_is_left_out_alone(
    events: list[dict[str, Any]], at: int
) -> None:
    texts = [json.dumps(event, separators=(",", ":")) for event in events]
    # It ends neither its text nor itself.
    texts.insert(at, '{"ph":"X","name":"lost","ts":')
    found = list(read_batches(document(f'{{"traceEvents": [{",".join(texts)}]}}')))
    good = [it for it in seen(found) if it[0] != "lost"]
    rest = expected(events)
    # What follows the broken one may be taken for a part of it.
    assert good in (rest, [*rest[:at], *rest[at + 1 :]])


@given(st.lists(st.integers(0, 2**43 - 1), min_size=1, max_size=9))
def test_sixteen_digits_and_three_decimals_are_read_exactly(times: list[int]) -> None:
    epoch = 1_694_128_201_000_000
    texts = [f'{{"ph":"X","ts":{epoch + it // 1000}.{it % 1000:03d}}}' for it in times]
    found = list(read_batches(document(f'{{"traceEvents": [{",".join(texts)}]}}')))
    starts = [int(it) for batch in found for it in batch.start_ns]
    assert starts == [epoch * 1000 + it for it in times]
