"""Two findings about the same time: one names the other, by what they share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepscope.advice.engine import mark_explained_findings
from stepscope.advice.finding import Finding
from stepscope.advice.item import Item, Rule, Sentences
from stepscope.derive.facts.evidence import CauseShare, Saving
from stepscope.derive.facts.step_shares import AccountSignals
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
NARROW, OTHER, BROAD = "narrow.one", "narrow.other", "broad.one"


def finding(name: str, share: float, **fields: Any) -> Finding:
    return Finding(
        **{
            "id": name,
            "title": "",
            "stage": 2,
            "status": "fail",
            "severity": "warn",
            "share_percent": share,
            "devices": ("vm:0",),
            "place": "any",
            **fields,
        }
    )


def told(
    accounted: Any, *narrower: Finding, broad: Finding
) -> dict[str, tuple[str, ...]]:
    words = Sentences(texts={})
    blank = Item(
        id=BROAD, stage=2, place=1, module="", title="", about="", words=words, tools=()
    )
    items = [
        blank,
        *(
            msgspec.structs.replace(blank, id=one.id, explains=(BROAD,))
            for one in narrower
        ),
    ]
    found = mark_explained_findings(
        {one.id: one for one in (broad, *narrower)},
        {}
        if isinstance(accounted, Unavailable)
        else {one.label: one for one in accounted.shares},
        [Rule(item, lambda *_: broad, ()) for item in items],
    )
    return {name: one.explained_by for name, one in found.items()}


@pytest.mark.parametrize(
    ("held_ms", "narrow", "broad"),
    [(6.0, (), (NARROW,)), (5.9, (BROAD,), ())],
)
def test_what_holds_most_of_the_other_explains_it(
    shares: Any, held_ms: float, narrow: tuple[str, ...], broad: tuple[str, ...]
) -> None:
    held = {("garbage", "between", "between"): round(held_ms * MS * 12)}
    one = shares(step_ms=100.0, between={"between": 10.0}, fields={"held": held})
    found = told(
        AccountSignals((one,)),
        finding(NARROW, held_ms, topics=("garbage",)),
        broad=finding(BROAD, 10.0, owners=("between",), place="between"),
    )
    assert found == {NARROW: narrow, BROAD: broad}


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"devices": ("vm:1",)}, "between"), ({}, "inside")],
    ids=["another device", "another place"],
)
def test_time_that_is_not_shared_explains_nothing(
    shares: Any, fields: dict[str, Any], place: str
) -> None:
    held = {("garbage", "between", "between"): 9 * MS * 12}
    one = shares(step_ms=100.0, between={"between": 10.0}, fields={"held": held})
    found = told(
        AccountSignals((one,)),
        finding(NARROW, 9.0, topics=("garbage",), **fields),
        broad=finding(BROAD, 10.0, owners=("between",), place=place),
    )
    assert found == {NARROW: (), BROAD: ()}


@pytest.mark.parametrize(
    ("launch_ms", "broad"),
    [(3.0, (OTHER, NARROW)), (2.9, ())],
    ids=["enough", "too little"],
)
def test_several_explain_together_what_none_explains_alone(
    shares: Any, launch_ms: float, broad: tuple[str, ...]
) -> None:
    """Of 10 ms between the steps garbage holds 4: 1 while the host launches."""
    held = {
        ("garbage", "between", "between"): 3 * MS * 12,
        ("garbage", "launch", "between"): 1 * MS * 12,
    }
    between = {"between": 10.0 - launch_ms, "launch": launch_ms}
    one = shares(step_ms=100.0, between=between, fields={"held": held})
    found = told(
        AccountSignals((one,)),
        finding(NARROW, 20.0, owners=("launch",)),
        finding(OTHER, 20.0, topics=("garbage",)),
        broad=finding(BROAD, 10.0, owners=("between", "launch"), place="between"),
    )
    assert found == {NARROW: (), OTHER: (), BROAD: broad}


def slow_steps(**shares: float) -> Finding:
    """A finding about steps that are slow for these owners, and about no owner."""
    causes = tuple(
        CauseShare(cause=owner, share_percent=share) for owner, share in shares.items()
    )
    return finding(BROAD, sum(shares.values()), causes=causes)


@pytest.mark.parametrize(
    ("causes", "explained_by"),
    [
        # 29 of 38 % are waits for a batch, …
        ({"input": 29.0, "host_compute": 9.0}, (NARROW,)),
        # … or 9 of 38 %; then the steps are slow for another reason.
        ({"input": 9.0, "host_compute": 29.0}, ()),
    ],
)
def test_slow_steps_are_the_matter_of_who_says_why_they_are(
    shares: Any, causes: dict[str, float], explained_by: tuple[str, ...]
) -> None:
    accounted = AccountSignals((shares(input=5.0, host_compute=3.0),))
    narrow = finding(NARROW, 50.0, owners=("input",), saving_ms=GAIN)
    found = told(accounted, narrow, broad=slow_steps(**causes))
    # What promises a gain is part of nothing that promises none.
    assert found == {BROAD: explained_by, NARROW: ()}


def test_of_slow_steps_on_one_device_another_one_explains_nothing(shares: Any) -> None:
    accounted = AccountSignals((shares(input=5.0),))
    narrow = finding(NARROW, 50.0, owners=("input",), devices=("vm:1",), saving_ms=GAIN)
    found = told(accounted, narrow, broad=slow_steps(input=38.0))
    assert found[BROAD] == ()


GAIN = Saving(low=1.0, high=2.0)
