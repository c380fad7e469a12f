"""What is said first of literal accounts, and what is said to hold a step then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.advice.finding import Finding, Pattern, Saving
from stepscope.advice.headline import lead
from stepscope.advice.replayed import together
from stepscope.advice.signals.replay import replay_signals
from stepscope.advice.signals.shares import NamedTime
from stepscope.advice.signals.vocabulary import PLAIN, frameworks_used
from stepscope.report.words.headline import first_sentence
from stepscope.thresholds import THRESHOLDS

MS = 1_000_000_000


def failing(name: str, share: float, **fields: Any) -> Finding:
    return Finding(
        id=name,
        title="",
        stage=8,
        status="fail",
        severity="warn",
        share_percent=share,
        **fields,
    )


@pytest.mark.parametrize(("share", "kind"), [(20.1, "finding"), (19.9, "idle")])
def test_waiting_for_a_worker_that_a_finding_names_is_explained(
    signals_of: Any, shares: Any, share: float, kind: str
) -> None:
    """The finding compares workers; the wait stands in the account of one of them."""
    signals = signals_of(shares(device=None, peer=9.0))
    found = (failing("allreduce.arrival", share),)
    assert lead(found, signals, THRESHOLDS).kind == kind


@pytest.mark.parametrize(("share", "kind"), [(9.9, "host"), (10.1, "finding")])
def test_what_holds_little_of_a_program_without_a_framework_is_not_said_first(
    signals_of: Any, shares: Any, share: float, kind: str
) -> None:
    work = NamedTime(
        "host_compute",
        "inside",
        "parse",
        function="parse",
        file="rows.py",
        line=5,
        time_ps=90 * MS,
    )
    one = shares(
        device=None, names=[work], fields={"step_source": None, "step_confidence": 0.0}
    )
    found = (failing("gap.gc", share, owners=("host_compute",), devices=("vm",)),)
    said = lead(found, signals_of(one, {frameworks_used: PLAIN}), THRESHOLDS)
    assert said.kind == kind
    if kind == "host":
        assert first_sentence(said, found) == (
            "100.0 % of the recording is time in functions of the program, mostly "
            "`parse` (rows.py:5)."
        )
    # The work of a framework's ops is nothing to change: any finding comes before it.
    said = lead(found, signals_of(one, {frameworks_used: ("PyTorch",)}), THRESHOLDS)
    assert said.kind == "finding"


@pytest.mark.parametrize(("percent", "owner"), [(98.0, "input"), (100.0, None)])
def test_what_nothing_else_is_beside_is_not_hidden(
    signals_of: Any, shares: Any, percent: float, owner: str | None
) -> None:
    replays = SimpleNamespace(
        host_of=lambda _: "vm", next_bottleneck=lambda *_: ("input", percent)
    )
    saving = Saving(low=1.0, high=2.0, basis="replay")
    found = failing(
        "input.bound",
        20.0,
        owners=("input",),
        devices=("vm",),
        place="any",
        pattern=Pattern(
            kind="every", steps_hit=9, steps=9, shortest_ms=1.0, longest_ms=2.0
        ),
        saving_ms=saving,
    )
    signals = signals_of(shares(device=None, input=2.0), {replay_signals: replays})
    assert together((found,), signals, THRESHOLDS).next_owner == owner
