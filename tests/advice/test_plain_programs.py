"""`host.work` in programs without a framework: functions are what they are for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import WATCHED, findings


def of_a_plain_program(*called: tuple[str, float], turns: int = 20) -> list[Any]:
    """Turns of 10 ms: `read` for 2 ms, then `clean`, which calls a library so long."""
    lines: list[Any] = []
    looks = "samples of main, 1000 a second"
    for begin in (10_000.0 * turn for turn in range(turns)):
        lines += [
            (looks, "$/app/logs.py:4 read", begin, 2_000.0),
            (looks, "$/app/logs.py:16 clean", begin + 2_000.0, 8_000.0),
        ]
        at = begin + 2_500.0
        for function, lasts in called:
            lines.append((looks, function, at, lasts))
            at += lasts
    return [*lines, *WATCHED]


@pytest.mark.parametrize(
    ("file", "function", "lasts", "advice"),
    [
        ("re/_compiler.py:738", "compile", 6_000.0, "Compile each pattern once"),
        ("copy.py:128", "deepcopy", 6_000.0, "Copy only values that change"),
        ("traceback.py:155", "format_exc", 6_000.0, "Report every n steps"),
        # Half of its time is not reached, …
        ("re/_compiler.py:738", "compile", 2_000.0, None),
        # … and this may be what the program is for.
        ("json/decoder.py:332", "decode", 6_000.0, None),
    ],
)
def test_work_that_no_program_is_for_is_a_fault_of_a_plain_one(
    file: str, function: str, lasts: float, advice: str | None
) -> None:
    library = f"$/usr/lib/python3.12/{file} {function}"
    found = findings(of_a_plain_program((library, lasts)), devices=None)["host.work"]
    assert (found.status, found.note == "functions") == ("fail", advice is None)
    assert (found.severity == "info") == (advice is None)
    if advice is not None:
        assert found.parts[0].name == "clean"
        assert found.actions[0].text.startswith(advice)


def test_what_was_called_once_is_the_program_itself() -> None:
    library = "$/usr/lib/python3.12/copy.py:128 deepcopy"
    lines = of_a_plain_program((library, 6_000.0), turns=1)
    assert findings(lines, devices=None)["host.work"].note == "functions"
