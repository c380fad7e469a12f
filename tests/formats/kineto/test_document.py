"""Finding the parts of a document, whole or broken."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from stepscope.errors import BadInput
from stepscope.formats.kineto.json.document import Document, find_document_parts

EVENTS = '[{"ph": "X", "ts": 1}, {"ph": "X", "ts": 2, "args": {"a": [{"b": 1}]}}]'


def document(text: str | bytes) -> Document:
    data = text.encode() if isinstance(text, str) else text
    return find_document_parts(np.frombuffer(data, np.uint8), "trace.json")


def listed(found: Document) -> str:
    return bytes(found.view[found.begin : found.end]).decode()


def fields(found: Document) -> dict[str, Any]:
    return {key: json.loads(value) for key, value in found.fields.items()}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"schemaVersion": 1, "traceEvents": {EVENTS}, "trace_id": "x"}}',
        f'{{"trace_id": "x", "schemaVersion": 1, "traceEvents": {EVENTS}}}',
        f' \n{{"traceEvents": {EVENTS}, "trace_id": "x", "schemaVersion": 1}}\n ',
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["", "byte-order mark"])
def test_fields_stand_before_and_behind_the_events(text: str, mark: bytes) -> None:
    found = document(mark + text.encode())
    assert fields(found) == {"schemaVersion": 1, "trace_id": "x"}
    assert listed(found) == EVENTS[1:-1]


def test_the_list_alone_is_a_document() -> None:
    found = document(EVENTS)
    assert listed(found) == EVENTS[1:-1]
    assert fields(found) == {}


def test_of_a_broken_document_the_fields_on_both_sides_are_found() -> None:
    broken = EVENTS.replace('"ts": 2', '"ts": NaN')
    found = document(
        f'{{"deviceProperties": [{{"id": 0}}], "traceEvents": {broken}, '
        '"distributedInfo": {"rank": 3, "pg_config": [{"x": 1}]}, '
        '"baseTimeNanoseconds": 17}'
    )
    assert found.cut_at is None
    assert fields(found) == {
        "deviceProperties": [{"id": 0}],
        "distributedInfo": {"rank": 3, "pg_config": [{"x": 1}]},
        "baseTimeNanoseconds": 17,
    }


def test_a_document_that_ends_too_early_says_where() -> None:
    text = f'{{"schemaVersion": 1, "traceEvents": {EVENTS[:-10]}'
    found = document(text)
    assert found.cut_at == len(text)
    assert fields(found) == {"schemaVersion": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PK\x03\x04", "this is not JSON at byte 0"),
        ('{"a": 1}', "holds no traceEvents"),
        ('{"traceEvents": {"a": 1}}', "traceEvents is not a list at byte 16"),
        ('{"schemaVersion": 1, "deviceProp', "no list of events"),
    ],
)
def test_refusals_name_the_place(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        document(text)
