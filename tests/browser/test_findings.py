"""Findings: verdicts and words as the report gives them, and the way to a cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

WORDS = {
    "fail": "Fail",
    "pass": "Pass",
    "cannot_tell": "Cannot tell",
    "not_applicable": "Not applicable",
}


def unfold(view: View) -> None:
    """Open what is folded: cards of checks that pass or do not apply."""
    view.page.locator("details:has(article)").evaluate_all(
        "(all) => all.forEach((each) => (each.open = true))"
    )


@pytest.mark.parametrize("run", ["keras", "loop", "eager", "vector", "two_hosts"])
def test_every_rule_is_listed_with_its_verdict(
    run: str, view: View, server: Server
) -> None:
    view.go("findings", run=run)
    unfold(view)
    cards = view.page.locator("article.finding")
    told = server.findings(run)
    assert cards.count() == len(told) > 0
    for finding in told:
        card = view.page.locator(f"article.finding[data-id='{finding['id']}']")
        assert card.count() == 1
        note = finding["status"] == "fail" and finding["severity"] == "info"
        said = "Note" if note else WORDS[finding["status"]]
        assert said in card.locator(".status").inner_text()
        if finding["status"] == "fail":
            said = card.inner_text()
            assert any(action["text"] in said for action in finding["actions"])
        if finding["unavailable"]:
            assert finding["unavailable"]["reason"] in card.inner_text()


def test_the_costliest_can_come_first(view: View, server: Server) -> None:
    view.go("findings", run="vector")
    view.page.get_by_label("Order").select_option("cost")
    shown = view.page.locator("article.finding").evaluate_all(
        "(all) => all.map((each) => each.dataset.id)"
    )
    cost = {each["id"]: each["ms_per_step"] or -1 for each in server.findings("vector")}
    assert [cost[name] for name in shown] == sorted(cost.values(), reverse=True)
    assert view.fragment["sort"] == "cost"


def test_evidence_and_refutation_unfold(view: View, server: Server) -> None:
    view.go("findings", run="keras")
    finding = next(one for one in server.findings("keras") if one["refute"])
    card = view.page.locator(f"article.finding[data-id='{finding['id']}']")
    card.locator("summary").click()
    said = card.inner_text()
    assert finding["refute"] in said
    for name in finding["inputs"]:
        assert name in said


def start(view: View, run: str) -> str:
    """The start page, no page chosen; what it says without a click."""
    view.go(run=run)
    return str(view.page.locator("main").inner_text())


@pytest.mark.profiles
def test_a_newcomer_finds_why_the_step_starves(view: View) -> None:
    said = start(view, "starved")
    assert "Input-bound: waiting for data takes 63.0 % of the time" in said
    view.click("link", "Input pipeline")
    assert "Preprocessing" in view.page.locator(".cards").inner_text()
    view.click("link", "See it in the graph")
    assert "Iterator::" in view.page.locator("main").inner_text()


def test_a_newcomer_finds_the_sequential_map(view: View) -> None:
    said = start(view, "sequential_map")
    assert "Input-bound" in said
    assert "num_parallel_calls" in said
    card = view.page.locator("article.finding[data-id='input.bound']")
    card.get_by_role("link", name="tf.data").click()
    view.settle()
    assert "The bottleneck is Map" in view.page.locator("main").inner_text()
    assert "Map" in view.page.locator(".node.bottleneck").inner_text()


@pytest.mark.profiles
def test_a_newcomer_finds_the_launches(view: View) -> None:
    said = start(view, "launch_bound")
    assert "The host cannot feed the device: 87.7 %" in said
    assert "Put the whole training step into one graph" in said
    card = view.page.locator("article.finding[data-id='launch.delay']")
    card.get_by_role("link", name="Overview").click()
    view.settle()
    field = "breakdown_ms.kernel_launch"
    assert view.values()[field][1] == "10.39 ms"


STATUSES = ("fail", "cannot_tell", "pass", "not_applicable")


@pytest.mark.parametrize("run", ["keras", "vector", "eager"])
def test_the_checklist_follows_the_guide_and_folds_what_is_settled(
    run: str, view: View, server: Server
) -> None:
    view.go("findings", run=run)
    told = server.findings(run)
    stages = view.page.locator(".stage")
    numbers = [int(one.get_attribute("data-stage") or -1) for one in stages.all()]
    assert numbers == sorted({finding["stage"] for finding in told})
    for stage, number in zip(stages.all(), numbers, strict=True):
        mine = [one for one in told if one["stage"] == number]
        line = stage.locator("h2").inner_text()
        notes = [one["status"] == "fail" and one["severity"] == "info" for one in mine]
        assert ("note" in line.replace("not applicable", "")) == any(notes)
        for status in STATUSES:
            count = sum(
                one["status"] == status and not note
                for one, note in zip(mine, notes, strict=True)
            )
            assert (WORDS[status].lower() in line) == bool(count)
            assert not count or str(count) in line
        for finding in mine:
            card = stage.locator(f"article.finding[data-id='{finding['id']}']")
            folded = finding["status"] in ("pass", "not_applicable")
            assert card.is_visible() == (not folded)


def test_what_is_folded_opens_with_a_click(view: View, server: Server) -> None:
    view.go("findings", run="keras")
    passing = next(one for one in server.findings("keras") if one["status"] == "pass")
    card = view.page.locator(f"article.finding[data-id='{passing['id']}']")
    assert not card.is_visible()
    card.locator("xpath=ancestor::details[1]/summary").click()
    assert card.is_visible()


def test_evidence_is_a_click_away(view: View, server: Server) -> None:
    view.go("findings", run="sequential_map")
    card = view.page.locator("article.finding[data-id='input.bound']")
    ranges = card.locator(".evidence li")
    (finding,) = (
        one for one in server.findings("sequential_map") if one["id"] == "input.bound"
    )
    assert ranges.count() == len(finding["evidence"]) > 0
    words = ranges.first.inner_text()
    start_ms = finding["evidence"][0]["start_ps"] / 1e9
    assert f"{start_ms:,.3f} ms" in words
    ranges.first.get_by_role("link", name="step").click()
    view.settle()
    step = view.fragment["step"]
    assert f"Step {step}" in view.page.locator("main").inner_text()
    view.go("findings", run="sequential_map")
    card.locator(".evidence li").first.get_by_role("link", name="op ").click()
    view.settle()
    assert view.fragment["op"] == "IteratorGetNext"
    assert "IteratorGetNext" in view.page.locator("main").inner_text()


def test_evidence_is_seen_on_the_timeline(view: View, server: Server) -> None:
    view.go("findings", run="sequential_map")
    card = view.page.locator("article.finding[data-id='input.bound']")
    (finding,) = (
        one for one in server.findings("sequential_map") if one["id"] == "input.bound"
    )
    place = finding["evidence"][0]
    card.locator(".evidence li").first.get_by_role("link", name="in Trace").click()
    view.settle()
    assert view.page.locator("main h1").inner_text() == "Trace"
    shown = view.page.locator(".trace").evaluate(
        "(each) => [Number(each.dataset.begin), Number(each.dataset.end)]"
    )
    assert shown[0] <= place["start_ps"] < place["end_ps"] <= shown[1]
    assert (
        view.page.get_by_role("complementary", name="Selection")
        .get_by_role("heading", level=2)
        .is_visible()
    )
