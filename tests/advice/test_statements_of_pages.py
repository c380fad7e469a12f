"""What every page and the text of the report say of time, held against the account.

Beside `test_statements`: the pod viewer, each host, each step, each device of the input
page, the phases, and the numbers that people read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.advice.test_statements import SILENCE
from tests.support.results.statements import (
    EVERY,
    Statement,
    on_device,
    owned,
    owners_in,
    read,
)

from stepscope.advice.catalogue import OWNERS_OF
from stepscope.derive.step_time.owners import BUSY_OWNERS, CATEGORIES
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.findings import doubt_parts
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.reporting.text import pod
from stepscope.reporting.text.pod import pod_outline
from stepscope.reporting.words.names import CATEGORY_NAMES, time_heading
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.derive.profile_data import ProfileData
    from stepscope.reporting.document import Document

#: Shares are written with one decimal, and small ones as "<0.1 %".
WRITTEN = 0.051
BAR = re.compile(r"^  (\S.*?) +[\d.,]+ (?:ns|µs|ms|s|min|h) +([<>]?[\d.]+) %")
PART = re.compile(r"^(.*) ([<>]?[\d.]+) %$")


def of_categories(
    profile: ProfileData,
    by: str,
    host: str,
    device: int | str | None,
    percents: Mapping[str, float | None],
    *,
    window: int | None = None,
) -> Iterator[Statement]:
    """What somebody says of each category of a host, or of one of its devices."""
    device_side = on_device(profile, host)
    for category, percent in percents.items():
        if percent is not None:
            owners = owners_in(category, on_device=device_side)
            yield Statement(by, host, device, owners, "any", percent, window)


def percents_of(parts: Mapping[str, float], whole: float) -> dict[str, float]:
    return {name: 100 * part / whole for name, part in parts.items() if whole}


def of_hosts(profile: ProfileData, document: Document) -> Iterator[Statement]:
    overview = document.overview
    if isinstance(overview, Unavailable):
        return
    for host in overview.by_host:
        summary = host.summary
        yield from of_categories(
            profile, "by_host", host.host, EVERY, summary.breakdown_percent
        )
        whole = sum(summary.breakdown_ms.values())
        for owner, percent in percents_of(summary.breakdown_detail_ms, whole).items():
            yield Statement("by_host", host.host, EVERY, (owner,), "any", percent)


def of_steps(profile: ProfileData, document: Document) -> Iterator[Statement]:
    overview = document.overview
    if isinstance(overview, Unavailable):
        return
    rows: dict[str, int] = {}
    for step in overview.steps:
        window = rows[step.host] = rows.get(step.host, -1) + 1
        percents = percents_of(step.breakdown_ms, step.duration_ms)
        yield from of_categories(
            profile, "steps", step.host, EVERY, percents, window=window
        )


def of_input(_: ProfileData, document: Document) -> Iterator[Statement]:
    found = document.input_pipeline
    if isinstance(found, Unavailable):
        return
    owners = {
        "input_percent": ("input", "copy_in"),
        "input_wait_percent": ("input",),
        "input_transfer_percent": ("copy_in",),
    }
    for row in found.devices.iter_rows(named=True):
        for field, mine in owners.items():
            if row[field] is not None:
                copies = field == "input_transfer_percent"
                yield Statement(
                    *(field, row["host"], row["device"], mine, "any", row[field]),
                    topics=() if copies else SILENCE,
                )


def of_workers(profile: ProfileData, _: Document) -> Iterator[Statement]:
    found = profile.tool("pod_viewer")
    if isinstance(found, Unavailable):
        return
    for worker in found.workers:
        percents = percents_of(worker.breakdown_ms, worker.total_ms)
        yield from of_categories(
            profile, "pod_viewer", worker.host, worker.device, percents
        )


#: What the report writes before the parts of a category.
OF_IT = "of it "
EVERYWHERE = (of_hosts, of_steps, of_input, of_workers)


@pytest.mark.parametrize("page", EVERYWHERE)
def test_every_share_of_a_page_is_the_accounts(
    recorded_run: str, shared_profile: Any, page: Any
) -> None:
    profile, document = read(shared_profile(recorded_run))
    for one in page(profile, document):
        assert one.percent == pytest.approx(owned(profile, one), abs=1e-6), one


def test_the_phases_add_up_to_compute(recorded_run: str, shared_profile: Any) -> None:
    profile, document = read(shared_profile(recorded_run))
    overview = document.overview
    if isinstance(overview, Unavailable) or overview.phases_ms is None:
        return  # no phases are told of this run
    if len(overview.by_host) != 1:
        return  # phases of several hosts are means over all of them
    (host,) = overview.by_host
    told = sum(part for part in overview.phases_ms.values() if part is not None)
    compute = tuple(owner for owner in BUSY_OWNERS if owner.startswith("compute"))
    owners = compute if on_device(profile, host.host) else ("host_compute",)
    mean = sum(host.summary.breakdown_ms.values())
    one = Statement("phases", host.host, EVERY, owners, "any", 100 * told / mean)
    assert one.percent == pytest.approx(owned(profile, one), abs=1e-6), one


def test_waiting_for_a_batch_is_input_or_hidden(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    found = document.input_pipeline
    if isinstance(found, Unavailable) or found.consumer_wait is None:
        return  # nothing tells how long the program waited for batches
    wait = found.consumer_wait
    assert 0 <= wait.exposed_ms <= wait.total_ms + 1e-9
    if wait.hidden_ms is not None:
        assert wait.hidden_ms + wait.exposed_ms == pytest.approx(wait.total_ms)


def number(text: str) -> float:
    return 0.05 if text.startswith("<") else float(text.removeprefix(">"))


def test_the_bars_and_their_parts_are_the_accounts(
    recorded_run: str, shared_profile: Any
) -> None:
    profile, document = read(shared_profile(recorded_run))
    overview = document.overview
    if isinstance(overview, Unavailable) or len(overview.by_host) != 1:
        return  # bars of several hosts are means over all of them
    (host,) = profile.hosts
    device_side = on_device(profile, host)
    titles = {title: name for name, title in CATEGORY_NAMES.items()}
    # The category has this title if the width of most of its time is unknown.
    titles["Device compute, unknown"] = "device_compute_32"
    lines = plain_text(as_text.render(report_outline(document), width=400)).splitlines()
    begin = lines.index(time_heading(overview.window))
    told, category = set(), ""
    for line in lines[begin + 1 : lines.index("", begin)]:
        bar = BAR.match(line)
        if bar and bar[1] in titles:
            category = titles[bar[1]]
            told.add(category)
            owners = owners_in(category, on_device=device_side)
            one = Statement("text", host, EVERY, owners, "any", number(bar[2]))
            assert one.percent == pytest.approx(owned(profile, one), abs=WRITTEN), line
        elif line.strip().startswith(OF_IT):
            words = {word: name for name, word in OWNERS_OF[category].items()}
            if not device_side and category == "other":
                words |= {word: name for name, word in OWNERS_OF[PEERS].items()}
            for said in re.split(r", | and ", line.strip().removeprefix(OF_IT)):
                part = PART.match(said)
                assert part is not None, said
                owner, percent = (words[part[1]],), number(part[2])
                one = Statement("text", host, EVERY, owner, "any", percent)
                assert percent == pytest.approx(owned(profile, one), abs=WRITTEN)
    for category in set(CATEGORIES) - told:
        owners = owners_in(category, on_device=device_side)
        left_out = Statement("text", host, EVERY, owners, "any", 0.0)
        assert owned(profile, left_out) == 0.0, category


PEERS = "device_collectives"


def test_the_first_sentence_and_the_findings_write_their_own_shares(
    recorded_run: str, shared_profile: Any
) -> None:
    """A share that a sentence writes is one of the numbers that stand behind it."""
    _, document = read(shared_profile(recorded_run))
    said = document.headline
    if said.percent is not None and said.finding is None:
        written = [number(one) for one in re.findall(r"([<>]?[\d.]+) %", said.text)]
        assert any(abs(one - said.percent) <= WRITTEN for one in written), said.text


#: From this share on, time that nobody explains needs a way to explain it.
UNEXPLAINED = 5
WAYS = (
    "To name the unexplained time: ",
    "Also record the program's functions",
    "Annotate the program's work",
    "Copy the whole file again",
)


def test_time_without_an_owner_comes_with_what_would_name_it(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    overview = document.overview
    if isinstance(overview, Unavailable):
        return
    whole = sum(overview.breakdown_ms.values())
    unknown = overview.breakdown_detail_ms.get("unexplained") or 0.0
    if 100 * unknown <= UNEXPLAINED * whole:
        return
    text = " ".join(
        plain_text(as_text.render(report_outline(document), width=100)).split()
    )
    assert any(way in text for way in WAYS)


def test_the_text_of_the_pod_viewer_is_the_accounts(
    recorded_run: str, shared_profile: Any
) -> None:
    profile, _ = read(shared_profile(recorded_run))
    found = profile.tool("pod_viewer")
    if isinstance(found, Unavailable):
        return  # there is no pod to look at
    outline = pod_outline(found, title="pod", doubts=(), others=())
    text = as_text.render_page(outline, width=2000)
    lines = text.splitlines()
    (begin,) = (at for at, one in enumerate(lines) if one.startswith("  % of the step"))
    headers = re.split(r" {2,}", lines[begin].strip())[1:]
    of_header = {short: category for category, short in pod._SHORT.items()}
    for worker, line in zip(found.workers, lines[begin + 1 :], strict=False):
        if not line.strip():
            break
        cells = re.split(r" {2,}", line.strip())[1:]
        for header, cell in zip(headers, cells, strict=True):
            if cell == "–":
                continue
            owners = owners_in(
                of_header[header], on_device=on_device(profile, worker.host)
            )
            place = worker.host, worker.device
            one = Statement("text", *place, owners, "any", number(cell))
            assert one.percent == pytest.approx(owned(profile, one), abs=WRITTEN), line


def test_what_was_not_seen_is_a_handful_of_points(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    lines = as_text.render(tuple(doubt_parts(document)), width=100)
    points = [one for one in plain_text(lines).splitlines() if one.startswith("  • ")]
    assert len(points) <= 5
    # Nothing is left out without a word.
    unsure = [one.id for one in document.findings if one.status == "cannot_tell"]
    assert lines or not unsure
