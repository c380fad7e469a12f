"""Functions that a framework calls on threads of its own: whose time they are.

Three runs of `make experiments`, by their own clocks, and literal traces.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import findings, on_host

import stepscope as ss
from stepscope.advice.headline import findings_by_cost
from stepscope.reporting.compose import judge_profile
from stepscope.reporting.words.findings import lead_sentence
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.reporting.compose import Judgement

#: The steps of a run that its own clock times: those before are warm-up, and the
#: recording begins and ends in two of the others.
TIMED = slice(3, 12)
SCRIPT_OPS = "/opt/lib/python3.12/site-packages/tensorflow/python/ops/script_ops.py"
JAX = "/opt/lib/python3.12/site-packages/jax/_src/debugging.py"


@pytest.fixture
def judged(
    shared_profile: Callable[[str], Path],
) -> Callable[[str], tuple[Judgement, float]]:
    """What is said of a kept run, and its mean step in ms by its own clock."""

    def of(name: str) -> tuple[Judgement, float]:
        folder = shared_profile(f"experiments/{name}")
        truth = json.loads((folder / "truth.json").read_text())
        took = statistics.mean(truth["begin_to_begin_ms"][TIMED])
        return judge_profile(open_profile(folder)), took

    return of


def test_a_store_that_is_asked_ahead_holds_no_step(judged: Any) -> None:
    """A function sleeps 5 ms on threads of the pipeline, in each step of 9 ms."""
    found, took = judged("tf_prefetched")
    assert took < 10
    assert [one.id for one in findings_by_cost(found.findings)] == []
    assert found.headline.finding is None
    assert "from_store" not in found.headline.text
    parts = {part.name for one in found.findings for part in one.parts}
    assert "from_store" not in parts


def test_the_same_store_asked_when_a_batch_is_due_does(judged: Any) -> None:
    _, ahead = judged("tf_prefetched")
    found, took = judged("tf_no_prefetch")
    assert found.headline.finding == "input.bound"
    assert "`from_store` (tensorflow_program.py:33)" in found.headline.text
    (one,) = (it for it in found.findings if it.id == "input.bound")
    assert one.saving_ms.low <= took - ahead <= one.saving_ms.high
    # It sleeps: nothing of it is to be rewritten, and a prefetch hides it.
    assert ".prefetch(" in (one.actions[0].code or "")
    assert not any("lock" in action.text for action in one.actions)


def test_what_a_debug_callback_calls_is_said_once(judged: Any) -> None:
    """`show` sorts a matrix of 512 x 512 six times, on a thread of XLA."""
    found, took = judged("jax_debug")
    assert [one.id for one in findings_by_cost(found.findings)] == ["debug.print"]
    (one,) = (it for it in found.findings if it.id == "debug.print")
    assert found.headline.finding == "debug.print"
    assert found.headline.text.endswith("most of it in `show` (jax_program.py:43).")
    assert (one.parts[0].function, one.explained_by) == ("show", ())
    # Its share is that of the ops, which are part of the whole.
    named = next(it for it in one.parts if it.name == "debug_callback.1")
    assert one.parts[0].share_percent == named.share_percent <= one.share_percent
    # The step without it takes 3.4 ms (docs/findings.md): the rest of the step runs
    # faster as well, which no recording of this step shows.
    assert one.saving_ms.high == one.ms_per_step < took - 3.4


def fetching(*, inside: bool, ahead: bool) -> list[Any]:
    """Steps of 10 ms; 4 ms of each a pool's thread is in a function of the program.

    Args:
        inside: Whether an op of the step calls one, `look_up`, and waits for it.
        ahead: Whether the pipeline calls one, `from_store`, on another thread.
    """
    lines = on_host(lead_us=5_000.0)
    pool, other = ("samples of 7, 1000 a second", "samples of 8, 1000 a second")
    main = "samples of main, 1000 a second"
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        (main, name, 0.0, begins[-1] + 10_000.0)
        for name in ("$/app/t.py:1 <module>", "$/app/t.py:9 main")
    ]
    for begin in begins:
        if inside:
            lines += [
                ("main", "model/PyFunc:PyFunc", begin + 500.0, 4_000.0),
                (pool, f"${SCRIPT_OPS}:1 FuncRegistry.__call__", begin + 500, 4_000.0),
                (pool, "$/app/t.py:30 look_up", begin + 500, 4_000.0),
            ]
        if ahead:
            lines += [
                (other, f"${SCRIPT_OPS}:1 FuncRegistry.__call__", begin + 5e3, 4e3),
                (other, "$/app/t.py:40 from_store", begin + 5_000, 4_000.0),
            ]
    return lines


def test_of_functions_on_pools_that_which_an_op_of_the_step_calls_counts() -> None:
    found = findings(fetching(inside=True, ahead=True))["host.work"]
    assert (found.status, found.parts[0].function) == ("fail", "look_up")
    assert found.parts[0].share_percent == pytest.approx(40, abs=0.5)
    assert any("TensorFlow ops" in one.text for one in found.actions[:2])
    assert "from_store" not in {part.name for part in found.parts}


@pytest.mark.parametrize("ahead", [False, True])
def test_what_runs_ahead_on_a_pool_is_no_work_of_the_step(*, ahead: bool) -> None:
    found = findings(fetching(inside=False, ahead=ahead))["host.work"]
    assert found.status == "pass"
    assert "from_store" not in {part.name for part in found.parts}


def test_a_callback_on_the_programs_own_thread_is_no_work_of_it_either() -> None:
    """XLA runs small programs on the thread that calls them."""
    lines = on_host(lead_us=5_000.0)
    main = "samples of main, 1000 a second"
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        (main, name, 0.0, begins[-1] + 10_000.0)
        for name in ("$/app/t.py:1 <module>", "$/app/t.py:9 main")
    ]
    for begin in begins:
        lines += [
            ("main", "debug_callback.1", begin + 500.0, 4_000.0),
            (main, f"${JAX}:1 debug_callback_impl", begin + 500.0, 4_000.0),
            (main, "$/app/t.py:30 show", begin + 500.0, 4_000.0),
        ]
    found = findings(lines)
    assert found["host.work"].status == "pass"
    said = found["debug.print"]
    assert said.share_percent == pytest.approx(40, abs=0.5)
    assert [part.function for part in said.parts].count("show") == 1
    assert lead_sentence(said).endswith("most of it in `show` (t.py:30).")


@pytest.mark.parametrize("name", ["tf_prefetched", "tf_no_prefetch", "jax_debug"])
def test_a_kept_run_holds_what_its_program_did(
    name: str, judged: Any, shared_profile: Any
) -> None:
    """Its steps are as long as the program's own clock says."""
    _, took = judged(name)
    profile = ss.open(shared_profile(f"experiments/{name}"))
    steps = profile.tool("overview_page").step_time_ms
    assert steps.mean == pytest.approx(took, rel=0.15)
