"""All statements about time of one report, read as data: no two disagree.

Each finding, the headline and each page that divides a step's time names owners and a
share; all are held against the account itself.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.results.statements import (
    Statement,
    accounted,
    owned,
    owners_in,
    read,
)

from stepscope.advice.headline import findings_by_cost
from stepscope.derive.account.parts import account_parts
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, OWNERS
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.reporting.document import Document


#: Nobody tries more changes than that against one cause.
MAX_ACTIONS = 4
#: A share in a sentence.
WRITTEN = re.compile(r"([<>]?[\d.]+) %")
#: Silence before a batch is copied is input too, whoever owns it.
SILENCE = ("unfed",)


def statements(document: Document) -> list[Statement]:
    """Everything that the report claims of owners of time."""
    found = []
    for one in document.findings:
        if (one.owners or one.topics) and one.share_percent is not None:
            label = placed(one.devices[0], document)
            place = one.place or "any"
            found.append(
                Statement(
                    *(one.id, *label, one.owners, place, one.share_percent),
                    topics=one.topics,
                )
            )
    overview = document.overview
    if not isinstance(overview, Unavailable):
        found += [
            Statement(
                "overview_page",
                entry.host,
                entry.device,
                (entry.owner,),
                "any",
                entry.percent,
            )
            for entry in overview.account
        ]
    return found + pages(document)


def pages(document: Document) -> list[Statement]:
    """What pages say of a run's one device, or of its one host without devices."""
    overview = document.overview
    if isinstance(overview, Unavailable):
        return []
    places = {(entry.host, entry.device) for entry in overview.account}
    if len(places) != 1:
        return []
    ((host, device),) = places
    found = [
        Statement(
            "overview_page",
            host,
            device,
            owners_in(category, on_device=device is not None),
            "any",
            percent,
        )
        for category, percent in overview.breakdown_percent.items()
        if percent is not None
    ]
    pipeline = document.input_pipeline
    if not isinstance(pipeline, Unavailable) and pipeline.input_percent is not None:
        waits = ("input", "copy_in")
        share = pipeline.input_percent
        found.append(
            Statement(
                *("input_pipeline_analyzer", host, device, waits, "any", share),
                topics=SILENCE,
            )
        )
    return found


def number(text: str) -> float:
    return 0.05 if text.startswith("<") else float(text.removeprefix(">"))


def placed(label: str, document: Document) -> tuple[str, int | None]:
    """The host and the device of `host:device`; a host's name may hold colons."""
    if label in document.profile.hosts:
        return label, None
    host, _, device = label.rpartition(":")
    return host, int(device)


def test_every_share_is_the_accounts(recorded_run: str, shared_profile: Any) -> None:
    profile, document = read(shared_profile(recorded_run))
    for one in statements(document):
        assert one.percent == pytest.approx(owned(profile, one), abs=1e-9), one


def test_every_named_part_has_its_share_of_the_account(
    recorded_run: str, shared_profile: Any
) -> None:
    """Parts of the findings that divide owners' time, and those the headline names."""
    profile, document = read(shared_profile(recorded_run))
    for one in document.findings:
        # Calls that set a device up are told with waits that other owners have.
        if one.owners and one.share_percent is not None and one.note != "set_up":
            host, device = placed(one.devices[0], document)
            known = named_shares(profile, host, device, one.owners, one.place or "any")
            for part in one.parts:
                # Functions are told with what they call, which is others' time too.
                if part.function is None and part.name in known:
                    assert part.share_percent == pytest.approx(known[part.name]), one.id
    said = document.headline
    if said.finding is not None or said.owner not in IDLE_OWNERS:
        return
    written = [number(text) for text in WRITTEN.findall(said.text)]
    shares = [said.percent or 0.0]
    for host, device in accounted(profile):
        shares += named_shares(profile, host, device, (said.owner,), "any").values()
    for percent in written:
        assert any(abs(percent - share) <= 0.051 for share in shares), said.text


def named_shares(
    profile: Any, host: str, device: int | None, owners: tuple[str, ...], place: str
) -> dict[str, float]:
    """The names of owners' time in the account, each with its share of all time."""
    found = profile.derived(host, account_parts)
    rows = pl.concat(
        [found.rows, found.callers.with_columns(name="function")], how="diagonal"
    )
    mine = rows.filter(
        pl.col("device").eq_missing(pl.lit(device, pl.Int32)),
        pl.col("owner").is_in(owners),
        pl.col("place").is_in([place] if place != "any" else ["inside", "between"]),
    )
    summed = mine.group_by("name").agg(pl.col("time_ps").sum()).drop_nulls()
    return {name: 100 * time / found.window_ps for name, time in summed.iter_rows()}


def test_no_two_statements_about_the_same_time_differ(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    said: dict[Any, Statement] = {}
    for one in statements(document):
        named = frozenset((*one.owners, *one.topics))
        key = (one.host, one.device, named, one.place)
        before = said.setdefault(key, one)
        assert one.percent == pytest.approx(before.percent, abs=1e-9), (one, before)


def test_the_headline_is_that_of_its_finding_or_of_the_account(
    recorded_run: str, shared_profile: Any
) -> None:
    profile, document = read(shared_profile(recorded_run))
    said = document.headline
    assert said.text.endswith(".")
    if said.finding is not None:
        (finding,) = (one for one in document.findings if one.id == said.finding)
        assert finding.status == "fail"
        assert said.percent == finding.share_percent
        assert said.owner in (finding.owners or (None,))
        return
    if said.owner is None:
        return
    owners = BUSY_OWNERS if said.owner == "busy" else (said.owner,)
    claims = [
        Statement("headline", host, device, owners, "any", said.percent or 0.0)
        for host, device in accounted(profile)
    ]
    assert any(
        said.percent == pytest.approx(owned(profile, one), abs=1e-9) for one in claims
    )


def test_nothing_is_called_well_while_something_fails(
    recorded_run: str, shared_profile: Any
) -> None:
    """A calm headline leaves no warning unsaid that may gain a tenth of the step."""
    _, document = read(shared_profile(recorded_run))
    said = document.headline
    assert "no check fails" not in said.text.lower()
    failing = findings_by_cost(document.findings)
    if said.finding is None and failing and failing[0].saving_ms is not None:
        assert said.owner in {"busy", *IDLE_OWNERS}
        if said.owner == "busy":
            share = failing[0].saving_ms.high / max(failing[0].ms_per_step or 1.0, 1e-9)
            claimed = share * (failing[0].share_percent or 0.0)
            assert claimed < THRESHOLDS.minor_gain.value


def test_much_idle_time_is_never_passed_over(
    recorded_run: str, shared_profile: Any
) -> None:
    """An idle owner of a fifth of the step has a finding, or the headline."""
    profile, document = read(shared_profile(recorded_run))
    told = {
        owner
        for one in document.findings
        if one.status == "fail"
        for owner in one.owners
    }
    if document.headline.owner is not None:
        told.add(document.headline.owner)
    grave = document.headline.finding == "capture.quality"
    by_device = {one.devices[0] for one in document.findings if one.devices}
    for host, device in accounted(profile):
        label = host if device is None else f"{host}:{device}"
        if grave or label not in by_device:
            continue
        for owner in {one.name for one in OWNERS} - set(BUSY_OWNERS) - told:
            if device is None and owner == "host_compute":
                continue
            one = Statement("account", host, device, (owner,), "any", 0.0)
            share = owned(profile, one)
            if share >= THRESHOLDS.idle_owner.value:
                leading = document.headline.percent or 0.0
                assert leading >= share or document.headline.finding is not None


def test_what_explains_a_finding_fails_and_does_not_lean_on_it(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    found = {one.id: one for one in document.findings}
    for one in document.findings:
        for name in one.explained_by:
            assert (one.status, found[name].status) == ("fail", "fail"), (one.id, name)
            assert one.id not in found[name].explained_by, (one.id, name)


def test_a_cause_has_at_most_four_actions_for_each_framework(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    for one in document.findings:
        for framework in {it.framework for it in one.actions}:
            usable = [it for it in one.actions if it.framework in {framework, "any"}]
            causes = Counter(it.cause for it in usable)
            assert max(causes.values()) <= MAX_ACTIONS, (one.id, framework, causes)
