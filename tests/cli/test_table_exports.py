"""Every table of every tool leaves in CSV, JSON and Parquet and comes back the same."""

from __future__ import annotations

import csv
import io
import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import stepscope as ss
from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import main
from stepscope.reporting import to_json
from stepscope.reporting.envelope import SCHEMA, Profile
from stepscope.reporting.exports import render_csv, render_parquet
from stepscope.reporting.tables import SUMMARY, flatten_table
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import msgspec

pytestmark = pytest.mark.usefixtures("opened_once")

#: The largest whole number that readers of JSON keep.
EXACT = 2**53
COMMITTED = ("tf_custom_loop", "jax_marked")
REAL = "gpu/torch_healthy"
#: An op of the real profile that copied and one that ran kernels.
DETAILS = ({"op": "aten::copy_"}, {"op": "aten::mm"})


@cache
def opened(path: Path) -> ss.ProfileData:
    return ss.open(path)


def check(result: msgspec.Struct | Unavailable, folder: Path) -> None:
    """Take each table of a result through all three forms."""
    written = as_json(result)
    if isinstance(result, Unavailable):
        assert written["data"] is None
        assert written["unavailable"]["reason"] == result.reason
        return
    found = ss.tables(result)
    assert SUMMARY in found
    for name, frame in found.items():
        check_csv(frame, render_csv(frame), name)
        file = folder / "table.parquet"
        file.write_bytes(render_parquet(frame))
        check_parquet(frame, file, name)
        if name != SUMMARY and name.split(".")[0] not in {"missing", "quality"}:
            check_json(frame, at(written["data"], name), name)


def as_json(result: msgspec.Struct | Unavailable) -> Any:
    profile = Profile(run="run", hosts=("vm",), devices=())
    envelope = to_json.make_envelope("tool", result, profile=profile, quality=())
    return json.loads(to_json.render_envelope(envelope))


def at(data: Any, name: str) -> Any:
    """The value under a dotted name; keys themselves may hold dots.

    Rows inside of rows follow each other, with the number of their outer row.
    """
    if name in data:
        return data[name]
    outer = next(key for key in data if name.startswith(f"{key}."))
    inner = name.removeprefix(f"{outer}.")
    if not isinstance(data[outer], list):
        return at(data[outer], inner)
    return [
        {outer: number, **row}
        for number, rows in enumerate(data[outer])
        for row in rows[inner] or ()
    ]


def check_parquet(frame: pl.DataFrame, file: Path, name: str) -> None:
    read = pl.read_parquet(file)
    if holds_nothing(frame):
        # Parquet has no objects without fields: they come back as unknown.
        assert read.columns == frame.columns
        for back, value in zip(read.to_dicts(), frame.to_dicts(), strict=True):
            assert same_value(back, value), (name, back, value)
    else:
        assert_frame_equal(read, frame)


def holds_nothing(frame: pl.DataFrame) -> bool:
    return "Struct({})" in str(frame.schema)


def check_csv(frame: pl.DataFrame, text: str, name: str) -> None:
    lines = list(csv.reader(io.StringIO(text, newline="")))
    wide = flatten_table(frame)
    assert lines[0] == wide.columns, name
    body = [line for line in lines[1:] if line or len(wide.columns) > 1]
    assert len(body) == wide.height, name
    for cells, row in zip(body, wide.iter_rows(), strict=True):
        for cell, value in zip(cells, row, strict=True):
            assert same_text(cell, value), (name, cell, value)


def same_text(cell: str, value: object) -> bool:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return cell == ""
    if isinstance(value, bool):
        return cell == str(value).lower()
    if isinstance(value, int | float):
        return float(cell) == value
    return str(value) in {cell, cell.removeprefix("'")}


def check_json(frame: pl.DataFrame, read: Any, name: str) -> None:
    assert isinstance(read, list), name
    assert len(read) == frame.height, name
    for row, value in zip(read, frame.to_dicts(), strict=True):
        # Rows inside of rows are tables of their own.
        inner = row.keys() - value.keys()
        assert all(isinstance(one, dict) for key in inner for one in row[key] or ()), (
            name
        )
        own = {key: one for key, one in row.items() if key not in inner}
        assert same_value(own, value), (name, own, value)


def same_value(read: Any, value: Any) -> bool:
    if value == {}:
        return read in ({}, None)
    if isinstance(value, dict):
        # A frame made of objects has every key that one of them has.
        return set(read) <= set(value) and all(
            same_value(read.get(key), one) for key, one in value.items()
        )
    if isinstance(value, list):
        return len(read) == len(value) and all(map(same_value, read, value))
    if isinstance(value, float) and not math.isfinite(value):
        return read is None
    if isinstance(value, int) and abs(value) > EXACT:
        return bool(read == str(value))
    return bool(read == value)


@pytest.mark.parametrize("recording", COMMITTED)
@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
@pytest.mark.sweep(every=4)
def test_tables_of_a_small_recording(
    tool: str, recording: str, repository: Path, tmp_path: Path
) -> None:
    profile = opened(repository / "tests" / "data" / recording)
    check(profile.tool(tool), tmp_path)


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
@pytest.mark.sweep(every=4)
def test_tables_of_a_real_gpu(
    tool: str, shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    check(opened(shared_profile(REAL)).tool(tool), tmp_path)


@pytest.mark.parametrize("chosen", DETAILS, ids=str)
def test_tables_of_an_op(
    chosen: dict[str, str], shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    profile = opened(shared_profile(REAL))
    check(profile.tool("framework_op_stats", **chosen), tmp_path)


def test_objects_without_fields_are_unknown_in_parquet_at_any_depth() -> None:
    frame = pl.DataFrame(
        {
            "a": [{}, {}],
            "b": [{"c": {}, "d": 1}, {"c": {}, "d": 2}],
            "e": [[{"f": {}, "g": 3}], []],
        }
    )
    assert pl.read_parquet(io.BytesIO(render_parquet(frame))).rows() == [
        (None, {"c": None, "d": 1}, [{"f": None, "g": 3}]),
        (None, {"c": None, "d": 2}, []),
    ]


def test_the_check_itself_sees_a_wrong_cell_a_lost_row_and_a_lost_column() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    check_csv(frame, "a,b\r\n1,x\r\n2,\r\n", "good")
    check_json(frame, [{"a": 1, "b": "x"}, {"a": 2, "b": None}], "good")
    for bad in ("a,b\r\n1,x\r\n", "a,b\r\n1,x\r\n3,\r\n", "a\r\n1\r\n2\r\n"):
        with pytest.raises(AssertionError):
            check_csv(frame, bad, "bad")
    for read in ([], [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]):
        with pytest.raises(AssertionError):
            check_json(frame, read, "bad")


def test_a_parquet_file_says_the_version_of_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "table.parquet"
    file.write_bytes(render_parquet(pl.DataFrame({"a": [1]})))
    assert pl.read_parquet_metadata(file)["stepscope.schema"] == str(SCHEMA)
    # Equal tables stay equal files.
    assert file.read_bytes() == render_parquet(pl.DataFrame({"a": [1]}))


@pytest.mark.slow
def test_csv_says_the_version_of_its_columns_where_it_is_asked(
    repository: Path,
) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    arguments = ["show", "framework_op_stats", recorded, "--format", "csv"]
    plain = CliRunner().invoke(main, arguments).stdout_bytes
    lined = CliRunner().invoke(main, [*arguments, "--schema-line"]).stdout_bytes
    assert lined == b"# stepscope schema 1\r\n" + plain
    read = pl.read_csv(lined, skip_rows=1, infer_schema_length=None)
    assert_frame_equal(read, pl.read_csv(plain, infer_schema_length=None))


def test_one_number_is_the_version_of_all_forms() -> None:
    assert as_json(Unavailable(code="X", reason="r", remedy="m"))["schema"] == SCHEMA
