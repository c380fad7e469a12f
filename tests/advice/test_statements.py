"""All statements about time of one report, read as data: no two disagree.

Each finding, the headline and each page that divides a step's time names owners and a
share; all are held against the account itself.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

from stepscope.advice.headline import by_cost
from stepscope.cli.progress import Progress
from stepscope.derive.account.owned_time import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import (
    BUSY_OWNERS,
    IDLE_OWNERS,
    OWNERS,
    owners_of,
)
from stepscope.derive.step_windows.windows import typical, windows
from stepscope.report.compose import compose
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.report.document import Document


class Statement(NamedTuple):
    """What somebody says of the time of some owners.

    Attributes:
        by: Who says it.
        host: Host whose account it is about.
        device: Ordinal of the device; None for the host's own threads.
        owners: The owners.
        topics: Topics, that is parts of other owners' time.
        place: "inside", "between" or "any".
        percent: The share that is claimed.
    """

    by: str
    host: str
    device: int | None
    owners: tuple[str, ...]
    place: str
    percent: float
    topics: tuple[str, ...] = ()


@cache
def read(path: Path) -> tuple[ProfileData, Document]:
    profile = open_profile(path)
    return profile, compose(profile, Progress(stages=9))


def statements(document: Document) -> list[Statement]:
    """Everything that the report claims of owners of time."""
    found = []
    for one in document.findings:
        if (one.owners or one.topics) and one.share_percent is not None:
            label = placed(one.devices[0], document)
            place = one.place or "any"
            found.append(
                Statement(
                    *(one.id, *label, one.owners, place, one.share_percent, one.topics)
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
            "overview_page", host, device, owners_in(category, device), "any", percent
        )
        for category, percent in overview.breakdown_percent.items()
        if percent is not None
    ]
    pipeline = document.input_pipeline
    if not isinstance(pipeline, Unavailable) and pipeline.input_percent is not None:
        waits = ("input", "copy_in")
        share = pipeline.input_percent
        found.append(
            Statement("input_pipeline_analyzer", host, device, waits, "any", share)
        )
    return found


def owners_in(category: str, device: int | None) -> tuple[str, ...]:
    """The owners of a category; without devices, waiting for others is in the rest."""
    owners = owners_of(category)
    return (*owners, "peer") if category == "other" and device is None else owners


def placed(label: str, document: Document) -> tuple[str, int | None]:
    """The host and the device of `host:device`; a host's name may hold colons."""
    if label in document.profile.hosts:
        return label, None
    host, _, device = label.rpartition(":")
    return host, int(device)


def owned(profile: ProfileData, one: Statement) -> float:
    """The share of the owners, summed over the account's own rows."""
    found = profile.derived(one.host, account)
    assert not isinstance(found, Unavailable)
    placed_windows = profile.derived(one.host, windows)
    assert not isinstance(placed_windows, Unavailable)
    measured = typical(placed_windows.rows.with_row_index("window"))["window"]
    mine = pl.col("device").eq_missing(pl.lit(one.device, pl.Int32)) & pl.col(
        "window"
    ).is_in(measured.to_list())
    rows, between = found.rows.filter(mine), found.between.filter(mine)
    total = 0
    for owner in one.owners:
        every = rows[f"{owner}_ps"].fill_null(0).sum()
        out = between[f"{owner}_ps"].fill_null(0).sum() if owner in IDLE_OWNERS else 0
        total += {"any": every, "between": out, "inside": every - out}[one.place]
    for spans in topic_spans(profile, one):
        kept = placed_windows.rows[measured.to_list()]
        starts, ends = kept["start_ps"].to_numpy(), kept["end_ps"].to_numpy()
        total += int(spans.within(starts, ends).sum())
    return 100 * total / rows["window_ps"].sum()


def topic_spans(profile: ProfileData, one: Statement) -> list[Spans]:
    """The instants of a statement's topics, each of which has an owner too."""
    if not one.topics:
        return []
    found, topics = (profile.derived(one.host, it) for it in (account, idle_topics))
    assert not isinstance(found, Unavailable)
    assert not isinstance(topics, Unavailable)
    (whole,) = (it for it in found.devices if it.device == one.device)
    (mine,) = (it for it in topics.devices if it.device == one.device)
    spans = [mine.spans[topic] for topic in one.topics]
    idle = Spans.union_of(whole.idle.values())
    assert all((it - idle).length_ps == 0 for it in spans)
    if one.place == "between":
        return [it & whole.between for it in spans]
    return [it - whole.between for it in spans] if one.place == "inside" else spans


def test_every_share_is_the_accounts(recorded_run: str, shared_profile: Any) -> None:
    profile, document = read(shared_profile(recorded_run))
    for one in statements(document):
        assert one.percent == pytest.approx(owned(profile, one), abs=1e-9), one


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


def accounted(profile: ProfileData) -> list[tuple[str, int | None]]:
    found = []
    for host in profile.hosts:
        mine = profile.derived(host, account)
        if not isinstance(mine, Unavailable):
            found += [(host, device) for device in mine.rows["device"].unique()]
    return found


def test_nothing_is_called_well_while_something_fails(
    recorded_run: str, shared_profile: Any
) -> None:
    """A calm headline leaves no warning unsaid that may gain a tenth of the step."""
    _, document = read(shared_profile(recorded_run))
    said = document.headline
    assert "no check fails" not in said.text.lower()
    failing = by_cost(document.findings)
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
