"""Tables that are cut, damaged, of other locales or made to harm: nothing is lost."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.kineto import frame
from tests.support.traces.nsight_compute import (
    launch,
    line,
    long,
    long_rows,
    read_checked,
    wide,
    write,
)

from stepscope.errors import BadInput
from stepscope.formats.nsight_compute.launches import (
    Measured,
    NumberForms,
    base_unit,
)
from stepscope.formats.nsight_compute.rows import find_tables

if TYPE_CHECKING:
    from pathlib import Path

TIME = "gpu__time_duration.sum"


def timed(number: int, ns: str = "5") -> str:
    return long_rows(launch(number, "gemm"), (TIME, "ns", ns))[0]


def one_line(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_checked(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    return said


def one_line_or_read(path: Path) -> None:
    with suppress(BadInput):
        read_checked(path)


#: What the tool prints where it was not asked for a table.
FOR_PEOPLE = """==PROF== Connected to process 1
[7] python3@127.0.0.1
  gemm (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    DRAM Frequency   Ghz   1.59
"""


def refused(path: Path) -> dict[str, int]:
    notes = frame(read_checked(path), "quality")
    rows = notes.filter(pl.col("kind") == "refused_rows")
    return dict(rows.select("scope", "count").iter_rows())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n",
            "ERR_NVGPUCTRPERM",
        ),
        ("==PROF== Connected to process 1\n==ERROR== Unknown metric x\n", "Unknown"),
        ("==PROF== Connected to process 1\n", "no table"),
        (FOR_PEOPLE, "ncu --import REPORT.ncu-rep --csv"),
        (long(), "no launch"),
        (long('"0","1'), "no launch"),
    ],
)
def test_a_file_without_launches_is_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    assert said in one_line(write(tmp_path / "k.csv", text))


@pytest.mark.slow(seconds=0.5)
def test_a_table_that_is_cut_anywhere_gives_the_launches_before_the_cut(
    tmp_path: Path,
) -> None:
    rows = [
        row
        for number in range(4)
        for row in long_rows(
            launch(number, "gemm, f(int, float)"),
            (TIME, "ns", "1,000"),
            ("dram__bytes.sum", "byte", "7"),
        )
    ]
    whole = "==PROF== x\n" + long(*rows)
    begin = whole.index('\n"0"')
    for at in range(begin + 1, len(whole), 7):
        path = write(tmp_path / "k.csv", whole[:at])
        complete = whole[:at].count('"1,000"')
        if not complete and "\n" not in whole[begin + 1 : at]:
            one_line_or_read(path)
            continue
        found = frame(read_checked(path), "kernel_metrics")
        assert found["duration_ps"].drop_nulls().to_list() == [1_000_000] * complete


def test_a_lost_quote_takes_one_row_with_it(tmp_path: Path) -> None:
    rows = [
        long_rows(launch(number, "gemm"), (TIME, "ns", "5"))[0] for number in (1, 2)
    ]
    broken = line(*launch(0, "gemm"), "Section", TIME, "ns")[:-1]
    path = write(tmp_path / "k.csv", long(broken, *rows))
    assert refused(path) == {"that are cut inside a cell": 1}
    found = frame(read_checked(path), "kernel_metrics")
    assert found["launch"].to_list() == [1, 2]


def test_a_header_that_lost_or_gained_a_quote_is_one_line(tmp_path: Path) -> None:
    """Rows below it were read without a header, which was an IndexError."""
    whole = long(timed(0), timed(1))
    end = whole.index("\n")
    quotes = [place for place in range(end) if whole[place] == '"']
    for place in quotes:
        for header in (
            whole[:place] + whole[place + 1 :],
            whole[:place] + '"' + whole[place:],
            whole[:place] + "\r" + whole[place + 1 :],
            # Longer than a cell of Python's reader may be.
            whole[:end] + ',"' + "x" * 2**18 + '"',
        ):
            said = one_line(write(tmp_path / "k.csv", header))
            assert "header" in said or "no table" in said


def test_rows_below_a_damaged_header_are_not_read_by_the_one_before(
    tmp_path: Path,
) -> None:
    other = wide({TIME: "ns"}, [(launch(1, "relu"), ("7",))])
    place = other.index('"Grid Size')
    damaged = other[:place] + other[place + 1 :]
    path = write(tmp_path / "k.csv", long(timed(0)) + damaged)
    assert refused(path) == {"below a damaged header": 2}
    found = frame(read_checked(path), "kernel_metrics")
    assert found["launch"].to_list() == [0]


def test_lines_of_the_program_between_rows_are_counted_and_skipped(
    tmp_path: Path,
) -> None:
    rows = [
        long_rows(launch(number, "gemm"), (TIME, "ns", "5"))[0] for number in (1, 2)
    ]
    text = long(rows[0], "loss: 0.3", "12, 13", '"quoted" words', rows[1])
    path = write(tmp_path / "k.csv", text + "==PROF== Disconnected\n")
    assert frame(read_checked(path), "kernel_metrics").height == 2
    notes = frame(read_checked(path), "quality")
    assert notes.filter(pl.col("kind") == "other_lines")["count"].to_list() == [4]


def test_cells_of_wrong_types_are_unknown_and_rows_without_a_launch_are_counted(
    tmp_path: Path,
) -> None:
    odd = ("x", "", "p", "h", "gemm", "", "z", "(0, 1, 1)", "(a)", "-1", "")
    kept = (0, "", "p", "h", "gemm", "", "z", "(2048, 1, 1)", "(a)", "-1", "")
    metrics = (TIME, "ns", "many")
    path = write(
        tmp_path / "k.csv",
        long(
            *long_rows(odd, metrics),
            *long_rows(kept, metrics, (TIME, "ns", "1e999"), ("registers", "", "nan")),
            *long_rows(kept, ("launch__registers_per_thread", "", "99999999")),
            line(*kept, "Section"),
        ),
    )
    row = frame(read_checked(path), "kernel_metrics").row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "launch": 0,
        "kernel_name": "gemm",
    }
    assert refused(path) == {
        "without a launch number or a kernel name": 1,
        "without a metric and without a rule": 1,
    }
    notes = frame(read_checked(path), "quality")
    assert notes.filter(pl.col("kind") == "impossible_values")["count"].to_list() == [1]


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize(
    "count",
    # The same of more rows, which takes seconds.
    [5_000, pytest.param(100_000, marks=pytest.mark.thorough)],
)
def test_many_thousand_rows_are_all_read(count: int, tmp_path: Path) -> None:
    rows = [
        long_rows(launch(number, "gemm"), (TIME, "ns", f"{number:,}"))[0]
        for number in range(count)
    ]
    found = frame(
        read_checked(write(tmp_path / "k.csv", long(*rows))), "kernel_metrics"
    )
    assert found.height == count
    assert found["duration_ps"].sum() == sum(range(count)) * 1000


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["12,345", "1,234,567"], [12345.0, 1234567.0]),
        (["12,345", "0.52"], [12345.0, 0.52]),
        (["12.345", "1.234.567"], [12345.0, 1234567.0]),
        (["12.345", "0,52"], [12345.0, 0.52]),
        (["12,345.67"], [12345.67]),
        (["12.345,67"], [12345.67]),
        (["12 345", "12\u202f345,5", "12'345"], [12345.0, 12345.5, 12345.0]),
        (["12,345"], [12345.0]),
        (["1e-05", "1.5e+06", "-3"], [1e-05, 1.5e6, -3.0]),
        (["1234.567", "0.125"], [1234.567, 0.125]),
        (["", "n/a", "nan", "inf", "CachePreferNone", "1,2.3,4"], [None] * 6),
    ],
)
def test_numbers_of_any_locale(texts: list[str], expected: list[float | None]) -> None:
    forms = NumberForms(texts)
    assert [forms.number(text) for text in texts] == expected


def test_a_file_of_two_forms_says_so(tmp_path: Path) -> None:
    rows = long_rows(
        launch(0, "gemm"), (TIME, "ns", "1,5"), ("b", "", "2.5"), ("c", "", "0.25")
    )
    path = write(tmp_path / "k.csv", long(*rows))
    notes = frame(read_checked(path), "quality")
    assert "mixed_number_forms" in notes["kind"].to_list()
    values = frame(read_checked(path), "kernel_metric_values")["value"]
    assert values.to_list() == [1.5, 2.5, 0.25]


@given(st.floats(0, 1e15), st.sampled_from([(",", "."), (".", ","), ("\u00a0", ",")]))
def test_a_number_is_read_as_it_was_written(
    value: float, marks: tuple[str, str]
) -> None:
    thousands, decimal = marks
    text = f"{value:,.2f}".replace(",", "T").replace(".", decimal)
    text = text.replace("T", thousands)
    assert NumberForms([text]).number(text) == pytest.approx(round(value, 2))


@pytest.mark.parametrize(
    ("unit", "base"),
    [
        ("us", ("ns", 1e3)),
        ("msecond", ("ns", 1e6)),
        ("Kbyte", ("byte", 1e3)),
        ("Gbyte/s", ("byte/s", 1e9)),
        ("Mbyte/second", ("byte/s", 1e6)),
        ("cycle/nsecond", ("Hz", 1e9)),
        ("Ghz", ("Hz", 1e9)),
        ("Kbyte/block", ("byte/block", 1e3)),
        ("%", ("%", 1.0)),
        ("", ("", 1.0)),
        ("furlong", ("furlong", 1.0)),
    ],
)
def test_units_become_base_units(unit: str, base: tuple[str, float]) -> None:
    assert base_unit(unit) == base


@given(st.binary(max_size=400))
def test_any_bytes_after_a_header_are_read_or_refused(rest: bytes) -> None:
    head = long(*long_rows(launch(0, "gemm"), (TIME, "ns", "5"))).encode()
    measured = Measured(find_tables(head + rest, "k.csv"))
    assert measured.launches[0].launch == 0


def fake_ncu(folder: Path, body: str) -> None:
    tool = folder / "ncu"
    tool.write_text(f"#!{sys.executable}\nimport sys\n{body}", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def test_a_report_is_read_through_the_tool_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = wide({TIME: "ns"}, [(launch(0, "gemm"), ("1,500",))])
    rule = line(*launch(0, "gemm"), "S", "", "", "", "Rule", "OPT", "Do it.", "", "7")
    pages = tmp_path / "pages"
    pages.mkdir()
    write(pages / "raw", raw)
    write(pages / "details", long(rule))
    asked = tmp_path / "asked"
    fake_ncu(
        tmp_path,
        f"open({str(asked)!r}, 'a').write(repr(sys.argv[1:]) + chr(10))\n"
        f"print(open({str(pages)!r} + '/' + sys.argv[-1]).read())\n",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    report = tmp_path / "--help.ncu-rep"
    report.write_bytes(b"NVR\0\1")
    trace = read_checked(report)
    assert frame(trace, "kernel_metrics")["duration_ps"].to_list() == [1_500_000]
    assert frame(trace, "kernel_rule_results")["speedup_percent"].to_list() == [7.0]
    assert asked.read_text().splitlines() == [
        str(["--import", str(report), "--csv", "--page", page])
        for page in ("raw", "details")
    ]


def test_a_report_without_the_tool_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.nvidia.PLACES", {"ncu": ()})
    report = tmp_path / "k.ncu-rep"
    report.write_bytes(b"NVR\0\1")
    assert f"ncu --import {report} --csv --page raw" in one_line(report)


def test_a_report_that_the_tool_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, "sys.exit('==ERROR== newer\\nreport')")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    report = tmp_path / "k.ncu-rep"
    report.write_bytes(b"NVR\0\1")
    assert "exit status 1): ==ERROR== newer report" in one_line(report)
