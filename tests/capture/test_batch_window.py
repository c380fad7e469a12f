"""`profile_batch` in every form that the guide and Keras know."""

from __future__ import annotations

import pytest

from stepscope.errors import BadUsage
from stepscope.integrations.keras import BatchWindow, parse_window


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10,15", (10, 15)),
        (" 10 , 15 ", (10, 15)),
        ((10, 15), (10, 15)),
        ([10, 15], (10, 15)),
        (7, (7, 7)),
        ("7", (7, 7)),
        ((3, 3), (3, 3)),
    ],
)
def test_batches_are_counted_from_one_and_both_ends_belong(
    given: object, expected: tuple[int, int]
) -> None:
    assert parse_window(given) == BatchWindow(*expected, seconds=None)


def test_left_out_it_skips_ten_and_takes_ten_within_bounds_of_time() -> None:
    expected = BatchWindow(first=11, last=20, seconds=10.0, least_s=0.4)
    assert parse_window(None) == expected


@pytest.mark.parametrize("given", [0, "0", (0, 0), "0,0"])
def test_zero_records_nothing(given: object) -> None:
    assert parse_window(given) is None


@pytest.mark.parametrize(
    "given",
    [
        *("", "ten", "10-15", "10,15,20", "-1", "1.5", "15,10", "0,5"),
        *(-1, 2.5, True, (1,), (1, 2, 3), ("1", "2"), (5, 4), (0, 3), {}),
    ],
)
def test_anything_else_is_refused_in_one_line_that_names_it(given: object) -> None:
    with pytest.raises(BadUsage) as caught:
        parse_window(given)
    assert repr(given) in str(caught.value)
    assert "\n" not in str(caught.value)
