"""Pod viewer: every worker's column for one step, and the card of one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "pod_viewer"


def test_one_column_for_each_worker_of_the_step(view: View, server: Server) -> None:
    view.go("pod_viewer", run="two_hosts", step="103")
    steps = server.show("two_hosts", TOOL)["data"]["steps"]
    step = next(each for each in steps if each["step"] == 103)
    columns = view.page.get_by_role("list", name="One column for each worker")
    assert columns.get_by_role("listitem").count() == len(step["workers"]) == 2
    assert "Step 103" in view.page.locator("figure h2").first.inner_text()
    slider = view.page.get_by_role("slider", name="Step")
    assert slider.get_attribute("aria-valuetext") == "step 103"


def test_the_card_follows_the_pointer(view: View, server: Server) -> None:
    view.go("pod_viewer", run="two_hosts", step="103")
    steps = server.show("two_hosts", TOOL)["data"]["steps"]
    workers = next(each for each in steps if each["step"] == 103)["workers"]
    card = view.page.get_by_role("region", name="Breakdown of the worker")
    for worker in workers:
        column = view.page.get_by_role(
            "listitem", name=re.compile(f"^worker {worker['host']}:")
        )
        column.focus()
        assert card.locator("h3").inner_text().startswith(worker["host"])
        exact = card.locator(
            "[data-field='steps.workers.breakdown_ms.device_compute_32']"
        ).get_attribute("data-exact")
        told = worker["breakdown_ms"]["device_compute_32"]
        assert float(exact or "nan") == told
        assert told == pytest.approx(0.11 if worker["host"] == "b" else 0.1)


def test_the_slider_steps_over_real_step_numbers(view: View, server: Server) -> None:
    view.go("pod_viewer", run="two_hosts", step="103")
    view.page.get_by_role("slider", name="Step").focus()
    view.page.keyboard.press("ArrowRight")
    assert view.fragment["step"] == "104"
    assert "Step 104" in view.page.locator("figure h2").first.inner_text()
    view.page.keyboard.press("Home")
    first = server.show("two_hosts", TOOL)["data"]["steps"][0]["step"]
    assert view.fragment["step"] == str(first)


def test_one_worker_is_told_that_it_is_alone(view: View) -> None:
    view.go("pod_viewer", run="vector")
    assert "Only one worker was recorded" in view.page.locator("main").inner_text()


def test_the_headline_says_for_whom_the_others_waited(
    view: View, server: Server
) -> None:
    view.go("pod_viewer", run="two_hosts")
    slowest = server.show("two_hosts", TOOL)["data"]["slowest"]
    summary = view.page.get_by_role("region", name="Summary").inner_text()
    card = view.page.get_by_role("region", name="Breakdown of the worker")
    assert slowest["waited_for_ms"] is None
    assert summary.startswith(
        f"{slowest['host']}, device {slowest['device']} is the slowest worker, in "
    )
    # The card of the slowest worker is open from the first.
    assert card.locator("h3").inner_text().startswith(slowest["host"])


def test_workers_have_labels_as_short_as_tells_them_apart(view: View) -> None:
    view.go("pod_viewer", run="two_hosts", step="103")
    labels = view.page.locator(".columns [role=listitem] text").all_text_contents()
    assert sorted(labels) == ["b", "vm"]
