"""`host.work` of functions that looks at a stack found, among ops of the model."""

from __future__ import annotations

import pytest
from tests.support.traces.training import BF16, MATMUL, Recorder, findings, on_host

LOOKS = "samples of main, 1000 a second"
FORWARD = ("addmm", "relu", "_softmax")


def test_ops_that_run_in_the_model_too_belong_to_a_function_that_looks_blur() -> None:
    """A step: 18 ms of training, then 20 ms of the forward pass again, one look in two.

    The story: of a validation of half of each step half lay so near to the ends of
    what looks found that most of its ops counted as the training's, and its loader was
    said first.
    """
    lines = [line for line in on_host(step_us=40_000.0) if line[1] == "train"]
    for begin in [line[2] for line in lines]:
        for at, op in enumerate(FORWARD):
            node = f"{op.strip('_').title()}Backward0"
            lines += [
                ("main", f"aten::{op}", begin + 100.0 + 3_000.0 * at, 3_000.0),
                ("main", node, begin + 9_100.0 + 3_000.0 * at, 3_000.0),
            ]
        lines += [
            ("main", f"aten::{op}", begin + 18_500.0 + 1_000.0 * at, 990.0)
            for at, op in enumerate(FORWARD * 7)
            if at < 20
        ]
        lines.append(
            (
                "samples of main, 100 a second",
                "$/app/train.py:10 validate",
                begin + 18_500.0,
                20_000.0,
            )
        )
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "validate")
    assert found.parts[0].share_percent == pytest.approx(50, abs=1)


def test_a_loop_is_named_once_with_what_it_calls() -> None:
    """The story: one function had 93 % and, further on, 22 % in one list."""
    lines = on_host(lead_us=6_000.0)
    marks = [line for line in lines if line[1] == "train"]
    lines = [line for line in lines if line[1] != "IteratorGetNext"]
    lasts = max(line[2] + line[3] for line in marks)
    lines.append(("main", "$/app/decode.py:23 generate", 0.0, lasts))
    lines += [
        ("main", "$/app/decode.py:13 detokenize", line[2] + 40.0, 2_500.0)
        for line in marks
    ]
    found = findings(lines, devices=None)["host.work"]
    named = [one.name for one in found.parts if one.function]
    assert named[0] == "detokenize"
    assert "generate" in named
    assert len(named) == len(set(named))


def test_of_stacks_that_break_off_the_deeper_function_is_named() -> None:
    """Looks of nine steps in ten see `main` too: it was the answer, as the shorter."""
    made = Recorder()
    for number in range(10):
        begin = 10_000.0 * number
        made.mark(number, begin, 9_990.0)
        made.launch((BF16, 900.0, MATMUL), begin + 9_000.0, begin + 9_020.0)
        if number:
            made.lines.append((LOOKS, "$a.out!main", begin, 8_900.0))
        made.lines.append((LOOKS, "$a.out!fill", begin, 8_900.0))
    found = findings(made.lines)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "fill")
