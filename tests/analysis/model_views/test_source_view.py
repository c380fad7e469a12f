"""The view of the program's lines: in one list, over hosts and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.kept_promises import check_frame
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.analysis.model_views.source_rows import SOURCE_ROWS
from stepscope.reporting.outline import as_text
from stepscope.reporting.text.model import view_outline
from stepscope.unavailable import Unavailable

DATA = Path(__file__).resolve().parents[2] / "data"
#: Two steps of 50 µs in a program without ops, and what they load with.
STEPS: list[blueprint.Line] = [
    line
    for number in range(2)
    for base in [100 * number]
    for line in [
        ("main", "train", base, 50, {"_r": 1, "step_num": number}),
        ("main", "$train.py:20 step", base, 50),
        ("main", "$train.py:3 load", base + 10, 30 + 5 * number),
    ]
]


def analysed(*traces: Any, **options: Any) -> ModelViewsResult:
    result = model_views.analyse(blueprint.profile(*traces), Options(**options))
    assert isinstance(result, ModelViewsResult), result
    assert check_frame(SOURCE_ROWS, result.source) == []
    return result


def rows(result: ModelViewsResult) -> list[tuple[Any, ...]]:
    columns = ("name", "percent", "host_us", "total_host_us")
    return result.source.select(columns).rows()


def test_a_program_of_functions_alone_has_lines() -> None:
    result = analysed(blueprint.trace(STEPS))
    assert rows(result) == [
        ("train.py:3 load", 65.0, 65.0, 65.0),
        ("train.py:20 step", 35.0, 35.0, 100.0),
    ]
    reasons = {one.field: one.code for one in result.missing}
    assert reasons["source.device_us"] == reasons["source.total_device_us"]
    assert "source" not in reasons


def test_without_ops_and_ranges_the_lines_are_shown_first() -> None:
    functions = [line for line in STEPS if line[1].startswith("$")]
    assert analysed(blueprint.trace(functions)).view == "source"
    assert analysed(blueprint.trace(STEPS)).view == "annotation"
    assert analysed(blueprint.trace(functions), view="graph").view == "graph"


def test_hosts_and_steps_add_up() -> None:
    once = analysed(blueprint.trace(STEPS, host="a"))
    twice = analysed(blueprint.trace(STEPS, host="a"), blueprint.trace(STEPS, host="b"))
    assert [row[2] for row in rows(twice)] == [2 * row[2] for row in rows(once)]
    assert rows(analysed(blueprint.trace(STEPS), step=0)) == [
        ("train.py:3 load", 60.0, 30.0, 30.0),
        ("train.py:20 step", 40.0, 20.0, 50.0),
    ]
    assert [row[2] for row in rows(analysed(blueprint.trace(STEPS), step=1))] == [
        *(35.0, 15.0)
    ]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"min_micros": 70.0}, ["train.py:20 step"]),
        ({"min_cpu_micros": 70.0}, ["train.py:20 step"]),
        ({"min_accelerator_micros": 1.0}, []),
        ({"show_name_regexes": (".*load",)}, ["train.py:3 load"]),
        ({"hide_name_regexes": (".*load",)}, ["train.py:20 step"]),
        ({"order_by": "name"}, ["train.py:20 step", "train.py:3 load"]),
    ],
)
def test_options_choose_and_order_lines(options: Any, left: list[str]) -> None:
    found = analysed(blueprint.trace(STEPS), **options)
    assert [row[0] for row in rows(found)] == left


def test_what_no_line_is_known_of_comes_last_and_is_explained() -> None:
    result = analysed(blueprint.a1())
    assert result.source["name"].to_list() == ["(no source line)"]
    assert result.source["self_us"].sum() == pytest.approx(result.total_us)
    assert "source" in {one.field for one in result.missing}


def test_a_page_says_what_the_line_of_a_function_means() -> None:
    outline = view_outline(
        analysed(blueprint.trace(STEPS)),
        view="source",
        title="Model views",
        others=("op",),
    )
    text = as_text.render_page(outline, width=100)
    assert "train.py:20 step" in text
    assert "host total" in text
    assert "does not show which of its lines ran" in " ".join(text.split())
    assert "device self" not in text


LINES = "source lines of main, 100 a second"
#: One frame of `step`, which calls `load` in its line 22 and computes in line 23.
SEEN: list[blueprint.Line] = [
    ("main", "train", 0, 50, {"_r": 1, "step_num": 0}),
    ("samples of main, 100 a second", "$train.py:20 step", 0, 50),
    ("samples of main, 100 a second", "$train.py:3 load", 0, 30),
    (LINES, "$train.py:20 step", 0, 30, {"source_line": 22}),
    (LINES, "$train.py:3 load", 0, 30, {"source_line": 5}),
    (LINES, "$train.py:20 step", 30, 20, {"source_line": 23}),
]


def shown(result: ModelViewsResult) -> str:
    outline = view_outline(result, view="source", title="Views", others=("op",))
    text = as_text.render_page(outline, width=100)
    return " ".join(text.split())


def test_lines_that_looks_found_are_in_place_of_their_functions() -> None:
    result = analysed(blueprint.trace(SEEN))
    assert rows(result) == [
        ("train.py:5 load", 60.0, 30.0, 30.0),
        ("train.py:23 step", 40.0, 20.0, 20.0),
        ("train.py:22 step", 0.0, 0.0, 30.0),
    ]
    assert result.source["exact"].to_list() == [True] * 3
    assert set(result.source["event"]) == {"$train.py:20 step", "$train.py:3 load"}
    assert "is added to the next line that has a call" in shown(result)
    assert "were not recorded: if exact" not in shown(result)


def test_functions_of_a_host_without_lines_stay_apart_from_lines() -> None:
    """`load` begins in the line that ran on the other host."""
    seen = [*SEEN[:4], (*SEEN[4][:4], {"source_line": 3}), SEEN[5]]
    traces = [blueprint.trace(seen, host="a"), blueprint.trace(SEEN[:3], host="b")]
    result = analysed(*traces)
    both = result.source.filter(result.source["name"] == "train.py:3 load")
    assert sorted(both.select("exact", "host_us").rows()) == [
        (False, 30.0),
        (True, 30.0),
    ]
    assert "if exact is false" in shown(result)


@pytest.mark.parametrize("name", ["gpu/jax_healthy", "gpu/torch_healthy"])
def test_device_times_add_up_to_those_of_all_devices(name: str) -> None:
    profile = stepscope.open(DATA / name)
    result = profile.tool("model_views")
    assert not isinstance(result, Unavailable)
    other = result.op["device_us"].sum()
    assert result.source["device_us"].sum() == pytest.approx(other)
    assert result.source["percent"].sum() == pytest.approx(100)
