"""Time between steps by what the program did before and after it."""

from __future__ import annotations

from typing import Any

from tests.support.traces import blueprint

from stepscope.analysis import overview_page


def between_ms(*beside: tuple[str, float, float]) -> dict[str, float]:
    """Mark steps of 1 ms every 4 ms, with other ranges beside; return the names."""
    lines: list[Any] = []
    for number in range(6):
        begin = 4_000.0 * number
        lines += [
            ("main", "train", begin, 1_000.0, {"step_num": number, "_r": 1}),
            ("main", "a/MatMul:MatMul", begin + 10.0, 980.0),
            *(("main", name, begin + at, dur) for name, at, dur in beside),
        ]
    profile = blueprint.profile(blueprint.trace(lines))
    result = overview_page.analyse(profile, overview_page.Options())
    assert isinstance(result, overview_page.OverviewPageResult)
    (mine,) = [one for one in result.account if one.owner == "between"]
    return {part.name: round(part.ms, 3) for part in mine.parts if part.name}


def test_a_gap_is_named_by_its_neighbours() -> None:
    found = between_ms(("save", 1_000.0, 500.0), ("load", 3_000.0, 990.0))
    assert found["after save, before load"] == 1.5


def test_a_gap_between_calls_of_one_function_names_it_once() -> None:
    found = between_ms(("answer", 1_000.0, 500.0), ("answer", 3_000.0, 990.0))
    assert found["between two calls of answer"] == 1.5
