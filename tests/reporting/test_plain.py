"""Results as JSON values: nothing that a reader of JSON would get wrong."""

from __future__ import annotations

import json
import math

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.reporting.envelope import Profile
from stepscope.reporting.plain import plain
from stepscope.reporting.to_json import make_envelope, render_envelope
from stepscope.unavailable import Missing, Unavailable


class Result(msgspec.Struct, frozen=True, kw_only=True):
    rows: pl.DataFrame
    total: float
    missing: tuple[Missing, ...] = ()
    inputs: dict[str, int] = {}


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_survive_a_reader_that_knows_doubles_only(number: int) -> None:
    written = plain(number)
    assert int(written) == number  # type: ignore[arg-type]
    if not isinstance(written, str):
        assert int(float(written)) == number  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null_wherever_it_stands(value: float) -> None:
    frame = pl.DataFrame({"x": [value], "s": [{"y": value}], "l": [[value]]})
    assert plain({"a": value, "rows": frame}) == {
        "a": None,
        "rows": [{"x": None, "s": {"y": None}, "l": [None]}],
    }


def test_large_integers_of_a_frame_are_texts_and_small_ones_numbers() -> None:
    frame = pl.DataFrame({"id": [1, 2**53, 2**53 + 1, -(2**60)]})
    assert [row["id"] for row in plain(frame)] == [  # type: ignore[union-attr, index]
        1,
        2**53,
        "9007199254740993",
        "-1152921504606846976",
    ]


def test_what_is_alike_is_written_as_each_is_alone() -> None:
    class Inner(msgspec.Struct, frozen=True):
        at: float | None
        tags: tuple[str, ...] = ()

    class Outer(msgspec.Struct, frozen=True):
        count: int | bool | None
        inner: tuple[Inner, ...]
        parts: dict[str, float | int]

    class Empty(msgspec.Struct, frozen=True):
        pass

    values = (
        Outer(1, (Inner(0.0), Inner(math.nan, ("a", "b"))), {"x": 1.5, "y": 2}),
        Outer(None, (), {}),
        Outer(2**60, (Inner(None, ("c",)),), {"z": math.inf}),
        Outer(count=True, inner=(Inner(2.5),), parts={"x": 0.0}),
    )
    expected = [
        {
            "count": 1,
            "inner": [{"at": 0.0, "tags": []}, {"at": None, "tags": ["a", "b"]}],
            "parts": {"x": 1.5, "y": 2},
        },
        {"count": None, "inner": [], "parts": {}},
        {
            "count": str(2**60),
            "inner": [{"at": None, "tags": ["c"]}],
            "parts": {"z": None},
        },
        {"count": True, "inner": [{"at": 2.5, "tags": []}], "parts": {"x": 0.0}},
    ]
    assert plain(values) == expected
    assert [plain(one) for one in values] == expected
    assert plain((Empty(), Empty())) == [{}, {}]


def test_a_column_of_finite_numbers_may_have_an_infinite_sum() -> None:
    frame = pl.DataFrame({"x": [1e308, 1e308, None], "none": [None, None, None]})
    assert plain(frame) == [
        {"x": 1e308, "none": None},
        {"x": 1e308, "none": None},
        {"x": None, "none": None},
    ]


def test_a_value_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        plain(object())


PROFILE = Profile(run="r", hosts=("vm",), devices=())


def test_the_envelope_has_the_keys_of_the_contract_in_order() -> None:
    gone = Missing(field="total", code="NO_STEPS", reason="None.", remedy="Mark.")
    result = Result(
        rows=pl.DataFrame({"rank": [1]}),
        total=math.nan,
        missing=(gone,),
        inputs={"events": 3},
    )
    answer = make_envelope("kernel_stats", result, profile=PROFILE, quality=())
    written = json.loads(render_envelope(answer))
    assert list(written) == [
        "schema",
        "tool",
        "profile",
        "unavailable",
        "missing",
        "quality",
        "inputs",
        "data",
    ]
    assert written["schema"] == 1
    assert written["profile"] == {
        "run": "r",
        "hosts": ["vm"],
        "devices": [],
        "ranks": {},
        "processes": None,
    }
    assert written["unavailable"] is None
    assert written["missing"] == [
        {"field": "total", "code": "NO_STEPS", "reason": "None.", "remedy": "Mark."}
    ]
    assert written["inputs"] == {"events": 3}
    assert written["data"] == {"rows": [{"rank": 1}], "total": None}


def test_an_absent_result_is_a_reason_and_null_data() -> None:
    why = Unavailable(code="NO_DEVICE_PLANE", reason="No device.", remedy="Record.")
    answer = make_envelope("kernel_stats", why, profile=PROFILE, quality=())
    written = json.loads(render_envelope(answer))
    assert written["data"] is None
    assert written["unavailable"] == {
        "code": "NO_DEVICE_PLANE",
        "reason": "No device.",
        "remedy": "Record.",
    }
