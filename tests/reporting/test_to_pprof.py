"""The pprof form, read back with protobuf from a descriptor written here."""

from __future__ import annotations

import gzip
from typing import Any

import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.errors import BadUsage
from stepscope.reporting import to_pprof

_FIELD = descriptor_pb2.FieldDescriptorProto
#: Message → fields of `profile.proto`: number, name, type, "*" for repeated.
_MESSAGES = {
    "Profile": [
        (1, "sample_type", "ValueType", "*"),
        (2, "sample", "Sample", "*"),
        (4, "location", "Location", "*"),
        (5, "function", "Function", "*"),
        (6, "string_table", "string", "*"),
        (9, "time_nanos", "int64", ""),
        (13, "comment", "int64", "*"),
        (14, "default_sample_type", "int64", ""),
    ],
    "ValueType": [(1, "type", "int64", ""), (2, "unit", "int64", "")],
    "Sample": [(1, "location_id", "uint64", "*"), (2, "value", "int64", "*")],
    "Location": [(1, "id", "uint64", ""), (4, "line", "Line", "*")],
    "Line": [(1, "function_id", "uint64", ""), (2, "line", "int64", "")],
    "Function": [
        (1, "id", "uint64", ""),
        (2, "name", "int64", ""),
        (4, "filename", "int64", ""),
    ],
}
_TYPES = {
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "string": _FIELD.TYPE_STRING,
}
_PACKAGE = "pprof_of_the_tests"


def _profile_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="pprof_of_the_tests.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, kind, how in fields:
            field = message.field.add(name=name, number=number, label=3 if how else 1)
            field.type = _TYPES.get(kind, _FIELD.TYPE_MESSAGE)
            if kind not in _TYPES:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.Profile")
    return message_factory.GetMessageClass(found)


PROFILE = _profile_class()


def parsed(data: bytes) -> Any:
    profile = PROFILE()
    profile.ParseFromString(gzip.decompress(data))
    assert profile.string_table[0] == ""
    return profile


def sample_types(profile: Any) -> list[str]:
    texts = profile.string_table
    return [f"{texts[one.type]}/{texts[one.unit]}" for one in profile.sample_type]


def stacks(profile: Any) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Names from the root down → the values of the sample."""
    texts = profile.string_table
    functions = {one.id: texts[one.name] for one in profile.function}
    locations = {one.id: functions[one.line[0].function_id] for one in profile.location}
    assert len(locations) == len(profile.location)
    found = {}
    for sample in profile.sample:
        path = tuple(locations[number] for number in reversed(sample.location_id))
        assert path not in found
        found[path] = tuple(sample.value)
    return found


def rows(*given: tuple[int | None, str, float, int | None]) -> pl.DataFrame:
    """Rows of a view from parent, name, self time and operations."""
    return pl.DataFrame(
        {
            "id": range(len(given)),
            "parent": [one[0] for one in given],
            "name": [one[1] for one in given],
            "total_us": [one[2] for one in given],
            "self_us": [one[2] for one in given],
            "self_flops": [one[3] for one in given],
        },
        schema_overrides={"parent": pl.Int64, "self_flops": pl.Int64},
    )


def test_the_scopes_of_a1() -> None:
    result = model_views.analyse(blueprint.profile(blueprint.a1()), Options())
    assert isinstance(result, ModelViewsResult)
    profile = parsed(to_pprof.render(result.scope, view="scope"))
    # No operations are known, so none are claimed.
    assert sample_types(profile) == ["time/microseconds"]
    assert stacks(profile) == {
        ("model", "dense", "MatMul"): (800,),
        ("model", "dense_1", "MatMul"): (800,),
        ("MemcpyH2D",): (560,),
        ("allreduce",): (480,),
        ("MemcpyD2H",): (80,),
    }
    # A scope segment is one location wherever it stands.
    assert len(profile.location) == 7


def test_operations_are_a_second_value() -> None:
    table = rows((None, "a", 0.0, None), (0, "a/b", 5.0, 2**62), (0, "a/c", 1.0, None))
    profile = parsed(to_pprof.render(table, view="scope", comments=["from a test"]))
    assert sample_types(profile) == ["time/microseconds", "flops/count"]
    assert stacks(profile) == {("a", "b"): (5, 2**62), ("a", "c"): (1, 0)}
    comments = [profile.string_table[one] for one in profile.comment]
    assert comments == ["from a test", "flops of some nodes are unknown and count as 0"]
    assert profile.string_table[profile.default_sample_type] == "time"


def test_lines_carry_file_and_number() -> None:
    table = rows(
        (None, "train.py:12 step", 1.0, None),
        (0, "C:/x y/layer.py:7 forward", 2.0, None),
        (None, "(no source line)", 3.0, None),
    )
    profile = parsed(to_pprof.render(table, view="code"))
    texts = profile.string_table
    functions = {one.id: one for one in profile.function}
    found = {
        texts[functions[one.line[0].function_id].filename]: one.line[0].line
        for one in profile.location
    }
    assert found == {"train.py": 12, "C:/x y/layer.py": 7, "": 0}
    assert ("train.py:12 step", "C:/x y/layer.py:7 forward") in stacks(profile)


def test_rounded_times_keep_their_sum() -> None:
    table = rows(*((None, f"op{at}", 0.4, None) for at in range(100)))
    profile = parsed(to_pprof.render(table, view="op"))
    assert sum(values[0] for values in stacks(profile).values()) == 40


def test_equal_views_are_equal_files() -> None:
    table = rows((None, "a", 5.0, 1))
    assert to_pprof.render(table, view="op") == to_pprof.render(table, view="op")


def test_a_view_without_times_is_refused() -> None:
    with pytest.raises(BadUsage, match="select micros"):
        to_pprof.render(rows((None, "a", 5.0, 1)).drop("self_us"), view="op")
