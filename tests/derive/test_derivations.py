"""A derivation is declared by its signature, which is read without being evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.declared import declared

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.unavailable import Unavailable

GIVEN = {"events", "launches"}


def counted(*, events: list[int]) -> int:
    return len(events)


def paired(*, counted: int, launches: list[int] | Unavailable) -> tuple[int, object]:
    return counted, launches


def grouped(*, events: dict[str, int | Unavailable]) -> int:
    return len(events)


def chicken(*, egg: int) -> int:
    return egg


def egg(*, chicken: int) -> int:
    return chicken


def by_position(events: list[int]) -> int:
    return len(events)


def of_nothing(*, rainbows: list[int]) -> int:
    return len(rainbows)


def evaluated(*, events: list[int]) -> int:
    return len(events)


evaluated.__annotations__["events"] = list[int]


def named_as_a_table(*, events: list[int]) -> int:
    return len(events)


named_as_a_table.__name__ = "launches"


def test_parameters_name_the_inputs_and_annotations_say_which_may_be_absent() -> None:
    found = declared((paired, counted), GIVEN)
    assert list(found) == ["paired", "counted"]
    assert found["counted"].inputs == {"events": False}
    assert found["paired"].inputs == {"counted": False, "launches": True}
    assert found["paired"].compute is paired


def test_only_a_member_of_the_union_itself_lets_an_input_be_absent() -> None:
    assert declared((grouped,), GIVEN)["grouped"].inputs == {"events": False}


@pytest.mark.parametrize(
    ("functions", "refusal"),
    [
        ((counted, counted), "counted: declared twice"),
        ((named_as_a_table,), "launches: declared twice"),
        (
            (of_nothing,),
            "of_nothing: its parameter 'rainbows' names no table and no derivation",
        ),
        (
            (by_position,),
            "by_position: its parameter 'events' is not keyword-only",
        ),
        (
            (evaluated,),
            (
                "evaluated: the annotation of 'events' is not kept as text; begin the "
                "module with `from __future__ import annotations`"
            ),
        ),
        ((chicken, egg), "derivations need each other: chicken ← egg ← chicken"),
    ],
    ids=["double", "table", "unknown", "position", "evaluated", "circle"],
)
def test_a_signature_that_says_too_little_is_refused(
    functions: tuple[Callable[..., object], ...], refusal: str
) -> None:
    with pytest.raises(TypeError) as refused:
        declared(functions, GIVEN)
    assert str(refused.value) == refusal
