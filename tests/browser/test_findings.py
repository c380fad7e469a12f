"""Findings: verdicts and words as the report gives them, and the way to a cause."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

WORDS = {
    "pass": "Pass",
    "unconfirmed": "Not confirmed",
    "cannot_tell": "Cannot tell",
    "not_applicable": "Not applicable",
}
#: A fail is called by its severity.
SEVERITIES = {"critical": "Critical", "warn": "Warning", "info": "Note"}


def shown_status(finding: dict[str, Any]) -> str:
    """A pass of a rule that never failed on a recorded program is not shown as one."""
    is_seen = finding["calibrated"] or finding["status"] != "pass"
    return str(finding["status"]) if is_seen else "unconfirmed"


def unfold(view: View) -> None:
    """Open what is folded: cards of checks that pass or do not apply."""
    view.page.locator("details:has(article)").evaluate_all(
        "(all) => all.forEach((each) => (each.open = true))"
    )


@pytest.mark.sweep(every=4)
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
        said = WORDS.get(shown_status(finding), SEVERITIES[finding["severity"]])
        assert card.locator(".status").inner_text().endswith(f" {said}")
        if finding["status"] == "fail":
            said = card.inner_text()
            told_ways = [each["text"].replace("`", "") for each in finding["actions"]]
            assert any(way in said for way in told_ways)
        if finding["unavailable"]:
            assert card.inner_text().count(finding["unavailable"]["reason"]) == 1


def test_an_action_tells_the_step_after_it(view: View, server: Server) -> None:
    view.go("findings", run="busy_gpu", rule="launch.delay")
    said = view.page.locator("article.finding[data-id='launch.delay']").inner_text()
    (delay,) = (it for it in server.findings("busy_gpu") if it["id"] == "launch.delay")
    middles = {one["step_ms"]["mid"] for one in delay["predictions"]}
    (mid_ms,) = middles - {None}
    assert f"Then: a step of {mid_ms:.2f} ms, " in said
    assert f"Gain: a step of {mid_ms:.2f} ms, " in said


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
    finding = next(
        one
        for one in server.findings("keras")
        if one["refute"] and one["threshold"] and one["status"] == "fail"
    )
    view.go("findings", run="keras", rule=finding["id"])
    card = view.page.locator(f"article.finding[data-id='{finding['id']}']")
    card.locator("summary").click()
    said = card.inner_text()
    assert finding["refute"] in said
    # Words, not the fields of a record.
    assert f"{finding['threshold']['meaning']}; source: " in said
    assert "Threshold: unit" not in said
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
    view.click("link", "Show the stage in the graph")
    assert "Iterator::" in view.page.locator("main").inner_text()


def test_a_newcomer_finds_the_sequential_map(view: View) -> None:
    said = start(view, "sequential_map")
    assert "Input-bound" in said
    assert "num_parallel_calls" in said
    view.page.get_by_text("Why, and how certain").first.click()
    view.page.get_by_role("link", name="Reason and instructions").first.click()
    card = view.page.locator("article.finding[data-id='input.bound']")
    card.get_by_role("link", name="tf.data").click()
    view.settle()
    assert "The bottleneck is Map" in view.page.locator("main").inner_text()
    assert "Map" in view.page.locator(".node.bottleneck").inner_text()


@pytest.mark.profiles
def test_a_newcomer_finds_the_launches(view: View) -> None:
    said = start(view, "launch_bound")
    assert "The host cannot feed the device: 86.8 %" in said
    # Keras's step is a graph already.
    assert "Let the compiler fuse the ops of the graph" in said
    view.page.get_by_text("Why, and how certain").first.click()
    view.page.get_by_role("link", name="Reason and instructions").first.click()
    card = view.page.locator("article.finding[data-id='launch.delay']")
    card.get_by_role("link", name="Overview").click()
    view.settle()
    field = "breakdown_ms.kernel_launch"
    assert view.values()[field][1] == "9.49 ms"


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("page", ["findings", "overview_page"])
@pytest.mark.parametrize("run", ["keras", "vector", "eager"])
def test_the_page_opens_with_what_to_do(
    run: str, page: str, view: View, server: Server
) -> None:
    view.go(page, run=run)
    told = server.report(run)
    said = view.page.get_by_role("region", name="Headline").inner_text()
    assert said.startswith(told["headline"]["text"])
    items = view.page.locator("ol.first > li")
    grave = [
        one
        for one in told["findings"]
        if one["status"] == "fail"
        and one["severity"] != "info"
        and not one["explained_by"]
    ]
    assert items.count() == min(3, len(grave))
    labels = [one.locator("b").inner_text() for one in items.all()]
    leads = told["headline"]["finding"] is not None
    expected = ["Do first:" if leads else "First:", "Then:", "After that:"]
    assert labels == expected[: items.count()]
    for item in items.all():
        (finding,) = (
            one for one in grave if one["id"] == item.get_attribute("data-finding")
        )
        promises = ("It may save", "Predicted:")
        told_all = item.text_content() or ""
        is_promised = any(words in told_all for words in promises)
        assert is_promised == bool(finding["saving_ms"])
        assert item.locator(".badge").is_visible() == is_promised
        assert item.get_by_role("link", name="See it").is_visible()


@pytest.mark.parametrize("page", ["overview_page", "findings"])
def test_the_code_of_an_advice_is_copied(page: str, view: View, server: Server) -> None:
    view.page.add_init_script(
        """Object.defineProperty(navigator, 'clipboard', {get: () => ({
            writeText: (text) => { window.copied = text; return Promise.resolve(); }
        })});"""
    )
    view.go(page, run="keras")
    written = {
        action["code"] or action["env"]
        for finding in server.findings("keras")
        for action in finding["actions"]
    }
    line = view.page.locator("ol.first .to-copy").first
    line.get_by_role("button").click()
    line.get_by_role("status").filter(has_text="Copied").wait_for()
    copied = view.page.evaluate("window.copied")
    assert copied == line.locator("code").inner_text()
    assert copied in written


def test_the_verdict_leads_to_its_check(view: View, server: Server) -> None:
    view.go("overview_page", run="keras")
    view.page.get_by_text("Why, and how certain").first.click()
    view.page.get_by_role("link", name="Reason and instructions").first.click()
    view.settle()
    first = server.report("keras")["headline"]["finding"]
    assert view.fragment["page"] == "findings"
    assert view.fragment["rule"] == first
    shown = view.page.locator("article.finding:visible").first
    assert shown.get_attribute("data-id") == first


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("run", ["keras", "vector", "eager"])
def test_the_checklist_is_a_line_for_each_stage(
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
        counts = Counter(
            one["severity"] if one["status"] == "fail" else shown_status(one)
            for one in mine
        )
        for kind, word in (WORDS | SEVERITIES).items():
            found = re.search(rf"(\d+) {word.lower()}s?\b", line)
            assert int(found[1] if found else 0) == counts[kind], (kind, line)
        assert stage.locator("article.finding:visible").count() == 0
        stage.locator("summary").first.click()
        for finding in mine:
            card = stage.locator(f"article.finding[data-id='{finding['id']}']")
            open_ = finding["status"] in ("fail", "cannot_tell")
            settled = all(one["status"] not in ("fail", "cannot_tell") for one in mine)
            assert card.is_visible() == (open_ or settled)


def test_evidence_is_a_click_away(view: View, server: Server) -> None:
    view.go("findings", run="sequential_map", rule="input.bound")
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
    view.go("findings", run="sequential_map", rule="input.bound")
    card.locator(".evidence li").first.get_by_role("link", name="op ").click()
    view.settle()
    assert view.fragment["op"] == "IteratorGetNext"
    assert "IteratorGetNext" in view.page.locator("main").inner_text()


def test_evidence_is_seen_on_the_timeline(view: View, server: Server) -> None:
    view.go("findings", run="sequential_map", rule="input.bound")
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


def test_a_healthy_run_says_that_and_what_it_rests_on(
    view: View, server: Server
) -> None:
    view.go("findings", run="jax")
    passed = sum(one["status"] == "pass" for one in server.findings("jax"))
    told = view.page.get_by_role("region", name="Headline").locator(".healthy")
    assert f"No check found anything to fix: {passed} checks pass" in told.inner_text()
    view.go("findings", run="keras")
    assert told.count() == 0
