"""`host.work` over functions that work between the ops of a model."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import findings, on_host
from tests.support.traces.waiting import core_time

from stepscope.reporting.words.findings import lead_sentence

TORCH = "/opt/lib/python3.12/site-packages/torch"


def tokenising(*, pieces: int) -> list[Any]:
    """A step: 6 ms of `tokenise` in `forward`, 0.9 of ops, gradients, an update.

    Looks come once in a step, and late: they find it from 2.3 ms on, until 2 ms of the
    next step. In pieces it works between ops, of which each takes 10 µs.
    """
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    begins = [line[2] for line in lines if line[1] == "train"]
    looks = "samples of main, 100 a second"
    module = f"{TORCH}/nn/modules/module.py(1782): Module._call_impl"
    for begin in begins:
        each = 6_000.0 / pieces
        lines += [
            (looks, module, begin + 2_300.0, 9_700.0),
            (looks, "/app/train.py(24): forward", begin + 2_305.0, 9_690.0),
            (looks, "/app/train.py(11): tokenise", begin + 2_310.0, 9_680.0),
            *(
                ("main", "aten::relu", begin + 100.0 + each * at, 10.0)
                for at in range(pieces)
            ),
        ]
        for at, op in enumerate(("addmm", "relu", "_softmax")):
            node = f"{op.strip('_').title()}Backward0"
            lines += [
                ("main", f"aten::{op}", begin + 6_100.0 + 300.0 * at, 300.0),
                ("main", node, begin + 7_000.0 + 300.0 * at, 300.0),
            ]
        lines.append(("main", "aten::add_", begin + 7_900.0, 2_000.0))
    return lines


def test_a_function_that_works_between_the_ops_of_a_forward_pass_is_found() -> None:
    """By hand: within the looks no op runs for 3.88 ms of each of 20 steps.

    Nor for 1.95 ms more of all but the first: 114.65 of 199.99 ms. Looks that came late
    had it call the ops of the model, so that it was taken for it.
    """
    found = findings(tokenising(pieces=1), devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "tokenise")
    assert found.parts[0].share_percent == pytest.approx(57.33, abs=0.01)
    assert lead_sentence(found).startswith(
        "Work on the host: `tokenise` (train.py:11) takes 57.3 % of the step, during "
        "which no op of a model runs."
    )
    # What the replay of the step without it gains, with a fifth for the rest.
    assert found.saving_ms is not None
    assert found.saving_ms.high <= 6.0


@pytest.mark.parametrize(("awake_us", "status"), [(9_990, "fail"), (7_000, "pass")])
def test_a_function_around_the_model_is_found_where_its_thread_works(
    awake_us: int, status: str
) -> None:
    """Of 10 ms `forward` works for 4.0 by itself, and calls ops for the rest.

    Where its thread wants no core for three of these, it may wait for ops.
    """
    lines = on_host(lead_us=4_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    ran = [(begin + 9_990.0 - awake_us, begin + 9_990.0) for begin in begins]
    lines += core_time("main", ran)
    lines += core_time("other threads", [(0.0, 200_000.0)])
    lines += [
        ("main", "/app/train.py(12): forward", begin + 50.0, 9_930.0)
        for begin in begins
    ]
    found = findings(lines, devices=None)["host.work"]
    assert found.status == status
    if status == "fail":
        assert found.parts[0].name == "forward"
        assert found.parts[0].share_percent == pytest.approx(39.5, abs=0.1)
        assert found.actions[0].text.startswith("Vectorise")


def test_short_ways_from_op_to_op_are_those_of_the_model() -> None:
    """The same time in pieces of 0.99 ms: a caller of ops has Python between them."""
    found = findings(tokenising(pieces=6), devices=None)["host.work"]
    assert (found.status, found.note) == ("pass", "ops")
