"""Messages of the ProfilerService, held against Google's own protobuf."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from stepscope.remote.messages import (
    NewProfileSessionRequest,
    ProfileOptions,
    ProfileRequest,
    ProfileResponse,
    ProfileToolData,
    decode_message,
    encode_message,
)
from stepscope.xspace.wire import MalformedMessage

KINDS = descriptor_pb2.FieldDescriptorProto
#: Fields as the public .proto files of TensorFlow declare them: name, number, type.
DECLARED = {
    "ProfileOptions": [
        ("include_dataset_ops", 1, KINDS.TYPE_BOOL),
        ("host_tracer_level", 2, KINDS.TYPE_UINT32),
        ("device_tracer_level", 3, KINDS.TYPE_UINT32),
        ("python_tracer_level", 4, KINDS.TYPE_UINT32),
        ("version", 5, KINDS.TYPE_UINT32),
        ("start_timestamp_ns", 8, KINDS.TYPE_UINT64),
        ("repository_path", 10, KINDS.TYPE_STRING),
        ("session_id", 14, KINDS.TYPE_STRING),
        ("override_hostname", 15, KINDS.TYPE_STRING),
        ("enable_multipass", 16, KINDS.TYPE_BOOL),
    ],
    "ProfileRequest": [
        ("duration_ms", 1, KINDS.TYPE_UINT64),
        ("max_events", 2, KINDS.TYPE_UINT64),
        ("tools", 3, KINDS.TYPE_STRING),
        ("opts", 4, "ProfileOptions"),
        ("repository_root", 5, KINDS.TYPE_STRING),
        ("session_id", 6, KINDS.TYPE_STRING),
        ("host_name", 7, KINDS.TYPE_STRING),
        ("emit_xspace", 9, KINDS.TYPE_BOOL),
    ],
    "ProfileToolData": [
        ("name", 1, KINDS.TYPE_STRING),
        ("data", 2, KINDS.TYPE_BYTES),
    ],
    "ProfileResponse": [
        ("tool_data", 6, "ProfileToolData"),
        ("empty_trace", 7, KINDS.TYPE_BOOL),
        ("xspace", 8, KINDS.TYPE_BYTES),
    ],
    "NewProfileSessionRequest": [
        ("request", 1, "ProfileRequest"),
        ("repository_root", 2, KINDS.TYPE_STRING),
        ("hosts", 3, KINDS.TYPE_STRING),
        ("session_id", 4, KINDS.TYPE_STRING),
    ],
}
REPEATED = {"tools", "tool_data", "hosts"}


def google(name: str) -> Any:
    """A message class of Google's protobuf with the fields declared above."""
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p")
    file.syntax = "proto3"
    for message, fields in DECLARED.items():
        made = file.message_type.add(name=message)
        for field, number, kind in fields:
            added = made.field.add(name=field, number=number)
            added.label = (
                KINDS.LABEL_REPEATED if field in REPEATED else KINDS.LABEL_OPTIONAL
            )
            if isinstance(kind, str):
                added.type, added.type_name = KINDS.TYPE_MESSAGE, f".p.{kind}"
            else:
                added.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"p.{name}")
    return message_factory.GetMessageClass(found)


def test_google_reads_what_we_write() -> None:
    ours = ProfileRequest(
        duration_ms=2000,
        tools=("xplane.pb", "overview_page"),
        opts=ProfileOptions(
            version=1, host_tracer_level=2, start_timestamp_ns=2**62, session_id="a"
        ),
        session_id="2026",
        host_name="vm:6009",
        emit_xspace=True,
    )
    read = google("ProfileRequest").FromString(encode_message(ours))
    assert (read.duration_ms, list(read.tools)) == (
        2000,
        ["xplane.pb", "overview_page"],
    )
    assert (read.opts.version, read.opts.host_tracer_level) == (1, 2)
    assert (read.opts.start_timestamp_ns, read.opts.session_id) == (2**62, "a")
    assert (read.session_id, read.host_name, read.emit_xspace) == (
        "2026",
        "vm:6009",
        True,
    )


def test_we_read_what_google_writes_and_skip_what_we_do_not_know() -> None:
    theirs = google("NewProfileSessionRequest")(
        hosts=["a:1", "b:2"], repository_root="/logs", session_id="s"
    )
    theirs.request.duration_ms = 7
    theirs.request.opts.enable_multipass = True
    theirs.request.opts.python_tracer_level = 1
    read = decode_message(NewProfileSessionRequest, theirs.SerializeToString())
    assert (read.hosts, read.repository_root, read.session_id) == (
        ("a:1", "b:2"),
        "/logs",
        "s",
    )
    assert read.request.duration_ms == 7
    assert read.request.opts == ProfileOptions(python_tracer_level=1)


def test_a_profile_stays_the_bytes_that_it_is() -> None:
    data = bytes(range(256))
    ours = ProfileResponse(
        xspace=data, tool_data=(ProfileToolData(name="n", data=data),) * 2
    )
    read = google("ProfileResponse").FromString(encode_message(ours))
    assert (read.xspace, [one.data for one in read.tool_data]) == (data, [data, data])
    assert decode_message(ProfileResponse, read.SerializeToString()) == ours


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    try:
        read = decode_message(ProfileRequest, data)
    except MalformedMessage:
        return
    assert decode_message(ProfileRequest, encode_message(read)) == read


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x05ab", b"\x08", b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x0a\x01a"],
    ids=["cut text", "cut number", "huge length", "text for a number"],
)
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(ProfileRequest, data)
