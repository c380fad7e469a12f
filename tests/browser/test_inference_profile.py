"""Inference: the latency of requests, or why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "inference_profile"


def test_latencies_and_requests(view: View, server: Server) -> None:
    run = "requests"
    view.go("inference_profile", run=run)
    told = server.show(run, TOOL)["data"]
    fields = view.check_values(told)
    assert {"request_count", "latency_ms.p99", "throughput_per_s"} <= fields
    tables = view.check_tables(told, TOOL)
    # The slowest request stands first.
    assert tables == {"by_batch_size": 4, "requests": 100}
    slowest = view.page.locator("td[data-column=latency_ms]").first
    assert float(slowest.get_attribute("title") or "nan") == max(
        row["latency_ms"] for row in told["requests"]
    )


def test_all_requests_can_be_shown(view: View) -> None:
    view.go("inference_profile", run="requests")
    view.click("button", "Show more rows")
    table = view.page.get_by_role("group", name="requests", exact=True)
    assert table.locator("tbody tr").count() == 120


def test_a_training_run_says_why(view: View, server: Server) -> None:
    view.go("inference_profile", run="loop")
    why = server.show("loop", TOOL)["unavailable"]
    assert why["reason"] in view.page.locator(".absent").inner_text()


def test_the_histogram_counts_every_request(view: View, server: Server) -> None:
    view.go("inference_profile", run="requests")
    told = server.show("requests", "inference_profile")["data"]
    bins = view.page.locator(".histogram li")
    counts = [int(one.get_attribute("data-count") or "nan") for one in bins.all()]
    times = [row["latency_ms"] for row in told["requests"]]
    low, high = told["latency_ms"]["min"], told["latency_ms"]["max"]
    width = (high - low) / len(counts)
    places = [min(int((time - low) / width), len(counts) - 1) for time in times]
    assert counts == [places.count(place) for place in range(len(counts))]
    assert sum(counts) == told["request_count"] == 120
    marked = [at for at, one in enumerate(bins.all()) if "p50" in one.inner_text()]
    assert marked == [int((told["latency_ms"]["p50"] - low) / width)]
