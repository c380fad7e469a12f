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


def of_a_numpy_model(
    called: str, *, product: str = "@", model_us: float = 2_000.0, at: str = ""
) -> list[Any]:
    """Turns of 10 ms: `forward` multiplies, `pack` calls a function, `read` 1 ms.

    Args:
        called: What the line of `pack` calls.
        product: What the line of `forward` calls.
        model_us: How long `forward` takes.
        at: Where `pack` spends its time: in `forward`, or in this library's function.
    """
    lines: list[Any] = []
    read, forward = "$/app/model.py:1 read", "$/app/model.py:4 forward"
    pack, packs_us = "$/app/model.py:16 pack", 9_000.0 - model_us
    for begin in (10_000.0 * turn for turn in range(20)):
        parts = [
            (forward, begin, 9_000.0 if at == "forward" else model_us, product),
            (pack, begin + model_us, packs_us, called),
            (read, begin + 9_000.0, 1_000.0, ""),
        ]
        if at.startswith("$"):
            parts.append((at, begin + model_us, packs_us, ""))
        for function, start, lasts, name in parts:
            lines.append(("samples of main, 1000 a second", function, start, lasts))
            stats = {"source_line": 20} | ({"called": name} if name else {})
            span = ("source lines of main, 1000 a second", function, start, lasts)
            lines.append((*span, stats))
    return [*lines, *WATCHED]


@pytest.mark.parametrize("called", ["zlib.compress", "np.linalg.norm", "pairs.get", ""])
def test_work_next_to_matrix_products_is_a_fault(called: str) -> None:
    found = findings(of_a_numpy_model(called), devices=None)["host.work"]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.parts[0].name == "pack"
    assert found.parts[0].share_percent == pytest.approx(70.0, abs=0.1)


@pytest.mark.parametrize(
    "lines",
    [
        # NumPy's functions and operators may compute the model, …
        of_a_numpy_model("np.exp"),
        of_a_numpy_model("*"),
        of_a_numpy_model("@"),
        # … and so may what the model calls, and installed libraries.
        of_a_numpy_model("zlib.compress", at="forward"),
        of_a_numpy_model("fit", at="$/v/site-packages/sklearn/base.py:9 fit"),
        # A wait is not work.
        of_a_numpy_model("get", at="$/usr/lib/python3.12/queue.py:154 Queue.get"),
        # No product, and hardly any.
        of_a_numpy_model("zlib.compress", product="np.tanh"),
        of_a_numpy_model("zlib.compress", model_us=400.0),
    ],
)
def test_what_may_be_the_model_of_a_plain_program_is_no_fault(lines: list[Any]) -> None:
    found = findings(lines, devices=None)["host.work"]
    expected = {("pass", None), ("fail", "functions")}
    assert (found.status, found.note) in expected
